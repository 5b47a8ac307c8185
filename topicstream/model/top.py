"""The first words of every topic, by probability or by relevance, streamed over the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from topicstream.model.topic_model import TopicModel

_LEAST = float(np.finfo(np.float64).min)  # in place of -inf, which marks empty places
LAMBDA_STEPS = 10
LEAST_LOG = -690.0
"""Logarithm for a word that a topic does not have, in a model without a prior."""


class Best:
    """The n highest entries of each column of a tall table that comes in pieces.

    Ties go to the lower row number.

    Parameters
    ----------
    n
        Entries of a column.
    columns
        Number of columns.

    Attributes
    ----------
    scores
        float64[n, columns], best first, -inf where fewer rows came.
    ids
        int64[n, columns], row numbers.
    """

    def __init__(self, n: int, columns: int) -> None:
        self.scores = np.full((n, columns), -np.inf)
        self.ids = np.zeros((n, columns), np.int64)

    def add(self, first: int, values: np.ndarray) -> None:
        """Merge rows ``first .. first + m - 1``, given as ``values`` [m, columns].

        Rows must come in ascending order.
        """
        n = len(self.scores)
        if n == 0:
            return
        enough = values > self.scores[-1].astype(values.dtype)
        # every value beats the empty places at first: sort only the n best of each column
        if np.count_nonzero(enough) > 8 * enough.shape[1] * n:
            enough &= values >= np.partition(values, len(values) - n, axis=0)[len(values) - n]
        row, column = np.nonzero(enough)
        if not len(row):
            return
        value = values[row, column].astype(np.float64)
        # later pieces change a few columns only
        hit, column = np.unique(column, return_inverse=True)
        value = np.concatenate((self.scores[:, hit].ravel(), np.maximum(value, _LEAST)))
        ids = np.concatenate((self.ids[:, hit].ravel(), first + row))
        column = np.concatenate((np.tile(np.arange(len(hit)), n), column))
        order = np.lexsort((ids, -value, column))
        edges = np.searchsorted(column[order], np.arange(len(hit)))
        rank = np.arange(len(order)) - edges[column[order]]
        best = order[rank < n]
        self.scores[rank[rank < n], hit[column[best]]] = value[best]
        self.ids[rank[rank < n], hit[column[best]]] = ids[best]


def _best_words(
    model: TopicModel, n: int, lambdas: Sequence[float]
) -> tuple[list[Best], np.ndarray]:
    """Rank the n best words of every topic for each lambda, streaming the table once.

    Relevance is lambda log p(w|k) + (1 - lambda) log(p(w|k) / p(w)) (Sievert & Shirley 2014). p(w)
    is the model's own, from the row sums of its table.

    Returns
    -------
    tuple
        The best words by lambda, and log p(w), float64[W].
    """
    topics = model.n_topics
    beta = model.beta
    best = [Best(min(n, model.n_words), topics) for _ in lambdas]
    log_norm = np.log(model.norms)
    marginal = np.empty(model.n_words)
    log_total = np.log(max(float(model.totals.sum()) + model.n_words * topics * beta, 1e-300))
    with np.errstate(divide="ignore"):
        for start, rows in model.spans():
            value = np.maximum(np.log(rows.astype(np.float64) + beta) - log_norm, LEAST_LOG)
            of_words = np.maximum(
                np.log(rows.sum(axis=1, dtype=np.float64) + topics * beta) - log_total, LEAST_LOG
            )
            marginal[start : start + len(rows)] = of_words
            for ranking, relevance in zip(best, lambdas, strict=True):
                ranking.add(start, value - (1.0 - relevance) * of_words[:, None])
    return best, marginal


def top_words(model: TopicModel, n: int, relevance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rank the first n words of each topic by relevance.

    The score is the relevance of Sievert & Shirley (2014), lambda log p(w|k) + (1 - lambda)
    log(p(w|k) / p(w)). With lambda = 1 (the default) it is the logarithm of the probability. p(w)
    is the model's own, from the row sums of its table.

    Parameters
    ----------
    relevance
        lambda, 0 to 1.

    Returns
    -------
    tuple
        Ids int64[n, K] and scores float64[n, K], best first, ties by word id.

    Raises
    ------
    ValueError
        lambda is outside of 0..1.
    """
    if not 0.0 <= relevance <= 1.0:
        raise ValueError(f"relevance lambda must lie in 0..1, not {relevance}")
    (best,), _ = _best_words(model, n, [relevance])
    return best.ids, best.scores


def topic_table(model: TopicModel, n: int = 10, relevance: float = 1.0) -> pa.Table:
    """List the first words of every topic, one row a topic.

    Parameters
    ----------
    n
        Words of a topic.
    relevance
        lambda of ``top_words``.

    Returns
    -------
    pyarrow.Table
        Rows in the order of the model's columns: topic int32 (its number), share double, words
        list<string> and p list<double>, both best first, and kind string.
    """
    ids, _ = top_words(model, n, relevance)
    flat = ids.T.ravel()
    p = model.pair_probabilities(flat, np.repeat(np.arange(model.n_topics), len(ids)))
    offsets = pa.array(np.arange(model.n_topics + 1, dtype=np.int32) * len(ids))
    words = pa.ListArray.from_arrays(
        offsets, model.vocabulary.words.take(pa.array(flat)).cast(pa.string())
    )
    topics = pa.array(model.column_ids.astype(np.int32))
    columns = [
        topics,
        pa.array(model.shares),
        words,
        pa.ListArray.from_arrays(offsets, pa.array(p)),
        pa.array(np.array(model.kinds)),  # a list would load dateutil
    ]
    return pa.table(columns, names=["topic", "share", "words", "p", "kind"])


def words_by_relevance(
    model: TopicModel, words: int = 30
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Collect the first ``words`` words of each topic for lambda = 0, 0.1, ..., 1.

    The scores are those of ``top_words`` (Sievert & Shirley 2014). Words are in order of id.

    Returns
    -------
    tuple
        Offsets int64[K+1], word ids int64[n], log p(w|k) float64[n], and log p(w) float64[W].
    """
    topics = model.n_topics
    lambdas = [step / LAMBDA_STEPS for step in range(LAMBDA_STEPS + 1)]
    best, marginal = _best_words(model, words, lambdas)
    ids = []
    for k in range(topics):
        by_lambda = [ranking.ids[np.isfinite(ranking.scores[:, k]), k] for ranking in best]
        ids.append(np.unique(np.concatenate(by_lambda)))
    lengths = [len(words_of_topic) for words_of_topic in ids]
    flat = np.concatenate(ids)
    p = model.pair_probabilities(flat, np.repeat(np.arange(topics), lengths))
    log_p = np.log(np.maximum(p, np.exp(LEAST_LOG)))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), flat, log_p, marginal
