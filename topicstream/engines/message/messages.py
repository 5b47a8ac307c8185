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
beta, smooth
    float32, float32 = W beta.

Kp is a multiple of 16. A row is worked on 16 topics at a time: a sum over topics has sixteen lanes
and then a tree (``simd.total``), on every processor. Rows of K end within a vector, so the last
topics of a message come with zeros, which add nothing: lam is 1 there.

References
----------
Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on Pattern
Analysis and Machine Intelligence 35(5), 1121-1134.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import (
    Array,
    Cells,
    Doubles,
    Float,
    Floats,
    Ints,
    Longs,
    address_of,
    load,
    load_row,
    store,
    store_row,
)
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import WIDTH, fma, larger, splat, total

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
    """Priors of a visit, as float32.

    Attributes
    ----------
    alpha
        float32[A, Kp], zero in the padding.
    row_of
        int32[D], the row of alpha that document d has.
    beta
        Prior of a word.
    smooth
        W beta.
    """

    alpha: Floats
    row_of: Ints
    beta: Float
    smooth: Float


class Links(NamedTuple):
    """Arrays for the links of a visit's documents.

    Attributes
    ----------
    message
        float32[D, Kp], m_d of each document.
    weight
        float32[D], its sum, 0 where a document has no links.
    xi
        Share of the links in a message.
    fresh
        float32[D, Kp], receives the documents' sums of the new messages.
    tokens
        float64[1], gains the tokens of documents with a link message.
    """

    message: Floats
    weight: Floats
    xi: float
    fresh: Floats
    tokens: Doubles


@kernel(inline="always")
def _share(x: float, exclude: int) -> Float:
    """Compute how much of its message a cell of count x leaves out."""
    if exclude == CELL:
        return np.float32(x)
    return np.float32(1.0) if exclude == TOKEN else np.float32(0.0)


@kernel
def _padded(values: Floats, width: int, rest: float) -> Floats:
    """Copy values to float32[width] and fill the rest."""
    out = np.full(width, np.float32(rest), np.float32)
    for k in range(len(values)):
        out[k] = values[k]
    return out


class Addresses(NamedTuple):
    """Addresses of a cell's rows: Kp floats each, but K of the messages mu and new.

    Attributes
    ----------
    mu, new
        Its old and its new message.
    p
        The new message before normalising.
    theta, sums
        What its document has of the topics to weigh by, and what moves.
    alpha, lam
        Priors, and lam_k + W beta.
    phi, change
        Its word's row, and the change of it to reckon with.
    """

    mu: int
    new: int
    p: int
    theta: int
    sums: int
    alpha: int
    lam: int
    phi: int
    change: int


@kernel(forceinline=True)
def _weigh(
    own: float,
    topics: int,
    width: int,
    rows: Addresses,
    beta: float,
    linked: tuple[float, float, int] | None,
) -> Float:
    """Compute the unnormalised message p by eq. (7), or eq. (30) with links, and return its sum.

    own: factor of mu left out of every sum. linked: the weights of theta and of the links' message,
    and the address of that message.
    """
    (mu, _, p, theta, _, alpha, lam, phi, change) = rows
    nothing = splat(_ZERO)
    out = splat(np.float32(-own))
    smooth = splat(beta)
    s = nothing
    for k in range(0, width, WIDTH):
        # every factor without the cell's share; a rounding below zero must not make it negative
        m = load_row(mu, k, topics)
        t = larger(fma(out, m, load(theta, k)), nothing) + load(alpha, k)
        if linked is not None:
            t = fma(splat(linked[0]), t, splat(linked[1]) * load(linked[2], k))
        f = larger(fma(out, m, load(phi, k) + load(change, k)), nothing) + smooth
        weight = t * f / fma(out, m, load(lam, k))
        store(p, k, weight)
        s = s + weight
    return total(s)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def _move(x: float, scale: float, topics: int, width: int, rows: Addresses) -> None:
    """Store new = scale p and move the sums by x (new - old)."""
    (old, new, p, _, theta, _, lam, _, change) = rows
    count = splat(x)
    each = splat(scale)
    for k in range(0, width, WIDTH):
        m = each * load(p, k)
        d = count * (m - load_row(old, k, topics))
        store_row(new, k, m, topics)
        store(theta, k, load(theta, k) + d)
        store(change, k, load(change, k) + d)
        store(lam, k, load(lam, k) + d)


