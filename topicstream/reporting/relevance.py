"""The words of every topic that a slider over the relevance's lambda can bring to the front, from one stream."""

from __future__ import annotations

import numpy as np

from topicstream.model.top import Best
from topicstream.model.topic_model import TopicModel

STEPS = 10
_LEAST = -690.0


def candidates(model: TopicModel, words: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first ``words`` words of each topic for lambda = 0, 0.1, ..., 1 together (Sievert & Shirley 2014; the same scores
    as ``top_words``), in order of word id.

    Returns offsets int64[K+1], word ids int64[n], log p(w|k) float64[n], and log p(w) float64[W].
    """
    topics, beta = model.n_topics, model.beta
    best = [Best(min(words, model.n_words), topics) for _ in range(STEPS + 1)]
    log_norm = np.log(model.norms)
    whole = np.log(max(float(model.totals.sum()) + model.n_words * topics * beta, 1e-300))
    marginal = np.empty(model.n_words)
    with np.errstate(divide="ignore"):
        for start, rows in model.spans():
            value = np.maximum(np.log(rows.astype(np.float64) + beta) - log_norm, _LEAST)
            of_words = np.maximum(np.log(rows.sum(axis=1, dtype=np.float64) + topics * beta) - whole, _LEAST)
            marginal[start : start + len(rows)] = of_words
            for step, one in enumerate(best):
                one.add(start, value - (1.0 - step / STEPS) * of_words[:, None])
    ids = [
        np.unique(np.concatenate([one.ids[np.isfinite(one.scores[:, k]), k] for one in best])) for k in range(topics)
    ]
    lengths = [len(words_of_topic) for words_of_topic in ids]
    flat = np.concatenate(ids)
    p = model.pair_probabilities(flat, np.repeat(np.arange(topics), lengths))
    log_p = np.log(np.maximum(p, np.exp(_LEAST)))
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), flat, log_p, marginal
