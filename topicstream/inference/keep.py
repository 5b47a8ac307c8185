"""Which topics of a document are written: all, the largest N, or those above a probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topicstream.kernels.arrays import Floats, Ints, Longs
from topicstream.kernels.jit import kernel


@dataclass(frozen=True)
class Lists:
    """Topics of documents as lists: document d has topics[offsets[d]:offsets[d+1]] (int32) with those shares (float32)."""

    offsets: np.ndarray
    topics: np.ndarray
    shares: np.ndarray


@kernel
def _keep(shares: Floats, top: int, least: float, offsets: Longs, topics: Ints, values: Floats) -> int:
    """The ``top`` largest of each row that are >= least, largest first, of equal ones the lower topic first."""
    n = 0
    for d in range(shares.shape[0]):
        begin = n
        for k in range(shares.shape[1]):
            v = shares[d, k]
            if v < least:
                continue
            if n - begin == top:
                if v <= values[n - 1]:
                    continue
                n -= 1
            at = n
            while at > begin and values[at - 1] < v:
                values[at], topics[at] = values[at - 1], topics[at - 1]
                at -= 1
            values[at], topics[at] = v, k
            n += 1
        offsets[d + 1] = n
    return n


def keep(shares: np.ndarray, top: int | None = None, min_prob: float | None = None) -> Lists:
    """float32[D, K] -> lists.  Without ``top`` and ``min_prob`` every topic, by number; else the largest first."""
    docs, topics = shares.shape
    if top is None and min_prob is None:
        numbers = np.tile(np.arange(topics, dtype=np.int32), docs)
        return Lists(np.arange(docs + 1, dtype=np.int64) * topics, numbers, shares.ravel())
    most = topics if top is None else min(top, topics)
    offsets = np.zeros(docs + 1, np.int64)
    numbers, values = np.empty(docs * most, np.int32), np.empty(docs * most, np.float32)
    least = np.float32(0.0 if min_prob is None else min_prob)
    n = _keep(np.ascontiguousarray(shares), most, least, offsets, numbers, values)
    return Lists(offsets, numbers[:n], values[:n])