@kernel(forceinline=True)
def _put(scale: float, topics: int, width: int, p: int, new: int) -> None:
    """Store the message new = p = scale p."""
    each = splat(scale)
    for k in range(0, width, WIDTH):
        m = each * load(p, k)
        store(p, k, m)
        store_row(new, k, m, topics)


@kernel(forceinline=True)
def _add(x: float, width: int, p: int, sums: int) -> None:
    """Add x p to the sums."""
    count = splat(x)
    for k in range(0, width, WIDTH):
        store(sums, k, fma(count, load(p, k), load(sums, k)))


@kernel
def gather_theta(first: int, last: int, counts: Array, old: Floats, theta: Floats) -> float:
    """Sum theta[k] = sum of x mu over a document and return its tokens.

    theta: float32[Kp], zero from K on.
    """
    topics = old.shape[1]
    old_ = address_of(old)
    theta_ = address_of(theta)
    theta[:] = _ZERO
    n = 0.0
    for i in range(first, last):
        x = np.float32(counts[i])
        n += np.float64(x)
        count = splat(x)
        row = old_ + 4 * topics * i
        for k in range(0, len(theta), WIDTH):
            store(theta_, k, fma(count, load_row(row, k, topics), load(theta_, k)))
    return n


class Messages(NamedTuple):
    """Messages of the cells before and after a visit, float32[nnz, K]."""

    old: Floats
    new: Floats


class Rule(NamedTuple):
    """How messages are updated.

    Attributes
    ----------
    exclude
        NOTHING, TOKEN or CELL: what of its own message a cell leaves out of the sums.
    moving
        True: theta, phi and lam move after each cell, and delta gets the change of the block's
        contribution. False: every message comes from the sums of the pass before, and delta gets
        the whole new contribution.
    """

    exclude: int
    moving: bool


@kernel
def visit(
    cells: Cells,
    topics: Topics,
    priors: Priors,
    rule: Rule,
    messages: Messages,
    delta: Floats,
    thetas: Floats,
    links: Any,
) -> float:
    """Visit a block once, document by document, cell by cell.

    Parameters
    ----------
    thetas
        float32[D, Kp], receives the documents' sums: of the new messages when they move, else of
        the old ones. With links always of the old ones.
    links
        ``Links`` or None.

    Returns
    -------
    The sum of x log p(w | the other cells) in nats, with p as it stood just before each update.
    """
    (indptr, words, counts) = cells
    (base, index, totals) = topics
    (alpha, row_of, beta, smooth) = priors
    (exclude, moving) = rule
    (old, new) = messages
    k_all = old.shape[1]
    width = delta.shape[1]
    # lam_k + W beta, the denominator of eq. (7), and the sums of alpha
    lam = np.ones(width, np.float32)
    p = np.empty(width, np.float32)
    nothing = np.zeros(width, np.float32)
    masses = np.zeros(len(alpha))
    for k in range(k_all):
        lam[k] = totals[k] + smooth
        for r in range(len(alpha)):
            masses[r] += np.float64(alpha[r, k])
    delta[:] = _ZERO
    old_ = address_of(old)
    new_ = address_of(new)
    base_ = address_of(base)
    delta_ = address_of(delta)
    lam_ = address_of(lam)
    p_ = address_of(p)
    nothing_ = address_of(nothing)
    loglik = 0.0
    for d in range(len(indptr) - 1):
        prior_ = address_of(alpha) + 4 * width * np.int64(row_of[d])
        mass = masses[row_of[d]]
        # theta_dk from the stored messages
        n = gather_theta(indptr[d], indptr[d + 1], counts, old, thetas[d])
        theta_ = address_of(thetas) + 4 * width * d
        fresh_ = theta_
        message_ = theta_
        # eq. (30): weights a, b of theta and of the links' message (1 and 0 without links)
        a = 1.0
        b = 0.0
        z = 0.0
        if links is not None:
            links.fresh[d, :] = thetas[d] if moving else nothing
            fresh_ = address_of(links.fresh) + 4 * width * d
            message_ = address_of(links.message) + 4 * width * d
            z = np.float64(links.weight[d])
            if z > 0.0:
                a = 1.0 - links.xi
                b = links.xi
                links.tokens[0] += n
        # eq. (7) for each cell: weigh the topics, normalise by s, move or add up the sums
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            own = _share(x, exclude)
            mu = old_ + 4 * k_all * i
            to = new_ + 4 * k_all * i
            row = delta_ + 4 * width * words[i]
            phi = base_ + 4 * base.shape[1] * index[words[i]]
            change = row if moving else nothing_
            sums = fresh_ if links is not None and moving else theta_
            rows = Addresses(mu, to, p_, sums, fresh_, prior_, lam_, phi, change)
            if links is None:
                s = _weigh(own, k_all, width, rows, beta, None)
                # p(w | the other cells): the normaliser over the document's remaining tokens and
                # priors
                loglik += np.float64(x) * log(s / (n - own + mass))
            else:
                # eq. (30): the links weigh as much as the document's other tokens and its priors
                rest = n - x + mass
                linked = (np.float32(a), np.float32(b * rest), message_)
                s = _weigh(own, k_all, width, rows, beta, linked)
                loglik += np.float64(x) * log(s / (rest * (a + b * z)))
            if moving:
                _move(x, _ONE / s, k_all, width, rows)
            else:
                _put(_ONE / s, k_all, width, p_, to)
                _add(x, width, p_, row)
                if links is not None:
                    _add(x, width, p_, fresh_)
    return loglik


