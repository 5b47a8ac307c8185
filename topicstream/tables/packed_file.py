"""The file of a packed table in a checkpoint: tight rows, the same bytes wherever the table was held.

head      int64[5]: magic, words, topics, samples taken, ranges (64 at most; twice as many once samples are summed up)
sizes     int64[ranges, 2]: entries, and bytes of an entry (4 or 8)
a range   int32 length of each row, then the entries of its rows; the present ones first, then the samples' sum
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.plain import open_plain
from topicstream.files.whole import read_all, write_all
from topicstream.kernels.packed import topic_bits
from topicstream.tables.packed_rows import Held, RowPiece, ranges_of

MAGIC = 0x31_57_4F_52_4B_43_50  # PCKROW1


def write_file(path: Path, held: Sequence[Held], samples: int) -> None:
    """Write the rows to a new file (no fsync), a piece at a time.  held: the present rows, then the sum of the samples."""
    words, topics = len(held[0].length), held[0].topics
    ranges = ranges_of(words)
    fd = owned.create_fd(path)
    try:
        head = [MAGIC, words, topics, samples, (len(ranges) - 1) * len(held)]
        for rows in held:
            for a, b in pairwise(ranges):
                head += [int(rows.length[a:b].sum(dtype=np.int64)), rows.entry_type(a, b).itemsize]
        offset = _append(fd, np.array(head, np.int64), 0)
        for rows in held:
            cuts = np.searchsorted(rows.edges, ranges)
            for i in range(len(ranges) - 1):
                a, b = int(ranges[i]), int(ranges[i + 1])
                offset = _append(fd, rows.length[a:b], offset)
                for piece in range(cuts[i], cuts[i + 1]):
                    entries = rows.take(piece).entries
                    offset = _append(fd, entries.astype(rows.entry_type(a, b), copy=False), offset)
    finally:
        os.close(fd)


def _append(fd: int, array: np.ndarray, offset: int) -> int:
    if array.nbytes:
        write_all(fd, np.ascontiguousarray(array), offset)
    return offset + array.nbytes


class PackedFile:
    """Reads such a file, some rows at a time.  StoreError when it is of another table.

    edges    int64, first row of each range and the number of rows
    samples  samples whose sum it holds as its second table
    """

    def __init__(self, path: Path, words: int, topics: int) -> None:
        self._path, self.edges = path, ranges_of(words)
        self._fd = open_plain(path)
        try:
            head = np.empty(5, np.int64)
            read_all(self._fd, head, 0, str(path))
            self.samples = int(head[3])
            n = (len(self.edges) - 1) * (2 if self.samples else 1)
            if tuple(int(v) for v in head) != (MAGIC, words, topics, self.samples, n):
                raise StoreError(f"{path}: not the rows of a table of {words} words and {topics} topics")
            self._sizes = np.empty((n, 2), np.int64)
            read_all(self._fd, self._sizes, head.nbytes, str(path))
        except BaseException:
            self.close()
            raise
        self._topics = topics
        size = os.fstat(self._fd).st_size
        if not (
            np.isin(self._sizes[:, 1], (4, 8)).all() and ((self._sizes[:, 0] >= 0) & (self._sizes[:, 0] <= size)).all()
        ):
            self.close()
            raise StoreError(f"{path}: ranges of rows that cannot be; start again from an older checkpoint")
        rows = np.resize(np.diff(self.edges), n)
        sizes = rows * 4 + self._sizes[:, 0] * self._sizes[:, 1]
        self._begin = head.nbytes + self._sizes.nbytes + np.cumsum(sizes) - sizes
        self._range, self._ptr = -1, np.zeros(1, np.int64)

    def rows(self, which: int, first: int, stop: int) -> RowPiece:
        """Rows first..stop-1, which lie in one range, of table ``which`` (0: the present one, 1: the samples' sum)."""
        inside = int(np.searchsorted(self.edges, first, side="right")) - 1
        at, number = int(self.edges[inside]), which * (len(self.edges) - 1) + inside
        lengths = int(self.edges[inside + 1]) - at
        if number != self._range:
            length = np.empty(lengths, np.int32)
            read_all(self._fd, length, int(self._begin[number]), str(self._path))
            if lengths and not (
                length.min() >= 0 and length.max() <= self._topics and length.sum() == self._sizes[number, 0]
            ):
                raise StoreError(f"{self._path}: lengths of rows that cannot be; start again from an older checkpoint")
            self._range, self._ptr = number, np.concatenate(([0], np.cumsum(length, dtype=np.int64)))
        ptr = self._ptr[first - at : stop - at + 1]
        size = int(self._sizes[number, 1])
        entries = np.empty(int(ptr[-1] - ptr[0]), np.uint64 if size == 8 else np.uint32)
        offset = int(self._begin[number]) + lengths * 4 + int(ptr[0]) * size
        read_all(self._fd, entries, offset, str(self._path))
        bits = topic_bits(self._topics)
        topic = np.bitwise_and(entries, np.array((1 << bits) - 1, entries.dtype))
        if len(entries) and (
            int(topic.max()) >= self._topics or int(entries.max()) >> 62 or int(entries.min()) >> bits < 1
        ):
            raise StoreError(f"{self._path}: a topic or a count that cannot be; start again from an older checkpoint")
        return RowPiece(np.arange(first, stop, dtype=np.int32), ptr - ptr[0], entries)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
