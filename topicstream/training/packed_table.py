"""A table of whole counts as packed sparse rows: its memory falls as the rows get sparser.

The rows are cut into ranges that depend on the number of words alone; each range is one pair of arrays (row pointers,
packed entries) that is never changed once made.  A scatter writes each touched range anew, tight, and puts it in the
old one's place: counts are exact whatever the order, and whoever still reads the old arrays reads the old counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.engines.base import PackedRows, Scratch, SparseDelta, TableSpec, padded
from topicstream.errors import StoreError, TopicsError
from topicstream.kernels.packed import (
    expand_packed,
    gather_packed,
    large_counts,
    merge_packed,
    row_lengths,
    sum_packed,
    topic_bits,
)
from topicstream.training.deltas import read_all, write_all
from topicstream.training.tables import WINDOW_BYTES

RANGES = 64
SMALL = 4096  # counts below this are counted one by one in the histogram
MAGIC = 0x31_57_4F_52_4B_43_50  # PCKROW1

RunAll = Callable[[Callable[[int], None], int], None]


class Range(NamedTuple):
    """Rows of one range: ptr int64[rows+1]; entries uint32 or uint64[ptr[-1]], descending in count within a row."""

    ptr: np.ndarray
    entries: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.ptr.nbytes + self.entries.nbytes


def _edges(words: int) -> np.ndarray:
    """First row of each range, and the number of rows."""
    return np.append(np.arange(0, words, max(1, -(-words // RANGES))), words).astype(np.int64)


class PackedTable:
    """[W, K] whole counts as sparse rows.  Interface of ``DenseTable``; ``rows`` gives ``PackedRows``.

    n_w        float64[W] or None: what each row must sum to, checked exactly by ``settle``
    histogram  (counts int64[], times int64[]) of all non-zero entries at the last ``settle``
    samples    how many times ``take_sample`` was called: then ``pieces`` gives the mean of those states
    """

    array = None

    def __init__(
        self, spec: TableSpec, words: int, topics: int, run_all: RunAll, n_w: np.ndarray | None = None
    ) -> None:
        self.spec, self.words, self.topics, self.width = spec, words, topics, padded(topics)
        self.bits = topic_bits(topics)
        self._run_all, self._n_w = run_all, n_w
        self.totals = np.zeros(self.width)
        self.scale = 1.0
        self._edges = _edges(words)
        self._ranges = self._empty()
        self._sums: list[Range] = []
        self.samples = 0
        self.histogram = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _empty(self) -> list[Range]:
        return [Range(np.zeros(n + 1, np.int64), np.zeros(0, np.uint32)) for n in np.diff(self._edges)]

    # -- rows out -------------------------------------------------------------------------------------------------
    def rows(self, vocab: np.ndarray, scratch: Scratch) -> PackedRows:
        """Tight copies of the rows of ``vocab`` (int32[U], ascending)."""
        cuts = np.searchsorted(vocab, self._edges)
        ptr = scratch.array("packed ptr", len(vocab) + 1, np.int64)
        ptr[0] = 0
        wide = False
        for i, held in enumerate(self._ranges):
            if cuts[i + 1] > cuts[i]:
                row_lengths(held.ptr, self._edges[i], vocab, cuts[i], cuts[i + 1], ptr)
                wide |= held.entries.dtype == np.uint64
        entries = scratch.array("packed entries", int(ptr[-1]), np.uint64 if wide else np.uint32)
        for i, held in enumerate(self._ranges):
            if cuts[i + 1] > cuts[i]:
                gather_packed(held.ptr, held.entries, self._edges[i], vocab, cuts[i], cuts[i + 1], ptr, entries)
        return PackedRows(ptr, entries, self.bits)

    # -- deltas in ------------------------------------------------------------------------------------------------
    def scatter(self, deltas: Sequence[tuple[np.ndarray, SparseDelta]]) -> None:
        """Add the round's deltas: (vocab int32[U] ascending, whole-numbered SparseDelta) of each block."""
        cuts = np.array([np.searchsorted(vocab, self._edges) for vocab, _ in deltas]).reshape(len(deltas), -1)
        n = len(self._ranges)
        change = np.zeros((n, self.width))

        def one(i: int) -> None:
            if (cuts[:, i + 1] > cuts[:, i]).any():
                self._ranges[i] = self._merge(i, deltas, cuts[:, i], cuts[:, i + 1], change[i])

        self._run_all(one, n)
        self.totals += change.sum(0)  # whole numbers below 2**53: exact in any order

    def _merge(
        self,
        i: int,
        deltas: Sequence[tuple[np.ndarray, SparseDelta]],
        lo: np.ndarray,
        hi: np.ndarray,
        change: np.ndarray,
    ) -> Range:
        vocabs, froms, topics, values, edges, at = [], [], [], [], [0], 0
        for (vocab, delta), a, b in zip(deltas, lo, hi):
            ptr = delta.ptr[a : b + 1]
            first, last = int(ptr[0]), int(ptr[-1])
            vocabs.append(vocab[a:b])
            froms.append(ptr - first + at)
            topics.append(delta.topic[first:last])
            values.append(delta.value[first:last])
            edges.append(edges[-1] + int(b - a))
            at += last - first
        held = self._ranges[i]
        count, here = np.zeros(self.topics, np.int64), np.zeros(self.topics, np.uint8)
        arguments = (
            np.concatenate(vocabs),
            np.concatenate(froms),
            np.concatenate(topics),
            np.concatenate(values),
            np.array(edges, np.int64),
            count,
            here,
        )
        for dtype in (held.entries.dtype, np.dtype(np.uint64)):
            out, out_ptr = np.empty(len(held.entries) + at, dtype), np.empty_like(held.ptr)
            change[:] = 0.0
            first_row = self._edges[i]
            n = merge_packed(held.ptr, held.entries, first_row, self.bits, *arguments, out_ptr, out, change)
            if n >= 0:
                return Range(out_ptr, out[:n].copy())
            if n == -1:
                break
        raise TopicsError(
            f"a count of words {self._edges[i]} to {self._edges[i + 1] - 1} came out negative: deltas and table do not belong "
            "together; the last checkpoint is intact, report this"
        )

    def settle(self) -> np.ndarray:
        """End of a pass: totals and histogram counted afresh; returns float64[3], [0] the largest |row / n_w - 1|."""
        n = len(self._ranges)
        sums, worst, small = np.zeros((n, self.width)), np.zeros((n, 3)), np.zeros((n, SMALL), np.int64)
        big: list[np.ndarray] = [np.zeros(0, np.int64)] * n

        def one(i: int) -> None:
            held = self._ranges[i]
            n_w = self._n_w[self._edges[i] : self._edges[i + 1]] if self._n_w is not None else np.zeros(0)
            many = sum_packed(held.ptr, held.entries, self.bits, n_w, sums[i], small[i], worst[i])
            if many:
                big[i] = np.empty(many, np.int64)
                large_counts(held.entries, self.bits, SMALL, big[i])

        self._run_all(one, n)
        self.totals[:] = sums.sum(0)
        low = small.sum(0)
        values, times = np.unique(np.concatenate(big), return_counts=True)
        used = np.flatnonzero(low)
        self.histogram = np.concatenate((used, values)), np.concatenate((low[used], times.astype(np.int64)))
        return worst.max(0)

    def summary(self) -> dict[str, np.ndarray]:
        """What ``end_pass`` finds among its statistics, float64: the histogram of the non-zero counts and the bytes held."""
        counts, times = self.histogram
        return {
            "counts": counts.astype(np.float64),
            "times": times.astype(np.float64),
            "bytes": np.array([float(self.nbytes)]),
        }

    @property
    def shown_totals(self) -> np.ndarray:
        """Column sums float64[padded(K)] of what ``pieces`` and ``dense`` show."""
        if self.samples <= 1:
            return self.totals if not self._sums else self._column_sums(self._sums)
        return self._column_sums(self._sums) / self.samples

    def _column_sums(self, ranges: list[Range]) -> np.ndarray:
        sums = np.zeros(self.width)
        for held in ranges:
            sum_packed(held.ptr, held.entries, self.bits, np.zeros(0), sums, np.zeros(1, np.int64), np.zeros(3))
        return sums

    # -- whole ----------------------------------------------------------------------------------------------------
    def take_sample(self) -> None:
        """Add the present counts to the sum that ``pieces`` averages."""
        if not self._sums:
            self._sums, self.samples = list(self._ranges), 1
            return
        current, totals = self._ranges, self.totals.copy()
        self._ranges = self._sums

        def whole(i: int) -> tuple[np.ndarray, SparseDelta]:
            held = current[i]
            mask = (1 << self.bits) - 1
            topic = (held.entries & held.entries.dtype.type(mask)).astype(np.int32)
            value = (held.entries >> held.entries.dtype.type(self.bits)).astype(np.int64)
            return np.arange(self._edges[i], self._edges[i + 1], dtype=np.int32), SparseDelta(held.ptr, topic, value)

        try:
            for i in range(len(current)):
                self.scatter([whole(i)])
            self._sums = self._ranges
        finally:
            self._ranges = current
            self.totals[:] = totals
        self.samples += 1

    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids as float32[n, >= K]: the counts, or their mean over the samples taken."""
        cuts = np.searchsorted(ids, self._edges)
        for i, part in enumerate(self._sums or self._ranges):
            if cuts[i + 1] > cuts[i]:
                rows = ids[cuts[i] : cuts[i + 1]] - self._edges[i]
                expand_packed(part.ptr, part.entries, rows, self.bits, out[cuts[i] : cuts[i + 1]])
        if self.samples > 1:
            out /= self.samples
        return out

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, float32[n, padded(K)]) over the whole table, in order; the array is reused."""
        step = max(1, WINDOW_BYTES // (4 * self.width))
        window = np.zeros((step, self.width), np.float32)
        for i, held in enumerate(self._sums or self._ranges):
            rows = len(held.ptr) - 1
            for at in range(0, rows, step):
                part = window[: min(step, rows - at)]
                expand_packed(held.ptr, held.entries, np.arange(at, at + len(part)), self.bits, part)
                if self.samples > 1:
                    part /= np.float32(self.samples)
                yield int(self._edges[i]) + at, part

    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows: piece(first, stop) -> whole numbers [stop - first, >= K]."""
        self.clear()
        for i in range(len(self._ranges)):
            dense = np.asarray(piece(int(self._edges[i]), int(self._edges[i + 1])))[:, : self.topics]
            row, topic = np.nonzero(dense)
            ptr = np.zeros(len(dense) + 1, np.int64)
            np.cumsum(np.bincount(row, minlength=len(dense)), out=ptr[1:])
            value = dense[row, topic]
            whole = value.astype(np.int64)
            if (whole != value).any():
                raise TopicsError("a table of counts cannot hold fractions; choose another --start")
            vocab = np.arange(self._edges[i], self._edges[i + 1], dtype=np.int32)
            self.scatter([(vocab, SparseDelta(ptr, topic.astype(np.int32), whole))])

    def clear(self) -> None:
        """All zero again."""
        self._ranges, self._sums, self.samples = self._empty(), [], 0
        self.totals[:] = 0.0

    def save(self, path: Path) -> None:
        """Write the rows to a new file (no fsync): a head of int64, then each range's row lengths and entries."""
        held = [*self._ranges, *self._sums]
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            head = [MAGIC, self.words, self.topics, self.samples, len(held)]
            head += [v for r in held for v in (len(r.entries), r.entries.itemsize)]
            arrays: list[np.ndarray] = [np.array(head, np.int64)]
            offset = 0
            for r in held:
                arrays += [np.diff(r.ptr).astype(np.int32), r.entries]
            for array in arrays:
                if array.nbytes:
                    write_all(fd, np.ascontiguousarray(array), offset)
                offset += array.nbytes
        finally:
            os.close(fd)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote; totals come from the checkpoint's state.  StoreError when it is of another table."""
        held, self.samples = self._read(path, self.words)
        n = len(self._ranges)
        self._ranges, self._sums = held[:n], held[n:]

    def load_head(self, path: Path, words: int) -> None:
        """Read the present rows of a table of ``words`` words into the first rows; the others are empty, and no samples
        are taken over."""
        held, _ = self._read(path, words)
        held = held[: len(_edges(words)) - 1]
        wide = any(r.entries.dtype == np.uint64 for r in held)
        entries = np.concatenate([r.entries.astype(np.uint64) if wide else r.entries for r in held])
        ptr = np.zeros(self.words + 1, np.int64)
        ptr[1 : words + 1] = np.concatenate([np.diff(r.ptr) for r in held])
        np.cumsum(ptr, out=ptr)
        self.clear()
        for i, (a, b) in enumerate(zip(self._edges, self._edges[1:])):
            self._ranges[i] = Range(ptr[a : b + 1] - ptr[a], entries[ptr[a] : ptr[b]].copy())

    def _read(self, path: Path, words: int) -> tuple[list[Range], int]:
        """The ranges of a file of ``words`` words (the present ones, then the summed samples') and its samples."""
        edges = _edges(words)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = np.empty(5, np.int64)
            read_all(fd, head, 0, str(path))
            expected = (MAGIC, words, self.topics, int(head[3]), (len(edges) - 1) * (2 if head[3] else 1))
            if tuple(int(v) for v in head) != expected:
                raise StoreError(f"{path}: not the rows of a table of {words} words and {self.topics} topics")
            sizes = np.empty((expected[4], 2), np.int64)
            read_all(fd, sizes, head.nbytes, str(path))
            offset, held = head.nbytes + sizes.nbytes, []
            for i, (n, itemsize) in enumerate(sizes):
                lengths = np.empty(int(np.diff(edges)[i % (len(edges) - 1)]), np.int32)
                read_all(fd, lengths, offset, str(path))
                entries = np.empty(int(n), np.uint64 if itemsize == 8 else np.uint32)
                read_all(fd, entries, offset + lengths.nbytes, str(path))
                offset += lengths.nbytes + entries.nbytes
                ptr = np.zeros(len(lengths) + 1, np.int64)
                np.cumsum(lengths, out=ptr[1:])
                held.append(Range(ptr, entries))
            return held, int(head[3])
        finally:
            os.close(fd)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of the summed samples."""
        return sum(r.nbytes for r in [*self._ranges, *self._sums])

    def close(self) -> None:
        """Forget the rows."""
        self._ranges = self._empty()
        self._sums = []
