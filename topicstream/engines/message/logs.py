"""Sums of x log p over many cells without a call of log per cell."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Doubles
from topicstream.kernels.jit import fast_kernel

LN2 = 0.6931471805599453


@fast_kernel
def sum_x_log(s: Doubles, counts: Array, first: int, n: int, whole: float, own: float) -> float:
    """Sum over the cells i < n of x log(s[i] / (whole - own x)), x = counts[first + i], nats.

    s: float64[>= n] positive and normal: normalisers of a document's cells; whole: float64, the mass that the topics'
    weights add up to; own: 1.0 where the cell's own tokens had been taken out of them, else 0.0.

    log y = e ln 2 + log m with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(z), z = (m - 1) / (m + 1), |z| <= 0.1716; the
    odd series is cut after z^15, error below 1e-13.  Straight arithmetic on bits, so LLVM vectorises the loop.
    """
    acc = 0.0
    for i in range(n):
        x = counts[first + i]
        b = np.float64(s[i] / (whole - own * x)).view(np.int64)
        # subtracting the bits of sqrt(1/2) moves the cut between two exponents there
        e = (b - 0x3FE6A09E667F3BCD) >> 52
        m = np.int64(b - (e << 52)).view(np.float64)
        z = (m - 1.0) / (m + 1.0)
        q = z * z
        a = 1.0 / 15.0
        a = a * q + 1.0 / 13.0
        a = a * q + 1.0 / 11.0
        a = a * q + 1.0 / 9.0
        a = a * q + 1.0 / 7.0
        a = a * q + 1.0 / 5.0
        a = a * q + 1.0 / 3.0
        acc += x * (e * LN2 + 2.0 * (z + z * q * a))
    return acc
