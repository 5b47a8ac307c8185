"""Kernels of dense message updates (Zeng, Cheung & Liu 2013).

The message of a cell (word w, document d, count x), each sum taken without the cell's contribution
o, is eq. (7):

    mu_k  ~  (theta_dk - o_k + alpha_k) (phi_wk - o_k + beta) / (lam_k - o_k + W beta)

o is x mu (``CELL``: belief propagation), mu (``TOKEN``: CVB0, one of the cell's x tokens) or 0
(``NOTHING``: siBP). Where documents are linked (eq. 30), with n_d the document's tokens and m_d the
message of its links (eq. 29),

    mu_k  ~  [(1 - xi) (theta_dk - o_k + alpha_k) + xi (n_d - x + sum alpha) m_dk]
             (phi_wk - o_k + beta) / (lam_k - o_k + W beta)

which is the same update, term by term, without links or with xi = 0.

Arrays
------
indptr, words, counts
    int64[D+1], int32[nnz] local ids, int32 or float32[nnz].
base, index
    float32[R, Kp], int64[U]: phi of local word u is base[index[u]].
totals
    float64[Kp], column sums of phi.
old, new
    float32[nnz, K], messages.
delta
    float32[U, Kp].
alpha, beta, smooth
    float32[K], float32, float32 = W beta.

References
----------
Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on Pattern
Analysis and Machine Intelligence 35(5), 1121-1134.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import Array, Cells, Doubles, Float, Floats, Longs
from topicstream.numeric.kernels.jit import fast_kernel, kernel

NOTHING = 0
TOKEN = 1
CELL = 2
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


class Topics(NamedTuple):
    """Rows of phi and their column sums.

    phi of local word u is base[row[u]].
    """

    base: Floats
    row: Longs
    totals: Doubles


class Priors(NamedTuple):
    """Priors as float32: alpha[K], beta and smooth = W beta."""

    alpha: Floats
    beta: Float
    smooth: Float


class Links(NamedTuple):
    """Arrays for the links of a visit's documents.

    message   float32[D, Kp]  m_d of each document;  weight float32[D]: its sum, 0 where a document
              has no links
    xi        share of the links in a message
    fresh     float32[D, K]   receives the documents' sums of the new messages
    tokens    float64[1]      gains the tokens of documents with a link message
    """

    message: Floats
    weight: Floats
    xi: float
    fresh: Floats
    tokens: Doubles


@fast_kernel(inline="always")
def _share(x: float, exclude: int) -> Float:
    """Compute how much of its message a cell of count x leaves out."""
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
    a: float,
    b: float,
    message: Any,
) -> Float:
    """Compute the unnormalised message p by eq. (7) or (30) and return its sum.

    own: factor of mu left out of every sum; a, b: weights of theta and of the links' message;
    message: the links' message, or None.
    """
    s = _ZERO
    # eq. (7), or (30) where there is a link message: every factor without the cell's share o
    for k in range(len(p)):
        o = own * mu[k]
        t = theta[k] - o
        f = phi[k] + change[k] - o
        # a rounding below zero must not make a message negative
        t = (t if t > _ZERO else _ZERO) + alpha[k]
        f = (f if f > _ZERO else _ZERO) + beta
        if message is None:
            p[k] = t * f / (lam[k] - o)
        else:
            p[k] = (a * t + b * message[k]) * f / (lam[k] - o)
    for k in range(len(p)):  # apart from the stores: see numeric/kernels/jit.py
        s += p[k]
    return s


@fast_kernel
def _move(
    x: float,
    scale: float,
    p: Floats,
    old: Floats,
    new: Floats,
    theta: Floats,
    change: Floats,
    lam: Floats,
) -> None:
    """Store new = scale p and move the sums by x (new - old)."""
    for k in range(len(p)):
        m = scale * p[k]
        d = x * (m - old[k])
        new[k] = m
        theta[k] += d
        change[k] += d
        lam[k] += d


@fast_kernel
def _put(x: float, scale: float, p: Floats, new: Floats, change: Floats, theta: Any) -> None:
    """Store new = scale p and add x new to change and theta, if any."""
    for k in range(len(p)):
        m = scale * p[k]
        new[k] = m
        change[k] += x * m
        if theta is not None:
            theta[k] += x * m


@fast_kernel
def gather_theta(first: int, last: int, counts: Array, old: Floats, theta: Floats) -> float:
    """Sum theta[k] = sum of x mu over a document and return its tokens."""
    theta[:] = _ZERO
    n: float = 0.0
    for i in range(first, last):
        x = np.float32(counts[i])
        n += float(x)
        for k in range(len(theta)):
            theta[k] += x * old[i, k]
    return n


@fast_kernel
def visit(
    cells: Cells,
    topics: Topics,
    priors: Priors,
    exclude: int,
    moving: bool,
    old: Floats,
    new: Floats,
    delta: Floats,
    thetas: Floats,
    links: Any,
) -> float:
    """Visit a block once, document by document, cell by cell.

    Parameters
    ----------
    moving
        True: theta, phi and lam move after each cell, and delta gets the change of the block's
        contribution. False: every message comes from the sums of the pass before, and delta gets
        the whole new contribution.
    thetas
        float32[D, K], receives the documents' sums: of the new messages when they move, else of the
        old ones. With links always of the old ones.
    links
        ``Links`` or None.

    Returns
    -------
    The sum of x log p(w | the other cells) in nats, with p as it stood just before each update.
    """
    (indptr, words, counts) = cells
    (base, index, totals) = topics
    (alpha, beta, smooth) = priors
    k_all = old.shape[1]
    # lam_k + W beta, the denominator of eq. (7), and the sum of alpha
    lam = np.empty(k_all, np.float32)
    p = np.empty(k_all, np.float32)
    mass = np.float64(0.0)
    nothing = np.zeros(k_all, np.float32)
    for k in range(k_all):
        lam[k] = totals[k] + smooth
    for k in range(k_all):
        mass += alpha[k]
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        # theta_dk from the stored messages
        n = gather_theta(indptr[d], indptr[d + 1], counts, old, theta)
        # eq. (30): weights a, b of theta and of the links' message (1 and 0 without links)
        if links is not None:
            fresh = links.fresh[d]
            message = links.message[d][:k_all]
            z = np.float64(links.weight[d])
            a = 1.0
            b = 0.0
            fresh[:] = theta if moving else nothing
            if z > 0.0:
                a = 1.0 - links.xi
                b = links.xi
                links.tokens[0] += n
        # eq. (7) for each cell: weigh the topics, normalise by s, move or add up the sums
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            row = delta[words[i]][:k_all]
            own = _share(x, exclude)
            phi = base[index[words[i]]]
            if links is None:
                if moving:
                    s = _weigh(own, old[i], theta, alpha, phi, row, beta, lam, p, _ONE, _ZERO, None)
                    _move(x, _ONE / s, p, old[i], new[i], theta, row, lam)
                else:
                    s = _weigh(
                        own, old[i], theta, alpha, phi, nothing, beta, lam, p, _ONE, _ZERO, None
                    )
                    _put(x, _ONE / s, p, new[i], row, None)
                # p(w | the other cells): the normaliser over the document's remaining tokens and
                # priors
                loglik += float(x) * math.log(s / (n - own + mass))
            else:
                # eq. (30): the links weigh as much as the document's other tokens and its priors
                rest = n - x + mass
                first = np.float32(a)
                scaled = np.float32(b * rest)
                sums, change = (fresh, row) if moving else (theta, nothing)
                s = _weigh(
                    own, old[i], sums, alpha, phi, change, beta, lam, p, first, scaled, message
                )
                loglik += float(x) * math.log(s / (rest * (a + b * z)))
                if moving:
                    _move(x, _ONE / s, p, old[i], new[i], fresh, row, lam)
                else:
                    _put(x, _ONE / s, p, new[i], row, fresh)
    return loglik


@fast_kernel
def start_soft(
    cells: Cells,
    topics: Topics,
    new: Floats,
    delta: Floats,
    alpha: Floats,
    rounds: int,
    thetas: Floats,
) -> float:
    """Compute the first messages from seed topics, p(w|k) = base / totals.

    ``rounds`` inner iterations update the document's mixture (1: uniform mixture). delta gets the
    block's contribution.

    Returns
    -------
    The sum of x log p(w) under the last mixture, in nats.
    """
    (indptr, words, counts) = cells
    (base, index, totals) = topics
    k_all = new.shape[1]
    inverse = np.empty(k_all, np.float32)
    p = np.empty(k_all, np.float32)
    # 1 / lam_k of the seed topics
    for k in range(k_all):
        inverse[k] = 1.0 / totals[k] if totals[k] > 0.0 else 0.0
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        theta[:] = np.float32(1.0)
        # inner iterations of EM for the document's mixture, which begins even
        for r in range(rounds):
            if r > 0:
                for k in range(k_all):
                    theta[k] += alpha[k]
            total = 0.0
            for k in range(k_all):
                total += theta[k]
            p[:] = _ZERO
            # E step: mu_k ~ theta_k p(w|k)
            for i in range(indptr[d], indptr[d + 1]):
                seed = base[index[words[i]]]
                row = new[i]
                s = np.float32(0.0)
                for k in range(k_all):
                    row[k] = theta[k] * inverse[k] * seed[k]
                for k in range(k_all):
                    s += row[k]
                # normalise, and collect the M step's sum of x mu in p
                x = np.float32(counts[i])
                scale = np.float32(1.0) / s if s > _ZERO else _ZERO
                if s <= _ZERO:  # a word no seed topic has: every topic alike
                    row[:] = np.float32(1.0)
                    scale = np.float32(1.0) / np.float32(k_all)
                for k in range(k_all):
                    row[k] *= scale
                    p[k] += x * row[k]
                # the last iteration is the first message: add it to phi and the likelihood
                if r == rounds - 1:
                    change = delta[words[i]]
                    for k in range(k_all):
                        change[k] += x * row[k]
                    if s > _ZERO:
                        loglik += float(x) * math.log(s / total)
            # M step: theta_k = sum of x mu
            theta[:] = p
    return loglik


@kernel
def start_random(
    cells: Cells, seed: int, pass_number: int, first_doc: int, new: Floats, delta: Floats
) -> None:
    """Draw a random topic for every cell, as Zeng, Cheung & Liu (2013) start.

    delta gets the block's contribution.
    """
    indptr, words, counts = cells
    new[:] = _ZERO
    delta[:] = _ZERO
    for d in range(len(indptr) - 1):
        state = rng.stream(seed, pass_number, first_doc + d)
        for i in range(indptr[d], indptr[d + 1]):
            state = rng.step(state)
            k = rng.below(rng.bits(state), new.shape[1])
            new[i, k] = 1.0
            delta[words[i], k] += counts[i]
