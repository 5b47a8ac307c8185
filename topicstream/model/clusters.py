"""Documents under a model of clusters: log p(x, k) at the point estimates pi = E[pi], phi = E[phi] (Hughes & Sudderth 2016).

log p(x, k) = log pi_k + sum_w x_w log p(w|k),      without the multinomial coefficient, which no cluster changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels.cluster_scores import log_sums, scores_of
from topicstream.model.topic_model import TopicModel


class ClusterView:
    """The clusters of a model, ready for documents.  pi float64[K], mean shares of the points."""

    def __init__(self, sizes: np.ndarray, alpha: np.ndarray, norms: np.ndarray, beta: float) -> None:
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
        """(log p(x) float64[D], p(k|x) float32[D, K]) of documents whose cells are of these rows of ``base``."""
        docs, topics = len(indptr) - 1, len(self.pi)
        scores, fit, shares = np.empty((docs, topics)), np.empty(docs), np.empty((docs, topics), np.float32)
        scores_of(indptr, rows, counts, base, self._beta, self._norms, self._first, np.empty(topics), scores)
        log_sums(scores, fit, shares)
        return fit, shares
