"""The deltas of a round, in RAM or in a scratch file, until its end; then ranges of rows add up theirs.

A visit writes its delta into the slot it was given (dense rows) or hands over an object of its own (sparse changes).
Deltas are rounded to the table's quantum, so their sum does not depend on its order (quantum.py).
"""

from __future__ import annotations

import abc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.files import owned
from topicstream.files.whole import read_all, write_all
from topicstream.kernels.scatter import scatter_rows, scatter_sparse
from topicstream.tables.spec import Scratch, SparseDelta

SPILL_WINDOW = 8 << 20  # deltas read back from the scratch file at once


class Round(abc.ABC):
    """The deltas of one table: of block 0, 1, ... of the round, each with its ids (int32[U], ascending)."""

    def slot(self, i: int, ids: np.ndarray, scratch: Scratch) -> np.ndarray | None:
        """What the visit of block ``i`` writes its delta to, uninitialised; None: it makes an object of its own."""
        return None

    @abc.abstractmethod
    def put(self, i: int, ids: np.ndarray, delta: Any) -> None:
        """Block ``i`` has made its delta.  Called from several threads, each block once."""

    def clear(self) -> None:  # noqa: B027  a sum is zero again once it has entered
        """Forget the round."""

    def rest(self) -> None:
        """Give memory back: no delta comes for a while."""
        self.clear()

    def close(self) -> None:
        """Give back the scratch file."""
        self.clear()


class Waiting(Round):
    """Deltas that wait for the end of the round."""

    def __init__(self, blocks: int) -> None:
        self._ids: list[np.ndarray | None] = [None] * blocks

    def ids(self) -> list[np.ndarray]:
        """The ids of every block that has put its delta, in block order."""
        return [ids for ids in self._ids if ids is not None]

    @abc.abstractmethod
    def add_to(
        self,
        rows: np.ndarray,
        first: int,
        lo: np.ndarray,
        hi: np.ndarray,
        factor: float,
        mass: np.ndarray,
        change: np.ndarray,
        worst: np.ndarray,
        scratch: Scratch,
    ) -> None:
        """Add ``factor`` times the deltas to ``rows`` of a dense table, whose first is row ``first``: of block r its local
        rows lo[r]..hi[r]-1.  mass: what each row is held to (length 0: nothing); change float64[P] receives the change of
        the column sums, worst what had to be corrected."""

    def clear(self) -> None:
        self._ids = [None] * len(self._ids)


