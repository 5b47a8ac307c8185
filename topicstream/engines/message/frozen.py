"""Documents against topics that stand still: fold theta in, then give every cell's soft assignment to the delta.

For the cell of word w in document d with count x (Zeng, Liu & Cao 2012, Fig. 2, lines 15-19):

    eta_k  = (phi[w,k] + beta) g_k / s,   g_k = (theta[d,k] + alpha_k) / (lam_k + W beta),   s = sum over k
    theta'[d,k] += x eta_k,   phi'[w,k] += x eta_k

One sweep is a document's inner iteration; the last one also writes phi'.  sTBP's visit, the first assignment of a start
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

import numpy as np

from topicstream.engines.message.logs import sum_x_log
from topicstream.kernels.arrays import Array, Bytes, Doubles, Floats, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import below, bits, step, stream
from topicstream.kernels.simd import WIDTH, fetch, fma, get, larger, load, rows_ahead, splat, store, total


@kernel
def _sweep(
    first: int,
    last: int,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    beta: float,
    alpha: Floats,
    inverse: Floats,
    theta: Floats,
    at: int,
    new: Floats,
    g: Floats,
    u: Floats,
    p: Doubles,
) -> None:
    """One inner iteration over a document's cells: theta[at:] -> new (both KP wide); p[i]: s of each cell."""
    width = base.shape[1]
    for k in range(0, width, WIDTH):
        store(g, k, (load(theta, at + k) + load(alpha, k)) * load(inverse, k))
        store(new, k, splat(0.0))
    smooth, far = splat(beta), rows_ahead(width)
    for i in range(first, last):
        fetch(index, np.int64(get(words, min(i + 2 * far, len(words) - 1))))
        ahead = get(index, np.int64(get(words, min(i + far, len(words) - 1)))) * width
        row = get(index, np.int64(get(words, i))) * width
        acc = splat(0.0)
        for k in range(0, width, WIDTH):
            fetch(base, ahead + k)
            v = (load(base, row + k) + smooth) * load(g, k)
            store(u, k, v)
            acc = acc + v
        s = total(acc)
        p[i - first] = s
        share = splat(np.float32(get(counts, i)) / s)
        for k in range(0, width, WIDTH):
            store(new, k, fma(share, load(u, k), load(new, k)))


@kernel
def _give(
    first: int,
    last: int,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    beta: float,
    alpha: Floats,
    inverse: Floats,
    theta: Floats,
    at: int,
    new: Floats,
    g: Floats,
    u: Floats,
    p: Doubles,
    delta: Floats,
    seen: Bytes,
) -> None:
    """The last inner iteration: as ``_sweep``, and every cell's share enters its row of delta."""
    width = base.shape[1]
    for k in range(0, width, WIDTH):
        store(g, k, (load(theta, at + k) + load(alpha, k)) * load(inverse, k))
        store(new, k, splat(0.0))
    smooth, far = splat(beta), rows_ahead(width)
    if width == WIDTH:  # one vector a row: theta' stays in a register; delta has been zeroed
        weight, sums = load(g, 0), splat(0.0)
        for i in range(first, last):
            fetch(index, np.int64(get(words, min(i + 2 * far, len(words) - 1))))
            word = np.int64(get(words, min(i + far, len(words) - 1)))
            fetch(base, get(index, word) * width)
            fetch(delta, word * width)
            word = np.int64(get(words, i))
            v = (load(base, get(index, word) * width) + smooth) * weight
            s = total(v)
            p[i - first] = s
            v = splat(np.float32(get(counts, i)) / s) * v
            sums = sums + v
            store(delta, word * width, load(delta, word * width) + v)
        store(new, 0, sums)
        return
    for i in range(first, last):
        fetch(index, np.int64(get(words, min(i + 2 * far, len(words) - 1))))
        word = np.int64(get(words, min(i + far, len(words) - 1)))
        ahead, ahead_out = get(index, word) * width, word * width
        word = np.int64(get(words, i))
        row, out = get(index, word) * width, word * width
        acc = splat(0.0)
        for k in range(0, width, WIDTH):
            fetch(base, ahead + k)
            fetch(delta, ahead_out + k)
            v = (load(base, row + k) + smooth) * load(g, k)
            store(u, k, v)
            acc = acc + v
        s = total(acc)
        p[i - first] = s
        share = splat(np.float32(get(counts, i)) / s)
        if seen[word]:
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
def even(theta: Floats, d: int, share: Floats) -> None:
    """theta[d, :] = share: where a fold-in starts."""
    for k in range(theta.shape[1]):
        theta[d, k] = share[k]


