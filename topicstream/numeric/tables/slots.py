"""Sparse rows of whole counts, each in a slot as long as it can become.

A word has no more topics than tokens, nor than there are, so no row ever moves, and its place
follows from the words' tokens alone. Memory that no entry has touched costs nothing. Rows are
worked on in consecutive pieces.

A row is merged with a round's changes, and comes out the same whatever its piece. Counts are whole,
so sums are exact in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from topicstream.base.errors import StoreError, TopicsError
from topicstream.numeric.kernels.packed import (
    SlackRows,
    copy_rows,
    entry_bytes,
    expand_packed,
    merge_packed,
    topic_bits,
)
from topicstream.numeric.tables.rounds import Addresses
from topicstream.numeric.tables.spec import padded
from topicstream.numeric.tables.storage import Storage

RANGES = 64
LEAST = 1 << 15  # entries of a range, or a small table spends its time between ranges
PIECE = 1 << 19  # entries of a piece, about
WRONG = {
    -1: "a count came out negative",
    -2: "a count came out above their tokens",
    -3: "one has more topics than tokens",
}
"""Explanation of each error that ``merge_packed`` returns."""


class RowPiece(NamedTuple):
    """Tight rows: row i belongs to word numbers[i].

    numbers: int32[n], ascending; ptr: int64[n+1]; entries: uint32 or uint64, ``count << bits |
    topic``. Row i is entries[ptr[i]:ptr[i+1]], descending in count.
    """

    numbers: np.ndarray
    ptr: np.ndarray
    entries: np.ndarray


class Slots:
    """Sparse rows of counts [W, K], initially zero, each in a fixed slot.

    edges    int64[pieces + 1], first row of each piece and the number of rows
    length   int32[W], entries of each row
    dtype    of an entry: uint32 where every count fits beside a topic, else uint64
    stored   of an entry in a file: the same, but uint64 of sums
    largest  no count is larger

    Parameters
    ----------
    n_w
        float64[W], what a row sums to.
    topics
        K.
    folder
        Where the file for the rows is made; None: they are in memory.
    samples
        How many such tables the rows hold the sum of; 0: they are a table themselves.
    """

    def __init__(
        self, n_w: np.ndarray, topics: int, folder: Path | None = None, samples: int = 0
    ) -> None:
        most = n_w * max(samples, 1)
        words = len(n_w)
        self.topics = topics
        self.bits = topic_bits(topics)
        self.largest = 0
        self.dtype = np.dtype(f"u{entry_bytes(int(most.max(initial=0)), topics)}")
        self.stored = np.dtype(np.uint64) if samples else self.dtype
        self.length = np.zeros(words, np.int32)
        self._begin = np.append(0, np.cumsum(np.minimum(most, topics).astype(np.int64)))
        full = np.flatnonzero(np.diff(self._begin[1:] // PIECE)) + 1
        ranges = min(max(int(self._begin[-1]) // LEAST, 1), RANGES)
        self.edges = np.unique(
            np.concatenate((np.arange(0, words, max(1, -(-words // ranges))), full, [words]))
        )
        self._storage = Storage((int(self._begin[-1]),), self.dtype, folder)
        self._lock = threading.Lock()

    def _release(self, numbers: np.ndarray) -> None:
        """Return the pages of these words' slots to the system."""
        if len(numbers):
            self._storage.release_pages(
                int(self._begin[numbers[0]]), int(self._begin[numbers[-1] + 1])
            )

    def take(self, i: int) -> RowPiece:
        """Copy the rows of piece ``i``."""
        numbers = np.arange(self.edges[i], self.edges[i + 1], dtype=np.int32)
        ptr = np.append(0, np.cumsum(self.length[numbers], dtype=np.int64))
        entries = np.empty(int(ptr[-1]), self.dtype)
        copy_rows(
            self._begin[numbers], self.length[numbers], self._storage.array, ptr[:-1], entries
        )
        self._release(numbers)
        return RowPiece(numbers, ptr, entries)

    def _note(self, largest: int) -> None:
        """Widen the largest count seen."""
        with self._lock:
            self.largest = max(self.largest, largest)

    def merge(self, i: int, deltas: Addresses, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """Add the rows lo[r] to hi[r]-1 of each block r to piece ``i``.

        Returns the column sums, float64[padded(K)]. Several threads may merge into different
        pieces.
        """
        words = self.edges[i : i + 2] - (0, 1)
        change = np.zeros(padded(self.topics))
        largest = merge_packed(
            SlackRows(self._begin, self.length, self._storage.array, self.bits, self.topics),
            deltas.where,
            lo,
            hi,
            change,
        )
        self._release(words)
        if largest < 0:
            raise TopicsError(
                f"words {words[0]} to {words[1]}: {WRONG[largest]}: deltas and table do not "
                f"belong together; the last checkpoint is "
                "intact, report this"
            )
        self._note(largest)
        return change

    def _parts(self, ids: np.ndarray) -> Iterator[slice]:
        """Split the ids (int32, ascending) into parts that are worked on together.

        In a file they are those of a piece, whose pages are released afterwards.
        """
        cuts = np.searchsorted(ids, self.edges if self._storage.mapped else self.edges[[0, -1]])
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[i], cuts[i + 1])
            yield part
            self._release(ids[part])

    def copy(
        self, ids: np.ndarray, first: int, stop: int, start: np.ndarray, out: np.ndarray
    ) -> None:
        """Copy the rows of ids[first:stop] to the places ``start`` in ``out``.

        out: uint32 or uint64, where ``largest`` fits.
        """
        chosen = ids[first:stop]
        for part in self._parts(chosen):
            words = chosen[part]
            copy_rows(self._begin[words], self.length[words], self._storage.array, start[part], out)

    def expand(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Expand the rows of the ids to dense rows, out[n, >= K] (any number type)."""
        for part in self._parts(ids):
            words = ids[part]
            expand_packed(
                self._begin[words], self.length[words], self._storage.array, self.bits, out[part]
            )

    @property
    def nbytes(self) -> int:
        """Return the bytes of the entries."""
        return int(self.length.sum(dtype=np.int64)) * self.dtype.itemsize

    def save(self, file: IO[bytes]) -> None:
        """Write the row lengths (int32), then all entries, a piece at a time."""
        file.write(self.length.data)
        for i in range(len(self.edges) - 1):
            file.write(self.take(i).entries.astype(self.stored, copy=False).data)

    def load(self, file: IO[bytes]) -> None:
        """Read the rows that ``save`` wrote.

        Raises StoreError if they are damaged.
        """
        lengths = read_array(file, np.int32, len(self.length))
        for first, stop in pairwise(self.edges.tolist()):
            length = lengths[first:stop]
            begin = self._begin[first : stop + 1]
            ptr = np.append(0, np.cumsum(length, dtype=np.int64))
            fits = (length >= 0).all() and (length <= np.diff(begin)).all()
            # a damaged length asks for no memory
            entries = read_array(file, self.stored, int(ptr[-1]) if fits else 0)
            topic = entries & self.stored.type((1 << self.bits) - 1)
            most = int(entries.max(initial=0))
            if not fits or int(topic.max(initial=0)) >= self.topics or most >> 62:
                raise StoreError(
                    f"{file.name}: an invalid topic or count; start again from an older checkpoint"
                )
            copy_rows(ptr[:-1], length, entries, begin[:-1], self._storage.array)
            self._storage.release_pages(int(begin[0]), int(begin[-1]))
            self._note(most >> self.bits)
        self.length[:] = lengths

    def clear(self) -> None:
        """Empty all rows."""
        self.length[:] = 0
        self.largest = 0

    def close(self) -> None:
        """Free the rows with their memory and file."""
        self.clear()
        self._storage.close()


def read_array(file: IO[bytes], dtype: DTypeLike, count: int) -> np.ndarray:
    """Read ``count`` numbers from a file.

    Raises StoreError if it ends early.
    """
    numbers = np.fromfile(file, dtype, max(count, 0))
    if len(numbers) != count:
        raise StoreError(f"{file.name}: is truncated; start again from an older checkpoint")
    return numbers
