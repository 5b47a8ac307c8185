"""Sums of a round for one range of rows, and the runs of them in a scratch file.

``merging.py`` says when a buffer is written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from topicstream.numeric.kernels.merging import (
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
from topicstream.numeric.tables.rounds import RowRange
from topicstream.numeric.tables.spec import SparseDelta

if TYPE_CHECKING:
    from topicstream.numeric.tables.merging import MergedRound

LEAST = 1 << 14  # entries that a range goes on with once it was spilled, at most
FEW_COLUMNS = 256  # beyond which a row that few cells change would be mostly zeros


class Spilled(NamedTuple):
    """Run of sums in a scratch file: its offset, rows, entries and their type.

    No rows: nothing is there.
    """

    offset: int
    rows: int
    entries: int
    kind: Any = np.float64


class RangeBuffer:
    """The sums of a round for one range of rows."""

    def __init__(self, merged: MergedRound, first: int, rows: int) -> None:
        self.lock = threading.Lock()
        self.runs: list[Spilled] = []
        self.pieces: list[Spilled] = []
        self._unmerged = False  # whether what blocks bring is written as it is
        self._written = 0  # entries that were, in the last round
        self._round = merged
        self._first = first
        self._begin = np.zeros(rows, np.int64)
        self._length = np.zeros(rows, np.int32)
        self._room = np.zeros(rows, np.int32)
        self._usual = np.zeros(rows, np.int32)
        self._state = np.zeros(2, np.int64)
        self._latest = 0
        self._most = 0
        self._whole = False
        self._topics, self._values, self._orders = merged.new_arrays(0)

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
        return len(self._begin) * self._round.columns * self._round.entry_bytes * 9 // 8

    @property
    def may_spill(self) -> bool:
        """Tell whether the buffer has more than the least, and was not spilled in this round."""
        least = 0 if self._round.in_pieces else self.least
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
            self._whole = self._round.columns <= FEW_COLUMNS and self._round.merge.whole
        self._choose_pieces()
        while True:
            if self._unmerged:
                self.pieces.append(self._round.write_piece(ids, delta, lo, hi))
                return
            lo = self._merge(ids, delta, lo, hi, block, came)
            if lo == hi:
                return
            coming = self._entries(delta, lo, hi)
            if came is None:
                self._grow(coming)
            else:  # the end of the round, whatever the bound
                size = self._room_for(coming)
                self._round.merge.give((self.size - size) * self._round.entry_bytes)
                self._move(size)

    def _choose_pieces(self) -> None:
        """Write pieces from the start of a round if the last one did, and there is no room."""
        if not self._round.in_pieces or self.touched or not self._written:
            return
        most = min(self._written, len(self._begin) * self._round.columns)
        if self._round.merge.has_room(most * self._round.entry_bytes):
            self._most = max(self._most, most)
        else:
            self._unmerged = True

    def _entries(self, delta: Any, lo: int, hi: int) -> int:
        if isinstance(delta, SparseDelta):
            return int(delta.ptr[hi] - delta.ptr[lo])
        return (hi - lo) * self._round.columns

    def _merge(
        self,
        ids: np.ndarray,
        delta: Any,
        lo: int,
        hi: int,
        block: int,
        came: np.ndarray | None,
    ) -> int:
        quantum = 0.0 if came is not None else self._round.quantum
        if isinstance(delta, SparseDelta):
            entries = (ids, delta.ptr, delta.topic, delta.value)
            orders = np.zeros(0, np.uint64) if came is None else came
            where = (lo, hi, quantum, self._round.quantum, block, orders, self._whole)
            return int(
                merge_entries(self._arrays, self._first, self._round.columns, *entries, *where)
            )
        rows = (self._begin, self._length, self._room, self._values, self._state)
        return int(merge_rows(*rows, self._first, ids, delta, lo, hi, quantum))

    @property
    def _arrays(self) -> Buffer:
        rows = (self._begin, self._length, self._room, self._usual)
        return Buffer(*rows, self._topics, self._values, self._orders, self._state)

    def _grow(self, coming: int) -> None:
        """Make room for about ``coming`` more entries.

        Where the bound leaves none, spill.

        A range that was spilled goes on in pieces, or with a small buffer, until the round ends.
        """
        space = self._round.merge
        while not self.runs:
            size = self._room_for(coming)
            if space.take((size - self.size) * self._round.entry_bytes):
                self._move(size)
                return
            if not space.make_room(self):
                break
        self.spill()

    def _room_for(self, coming: int) -> int:
        """Entries that the buffer should have room for: not less than it usually needs."""
        columns = self._round.columns
        if self._whole and not self.size:
            return (len(self._begin) + 1) * columns // 2 * 2
        taken = int(self._state[1])
        expected = coming // 8 if taken else coming + coming // 4
        more = max(taken // 8, expected) + 4 * columns
        widest = columns if self._round.dense else 2 * columns + 1
        size = min(max(taken + more, self._most), (len(self._begin) + 2) * widest)
        return size + size % 2

    def _move(self, size: int) -> None:
        """Move the rows to arrays of ``size`` entries."""
        arrays = self._round.new_arrays(size)
        topics, values, orders = arrays
        if self._round.dense:
            rows = (self._begin, self._length, self._room)
            move_rows(*rows, self._values, values, self._state)
        else:
            move_entries(self._arrays, self._round.columns, topics, values, orders)
        self._topics, self._values, self._orders = arrays

    @property
    def least(self) -> int:
        """Entries that a buffer has whatever there is for all: room for some rows."""
        space = self._round.merge
        share = space.bound // (4 * self._round.entry_bytes * len(space.buffers))
        return 2 * max(2 * self._round.columns, min(share, LEAST) // 2)

    def listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """List the rows that have changed: ids, ptr, topics, values and orders."""
        rows = np.flatnonzero(self._length)
        ids = (self._first + rows).astype(np.int32)
        ptr = np.zeros(len(rows) + 1, np.int64)
        most = int(np.minimum(self._length, self._round.columns).sum(dtype=np.int64))
        topics = np.empty(most, self._topics.dtype)
        values = np.empty(most)
        orders = np.empty(most if len(self._orders) else 0, np.uint64)
        unit = self._round.quantum
        columns = self._round.columns
        n = list_entries(self._arrays, columns, unit, rows, ptr, topics, values, orders)
        return ids, ptr, topics[:n], values[:n], orders[:n]

    def spill(self) -> None:
        """Write the sums behind the scratch file and forget them.

        The caller holds the lock.
        """
        run = Spilled(0, 0, 0)
        if self._state[1]:
            if self._round.dense:
                rows = np.flatnonzero(self._length)
                ids = (self._first + rows).astype(np.int32)
                columns = self._round.columns
                whole = self._values[: self._state[0]].reshape(-1, columns)
                values = whole[self._begin[rows] // columns]
                run = self._round.write(len(ids), values.size, (ids, values))
            else:
                arrays = self.listed()
                run = self._round.write(len(arrays[0]), len(arrays[3]), arrays)
        runs = [*self.runs, run]
        self.empty()
        self.runs = runs
        self._unmerged = self._round.in_pieces
        size = 0 if self._unmerged else self.least
        if self.size != size:
            self._hold(size)

    def _hold(self, size: int) -> None:
        """Have arrays of ``size`` entries in place of those there are, which hold no sums."""
        self._round.merge.give((self.size - size) * self._round.entry_bytes)
        self._topics, self._values, self._orders = self._round.new_arrays(size)

    def read_back(self) -> None:
        """Add the runs that were spilled to what is in memory."""
        runs = self.runs
        self.runs = []
        for run in runs:
            if not run.rows:
                continue
            ids, delta, came = self._round.read(run)
            self.add(ids, delta, 0, len(ids), 0, came)

    def add_to(self, part: RowRange, factor: float) -> None:
        """Add ``factor`` times the sums to the rows of a table, and forget them."""
        if self._unmerged:
            self._add_unmerged(part, factor)
            self.end()
            return
        self.read_back()
        if self._round.dense:
            sums = (self._begin, self._length, self._values)
            add_rows(part.rows, *sums, factor, part.mass, part.change, part.worst)
        else:
            columns = self._round.columns
            unit = self._round.quantum
            add_entries(part.rows, self._arrays, columns, unit, factor, part.change)
        self.end()

    def _add_unmerged(self, part: RowRange, factor: float) -> None:
        """Add up run and pieces, and add ``factor`` times the sums to the rows of a table."""
        sums = np.zeros((len(self._begin), self._round.columns))
        changed = np.zeros(len(sums), np.bool_)
        for run in self.runs:
            if run.rows:
                ids, delta, _ = self._round.read(run)
                arrays = (ids, delta.ptr, delta.topic, delta.value)
                sum_changes(sums, changed, self._first, *arrays, 0.0)
        for piece in self.pieces:
            entries = self._round.read_piece(piece)
            sum_changes(sums, changed, self._first, *entries, self._round.quantum)
        add_sums(part.rows, sums, changed, factor, part.change)

    def end(self) -> None:
        """Forget the sums.

        The arrays stay for the next round, which needs about as much.
        """
        self._written = sum(piece.entries for piece in self.runs + self.pieces)
        if self._state[1]:
            self._most = (int(self._state[0]) // 2 + self._round.columns) * 2
        self.empty()
        if self._round.merge.exceeded:
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
