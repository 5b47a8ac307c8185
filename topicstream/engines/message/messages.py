"""Dense message updates over stored messages (Zeng, Cheung & Liu 2013, "Learning topic models by belief propagation").

Eq. (7), the message of a cell (word w, document d, count x), each sum taken without what the cell itself put in:

    mu_k  ~  (theta_dk - own_k + alpha_k) (phi_wk - own_k + beta) / (lam_k - own_k + W beta)

own is x mu (``CELL``: belief propagation), mu (``TOKEN``: CVB0, one of the cell's x tokens) or 0 (``NOTHING``: siBP).

Shapes: indptr int64[D+1], words int32[nnz] local ids, counts int32 or float32[nnz]; base float32[R, Kp] and index
int64[U]: phi of local word u is base[index[u]]; totals float64[Kp] column sums of phi; old, new float32[nnz, K]
messages; delta float32[U, Kp]; alpha float32[K]; beta, smooth = W beta float32.
"""

from __future__ import annotations

import math

import numpy as np

from topicstream.kernels import rng
from topicstream.kernels.arrays import Array, Doubles, Float, Floats, Ints, Longs
from topicstream.kernels.jit import fast_kernel, kernel

NOTHING, TOKEN, CELL = 0, 1, 2
_ZERO = np.float32(0.0)


@fast_kernel(inline="always")
def _share(x: float, exclude: int) -> Float:
    """How much of its message a cell of count x leaves out of the sums."""
    if exclude == CELL:
        return np.float32(x)
    return np.float32(1.0) if exclude == TOKEN else np.float32(0.0)


@fast_kernel
def _weigh(
    own: float,
    mu: Floats,
    theta: Floats,
    alpha: Floats,
    phi: Floats,
    change: Floats,
    beta: float,
    lam: Floats,
    p: Floats,
) -> Float:
    """p[k] = the unnormalised message; returns its sum.  own: the share of mu left out of every sum."""
    s = np.float32(0.0)
    for k in range(len(p)):
        o = own * mu[k]
        t = theta[k] - o
        f = phi[k] + change[k] - o
        t = (t if t > _ZERO else _ZERO) + alpha[k]  # a rounding below zero must not make a message negative
        f = (f if f > _ZERO else _ZERO) + beta
        p[k] = t * f / (lam[k] - o)
    for k in range(len(p)):  # apart from the stores: see kernels/jit.py
        s += p[k]
    return s


@fast_kernel
def _move(
    x: float, scale: float, p: Floats, old: Floats, new: Floats, theta: Floats, change: Floats, lam: Floats
) -> None:
    """new = scale p; the sums move by x (new - old)."""
    for k in range(len(p)):
        m = scale * p[k]
        d = x * (m - old[k])
        new[k] = m
        theta[k] += d
        change[k] += d
        lam[k] += d


@fast_kernel
def _gather_theta(first: int, last: int, counts: Array, old: Floats, theta: Floats) -> float:
    """theta[k] = sum over the document's cells of x mu; returns the document's tokens."""
    theta[:] = _ZERO
    n: float = 0.0
    for i in range(first, last):
        x = np.float32(counts[i])
        n += float(x)
        for k in range(len(theta)):
            theta[k] += x * old[i, k]
    return n


@fast_kernel
def asynchronous(
    indptr: Longs,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    totals: Doubles,
    old: Floats,
    new: Floats,
    delta: Floats,
    alpha: Floats,
    beta: float,
    smooth: float,
    exclude: int,
    thetas: Floats,
) -> float:
    """One visit with all three sums updated at once, document by document, cell by cell.

    delta gets the change of the block's contribution, thetas[d] (float32[D, K]) the documents' sums at the end.
    Returns the sum of x log p(w | the other cells) in nats, p as it stood just before each update.
    """
    k_all = old.shape[1]
    lam, p, mass = np.empty(k_all, np.float32), np.empty(k_all, np.float32), np.float64(0.0)
    for k in range(k_all):
        lam[k] = totals[k] + smooth
    for k in range(k_all):
        mass += alpha[k]
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        n = _gather_theta(indptr[d], indptr[d + 1], counts, old, theta)
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            own = _share(x, exclude)
            change = delta[words[i]][:k_all]
            s = _weigh(own, old[i], theta, alpha, base[index[words[i]]], change, beta, lam, p)
            _move(x, np.float32(1.0) / s, p, old[i], new[i], theta, change, lam)
            loglik += float(x) * math.log(s / (n - own + mass))
    return loglik


