"""Sparse rows of whole counts, each in a slot as long as the row can become, in memory or in a mapped file.

A word has no more topics than tokens, nor than there are: so no row ever moves, and its place follows from the words'
tokens alone.  Memory that no entry has touched costs nothing.  Rows are cut into pieces that follow each other; a piece is
worked on at a time, and its entries have one type.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.errors import TopicsError
from topicstream.kernels.packed import entry_bytes, topic_bits
from topicstream.kernels.packed_table import copy_rows
from topicstream.tables.storage import ALIGNMENT, Storage

RANGES = 64
PIECE = 1 << 19  # entries of a piece, about


class RowPiece(NamedTuple):
    """Tight rows: row i is that of word numbers[i] (int32[n], ascending), entries[ptr[i] .. ptr[i+1]] (ptr int64[n+1];
    entries uint32 or uint64, ``count << bits | topic``, descending in count within a row)."""

    numbers: np.ndarray
    ptr: np.ndarray
    entries: np.ndarray


def ranges_of(words: int) -> np.ndarray:
    """First row of each of at most 64 ranges, and the number of rows, int64: how a checkpoint's file is cut."""
    return np.append(np.arange(0, words, max(1, -(-words // RANGES))), words).astype(np.int64)


class Slots:
    """[W, K] counts, at first zero.

    edges    int64[pieces + 1], first row of each piece and the number of rows; no piece lies in two ranges
    length   int32[W], entries of each row
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
        How many such tables the rows hold the sum of.
    """

    def __init__(self, n_w: np.ndarray, topics: int, folder: Path | None = None, samples: int = 1) -> None:
        self.topics, self.bits, self.largest = topics, topic_bits(topics), 0
        self._most = n_w * samples
        self._room = np.minimum(self._most, topics).astype(np.int32)
        self.length = np.zeros(len(n_w), np.int32)
        ends = np.cumsum(self._room, dtype=np.int64)
        cuts = np.flatnonzero(np.diff(ends // PIECE)) + 1
        self.edges = np.unique(np.concatenate((ranges_of(len(n_w)), cuts)))
        before = np.append(0, ends)[self.edges]
        self._begin = ends - self._room - np.repeat(before[:-1], np.diff(self.edges))  # within the piece
        self._types = [self.entry_type(a, b) for a, b in zip(self.edges[:-1].tolist(), self.edges[1:].tolist())]
        sizes = np.diff(before) * [kind.itemsize for kind in self._types]
        self._offset = np.append(0, np.cumsum(-(-sizes // ALIGNMENT) * ALIGNMENT))
        self._storage = Storage((int(self._offset[-1]),), np.uint8, folder)
        self._lock = threading.Lock()

    def entry_type(self, first: int, stop: int) -> np.dtype:
        """uint32 where every count of rows first..stop-1 must fit beside a topic, else uint64."""
        return np.dtype(f"u{entry_bytes(int(self._most[first:stop].max(initial=0)), self.topics)}")

    def _entries(self, i: int) -> np.ndarray:
        """The slots of piece ``i``."""
        return self._storage.array[self._offset[i] : self._offset[i + 1]].view(self._types[i])

    def _let_go(self, i: int) -> None:
        self._storage.let_go(int(self._offset[i]), int(self._offset[i + 1]))

    def take(self, i: int, wanted: np.ndarray | None = None) -> RowPiece:
        """Copies of the rows of piece ``i``: those of the ``wanted`` words (int32, ascending), or all."""
        numbers = np.arange(self.edges[i], self.edges[i + 1], dtype=np.int32) if wanted is None else wanted
        ptr = np.append(0, np.cumsum(self.length[numbers], dtype=np.int64))
        entries = np.empty(int(ptr[-1]), self._types[i])
        copy_rows(self._begin[numbers], self.length[numbers], self._entries(i), ptr[:-1], entries)
        self._let_go(i)
        return RowPiece(numbers, ptr, entries)

    def put(self, piece: RowPiece) -> None:
        """Other rows for words of one piece.  Several threads may put rows of different pieces."""
        numbers, ptr, entries = piece
        if not len(numbers):
            return
        length = np.diff(ptr).astype(np.int32)
        if (length > self._room[numbers]).any():
            raise TopicsError(f"words {numbers[0]} to {numbers[-1]} have more topics than tokens; report this")
        i = int(np.searchsorted(self.edges, numbers[0], side="right")) - 1
        copy_rows(ptr[:-1], length, entries, self._begin[numbers], self._entries(i))
        self._let_go(i)
        self.length[numbers] = length
        largest = int(entries.max(initial=0)) >> self.bits
        with self._lock:
            self.largest = max(self.largest, largest)

    def copy(self, vocab: np.ndarray, start: np.ndarray, out: np.ndarray) -> None:
        """Copy the rows of vocab (int32[U], ascending) to out[start[u]..] (uint32 or uint64, where ``largest`` fits)."""
        cuts = np.searchsorted(vocab, self.edges)
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            words = vocab[cuts[i] : cuts[i + 1]]
            copy_rows(self._begin[words], self.length[words], self._entries(i), start[cuts[i] : cuts[i + 1]], out)
            self._let_go(i)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries."""
        sizes = np.repeat([kind.itemsize for kind in self._types], np.diff(self.edges))
        return int((self.length * sizes).sum())

    def clear(self) -> None:
        """All rows empty."""
        self.length[:], self.largest = 0, 0

    def close(self) -> None:
        """Forget the rows, give memory and file back."""
        self.clear()
        self._storage.close()
