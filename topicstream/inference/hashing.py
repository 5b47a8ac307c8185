"""FNV-1a hashes of texts (Fowler, Noll, Vo), which random draws and held-out splits depend on."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.kernels.arrays import Bytes, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.model.vocabulary import string_buffers

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _hash(offsets: Longs, text: Bytes, out: Words) -> None:
    for i in range(len(out)):
        h = _BASIS
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(text[j])) * _PRIME
        out[i] = h


def fnv1a(strings: Any) -> np.ndarray:
    """Hash each of some Arrow strings (or anything that Arrow converts), uint64[n]."""
    offsets, text = string_buffers(strings)
    out = np.empty(len(offsets) - 1, np.uint64)
    _hash(offsets, text, out)
    return out
