"""Documents against topics that stand still: fold theta in, then give every cell's soft assignment
to the delta.

For the cell of word w in document d with count x (Zeng, Liu & Cao 2012, Fig. 2, lines 15-19):

    eta_k  = (phi[w,k] + beta) g_k / s,   g_k = (theta[d,k] + alpha_k) / (lam_k + W beta),   s = sum
           over k
    theta'[d,k] += x eta_k,   phi'[w,k] += x eta_k

One sweep is a document's inner iteration; the last one also writes phi'.  sTBP's visit, the first
assignment of a start
and any fold-in are this with different arguments.

    symbol          array
    phi[w, :]       base[index[u], :]   float32[R, KP], u = local word, KP = padded(K)
    theta[d, :]     theta[d, :]         float32[D, KP], padding zero
    alpha           alpha               float32[KP], padding zero
    1/(lam+W beta)  inverse             float32[KP], padding zero
    phi'            delta[u, :]         float32[U, KP]
    x               counts              int32 or float32[nnz]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.kernels.arrays import Bytes, Cells, Doubles, Floats, Longs
from topicstream.kernels.digamma import sum_x_log
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import below, bits, step, stream
from topicstream.kernels.simd import (
    WIDTH,
    fetch,
    fma,
    get,
    larger,
    load,
    rows_ahead,
    splat,
    store,
    total,
)


class Topics(NamedTuple):
    """phi of local word u is base[row[u]], float32[., KP];  beta;  inverse float32[KP]: 1 / (lam +
    W beta), padding zero.
    """

    base: Floats
    row: Longs
    beta: float
    inverse: Floats


class Workspace(NamedTuple):
    """topics float32[>= 4 KP];  p float64[most cells of a document];  seen uint8[U]."""

    topics: Floats
    p: Doubles
    seen: Bytes


@kernel
def _sweep(
    first: int,
    last: int,
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    at: int,
    work: Workspace,
    delta: Floats,
    give: bool,
) -> None:
    """One inner iteration over a document's cells: theta[at:] -> the first row of work.topics;
    work.p[i]: s of each cell. ``give``: every cell's share enters its row of delta."""
    (_, words, counts), (base, index, beta, inverse), (rows, p, seen) = cells, topics, work
    width = base.shape[1]
    new, g, u = rows[:width], rows[width : 2 * width], rows[2 * width : 3 * width]
    for k in range(0, width, WIDTH):
        store(g, k, (load(theta, at + k) + load(alpha, k)) * load(inverse, k))
        store(new, k, splat(0.0))
    smooth, far = splat(beta), rows_ahead(width)
    for i in range(first, last):
        fetch(index, np.int64(get(words, min(i + 2 * far, len(words) - 1))))
        word = np.int64(get(words, min(i + far, len(words) - 1)))
        ahead, ahead_out = get(index, word) * width, word * width
        word = np.int64(get(words, i))
        row, out = get(index, word) * width, word * width
        acc = splat(0.0)
        for k in range(0, width, WIDTH):
            fetch(base, ahead + k)
            if give:
                fetch(delta, ahead_out + k)
            v = (load(base, row + k) + smooth) * load(g, k)
            store(u, k, v)
            acc = acc + v
        s = total(acc)
        p[i - first] = s
        share = splat(np.float32(get(counts, i)) / s)
        if not give:
            for k in range(0, width, WIDTH):
                store(new, k, fma(share, load(u, k), load(new, k)))
        elif seen[word]:
            for k in range(0, width, WIDTH):
                v = load(u, k)
                store(new, k, fma(share, v, load(new, k)))
                store(delta, out + k, fma(share, v, load(delta, out + k)))
        else:
            seen[word] = 1
            for k in range(0, width, WIDTH):
                v = share * load(u, k)
                store(new, k, load(new, k) + v)
                store(delta, out + k, v)


@kernel
def fold_in(
    first: int,
    last: int,
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    at: int,
    work: Workspace,
    inner: int,
    stop: float,
) -> None:
    """At most ``inner`` sweeps of a document on theta[at:], until sum |change| <= stop."""
    width, new = topics.base.shape[1], work.topics
    for _ in range(inner):
        _sweep(first, last, cells, topics, alpha, theta, at, work, theta, False)
        moved = splat(0.0)
        for k in range(0, width, WIDTH):
            after, before = load(new, k), load(theta, at + k)
            moved = moved + larger(after - before, before - after)
            store(theta, at + k, after)
        if total(moved) <= stop:
            return


@kernel
def assign(
    cells: Cells,
    topics: Topics,
    alpha: Floats,
    theta: Floats,
    inner: int,
    tol: float,
    delta: Floats,
    work: Workspace,
) -> float:
    """Every document of a block: fold theta in, then one sweep that writes theta and delta.

    alpha    float32[KP], padding zero
    theta    float32[D, KP]; in: where the documents stand, or anything where they are folded in;
             out: theta'
    inner    sweeps before the writing one, from the even spread, or fewer when no more than a share
             ``tol`` of the tokens
             moves; 0: theta is not folded in
    delta    float32[U, KP] is written whole, whatever it held; of no rows: there is no writing
             sweep
    -> sum of x log(s / (n_d + sum alpha)) in nats: the words' probability before the last sweep
    """
    (indptr, _, counts), inverse, width = cells, topics.inverse, topics.base.shape[1]
    work.seen[:] = 0
    alpha_sum, real, loglik = 0.0, 0, 0.0
    for k in range(width):
        alpha_sum += alpha[k]
        real += inverse[k] > 0.0
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        tokens = 0.0
        for i in range(first, last):
            tokens += counts[i]
        if inner > 0:
            for k in range(width):
                theta[d, k] = tokens / real if inverse[k] > 0.0 else 0.0
        if last == first:
            for k in range(width):
                theta[d, k] = 0.0
            continue
        fold_in(first, last, cells, topics, alpha, theta, d * width, work, inner, tol * tokens)
        if len(delta) == 0:
            continue
        _sweep(first, last, cells, topics, alpha, theta, d * width, work, delta, True)
        for k in range(0, width, WIDTH):
            store(theta, d * width + k, load(work.topics, k))
        loglik += sum_x_log(work.p, counts, first, last - first, tokens + alpha_sum, 0.0)
    return loglik


@kernel
def random_topics(
    cells: Cells, topics: int, seed: int, first_doc: int, theta: Floats, delta: Floats
) -> None:
    """A random topic for every cell (Zeng, Liu & Cao 2012, Fig. 2, lines 4-9), stream (seed, 0,
    document).

    theta: float32[D, KP], delta: float32[U, KP], both written whole.
    """
    indptr, words, counts = cells
    theta[:, :] = 0.0
    delta[:, :] = 0.0
    for d in range(len(indptr) - 1):
        state = stream(seed, 0, first_doc + d)
        for i in range(indptr[d], indptr[d + 1]):
            k = below(bits(state), topics)
            state = step(state)
            theta[d, k] += counts[i]
            delta[words[i], k] += counts[i]
