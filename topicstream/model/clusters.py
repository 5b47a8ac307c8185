"""Documents under a model of clusters: log p(x, k) at the point estimates pi = E[pi], phi = E[phi]
(Hughes & Sudderth 2016).

log p(x, k) = log pi_k + sum_w x_w log p(w|k),      without the multinomial coefficient, which no
cluster changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels.arrays import Array, Doubles, Floats, Longs
from topicstream.kernels.digamma import exp, log
from topicstream.kernels.jit import kernel
from topicstream.model.topic_model import TopicModel


@kernel
def scores_of(
    indptr: Longs,
    rows: Longs,
    counts: Floats,
    base: Floats,
    beta: float,
    norms: Doubles,
    first: Doubles,
    work: Doubles,
    out: Doubles,
) -> None:
    """out[d] = first + sum over the cells of document d of x (log(base[row] + beta) - log norm),
    cell by cell.
    """
    for d in range(len(indptr) - 1):
        of = out[d]
        of[:] = first
        for i in range(indptr[d], indptr[d + 1]):
            row, x = base[rows[i]], np.float64(counts[i])
            for k in range(len(of)):
                work[k] = log(max(np.float64(row[k]) + beta, 1e-300)) - norms[k]
            for k in range(len(of)):
                of[k] += x * work[k]


@kernel
def log_sums(scores: Array, out: Doubles, shares: Floats) -> None:
    """out[d] = log sum_k exp(scores[d, k]) and shares[d, k] = exp(scores[d, k] - out[d]); shares:
    float32[D, K].
    """
    for d in range(len(out)):
        top, total = -np.inf, 0.0
        for k in range(scores.shape[1]):
            top = max(top, scores[d, k])
        for k in range(scores.shape[1]):
            total += exp(scores[d, k] - top)
        out[d] = top + log(total)
        for k in range(scores.shape[1]):
            shares[d, k] = exp(scores[d, k] - out[d])


class ClusterView:
    """The clusters of a model, ready for documents.  pi float64[K], mean shares of the points."""

    def __init__(
        self, sizes: np.ndarray, alpha: np.ndarray, norms: np.ndarray, beta: float
    ) -> None:
        self.pi = (sizes + alpha) / (sizes + alpha).sum()
        self._first, self._norms, self._beta = np.log(self.pi), np.log(norms), beta

    @classmethod
    def of(cls, model: TopicModel) -> ClusterView:
        """Those of a stored model."""
        assert model.cluster_sizes is not None
        return cls(model.cluster_sizes, model.alpha, model.norms, model.beta)

    def answer(
        self, indptr: np.ndarray, rows: np.ndarray, counts: np.ndarray, base: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """(log p(x) float64[D], p(k|x) float32[D, K]) of documents whose cells are of these rows of
        ``base``.
        """
        docs, topics = len(indptr) - 1, len(self.pi)
        scores, fit, shares = (
            np.empty((docs, topics)),
            np.empty(docs),
            np.empty((docs, topics), np.float32),
        )
        scores_of(
            indptr,
            rows,
            counts,
            base,
            self._beta,
            self._norms,
            self._first,
            np.empty(topics),
            scores,
        )
        log_sums(scores, fit, shares)
        return fit, shares
