"""The sum of a round's dense deltas, added up as blocks finish, in whatever order they do.

The table does not change before the round ends.  Deltas are multiples of the table's quantum (quantum.py), so the sum is
exact: threads add to it as they come, each locking the range of rows that it adds to.
"""

from __future__ import annotations

import threading

import numpy as np

from topicstream.kernels.scatter import add_rows, enter_sum
from topicstream.tables.rounds import Round
from topicstream.tables.spec import Scratch


class DenseSum(Round):
    """The sum over a round of one table whose rows are in RAM.

    Parameters
    ----------
    edges
        int64[n + 1]; rows edges[i] to edges[i + 1] - 1 are a range with a lock of its own.
    width
        Columns of a row, with the padding.
    quantum
        Deltas are rounded to multiples of it; 0.0: each row gets one delta a round at most, which is kept as it is.
    """

    def __init__(self, edges: np.ndarray, width: int, quantum: float) -> None:
        self._edges, self._width, self._quantum = edges, width, quantum
        self._locks = [threading.Lock() for _ in range(len(edges) - 1)]
        self._new_rows()

    def _new_rows(self) -> None:
        rows = int(self._edges[-1])
        self._rows = np.zeros((rows, self._width))  # pages that are never touched cost nothing
        self._touched = np.zeros(rows, np.uint8)

    def slot(self, i: int, ids: np.ndarray, scratch: Scratch) -> np.ndarray:
        return scratch.array("delta", (len(ids), self._width), np.float32)

    def put(self, i: int, ids: np.ndarray, delta: np.ndarray) -> None:
        cuts = np.searchsorted(ids, self._edges)
        ranges = np.flatnonzero(np.diff(cuts))
        for r in np.roll(ranges, -(i * len(ranges) // 7)).tolist():  # blocks begin at different ranges
            a, b = int(self._edges[r]), int(self._edges[r + 1])
            with self._locks[r]:
                add_rows(self._rows[a:b], self._touched[a:b], a, ids, delta, cuts[r], cuts[r + 1], self._quantum)

    def enter(self, i: int, rows: np.ndarray, factor: float, mass: np.ndarray, change: np.ndarray, worst: np.ndarray) -> None:
        """Add ``factor`` times the sum to ``rows``, range ``i`` of the table, and be zero there again.

        mass, change, worst: as ``Waiting.add_to`` has them.
        """
        part = slice(int(self._edges[i]), int(self._edges[i + 1]))
        enter_sum(rows, self._rows[part], self._touched[part], factor, mass, change, worst)

    def rest(self) -> None:
        super().rest()
        self._new_rows()

    def close(self) -> None:
        super().close()
        self._rows, self._touched = self._rows[:0], self._touched[:0]
