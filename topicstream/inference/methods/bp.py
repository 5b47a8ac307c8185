"""Belief propagation with the topics held still: the fixed point of EM (paper 000, eq. 25), each document on its own.

    theta[k]  <-  sum_w x[w] A[k] (phi[w,k] + beta) / sum_j A[j] (phi[w,j] + beta),   A[k] = (theta[k] + alpha[k]) / Z[k]

with Z[k] = lam[k] + W beta, from theta spread evenly, until the change of theta summed over topics is at most ``tol`` of the
document's tokens, or for ``inner`` inner iterations.  What is given is (theta[k] + alpha[k]) / (n + sum alpha).

Nothing is drawn at random and nothing is shared between documents: the same document always gets the same bits.

The document's rows are copied side by side once and stay in the nearest cache; a document of more rows than fit there is
gone through in pieces.

    phi -> base   1 / Z -> inverse   theta -> theta   theta + alpha -> t   x -> x
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.errors import InputError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, Rows
from topicstream.kernels.jit import kernel
from topicstream.kernels.panel import fill, sweep
from topicstream.kernels.simd import WIDTH, larger, load, splat, store, total

TOLERANCE = 1e-3
INNER = 100
PANEL_FLOATS = 1 << 18
"""Floats of a piece of a document's rows: 1 MiB."""


@kernel
def fold(indptr, rows, x, base, beta, alpha, inverse, tol, inner, shares):
    """Shares of every document of a block -> float32[D, K]; returns the inner iterations made.

    indptr: int64[D+1]; rows: int64[nnz] of base: float32[R, K]; x: float32[nnz]; alpha, inverse: float32[KP], zero in
    padding.  A document without cells gets the prior's mean.
    """
    width, topics = len(inverse), shares.shape[1]
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    most = max(4, min(longest, PANEL_FLOATS // width))
    own, z = np.empty((most, width), np.float32), np.empty(most, np.float32)
    theta, t, acc = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
    possible, alpha_sum, sweeps = 0, 0.0, 0
    for k in range(width):
        possible += inverse[k] > 0
        alpha_sum += np.float64(alpha[k])
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        n = 0.0
        for i in range(first, last):
            n += x[i]
        if n <= 0.0:
            for k in range(topics):
                shares[d, k] = alpha[k] / alpha_sum if alpha_sum > 0.0 else 1.0 / topics
            continue
        for k in range(width):
            theta[k] = n / possible if inverse[k] > 0 else 0.0
        whole = last - first <= most
        if whole:
            fill(rows[first:last], base, beta, inverse, own)
        for _ in range(inner):
            for k in range(0, width, WIDTH):
                store(t, k, load(theta, k) + load(alpha, k))
                store(acc, k, splat(np.float32(0)))
            if whole:
                sweep(last - first, x[first:last], own, t, z, acc)
            else:
                for i in range(first, last, most):
                    m = min(most, last - i)
                    fill(rows[i : i + m], base, beta, inverse, own)
                    sweep(m, x[i : i + m], own, t, z, acc)
            moved = splat(np.float32(0))
            for k in range(0, width, WIDTH):
                here, there = load(t, k) * load(acc, k), load(theta, k)
                moved = moved + larger(here - there, there - here)
                store(theta, k, here)
            sweeps += 1
            if total(moved) <= tol * n:
                break
        mass = alpha_sum  # words that are impossible in every topic are no part of theta
        for k in range(topics):
            mass += theta[k]
        for k in range(topics):
            shares[d, k] = (theta[k] + alpha[k]) / mass if mass > 0.0 else 1.0 / topics
    return sweeps


class BP(Method):
    """The default: deterministic, each document alone."""

    name: ClassVar[str] = "bp"
    cites: ClassVar[str] = "Zeng et al. 2012 (paper 000), eq. 25"

    def __init__(self, rows: Rows, *, tol: float = TOLERANCE, inner: int = INNER) -> None:
        if not (tol >= 0.0 and inner >= 1):
            raise InputError(f"tolerance {tol}, inner iterations {inner}: give at least 0 and 1")
        self.rows, self.tol, self.inner = rows, float(tol), int(inner)

    def shares(self, docs: Documents) -> np.ndarray:
        out = np.empty((len(docs), self.rows.topics), np.float32)
        at, base = self.rows.of(docs)
        r = self.rows
        fold(docs.indptr, at, docs.counts, base, r.beta, r.alpha, r.inverse, self.tol, self.inner, out)
        return out
