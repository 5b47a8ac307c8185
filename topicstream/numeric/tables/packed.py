"""Tables of whole counts as sparse rows in slots (``slots``), in memory or in a mapped file.

In a checkpoint the table is a file of tight rows, the same bytes wherever it was held: int64[5]
(magic, words, topics, samples taken, bytes of an entry), then the rows (``Slots.save``), then, once
samples are taken, their sum, of 8 bytes an entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from topicstream.base.errors import StoreError, TopicsError
from topicstream.base.memory import Array
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.kernels.packed import (
    entry_bytes,
    sum_packed,
)
from topicstream.numeric.tables.merging import MergedRound, merging_bytes
from topicstream.numeric.tables.rounds import Addresses, Round, RoundSpace, SparseRound
from topicstream.numeric.tables.slots import PIECE, RANGES, RowPiece, Slots, read_array
from topicstream.numeric.tables.spec import (
    PackedRows,
    RunAll,
    Scratch,
    SparseDelta,
    TableSpec,
    copy_tight,
)
from topicstream.numeric.tables.spill import SumLayout, place_bytes
from topicstream.numeric.tables.table import Footprint, Sizes, Table

MAGIC = 0x32_57_4F_52_4B_43_50  # PCKROW2
SMALL = 4096  # counts below this are counted one by one in the histogram
WINDOW_BYTES = 4 << 20  # dense rows that ``pieces`` shows at a time


class PackedTable(Table):
    """A table of whole counts as sparse rows, [n_rows, columns].

    histogram  (counts int64[], times int64[]) of all non-zero entries at the last ``finish_pass``
    samples    how many times ``take_sample`` was called: then ``pieces`` gives the mean of those
               states

    The rows' mass is checked exactly by ``finish_pass``.
    """

    slower_on_disk: ClassVar[float] = 1.2  # a visit reads a few bytes a token

    @classmethod
    def footprint(cls, spec: TableSpec, sizes: Sizes) -> Footprint:
        """Compute the bytes of the densest case.

        The sum of the samples is a table of its own.
        """
        cells = min(sizes.entries, sizes.rows * sizes.columns)
        summed = min(cells * len(spec.samples), sizes.rows * sizes.columns)
        entry = f"u{entry_bytes(sizes.largest * max(len(spec.samples), 1), sizes.columns)}"
        # where rows are, their room and length
        words = Array((sizes.rows, 2 if spec.samples else 1), np.dtype("i8,i4,i4"))
        # in its slots, copied, and what is made of the copy
        piece = Array((3, PIECE + sizes.columns), np.uint64)
        bytes_of_sum = place_bytes(sizes.columns, dense=False, ordered=True)
        of_range = -(-sizes.rows // RANGES)
        merging = merging_bytes(sizes.rows, of_range, sizes.columns, bytes_of_sum)
        # a row that had other topics before changes at most twice the entries that it has room for
        of_piece = 2 * (PIECE + sizes.columns) * bytes_of_sum
        merging = merging._replace(range=min(merging.range, of_piece))
        return Footprint(
            Array((cells + summed,), entry).nbytes, words.nbytes, piece.nbytes, merging=merging
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
        self._lock = threading.Lock()
        self._counts = Slots(self.row_mass, columns, folder)
        self._held = [self._counts]  # and, once samples are taken, their sum
        self.samples = 0
        self.histogram = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _begin_samples(self) -> None:
        self._held.append(
            Slots(self.row_mass, self.columns, self.folder, max(len(self.spec.samples), 1))
        )

    # -- rows out
    # ----------------------------------------------------------------------------------------------
    def gather(self, ids: np.ndarray, scratch: Scratch) -> PackedRows:
        """Return the rows, to be copied from where they are."""
        counts = self._counts
        length = scratch.array("row lengths", len(ids), np.int32)
        np.take(counts.length, ids, out=length)
        rows = PackedRows(length, counts.bits, counts.largest, partial(counts.copy, ids))
        return rows if self.constants is None else self._with_constants(ids, rows, self.constants)

    def _with_constants(
        self, ids: np.ndarray, rows: PackedRows, constants: Constants
    ) -> PackedRows:
        """Merge the constants, which are whole numbers, into the rows' counts."""
        constant_rows, which = constants.find(ids)
        counts = self._expanded(ids[constant_rows]).astype(np.int64)
        constants.add(counts, np.arange(len(constant_rows)), which)
        word, topic = np.nonzero(counts)
        count = counts[word, topic]
        entries = (count << rows.bits | topic)[np.lexsort((-count, word))].astype(np.uint64)
        rows.length[constant_rows] = np.bincount(word, minlength=len(constant_rows))
        ptr = np.append(0, np.cumsum(rows.length[constant_rows], dtype=np.int64))

        def copy(first: int, stop: int, start: np.ndarray, arena: np.ndarray) -> None:
            rows.copy(first, stop, start, arena)
            a, b = np.searchsorted(constant_rows, (first, stop)).tolist()
            copy_tight(ptr, entries, a, b, start[constant_rows[a:b] - first], arena)

        return PackedRows(
            rows.length, rows.bits, max(rows.largest, int(count.max(initial=0))), copy
        )

    # -- deltas in
    # ----------------------------------------------------------------------------------------------
    def new_round(self, space: RoundSpace, most_rows: int, tokens: float) -> Round:
        """Create the collector for whole-numbered changes."""
        if space.merge is not None:
            layout = SumLayout(self.columns, 1.0, dense=False, ordered=True)
            return MergedRound(space, self._counts.edges, layout)
        return SparseRound(space, 1.0)

    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        assert factor == 1.0  # others belong to tables that blend
        if isinstance(deltas, MergedRound):
            self._add_merged(deltas)
        else:
            assert isinstance(deltas, SparseRound)
            self.add(deltas.deltas, deltas.release_pages)
        deltas.clear()

    def _add_merged(self, deltas: MergedRound) -> None:
        """Add the sums of a round's deltas piece by piece."""
        touched = np.flatnonzero(deltas.cut(self._counts.edges))

        def one(j: int) -> None:
            i = int(touched[j])
            ids, delta = deltas.take(i)
            whole = np.array([0]), np.array([len(ids)])
            change = self._counts.merge(i, Addresses.of([(ids, delta)]), *whole)
            with self._lock:
                self.totals += change

        self.run_all(one, len(touched))

    def add(
        self,
        deltas: Sequence[tuple[np.ndarray, SparseDelta]],
        after_piece: Callable[[], None] = lambda: None,
    ) -> None:
        """Add each block's (ids int32[U] ascending, whole-numbered SparseDelta).

        Sums are exact in any order. ``after_piece`` is called when a piece of the deltas has been
        read.
        """
        self.totals += self._add(self._counts, deltas, after_piece)

    def _add(
        self,
        rows: Slots,
        deltas: Sequence[tuple[np.ndarray, SparseDelta]],
        after_piece: Callable[[], None] = lambda: None,
    ) -> np.ndarray:
        """Add the deltas to ``rows`` and return their column sums, float64[padded(K)].

        ``after_piece`` is called when a piece of the deltas has been read.
        """
        cuts = np.array([np.searchsorted(ids, rows.edges) for ids, _ in deltas]).T.copy()
        touched = np.flatnonzero((cuts[1:] > cuts[:-1]).any(axis=1))
        # whole numbers below 2**53: exact in any order
        addresses = Addresses.of(deltas)
        total = np.zeros(self.width)

        def one(j: int) -> None:
            i = int(touched[j])
            change = rows.merge(i, addresses, cuts[i], cuts[i + 1])
            after_piece()
            with self._lock:
                np.add(total, change, out=total)

        self.run_all(one, len(touched))
        return total

    def finish_pass(self) -> np.ndarray:
        """Count totals and histogram afresh after a pass.

        Returns float64[3]; entry 0 is the largest |row / n_w - 1|.
        """
        sums = np.zeros(self.width)
        worst = np.zeros(3)
        low = np.zeros(SMALL, np.int64)
        largest = 0
        big: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        counts = self._counts

        def one(i: int) -> None:
            nonlocal largest
            numbers, ptr, entries = counts.take(i)
            sums_here = np.zeros(self.width)
            off = np.zeros(3)
            small = np.zeros(SMALL, np.int64)
            sum_packed(ptr, entries, counts.bits, self.row_mass[numbers], sums_here, small, off)
            high = (entries[entries >= SMALL << counts.bits] >> counts.bits).astype(np.int64)
            large_counts = np.unique(high, return_counts=True)
            most = int(entries.max(initial=0)) >> counts.bits
            with self._lock:
                np.add(sums, sums_here, out=sums)
                np.add(low, small, out=low)
                np.maximum(worst, off, out=worst)
                largest = max(largest, most)
                big.append(large_counts)

        self.run_all(one, len(counts.edges) - 1)
        self.totals[:] = sums
        counts.largest = largest
        values, where = np.unique(np.concatenate([v for v, _ in big]), return_inverse=True)
        times = np.bincount(where, np.concatenate([n for _, n in big]), len(values)).astype(
            np.int64
        )
        used = np.flatnonzero(low)
        self.histogram = np.concatenate((used, values)), np.concatenate((low[used], times))
        return worst

    def summary(self) -> dict[str, np.ndarray]:
        """Return the histogram of non-zero counts and the bytes used, as float64.

        Counts are added where there are constants.
        """
        counts, times = self.histogram
        figures = {
            "counts": counts.astype(np.float64),
            "times": times.astype(np.float64),
            "bytes": np.array([float(self.nbytes)]),
        }
        if self.constants is not None:
            rows = np.repeat(np.arange(len(self.constants)), np.diff(self.constants.ptr))
            figures["constants"] = self._expanded(self.constants.ids)[
                rows, self.constants.topic
            ].astype(np.float64)
        return figures

    def _expanded(self, ids: np.ndarray) -> np.ndarray:
        """Expand the present rows of the ascending word ids, int32[n, K]."""
        out = np.empty((len(ids), self.columns), np.int32)
        self._counts.expand(ids, out)
        return out

    @property
    def shown_totals(self) -> np.ndarray:
        if not self.samples:
            return self.totals
        counts = self._held[-1]
        sums = np.zeros(self.width)
        for i in range(len(counts.edges) - 1):
            _, ptr, entries = counts.take(i)
            sum_packed(
                ptr, entries, counts.bits, np.zeros(0), sums, np.zeros(1, np.int64), np.zeros(3)
            )
        return sums / self.samples

    # -- whole
    # ----------------------------------------------------------------------------------------------
    @property
    def samples_taken(self) -> int:
        return self.samples

    def take_sample(self) -> None:
        if not self.samples:
            self._begin_samples()
        for i in range(len(self._counts.edges) - 1):
            self._add(self._held[-1], [_whole(self._counts.take(i), self._counts.bits)])
        self.samples += 1

    def drop_samples(self) -> None:
        while len(self._held) > 1:
            self._held.pop().close()
        self.samples = 0

    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Copy the rows of the ascending word ids as float32[n, >= K].

        They are the counts, or their mean over the samples taken.
        """
        self._held[-1].expand(ids, out)
        if self.samples > 1:
            out /= self.samples
        return out

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        counts = self._held[-1]
        step = max(1, WINDOW_BYTES // (4 * self.width))
        window = np.zeros((step, self.width), np.float32)
        for first, stop in pairwise(counts.edges.tolist()):
            for at in range(first, stop, step):
                ids = np.arange(at, min(at + step, stop), dtype=np.int32)
                part = window[: len(ids)]
                counts.expand(ids, part)
                if self.samples > 1:
                    part /= np.float32(self.samples)
                yield at, part

    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows from piece(first, stop), whole numbers [stop - first, >= K]."""
        self.clear()
        for a, b in zip(self._counts.edges, self._counts.edges[1:]):
            dense = np.asarray(piece(int(a), int(b)))[:, : self.columns]
            row, topic = np.nonzero(dense)
            ptr = np.zeros(len(dense) + 1, np.int64)
            np.cumsum(np.bincount(row, minlength=len(dense)), out=ptr[1:])
            value = dense[row, topic]
            integers = value.astype(np.int64)
            if (integers != value).any():
                raise TopicsError("a table of counts cannot hold fractions; choose another --start")
            self.add(
                [
                    (
                        np.arange(a, b, dtype=np.int32),
                        SparseDelta(ptr, topic.astype(np.int32), integers),
                    )
                ]
            )

    def clear(self) -> None:
        self._counts.clear()
        self.drop_samples()
        self.totals[:] = 0.0

    def save(self, path: Path) -> None:
        with open(path, "xb") as file:
            head = [MAGIC, self.n_rows, self.columns, self.samples, self._counts.dtype.itemsize]
            file.write(np.array(head, np.int64).data)
            for counts in self._held:
                counts.save(file)

    def load(self, path: Path) -> None:
        self.clear()
        with open(path, "rb") as file:
            head = read_array(file, np.int64, 5).tolist()
            if head != [MAGIC, self.n_rows, self.columns, head[3], self._counts.dtype.itemsize]:
                raise StoreError(
                    f"{path}: not the rows of a table of {self.n_rows} words and {self.columns} "
                    f"topics; `topics train --force` starts the run over"
                )
            self.samples = head[3]
            if self.samples:
                self._begin_samples()
            for counts in self._held:
                counts.load(file)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the rows, wherever they are."""
        return sum(counts.nbytes for counts in self._held)

    def close(self) -> None:
        for counts in self._held:
            counts.close()


def _whole(piece: RowPiece, bits: int) -> tuple[np.ndarray, SparseDelta]:
    """Convert rows to the change that creates them in an empty table."""
    kind = piece.entries.dtype.type
    topic = (piece.entries & kind((1 << bits) - 1)).astype(np.int32)
    return piece.numbers, SparseDelta(
        piece.ptr, topic, (piece.entries >> kind(bits)).astype(np.int64)
    )
