"""Rounds whose deltas merge as blocks end, for runs that have no memory for those of a whole round.

Each range of a table's rows has a buffer of sums (numeric/kernels/merging.py). All buffers of a run
share one bound. Where it is reached, the buffer that gains most by it is written behind a scratch
file, as a run of sorted rows. From then on a range of sparse deltas has no buffer: what blocks
bring is written as it is, in pieces, and in the next round from the start, unless there is room
for all of it. Other ranges begin a small buffer. Runs and pieces are read back when the sum of the
range is added to the table. Sums are exact, so none of this shows in the result.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np

from topicstream.numeric.tables.range_buffer import RangeBuffer, Spilled
from topicstream.numeric.tables.rounds import Round, RoundSpace, RowRange
from topicstream.numeric.tables.spec import Scratch, SparseDelta
from topicstream.numeric.tables.table import Merging

OF_A_ROW = 20  # bytes that a row of a table takes in its buffer, whatever its entries


class MergeSpace:
    """Bound that the buffers of all tables of a run share.

    Parameters
    ----------
    bound
        Bytes that they may hold.
    folder
        Where scratch files are made.
    """

    def __init__(self, bound: int, folder: Path) -> None:
        self.bound = bound
        self.folder = folder
        self.buffers: list[RangeBuffer] = []
        self._held = 0
        self._lock = threading.Lock()

    def take(self, more: int) -> bool:
        """Count ``more`` bytes as held, unless that would exceed the bound.

        Returns whether they were counted.
        """
        with self._lock:
            if self._held + more > self.bound:
                return False
            self._held += more
            return True

    def give(self, fewer: int) -> None:
        """Count ``fewer`` bytes as free again (negative: as held, whatever the bound)."""
        with self._lock:
            self._held -= fewer

    @property
    def whole(self) -> bool:
        """Tell whether there is room for all topics of all rows, which are few.

        Rows need not be searched then for the topics that they have.
        """
        return self.bound >= sum(buffer.most_bytes for buffer in self.buffers)

    @property
    def exceeded(self) -> bool:
        """Tell whether more is held than the bound allows, as while runs are read back."""
        return self._held > self.bound

    def has_room(self, more: int) -> bool:
        """Tell whether ``more`` bytes are free."""
        return self._held + more <= self.bound

    def make_room(self, asking: RangeBuffer) -> bool:
        """Spill another buffer than the one that asks.

        Returns False where it should spill itself.

        It is the one that has most beyond what its next block brings again. The caller holds the
        lock of ``asking``.
        """
        others = [buffer for buffer in self.buffers if buffer.may_spill and buffer is not asking]
        best = max(others, key=lambda buffer: buffer.gain, default=asking)
        if best is asking or asking.gain >= best.gain or not best.lock.acquire(blocking=False):
            return False
        try:
            best.spill()
        finally:
            best.lock.release()
        return True


def place_bytes(columns: int, *, dense: bool, ordered: bool) -> int:
    """Compute the bytes of a place in a buffer: a sum, its order and topic."""
    if dense:
        return 8
    return 4 + 8 * ordered + (2 if columns <= 1 << 16 else 4)


def merging_bytes(rows: int, of_range: int, columns: int, entry: int) -> Merging:
    """Bytes of the buffers of a table, whose ranges have ``of_range`` rows at most.

    entry: bytes of an entry. A row that has more than half of the topics is laid out by topic, and
    buffers grow by an eighth. A range is read back beside its sums, which are float64 where they
    were written in pieces.
    """
    return Merging(
        fixed=OF_A_ROW * rows,
        sums=rows * columns * entry * 9 // 8,
        range=of_range * columns * (entry + max(entry, 8)),
    )


class MergedRound(Round):
    """A round whose deltas merge as blocks end.

    Parameters
    ----------
    space
        Of the round; its ``merge`` bounds the buffers.
    edges
        int64[ranges + 1], first row of each range and the number of rows.
    columns
        Numbers in a row; of dense deltas padded.
    quantum
        What deltas are rounded to.
    dense
        Whether deltas are dense rows.
    ordered
        Whether the entries of a row are listed in the order in which blocks of the round brought
        them, which packed rows keep where counts are equal.
    """

    def __init__(
        self,
        space: RoundSpace,
        edges: np.ndarray,
        columns: int,
        quantum: float,
        *,
        dense: bool = False,
        ordered: bool = False,
    ) -> None:
        super().__init__(space, quantum)
        assert space.merge is not None
        self.merge = space.merge
        self.columns = columns
        self.dense = dense
        self.in_pieces = not dense and not ordered
        self.quantum = quantum
        self._topic = np.dtype(np.uint16 if columns <= 1 << 16 else np.int32)
        self._ordered = ordered
        self.entry_bytes = place_bytes(columns, dense=dense, ordered=ordered)
        self._edges = edges
        self._own = threading.local()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()
        self.buffers = [RangeBuffer(self, int(a), int(b - a)) for a, b in pairwise(edges)]
        self.merge.buffers.extend(self.buffers)

    def new_arrays(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make topics, values and orders of ``size`` entries.

        Their length is 0 for what there is not.

        Their memory is mapped by itself, so that all of it goes back to the system with them.
        """
        memory = np.zeros(0, np.uint8)
        if size:
            own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            memory = np.frombuffer(mmap.mmap(-1, size * self.entry_bytes, own), np.uint8)
        ordered = 8 * size * self._ordered
        orders = memory[:ordered].view(np.uint64)
        if self.dense:
            return memory[:0].view(self._topic), memory[ordered:].view(np.float64), orders
        values = memory[ordered : ordered + 4 * size].view(np.int32)
        return memory[ordered + values.nbytes :].view(self._topic), values, orders

    # -- deltas in
    # ----------------------------------------------------------------------------------------------
    def slot(self, i: int, ids: np.ndarray) -> np.ndarray | None:
        """Return the calling worker's array for the delta of a block."""
        if not self.dense:
            return None
        own = self._own.__dict__.setdefault("scratch", Scratch())
        room: np.ndarray = own.array("delta", (len(ids), self.columns), np.float32)
        return room

    def put(self, i: int, ids: np.ndarray, delta: Any) -> None:
        cuts = np.searchsorted(ids, self._edges)
        ranges = np.flatnonzero(np.diff(cuts))
        # workers begin at different ranges, so that they seldom wait for each other
        for r in np.roll(ranges, -(i % self._space.blocks) * len(ranges) // self._space.blocks):
            with self.buffers[r].lock:
                self.buffers[r].add(ids, delta, int(cuts[r]), int(cuts[r + 1]), i)
        self._made[i] = ids[:0], None

    def write(self, rows: int, entries: int, arrays: tuple[np.ndarray, ...]) -> Spilled:
        """Write the arrays of a run behind the scratch file."""
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.merge.folder)  # noqa: SIM115
            offset = self._end
            self._end += size
        at = offset
        for array in arrays:
            octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            view = memoryview(octets)  # type: ignore[arg-type]
            while len(view):
                n = os.pwrite(self._file.fileno(), view, at)
                view = view[n:]
                at += n
        return Spilled(offset, rows, entries)

    def read(self, run: Spilled) -> tuple[np.ndarray, Any, np.ndarray]:
        """Read a run: its ids, its delta, and the ``orders`` of its entries."""
        if self.dense:
            ids, values = self._read(
                run, (run.rows, np.int32), ((run.rows, self.columns), np.float64)
            )
            return ids, values, np.zeros(0, np.uint64)
        ordered = run.entries if self._ordered else 0
        ids, ptr, topics, values, orders = self._read(
            run,
            (run.rows, np.int32),
            (run.rows + 1, np.int64),
            (run.entries, self._topic),
            (run.entries, np.float64),
            (ordered, np.uint64),
        )
        return ids, SparseDelta(ptr, topics, values), orders

    def write_piece(self, ids: np.ndarray, delta: SparseDelta, lo: int, hi: int) -> Spilled:
        """Write local rows ``lo`` to ``hi - 1`` of a delta as they are."""
        ptr = delta.ptr[lo : hi + 1]
        entries = slice(int(ptr[0]), int(ptr[-1]))
        topic = delta.topic[entries].astype(self._topic, copy=False)
        value = delta.value[entries]
        run = self.write(hi - lo, len(topic), (ids[lo:hi], ptr - ptr[0], topic, value))
        return run._replace(kind=value.dtype)

    def read_piece(self, piece: Spilled) -> list[np.ndarray]:
        """Read a piece: its ids, ptr, topics and values."""
        entries = ((piece.entries, self._topic), (piece.entries, piece.kind))
        return self._read(piece, (piece.rows, np.int32), (piece.rows + 1, np.int64), *entries)

    def _read(self, run: Spilled, *shapes: tuple[Any, Any]) -> list[np.ndarray]:
        assert self._file is not None
        offset = run.offset
        arrays = []
        for shape, kind in shapes:
            array = np.empty(shape, kind)
            view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            while len(view):
                n = os.preadv(self._file.fileno(), [view], offset)
                if n == 0:
                    raise OSError("a scratch file of this run is shorter than it was written")
                view = view[n:]
                offset += n
            arrays.append(array)
        return arrays

    # -- sums out
    # ----------------------------------------------------------------------------------------------
    def cut(self, edges: np.ndarray) -> np.ndarray:
        return np.array([buffer.touched for buffer in self.buffers])

    def add_range(self, i: int, part: RowRange, factor: float) -> None:
        self.buffers[i].add_to(part, factor)

    def take(self, i: int) -> tuple[np.ndarray, SparseDelta]:
        """Return the sums of a range as one delta of whole numbers, and forget them."""
        buffer = self.buffers[i]
        buffer.read_back()
        ids, ptr, topics, values, _ = buffer.listed()
        buffer.end()
        return ids, SparseDelta(ptr, topics, values.astype(np.int64))

    def clear(self) -> None:
        super().clear()
        for buffer in self.buffers:
            buffer.empty()
        self._end = 0
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)

    def rest(self) -> None:
        super().rest()
        self._own = threading.local()
        for buffer in self.buffers:
            buffer.free()

    def _cut(self, delta: Any, spans: Any) -> tuple[np.ndarray, ...]:
        raise NotImplementedError("deltas that have merged are not sent")

    def receive(self, i: int, part: Any) -> None:
        raise NotImplementedError("deltas that merge are not received")

    def add_to(self, part: RowRange, lo: np.ndarray, hi: np.ndarray, factor: float) -> None:
        raise NotImplementedError("deltas that have merged are added by ranges")
