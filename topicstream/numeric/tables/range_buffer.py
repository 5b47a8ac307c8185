"""Sums of a round for one range of rows, and the runs of them in a scratch file.

``merging.py`` says when a buffer is written.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.numeric.kernels.merging import (
    BlockDelta,
    Buffer,
    add_entries,
    add_rows,
    add_sums,
    list_entries,
    merge_entries,
    merge_rows,
    move_entries,
    move_rows,
    sum_changes,
)
from topicstream.numeric.kernels.scatter import RowRange
from topicstream.numeric.tables.spec import SparseDelta
from topicstream.numeric.tables.spill import Spilled, SpillFile, SumLayout

LEAST = 1 << 14  # entries that a range goes on with once it was spilled, at most
FEW_COLUMNS = 256  # beyond which a row that few cells change would be mostly zeros


class RangeBuffer:
    """The sums of a round for one range of rows.

    Parameters
    ----------
    layout, file
        Of the round.
    space
        What bounds its memory.
    first, rows
        First row and number of rows.
    """

    def __init__(
        self, layout: SumLayout, file: SpillFile, space: MergeSpace, first: int, rows: int
    ) -> None:
        self.lock = threading.Lock()
        self.runs: list[Spilled] = []
        self.pieces: list[Spilled] = []
        self._unmerged = False  # whether what blocks bring is written as it is
        self._written = 0  # entries that were, in the last round
        self._layout = layout
        self._file = file
        self._space = space
        self._first = first
        self._begin = np.zeros(rows, np.int64)
        self._length = np.zeros(rows, np.int32)
        self._room = np.zeros(rows, np.int32)
        self._usual = np.zeros(rows, np.int32)
        self._state = np.zeros(2, np.int64)
        self._latest = 0
        self._most = 0
        self._whole = False
        self._topics, self._values, self._orders = layout.new_arrays(0)

    @property
    def touched(self) -> bool:
        """Tell whether a block has changed a row of the range."""
        return bool(self.runs) or bool(self.pieces) or bool(self._state[1])

    @property
    def size(self) -> int:
        """Entries that there is memory for."""
        return len(self._values)

    @property
    def most_bytes(self) -> int:
        """Bytes of a buffer with all topics of all rows, some of them float64."""
        return len(self._begin) * self._layout.columns * self._layout.entry_bytes * 9 // 8

    @property
    def may_spill(self) -> bool:
        """Tell whether the buffer has more than the least, and was not spilled in this round."""
        least = 0 if self._layout.in_pieces else self.least
        return not self.runs and self.size > least

    @property
    def gain(self) -> int:
        """Entries beyond those that the latest block brought."""
        return len(self._values) - self._latest

    def add(
        self,
        ids: np.ndarray,
        delta: Any,
        lo: int,
        hi: int,
        block: int,
        came: np.ndarray | None = None,
    ) -> None:
        """Add local rows ``lo`` to ``hi - 1`` of a delta.

        The caller holds the lock.

        came: ``orders`` of a run that is read back.
        """
        self._latest = self._entries(delta, lo, hi)
        if not self._state[1]:
            self._whole = self._layout.columns <= FEW_COLUMNS and self._space.whole
        self._choose_pieces()
        while True:
            if self._unmerged:
                self.pieces.append(self._file.write_piece(ids, delta, lo, hi))
                return
            lo = self._merge(ids, delta, lo, hi, block, came)
            if lo == hi:
                return
            coming = self._entries(delta, lo, hi)
            if came is None:
                self._grow(coming)
            else:  # the end of the round, whatever the bound
                size = self._room_for(coming)
                self._space.give((self.size - size) * self._layout.entry_bytes)
                self._move(size)

    def _choose_pieces(self) -> None:
        """Write pieces from the start of a round if the last one did, and there is no room."""
        if not self._layout.in_pieces or self.touched or not self._written:
            return
        most = min(self._written, len(self._begin) * self._layout.columns)
        if self._space.has_room(most * self._layout.entry_bytes):
            self._most = max(self._most, most)
        else:
            self._unmerged = True

    def _entries(self, delta: Any, lo: int, hi: int) -> int:
        if isinstance(delta, SparseDelta):
            return int(delta.ptr[hi] - delta.ptr[lo])
        return (hi - lo) * self._layout.columns

    def _merge(
        self,
        ids: np.ndarray,
        delta: Any,
        lo: int,
        hi: int,
        block: int,
        came: np.ndarray | None,
    ) -> int:
        quantum = 0.0 if came is not None else self._layout.quantum
        if isinstance(delta, SparseDelta):
            orders = np.zeros(0, np.uint64) if came is None else came
            of_block = BlockDelta(ids, delta.ptr, delta.topic, delta.value, block, orders)
            return int(merge_entries(self._arrays, of_block, lo, hi, quantum, self._whole))
        return int(merge_rows(self._arrays, ids, delta, lo, hi, quantum))

    @property
    def _arrays(self) -> Buffer:
        return Buffer(
            self._first,
            self._begin,
            self._length,
            self._room,
            self._usual,
            self._topics,
            self._values,
            self._orders,
            self._state,
            self._layout.columns,
            self._layout.quantum,
        )

    def _grow(self, coming: int) -> None:
        """Make room for about ``coming`` more entries.

        Where the bound leaves none, spill.

        A range that was spilled goes on in pieces, or with a small buffer, until the round ends.
        """
        while not self.runs:
            size = self._room_for(coming)
            if self._space.take((size - self.size) * self._layout.entry_bytes):
                self._move(size)
                return
            if not self._space.make_room(self):
                break
        self.spill()

    def _room_for(self, coming: int) -> int:
        """Entries that the buffer should have room for: not less than it usually needs."""
        columns = self._layout.columns
        if self._whole and not self.size:
            return (len(self._begin) + 1) * columns // 2 * 2
        taken = int(self._state[1])
        expected = coming // 8 if taken else coming + coming // 4
        more = max(taken // 8, expected) + 4 * columns
        widest = columns if self._layout.dense else 2 * columns + 1
        size = min(max(taken + more, self._most), (len(self._begin) + 2) * widest)
        return size + size % 2

    def _move(self, size: int) -> None:
        """Move the rows to arrays of ``size`` entries."""
        arrays = self._layout.new_arrays(size)
        topics, values, orders = arrays
        if self._layout.dense:
            move_rows(self._arrays, values)
        else:
            move_entries(self._arrays, topics, values, orders)
        self._topics, self._values, self._orders = arrays

    @property
    def least(self) -> int:
        """Entries that a buffer has whatever there is for all: room for some rows."""
        share = self._space.bound // (4 * self._layout.entry_bytes * len(self._space.buffers))
        return 2 * max(2 * self._layout.columns, min(share, LEAST) // 2)

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """List the rows that have changed: ids, ptr, topics, values and orders."""
        rows = np.flatnonzero(self._length)
        ids = (self._first + rows).astype(np.int32)
        ptr = np.zeros(len(rows) + 1, np.int64)
        most = int(np.minimum(self._length, self._layout.columns).sum(dtype=np.int64))
        topics = np.empty(most, self._topics.dtype)
        values = np.empty(most)
        orders = np.empty(most if len(self._orders) else 0, np.uint64)
        n = list_entries(self._arrays, rows, ptr, topics, values, orders)
        return ids, ptr, topics[:n], values[:n], orders[:n]

    def spill(self) -> None:
        """Write the sums behind the scratch file and forget them.

        The caller holds the lock.
        """
        run = Spilled(0, 0, 0)
        if self._state[1]:
            if self._layout.dense:
                rows = np.flatnonzero(self._length)
                ids = (self._first + rows).astype(np.int32)
                columns = self._layout.columns
                whole = self._values[: self._state[0]].reshape(-1, columns)
                values = whole[self._begin[rows] // columns]
                run = self._file.write(len(ids), values.size, (ids, values))
            else:
                arrays = self.listed()
                run = self._file.write(len(arrays[0]), len(arrays[3]), arrays)
        runs = [*self.runs, run]
        self.empty()
        self.runs = runs
        self._unmerged = self._layout.in_pieces
        size = 0 if self._unmerged else self.least
        if self.size != size:
            self._hold(size)

    def _hold(self, size: int) -> None:
        """Have arrays of ``size`` entries in place of those there are, which hold no sums."""
        self._space.give((self.size - size) * self._layout.entry_bytes)
        self._topics, self._values, self._orders = self._layout.new_arrays(size)

    def read_back(self) -> None:
        """Add the runs that were spilled to what is in memory."""
        runs = self.runs
        self.runs = []
        for run in runs:
            if not run.rows:
                continue
            ids, delta, came = self._file.read(run)
            self.add(ids, delta, 0, len(ids), 0, came)

    def add_to(self, part: RowRange, factor: float) -> None:
        """Add ``factor`` times the sums to the rows of a table, and forget them."""
        if self._unmerged:
            self._add_unmerged(part, factor)
            self.end()
            return
        self.read_back()
        if self._layout.dense:
            add_rows(part, self._arrays, factor)
        else:
            add_entries(part, self._arrays, factor)
        self.end()

    def _add_unmerged(self, part: RowRange, factor: float) -> None:
        """Add up run and pieces, and add ``factor`` times the sums to the rows of a table."""
        sums = np.zeros((len(self._begin), self._layout.columns))
        changed = np.zeros(len(sums), np.bool_)
        for run in self.runs:
            if run.rows:
                ids, delta, _ = self._file.read(run)
                arrays = (ids, delta.ptr, delta.topic, delta.value)
                sum_changes(sums, changed, self._first, *arrays, 0.0)
        for piece in self.pieces:
            entries = self._file.read_piece(piece)
            sum_changes(sums, changed, self._first, *entries, self._layout.quantum)
        add_sums(part.rows, sums, changed, factor, part.change)

    def end(self) -> None:
        """Forget the sums.

        The arrays stay for the next round, which needs about as much.
        """
        self._written = sum(piece.entries for piece in self.runs + self.pieces)
        if self._state[1]:
            self._most = (int(self._state[0]) // 2 + self._layout.columns) * 2
        self.empty()
        if self._space.exceeded:
            self._hold(0)
        elif self.size > self._most + self._most // 16:
            self._hold(self._most)

    def empty(self) -> None:
        """Forget the sums and runs."""
        np.copyto(self._usual, self._length, where=self._length > 0)
        self._length[:] = 0
        self._room[:] = 0
        self._state[:] = 0
        self.runs = []
        self.pieces = []
        self._unmerged = False

    def free(self) -> None:
        """Forget the sums and give their memory back."""
        self.empty()
        self._hold(0)


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
