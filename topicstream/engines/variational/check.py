"""The memoized bound, from scratch: what ``mvi --verify-bound`` compares the tracked one with.

The tracked bound rests on two shortcuts: a document's terms by way of the normalisers of its cells (dense.py), and the data
term that cancels because the topics' table is the sum of the blocks' statistics.  From scratch are

    the documents     sum_w x_w sum_k r_wk (-log r_wk) + sum_k [lgamma(N_dk + alpha_k) - lgamma(alpha_k)]
                      - lgamma(n_d + sum alpha) + lgamma(sum alpha), by its definition, from the responsibilities
    the table         sum_wk phi_wk h(w, k) against sum_b sum_uk S_b,uk h(w_u, k) of the statistics just stored, h being
                      pseudo-random signs: equal for every h only if the table is that sum, and by chance alone with a
                      difference below the smallest entry that is wrong
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Doubles, Floats, Ints, Longs, Shorts
from topicstream.kernels.digamma import lgamma
from topicstream.kernels.jit import kernel

TOLERANCE = 2e-5
"""Largest relative difference that float32 responsibilities, statistics and tables explain."""


@kernel
def documents(
    indptr: Longs, counts: Ints, most: int, cell_topic: Shorts, cell_value: Floats, alpha: Doubles, topics: int
) -> float:
    """The documents' terms above, float64, from the cells' lists (``sparse.sparse_step``)."""
    n, prior, total = np.zeros(topics), 0.0, 0.0
    for k in range(topics):
        prior += alpha[k]
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        if first == last:
            continue
        n[:] = 0.0
        tokens, entropy, mass = 0.0, 0.0, 0.0
        for i in range(first, last):
            tokens += counts[i]
            for j in range(i * most, (i + 1) * most):
                v = np.float64(cell_value[j])
                if v == 0.0:
                    break
                entropy -= v * np.log(v / counts[i])
                n[cell_topic[j]] += v
        for k in range(topics):
            if n[k] > 0.0:
                mass += lgamma(n[k] + alpha[k]) - lgamma(alpha[k])
        total += entropy + mass - lgamma(tokens + prior) + lgamma(prior)
    return total


@kernel(inline="always")
def _sign(w: int, k: int) -> float:
    """+1 or -1 of word w and topic k: a bit of a 64-bit mix (splitmix64, Steele et al. 2014)."""
    z = (np.uint64(w) << np.uint64(20)) + np.uint64(k) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return 1.0 if (z >> np.uint64(40)) & np.uint64(1) else -1.0


@kernel
def seal_of_statistic(vocab: Ints, ptr: Ints, topic: Shorts, value: Floats) -> float:
    """sum of a block's statistic times signs; vocab: its words' numbers."""
    total = 0.0
    for u in range(len(ptr) - 1):
        for c in range(ptr[u], ptr[u + 1]):
            total += value[c] * _sign(vocab[u], topic[c])
    return total


@kernel
def seal_of_rows(first: int, rows: Floats, topics: int) -> float:
    """The same of table rows first, first + 1, ...; float32[n, P]."""
    total = 0.0
    for i in range(rows.shape[0]):
        for k in range(topics):
            total += rows[i, k] * _sign(first + i, k)
    return total