@kernel
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
    block's contribution. thetas: float32[D, Kp].

    Returns
    -------
    The sum of x log p(w) under the last mixture, in nats.
    """
    (indptr, words, counts) = cells
    (base, index, totals) = topics
    k_all = new.shape[1]
    width = delta.shape[1]
    inverse = np.zeros(width, np.float32)
    possible = np.zeros(width, np.float32)
    mu = np.empty(width, np.float32)
    p = np.empty(width, np.float32)
    prior = _padded(alpha, width, 0.0)
    # 1 / lam_k of the seed topics
    for k in range(k_all):
        inverse[k] = 1.0 / totals[k] if totals[k] > 0.0 else 0.0
        possible[k] = 1.0
    delta[:] = _ZERO
    new_ = address_of(new)
    base_ = address_of(base)
    delta_ = address_of(delta)
    mu_ = address_of(mu)
    p_ = address_of(p)
    loglik = 0.0
    for d in range(len(indptr) - 1):
        theta = thetas[d]
        theta_ = address_of(theta)
        # inner iterations of EM for the document's mixture, which begins even
        theta[:] = possible
        for r in range(rounds):
            if r > 0:
                for k in range(width):
                    theta[k] += prior[k]
            mass = 0.0
            for k in range(k_all):
                mass += np.float64(theta[k])
            p[:] = _ZERO
            for i in range(indptr[d], indptr[d + 1]):
                # E step: mu_k ~ theta_k p(w|k)
                seed = base_ + 4 * base.shape[1] * index[words[i]]
                lanes = splat(_ZERO)
                for k in range(0, width, WIDTH):
                    m = load(theta_, k) * load(address_of(inverse), k) * load(seed, k)
                    store(mu_, k, m)
                    lanes = lanes + m
                s = total(lanes)
                # normalise, and collect the M step's sum of x mu in p
                x = np.float32(counts[i])
                scale = _ONE / s if s > _ZERO else _ZERO
                if s <= _ZERO:  # a word no seed topic has: every topic alike
                    mu[:] = possible
                    scale = _ONE / np.float32(k_all)
                _put(scale, k_all, width, mu_, new_ + 4 * k_all * i)
                _add(x, width, mu_, p_)
                # the last iteration is the first message: add it to phi and the likelihood
                if r == rounds - 1:
                    _add(x, width, mu_, delta_ + 4 * width * words[i])
                    if s > _ZERO:
                        loglik += np.float64(x) * log(s / mass)
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
