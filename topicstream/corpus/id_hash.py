"""A 128-bit hash of a document's id.

The hash never changes between versions: the held-out split of a store rests on it.  It mixes 8 bytes at a time into two
64-bit lanes and finishes both with SplitMix64 (kernels/rng.py).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from topicstream.kernels.arrays import Bytes, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import bits

_A, _B = np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127)
_R29, _R35, _R31, _R33 = np.uint64(29), np.uint64(35), np.uint64(31), np.uint64(33)
_EIGHT = np.uint64(8)


@kernel
def _hash(data: Bytes, offsets: Longs, high: Words, low: Words) -> None:
    """data: uint8[], offsets: int64[D+1] -> high, low: uint64[D]."""
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        a, b = _A ^ np.uint64(stop - start), _B
        i = start
        while i < stop:
            word = np.uint64(0)
            end = min(i + 8, stop)
            for j in range(end - 1, i - 1, -1):
                word = (word << _EIGHT) | np.uint64(data[j])
            a = (a ^ word) * _B
            a = (a << _R29) | (a >> _R35)
            b = (b + word) * _A
            b = ((b << _R31) | (b >> _R33)) ^ a
            i = end
        high[d] = bits(a + bits(b))
        low[d] = bits(b ^ bits(a ^ _A))


def hash_ids(ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """large_string[D] -> (high, low), uint64[D] each."""
    ids = ids.cast(pa.large_string())
    high, low = np.empty(len(ids), np.uint64), np.empty(len(ids), np.uint64)
    _, raw_offsets, raw = ids.buffers()
    if len(ids):
        offsets = np.frombuffer(raw_offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        data = np.frombuffer(raw, np.uint8) if raw is not None and raw.size else np.zeros(1, np.uint8)
        _hash(data, offsets, high, low)
    return high, low


def find_hashes(high: np.ndarray, low: np.ndarray, wanted_high: np.ndarray, wanted_low: np.ndarray) -> np.ndarray:
    """int64[]: where each wanted hash stands among distinct ones sorted by (high, low), -1 for nowhere."""
    at = np.searchsorted(high, wanted_high, "left")
    found = np.full(len(wanted_high), -1, np.int64)
    left = np.arange(len(wanted_high))
    while len(left):
        left = left[at[left] < len(high)]
        left = left[high[at[left]] == wanted_high[left]]
        same = low[at[left]] == wanted_low[left]
        found[left[same]] = at[left[same]]
        left = left[~same]
        at[left] += 1
    return found
