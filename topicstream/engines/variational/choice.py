"""Lists of at most L topics: of each word of a block, and of each cell at the end of its document's visit."""

from __future__ import annotations

import numpy as np

from topicstream.kernels import pointers, simd
from topicstream.kernels.arrays import Floats, Shorts
from topicstream.kernels.gather import squeeze
from topicstream.kernels.jit import kernel
from topicstream.kernels.select import NETWORK_MOST, SMALLEST, best_of, keep, keep_top, lane, low_border, tied


@kernel
def best_of_words(e: Floats, most: int, p: Floats, work: Floats, numbers: Shorts, topic: Shorts, value: Floats) -> None:
    """The L best topics of each word and their shares, flat [U * L + 16]: uint16 topic, float32 value, zeros after the last.

    p, work: float32[P + 16]; numbers: uint16[P + 16].
    """
    width = e.shape[1]
    e_, p_ = pointers.address_of(e), pointers.address_of(p)
    for u in range(e.shape[0]):
        at, o = u * most, u * width
        n, left = 0, 0
        if most <= NETWORK_MOST:
            b = simd.splat(low_border(e_ + 4 * o, width, most))
            for k in range(0, width, 16):
                n += squeeze(numbers, p, n, k, keep(simd.load(e, o + k), b))
            simd.store(p, n, simd.splat(np.float32(0)))
            top = best_of(p_, n)
            border = max(lane(top, most - 1), SMALLEST)
            if not tied(p_, n, top, most, border):
                b, inverse = simd.splat(border), np.float32(1) / simd.total(keep(top, simd.splat(border)))
                for k in range(0, n, 16):
                    left += squeeze(topic, value, at + left, k, simd.splat(inverse) * keep(simd.load(p, k), b))
                for c in range(at, at + left):
                    topic[c] = numbers[topic[c]]
        if left == 0:
            for k in range(0, width, 16):
                simd.store(p, k, simd.load(e, o + k))
            inverse = np.float32(1) / keep_top(p, 0, width, most, work)
            for k in range(0, width, 16):
                simd.store(p, k, simd.splat(inverse) * simd.load(p, k))
            collect(p, 0, width, most, topic, value, at)
            while left < most and value[at + left] > 0:
                left += 1
        for c in range(at + left, at + most):
            topic[c], value[c] = 0, np.float32(0)


@kernel(forceinline=True)
def collect(p: Floats, o: int, width: int, most: int, topic: Shorts, value: Floats, at: int) -> None:
    """Positions and values of the positive entries of p[o .. o + width) to topic and value [at ..]; a value 0 ends the list.

    At most ``most`` are positive.  Sixteen entries are written each time: lists are filled in ascending order, and up to
    16 long they are zeros to their end, topics too.
    """
    n = 0
    for k in range(0, width, 16):
        n += squeeze(topic, value, at + n, k, simd.load(p, o + k))
    if n < most:
        value[at + n] = np.float32(0)
