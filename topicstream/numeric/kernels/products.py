"""Products of float32 matrices whose sums have one order on every processor.

A BLAS library adds up in an order that depends on the processor and on the number of threads. Here
every entry is a chain of fused multiply-adds in the order of the inner index. Rows are multiples of
16 wide.
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels.arrays import Floats
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import WIDTH, fma, load, splat, store


@kernel
def multiply(x: Floats, a: Floats, out: Floats) -> None:
    """Compute out = x a.

    x: float32[n, P], a: float32[P, Q] -> out: float32[n, Q]. Four rows at a time share what is read
    of ``a``.
    """
    inner = x.shape[1]
    width = a.shape[1]
    whole = len(x) // 4 * 4
    for i in range(0, whole, 4):
        for k in range(0, width, WIDTH):
            v0 = splat(np.float32(0))
            v1 = v0
            v2 = v0
            v3 = v0
            for j in range(inner):
                v = load(a, j * width + k)
                v0 = fma(splat(x[i, j]), v, v0)
                v1 = fma(splat(x[i + 1, j]), v, v1)
                v2 = fma(splat(x[i + 2, j]), v, v2)
                v3 = fma(splat(x[i + 3, j]), v, v3)
            at = i * width + k
            store(out, at, v0)
            store(out, at + width, v1)
            store(out, at + 2 * width, v2)
            store(out, at + 3 * width, v3)
    for i in range(whole, len(x)):
        for k in range(0, width, WIDTH):
            v0 = splat(np.float32(0))
            for j in range(inner):
                v0 = fma(splat(x[i, j]), load(a, j * width + k), v0)
            store(out, i * width + k, v0)


@kernel
def multiply_transposed(x: Floats, y: Floats, out: Floats) -> None:
    """Compute out = x^T y.

    x: float32[n, P], y: float32[n, Q] -> out: float32[P, Q].
    """
    width = y.shape[1]
    out[:] = np.float32(0)
    for i in range(len(x)):
        for j in range(x.shape[1]):
            share = splat(x[i, j])
            for k in range(0, width, WIDTH):
                at = j * width + k
                store(out, at, fma(share, load(y, i * width + k), load(out, at)))
