"""Where the packed rows of a table are: in memory, as small as they can be, or in a file, a slot a row.

Rows are cut into pieces that follow each other; a piece is taken, whole or in part, and its rows are replaced.  A slot is
as long as its row can become (a word has no more topics than tokens, nor than there are), so no row ever moves, where it
is follows from the words' tokens alone, and the file is no longer than the densest table would be.
"""

from __future__ import annotations

import abc
import os
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.files import owned
from topicstream.files.whole import read_all, write_all
from topicstream.kernels.file_rows import read_rows, write_rows
from topicstream.kernels.packed import entry_bytes, topic_bits
from topicstream.kernels.packed_table import gather_packed
from topicstream.tables.spec import Scratch

RANGES = 64
PIECE = 1 << 19  # entries of a piece of a file, about
WINDOW = 1 << 18  # entries of a file that are read at once on their way to where a block wants them


class RowPiece(NamedTuple):
    """Tight rows: row i is that of word numbers[i] (int32[n], ascending), entries[ptr[i] .. ptr[i+1]] (ptr int64[n+1];
    entries uint32 or uint64, descending in count within a row)."""

    numbers: np.ndarray
    ptr: np.ndarray
    entries: np.ndarray


def ranges_of(words: int) -> np.ndarray:
    """First row of each of at most 64 ranges, and the number of rows, int64: how a checkpoint's file is cut."""
    return np.append(np.arange(0, words, max(1, -(-words // RANGES))), words).astype(np.int64)


class Held(abc.ABC):
    """What both places have in common: [W, K] rows, at first empty.

    n_w      float64[W], what a row sums to; times: rows that hold the sum of so many such tables
    edges    int64[pieces + 1], first row of each piece and the number of rows; no piece lies in two ranges
    length   int32[W], entries of each row
    largest  no count is larger
    """

    def __init__(self, n_w: np.ndarray, topics: int, times: int) -> None:
        self.n_w, self.topics, self.bits = n_w, topics, topic_bits(topics)
        self.edges = ranges_of(len(n_w))
        self.length = np.zeros(len(n_w), np.int32)
        self.largest = 0
        self._most = n_w * times
        self._lock = threading.Lock()

    def entry_type(self, first: int, stop: int) -> np.dtype:
        """uint32 where every count of rows first..stop-1 must fit beside a topic, else uint64: the same wherever they are."""
        return np.dtype(f"u{entry_bytes(int(self._most[first:stop].max(initial=0)), self.topics)}")

    def _note(self, piece: RowPiece) -> None:
        self.length[piece.numbers] = np.diff(piece.ptr)
        largest = int(piece.entries.max(initial=0)) >> self.bits
        with self._lock:
            self.largest = max(self.largest, largest)

    @abc.abstractmethod
    def take(self, i: int, wanted: np.ndarray | None = None) -> RowPiece:
        """Rows of piece ``i``: those ``wanted`` (int32 word ids, in any order; None: all), perhaps with others."""

    @abc.abstractmethod
    def put(self, i: int, piece: RowPiece) -> None:
        """Other rows for words of piece ``i``, all that ``take`` gave.  Several threads may put different pieces."""

    @abc.abstractmethod
    def copy(self, vocab: np.ndarray, start: np.ndarray, arena: np.ndarray, scratch: Scratch) -> None:
        """Copy the rows of vocab (int32[U], ascending) to arena[start[u]..] (uint32 or uint64, where ``largest`` fits)."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes of the rows."""

    def clear(self) -> None:
        """All rows empty."""
        self.length[:], self.largest = 0, 0

    def close(self) -> None:
        """Forget the rows, give back what holds them."""
        self.clear()


class HeldInMemory(Held):
    """A piece is one pair of arrays that is never changed once made: whoever still reads the old one reads the old counts."""

    def __init__(self, n_w: np.ndarray, topics: int, times: int = 1) -> None:
        super().__init__(n_w, topics, times)
        self._pieces = self._empty()

    def _empty(self) -> list[RowPiece]:
        rows = [np.arange(a, b, dtype=np.int32) for a, b in zip(self.edges, self.edges[1:])]
        return [RowPiece(r, np.zeros(len(r) + 1, np.int64), np.zeros(0, np.uint32)) for r in rows]

    def take(self, i: int, wanted: np.ndarray | None = None) -> RowPiece:
        return self._pieces[i]

    def put(self, i: int, piece: RowPiece) -> None:
        narrow = int(piece.entries.max(initial=0)) < 1 << 32
        entries = piece.entries.astype(np.uint32 if narrow else np.uint64)  # a copy, as long as it needs to be
        self._pieces[i] = piece._replace(entries=entries)
        self._note(piece)

    def copy(self, vocab: np.ndarray, start: np.ndarray, arena: np.ndarray, scratch: Scratch) -> None:
        cuts = np.searchsorted(vocab, self.edges)
        for i in np.flatnonzero(np.diff(cuts)):
            a, b = cuts[i], cuts[i + 1]
            _, ptr, entries = self._pieces[i]
            gather_packed(ptr, entries, self.edges[i], vocab[a:b], start[a:b], arena)

    @property
    def nbytes(self) -> int:
        return sum(p.ptr.nbytes + p.entries.nbytes for p in self._pieces)

    def clear(self) -> None:
        super().clear()
        self._pieces = self._empty()


class HeldInFile(Held):
    """A slot a row in a scratch file that goes with ``close``; entries of a piece are of one type."""

    def __init__(self, n_w: np.ndarray, topics: int, path: Path, times: int = 1) -> None:
        super().__init__(n_w, topics, times)
        room = np.minimum(self._most, topics).astype(np.int64)
        ends = np.cumsum(room)
        cuts = np.flatnonzero(np.diff(ends // PIECE)) + 1
        self.edges = np.unique(np.concatenate((self.edges, cuts)))
        pieces = zip(self.edges, self.edges[1:])
        self._types = [self.entry_type(int(a), int(b)) for a, b in pieces]
        room *= np.repeat([t.itemsize for t in self._types], np.diff(self.edges))
        self._offset = np.cumsum(room) - room
        self._path = path
        self._fd = owned.create_fd(path)

    def take(self, i: int, wanted: np.ndarray | None = None) -> RowPiece:
        a, b = self.edges[i], self.edges[i + 1]
        numbers = np.arange(a, b, dtype=np.int32)
        if wanted is not None:
            marked = np.zeros(b - a, bool)
            marked[wanted - a] = True
            numbers = numbers[marked]
        ptr = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(self.length[numbers], out=ptr[1:])
        entries = np.empty(int(ptr[-1]), f"u{entry_bytes(self.largest, self.topics)}")
        self._read(i, numbers, ptr[:-1], entries, Scratch())
        return RowPiece(numbers, ptr, entries)

    def put(self, i: int, piece: RowPiece) -> None:
        numbers, ptr, entries = piece
        entries = np.ascontiguousarray(entries, self._types[i])
        size = entries.itemsize
        failed = write_rows(self._fd, self._offset, size, numbers, ptr, entries.view(np.uint8))
        if failed >= 0:
            for j in range(failed, len(numbers)):  # once more, to hear what the system says
                write_all(self._fd, entries[ptr[j] : ptr[j + 1]], int(self._offset[numbers[j]]))
        self._note(piece)

    def copy(self, vocab: np.ndarray, start: np.ndarray, arena: np.ndarray, scratch: Scratch) -> None:
        cuts = np.searchsorted(vocab, self.edges)
        for i in np.flatnonzero(np.diff(cuts)):
            a, b = cuts[i], cuts[i + 1]
            self._read(int(i), vocab[a:b], start[a:b], arena, scratch)

    def _read(self, i: int, numbers: np.ndarray, start: np.ndarray, out: np.ndarray, scratch: Scratch) -> None:
        window = scratch.array("row window", max(WINDOW, 2 * self.topics), np.uint32)
        size = self._types[i].itemsize
        failed = read_rows(self._fd, self._offset, self.length, size, numbers, window, start, out)
        if failed >= 0:
            for j in range(failed, len(numbers)):  # once more, to hear what the system says
                row = np.empty(self.length[numbers[j]], self._types[i])
                read_all(self._fd, row, int(self._offset[numbers[j]]), f"{self._path}: a table on disk")
                out[start[j] : start[j] + len(row)] = row

    @property
    def nbytes(self) -> int:
        sizes = np.repeat([t.itemsize for t in self._types], np.diff(self.edges))
        return int((self.length * sizes).sum())

    def close(self) -> None:
        self.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            owned.discard(self._path)
