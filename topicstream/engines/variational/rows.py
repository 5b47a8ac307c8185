"""A document's rows side by side, and the two sweeps over them that every inner iteration is made of.

    z_j = sum_k own[j, k] t[k],    acc[k] = sum_j (x_j / z_j) own[j, k]

Buffers hold eight rows more than the longest document: rows go eight at a time, and what is left of the last eight is
zero, as its counts are.

    own    flat float32[(cells + 8) * width], row j at j * width; width a multiple of 16
    x, z   float32[cells + 16]
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels import eight, simd
from topicstream.kernels.jit import kernel

LEAST_Z = 1e-20  # below this a cell's normaliser is recomputed in logarithms


@kernel
def take_counts(counts, first, cells, x):
    """x = the counts of a document's cells, then 32 zeros: what is read up to a whole eight, or two whole tiles."""
    for j in range(cells):
        x[j] = np.float32(counts[first + j])
    for j in range(cells, cells + 32):
        x[j] = np.float32(0)


@kernel(forceinline=True)
def _clear_rows(own, cells, width):
    """Zero what is left of the last eight rows."""
    for o in range(cells * width, -(-cells // 8) * 8 * width, 16):
        simd.store(own, o, simd.splat(np.float32(0)))


@kernel
def take_rows(e, words, first, cells, own):
    """own[j] = e[words[first + j]]: rows side by side are streamed, scattered ones are waited for."""
    width = e.shape[1]
    for j in range(cells):
        o, at = j * width, words[first + j] * width
        for k in range(0, width, 16):
            simd.store(own, o + k, simd.load(e, at + k))
    _clear_rows(own, cells, width)


@kernel
def sweep(cells, x, own, width, t, z, acc):
    """z and acc of a document, cells with z <= LEAST_Z left out of acc.  Returns the number of those."""
    nothing, least = simd.splat(np.float32(0)), simd.splat(np.float32(LEAST_Z))
    for k in range(0, width, 16):
        simd.store(acc, k, nothing)
    for j in range(0, cells, 8):
        o0 = j * width
        o1, o2, o3, o4 = o0 + width, o0 + 2 * width, o0 + 3 * width, o0 + 4 * width
        o5, o6, o7 = o4 + width, o4 + 2 * width, o4 + 3 * width
        v0, v1, v2, v3, v4, v5, v6, v7 = nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
        for k in range(0, width, 16):
            y = simd.load(t, k)
            v0 = simd.fma(simd.load(own, o0 + k), y, v0)
            v1 = simd.fma(simd.load(own, o1 + k), y, v1)
            v2 = simd.fma(simd.load(own, o2 + k), y, v2)
            v3 = simd.fma(simd.load(own, o3 + k), y, v3)
            v4 = simd.fma(simd.load(own, o4 + k), y, v4)
            v5 = simd.fma(simd.load(own, o5 + k), y, v5)
            v6 = simd.fma(simd.load(own, o6 + k), y, v6)
            v7 = simd.fma(simd.load(own, o7 + k), y, v7)
        s = eight.totals(v0, v1, v2, v3, v4, v5, v6, v7)
        eight.store_eight(z, j, s)
        g = eight.quotient(simd.load(x, j), s, least)
        g0, g1, g2, g3 = eight.spread0(g), eight.spread1(g), eight.spread2(g), eight.spread3(g)
        g4, g5, g6, g7 = eight.spread4(g), eight.spread5(g), eight.spread6(g), eight.spread7(g)
        for k in range(0, width, 16):
            # acc last: what one group of rows waits for of the one before is a single addition
            y = g0 * simd.load(own, o0 + k)
            v = g1 * simd.load(own, o1 + k)
            y = simd.fma(g2, simd.load(own, o2 + k), y)
            v = simd.fma(g3, simd.load(own, o3 + k), v)
            y = simd.fma(g4, simd.load(own, o4 + k), y)
            v = simd.fma(g5, simd.load(own, o5 + k), v)
            y = simd.fma(g6, simd.load(own, o6 + k), y)
            v = simd.fma(g7, simd.load(own, o7 + k), v)
            simd.store(acc, k, simd.load(acc, k) + (y + v))
    hard = 0
    for j in range(cells):
        if not z[j] > np.float32(LEAST_Z):
            hard += 1
    return hard
