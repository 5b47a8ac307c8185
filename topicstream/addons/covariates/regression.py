"""The effects of covariates on the shares of topics.

It is a regression with the uncertainty of the documents' topics in it.

Each topic's shares are regressed on the covariates by weighted least squares (Roberts, Stewart &
Tingley 2019, stm's ``estimateEffect``), with these changes:

- A document's share m is pulled to the prior's mean, by the factor n / (a + n) with n its tokens
  and a the sum of alpha. The regression uses what the words alone say, ((a + n) m - alpha) / n,
  which is unbiased, so effects in short documents are not too small; its weight is n / (a + n).
- Two variances are computed, and the wider of the two intervals counts. Most shares are near 0, a
  few large, and each variance alone is too sure of something. The robust one lets groups spread
  differently: CR2 of Bell & McCaffrey (2002), HC2 for whole documents, with Student's degrees of
  freedom by their approximation; it is far too small where the few documents of a group all have
  a share near 0. The pooled one is the same for all documents (parts of one document share a
  random effect); it is too small where a group spreads more than the others.
- Whole terms, such as a curve, have an F test for each of the two variances, and the larger p
  counts: the classical one, and for the robust variance that of Box (1954), which compares the sum
  of squares with its expectation.
- To both comes the variance between draws of the documents' topics from their posterior (the
  method of composition, Tanner 1996), which for a Dirichlet has a closed form: A X'W diag(v) WX A
  with A = (X'WX)^-1 and v the posterior variance. No draws are made.
- Documents are read once; their shares wait in a scratch file for the residuals.

docs/internals/decisions/effects.md has the level and the coverage in simulations on real shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, stdtrit

from topicstream.addons.covariates.influence import Influence, WholeDocument, adjustments
from topicstream.base.errors import InputError

LEVEL = 0.95
"""Confidence level of every interval."""
AT_ONCE = 1 << 20
"""Entries at most of an array over documents that is held."""
SINGULAR = 1e-7
"""Share of a column's sum of squares that those before it leave unexplained, below which it is left
out: the normal equations square the condition of the design, and at 1e-9 standard errors lost all
their digits."""


class FTest(NamedTuple):
    """A test that several coefficients are all zero: F, its degrees of freedom, and p."""

    f: float
    df1: float
    df2: float
    p: float


class Estimated(NamedTuple):
    """Linear combinations of coefficients, float64[R, K] each but the last.

    Attributes
    ----------
    estimate, error
        The estimates and their standard errors.
    freedom
        Student's degrees of freedom of the interval.
    carried
        bool[R], True if fewer than ``FEW`` documents carry the estimate.
    """

    estimate: np.ndarray
    error: np.ndarray
    freedom: np.ndarray
    carried: np.ndarray


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
    pooled, robust
        float64[K, P, P], covariances of the coefficients with one variance for all documents, and
        from the residuals of each document.
    freedoms
        float64[P], degrees of freedom of the robust variances.
    carried
        bool[P], coefficients that fewer than ``FEW`` documents carry.
    documents, clusters
        Documents that it was fitted to, and whole documents that these are parts of.
    """

    columns: list[str]
    used: np.ndarray
    estimates: np.ndarray
    pooled: np.ndarray
    robust: np.ndarray
    freedoms: np.ndarray
    carried: np.ndarray
    documents: int
    clusters: int

    @property
    def names(self) -> list[str]:
        """Return the names of the P coefficients."""
        return [self.columns[i] for i in self.used]

    @property
    def left_out(self) -> list[str]:
        """Return the columns without a coefficient."""
        return [name for i, name in enumerate(self.columns) if i not in self.used]

    @property
    def residual_freedom(self) -> int:
        """Return the degrees of freedom of the pooled variance."""
        return self.clusters - len(self.used)

    @cached_property
    def _errors_and_freedoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Choose the wider of two intervals for each coefficient."""
        pooled = np.diagonal(self.pooled, axis1=1, axis2=2).T
        robust = np.diagonal(self.robust, axis1=1, axis2=2).T
        return choose_wider(pooled, robust, self.residual_freedom, self.freedoms[:, None])

    @property
    def errors(self) -> np.ndarray:
        """Return the standard errors, float64[P, K]."""
        return np.asarray(self._errors_and_freedoms[0])

    @property
    def error_freedoms(self) -> np.ndarray:
        """Return the degrees of freedom of the intervals, float64[P, K]."""
        return np.asarray(self._errors_and_freedoms[1])

    @property
    def reaches(self) -> np.ndarray:
        """Return the half-widths of the 95 % intervals, float64[P, K]."""
        return np.asarray(self.errors * reach(self.error_freedoms))

    def test(self, places: Sequence[int], topic: int) -> FTest:
        """Test that the coefficients at some places are all zero for a topic.

        The squares of the estimates in units of the pooled covariance are compared with their
        number, as usual, and with their expectation under the robust covariance (Box 1954); the
        larger p counts.
        """
        estimates = self.estimates[places, topic]
        count = len(places)
        values, directions = np.linalg.eigh(self.pooled[topic][np.ix_(places, places)])
        free = values > 0
        unit = directions[:, free] / np.sqrt(values[free])
        squares = float(((estimates @ unit) ** 2).sum())
        classical = _f_test(squares, count, count, self.residual_freedom)
        relative = unit.T @ self.robust[topic][np.ix_(places, places)] @ unit
        expected = float(np.trace(relative))
        if expected <= 0:
            return classical
        freedom = expected**2 / float((relative**2).sum())
        robust = _f_test(squares, expected, freedom, self.residual_freedom)
        return max(classical, robust, key=lambda test: test.p)


def _f_test(squares: float, expected: float, df1: float, df2: float) -> FTest:
    """Compare a sum of squares with its expectation by an F test."""
    f = squares / expected
    return FTest(f, df1, df2, float(fdtrc(df1, df2, f)))


def reach(freedom: ArrayLike) -> np.ndarray:
    """Return the half-width of a 95 % interval, in standard errors (Student's)."""
    return np.asarray(stdtrit(freedom, 0.5 + LEVEL / 2))


def choose_wider(
    pooled: ArrayLike, robust: ArrayLike, pooled_freedom: ArrayLike, robust_freedom: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Choose of two variances the one with the wider 95 % interval.

    A variance of few documents is often far too small where most shares are near 0, and one
    variance pooled over groups is too small for a group that spreads more than the others.

    Parameters
    ----------
    pooled, robust
        Variances of the estimates: one for all documents, and by the residuals of the documents
        that each rests on.
    pooled_freedom, robust_freedom
        Their degrees of freedom. The robust variance of a group's mean has one less than the
        group has documents.

    Returns
    -------
    tuple
        Standard errors, and the degrees of freedom that go with each.
    """
    pooled_error = np.sqrt(np.maximum(0.0, pooled))
    robust_error = np.sqrt(np.maximum(0.0, robust))
    is_robust = robust_error * reach(robust_freedom) > pooled_error * reach(pooled_freedom)
    return np.where(is_robust, robust_error, pooled_error), np.where(
        is_robust, robust_freedom, pooled_freedom
    )


def select_independent(products: np.ndarray) -> np.ndarray:
    """Select the columns of a matrix X that those before them do not determine.

    Parameters
    ----------
    products
        X'X, float64[P, P].

    Returns
    -------
    numpy.ndarray
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


class PooledSpread:
    """Sums over the residuals that give one variance for all documents.

    Whole documents have the residual variance of least squares. Parts of a document share a random
    effect: the variance within documents is that of the parts around their mean, the one between
    them what the documents' means vary beyond it.
    """

    def __init__(self, coefficients: int, topics: int) -> None:
        self._squares = np.zeros(topics)
        self._within = np.zeros(topics)
        self._between = np.zeros(topics)
        self._inverse_weights = 0.0
        self._sums = np.zeros((coefficients, coefficients))

    def add(
        self, whitened: np.ndarray, weights: np.ndarray, edges: np.ndarray, residuals: np.ndarray
    ) -> None:
        """Add documents: rows float64[D, P] and residuals float64[D, K] that begin at the edges."""
        starts = edges[:-1]
        weighted = weights[:, None] * residuals
        sizes = np.add.reduceat(weights, starts)
        means = np.add.reduceat(weighted, starts) / sizes[:, None]
        squares = (weighted * residuals).sum(axis=0)
        self._squares += squares
        self._within += squares - (sizes[:, None] * means**2).sum(axis=0)
        self._between += (means**2).sum(axis=0)
        self._inverse_weights += float((1.0 / sizes).sum())
        sums = np.add.reduceat(weights[:, None] * whitened, starts)
        self._sums += sums.T @ sums

    def covariances(self, documents: int, clusters: int) -> np.ndarray:
        """Compute the covariances of the whitened coefficients, float64[K, P, P]."""
        unit = np.eye(len(self._sums))
        freedom = clusters - len(unit)
        if documents == clusters:
            return (self._squares / freedom)[:, None, None] * unit
        within = np.maximum(self._within, 0.0) / (documents - clusters)
        around = self._inverse_weights / clusters * within
        between = np.maximum(self._between / freedom - around, 0.0)
        return within[:, None, None] * unit + between[:, None, None] * self._sums


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
        p = len(names)
        k = len(alpha)
        self._names = list(names)
        self._alpha = np.asarray(alpha, np.float64)
        self._alpha_sum = alpha_sum
        self.documents = 0
        self.clusters = 0
        self._last = ""
        self._xx = np.zeros((p, p))
        self._xy = np.zeros((p, k))
        self._between = np.zeros((k, p, p))
        self._scratch = scratch
        self._sizes = [0]

    def add(
        self, design: np.ndarray, shares: np.ndarray, tokens: np.ndarray, wholes: Sequence[str]
    ) -> None:
        """Add documents.

        Parameters
        ----------
        design
            float64[D, P], rows of the design.
        shares
            float[D, K].
        tokens
            float64[D], above 0.
        wholes
            Names of the documents that they are parts of (or their own), consecutive.
        """
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
        # these belong to what the documents before end with
        goes_on = int(np.append(begins, True).argmax())
        self._sizes[-1] += goes_on
        if goes_on < len(y):
            self._sizes.append(len(y) - goes_on)
        self.documents += len(y)
        self.clusters += int(begins.sum())
        self._scratch.write(
            np.column_stack((weights, begins, design, y)).astype(np.float32).tobytes()
        )

    @cached_property
    def _used_columns(self) -> np.ndarray:
        """Select the columns that those before them do not determine."""
        return select_independent(self._xx)

    @cached_property
    def _root(self) -> np.ndarray:
        """Compute the root, float64[P, P], by which design @ root whitens: X'WX is the identity."""
        xx = self._xx[np.ix_(self._used_columns, self._used_columns)]
        scale = np.sqrt(np.diagonal(xx))
        values, directions = np.linalg.eigh(xx / scale[:, None] / scale)
        return np.asarray(directions / np.sqrt(values) / scale[:, None])

    def fit(self) -> Coefficients:
        """Estimate the coefficients.

        A column that those before it determine is left out, as R's ``lm`` does.

        Raises
        ------
        InputError
            Where there are too few documents.
        """
        if self.clusters <= len(self._xy):
            raise InputError(
                f"{self.clusters} documents have all covariates, too few for {len(self._xy)} "
                f"coefficients; drop a term"
            )
        used = self._used_columns
        root = self._root
        estimates = root @ (root.T @ self._xy[used])
        spread = PooledSpread(len(used), len(self._alpha))
        influence = Influence(root.T, pairs=True)
        robust = np.zeros((len(self._alpha), len(used), len(used)))
        for weights, design, y, edges in self._stored(len(used)):
            whitened = design[:, used] @ root
            residuals = y - design[:, used] @ estimates
            clusters = self._clusters_of(whitened, weights, edges)
            spread.add(whitened, weights, edges, residuals)
            influence.add(whitened, weights, edges, clusters)
            scale = weights if clusters else weights * adjustments(whitened, weights)
            _add_squares(robust, whitened, scale[:, None] * residuals, edges, clusters)
        drawn = root.T @ self._between[:, used][:, :, used] @ root
        pooled = spread.covariances(self.documents, self.clusters) + drawn
        return Coefficients(
            self._names,
            used,
            estimates,
            root @ pooled @ root.T,
            root @ (robust + drawn) @ root.T,
            influence.freedoms(self.clusters - len(used)),
            influence.carried(),
            self.documents,
            self.clusters,
        )

    def predict(self, fitted: Coefficients, rows: np.ndarray) -> Estimated:
        """Predict shares at rows of a design float64[R, columns], in another pass."""
        rows = rows[:, self._used_columns]
        influence = Influence(self._root.T @ rows.T, pairs=False)
        for weights, design, _, edges in self._stored(len(rows)):
            whitened = design[:, self._used_columns] @ self._root
            influence.add(whitened, weights, edges, self._clusters_of(whitened, weights, edges))
        pooled, robust = (
            np.einsum("rp,kpq,rq->rk", rows, covariances, rows, optimize=True)
            for covariances in (fitted.pooled, fitted.robust)
        )
        freedoms = influence.freedoms(fitted.residual_freedom)[:, None]
        error, freedom = choose_wider(pooled, robust, fitted.residual_freedom, freedoms)
        return Estimated(rows @ fitted.estimates, error, freedom, influence.carried())

    def _clusters_of(
        self, whitened: np.ndarray, weights: np.ndarray, edges: np.ndarray
    ) -> list[WholeDocument]:
        """Group parts by their documents, or return none if every document is whole."""
        if self.documents == self.clusters:
            return []
        return [WholeDocument.from_rows(whitened[a:b], weights[a:b]) for a, b in pairwise(edges)]

    def _stored(
        self, combinations: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Read the documents of the scratch file again, in pieces.

        Parameters
        ----------
        combinations
            Combinations of coefficients for which a piece is sized.

        Yields
        ------
        tuple
            Weights, design, shares, and the rows where whole documents begin and the last ends.
        """
        p, k = self._xy.shape
        width = max(p, k, combinations) * (1 if self.documents == self.clusters else p)
        self._scratch.seek(0)
        for size in filter(None, self._sizes):
            data = self._scratch.read(4 * size * (2 + p + k))
            rows = np.frombuffer(data, np.float32).reshape(size, 2 + p + k).astype(np.float64)
            edges = np.append(np.flatnonzero(rows[:, 1]), size)
            at_once = max(1, AT_ONCE // width)
            for first in range(0, len(edges) - 1, at_once):
                some = edges[first : first + at_once + 1]
                part = rows[some[0] : some[-1]]
                yield part[:, 0], part[:, 2 : 2 + p], part[:, 2 + p :], some - some[0]


def _add_squares(
    total: np.ndarray,
    whitened: np.ndarray,
    weighted: np.ndarray,
    edges: np.ndarray,
    clusters: list[WholeDocument],
) -> None:
    """Add the squares of the documents' adjusted scores to ``total``, float64[K, P, P].

    ``weighted`` holds weighted residuals, float64[D, K].
    """
    for k in range(len(total)):
        scores = np.add.reduceat(whitened * weighted[:, k, None], edges[:-1])
        if clusters:
            scores = np.array([c.adjusted @ s for c, s in zip(clusters, scores, strict=True)])
        total[k] += scores.T @ scores
