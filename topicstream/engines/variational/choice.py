"""Lists of at most L topics, of a word or of a cell.

Words have theirs for a block, cells at the end of their document's visit.
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels import simd
from topicstream.numeric.kernels.arrays import Floats, Shorts
from topicstream.numeric.kernels.gather import squeeze
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import keep_top


@kernel
def best_of_words(
    e: Floats, most: int, p: Floats, work: Floats, topic: Shorts, value: Floats
) -> None:
    """Choose the L best topics of each word with their shares.

    topic, value: flat [U * L + 16], uint16 and float32, zeros after the last.

    p, work: float32[P + 16].
    """
    width = e.shape[1]
    for u in range(e.shape[0]):
        at = u * most
        o = u * width
        left = 0
        for k in range(0, width, 16):
            simd.store(p, k, simd.load(e, o + k))
        inverse = simd.splat(np.float32(1) / keep_top(p, 0, width, most, work))
        for k in range(0, width, 16):
            left += squeeze(topic, value, at + left, k, inverse * simd.load(p, k))
        for c in range(at + left, at + most):
            topic[c] = 0
            value[c] = np.float32(0)


@kernel(forceinline=True)
def collect(
    p: Floats, o: int, width: int, most: int, topic: Shorts, value: Floats, at: int
) -> None:
    """Append positions and values of the positive entries of p[o .. o + width).

    They go to topic and value [at ..]. A value 0 ends the list.

    At most ``most`` are positive. Sixteen entries are written each time: lists are filled in
    ascending order, and up to 16 long they are zeros to their end, topics too.
    """
    n = 0
    for k in range(0, width, 16):
        n += squeeze(topic, value, at + n, k, simd.load(p, o + k))
    if n < most:
        value[at + n] = np.float32(0)
