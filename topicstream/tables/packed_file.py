"""The file of a packed table in a checkpoint: tight rows, the same bytes wherever the table was held.

head      int64[5]: magic, words, topics, samples taken, bytes of an entry
a table   int32 length of each row, then the entries of its rows; the present one first, then (once samples are taken) their
          sum, of 8 bytes an entry
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from topicstream.errors import StoreError
from topicstream.kernels.packed import topic_bits
from topicstream.tables.slots import RowPiece, Slots

MAGIC = 0x32_57_4F_52_4B_43_50  # PCKROW2
EARLIER = 0x31_57_4F_52_4B_43_50  # PCKROW1, of version 0.1


def write_file(path: Path, tables: Sequence[Slots], samples: int) -> None:
    """Write rows to a new file (no fsync), a piece at a time: the present ones, then the sum of the samples."""
    first = tables[0]
    with open(path, "xb") as f:
        f.write(np.array([MAGIC, len(first.length), first.topics, samples, first.dtype.itemsize], np.int64).data)
        for rows in tables:
            f.write(rows.length.data)
            for i in range(len(rows.edges) - 1):
                f.write(rows.take(i).entries.astype(first.dtype if rows is first else np.uint64, copy=False).data)


class PackedFile:
    """Reads such a file, some rows at a time.

    samples  samples whose sum it holds as its second table

    Raises
    ------
    StoreError
        Where it is the file of another table, or damaged.
    """

    def __init__(self, path: Path, words: int, topics: int) -> None:
        self._path, self._topics = path, topics
        head = self._read(np.int64, 0, 5)
        self.samples, size = head[3:].tolist()
        if head.tolist() != [MAGIC, words, topics, self.samples, size] or size not in (4, 8):
            if head[0] == EARLIER:
                raise StoreError(f"{path}: a checkpoint of a version before 0.2; `topics train --force` starts the run over")
            raise StoreError(f"{path}: not the rows of a table of {words} words and {topics} topics")
        self._tables, end = [], head.nbytes
        for dtype in (f"u{size}", "u8")[: 2 if self.samples else 1]:
            length = self._read(np.int32, end, words)
            ptr = np.append(0, np.cumsum(length, dtype=np.int64))
            self._tables.append((ptr, np.dtype(dtype), end + length.nbytes))
            end += length.nbytes + int(ptr[-1]) * np.dtype(dtype).itemsize

    def _read(self, dtype: object, offset: int, count: int) -> np.ndarray:
        found = np.fromfile(self._path, dtype, max(count, 0), offset=offset)  # type: ignore[call-overload]
        if len(found) != count:
            raise StoreError(f"{self._path}: is truncated; start again from an older checkpoint")
        return np.asarray(found)

    def rows(self, which: int, first: int, stop: int) -> RowPiece:
        """Rows first..stop-1 of table ``which`` (0: the present one, 1: the samples' sum)."""
        whole, dtype, begin = self._tables[which]
        ptr, bits = whole[first : stop + 1] - whole[first], topic_bits(self._topics)
        entries = self._read(dtype, begin + int(whole[first]) * dtype.itemsize, int(ptr[-1]))
        topic = np.bitwise_and(entries, np.array((1 << bits) - 1, dtype))
        if (np.diff(ptr) < 0).any() or int(topic.max(initial=0)) >= self._topics or int(entries.max(initial=0)) >> 62:
            raise StoreError(f"{self._path}: an invalid topic or count; start again from an older checkpoint")
        return RowPiece(np.arange(first, stop, dtype=np.int32), ptr, entries)
