"""Topics of a document with the topic table fixed: the fixed point of EM (BP without exclusion; paper 000, eq. 25).

    theta[k]  <-  sum_w x[w] A[k] (phi[w,k] + beta) / sum_j A[j] (phi[w,j] + beta),   A[k] = (theta[k] + alpha[k]) / Z[k]

with Z[k] = lam[k] + W beta, from theta spread evenly, until the change of theta summed over topics falls below a
tolerance (1e-3) of the document's tokens, or for 100 inner iterations.

phi -> base, index   1 / Z -> inv   theta -> theta   x -> counts   A -> weight
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.jit import fast_kernel

TOLERANCE = 1e-3
INNER = 100


def padded_floats(values: np.ndarray, width: int) -> np.ndarray:
    """float32[width], zeros after the values."""
    out = np.zeros(width, np.float32)
    out[: len(values)] = values
    return out


def inverse_norms(totals: np.ndarray, words: int, beta: float, width: int) -> np.ndarray:
    """1 / (lam + W beta), float32[width]; zero in the padding and for an empty topic without a prior (no part in
    anything)."""
    norms = np.asarray(totals, np.float64) + words * beta
    return padded_floats(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0), width)


@fast_kernel(inline="always")
def _dot(a, b):
    s = np.float32(0)
    for k in range(len(a)):
        s += a[k] * np.float32(b[k])
    return s


@fast_kernel
def fold_in(words, counts, index, base, alpha, inv, beta, n, tol, inner, theta, weight, gathered):
    """theta of one document from its observed cells, topics fixed.

    words: int32[m] local ids; counts: [m]; index: int64[U] rows of base; base: [R, KP]; alpha, inv: float32[KP] (zero in
    padding); n: observed tokens -> theta: float32[KP] (sums to n); weight, gathered: float32[KP] scratch.
    Returns the inner iterations made.
    """
    topics = 0
    for k in range(len(inv)):
        if inv[k] > 0:
            topics += 1
    for k in range(len(inv)):
        theta[k] = np.float32(n / topics) if inv[k] > 0 else np.float32(0)
    for i in range(inner):
        total = np.float32(0)
        for k in range(len(inv)):
            weight[k] = (theta[k] + alpha[k]) * inv[k]
            gathered[k] = 0
        for k in range(len(inv)):  # sums apart from stores: see kernels/jit.py
            total += weight[k]
        smooth = np.float32(beta) * total
        ratios = np.float32(0)
        for c in range(len(words)):
            row = base[index[words[c]]]
            mass = _dot(weight, row) + smooth
            if mass <= 0:  # without a prior a word may be impossible: it says nothing
                continue
            ratio = np.float32(counts[c]) / mass
            ratios += ratio
            for k in range(len(inv)):
                gathered[k] += ratio * np.float32(row[k])
        change = np.float32(0)
        for k in range(len(inv)):
            gathered[k] = weight[k] * (gathered[k] + np.float32(beta) * ratios)
        for k in range(len(inv)):
            change += abs(gathered[k] - theta[k])
        for k in range(len(inv)):
            theta[k] = gathered[k]
        if change < tol * n:
            return i + 1
    return inner


@fast_kernel
def fold_in_block(indptr, words, counts, index, base, alpha, inv, beta, tol, inner, shares):
    """p(k|d) = (theta[k] + alpha[k]) / (n + sum alpha) of every document of a block, all its known cells observed.

    indptr: int64[D+1]; words: int32[nnz]; counts: [nnz]; index: int64[U], -1 unknown; base: [R, KP]; alpha, inv:
    float32[KP] -> shares: float32[D, K <= KP]; a document without a known word gets the prior's mean.
    """
    width = len(inv)
    theta, weight, gathered = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    known, known_counts = np.empty(longest, np.int32), np.empty(longest, np.float32)
    alpha_sum = 0.0
    for k in range(width):
        alpha_sum += alpha[k]
    for d in range(len(indptr) - 1):
        m = 0
        n = 0.0
        for c in range(indptr[d], indptr[d + 1]):
            if index[words[c]] >= 0:
                known[m] = words[c]
                known_counts[m] = counts[c]
                n += counts[c]
                m += 1
        if m > 0:
            fold_in(known[:m], known_counts[:m], index, base, alpha, inv, beta, n, tol, inner, theta, weight, gathered)
        else:
            theta[:] = 0
        for k in range(shares.shape[1]):
            shares[d, k] = (theta[k] + alpha[k]) / (n + alpha_sum)
