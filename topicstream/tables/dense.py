"""Tables of dense rows, in RAM or on disk: the same arithmetic, the same bits.

Work on all rows is cut into ranges of rows that depend on the table's shape alone, so that sums have one order whatever
the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.plain import open_plain
from topicstream.files.whole import copy_file, read_all, write_all
from topicstream.kernels.constants import Constants
from topicstream.kernels.scatter import clip_rows, column_sums, hold_rows, scale_rows
from topicstream.tables.rounds import DenseRound, Round, SparseRound, Waiting
from topicstream.tables.spec import Rows, Scratch, TableSpec, padded
from topicstream.tables.sums import DenseSum
from topicstream.tables.table import RunAll, Sizes, Table

WINDOW_BYTES = 4 << 20  # rows of a disk table move in windows of about this size
RANGES = 64  # pieces of a table in RAM
NARROW = 16  # blocks of a round up to which holding their dense deltas is cheaper than adding them up twice
NEAR_BYTES = 16 << 10  # touched rows of a disk table that lie this near are read and written at once


def aligned_zeros(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Zeros aligned to 64 bytes: a row is whole cache lines."""
    dtype = np.dtype(dtype)
    n = shape[0] * shape[1] * dtype.itemsize
    raw = np.zeros(n + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    found: np.ndarray = raw[skip : skip + n].view(dtype).reshape(shape)
    return found


class DenseTable(Table):
    """[n_rows, padded(columns)].  ``mass`` float64[n_rows] where rows are to keep a sum, else None.

    In RAM the rows with constants stand once more behind the table, with them added: they are made anew when they are read
    after the table has changed.  From disk they are gathered once more.
    """

    @classmethod
    def bytes_needed(cls, spec: TableSpec, sizes: Sizes, on_disk: bool) -> int:
        rows = sizes.rows + (0 if on_disk else sizes.constants)
        return int(rows * padded(sizes.columns) * np.dtype(spec.dtype).itemsize)

    @classmethod
    def delta_bytes(cls, spec: TableSpec, sizes: Sizes) -> int:
        return sizes.changed * padded(sizes.columns) * 4 if spec.delta == "dense" else 0

    @classmethod
    def gathered_bytes(cls, spec: TableSpec, sizes: Sizes) -> int:
        rows = sizes.seen + min(sizes.seen, sizes.constants)
        return int(rows * padded(sizes.columns) * np.dtype(spec.dtype).itemsize)

    @classmethod
    def sum_bytes(cls, spec: TableSpec, sizes: Sizes, blocks: int) -> int:
        if not _summed(spec, blocks):
            return 0
        return int(min(sizes.rows, sizes.changed * blocks) * padded(sizes.columns) * 8)

    def __init__(
        self,
        spec: TableSpec,
        rows: int,
        columns: int,
        mass: np.ndarray | None,
        path: Path | None,
        run_all: RunAll,
        constants: Constants | None = None,
    ) -> None:
        super().__init__(spec, rows, columns, constants)
        self._row_mass = mass if spec.mass == "row" else None
        self._run_all = run_all
        self._path = path
        self._array: np.ndarray | None = None
        self._fd = -1
        self._worst = np.zeros(3)
        self._row_bytes = self.width * np.dtype(spec.dtype).itemsize
        self._every: np.ndarray | None = None  # the rows, and behind them those with constants
        self._stale, self._lock = True, threading.Lock()
        if path is None:
            self._every = aligned_zeros((rows + (len(constants) if constants else 0), self.width), spec.dtype)
            self._array = self._every[:rows]
        else:
            self._fd = owned.create_fd(path)
            os.ftruncate(self._fd, rows * self._row_bytes)
            if hasattr(os, "posix_fadvise"):
                # rows are read here and there: what the system reads ahead of them it throws away again.  ovb, K = 1000,
                # 512M: 149 -> 69 MB read from disk a round
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        # the same ranges wherever the table lives: sums over them have one order
        step = max(1, min(-(-rows // RANGES), WINDOW_BYTES // self._row_bytes))
        self.edges = np.append(np.arange(0, rows, step), rows).astype(np.int64)
        self._window_scratch = Scratch()

    @property
    def array(self) -> np.ndarray | None:
        return self._array

    # -- rows out -------------------------------------------------------------------------------------------------
    def gather(self, ids: np.ndarray, scratch: Scratch) -> Rows:
        """A view plus an index in RAM, a gathered copy from disk."""
        index = scratch.array("row index", len(ids), np.int64)
        here, which = self.constants.find(ids) if self.constants is not None else (ids[:0], ids[:0])
        bare = None
        if self._every is not None:
            index[:] = ids
            if len(here):
                bare = scratch.array("bare index", len(ids), np.int64)
                bare[:] = ids
                index[here] = self.n_rows + which
                self._add_constants()
            return Rows(self._every, index, self.scale, bare)
        index[:] = np.arange(len(ids))
        every = scratch.array("gathered rows", (len(ids) + len(here), self.width), self.spec.dtype)
        base = every[: len(ids)]
        window = scratch.array("row window", (int(np.diff(self.edges).max()), self.width), self.spec.dtype)
        cuts = np.searchsorted(ids, self.edges)
        for i in range(len(self.edges) - 1):
            a, b = int(cuts[i]), int(cuts[i + 1])
            if a == b:
                continue
            first, last = int(ids[a]), int(ids[b - 1]) + 1
            if (last - first) <= 8 * (b - a):
                part = window[: last - first]
                read_all(self._fd, part, first * self._row_bytes, "a table on disk")
                base[a:b] = part[ids[a:b] - first]
            else:
                for j in range(a, b):
                    read_all(self._fd, base[j], int(ids[j]) * self._row_bytes, "a table on disk")
        if self.constants is not None and len(here):
            bare = scratch.array("bare index", len(ids), np.int64)
            bare[:] = index
            index[here] = len(ids) + np.arange(len(here))
            every[len(ids) :] = base[here]
            self.constants.add(every, index[here], which, self.scale)
        return Rows(every, index, self.scale, bare)

    def _add_constants(self) -> None:
        """Make the rows with constants behind the table anew, if it has changed."""
        assert self._every is not None and self.constants is not None
        with self._lock:
            if self._stale:
                last = np.arange(self.n_rows, len(self._every))
                self._every[self.n_rows :] = self._every[self.constants.ids]
                self.constants.add(self._every, last, np.arange(len(last)), self.scale)
                self._stale = False

    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        got = self.gather(np.asarray(ids, np.int32), Scratch())
        out[:] = got.base[got.counts] * got.scale
        return out

    # -- deltas in ------------------------------------------------------------------------------------------------
    def new_round(self, blocks: int, most_rows: int, spill: Path | None, tokens: float) -> Round:
        quantum = self.spec.quantum(tokens)
        if self.spec.delta == "sparse":
            return SparseRound(blocks, quantum, spill)
        if _summed(self.spec, blocks) and self._array is not None and spill is None:
            return DenseSum(self.edges, self.width, quantum)
        return DenseRound(blocks, most_rows, self.width, quantum, spill)

    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        if isinstance(deltas, DenseSum):
            self._take(deltas, factor, hold)
            return
        assert isinstance(deltas, Waiting)
        ids = deltas.ids()
        cuts = np.array([np.searchsorted(v, self.edges) for v in ids], np.int64)

        def add(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            mass = self._mass(i) if hold else np.zeros(0)
            first = int(self.edges[i])
            lo, hi = np.ascontiguousarray(cuts[:, i]), np.ascontiguousarray(cuts[:, i + 1])
            deltas.add_to(rows, first, lo, hi, factor, mass, change, worst, scratch)

        if ids:
            self._over_ranges(add, ids, cuts)
        deltas.clear()

    def _take(self, total: DenseSum, factor: float, hold: bool) -> None:
        """Enter the sum of a round."""

        def enter(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            total.enter(i, rows, factor, self._mass(i) if hold else np.zeros(0), change, worst)

        self._over_ranges(enter)

    def _mass(self, i: int) -> np.ndarray:
        return self._row_mass[self.edges[i] : self.edges[i + 1]] if self._row_mass is not None else np.zeros(0)

    def _over_ranges(
        self,
        work: Callable[[int, np.ndarray, np.ndarray, np.ndarray, Scratch], None],
        touched: Sequence[np.ndarray] | None = None,
        cuts: np.ndarray | None = None,
    ) -> None:
        """work(i, rows of range i, change, worst, scratch) over all ranges; sums in range order.

        touched: lists of the only rows that ``work`` touches, cut at the ranges by ``cuts`` (int64[lists, ranges + 1]): other
        ranges are left out, and of a table on disk no more is read and written.
        """
        n, near = len(self.edges) - 1, max(1, NEAR_BYTES // self._row_bytes)
        self._stale = True

        def wanted(i: int) -> bool:
            return cuts is None or bool((cuts[:, i + 1] > cuts[:, i]).any())

        def parts(i: int) -> list[tuple[int, int]]:
            if touched is None or cuts is None:
                return [(0, int(self.edges[i + 1] - self.edges[i]))]
            mine = [v[cuts[r, i] : cuts[r, i + 1]] for r, v in enumerate(touched)]
            return runs(np.unique(np.concatenate(mine)) - self.edges[i], near)

        groups = min(n, RANGES)  # range i adds to sums i % groups, in order
        change = np.zeros((groups, self.width))
        worst = np.zeros((groups, 3))
        if self._array is not None:
            array = self._array

            def one(g: int) -> None:
                scratch = Scratch()
                for i in range(g, n, groups):
                    if wanted(i):
                        work(i, array[self.edges[i] : self.edges[i + 1]], change[g], worst[g], scratch)

            self._run_all(one, groups)
        else:  # windows of a disk table: one buffer, in order
            rows = self._window_scratch.array("window", (int(np.diff(self.edges).max()), self.width), self.spec.dtype)
            for i in range(n):
                if wanted(i):
                    first, stop = int(self.edges[i]), int(self.edges[i + 1])
                    moved = parts(i)
                    for a, b in moved:
                        read_all(self._fd, rows[a:b], (first + a) * self._row_bytes, "a table on disk")
                    work(i, rows[: stop - first], change[i % groups], worst[i % groups], self._window_scratch)
                    for a, b in moved:
                        write_all(self._fd, rows[a:b], (first + a) * self._row_bytes)
        for i in range(len(change)):
            self.totals += self.scale * change[i]
        self._worst[0] = max(self._worst[0], worst[:, 0].max(initial=0.0))
        self._worst[1] = min(self._worst[1], worst[:, 1].min(initial=0.0))
        self._worst[2] = max(self._worst[2], worst[:, 2].max(initial=0.0))

    def blend(self, rho: float) -> float:
        self.scale *= 1.0 - rho
        self.totals *= 1.0 - rho
        self._stale = True
        if self.scale < 1e-6:
            factor, self.scale = self.scale, 1.0

            def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
                scale_rows(rows, factor)

            self._over_ranges(work)
        return 1.0 / self.scale

    def settle(self) -> np.ndarray:
        factor, self.scale = self.scale, 1.0

        def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            if factor != 1.0:
                scale_rows(rows, factor)
            if self._row_mass is not None:
                hold_rows(rows, self._mass(i), worst)
            elif self.spec.mass == "part":
                clip_rows(rows, worst)
            column_sums(rows, change)

        self.totals[:] = 0.0
        self._over_ranges(work)
        worst = self._worst.copy()
        self._worst[:] = 0.0
        return worst

    # -- whole ----------------------------------------------------------------------------------------------------
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:

        def work(i: int, rows: np.ndarray, change: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            rows[:] = piece(int(self.edges[i]), int(self.edges[i + 1]))
            column_sums(rows, change)

        self.scale = 1.0
        self.totals[:] = 0.0
        self._over_ranges(work)

    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        def work(i: int, rows: np.ndarray, sums: np.ndarray, worst: np.ndarray, scratch: Scratch) -> None:
            rows[:] = change(int(self.edges[i]), rows if self.scale == 1.0 else rows * self.scale)
            column_sums(rows, sums)

        self.totals[:] = 0.0
        self._over_ranges(work)
        self.scale = 1.0

    def clear(self) -> None:
        self._stale = True
        if self._array is not None:
            self._array[:] = 0
        else:
            os.ftruncate(self._fd, 0)
            os.ftruncate(self._fd, self.n_rows * self._row_bytes)
        self.scale = 1.0
        self.totals[:] = 0.0

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        for i in range(len(self.edges) - 1):
            a, b = int(self.edges[i]), int(self.edges[i + 1])
            if self._array is not None:
                rows = self._array[a:b]
            else:
                rows = self._window_scratch.array("window", (b - a, self.width), self.spec.dtype)
                read_all(self._fd, rows, a * self._row_bytes, "a table on disk")
            yield a, rows if self.scale == 1.0 else rows * self.scale

    def save(self, path: Path) -> None:
        fd = owned.create_fd(path)
        try:
            if self._array is not None:
                write_all(fd, self._array, 0)
            else:
                copy_file(self._fd, fd, self.n_rows * self._row_bytes)
        finally:
            os.close(fd)

    def load(self, path: Path) -> None:
        self._stale = True
        fd = open_plain(path)
        try:
            if self._array is not None:
                read_all(fd, self._array, 0, str(path))
            else:
                copy_file(fd, self._fd, self.n_rows * self._row_bytes)
        finally:
            os.close(fd)

    def load_head(self, path: Path, rows: int) -> None:
        size = rows * self._row_bytes
        if rows > self.n_rows or path.stat().st_size != size:
            raise StoreError(f"{path}: not {rows} rows of {self.columns} numbers")
        self._stale = True
        fd = open_plain(path)
        try:
            if self._array is not None:
                read_all(fd, self._array[:rows], 0, str(path))
            else:
                copy_file(fd, self._fd, size)
        finally:
            os.close(fd)

    @property
    def nbytes(self) -> int:
        return self.n_rows * self._row_bytes

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            assert self._path is not None
            owned.discard(self._path)


def runs(numbers: np.ndarray, near: int) -> list[tuple[int, int]]:
    """(first, stop) of the runs that ascending numbers form when steps of up to ``near`` do not end one."""
    ends = np.flatnonzero(np.diff(numbers) > near)
    firsts, lasts = np.append(0, ends + 1), np.append(ends, len(numbers) - 1)
    return [(int(a), int(b) + 1) for a, b in zip(numbers[firsts], numbers[lasts])]


def _summed(spec: TableSpec, blocks: int) -> bool:
    """Whether deltas of the table enter the sum of a round of so many blocks as these finish, where its rows are in RAM."""
    return spec.delta == "dense" and spec.axis is not None and blocks > NARROW
