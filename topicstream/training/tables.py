"""The big tables: rows out, deltas in.  In RAM or on disk, the same arithmetic, the same bits.

Work on all rows is cut into ranges of rows that depend on the table's shape alone, so that sums have one order whatever
the number of threads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.engines.base import Rows, Scratch, SparseDelta, TableSpec, padded
from topicstream.errors import StoreError
from topicstream.kernels.scatter import column_sums, hold_rows, scale_rows, scatter_rows, scatter_sparse
from topicstream.training.deltas import Deltas, read_all, write_all

WINDOW_BYTES = 4 << 20  # rows of a disk table move in windows of about this size
RANGES = 64  # pieces of a table in RAM
NEAR_BYTES = 16 << 10  # touched rows of a disk table that lie this near are read and written at once

RunAll = Callable[[Callable[[int], None], int], None]  # run f(0) .. f(n-1), perhaps on several threads


def aligned_zeros(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Zeros aligned to 64 bytes: a row is whole cache lines."""
    dtype = np.dtype(dtype)
    n = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(n + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + n].view(dtype).reshape(shape)


class DenseTable:
    """[W, padded(K)] rows.  ``n_w`` float64[W] where rows are to keep the words' mass, else None.

    ``worst`` float64[3] since the last ``settle``: largest correction of a row's mass, most negative entry as a share of
    n_w, whether NaN or inf was met.
    """

    def __init__(
        self, spec: TableSpec, words: int, topics: int, n_w: np.ndarray | None, path: Path | None, run_all: RunAll
    ) -> None:
        self.spec, self.words, self.topics, self.width = spec, words, topics, padded(topics)
        self._n_w = n_w if (spec.row_mass and n_w is not None) else None
        self._run_all = run_all
        self._path = path
        self._array: np.ndarray | None = None
        self._fd = -1
        self.totals = np.zeros(self.width, np.float64)
        self.scale = 1.0
        self.worst = np.zeros(3)
        itemsize = np.dtype(spec.dtype).itemsize
        self._row_bytes = self.width * itemsize
        if path is None:
            self._array = aligned_zeros((words, self.width), spec.dtype)
        else:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._fd, words * self._row_bytes)
            if hasattr(os, "posix_fadvise"):
                # rows are read here and there: what the system reads ahead of them it throws away again.  ovb, K = 1000,
                # 512M: 149 -> 69 MB read from disk a round
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        # the same ranges wherever the table lives: sums over them have one order
        step = max(1, min(-(-words // RANGES), WINDOW_BYTES // self._row_bytes))
        self._edges = np.append(np.arange(0, words, step), words).astype(np.int64)
        self._window_scratch = Scratch()

    @property
    def array(self) -> np.ndarray | None:
        """The rows where they are in RAM, else None."""
        return self._array

    # -- rows out -------------------------------------------------------------------------------------------------
    def rows(self, vocab: np.ndarray, scratch: Scratch) -> Rows:
        """The rows of ``vocab`` (int32[U], ascending): a view plus an index in RAM, a gathered copy from disk."""
        index = scratch.array("row index", len(vocab), np.int64)
        if self._array is not None:
            index[:] = vocab
            return Rows(self._array, index, self.scale)
        index[:] = np.arange(len(vocab))
        base = scratch.array("gathered rows", (len(vocab), self.width), self.spec.dtype)
        window = scratch.array("row window", (int(np.diff(self._edges).max()), self.width), self.spec.dtype)
        cuts = np.searchsorted(vocab, self._edges)
        for i in range(len(self._edges) - 1):
            a, b = int(cuts[i]), int(cuts[i + 1])
            if a == b:
                continue
            first, last = int(vocab[a]), int(vocab[b - 1]) + 1
            if (last - first) <= 8 * (b - a):
                part = window[: last - first]
                read_all(self._fd, part, first * self._row_bytes, "a table on disk")
                base[a:b] = part[vocab[a:b] - first]
            else:
                for j in range(a, b):
                    read_all(self._fd, base[j], int(vocab[j]) * self._row_bytes, "a table on disk")
        return Rows(base, index, self.scale)

    # -- deltas in ------------------------------------------------------------------------------------------------
    def scatter(self, deltas: Deltas, blocks: int, factor: float = 1.0, hold: bool = True) -> None:
        """Add ``factor`` times the round's first ``blocks`` slots, in block order; ``hold`` touched rows to their mass."""
        vocabs = [deltas.vocabs[r, : deltas.used[r]] for r in range(blocks)]
        cuts = np.array([np.searchsorted(v, self._edges) for v in vocabs], np.int64)

        def add(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            first, mass = int(self._edges[i]), self._mass(i) if hold else np.zeros(0)
            step, end = deltas.rows_at_once(len(rows)), cuts[:, i].copy()
            for at in range(0, len(rows), step):
                begin, stop = end, cuts[:, i + 1].copy()
                if at + step < len(rows):
                    for r in range(blocks):
                        left = deltas.vocabs[r, begin[r] : stop[r]]
                        stop[r] = begin[r] + np.searchsorted(left, first + at + step)
                arena, ids, lo, hi = deltas.window(begin.copy(), stop.copy(), scratch)
                scatter_rows(
                    rows[at : at + step], first + at, arena[:blocks], ids[:blocks], lo, hi, factor,
                    mass[at : at + step], change, worst,
                )  # fmt: skip
                end = stop

        self._over_ranges(add, vocabs, cuts)
        deltas.clear()

    def scatter_sparse(self, deltas: Sequence[tuple[np.ndarray, SparseDelta]], factor: float = 1.0) -> None:
        """Add ``factor`` times the round's sparse deltas (vocab, delta), in block order; rows are held to their mass by
        ``settle``."""
        cuts = np.array([np.searchsorted(vocab, self._edges) for vocab, _ in deltas], np.int64)

        def add(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            for r, (vocab, d) in enumerate(deltas):
                first, lo, hi = int(self._edges[i]), int(cuts[r, i]), int(cuts[r, i + 1])
                if hi > lo:  # slices: of arrays in RAM a view, of spilled ones what is read
                    a, b = int(d.ptr[lo]), int(d.ptr[hi])
                    ptr = d.ptr[lo : hi + 1] - a
                    scatter_sparse(
                        rows, first, ptr, d.topic[a:b], d.value[a:b], vocab[lo:hi], 0, hi - lo, change, factor
                    )  # fmt: skip

        self._over_ranges(add, [vocab for vocab, _ in deltas], cuts)

    def _mass(self, i: int) -> np.ndarray:
        return self._n_w[self._edges[i] : self._edges[i + 1]] if self._n_w is not None else np.zeros(0)

    def _over_ranges(
        self,
        work: Callable[[int, np.ndarray, np.ndarray, np.ndarray, Scratch], None],
        vocabs: Sequence[np.ndarray] | None = None,
        cuts: np.ndarray | None = None,
    ) -> None:
        """work(i, rows of range i, change, worst, scratch) over all ranges; sums in range order.

        vocabs: lists of the only rows that ``work`` touches, cut at the ranges by ``cuts`` (int64[lists, ranges + 1]): other
        ranges are left out, and of a table on disk no more is read and written.
        """
        n, near = len(self._edges) - 1, max(1, NEAR_BYTES // self._row_bytes)

        def wanted(i: int) -> bool:
            return cuts is None or bool((cuts[:, i + 1] > cuts[:, i]).any())

        def parts(i: int) -> list[tuple[int, int]]:
            if vocabs is None or cuts is None:
                return [(0, int(self._edges[i + 1] - self._edges[i]))]
            mine = [v[cuts[r, i] : cuts[r, i + 1]] for r, v in enumerate(vocabs)]
            return runs(np.unique(np.concatenate(mine)) - self._edges[i], near)

        groups = min(n, RANGES)  # range i adds to sums i % groups, in order
        change = np.zeros((groups, self.width))
        worst = np.zeros((groups, 3))
        if self._array is not None:
            array = self._array

            def one(g: int) -> None:
                scratch = Scratch()
                for i in range(g, n, groups):
                    if wanted(i):
                        work(i, array[self._edges[i] : self._edges[i + 1]], change[g], worst[g], scratch)

            self._run_all(one, groups)
        else:  # windows of a disk table: one buffer, in order
            rows = self._window_scratch.array("window", (int(np.diff(self._edges).max()), self.width), self.spec.dtype)
            for i in range(n):
                if wanted(i):
                    first, stop = int(self._edges[i]), int(self._edges[i + 1])
                    moved = parts(i)
                    for a, b in moved:
                        read_all(self._fd, rows[a:b], (first + a) * self._row_bytes, "a table on disk")
                    work(i, rows[: stop - first], change[i % groups], worst[i % groups], self._window_scratch)
                    for a, b in moved:
                        write_all(self._fd, rows[a:b], (first + a) * self._row_bytes)
        for i in range(len(change)):
            self.totals += self.scale * change[i]
        self.worst[0] = max(self.worst[0], worst[:, 0].max(initial=0.0))
        self.worst[1] = min(self.worst[1], worst[:, 1].min(initial=0.0))
        self.worst[2] = max(self.worst[2], worst[:, 2].max(initial=0.0))

    def blend(self, rho: float) -> float:
        """Shrink all rows by (1 - rho), lazily; returns what deltas must be multiplied by before they are added."""
        self.scale *= 1.0 - rho
        self.totals *= 1.0 - rho
        if self.scale < 1e-6:
            factor, self.scale = self.scale, 1.0

            def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
                scale_rows(rows, factor)

            self._over_ranges(work)
        return 1.0 / self.scale

    def settle(self) -> np.ndarray:
        """End of a pass: rows held to their mass, the lazy scale taken in, totals summed afresh.  Returns ``worst``."""
        factor, self.scale = self.scale, 1.0

        def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            if factor != 1.0:
                scale_rows(rows, factor)
            if self._n_w is not None:
                hold_rows(rows, self._mass(i), worst)
            column_sums(rows, change)

        self.totals[:] = 0.0
        self._over_ranges(work)
        worst = self.worst.copy()
        self.worst[:] = 0.0
        return worst

    # -- whole ----------------------------------------------------------------------------------------------------
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows: piece(first, stop) -> [stop - first, P]."""

        def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            rows[:] = piece(int(self._edges[i]), int(self._edges[i + 1]))
            column_sums(rows, change)

        self.scale = 1.0
        self.totals[:] = 0.0
        self._over_ranges(work)

    def clear(self) -> None:
        """All zero again (the next table of REPLACE)."""
        if self._array is not None:
            self._array[:] = 0
        else:
            os.ftruncate(self._fd, 0)
            os.ftruncate(self._fd, self.words * self._row_bytes)
        self.scale = 1.0
        self.totals[:] = 0.0

    def pieces(self) -> Iterable[tuple[int, np.ndarray]]:
        """(first row, rows [n, P]) over the whole table, in order; scaled.  The array is reused."""
        for i in range(len(self._edges) - 1):
            a, b = int(self._edges[i]), int(self._edges[i + 1])
            if self._array is not None:
                rows = self._array[a:b]
            else:
                rows = self._window_scratch.array("window", (b - a, self.width), self.spec.dtype)
                read_all(self._fd, rows, a * self._row_bytes, "a table on disk")
            yield a, rows if self.scale == 1.0 else rows * self.scale

    def save(self, path: Path) -> None:
        """Write the raw rows to a new file (no fsync)."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            if self._array is not None:
                write_all(fd, self._array, 0)
            else:
                copy_file(self._fd, fd, self.words * self._row_bytes)
        finally:
            os.close(fd)

    def load(self, path: Path) -> None:
        """Read raw rows written by ``save``; totals and scale come from the checkpoint's state."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._array is not None:
                read_all(fd, self._array, 0, str(path))
            else:
                copy_file(fd, self._fd, self.words * self._row_bytes)
        finally:
            os.close(fd)

    def load_head(self, path: Path, words: int) -> None:
        """Read the rows of the first ``words`` words from what a narrower table saved; the others are left as they are."""
        size = words * self._row_bytes
        if words > self.words or path.stat().st_size != size:
            raise StoreError(f"{path}: not the rows of {words} words of {self.topics} topics")
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._array is not None:
                read_all(fd, self._array[:words], 0, str(path))
            else:
                copy_file(fd, self._fd, size)
        finally:
            os.close(fd)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, wherever they are."""
        return self.words * self._row_bytes

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            assert self._path is not None
            with contextlib.suppress(OSError):
                os.unlink(self._path)


class TableRows:
    """A table on disk as the evaluator wants it: ``rows(ids, out)``."""

    def __init__(self, table: Any) -> None:
        self._table, self.n_words = table, table.words

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids, float32."""
        if hasattr(self._table, "dense"):
            return np.asarray(self._table.dense(ids, out))
        got = self._table.rows(np.asarray(ids, np.int32), Scratch())
        out[:] = got.base[got.index] * got.scale
        return out


def runs(numbers: np.ndarray, near: int) -> list[tuple[int, int]]:
    """(first, stop) of the runs that ascending numbers form when steps of up to ``near`` do not end one."""
    ends = np.flatnonzero(np.diff(numbers) > near)
    firsts, lasts = np.append(0, ends + 1), np.append(ends, len(numbers) - 1)
    return [(int(a), int(b) + 1) for a, b in zip(numbers[firsts], numbers[lasts])]


def copy_file(source: int, target: int, size: int) -> None:
    """Copy ``size`` bytes between files without mapping them."""
    offset = 0
    while offset < size:
        n = os.copy_file_range(source, target, min(size - offset, 1 << 26), offset, offset)
        if n == 0:
            raise StoreError("a table file is shorter than recorded; start again from an older checkpoint")
        offset += n
