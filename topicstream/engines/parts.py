"""Sparse deltas that a visit makes by ranges of words, whole or in parts (``Out.merge``)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topicstream.engines.base import Out, SparseDelta

PART = 1 << 19
"""Entries of a delta that is taken in parts, or those of a word more."""


class DeltaParts:
    """The delta of a table, made by ranges of words.

    The engine's workspace declares ``delta ptr``, ``delta topic`` and ``delta value``. The loop
    over the ranges ends with the delta handed over:

        parts = DeltaParts(out, "phi", ends)
        for first, stop in parts:
            parts.add(kernel(words first .. stop - 1, *parts.arrays))

    Parameters
    ----------
    out
        The output of the visit.
    table
        Name of the table.
    ends
        int64[U], upper bound of the entries up to the end of each word.
    spare
        Entries that a kernel may write beyond its last one.
    most_words
        Most words of a range.
    """

    def __init__(
        self, out: Out, table: str, ends: np.ndarray, spare: int = 0, most_words: int = 1 << 62
    ) -> None:
        self._out = out
        self._table = table
        self._edges = cut_words(ends, most_words, out.merge is not None)
        entries = np.diff(np.append(0, ends)[self._edges])
        most = int(entries.sum() if out.merge is None else entries.max()) + spare
        self._ptr = out.array("delta ptr")
        self._topic = out.array("delta topic", most)
        self._value = out.array("delta value", most)
        self._first = 0
        self._stop = 0
        self._used = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self._ptr[0] = 0
        for first, stop in zip(self._edges[:-1].tolist(), self._edges[1:].tolist()):
            self._first = first
            self._stop = stop
            yield first, stop
        if self._out.merge is None:
            entries = (self._topic[: self._used], self._value[: self._used])
            self._out.delta[self._table] = SparseDelta(self._ptr, *entries)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ptr, topic and value of the range, which begin at its first entry."""
        ptr = self._ptr[self._first : self._stop + 1]
        return ptr, self._topic[self._used :], self._value[self._used :]

    def add(self, entries: int) -> None:
        """Hand over the entries of the range that the arrays have received."""
        ptr, topic, value = self.arrays
        if self._out.merge is not None:
            delta = SparseDelta(ptr, topic[:entries], value[:entries])
            self._out.merge(self._table, self._first, delta)
            return
        ptr += self._used
        self._used += entries


def cut_words(ends: np.ndarray, most_words: int, merges: bool) -> np.ndarray:
    """Cut a block's words into ranges.

    A range has at most ``most_words`` words, and where deltas are taken in parts at most ``PART``
    entries, or a word more.

    Returns
    -------
    int64[ranges + 1], the first word of each range, and then the number of words.
    """
    words = len(ends)
    starts = np.arange(0, words, max(1, most_words))
    if merges:
        full = np.flatnonzero(np.diff(ends // PART, prepend=0)) + 1
        starts = np.concatenate((starts, full[full < words]))
    return np.unique(np.append(starts, [0, words]))
