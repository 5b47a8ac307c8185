"""The deltas of a wide round, added up as blocks finish.

A round of 64 blocks would hold 64 deltas until its end.  Here they enter a *shadow* of the table, in block order, as soon
as the blocks before them have: a round costs the shadow (the touched rows once more; pages that are not touched cost
nothing) and a window of deltas, two for each worker.  The table itself does not change before the round ends, so the bits
are those of deltas that wait.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.kernels.scatter import copy_touched, fold_rows, scatter_sparse
from topicstream.tables.rounds import Round
from topicstream.tables.spec import Scratch, SparseDelta

if TYPE_CHECKING:
    from topicstream.tables.dense import DenseTable

GROUPS = 16  # ranges of rows that different workers may fold at the same time


class FoldedRound(Round):
    """Of a dense table in RAM.

    window   block i may begin only when block i - window has entered: so many deltas are held at once
    shadow   float64[rows, P] of dense deltas (rounded once, at the end), the table's own type of sparse ones (which are
             rounded one after the other)
    """

    def __init__(self, table: DenseTable, blocks: int, most_rows: int, window: int) -> None:
        super().__init__(blocks)
        self.window = max(1, window)
        self.sparse = table.spec.delta == "sparse"
        self.edges = table.edges
        self.shadow = np.empty((table.n_rows, table.width), table.spec.dtype if self.sparse else np.float64)
        self.touched = np.zeros(table.n_rows, np.uint8)
        self.change = np.zeros((len(self.edges) - 1, table.width))
        self._target: DenseTable = table
        self._arena = np.empty((0 if self.sparse else self.window, most_rows, table.width), np.float32)
        self._deltas: list[Any] = [None] * blocks
        self._groups = [threading.Lock() for _ in range(min(GROUPS, max(len(self.edges) - 1, 1)))]
        self._next = [0] * len(self._groups)  # first block that a group has not folded
        self._moved = threading.Condition()
        self._failed = False

    def begin(self, target: DenseTable) -> None:
        """A round begins whose deltas enter ``target``."""
        self._target = target

    def wait(self, i: int) -> None:
        """Until there is room for the delta of block ``i``.  The first block that has not entered never waits."""
        with self._moved:
            self._moved.wait_for(lambda: self._failed or min(self._next) > i - self.window)

    def fail(self) -> None:
        """A visit has failed: the round will never end, nobody shall wait for it."""
        with self._moved:
            self._failed = True
            self._moved.notify_all()

    def slot(self, i: int, ids: np.ndarray, scratch: Scratch) -> np.ndarray | None:
        self.wait(i)
        return None if self.sparse else self._arena[i % self.window, : len(ids)]

    def put(self, i: int, ids: np.ndarray, delta: Any) -> None:
        with self._moved:
            self._ids[i], self._deltas[i] = ids, delta
        for offset in range(len(self._groups)):  # workers begin at different groups
            self._fold((i + offset) % len(self._groups))
        with self._moved:
            self._moved.notify_all()

    def _fold(self, group: int) -> None:
        """Enter every block that is next, in one group of ranges.  Where another worker is at it, it will see this block:
        it looks again after each block, under the lock that ``put`` took."""
        while True:
            if not self._groups[group].acquire(blocking=False):
                return
            try:
                while (i := self._next[group]) < len(self._deltas) and self._deltas[i] is not None:
                    self._enter(i, group)
                    self._next[group] = i + 1
                    with self._moved:
                        self._moved.notify_all()
            finally:
                self._groups[group].release()
            i = self._next[group]
            if i >= len(self._deltas) or self._deltas[i] is None:
                return  # nothing came between the last look and the release

    def _enter(self, i: int, group: int) -> None:
        ids, delta = self._ids[i], self._deltas[i]
        assert ids is not None
        cuts = np.searchsorted(ids, self.edges)
        rows = self._target.array
        assert rows is not None
        for g in range(group, len(self.edges) - 1, len(self._groups)):
            a, b, lo, hi = int(self.edges[g]), int(self.edges[g + 1]), int(cuts[g]), int(cuts[g + 1])
            if hi <= lo:
                continue
            shadow, touched = self.shadow[a:b], self.touched[a:b]
            if isinstance(delta, SparseDelta):
                begin, end = int(delta.ptr[lo]), int(delta.ptr[hi])
                copy_touched(shadow, touched, rows[a:b], a, ids, lo, hi)
                ptr, topic, value = delta.ptr[lo : hi + 1] - begin, delta.topic[begin:end], delta.value[begin:end]
                scatter_sparse(shadow, a, ptr, topic, value, ids[lo:hi], 0, hi - lo, self.change[g], 1.0)
            else:
                fold_rows(shadow, touched, rows[a:b], a, ids, delta, lo, hi)

    def add_to(self, *arguments: Any) -> None:
        raise AssertionError("a folded round has entered its shadow; the table takes that")

    def clear(self) -> None:
        super().clear()
        self._deltas = [None] * len(self._deltas)
        self._next = [0] * len(self._groups)
        self.change[:] = 0.0
        self._failed = False

    def close(self) -> None:
        super().close()
        self.shadow, self._arena = self.shadow[:0], self._arena[:0]