@kernel
def fold_in(
    first: int,
    last: int,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    beta: float,
    alpha: Floats,
    inverse: Floats,
    theta: Floats,
    d: int,
    new: Floats,
    g: Floats,
    u: Floats,
    p: Doubles,
    inner: int,
    tol: float,
) -> int:
    """At most ``inner`` sweeps of document d on theta[d, :], until sum |change| <= tol * tokens; returns sweeps made."""
    width = base.shape[1]
    tokens = 0.0
    for i in range(first, last):
        tokens += counts[i]
    at = d * width
    for n in range(inner):
        _sweep(first, last, words, counts, base, index, beta, alpha, inverse, theta, at, new, g, u, p)
        moved = splat(0.0)
        for k in range(0, width, WIDTH):
            here, there = load(new, k), load(theta, at + k)
            moved = moved + larger(here - there, there - here)
            store(theta, at + k, here)
        change = total(moved)
        if change <= tol * tokens:
            return n + 1
    return inner


@kernel
def assign(
    indptr: Longs,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    beta: float,
    alpha: Floats,
    inverse: Floats,
    theta: Floats,
    keep_theta: bool,
    inner: int,
    tol: float,
    delta: Floats,
    seen: Bytes,
    work: Floats,
    p: Doubles,
    give: bool,
) -> tuple[float, float, int]:
    """Every document of a block: (fold theta in,) then, with ``give``, one sweep that writes theta and delta.

    theta    in: where the documents stand (``keep_theta``), else anything; out: theta'
    inner    sweeps before the writing one; from the even spread when not ``keep_theta``
    seen     uint8[U], zeroed here; delta is written whole, whatever it held (without ``give``: of no word each)
    work     float32[>= 4 KP]; p: float64[most cells of a document]
    -> (sum of x log(s / (n_d + sum alpha)) in nats: the words' probability before the last sweep, tokens, sweeps)
    """
    width = base.shape[1]
    new, g, u, flat = work[:width], work[width : 2 * width], work[2 * width : 3 * width], work[3 * width : 4 * width]
    seen[:] = 0
    if width == WIDTH:
        for word in range(len(seen)):
            store(delta, word * width, splat(0.0))
    alpha_sum = 0.0
    real = 0
    for k in range(width):
        alpha_sum += alpha[k]
        real += inverse[k] > 0.0
    loglik, all_tokens, sweeps = 0.0, 0.0, 0
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        tokens = 0.0
        for i in range(first, last):
            tokens += counts[i]
        at = d * width
        if not keep_theta:
            for k in range(width):
                flat[k] = tokens / real if inverse[k] > 0.0 else 0.0
            even(theta, d, flat)
        if last == first:
            for k in range(width):
                theta[d, k] = 0.0
            continue
        all_tokens += tokens
        sweeps += fold_in(
            first, last, words, counts, base, index, beta, alpha, inverse, theta, d, new, g, u, p, inner, tol
        )
        if not give:
            continue
        sweeps += 1
        _give(first, last, words, counts, base, index, beta, alpha, inverse, theta, at, new, g, u, p, delta, seen)
        for k in range(0, width, WIDTH):
            store(theta, at + k, load(new, k))
        loglik += sum_x_log(p, counts, first, last - first, tokens + alpha_sum, 0.0)
    return loglik, all_tokens, sweeps


@kernel
def random_topics(
    indptr: Longs, words: Ints, counts: Array, topics: int, seed: int, first_doc: int, theta: Floats, delta: Floats
) -> None:
    """A random topic for every cell (Zeng, Liu & Cao 2012, Fig. 2, lines 4-9), stream (seed, 0, document).

    theta: float32[D, KP], delta: float32[U, KP], both written whole.
    """
    theta[:, :] = 0.0
    delta[:, :] = 0.0
    for d in range(len(indptr) - 1):
        state = stream(seed, 0, first_doc + d)
        for i in range(indptr[d], indptr[d + 1]):
            k = below(bits(state), topics)
            state = step(state)
            theta[d, k] += counts[i]
            delta[words[i], k] += counts[i]
