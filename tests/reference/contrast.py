"""Words by group and topic, and their log-odds, as sums over single documents in NumPy."""

from __future__ import annotations

import numpy as np


def count_words(documents, theta, p, groups):
    """Add the tokens of documents (word -> count) by group, word and topic.

    ``theta`` [D, K] and ``p`` [W, K] are p(k|d) and p(w|k); ``groups`` has a list of codes a
    document, of which the last code of the result counts every document that has any.
    """
    last = 1 + max(code for codes in groups for code in codes)
    out = np.zeros((last + 1, *p.shape))
    for document, share, codes in zip(documents, theta, groups, strict=True):
        for word, count in document.items():
            joint = share * p[word]
            for code in [*codes, last] if codes else []:
                out[code, word] += count * joint / joint.sum()
    return out


def z_of(mine, others, prior):
    """The z-score of each word: arrays [W] of one topic."""
    odds = []
    for tokens in (mine, others):
        odds.append((tokens + prior) / (tokens.sum() + prior.sum() - tokens - prior))
    variance = 1 / (mine + prior) + 1 / (others + prior)
    return (np.log(odds[0]) - np.log(odds[1])) / np.sqrt(variance)
