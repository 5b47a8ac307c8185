"""A table of whole counts as packed sparse rows: what it takes falls as the rows get sparser.

The same arithmetic in memory and on disk (packed_rows.py): a row is merged with what a round's blocks change of it, and
comes out the same whatever piece it was taken in.  Counts are whole, so sums are exact in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from topicstream.errors import TopicsError
from topicstream.kernels.constants import Constants
from topicstream.kernels.packed import entry_bytes
from topicstream.kernels.packed_table import expand_packed, large_counts, merge_packed, sum_packed
from topicstream.tables.dense import WINDOW_BYTES
from topicstream.tables.packed_file import PackedFile, write_file
from topicstream.tables.packed_rows import PIECE, Held, HeldInFile, HeldInMemory, RowPiece
from topicstream.tables.rounds import Round, SparseRound
from topicstream.tables.spec import PackedRows, Scratch, SparseDelta, TableSpec
from topicstream.tables.table import RunAll, Sizes, Table

SMALL = 4096  # counts below this are counted one by one in the histogram


class PackedTable(Table):
    """[n_rows, columns] whole counts as sparse rows.

    mass       float64[n_rows], what each row must sum to, checked exactly by ``settle``
    path       where the rows are to be; None: in memory
    histogram  (counts int64[], times int64[]) of all non-zero entries at the last ``settle``
    samples    how many times ``take_sample`` was called: then ``pieces`` gives the mean of those states
    """

    slower_on_disk: ClassVar[float] = 1.2  # a visit reads a few bytes a token

    @classmethod
    def bytes_needed(cls, spec: TableSpec, sizes: Sizes, on_disk: bool) -> int:
        """Of its densest case; in RAM half as much again, for a range that is being merged and what malloc keeps."""
        dense = sizes.rows * sizes.columns
        cells = min(sizes.entries, dense)
        cells += min(cells * spec.samples, dense)  # the sum of the samples is a table of its own
        size = entry_bytes(sizes.largest * max(spec.samples, 1), sizes.columns)
        return int(cells * (size if on_disk else 6) + sizes.rows * 24 * (2 if spec.samples else 1))

    @classmethod
    def window_bytes(cls, spec: TableSpec, sizes: Sizes, threads: int, kept: int) -> int:
        """Where its rows are and how long, a piece a thread as it was and as it will be, and what deltas add to it."""
        piece = 3 * 8 * (PIECE + sizes.columns)
        return 24 * sizes.rows * (2 if spec.samples else 1) + piece * threads + 2 * kept

    def __init__(
        self,
        spec: TableSpec,
        rows: int,
        columns: int,
        mass: np.ndarray,
        path: Path | None,
        run_all: RunAll,
        constants: Constants | None = None,
    ) -> None:
        super().__init__(spec, rows, columns, constants)
        self._run_all, self._row_mass, self._path, self._most = run_all, mass, path, max(spec.samples, 1)
        self._lock = threading.Lock()
        self._held = self._new_held("")
        self._sums: Held | None = None
        self.samples = 0
        self.histogram = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _new_held(self, suffix: str) -> Held:
        times = self._most if suffix else 1
        if self._path is None:
            return HeldInMemory(self._row_mass, self.columns, times)
        return HeldInFile(self._row_mass, self.columns, self._path.with_name(self._path.stem + suffix + ".rows"), times)

    # -- rows out -------------------------------------------------------------------------------------------------
    def gather(self, ids: np.ndarray, scratch: Scratch) -> PackedRows:
        """The rows, to be copied from where they are."""
        held, length = self._held, scratch.array("row lengths", len(ids), np.int32)
        np.take(held.length, ids, out=length)

        def copy(first: int, stop: int, start: np.ndarray, arena: np.ndarray) -> None:
            held.copy(ids[first:stop], start, arena, scratch)

        rows = PackedRows(length, held.bits, held.largest, copy)
        return rows if self.constants is None else self._with_constants(ids, rows, self.constants)

    def _with_constants(self, ids: np.ndarray, rows: PackedRows, constants: Constants) -> PackedRows:
        """The rows with the constants, which are whole numbers, among their counts."""
        here, which = constants.find(ids)
        made: list[np.ndarray] = []
        mask = (1 << rows.bits) - 1
        for u, i in zip(here.tolist(), which.tolist()):
            entries = np.zeros(int(rows.length[u]), f"u{entry_bytes(rows.largest, self.columns)}")
            rows.copy(u, u + 1, np.zeros(1, np.int64), entries)
            entries = entries.astype(np.uint64)
            own = slice(int(constants.ptr[i]), int(constants.ptr[i + 1]))
            topics = np.concatenate(((entries & np.uint64(mask)).astype(np.int64), constants.topic[own]))
            counts = np.concatenate(
                ((entries >> np.uint64(rows.bits)).astype(np.int64), constants.weight[own].astype(np.int64))
            )
            topics, at = np.unique(topics, return_inverse=True)
            sums = np.zeros(len(topics), np.int64)
            np.add.at(sums, at, counts)
            order = np.argsort(-sums, kind="stable")
            made.append(((sums << rows.bits) | topics)[order].astype(np.uint64))
        for u, entries in zip(here.tolist(), made):
            rows.length[u] = len(entries)
        largest = max([rows.largest, *(int(entries[0]) >> rows.bits for entries in made)])

        def copy(first: int, stop: int, start: np.ndarray, arena: np.ndarray) -> None:
            rows.copy(first, stop, start, arena)
            a, b = np.searchsorted(here, (first, stop))
            for u, entries in zip(here[a:b].tolist(), made[a:b]):
                at = int(start[u - first])
                arena[at : at + len(entries)] = entries

        return PackedRows(rows.length, rows.bits, largest, copy)

    # -- deltas in ------------------------------------------------------------------------------------------------
    def new_round(self, blocks: int, most_rows: int, spill: Path | None, tokens: float) -> SparseRound:
        """Of whole-numbered changes."""
        return SparseRound(blocks, 1.0, spill)

    def apply(self, deltas: Round, factor: float = 1.0, hold: bool = True) -> None:
        assert isinstance(deltas, SparseRound)
        if factor != 1.0:
            raise TopicsError("a packed table holds whole counts: its deltas cannot be scaled")
        self.add(deltas.deltas())
        deltas.clear()

    def add(self, deltas: Sequence[tuple[np.ndarray, SparseDelta]]) -> None:
        """Add (ids int32[U] ascending, whole-numbered SparseDelta) of each block; exact in any order."""
        self.totals += self._add(self._held, deltas)

    def _add(self, held: Held, deltas: Sequence[tuple[np.ndarray, SparseDelta]]) -> np.ndarray:
        """Column sums float64[padded(K)] of what was added."""
        cuts = np.array([np.searchsorted(vocab, held.edges) for vocab, _ in deltas]).reshape(len(deltas), -1)
        touched = np.flatnonzero((cuts[:, 1:] > cuts[:, :-1]).any(0))
        total = np.zeros(self.width)  # whole numbers below 2**53: exact in any order

        def one(j: int) -> None:
            i, change = int(touched[j]), np.zeros(self.width)
            self._merge(held, i, deltas, cuts[:, i], cuts[:, i + 1], change)
            with self._lock:
                np.add(total, change, out=total)

        self._run_all(one, len(touched))
        return total

    def _merge(
        self,
        held: Held,
        i: int,
        deltas: Sequence[tuple[np.ndarray, SparseDelta]],
        lo: np.ndarray,
        hi: np.ndarray,
        change: np.ndarray,
    ) -> None:
        vocabs, froms, topics, values, edges, at = [], [], [], [], [0], 0
        for (vocab, delta), a, b in zip(deltas, lo, hi):
            ptr = delta.ptr[a : b + 1]
            first, last = int(ptr[0]), int(ptr[-1])
            vocabs.append(vocab[a:b])
            froms.append(ptr - first + at)
            topics.append(delta.topic[first:last])
            values.append(delta.value[first:last])
            edges.append(edges[-1] + int(b - a))
            at += last - first
        changed = np.concatenate(vocabs)
        arguments = (
            changed,
            np.concatenate(froms),
            np.concatenate(topics),
            np.concatenate(values),
            np.array(edges, np.int64),
            np.zeros(self.columns, np.int64),
            np.zeros(self.columns, np.uint8),
        )
        numbers, ptr, entries = held.take(i, changed)
        for dtype in (entries.dtype, np.dtype(np.uint64)):
            out, out_ptr = np.empty(len(entries) + at, dtype), np.empty_like(ptr)
            change[:] = 0.0
            n = merge_packed(ptr, entries, numbers, held.bits, *arguments, out_ptr, out, change)
            if n >= 0:
                held.put(i, RowPiece(numbers, out_ptr, out[:n]))
                return
            if n == -1:
                break
        raise TopicsError(
            f"a count of words {held.edges[i]} to {held.edges[i + 1] - 1} came out negative: deltas and table do not belong "
            "together; the last checkpoint is intact, report this"
        )

    def settle(self) -> np.ndarray:
        """End of a pass: totals and histogram counted afresh; returns float64[3], [0] the largest |row / n_w - 1|."""
        sums, worst, low, largest = np.zeros(self.width), np.zeros(3), np.zeros(SMALL, np.int64), 0
        big: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        held = self._held

        def one(i: int) -> None:
            nonlocal largest
            numbers, ptr, entries = held.take(i)
            own, off, small = np.zeros(self.width), np.zeros(3), np.zeros(SMALL, np.int64)
            many = sum_packed(ptr, entries, held.bits, self._row_mass[numbers], own, small, off)
            high = np.empty(many, np.int64)
            large_counts(entries, held.bits, SMALL, high)
            found, most = np.unique(high, return_counts=True), int(entries.max(initial=0)) >> held.bits
            with self._lock:
                np.add(sums, own, out=sums)
                np.add(low, small, out=low)
                np.maximum(worst, off, out=worst)
                largest = max(largest, most)
                big.append(found)

        self._run_all(one, len(held.edges) - 1)
        self.totals[:], held.largest = sums, largest
        values, where = np.unique(np.concatenate([v for v, _ in big]), return_inverse=True)
        times = np.bincount(where, np.concatenate([n for _, n in big]), len(values)).astype(np.int64)
        used = np.flatnonzero(low)
        self.histogram = np.concatenate((used, values)), np.concatenate((low[used], times))
        return worst

    def summary(self) -> dict[str, np.ndarray]:
        """What ``end_pass`` finds among its statistics, float64: the histogram of the non-zero counts, the bytes held,
        and the counts where there are constants."""
        counts, times = self.histogram
        found = {
            "counts": counts.astype(np.float64),
            "times": times.astype(np.float64),
            "bytes": np.array([float(self.nbytes)]),
        }
        return found if self.constants is None else found | {"constants": self._at_constants(self.constants)}

    def _at_constants(self, constants: Constants) -> np.ndarray:
        """The counts, float64, where the constants are."""
        at, found, held = 0, np.zeros(len(constants.weight)), self._held
        for i, word in enumerate(constants.ids.tolist()):
            entries = np.zeros(int(held.length[word]), f"u{entry_bytes(held.largest, self.columns)}")
            held.copy(np.array([word], np.int32), np.zeros(1, np.int64), entries, Scratch())
            entries = entries.astype(np.uint64)
            counts = np.zeros(self.columns)
            counts[(entries & np.uint64((1 << held.bits) - 1)).astype(np.int64)] = entries >> np.uint64(held.bits)
            stop = int(constants.ptr[i + 1])
            found[at:stop], at = counts[constants.topic[at:stop]], stop
        return found

    @property
    def shown_totals(self) -> np.ndarray:
        if self._sums is None:
            return self.totals
        sums = np.zeros(self.width)
        for i in range(len(self._sums.edges) - 1):
            _, ptr, entries = self._sums.take(i)
            sum_packed(ptr, entries, self._sums.bits, np.zeros(0), sums, np.zeros(1, np.int64), np.zeros(3))
        return sums / self.samples

    # -- whole ----------------------------------------------------------------------------------------------------
    def take_sample(self) -> None:
        if self._sums is None:
            self._sums = self._new_held("-sums")
        for i in range(len(self._held.edges) - 1):
            self._add(self._sums, [_whole(self._held.take(i), self._held.bits)])
        self.samples += 1

    def dense(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids as float32[n, >= K]: the counts, or their mean over the samples taken."""
        held = self._sums or self._held
        cuts = np.searchsorted(ids, held.edges)
        for i in np.flatnonzero(np.diff(cuts)):
            wanted = np.asarray(ids[cuts[i] : cuts[i + 1]], np.int32)
            numbers, ptr, entries = held.take(int(i), wanted)
            rows = np.searchsorted(numbers, wanted)
            expand_packed(ptr, entries, rows, held.bits, out[cuts[i] : cuts[i + 1]])
        if self.samples > 1:
            out /= self.samples
        return out

    def pieces(self) -> Iterator[tuple[int, np.ndarray]]:
        held, step = self._sums or self._held, max(1, WINDOW_BYTES // (4 * self.width))
        window = np.zeros((step, self.width), np.float32)
        for i in range(len(held.edges) - 1):
            numbers, ptr, entries = held.take(i)
            for at in range(0, len(numbers), step):
                part = window[: min(step, len(numbers) - at)]
                expand_packed(ptr, entries, np.arange(at, at + len(part)), held.bits, part)
                if self.samples > 1:
                    part /= np.float32(self.samples)
                yield int(numbers[at]), part

    def fill(self, piece: Callable[[int, int], np.ndarray]) -> None:
        """Set all rows: piece(first, stop) -> whole numbers [stop - first, >= K]."""
        self.clear()
        for a, b in zip(self._held.edges, self._held.edges[1:]):
            dense = np.asarray(piece(int(a), int(b)))[:, : self.columns]
            row, topic = np.nonzero(dense)
            ptr = np.zeros(len(dense) + 1, np.int64)
            np.cumsum(np.bincount(row, minlength=len(dense)), out=ptr[1:])
            value = dense[row, topic]
            whole = value.astype(np.int64)
            if (whole != value).any():
                raise TopicsError("a table of counts cannot hold fractions; choose another --start")
            self.add([(np.arange(a, b, dtype=np.int32), SparseDelta(ptr, topic.astype(np.int32), whole))])

    def rewrite(self, change: Callable[[int, np.ndarray], np.ndarray]) -> None:
        raise TopicsError("a packed table cannot be rewritten by ranges")

    def clear(self) -> None:
        self._held.clear()
        self._forget_samples()
        self.totals[:] = 0.0

    def _forget_samples(self) -> None:
        if self._sums is not None:
            self._sums.close()
        self._sums, self.samples = None, 0

    def save(self, path: Path) -> None:
        write_file(path, [self._held] if self._sums is None else [self._held, self._sums], self.samples)

    def load(self, path: Path) -> None:
        file = PackedFile(path, self.n_rows, self.columns)
        try:
            self.clear()
            self.samples = file.samples
            if file.samples:
                self._sums = self._new_held("-sums")
            for which, held in enumerate([self._held] if self._sums is None else [self._held, self._sums]):
                for i in range(len(held.edges) - 1):
                    held.put(i, file.rows(which, int(held.edges[i]), int(held.edges[i + 1])))
        finally:
            file.close()

    def load_head(self, path: Path, rows: int) -> None:
        """Read the present rows of a table of ``words`` words into the first rows; the others are empty, and no samples
        are taken over."""
        file = PackedFile(path, rows, self.columns)
        try:
            self.clear()
            for a, b in zip(file.edges, file.edges[1:]):
                self.add([_whole(file.rows(0, int(a), int(b)), self._held.bits)])
        finally:
            file.close()

    @property
    def nbytes(self) -> int:
        return self._held.nbytes + (self._sums.nbytes if self._sums is not None else 0)

    def close(self) -> None:
        self._held.close()
        self._forget_samples()


def _whole(piece: RowPiece, bits: int) -> tuple[np.ndarray, SparseDelta]:
    """Rows as what an empty table must change by to hold them."""
    kind = piece.entries.dtype.type
    topic = (piece.entries & kind((1 << bits) - 1)).astype(np.int32)
    return piece.numbers, SparseDelta(piece.ptr, topic, (piece.entries >> kind(bits)).astype(np.int64))
