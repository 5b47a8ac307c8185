"""The seed table of a start, whose rows are made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, RowEntries
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, stream, uniform
from topicstream.numeric.tables.spec import Rows, Scratch


class Seeds(Protocol):
    """A seed table, whose rows are made on demand.

    Attributes
    ----------
    totals
        float64[padded(K)], its column sums.
    """

    totals: np.ndarray

    def rows(self, ids: np.ndarray, scratch: Scratch | None = None) -> np.ndarray:
        """Return the rows of these words, float32[U, padded(K)]: positive, unnormalised.

        Several threads may call it. ``scratch`` holds the result until its next use, because new
        memory costs more than writing to it.
        """


class SeedRows:
    """The rows of a seed table for the words of a block, of which some are held at a time.

    It takes the place of ``Rows`` in the start of an engine that ``starts_by_words``.

    Parameters
    ----------
    seeds
        The seed table.
    ids
        int32[U], the words.
    scratch
        Holds the rows.
    at_once
        How many rows are held.
    """

    def __init__(self, seeds: Seeds, ids: np.ndarray, scratch: Scratch, at_once: int) -> None:
        self.at_once = at_once
        self._seeds = seeds
        self._ids = ids
        self._scratch = scratch
        self._held_from = 0
        self._held = np.zeros((0, len(seeds.totals)), np.float32)

    def part(self, first: int, stop: int) -> Rows:
        """Return local rows ``first`` to ``stop - 1``, at most ``at_once``.

        They are valid until the next call.
        """
        if not self._held_from <= first <= stop <= self._held_from + len(self._held):
            self._held_from = first
            self._held = self._seeds.rows(self._ids[first : first + self.at_once], self._scratch)
        begin = self._held_from
        return Rows(self._held, np.arange(first - begin, stop - begin, dtype=np.int64))

    def portable(self) -> Rows:
        """Make all rows in a new array that can be sent to another process."""
        return Rows(self._seeds.rows(self._ids), np.arange(len(self._ids), dtype=np.int64))


def id_ranges(n: int, step: int = 8192) -> Iterator[np.ndarray]:
    """Yield the numbers 0 to ``n`` - 1 in arrays of ``step``."""
    for first in range(0, n, step):
        yield np.arange(first, min(first + step, n))


NUMBERS_AT_A_TIME = 1 << 15
"""Numbers of a seed table that are made with temporary arrays of more than 4 bytes each."""
GROUP = 8192
"""Rows whose column sums are added up by themselves, whatever the ranges in which they are made."""


def make_rows(
    make: Callable[[np.ndarray, np.ndarray], None],
    ids: np.ndarray,
    width: int,
    scratch: Scratch | None = None,
) -> np.ndarray:
    """Make the rows of a seed table by ranges, so that no temporary array is of a block's size.

    Parameters
    ----------
    make
        ``make(ids, out)`` fills the rows of some words, float32[n, width], zeros on entry.
    ids
        int32[U], the words.
    width
        Columns.
    scratch
        Holds the result. None: a new array does.

    Returns
    -------
    numpy.ndarray
        float32[U, width].
    """
    out: np.ndarray = (scratch or Scratch()).array("seeds", (len(ids), width), np.float32)
    step = max(1, NUMBERS_AT_A_TIME // width)
    for first in range(0, len(ids), step):
        rows = out[first : first + step]
        rows[:] = 0.0
        make(ids[first : first + step], rows)
    return out


def sum_seed_columns(
    make: Callable[[np.ndarray, np.ndarray], None], words: int, width: int
) -> np.ndarray:
    """Sum the columns of a seed table, float64[width], a few rows at a time (see ``make_rows``)."""
    totals = np.zeros(width)
    step = max(1, NUMBERS_AT_A_TIME // width)
    scratch = Scratch()
    for group in id_ranges(words, GROUP):
        sums = np.zeros(width)
        for first in range(0, len(group), step):
            rows = make_rows(make, group[first : first + step], width, scratch)
            sums = np.add.reduce(np.vstack((sums, rows)), axis=0, dtype=np.float64)
        totals += sums
    return totals


class MixedRows(NamedTuple):
    """A seed table whose row w is scale * ((1 - share) * mean[w] + share * value of (w, k)).

    Attributes
    ----------
    entries
        The sparse values by word: int64[W+1], int32, float32.
    mean
        float64[W].
    topics
        K.
    """

    entries: RowEntries
    mean: Doubles
    share: float
    scale: float
    topics: int


@kernel
def fill_rows(table: MixedRows, ids: Array, seed: int, draw: int, out: Floats) -> None:
    """Fill out[u] with row ids[u] of the seed table.

    Parameters
    ----------
    draw
        Number of the random stream that splits the mean's part of each word over the topics by a
        flat Dirichlet. 0: evenly.
    out
        float32[U, KP], padding zeroed.
    """
    (entries, mean, share, scale, topics) = table
    (ptr, topic, value) = entries
    for u in range(len(ids)):
        # scale (1 - share) mean_w, split over the topics by a flat Dirichlet or evenly
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
        # scale share value_wk
        for j in range(ptr[w], ptr[w + 1]):
            out[u, topic[j]] += np.float32(scale * share * value[j])
