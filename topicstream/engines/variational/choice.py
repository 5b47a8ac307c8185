"""Selecting the L best topics of every cell of a document (paper 002, Alg. 2: TopLRespFromWeights), four cells at a time.

Arrays as in sparse.py.  What is called a cell is inlined: numba counts the references of a callee's arrays atomically.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.dense import LEAST_Z
from topicstream.kernels import simd
from topicstream.kernels.gather import highest, squeeze
from topicstream.kernels.jit import kernel
from topicstream.kernels.select import SMALLEST, keep_top, keep_top_four, larger, mark, smaller, where


@kernel
def best_of_words(e, most, p, work, topic, value):
    """The L best topics of each word, flat [U * L + 16]: uint16 topic and float32 value, 0 after the last.  p, work:
    float32[P]."""
    width = e.shape[1]
    for u in range(e.shape[0]):
        for k in range(0, width, 16):
            simd.store(p, k, simd.load(e, u * width + k))
        keep_top(p, 0, width, most, work)
        collect(p, width, most, topic, value, u * most)


@kernel(forceinline=True)
def collect(p, width, most, topic, value, at):
    """Positions and values of the positive entries of p[0 .. width) to topic and value [at ..]; a value 0 ends the list.

    At most ``most`` are positive.  Sixteen entries are written each time: lists are filled in ascending order.
    """
    n = 0
    for k in range(0, width, 16):
        n += squeeze(topic, value, at + n, k, simd.load(p, k))
    if n < most:
        value[at + n] = np.float32(0)


@kernel(forceinline=True)
def _take_four(queue, queued, at, first, counts, source, t, width, most, kept, p, work, totals, acc, z):
    """Select for the cells queue[0 .. queued) at once: z, acc, and kept where it has room.

    at[r]: where cell queue[r] begins in source; p: float32[4 * width].  Returns the number of hard cells.
    """
    hard, least = 0, simd.splat(SMALLEST)
    for r in range(4):
        if r < queued:
            for k in range(0, width, 16):
                simd.store(p, r * width + k, simd.load(source, at[r] + k) * simd.load(t, k))
        else:
            for k in range(0, width, 16):
                simd.store(p, r * width + k, simd.splat(np.float32(0)))
    keep_top_four(p, width, most, work, totals)
    for r in range(queued):
        j, o = queue[r], r * width
        z[j] = totals[r]
        easy = totals[r] > np.float32(LEAST_Z)
        if easy:
            g = simd.splat(np.float32(counts[first + j]) / totals[r])
            for k in range(0, width, 16):
                simd.store(acc, k, simd.fma(g, simd.load(p, o + k), simd.load(acc, k)))
        else:
            hard += 1
            for k in range(0, width, 16):
                simd.store(p, o + k, simd.splat(np.float32(0)))
        if len(kept) > 0:
            for k in range(0, width, 16):
                simd.store(kept, j * width + k, where(simd.load(p, o + k), least, simd.load(source, at[r] + k)))
    return hard


@kernel(forceinline=True)
def _unchanged(j, own, kept, width, t, most, p):
    """p = the kept weights of cell j under t and their sum, or -1 when others would now be chosen."""
    zero, least, huge = simd.splat(np.float32(0)), simd.splat(SMALLEST), simd.splat(np.float32(1e38))
    low, high, count, total = huge, zero, zero, zero
    o = j * width
    for k in range(0, width, 16):
        q, v = simd.load(kept, o + k), simd.load(own, o + k) * simd.load(t, k)
        inside = where(q, least, v)
        simd.store(p, k, inside)
        total = total + inside
        high = larger(high, v - inside)
        low = smaller(low, inside + (huge - where(q, least, huge)))
        count = count + mark(q, least)
    beyond = highest(high)
    if beyond == 0 or (simd.total(count) == most and -highest(zero - low) >= beyond):
        return simd.total(total)
    return np.float32(-1)


@kernel
def select_cells(first, cells, words, counts, source, wide, kept, width, t, most, again, p, work, totals, acc, z):
    """A selection for every cell of a document: z, acc[a] = N_da (hard cells left out), kept; returns the hard cells.

    source: the cells' own columns, or (``wide``) the block's rows.  ``again``: kept holds the last selection on these
    columns, and a cell whose kept weights are still above its others needs no new one.
    """
    hard, queued = 0, 0
    queue, at = np.empty(4, np.int64), np.empty(4, np.int64)
    for k in range(0, width, 16):
        simd.store(acc, k, simd.splat(np.float32(0)))
    for j in range(cells):
        s = _unchanged(j, source, kept, width, t, most, p) if again else np.float32(-1)
        if s > np.float32(LEAST_Z):
            z[j] = s
            g = simd.splat(np.float32(counts[first + j]) / s)
            for k in range(0, width, 16):
                simd.store(acc, k, simd.fma(g, simd.load(p, k), simd.load(acc, k)))
        else:
            queue[queued] = j
            at[queued] = words[first + j] * width if wide else j * width
            queued += 1
        if queued == 4 or (j == cells - 1 and queued > 0):
            hard += _take_four(queue, queued, at, first, counts, source, t, width, most, kept, p, work, totals, acc, z)
            queued = 0
    return hard
