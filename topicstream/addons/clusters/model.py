"""Documents and points under a model of clusters.

log p(x, k) at the point estimates pi = E[pi], phi = E[phi] (Hughes & Sudderth 2016):

log p(x, k) = log pi_k + sum_w x_w log p(w|k),

without the multinomial coefficient, which no cluster changes. For Gaussian components, the density
of points.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from topicstream.addons.clusters.gaussian_density import Densities, log_density, point_densities
from topicstream.base.errors import StoreError
from topicstream.base.machine import one_blas_thread
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, RowCells
from topicstream.numeric.kernels.dirichlet import exp, log, logs
from topicstream.numeric.kernels.jit import kernel


class ClusterWords(NamedTuple):
    """Counts of the clusters' words, and the logarithms of their norms: log p(w|k).

    base float32[R, K];  norms float64[K], log (sum_w base + W beta)
    """

    base: Floats
    beta: float
    norms: Doubles


@kernel
def scores_of(
    cells: RowCells, words: ClusterWords, first: Doubles, work: Doubles, out: Doubles
) -> None:
    """Score documents under every cluster, cell by cell.

    out[d] = first + sum over the cells of document d of x (log(base[row] + beta) - log norm).
    """
    (indptr, rows, counts) = cells
    (base, beta, norms) = words
    for d in range(len(indptr) - 1):
        scores = out[d]
        scores[:] = first
        for i in range(indptr[d], indptr[d + 1]):
            row = base[rows[i]]
            x = np.float64(counts[i])
            for k in range(len(scores)):
                work[k] = log(max(np.float64(row[k]) + beta, 1e-300)) - norms[k]
            for k in range(len(scores)):
                scores[k] += x * work[k]


@kernel
def log_sums(scores: Array, out: Doubles, shares: Floats) -> None:
    """Compute log sum_k exp(scores[d, k]) and the shares of its terms.

    out[d] is the former, shares[d, k] = exp(scores[d, k] - out[d]), float32[D, K].
    """
    for d in range(len(out)):
        top = -np.inf
        total = 0.0
        for k in range(scores.shape[1]):
            top = max(top, scores[d, k])
        for k in range(scores.shape[1]):
            total += exp(scores[d, k] - top)
        out[d] = top + log(total)
        for k in range(scores.shape[1]):
            shares[d, k] = exp(scores[d, k] - out[d])


class ClusterView:
    """The clusters of a model, ready for documents.

    Attributes
    ----------
    pi
        Mean shares of the documents, float64[K].
    """

    def __init__(
        self, sizes: np.ndarray, alpha: np.ndarray, norms: np.ndarray, beta: float
    ) -> None:
        self.pi = (sizes + alpha) / (sizes + alpha).sum()
        self._first = logs(self.pi)
        self._norms = logs(norms)
        self._beta = beta

    @classmethod
    def of_model(cls, model: TopicModel) -> ClusterView:
        """Make the view of a stored model."""
        assert model.cluster_sizes is not None
        return cls(model.cluster_sizes, model.alpha, model.norms, model.beta)

    def answer(
        self, indptr: np.ndarray, rows: np.ndarray, counts: np.ndarray, base: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute log p(x), float64[D], and p(k|x), float32[D, K], of documents.

        Their cells refer to rows of ``base``.
        """
        docs = len(indptr) - 1
        topics = len(self.pi)
        scores = np.empty((docs, topics))
        fit = np.empty(docs)
        shares = np.empty((docs, topics), np.float32)
        scores_of(
            RowCells(indptr, rows, counts),
            ClusterWords(base, self._beta, self._norms),
            self._first,
            np.empty(topics),
            scores,
        )
        log_sums(scores, fit, shares)
        return fit, shares


POINTS = 4096
"""Points that are scored at a time."""


class GaussianModel:
    """A trained model of Gaussian components.

    Attributes
    ----------
    sizes, pi
        float64[K], points of the components and their mean shares.
    means
        float64[K, n].
    covariances
        float64[K, n, n], or [K, n] of diagonal ones.
    patches
        Width of the image patches that the points are. 0: none.
    """

    def __init__(self, path: str | Path) -> None:
        opened = TopicModel.open(path, memory_limit=-1, dense=True)
        self.path = Path(path)
        self.manifest = opened.manifest
        self.n = opened.n_words
        every = np.arange(opened.n_topics)
        self.sizes = opened.table("sizes").gather(every[:1])[0].astype(np.float64)
        self.means = opened.table("means").gather(every).astype(np.float64)
        covariances = opened.table("covariances").gather(every).astype(np.float64)
        self.covariances = (
            covariances
            if covariances.shape[1] == self.n
            else covariances.reshape(-1, self.n, self.n)
        )
        if (
            self.covariances.shape[1:] not in ((self.n,), (self.n, self.n))
            or self.means.shape[1] != self.n
        ):
            raise StoreError(
                f"{path}: its components are not of {self.n} numbers; restore the model or "
                f"train again"
            )
        weights = np.maximum(self.sizes, 0.0) + opened.alpha
        self.pi = weights / weights.sum()
        self.patches = self.manifest.patches or 0
        one_blas_thread()

    def answer(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute log p(x), float64[D], and p(k|x), float32[D, K], of points [D, n]."""
        return answer(x, self.joint)

    @cached_property
    def joint(self) -> Densities:
        """Prepare log p(x, k).

        Raises
        ------
        StoreError
            Where a covariance has no density.
        """
        with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
            density = joint_densities(self.means, self.covariances, self.pi)
            if (density.plus < np.inf).all() and (density.plus > -np.inf).any():
                return density
        raise StoreError(
            f"{self.path}: a covariance is not positive definite; restore the model or train again"
        )


def joint_densities(means: np.ndarray, covariances: np.ndarray, pi: np.ndarray) -> Densities:
    """Prepare log p(x, k) of point estimates."""
    components = point_densities(means, covariances)
    components.plus[:] += np.log(pi)
    return components


def answer(x: np.ndarray, components: Densities) -> tuple[np.ndarray, np.ndarray]:
    """Compute log p(x), float64[D], and p(k|x), float32[D, K], of points [D, n]."""
    fit = np.empty(len(x))
    shares = np.empty((len(x), len(components.plus)), np.float32)
    for first in range(0, len(x), POINTS):
        part = slice(first, first + POINTS)
        log_sums(log_density(x[part].astype(np.float64), components), fit[part], shares[part])
    return fit, shares
