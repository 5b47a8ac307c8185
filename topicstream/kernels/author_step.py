"""Cells spread over the authors of their documents, with the topics and the authors' mixtures held still."""

from __future__ import annotations

import math

import numpy as np

from topicstream.kernels.arrays import Doubles, Floats, Longs
from topicstream.kernels.jit import fast_kernel


@fast_kernel
def spread_authors(
    indptr: Longs,
    rows: Longs,
    counts: Floats,
    base: Floats,
    beta: float,
    inverse: Floats,
    aptr: Longs,
    authors: Longs,
    theta: Floats,
    gained: Doubles,
    explained: Doubles,
) -> float:
    """p(a, k | cell) ~ theta[a, k] p(w|k) over all topics and the authors of the cell's document.

    indptr int64[D+1], rows int64[nnz] of base float32[R, >= K], counts float32[nnz]: the documents' cells; beta, inverse
    float32[>= K]: p(w|k) = (base + beta) inverse; aptr int64[D+1], authors int64[E]: rows of theta float32[A, K].
    gained float64[A, K] gains each pair's tokens, explained float64[E] the tokens of each author of each document.
    Returns sum of x log(mean over the document's authors of p(w|a)).  A cell that no pair explains is left out.
    """
    topics, loglik = theta.shape[1], 0.0
    own, b = np.empty(topics, np.float32), np.float32(beta)
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, aptr[d + 1] - aptr[d])
    said = np.empty(longest, np.float32)
    for d in range(len(indptr) - 1):
        n = aptr[d + 1] - aptr[d]
        for i in range(indptr[d], indptr[d + 1]):
            w = rows[i]
            for k in range(topics):
                own[k] = (base[w, k] + b) * inverse[k]
            total = np.float32(0)
            for e in range(n):
                a, p = authors[aptr[d] + e], np.float32(0)
                for k in range(topics):
                    p += theta[a, k] * own[k]
                said[e] = p
            for e in range(n):
                total += said[e]
            if total <= np.float32(0):
                continue
            share = counts[i] / total
            loglik += float(counts[i]) * math.log(total / n)
            for e in range(n):
                a = authors[aptr[d] + e]
                explained[aptr[d] + e] += share * said[e]
                for k in range(topics):
                    gained[a, k] += share * theta[a, k] * own[k]
    return loglik