@fast_kernel
def synchronous(
    indptr: Longs,
    words: Ints,
    counts: Ints,
    base: Floats,
    index: Longs,
    totals: Doubles,
    old: Floats,
    new: Floats,
    delta: Floats,
    alpha: Floats,
    beta: float,
    smooth: float,
    exclude: int,
    thetas: Floats,
) -> float:
    """One visit with every message computed from the sums of the previous pass.

    delta gets the block's whole new contribution, thetas[d] the sums of the *old* messages.  Returns as above.
    """
    k_all = old.shape[1]
    lam, p, mass = np.empty(k_all, np.float32), np.empty(k_all, np.float32), np.float64(0.0)
    nothing = np.zeros(k_all, np.float32)
    for k in range(k_all):
        lam[k] = totals[k] + smooth
    for k in range(k_all):
        mass += alpha[k]
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        n = _gather_theta(indptr[d], indptr[d + 1], counts, old, theta)
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            own = _share(x, exclude)
            s = _weigh(own, old[i], theta, alpha, base[index[words[i]]], nothing, beta, lam, p)
            scale = np.float32(1.0) / s
            row = delta[words[i]]
            for k in range(k_all):
                m = scale * p[k]
                new[i, k] = m
                row[k] += x * m
            loglik += float(x) * math.log(s / (n - own + mass))
    return loglik


@fast_kernel
def start_soft(
    indptr: Longs,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    totals: Doubles,
    new: Floats,
    delta: Floats,
    alpha: Floats,
    rounds: int,
    thetas: Floats,
) -> float:
    """First messages from seed topics: p(w|k) = base / totals; ``rounds`` inner iterations of the document's mixture
    (1: uniform mixture).  delta gets the block's contribution.  Returns sum of x log p(w) under the last mixture."""
    k_all = new.shape[1]
    inverse, p = np.empty(k_all, np.float32), np.empty(k_all, np.float32)
    for k in range(k_all):
        inverse[k] = 1.0 / totals[k] if totals[k] > 0.0 else 0.0
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        theta[:] = np.float32(1.0)
        for r in range(rounds):
            if r > 0:
                for k in range(k_all):
                    theta[k] += alpha[k]
            total = 0.0
            for k in range(k_all):
                total += theta[k]
            p[:] = _ZERO
            for i in range(indptr[d], indptr[d + 1]):
                seed = base[index[words[i]]]
                row = new[i]
                s = np.float32(0.0)
                for k in range(k_all):
                    row[k] = theta[k] * inverse[k] * seed[k]
                for k in range(k_all):
                    s += row[k]
                x = np.float32(counts[i])
                scale = np.float32(1.0) / s if s > _ZERO else _ZERO
                if s <= _ZERO:  # a word no seed topic has: every topic alike
                    row[:] = np.float32(1.0)
                    scale = np.float32(1.0) / np.float32(k_all)
                for k in range(k_all):
                    row[k] *= scale
                    p[k] += x * row[k]
                if r == rounds - 1:
                    change = delta[words[i]]
                    for k in range(k_all):
                        change[k] += x * row[k]
                    if s > _ZERO:
                        loglik += float(x) * math.log(s / total)
            theta[:] = p
    return loglik


@kernel
def start_random(
    indptr: Longs, words: Ints, counts: Array, seed: int, pass_number: int, first_doc: int, new: Floats, delta: Floats
) -> None:
    """A random topic for every cell (Zeng, Cheung & Liu 2013's start).  delta gets the block's contribution."""
    new[:] = _ZERO
    delta[:] = _ZERO
    for d in range(len(indptr) - 1):
        state = rng.stream(seed, pass_number, first_doc + d)
        for i in range(indptr[d], indptr[d + 1]):
            state = rng.step(state)
            k = rng.below(rng.bits(state), new.shape[1])
            new[i, k] = 1.0
            delta[words[i], k] += counts[i]
