"""What covariates explain of the shares of topics: a regression with the uncertainty of the
documents' topics in it.

Each topic's shares are regressed on the covariates by weighted least squares (Roberts, Stewart &
Tingley 2019, stm's ``estimateEffect``, with three changes):

- A document's share m is pulled to the prior's mean, by the factor n / (a + n) with n its tokens
and a the sum of alpha.  The
  regression uses what the words alone say, ((a + n) m - alpha) / n, which is unbiased, so effects
  in short documents are not too small; its weight is n / (a + n).
- The variance of a coefficient is the jackknife over documents, all parts of one together (HC3 of
MacKinnon & White 1985, CV3 of
  MacKinnon, Nielsen & Webb 2023): groups may differ in their spread, and a few dozen books are too
  few for the plain sandwich. To it comes the variance between draws of the documents' topics from
  their posterior (the method of composition, Tanner 1996),
  which for a Dirichlet has a closed form: A X'W diag(v) WX A with A = (X'WX)^-1 and v the posterior
  variance.  No draws are made.
- Documents are read once; their shares wait in a scratch file for the residuals.

docs/decisions/effects.md has the coverage of the intervals in simulations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from topicstream.errors import InputError

FEW = 10
"""Documents (not their parts) that a level of a category needs for an interval or a star."""

LEVEL = 0.95
"""Of every interval."""

SINGULAR = 1e-7
"""Share of a column's sum of squares that those before it leave unexplained, below which it is left
out: the normal equations square the condition of the design, and at 1e-9 standard errors lost all
their digits."""

DETERMINED = 1e-4
"""Of a direction of the coefficients, the share that the other documents tell, below which one
document alone determines it.
"""


@dataclass(frozen=True)
class Coefficients:
    """A fitted regression of every topic.

    Attributes
    ----------
    columns
        Names of the columns of the design.
    used
        int64[P], the columns with a coefficient; the others are determined by those before them.
    estimates
        float64[P, K].
    covariances
        float64[K, P, P].
    documents, clusters
        Documents that it was fitted to, and whole documents that these are parts of.
    """

    columns: list[str]
    used: np.ndarray
    estimates: np.ndarray
    covariances: np.ndarray
    documents: int
    clusters: int

    @property
    def names(self) -> list[str]:
        """Of the coefficients, P."""
        return [self.columns[i] for i in self.used]

    @property
    def left_out(self) -> list[str]:
        """Columns without a coefficient."""
        return [name for i, name in enumerate(self.columns) if i not in self.used]

    @property
    def errors(self) -> np.ndarray:
        """Standard errors float64[P, K]."""
        variances = np.diagonal(self.covariances, axis1=1, axis2=2).T
        return np.asarray(np.sqrt(np.maximum(0.0, variances)))

    @property
    def reach(self) -> float:
        """Standard errors from an estimate to the ends of its 95 % interval: Student's t, one
        degree of freedom less than clusters.
        """
        return float(reach(self.clusters - 1))

    def predict(self, design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares and their standard errors, float64[R, K], at the rows of a design float64[R,
        columns].
        """
        design = design[:, self.used]
        variances = np.einsum("rp,kpq,rq->rk", design, self.covariances, design)
        return design @ self.estimates, np.sqrt(np.maximum(0.0, variances))


def reach(freedom: ArrayLike) -> np.ndarray:
    """Count the standard errors from an estimate to the ends of its 95 % interval (Student's)."""
    return np.asarray(stdtrit(freedom, 0.5 + LEVEL / 2))


