"""Documents under clusters of words: log p(x, k), and what follows from it."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Doubles, Floats, Longs
from topicstream.kernels.digamma import exp, log
from topicstream.kernels.jit import kernel


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
    """out[d] = first + sum over the cells of document d of x (log(base[row] + beta) - log norm), cell by cell."""
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
    """out[d] = log sum_k exp(scores[d, k]) and shares[d, k] = exp(scores[d, k] - out[d]); shares: float32[D, K]."""
    for d in range(len(out)):
        top, total = -np.inf, 0.0
        for k in range(scores.shape[1]):
            top = max(top, scores[d, k])
        for k in range(scores.shape[1]):
            total += exp(scores[d, k] - top)
        out[d] = top + log(total)
        for k in range(scores.shape[1]):
            shares[d, k] = exp(scores[d, k] - out[d])
