"""The first words of every topic, by probability or by relevance, streamed over the table."""

from __future__ import annotations

import numpy as np

from topicstream.model.topic_model import TopicModel


def top_words(model: TopicModel, n: int, relevance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Ids int64[n, K] and scores float64[n, K] of the first n words of each topic, best first, ties by word id.

    The score is the relevance of Sievert & Shirley (2014), lambda log p(w|k) + (1 - lambda) log(p(w|k) / p(w)); with
    lambda = 1 (the default) the logarithm of the probability.  p(w) is the model's own, from the row sums of its table.
    """
    if not 0.0 <= relevance <= 1.0:
        raise ValueError(f"relevance lambda must lie in 0..1, not {relevance}")
    n = min(n, model.n_words)
    topics, words, beta = model.n_topics, model.n_words, model.beta
    log_norm = np.log(model.totals + words * beta)
    total = np.log(model.totals.sum() + words * topics * beta)
    scores = np.full((n, topics), -np.inf)
    ids = np.zeros((n, topics), np.int64)
    with np.errstate(divide="ignore"):
        for start, rows in model.spans():
            value = np.log(rows.astype(np.float64) + beta) - log_norm
            if relevance < 1.0:
                marginal = np.log(rows.sum(axis=1, dtype=np.float64) + topics * beta) - total
                value -= (1.0 - relevance) * marginal[:, None]
            row, column = np.nonzero(value > scores[-1])
            first = start == 0
            if first:  # words that no topic takes must not leave a hole: the first span fills the list
                row, column = (a.ravel() for a in np.indices(value.shape))
            fresh = (value[row, column], start + row, column)
            kept = (scores.ravel(), ids.ravel(), np.tile(np.arange(topics), n))
            if first:
                scores, ids = _best(*fresh, n, topics)
            elif len(row):
                value, word, column = (np.concatenate(pair) for pair in zip(kept, fresh, strict=True))
                scores, ids = _best(value, word, column, n, topics)
    return ids, scores


def _best(
    value: np.ndarray, word: np.ndarray, column: np.ndarray, n: int, topics: int
) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((word, -value, column))
    edges = np.searchsorted(column[order], np.arange(topics + 1))
    scores, ids = np.full((n, topics), -np.inf), np.zeros((n, topics), np.int64)
    rank = np.arange(len(order)) - edges[column[order]]
    kept = order[rank < n]
    scores[rank[rank < n], column[kept]] = value[kept]
    ids[rank[rank < n], column[kept]] = word[kept]
    return scores, ids