class DenseRound(Waiting):
    """float32[U, P] a block: a slot each in one arena, or spilled to a scratch file when that is too much.

    quantum: what deltas are rounded to; 0.0: they are added up in block order.
    """

    def __init__(self, blocks: int, most_rows: int, width: int, quantum: float, spill: Path | None) -> None:
        super().__init__(blocks)
        self._quantum = quantum
        self._shape = (blocks, most_rows, width)
        self._held = np.zeros((blocks, most_rows), np.int32)
        self._fd = -1
        self.arena: np.ndarray | None = None
        if spill is None:
            self._new_arena()
        else:
            self._fd = _scratch_file(spill)

    def _new_arena(self) -> None:
        n = int(np.prod(self._shape, dtype=np.int64)) * 4
        raw = np.empty(n + 64, np.uint8)  # untouched pages cost nothing
        skip = -raw.ctypes.data % 64
        self.arena = raw[skip : skip + n].view(np.float32).reshape(self._shape)

    def rest(self) -> None:
        super().rest()
        if self.arena is not None:
            self.arena = None
            self._new_arena()

    def slot(self, i: int, ids: np.ndarray, scratch: Scratch) -> np.ndarray:
        n = len(ids)
        self._held[i, :n] = ids
        if self.arena is not None:
            return self.arena[i, :n]
        return scratch.array("spilled delta", (n, self._shape[2]), np.float32)

    def put(self, i: int, ids: np.ndarray, delta: np.ndarray) -> None:
        if self.arena is None:
            write_all(self._fd, delta, i * self._shape[1] * self._shape[2] * 4)
        self._ids[i] = self._held[i, : len(ids)]

    def add_to(
        self,
        rows: np.ndarray,
        first: int,
        lo: np.ndarray,
        hi: np.ndarray,
        factor: float,
        mass: np.ndarray,
        change: np.ndarray,
        worst: np.ndarray,
        scratch: Scratch,
    ) -> None:
        every = self.ids()
        step, end = self._rows_at_once(len(rows)), lo.copy()
        for at in range(0, len(rows), step):
            begin, stop = end, hi.copy()
            if at + step < len(rows):
                for r, ids in enumerate(every):
                    stop[r] = begin[r] + np.searchsorted(ids[begin[r] : hi[r]], first + at + step)
            arena, ids_of, low, high = self._window(begin.copy(), stop.copy(), scratch)
            part = slice(at, at + step)
            n = len(every)
            scatter_rows(
                rows[part], first + at, arena[:n], ids_of[:n], low, high, self._quantum, factor, mass[part], change, worst
            )  # fmt: skip
            end = stop

    def _window(
        self, lo: np.ndarray, hi: np.ndarray, scratch: Scratch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(arena, ids, lo, hi) holding rows lo[r]..hi[r]-1 of every slot."""
        if self.arena is not None:
            return self.arena, self._held, lo, hi
        slots, width = len(lo), self._shape[2]
        most = max(int((hi - lo).max()), 1)
        part = scratch.array("delta window", (slots, most, width), np.float32)
        ids = np.zeros((slots, most), np.int32)
        for r in range(slots):
            n = int(hi[r] - lo[r])
            if n:
                read_all(self._fd, part[r, :n], (r * self._shape[1] + int(lo[r])) * width * 4, "a spilled delta")
                ids[r, :n] = self._held[r, lo[r] : hi[r]]
        return part, ids, np.zeros(slots, np.int64), hi - lo

    def _rows_at_once(self, rows: int) -> int:
        """Rows of a table that are added to at once: all of a range, or as many as a window of the spilled deltas holds."""
        slots, _, width = self._shape
        return rows if self.arena is not None else max(1, SPILL_WINDOW // (slots * width * 4))

    def close(self) -> None:
        super().close()
        self.arena = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SparseRound(Waiting):
    """A ``SparseDelta`` a block.  In RAM the arrays stay the engine's own (``out.keep``), untouched until the round has
    ended; with ``spill`` topics and values wait in a scratch file."""

    def __init__(self, blocks: int, quantum: float, spill: Path | None) -> None:
        super().__init__(blocks)
        self._quantum = quantum
        self._deltas: list[SparseDelta | None] = [None] * blocks
        self._pointers = [Scratch() for _ in range(blocks)]
        self._fd = _scratch_file(spill) if spill is not None else -1
        self._end = 0
        self._lock = threading.Lock()

    def put(self, i: int, ids: np.ndarray, delta: SparseDelta) -> None:
        if self._fd >= 0:
            ptr = self._pointers[i].array("ptr", len(delta.ptr), np.int64)
            ptr[:] = delta.ptr
            delta = SparseDelta(ptr, self._write(delta.topic), self._write(delta.value))  # type: ignore[arg-type]
        self._deltas[i], self._ids[i] = delta, ids

    def deltas(self) -> list[tuple[np.ndarray, SparseDelta]]:
        """(ids, delta) in block order; topics and values are read when they are sliced."""
        return [(ids, d) for ids, d in zip(self._ids, self._deltas) if ids is not None and d is not None]

    def add_to(
        self,
        rows: np.ndarray,
        first: int,
        lo: np.ndarray,
        hi: np.ndarray,
        factor: float,
        mass: np.ndarray,
        change: np.ndarray,
        worst: np.ndarray,
        scratch: Scratch,
    ) -> None:
        # rows are held to their mass by ``settle``, at the end of the pass
        deltas = [(ids, d, int(d.ptr[a]), int(d.ptr[b])) for (ids, d), a, b in zip(self.deltas(), lo, hi)]
        # slices: of arrays in RAM a view, of spilled ones what is read; they live until the kernel has returned
        parts = [(ids, d.ptr, d.topic[begin:end], d.value[begin:end], begin) for ids, d, begin, end in deltas]
        wide = any(topic.dtype != np.uint16 for _, _, topic, _, _ in parts)
        if wide:
            parts = [(ids, ptr, topic.astype(np.int32), value, begin) for ids, ptr, topic, value, begin in parts]
        addresses = np.zeros((len(parts), 4), np.int64)
        for r, (ids, ptr, topic, value, begin) in enumerate(parts):
            addresses[r] = (
                ids.ctypes.data,
                ptr.ctypes.data,
                topic.ctypes.data - begin * topic.itemsize,
                value.ctypes.data - begin * value.itemsize,
            )
        scatter_sparse(rows, first, addresses, wide, lo, hi, self._quantum, factor, change)

    def _write(self, array: np.ndarray) -> OnDisk:
        with self._lock:
            offset = self._end
            self._end += -(-array.nbytes // 64) * 64
        write_all(self._fd, np.ascontiguousarray(array), offset)
        return OnDisk(self._fd, offset, len(array), array.dtype)

    def clear(self) -> None:
        super().clear()
        self._deltas = [None] * len(self._deltas)
        self._end = 0

    def close(self) -> None:
        super().close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OnDisk:
    """A one-dimensional array in the scratch file; a slice of it is read when it is asked for."""

    def __init__(self, fd: int, offset: int, length: int, dtype: np.dtype) -> None:
        self._fd, self._offset, self._length, self.dtype = fd, offset, length, dtype

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(self._length)
        out = np.empty(max(stop - start, 0), self.dtype)
        read_all(self._fd, out, self._offset + start * self.dtype.itemsize, "a spilled delta")
        return out


def _scratch_file(path: Path) -> int:
    fd = owned.create_fd(path, 0o600)
    owned.remove_file(path)
    return fd
