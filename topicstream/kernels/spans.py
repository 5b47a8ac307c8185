"""Spans of bytes, such as words or lines, copied one behind the other."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Bytes, Longs
from topicstream.kernels.jit import kernel


def copy_spans(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """data uint8[n], starts and ends int64[D] -> (uint8[B], offsets int64[D+1]): the spans one after the other."""
    read = data.view()
    read.flags.writeable = False  # one compiled signature for what may be written and what may not
    out, offsets = _copy_spans(read, starts, ends)
    return out, offsets


@kernel
def _copy_spans(data: Bytes, starts: Longs, ends: Longs) -> tuple[Bytes, Longs]:
    offsets = np.empty(len(starts) + 1, np.int64)
    offsets[0] = 0
    for d in range(len(starts)):
        offsets[d + 1] = offsets[d] + ends[d] - starts[d]
    out = np.empty(offsets[-1], np.uint8)
    for d in range(len(starts)):
        for i in range(ends[d] - starts[d]):
            out[offsets[d] + i] = data[starts[d] + i]
    return out, offsets