def wider(
    pooled: ArrayLike, own: ArrayLike, pooled_freedom: ArrayLike, own_freedom: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Choose of two variances the one with the wider 95 % interval.

    A variance of few documents is often far too small where most shares are near 0, and one
    variance pooled over groups is too small for a group that spreads more than the others.

    Parameters
    ----------
    pooled, own
        Variances of the estimates: pooled over all documents, and of the documents of each.
    pooled_freedom, own_freedom
        Their degrees of freedom; of a group's own variance, one less than it has documents.

    Returns
    -------
    tuple
        Standard errors, and the degrees of freedom that go with each.
    """
    pooled_error = np.sqrt(np.maximum(0.0, pooled))
    own_error = np.sqrt(np.maximum(0.0, own))
    is_own = own_error * reach(own_freedom) > pooled_error * reach(pooled_freedom)
    return np.where(is_own, own_error, pooled_error), np.where(is_own, own_freedom, pooled_freedom)


def independent(products: np.ndarray) -> np.ndarray:
    """Columns of a matrix X, given X'X float64[P, P], that those before them do not determine:
    int64[n], ascending.
    """
    used: list[int] = []
    for column in range(len(products)):
        size = products[column, column]
        across = products[used, column]
        explained = float(across @ np.linalg.solve(products[np.ix_(used, used)], across))
        if size > 0 and size - explained > SINGULAR * size:
            used.append(column)
    return np.array(used, np.int64)


def _without(turned: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(I - H)^-1, which makes of a document's score what it would change if the fit were without
    the document: float64[P, P].
    H is its part of X'WX, of rows float64[D, P] in coordinates in which that is I.  What it alone
    determines counts as unchanged."""
    part = (turned.T * weights) @ turned
    return np.asarray(np.linalg.pinv(np.eye(len(part)) - part, DETERMINED, hermitian=True))


class Regression:
    """Weighted least squares over a stream of documents.

    Parameters
    ----------
    names
        Of the coefficients: columns of the design.
    alpha, alpha_sum
        float64[K], the prior of the topics; the sum over all topics of the model, which may have
        more.
    scratch
        An empty file for the documents, 4 bytes for each coefficient and topic.
    """

    def __init__(
        self, names: Sequence[str], alpha: np.ndarray, alpha_sum: float, scratch: BinaryIO
    ) -> None:
        p, k = len(names), len(alpha)
        self._names, self._alpha, self._alpha_sum = (
            list(names),
            np.asarray(alpha, np.float64),
            alpha_sum,
        )
        self.documents = self.clusters = 0
        self._last = ""
        self._xx, self._xy = np.zeros((p, p)), np.zeros((p, k))
        self._between = np.zeros((k, p, p))
        self._scratch, self._sizes = scratch, [0]

    def add(
        self, design: np.ndarray, shares: np.ndarray, tokens: np.ndarray, wholes: Sequence[str]
    ) -> None:
        """Documents: rows of the design float64[D, P], their shares float[D, K] and tokens
        float64[D], above 0; the names of what they are parts of (or their own), one after the
        other."""
        # what the words alone say, without the pull of the prior; a little outside of 0 to 1 at
        # times
        y = ((self._alpha_sum + tokens)[:, None] * shares - self._alpha) / tokens[:, None]
        weights = tokens / (self._alpha_sum + tokens)
        weighted = design * weights[:, None]
        self._xx += weighted.T @ design
        self._xy += weighted.T @ y
        inside = np.clip(y, 0.0, 1.0)
        variances = inside * (1.0 - inside) / (tokens + 1.0)[:, None]
        self._between += np.einsum("dp,dk,dq->kpq", weighted, variances, weighted, optimize=True)
        names = np.array([self._last, *wholes], object)
        self._last = names[-1]
        begins = names[1:] != names[:-1]
        goes_on = int(
            np.append(begins, True).argmax()
        )  # these belong to what the documents before end with
        self._sizes[-1] += goes_on
        if goes_on < len(y):
            self._sizes.append(len(y) - goes_on)
        self.documents += len(y)
        self.clusters += int(begins.sum())
        self._scratch.write(
            np.column_stack((weights, begins, design, y)).astype(np.float32).tobytes()
        )

    def fit(self) -> Coefficients:
        """The coefficients.  A column that those before it determine is left out, as R's ``lm``
                              does; InputError where there
        are too few documents."""
        p = len(self._xy)
        if self.clusters <= p:
            raise InputError(
                f"{self.clusters} documents have all covariates, too few for {p} coefficients; "
                f"drop a term"
            )
        used = independent(self._xx)
        xx, xy = self._xx[np.ix_(used, used)], self._xy[used]
        scale = np.sqrt(np.diagonal(xx))
        values, directions = np.linalg.eigh(xx / scale[:, None] / scale)
        root = (
            directions / np.sqrt(values) / scale[:, None]
        )  # in the coordinates design @ root, X'WX is the identity
        estimates = root @ (root.T @ xy)
        middle = root.T @ self._between[:, used][:, :, used] @ root
        n, g = self.documents, self.clusters
        for weights, begins, every, y in self._stored():
            turned, edges = every[:, used] @ root, np.append(np.flatnonzero(begins), len(y))
            residuals = weights[:, None] * (y - every[:, used] @ estimates)
            if g == n:  # what ``_without`` comes to for a single row
                residuals /= np.maximum(1.0 - weights * (turned**2).sum(axis=1), DETERMINED)[
                    :, None
                ]
            spared = (
                None
                if g == n
                else [_without(turned[a:b], weights[a:b]) for a, b in pairwise(edges)]
            )
            for k in range(len(middle)):
                scores = np.add.reduceat(turned * residuals[:, k, None], edges[:-1])
                if spared is not None:
                    scores = np.einsum("gpq,gq->gp", spared, scores)
                middle[k] += (g - 1) / g * scores.T @ scores
        return Coefficients(self._names, used, estimates, root @ middle @ root.T, n, g)

    def _stored(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        p, k = self._xy.shape
        self._scratch.seek(0)
        for size in filter(None, self._sizes):
            data = self._scratch.read(4 * size * (2 + p + k))
            rows = np.frombuffer(data, np.float32).reshape(size, 2 + p + k).astype(np.float64)
            yield rows[:, 0], rows[:, 1], rows[:, 2 : 2 + p], rows[:, 2 + p :]
