"""Sparse documents times a dense matrix of word rows, and the transpose: what a linear classifier is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels import simd
from topicstream.kernels.arrays import Doubles, Floats, Longs
from topicstream.kernels.jit import kernel

NARROW = 256  # columns up to which rows are asked for eight ahead, not four


@kernel
def _add(row: Floats, x: float, out: Floats) -> None:
    for k in range(len(out)):
        out[k] += x * row[k]


@kernel
def _add4(weights: Floats, rows: Longs, counts: Floats, at: int, out: Floats) -> None:
    a, b, c, d = weights[rows[at]], weights[rows[at + 1]], weights[rows[at + 2]], weights[rows[at + 3]]
    w, x, y, z = counts[at], counts[at + 1], counts[at + 2], counts[at + 3]
    for k in range(len(out)):
        out[k] += (w * a[k] + x * b[k]) + (y * c[k] + z * d[k])


@kernel(inline="always")
def _four(weights: Floats, a: int, b: int, c: int, d: int, w: Any, x: Any, y: Any, z: Any) -> Any:
    """Sixteen columns of four rows, weighed and added."""
    return (w * simd.load(weights, a) + x * simd.load(weights, b)) + (
        y * simd.load(weights, c) + z * simd.load(weights, d)
    )


@kernel
def _fours(rows: Longs, counts: Floats, first: int, last: int, weights: Floats, out: Floats, o: int) -> None:
    """out, from entry ``o`` on, += the rows of cells first .. last, by fours; sixteen columns or more.

    The last sixteen are added up before the others change and written after them: columns that are in both get the same
    sum.  Rows to come are asked for: they lie all over a table that is larger than the nearer caches.
    """
    width = weights.shape[1]
    end, ahead, most = width - simd.WIDTH, 8 if width <= NARROW else 4, len(rows) - 4
    for i in range(first, last, 4):
        a, b, c, d = rows[i] * width, rows[i + 1] * width, rows[i + 2] * width, rows[i + 3] * width
        p = min(i + ahead, most)
        f, g, h, j = rows[p] * width, rows[p + 1] * width, rows[p + 2] * width, rows[p + 3] * width
        w, x = simd.splat(counts[i]), simd.splat(counts[i + 1])
        y, z = simd.splat(counts[i + 2]), simd.splat(counts[i + 3])
        simd.fetch(weights, f + end)
        simd.fetch(weights, g + end)
        simd.fetch(weights, h + end)
        simd.fetch(weights, j + end)
        tail = simd.load(out, o + end) + _four(weights, a + end, b + end, c + end, d + end, w, x, y, z)
        for k in range(0, end, simd.WIDTH):
            simd.fetch(weights, f + k)
            simd.fetch(weights, g + k)
            simd.fetch(weights, h + k)
            simd.fetch(weights, j + k)
            more = _four(weights, a + k, b + k, c + k, d + k, w, x, y, z)
            simd.store(out, o + k, simd.load(out, o + k) + more)
        simd.store(out, o + end, tail)


@kernel
def products(indptr: Longs, rows: Longs, counts: Floats, weights: Floats, bias: Floats, out: Floats) -> None:
    """out[d] = bias + sum of x * weights[row] over the cells of document d, in the order of its cells.

    indptr: int64[D+1]; rows: int64[nnz] of weights: float32[R, C]; counts: float32[nnz]; bias: float32[C] -> out:
    float32[D, C].
    """
    wide = weights.shape[1] >= simd.WIDTH
    for d in range(len(indptr) - 1):
        sums = out[d]
        sums[:] = bias
        four = indptr[d] + (indptr[d + 1] - indptr[d]) // 4 * 4
        if wide:
            _fours(rows, counts, indptr[d], four, weights, out, d * weights.shape[1])
        else:
            for i in range(indptr[d], four, 4):
                _add4(weights, rows, counts, i, sums)
        for i in range(four, indptr[d + 1]):
            _add(weights[rows[i]], counts[i], sums)


@kernel
def evened(x: Floats, first: int, last: int, length: float, root: bool) -> float:
    """What brings the cells of a document to those of one ``length`` long (0: to none); ``root``: they are square roots."""
    total = 0.0
    for i in range(first, last):
        total += x[i] * x[i] if root else x[i]
    if not (length > 0.0 and total > 0.0):
        return 1.0
    return np.sqrt(length / total) if root else length / total


@kernel
def logits(
    indptr: Longs, rows: Longs, x: Floats, weights: Floats, bias: Floats, length: float, root: bool, temperature: float, out: Floats
) -> None:
    """out[d] = (bias + the sum of ``products``) / temperature, of x ``evened``."""
    products(indptr, rows, x, weights, np.zeros(len(bias), np.float32), out)
    for d in range(len(indptr) - 1):
        scale = np.float32(evened(x, indptr[d], indptr[d + 1], length, root) / temperature)
        inverse = np.float32(1.0 / temperature)
        for k in range(len(bias)):
            out[d, k] = out[d, k] * scale + bias[k] * inverse


@kernel
def even(indptr: Longs, x: Floats, length: float, root: bool) -> None:
    """x of all documents ``evened``, in place."""
    for d in range(len(indptr) - 1):
        scale = np.float32(evened(x, indptr[d], indptr[d + 1], length, root))
        for i in range(indptr[d], indptr[d + 1]):
            x[i] *= scale


@kernel
def spread(
    indptr: Longs, rows: Longs, counts: Floats, residual: Floats, first: int, last: int, gradient: Doubles
) -> None:
    """gradient[row, first:last] += x * residual[d, first:last] over all cells, in their order; the last row of gradient
    gains the residuals themselves (the bias).

    residual: float32[D, C]; gradient: float64[R, C].
    """
    bias = gradient[len(gradient) - 1]
    for d in range(len(indptr) - 1):
        of = residual[d]
        for k in range(first, last):
            bias[k] += of[k]
        for i in range(indptr[d], indptr[d + 1]):
            x, into = counts[i], gradient[rows[i]]
            for k in range(first, last):
                into[k] += x * of[k]
