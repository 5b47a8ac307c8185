"""Sparse rows of whole counts, each in a slot as long as the row can become, in memory or in a mapped file.

A word has no more topics than tokens, nor than there are: so no row ever moves, and its place follows from the words'
tokens alone.  Memory that no entry has touched costs nothing.  Rows are worked on in pieces that follow each other.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.errors import TopicsError
from topicstream.kernels.packed import entry_bytes, topic_bits
from topicstream.kernels.packed_table import copy_rows
from topicstream.tables.storage import Storage

RANGES = 64
PIECE = 1 << 19  # entries of a piece, about


class RowPiece(NamedTuple):
    """Tight rows: row i is that of word numbers[i] (int32[n], ascending), entries[ptr[i] .. ptr[i+1]] (ptr int64[n+1];
    entries uint32 or uint64, ``count << bits | topic``, descending in count within a row)."""

    numbers: np.ndarray
    ptr: np.ndarray
    entries: np.ndarray


class Slots:
    """[W, K] counts, at first zero.

    edges    int64[pieces + 1], first row of each piece and the number of rows
    length   int32[W], entries of each row
    dtype    of an entry: uint32 where every count fits beside a topic, else uint64
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
        most, words = n_w * samples, len(n_w)
        self.topics, self.bits, self.largest = topics, topic_bits(topics), 0
        self.dtype = np.dtype(f"u{entry_bytes(int(most.max(initial=0)), topics)}")
        self.length = np.zeros(words, np.int32)
        self._begin = np.append(0, np.cumsum(np.minimum(most, topics).astype(np.int64)))
        full = np.flatnonzero(np.diff(self._begin[1:] // PIECE)) + 1
        self.edges = np.unique(np.concatenate((np.arange(0, words, max(1, -(-words // RANGES))), full, [words])))
        self._storage = Storage((int(self._begin[-1]),), self.dtype, folder)
        self._lock = threading.Lock()

    def _let_go(self, numbers: np.ndarray) -> None:
        if len(numbers):
            self._storage.let_go(int(self._begin[numbers[0]]), int(self._begin[numbers[-1] + 1]))

    def take(self, i: int, wanted: np.ndarray | None = None) -> RowPiece:
        """Copies of the rows of piece ``i``: those of the ``wanted`` words (int32, ascending), or all."""
        numbers = np.arange(self.edges[i], self.edges[i + 1], dtype=np.int32) if wanted is None else wanted
        ptr = np.append(0, np.cumsum(self.length[numbers], dtype=np.int64))
        entries = np.empty(int(ptr[-1]), self.dtype)
        copy_rows(self._begin[numbers], self.length[numbers], self._storage.array, ptr[:-1], entries)
        self._let_go(numbers)
        return RowPiece(numbers, ptr, entries)

    def put(self, piece: RowPiece) -> None:
        """Other rows for some words.  Several threads may put rows of different pieces."""
        numbers, ptr, entries = piece
        length = np.diff(ptr).astype(np.int32)
        if (length > self._begin[numbers + 1] - self._begin[numbers]).any():
            raise TopicsError(f"words {numbers[0]} to {numbers[-1]} have more topics than tokens; report this")
        copy_rows(ptr[:-1], length, entries, self._begin[numbers], self._storage.array)
        self._let_go(numbers)
        self.length[numbers] = length
        largest = int(entries.max(initial=0)) >> self.bits
        with self._lock:
            self.largest = max(self.largest, largest)

    def copy(self, vocab: np.ndarray, start: np.ndarray, out: np.ndarray) -> None:
        """Copy the rows of vocab (int32[U], ascending) to out[start[u]..] (uint32 or uint64, where ``largest`` fits)."""
        cuts = np.searchsorted(vocab, self.edges)
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            words = vocab[cuts[i] : cuts[i + 1]]
            copy_rows(self._begin[words], self.length[words], self._storage.array, start[cuts[i] : cuts[i + 1]], out)
            self._let_go(words)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries."""
        return int(self.length.sum(dtype=np.int64)) * self.dtype.itemsize

    def clear(self) -> None:
        """All rows empty."""
        self.length[:], self.largest = 0, 0

    def close(self) -> None:
        """Forget the rows, give memory and file back."""
        self.clear()
        self._storage.close()
