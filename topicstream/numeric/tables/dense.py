"""Tables of dense rows.

Work on all rows is cut into ranges of rows that depend on the table's shape alone, so that sums
have one order whatever the number of threads, and wherever the rows are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from topicstream.base.errors import StoreError
from topicstream.base.memory import Array
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.kernels.scatter import (
    RowRange,
    changed_entries,
    clip_rows,
    column_sums,
    hold_rows,
    put_entries,
    scale_rows,
)
from topicstream.numeric.tables.merging import MergedRound, merging_bytes
from topicstream.numeric.tables.rounds import (
    WINDOW_BYTES,
    DenseRound,
    Entered,
    Round,
    RoundSpace,
    SparseRound,
)
from topicstream.numeric.tables.spec import Rows, RunAll, Scratch, TableSpec, padded
from topicstream.numeric.tables.spill import SumLayout, place_bytes
from topicstream.numeric.tables.storage import Storage
from topicstream.numeric.tables.sums import MOST_COLUMNS, PackedSums
from topicstream.numeric.tables.table import Footprint, Sizes, Table

RANGE_BYTES = 4 << 20  # of a range of rows, about
RANGES = 64  # of a table, at least


class DenseTable(Table):
    """A table of dense rows, [n_rows, padded(columns)].

    Rows with constants are stored twice: raw, and again with the constants added, which is the copy
    that a visit reads. In memory the copies stand behind the table and are renewed whenever it
    changes. For a mapped table they stand behind the gathered rows.
    """

    @classmethod
    def footprint(cls, spec: TableSpec, sizes: Sizes) -> Footprint:
        width = padded(sizes.columns)
        row = Array((width,), spec.dtype).nbytes
        dense = spec.delta == "dense"
        deltas = WINDOW_BYTES if dense else 0
        columns = width if dense else sizes.columns
        entry = place_bytes(columns, dense=dense, ordered=False)
        of_range = min(-(-sizes.rows // RANGES), max(1, RANGE_BYTES // row))
        return Footprint(
            rows=Array((sizes.rows + sizes.constants, width), spec.dtype).nbytes,
            window=min(max(row, RANGE_BYTES), row * sizes.rows) + deltas,
            delta=Array((sizes.changed, width), np.float32).nbytes if spec.delta == "dense" else 0,
            gathered=Array(
                (sizes.seen + min(sizes.seen, sizes.constants), width), spec.dtype
            ).nbytes,
            merging=merging_bytes(sizes.rows, of_range, columns, entry),
        )

    def __init__(
        self,
        spec: TableSpec,
        rows: int,
        columns: int,
        mass: np.ndarray | None,
        folder: Path | None,
        run_all: RunAll,
        constants: Constants | None = None,
    ) -> None:
        super().__init__(spec, rows, columns, mass, folder, run_all, constants)
        behind = len(constants) if constants is not None and folder is None else 0
        self._storage = Storage((rows + behind, self.width), spec.dtype, folder)
        self._rows = self._storage.array[:rows]
        self.array = self._rows if folder is None else None
        self._row_bytes = self.width * self._rows.itemsize
        # of a number: -0.0 is another one than 0.0
        self._bits = np.dtype(f"u{self._rows.itemsize}")
        self._number = np.min_scalar_type(columns)  # of a column
        self._own = threading.local()
        step = max(1, min(-(-rows // RANGES), RANGE_BYTES // self._row_bytes))
        self.edges = np.append(np.arange(0, rows, step), rows).astype(np.int64)

    # -- rows out
    # ----------------------------------------------------------------------------------------------
    def gather(self, ids: np.ndarray, scratch: Scratch) -> Rows:
        """Return a view with an index, or copied rows of a mapped table."""
        index = scratch.array("row index", len(ids), np.int64)
        constant_rows, which = (
            self.constants.find(ids) if self.constants is not None else (ids[:0], ids[:0])
        )
        base = self._storage.array
        behind = self.n_rows + which
        index[:] = ids
        if self._storage.mapped:
            base = self._copied(ids, len(constant_rows), scratch)
            behind = len(ids) + np.arange(len(constant_rows))
            index[:] = np.arange(len(ids))
        if self.constants is None or not len(constant_rows):
            return Rows(base, index, self.scale, None)
        bare = scratch.array("bare index", len(ids), np.int64)
        bare[:] = index
        index[constant_rows] = behind
        if self._storage.mapped:
            base[behind] = base[bare[constant_rows]]
            self.constants.add(base, behind, which, self.scale)
        return Rows(base, index, self.scale, bare)

    def _copied(self, ids: np.ndarray, more: int, scratch: Scratch) -> np.ndarray:
        """Copy the rows of the ids, with room for ``more`` behind them."""
        rows = scratch.array("gathered rows", (len(ids) + more, self.width), self.spec.dtype)
        cuts = np.searchsorted(ids, self.edges)
        for i in np.flatnonzero(np.diff(cuts)):
            a = cuts[i]
            b = cuts[i + 1]
            np.take(self._rows, ids[a:b], axis=0, out=rows[a:b], mode="clip")
            self._storage.release_pages(int(ids[a]), int(ids[b - 1]) + 1)
        return rows

    def _renew(self) -> None:
        """Update the copies of the rows with constants."""
        if self.constants is not None and not self._storage.mapped:
            every = self._storage.array
            which = np.arange(len(self.constants))
            every[self.n_rows :] = every[self.constants.ids]
            self.constants.add(every, self.n_rows + which, which, self.scale)

    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        rows = self.gather(np.asarray(ids, np.int32), Scratch())
        out[:] = rows.base[rows.counts] * rows.scale
        return out

    # -- deltas in
    # ----------------------------------------------------------------------------------------------
    def new_round(self, space: RoundSpace, most_rows: int, tokens: float) -> Round:
        quantum = self.spec.quantum(tokens)
        dense = self.spec.delta == "dense"
        if space.merge is not None and quantum:
            columns = self.width if dense else self.columns
            layout = SumLayout(columns, quantum, dense=dense, ordered=False)
            return MergedRound(space, self.edges, layout)
        if not dense:
            return SparseRound(space, quantum)
        return DenseRound(space, most_rows, self.width, quantum)

    def new_sums(self, tokens: float) -> PackedSums | None:
        quantum = self.spec.quantum(tokens)
        if self.spec.delta == "dense" or not quantum or self.columns > MOST_COLUMNS:
            return None
        return PackedSums(self.edges, self.columns, quantum, self.run_all)

    def apply_sums(self, sums: PackedSums, factor: float = 1.0) -> None:
        # rows are held to their mass by ``finish_pass``, at the end of the pass
        def add(i: int, part: RowRange) -> None:
            sums.add_range(i, part, factor)

        self._sum(*self._over_ranges(add, sums.touched()))
        sums.clear()

    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        self._sum(*self._add(deltas, factor, hold, self._owned(0, 1)))

    def _add(
        self,
        deltas: Round,
        factor: float,
        hold: bool,
        mine: np.ndarray,
        moved: dict[int, tuple[np.ndarray, ...]] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add a round to the ranges ``mine`` (see ``_over_ranges``).

        moved: receives the changes of each range (``Entered.rows``).
        """
        touched = deltas.cut(self.edges)

        def add(i: int, part: RowRange) -> None:
            part = part if hold else part._replace(mass=np.zeros(0))
            if moved is None:
                deltas.add_range(i, part, factor)
                return
            scratch = self._own.__dict__.setdefault("scratch", Scratch())
            spans = zip(deltas.ids, deltas.cuts[i], deltas.cuts[i + 1])
            added = np.unique(np.concatenate([ids[a:b] for ids, a, b in spans]))
            rows = added - np.int32(part.first)
            present = part.rows.view(self._bits)
            before = scratch.array("before", (len(rows), self.width), self._bits)
            np.take(present, rows, axis=0, out=before, mode="clip")
            deltas.add_range(i, part, factor)
            lengths = np.empty(len(rows), np.int32)
            columns = scratch.array("columns", before.size, self._number)
            values = scratch.array("values", before.size, self._bits)
            n, m = changed_entries(before, present, rows, self.columns, lengths, columns, values)
            moved[i] = added, lengths, columns[:n].copy(), values[:m].copy()

        sums = self._over_ranges(add, mine & touched)
        deltas.clear()
        return sums

    @property
    def _groups(self) -> int:
        """Count the groups of ranges.

        Range i adds to the sums of group i % groups.
        """
        return min(len(self.edges) - 1, RANGES)

    def _owned(self, owner: int, members: int) -> np.ndarray:
        """Mark the ranges that a member owns, bool[ranges], in whole groups."""
        return np.asarray(np.arange(len(self.edges) - 1) % self._groups % members == owner)

    def spans(self, ids: np.ndarray, owner: int, members: int) -> list[slice]:
        cuts = np.searchsorted(ids, self.edges)
        mine = self._owned(owner, members)
        return [
            slice(a, b) for a, b in zip(cuts[:-1][mine].tolist(), cuts[1:][mine].tolist()) if b > a
        ]

    def add_owned(
        self, deltas: Round, factor: float, hold: bool, owner: int, members: int
    ) -> Entered:
        moved: dict[int, tuple[np.ndarray, ...]] = {}
        told = moved if members > 1 else None  # there is nobody to tell
        change, worst = self._add(deltas, factor, hold, self._owned(owner, members), told)
        rows = tuple(np.concatenate(arrays) for arrays in zip(*(moved[i] for i in sorted(moved))))
        return Entered(rows, change[owner::members], worst[owner::members])

    def take_owned(self, entered: Sequence[Entered], own: int) -> None:
        change = np.zeros((self._groups, self.width))
        worst = np.zeros((self._groups, 3))
        for member, theirs in enumerate(entered):
            change[member :: len(entered)] = theirs.change
            worst[member :: len(entered)] = theirs.worst
            if theirs.rows and member != own:
                self._put(*(np.require(array, requirements="A") for array in theirs.rows))
        self._sum(change, worst)

    def _put(
        self, ids: np.ndarray, lengths: np.ndarray, columns: np.ndarray, values: np.ndarray
    ) -> None:
        """Write the rows that another member has changed, range by range."""
        cuts = np.searchsorted(ids, self.edges)
        to_values = np.append(0, np.cumsum(lengths, dtype=np.int64))
        to_columns = np.append(
            0, np.cumsum(np.where(lengths == self.columns, 0, lengths), dtype=np.int64)
        )

        def put(i: int) -> None:
            a = int(cuts[i])
            b = int(cuts[i + 1])
            if a < b:
                put_entries(
                    self._rows.view(self._bits),
                    ids[a:b],
                    self.columns,
                    lengths[a:b],
                    columns[to_columns[a] :],
                    values[to_values[a] :],
                )
                self._storage.release_pages(int(self.edges[i]), int(self.edges[i + 1]))

        self.run_all(put, len(self.edges) - 1)

    def _over_ranges(
        self, work: Callable[[int, RowRange], None], touched: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Call work(i, range i) over all ranges, or those ``touched`` (bool[ranges]).

        Returns
        -------
        change
            float64[groups, padded(columns)], for ``_sum``.
        worst
            float64[groups, 3].
        """
        groups = self._groups
        changed = [True] * len(self.edges) if touched is None else touched.tolist()
        change = np.zeros((groups, self.width))
        worst = np.zeros((groups, 3))

        def one(group: int) -> None:
            for i in range(group, len(self.edges) - 1, groups):
                if changed[i]:
                    a = int(self.edges[i])
                    b = int(self.edges[i + 1])
                    work(
                        i,
                        RowRange(
                            a, self._rows[a:b], self.row_mass[a:b], change[group], worst[group]
                        ),
                    )
                    self._storage.release_pages(a, b)

        self.run_all(one, groups)
        return change, worst

    def _sum(self, change: np.ndarray, worst: np.ndarray) -> None:
        """Add the sums of groups of ranges to the totals, in order.

        The rows have changed, so the copies with constants are renewed.
        """
        self._renew()
        for sums in change:
            self.totals += self.scale * sums
        self.worst[0] = max(self.worst[0], worst[:, 0].max(initial=0.0))
        self.worst[1] = min(self.worst[1], worst[:, 1].min(initial=0.0))
        self.worst[2] = max(self.worst[2], worst[:, 2].max(initial=0.0))

    def blend(self, rho: float) -> float:
        self.scale *= 1.0 - rho
        self.totals *= 1.0 - rho
        if self.scale < 1e-6:
            factor = self.scale
            self.scale = 1.0
            self._sum(*self._over_ranges(lambda i, part: scale_rows(part.rows, factor)))
        self._renew()
        return 1.0 / self.scale

    def finish_pass(self) -> np.ndarray:
        factor = self.scale
        self.scale = 1.0

        def work(i: int, part: RowRange) -> None:
            if factor != 1.0:
                scale_rows(part.rows, factor)
            if len(self.row_mass):
                hold_rows(part.rows, part.mass, part.worst)
            elif self.spec.mass == "part":
                clip_rows(part.rows, part.worst)
            column_sums(part.rows, part.change)

        self.totals[:] = 0.0
        self._sum(*self._over_ranges(work))
        worst = self.worst
        self.worst = np.zeros(3)
        return worst

    # -- whole
    # ----------------------------------------------------------------------------------------------
    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        self.scale = 1.0
        self.rewrite(lambda first, rows: piece(first, first + len(rows)))

    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        scale = self.scale
        self.scale = 1.0

        def work(i: int, part: RowRange) -> None:
            part.rows[:] = change(part.first, part.rows if scale == 1.0 else part.rows * scale)
            column_sums(part.rows, part.change)

        self.totals[:] = 0.0
        self._sum(*self._over_ranges(work))

    def clear(self) -> None:
        self._storage.clear()
        self.scale = 1.0
        self.totals[:] = 0.0
        self._renew()

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        for a, b in zip(self.edges[:-1].tolist(), self.edges[1:].tolist()):
            yield a, self._rows[a:b]
            self._storage.release_pages(a, b)

    def save(self, path: Path) -> None:
        with open(path, "xb") as f:
            for _, rows in self.pieces():
                f.write(rows.data)

    def load(self, path: Path) -> None:
        with open(path, "rb") as f:
            if path.stat().st_size != self.n_rows * self._row_bytes:
                raise StoreError(f"{path}: not {self.n_rows} rows of {self.columns} numbers")
            for _, part in self.pieces():
                f.readinto(part.data)
        self._renew()

    def close(self) -> None:
        self._rows = self._rows[:0]
        self.array = None
        self._storage.close()
