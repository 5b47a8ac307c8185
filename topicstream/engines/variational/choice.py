"""Selecting the L best topics of every cell of a document (paper 002, Alg. 2: TopLRespFromWeights), four cells at a time.

A selection has three steps, as in kernels/select.py: something no larger than the border, what reaches it, the border.  Each
is one long chain of dependent instructions; the same step of four cells overlaps.  Where the last selection was made on the
same columns, a cell whose kept topics are still above all others needs none, and otherwise the smallest of the kept ones is
the first step's answer.  Arrays as in sparse.py.  What is called a cell is inlined: numba counts the references of a
callee's arrays atomically.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.rows import LEAST_Z, clear_rows
from topicstream.kernels import simd
from topicstream.kernels.gather import highest, squeeze
from topicstream.kernels.jit import kernel
from topicstream.kernels.select import (
    NETWORK_MOST,
    SMALLEST,
    best_of,
    keep,
    keep_above,
    keep_by_quickselect,
    keep_top,
    lane,
    larger,
    low_border,
    reaching,
    smaller,
    tied,
    where,
)

NONE = np.float32(0)  # nothing is known of a cell's border
BEYOND = np.float32(3e38)  # a border that nothing reaches


@kernel
def best_of_words(e, most, p, work, topic, value):
    """The L best topics of each word, flat [U * L + 16]: uint16 topic and float32 value, 0 after the last.

    p, work: float32[P], [P + 16].
    """
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
def _add(p, o, width, border, gain, acc):
    """acc += gain * the entries of p[o ..] that reach the border."""
    b, g = simd.splat(border), simd.splat(gain)
    for k in range(0, width, 16):
        simd.store(acc, k, simd.fma(g, keep(simd.load(p, o + k), b), simd.load(acc, k)))


@kernel(forceinline=True)
def _take_four(queue, queued, low, at, x, source, t, width, most, kept, p, work, total, n, acc, z):
    """Select for the cells queue[0 .. queued): z, acc, and kept where it has room; returns the number of hard cells.

    at[r]: where cell queue[r] begins in source; low[r]: what at least L of its weights reach, or NONE; p, work: four
    rows of width and of width + 16; total, n: what is kept in between.
    """
    hard, room = 0, width + 16
    for r in range(queued):
        for k in range(0, width, 16):
            simd.store(p, r * width + k, simd.load(source, at[r] + k) * simd.load(t, k))
    if most > NETWORK_MOST:
        for r in range(queued):
            total[r] = keep_by_quickselect(p, r * width, width, most, work)
            low[r] = SMALLEST
    else:
        for r in range(queued):
            if low[r] == NONE:
                low[r] = low_border(p, r * width, width, most)
        for r in range(queued):
            n[r] = reaching(p, r * width, width, low[r], work, r * room)
            if n[r] < most and low[r] > SMALLEST:  # underflow beside the kept ones
                n[r] = reaching(p, r * width, width, SMALLEST, work, r * room)
        for r in range(queued):
            top = best_of(work, r * room, n[r])
            border = max(lane(top, most - 1), SMALLEST)
            low[r], total[r] = border, simd.total(keep(top, simd.splat(border)))
            if tied(work, r * room, n[r], top, most, border):
                total[r] = keep_above(p, r * width, width, most, border)
    for r in range(queued):
        j = queue[r]
        z[j] = total[r]
        if total[r] > np.float32(LEAST_Z):
            _add(p, r * width, width, low[r], x[j] / total[r], acc)
        else:
            hard += 1
            low[r] = BEYOND
    if len(kept) > 0:
        for r in range(queued):
            b, o = simd.splat(low[r]), queue[r] * width
            for k in range(0, width, 16):
                v = where(simd.load(p, r * width + k), b, simd.load(source, at[r] + k))
                simd.store(kept, o + k, v)
    return hard


@kernel(forceinline=True)
def _unchanged(o, own, kept, width, t, p):
    """(sum, smallest) of the kept weights of the cell at ``o`` under t, which go to p; sum -1 when others are larger.

    smallest: NONE where a kept topic has left the document.
    """
    zero, least, huge = simd.splat(np.float32(0)), simd.splat(SMALLEST), simd.splat(BEYOND)
    low, high, total = huge, zero, zero
    for k in range(0, width, 16):
        q, v = simd.load(kept, o + k), simd.load(own, o + k) * simd.load(t, k)
        inside = where(q, least, v)
        simd.store(p, k, inside)
        total = total + inside
        high = larger(high, v - inside)
        low = smaller(low, inside + where(zero, q, huge))  # q <= 0: not kept
    beyond, smallest = highest(high), -highest(zero - low)
    if smallest > beyond or (beyond == NONE and smallest < BEYOND):
        return simd.total(total), smallest
    return np.float32(-1), smallest if SMALLEST < smallest < BEYOND else NONE


@kernel
def select_cells(
    first, cells, words, x, source, wide, kept, last, width, t, most, again, p, work, low, total, acc, z
):  # fmt: skip
    """A selection for every cell of a document: z, acc[a] = N_da (hard cells left out), kept; returns the hard cells.

    source: the cells' own columns, or (``wide``) the block's rows.  ``again``: ``last`` (which may be ``kept``) holds a
    selection on these columns.  p, work: float32[4 * P], [4 * (P + 16)]; low, total: float32[4].
    """
    hard, queued = 0, 0
    queue, at, n = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    for k in range(0, width, 16):
        simd.store(acc, k, simd.splat(np.float32(0)))
    for j in range(cells):
        s, smallest = np.float32(-1), NONE
        if again:
            s, smallest = _unchanged(j * width, source, last, width, t, p)
        if s > np.float32(LEAST_Z):
            z[j] = s
            _add(p, 0, width, SMALLEST, x[j] / s, acc)
            for k in range(0, width, 16):
                simd.store(kept, j * width + k, simd.load(last, j * width + k))
        else:
            queue[queued], low[queued] = j, smallest
            at[queued] = words[first + j] * width if wide else j * width
            queued += 1
        if queued == 4:
            hard += _take_four(queue, queued, low, at, x, source, t, width, most, kept, p, work, total, n, acc, z)
            queued = 0
    if queued > 0:
        hard += _take_four(queue, queued, low, at, x, source, t, width, most, kept, p, work, total, n, acc, z)
    if len(kept) > 0:
        clear_rows(kept, cells, width)
    return hard
