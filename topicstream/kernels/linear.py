"""Sparse documents times a dense matrix of word rows, and the transpose: what a linear classifier is made of."""

from __future__ import annotations

from topicstream.kernels.arrays import Doubles, Floats, Longs
from topicstream.kernels.jit import kernel


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


@kernel
def products(indptr: Longs, rows: Longs, counts: Floats, weights: Floats, bias: Floats, out: Floats) -> None:
    """out[d] = bias + sum of x * weights[row] over the cells of document d, in the order of its cells.

    indptr: int64[D+1]; rows: int64[nnz] of weights: float32[R, C]; counts: float32[nnz]; bias: float32[C] -> out:
    float32[D, C].
    """
    for d in range(len(indptr) - 1):
        sums = out[d]
        sums[:] = bias
        four = indptr[d] + (indptr[d + 1] - indptr[d]) // 4 * 4
        for i in range(indptr[d], four, 4):
            _add4(weights, rows, counts, i, sums)
        for i in range(four, indptr[d + 1]):
            _add(weights[rows[i]], counts[i], sums)


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
