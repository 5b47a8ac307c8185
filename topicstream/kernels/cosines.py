"""The basis of image patches."""

from __future__ import annotations

from functools import cache

import numpy as np


@cache
def cosines(n: int) -> np.ndarray:
    """float64[n^2 - 1, n^2]: orthonormal cosines of two dimensions (DCT-II) over n x n pixels, without the constant."""
    k = np.arange(n)
    one = np.cos(np.pi * (k[None, :] + 0.5) * k[:, None] / n) * np.sqrt(2.0 / n)
    one[0] /= np.sqrt(2.0)
    found = np.kron(one, one)[1:]
    found.flags.writeable = False
    return found
