"""The file of a packed table in a checkpoint: tight rows, the same bytes wherever the table was held.

head      int64[5]: magic, words, topics, samples taken, ranges (64 at most; twice as many once samples are summed up)
sizes     int64[ranges, 2]: entries, and bytes of an entry (4 or 8)
a range   int32 length of each row, then the entries of its rows; the present ones first, then the samples' sum
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from topicstream.errors import StoreError
from topicstream.kernels.packed import topic_bits
from topicstream.tables.slots import RowPiece, Slots, ranges_of

MAGIC = 0x31_57_4F_52_4B_43_50  # PCKROW1


def write_file(path: Path, tables: Sequence[Slots], samples: int) -> None:
    """Write rows to a new file (no fsync), a piece at a time: the present ones, then the sum of the samples."""
    words = len(tables[0].length)
    ranges = ranges_of(words).tolist()
    head = [MAGIC, words, tables[0].topics, samples, (len(ranges) - 1) * len(tables)]
    for rows in tables:
        for a, b in pairwise(ranges):
            head += [int(rows.length[a:b].sum(dtype=np.int64)), rows.entry_type(a, b).itemsize]
    with open(path, "xb") as f:
        f.write(np.array(head, np.int64).data)
        for rows in tables:
            cuts = np.searchsorted(rows.edges, ranges)
            for i, (a, b) in enumerate(pairwise(ranges)):
                f.write(rows.length[a:b].data)
                for piece in range(cuts[i], cuts[i + 1]):
                    f.write(rows.take(piece).entries.astype(rows.entry_type(a, b), copy=False).data)


class PackedFile:
    """Reads such a file, some rows at a time.

    edges    int64, first row of each range and the number of rows
    samples  samples whose sum it holds as its second table

    Raises
    ------
    StoreError
        Where it is the file of another table, or damaged.
    """

    def __init__(self, path: Path, words: int, topics: int) -> None:
        self._path, self._topics, self.edges = path, topics, ranges_of(words)
        head = self._read(np.int64, 0, 5)
        ranges = len(self.edges) - 1
        self.samples = int(head[3])
        n = ranges * (2 if self.samples else 1)
        if head.tolist() != [MAGIC, words, topics, self.samples, n]:
            raise StoreError(f"{path}: not the rows of a table of {words} words and {topics} topics")
        self._sizes = self._read(np.int64, head.nbytes, 2 * n).reshape(n, 2)
        bytes_of_range = np.resize(np.diff(self.edges), n) * 4 + self._sizes[:, 0] * self._sizes[:, 1]
        self._begin = head.nbytes + self._sizes.nbytes + np.cumsum(bytes_of_range) - bytes_of_range
        self._range, self._ptr = -1, np.zeros(1, np.int64)

    def _read(self, dtype: object, offset: int, count: int) -> np.ndarray:
        found = np.fromfile(self._path, dtype, max(count, 0), offset=offset)  # type: ignore[call-overload]
        if len(found) != count:
            raise StoreError(f"{self._path}: is shorter than it says; start again from an older checkpoint")
        return np.asarray(found)

    def rows(self, which: int, first: int, stop: int) -> RowPiece:
        """Rows first..stop-1, which lie in one range, of table ``which`` (0: the present one, 1: the samples' sum)."""
        inside = int(np.searchsorted(self.edges, first, side="right")) - 1
        start, number = int(self.edges[inside]), which * (len(self.edges) - 1) + inside
        lengths = int(self.edges[inside + 1]) - start
        if number != self._range:
            length = self._read(np.int32, int(self._begin[number]), lengths)
            self._range, self._ptr = number, np.append(0, np.cumsum(length, dtype=np.int64))
        ptr = self._ptr[first - start : stop - start + 1]
        size = int(self._sizes[number, 1])
        offset = int(self._begin[number]) + lengths * 4 + int(ptr[0]) * size
        entries = self._read(np.uint64 if size == 8 else np.uint32, offset, int(ptr[-1] - ptr[0]))
        bits = topic_bits(self._topics)
        topic = np.bitwise_and(entries, np.array((1 << bits) - 1, entries.dtype))
        if (np.diff(ptr) < 0).any() or int(topic.max(initial=0)) >= self._topics or int(entries.max(initial=0)) >> 62:
            raise StoreError(f"{self._path}: a topic or a count that cannot be; start again from an older checkpoint")
        return RowPiece(np.arange(first, stop, dtype=np.int32), ptr - ptr[0], entries)
