"""The influence of whole documents on the coefficients of a regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FEW = 10
"""Documents (not their parts) that a level of a category needs for an interval or a star."""
DETERMINED = 1e-4
"""Least share of a direction of the coefficients that other documents must tell.

Below it one document alone determines the direction.
"""
CARRIED = 0.95
"""Share of the squares of an estimate's weights beyond which the documents that have it, fewer
than ``FEW``, carry the estimate alone."""


class WholeDocument(NamedTuple):
    """Parts that count as one document, in coordinates in which X'WX is the identity.

    Attributes
    ----------
    leverage
        Their part H of X'WX, float64[P, P].
    adjusted
        (I - H)^-1/2, which makes the variance of their score unbiased. Directions that they alone
        determine count as unchanged.
    """

    leverage: np.ndarray
    adjusted: np.ndarray

    @classmethod
    def from_rows(cls, whitened: np.ndarray, weights: np.ndarray) -> WholeDocument:
        """Compute the leverage of rows float64[D, P]."""
        part = (whitened.T * weights) @ whitened
        values, directions = np.linalg.eigh(np.eye(len(part)) - part)
        root = np.zeros(len(part))
        free = values > DETERMINED
        root[free] = values[free] ** -0.5
        return cls(part, (directions * root) @ directions.T)


def adjustments(whitened: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute the factor of ``WholeDocument.adjusted`` for whole documents, float64[D]."""
    remainder = 1.0 - weights * (whitened**2).sum(axis=1)
    return np.asarray(np.maximum(remainder, DETERMINED) ** -0.5)


class Influence:
    """Sums over documents that say what each linear combination of coefficients rests on.

    The robust variance of a combination is a sum of squares, one a document. If all residuals had
    one variance (working model), its mean and variance would follow from the leverages; the chi2
    of the same mean and variance has the degrees of freedom of Bell & McCaffrey (2002).

    Parameters
    ----------
    combinations
        float64[P, R], in the coordinates of the whitened design.
    pairs
        Hold a matrix for each combination, of which the variance over pairs of documents follows;
        otherwise that is taken at its least, as if leverage lay evenly in all P directions, and
        degrees of freedom are a little too many.
    """

    def __init__(self, combinations: np.ndarray, *, pairs: bool) -> None:
        self.combinations = combinations
        p, count = combinations.shape
        self._mean = np.zeros(count)
        self._squares = np.zeros(count)
        self._shared = np.zeros(count)
        self._shared_squares = np.zeros(count)
        self._pairs = np.zeros((count, p, p)) if pairs else None
        self._total = np.zeros(count)
        self._largest = np.zeros((FEW - 1, count))

    def add(
        self,
        whitened: np.ndarray,
        weights: np.ndarray,
        edges: np.ndarray,
        clusters: list[WholeDocument],
    ) -> None:
        """Add documents.

        Parameters
        ----------
        whitened
            float64[D, P], rows.
        edges
            Where documents begin.
        clusters
            The documents of the parts. Empty: one document a row.
        """
        across = weights[:, None] * (whitened @ self.combinations)
        self._add_carried(np.add.reduceat(across**2, edges[:-1]))
        if clusters:
            scores = [cluster.adjusted @ self.combinations for cluster in clusters]
            shifted = np.array(
                [c.leverage @ score for c, score in zip(clusters, scores, strict=True)]
            )
            own_part = (np.array(scores) * shifted).sum(axis=1)
            shared = (shifted**2).sum(axis=1)
            if self._pairs is not None:
                self._pairs += np.einsum("gpr,gqr->rpq", shifted, shifted, optimize=True)
        else:
            factors = across * adjustments(whitened, weights)[:, None]
            own_part = factors**2 / weights[:, None]
            shared = (whitened**2).sum(axis=1)[:, None] * factors**2
            for r in range(factors.shape[1] if self._pairs is not None else 0):
                shifted = whitened * factors[:, r, None]
                self._pairs[r] += shifted.T @ shifted  # type: ignore[index]
        self._mean += (own_part - shared).sum(axis=0)
        self._squares += ((own_part - shared) ** 2).sum(axis=0)
        self._shared += shared.sum(axis=0)
        self._shared_squares += (shared**2).sum(axis=0)

    def _add_carried(self, squares: np.ndarray) -> None:
        """Add the squares float64[G, R] of the documents' weights in the estimates."""
        self._total += squares.sum(axis=0)
        count = len(self._largest)
        candidates = np.concatenate((self._largest, squares))
        self._largest = np.partition(candidates, len(candidates) - count, axis=0)[-count:]

    def freedoms(self, most: int) -> np.ndarray:
        """Compute the degrees of freedom of the robust variances, float64[R], 1 to ``most``."""
        if self._pairs is not None:
            together = (self._pairs**2).sum(axis=(1, 2))
        else:
            together = self._shared**2 / len(self.combinations)
        variance = self._squares + np.maximum(together - self._shared_squares, 0.0)
        known = variance > 0
        ratio = np.divide(self._mean**2, variance, out=np.ones_like(variance), where=known)
        return np.asarray(np.clip(ratio, 1.0, most))

    def carried(self) -> np.ndarray:
        """Tell which combinations fewer than ``FEW`` documents carry: bool[R]."""
        return np.asarray(self._largest.sum(axis=0) > CARRIED * self._total)
