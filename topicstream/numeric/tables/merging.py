"""Rounds whose deltas merge as blocks end, for runs that have no memory for those of a whole round.

Each range of a table's rows has a buffer of sums (numeric/kernels/merging.py). All buffers of a run
share one bound. Where it is reached, the buffer that gains most by it is written behind a scratch
file, as a run of sorted rows. From then on a range of sparse deltas has no buffer: what blocks
bring is written as it is, in pieces, and in the next round from the start, unless there is room
for all of it. Other ranges begin a small buffer. Runs and pieces are read back when the sum of the
range is added to the table. Sums are exact, so none of this shows in the result.
"""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np

from topicstream.numeric.kernels.scatter import RowRange
from topicstream.numeric.tables.range_buffer import RangeBuffer
from topicstream.numeric.tables.rounds import Round, RoundSpace
from topicstream.numeric.tables.spec import Scratch, SparseDelta
from topicstream.numeric.tables.spill import SpillFile, SumLayout
from topicstream.numeric.tables.table import Merging

OF_A_ROW = 20  # bytes that a row of a table takes in its buffer, whatever its entries


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
    layout
        Form of the sums.
    """

    def __init__(self, space: RoundSpace, edges: np.ndarray, layout: SumLayout) -> None:
        super().__init__(space, layout.quantum)
        assert space.merge is not None
        self.layout = layout
        self._edges = edges
        self._own = threading.local()
        self._file = SpillFile(layout, space.merge.folder)
        self.buffers = [
            RangeBuffer(layout, self._file, space.merge, int(a), int(b - a))
            for a, b in pairwise(edges)
        ]
        space.merge.buffers.extend(self.buffers)

    # -- deltas in
    # ----------------------------------------------------------------------------------------------
    def slot(self, i: int, ids: np.ndarray) -> np.ndarray | None:
        """Return the calling worker's array for the delta of a block."""
        if not self.layout.dense:
            return None
        own = self._own.__dict__.setdefault("scratch", Scratch())
        room: np.ndarray = own.array("delta", (len(ids), self.layout.columns), np.float32)
        return room

    def put(self, i: int, ids: np.ndarray, delta: Any) -> None:
        cuts = np.searchsorted(ids, self._edges)
        ranges = np.flatnonzero(np.diff(cuts))
        # workers begin at different ranges, so that they seldom wait for each other
        for r in np.roll(ranges, -(i % self._space.blocks) * len(ranges) // self._space.blocks):
            with self.buffers[r].lock:
                self.buffers[r].add(ids, delta, int(cuts[r]), int(cuts[r + 1]), i)
        self._made[i] = ids[:0], None

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
        self._file.empty()

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
