"""The seed table of a start, whose rows are made on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, Ints, Longs
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, stream, uniform
from topicstream.numeric.tables.spec import Scratch


class Seeds(Protocol):
    """A seed table, row by row.  totals: float64[padded(K)], its column sums."""

    totals: np.ndarray

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of these words, float32[U, padded(K)]: positive, unnormalised.

        Several threads may call it. ``scratch`` holds the result until its next use, because new
        memory costs more than writing to it.
        """


def id_ranges(n: int, step: int = 8192) -> Iterator[np.ndarray]:
    """0, 1, ... n - 1 in pieces."""
    for at in range(0, n, step):
        yield np.arange(at, min(at + step, n))


@kernel
def fill_rows(
    ids: Array,
    ptr: Longs,
    topic: Ints,
    value: Floats,
    mean: Doubles,
    share: float,
    scale: float,
    topics: int,
    seed: int,
    draw: int,
    out: Floats,
) -> None:
    """Fill rows of the seed table.

    out[u, k] = scale * ((1 - share) * mean[w] + share * value of (w, k)), w = ids[u].

    Parameters
    ----------
    ptr, topic, value
        int64[W+1], int32, float32: the sparse values, sorted by word.
    mean
        float64[W].
    draw
        Number of the random stream that splits the mean's part of each word over the topics by a
        flat Dirichlet. 0: evenly.
    out
        float32[U, KP], padding zeroed.
    """
    for u in range(len(ids)):
        w = ids[u]
        ground = scale * (1.0 - share) * mean[w]
        if draw:
            total = 0.0
            for k in range(topics):
                e = 1e-6 - log(1.0 - uniform(bits(stream(seed, draw, w * topics + k))))
                total += e
                out[u, k] = e
            for k in range(topics):
                out[u, k] *= np.float32(ground * topics / total)
        else:
            for k in range(topics):
                out[u, k] = np.float32(ground)
        for k in range(topics, out.shape[1]):
            out[u, k] = 0.0
        for j in range(ptr[w], ptr[w + 1]):
            out[u, topic[j]] += np.float32(scale * share * value[j])
