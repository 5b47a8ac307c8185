"""Dirichlet priors of whole counts: their likelihood, and the histograms that they are fitted to
(dirichlet_fit.py).

The word-topic counts come as an exact histogram (the packed table's).  Document counts below 16
have a bin each; above,
bins are a quarter octave wide and a count of topics stands at the bin's middle, a document's length
at the mean length in its bin.

    topic_bins  float64[K * BINS]  documents by n_dk, topic after topic
    lengths     float64[2 * BINS]  documents by n_d, then the sums of their n_d
"""

from __future__ import annotations

import math

import numpy as np

from topicstream.kernels.arrays import Doubles, Int, Longs
from topicstream.kernels.digamma import log_gamma
from topicstream.kernels.dirichlet_fit import Histogram
from topicstream.kernels.jit import kernel

EXACT = 16
BINS = EXACT + 4 * 20


@kernel(inline="always")
def count_bin(n: float) -> Int:
    """Bin of a whole count n >= 1."""
    if n < EXACT:
        return np.int64(n)
    b = np.int64(np.float64(n).view(np.int64) >> 50) - ((np.int64(1023) + 4) << 2)
    return min(EXACT + b, np.int64(BINS - 1))


def bin_values() -> np.ndarray:
    """float64[BINS]: the count each bin stands for."""
    i = np.arange(BINS + 1 - EXACT)
    edge = np.ldexp(1.0 + (i % 4) / 4.0, 4 + i // 4)
    return np.concatenate((np.arange(EXACT), (edge[:-1] + edge[1:] - 1.0) / 2))


@kernel
def close_document(
    topics: Longs,
    n_topics: int,
    n_td: Longs,
    n_d: int,
    alpha: Doubles,
    alpha_sum: float,
    topic_bins: Doubles,
    lengths: Doubles,
) -> float:
    """log p(z of one document) = log of the Dirichlet-multinomial, nats; enters its counts into the
    histograms.

    topics: int64[>= n_topics], the document's topics; n_td: int64[K]; topic_bins may be empty (then
    only lengths)."""
    product, loglik = 1.0, math.lgamma(alpha_sum) - math.lgamma(alpha_sum + n_d)
    for j in range(n_topics):
        t = topics[j]
        n, a = n_td[t], alpha[t]
        if n <= EXACT:
            for i in range(n):
                product *= a + i
        else:
            loglik += math.lgamma(a + n) - math.lgamma(a)
        if product > 1e250 or product < 1e-250:
            loglik += math.log(product)
            product = 1.0
        if len(topic_bins) > 0:
            topic_bins[t * BINS + count_bin(n)] += 1.0
    b = count_bin(n_d)
    lengths[b] += 1.0
    lengths[BINS + b] += n_d
    return loglik + math.log(product)


def words_loglik(
    beta: float, counts: np.ndarray, times: np.ndarray, n_k: np.ndarray, words: int
) -> float:
    """log p(w | z), nats: counts, times the histogram of the non-zero n_wk; n_k: float64[K] their
    sums.
    """
    mass = np.array([words * beta])
    rows = times @ (log_gamma(counts + beta) - log_gamma(np.array([beta])))
    return float(rows + (log_gamma(mass) - log_gamma(mass + n_k)).sum())


def topic_counts(bins: np.ndarray, topics: int) -> Histogram:
    """Documents by n_dk, of ``topic_bins``."""
    times = bins.reshape(topics, BINS)
    used = np.flatnonzero(times.sum(0))
    return Histogram(times[:, used], bin_values()[used])


def length_counts(lengths: np.ndarray) -> Histogram:
    """Documents by n_d, of ``lengths``: the mean length in each bin."""
    held = np.flatnonzero(lengths[:BINS])
    return Histogram(lengths[held], lengths[BINS + held] / lengths[held])
