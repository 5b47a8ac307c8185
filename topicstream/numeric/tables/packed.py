"""Tables of whole counts as sparse rows, in memory or in a mapped file.

Each row lies in a slot as long as it can become. A word has no more topics than tokens, nor than
there are, so no row ever moves, and its place follows from the words' tokens alone. Memory that no
entry has touched costs nothing. Rows are worked on in consecutive pieces.

A row is merged with a round's changes, and comes out the same whatever its piece. Counts are whole,
so sums are exact in any order.

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
from typing import IO, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from topicstream.base.errors import StoreError, TopicsError
from topicstream.base.memory import Array
from topicstream.numeric.kernels.constants import Constants
from topicstream.numeric.kernels.packed import (
    copy_rows,
    entry_bytes,
    expand_packed,
    merge_packed,
    sum_packed,
    topic_bits,
)
from topicstream.numeric.tables.merging import MergedRound, merging_bytes, place_bytes
from topicstream.numeric.tables.rounds import Addresses, Round, RoundSpace, SparseRound
from topicstream.numeric.tables.spec import (
    PackedRows,
    Scratch,
    SparseDelta,
    TableSpec,
    copy_tight,
    padded,
)
from topicstream.numeric.tables.storage import Storage
from topicstream.numeric.tables.table import Footprint, RunAll, Sizes, Table

RANGES = 64
LEAST = 1 << 15  # entries of a range, or a small table spends its time between ranges
PIECE = 1 << 19  # entries of a piece, about
WRONG = {
    -1: "a count came out negative",
    -2: "a count came out above their tokens",
    -3: "one has more topics than tokens",
}
"""Explanation of each error that ``merge_packed`` returns."""


class RowPiece(NamedTuple):
    """Tight rows: row i belongs to word numbers[i].

    numbers: int32[n], ascending; ptr: int64[n+1]; entries: uint32 or uint64, ``count << bits |
    topic``. Row i is entries[ptr[i]:ptr[i+1]], descending in count.
    """

    numbers: np.ndarray
    ptr: np.ndarray
    entries: np.ndarray


class Slots:
    """Sparse rows of counts [W, K], initially zero, each in a fixed slot.

    edges    int64[pieces + 1], first row of each piece and the number of rows
    length   int32[W], entries of each row
    dtype    of an entry: uint32 where every count fits beside a topic, else uint64
    stored   of an entry in a file: the same, but uint64 of sums
    largest  no count is larger

    Parameters
    ----------
    n_w
        float64[W], what a row sums to.
    topics
        K.
    folder
        Where the file for the rows is made; None: they are in memory.
    samples
        How many such tables the rows hold the sum of; 0: they are a table themselves.
    """

    def __init__(
        self, n_w: np.ndarray, topics: int, folder: Path | None = None, samples: int = 0
    ) -> None:
        most = n_w * max(samples, 1)
        words = len(n_w)
        self.topics = topics
        self.bits = topic_bits(topics)
        self.largest = 0
        self.dtype = np.dtype(f"u{entry_bytes(int(most.max(initial=0)), topics)}")
        self.stored = np.dtype(np.uint64) if samples else self.dtype
        self.length = np.zeros(words, np.int32)
        self._begin = np.append(0, np.cumsum(np.minimum(most, topics).astype(np.int64)))
        full = np.flatnonzero(np.diff(self._begin[1:] // PIECE)) + 1
        ranges = min(max(int(self._begin[-1]) // LEAST, 1), RANGES)
        self.edges = np.unique(
            np.concatenate((np.arange(0, words, max(1, -(-words // ranges))), full, [words]))
        )
        self._storage = Storage((int(self._begin[-1]),), self.dtype, folder)
        self._lock = threading.Lock()

    def _release(self, numbers: np.ndarray) -> None:
        """Return the pages of these words' slots to the system."""
        if len(numbers):
            self._storage.release_pages(
                int(self._begin[numbers[0]]), int(self._begin[numbers[-1] + 1])
            )

    def take(self, i: int) -> RowPiece:
        """Copy the rows of piece ``i``."""
        numbers = np.arange(self.edges[i], self.edges[i + 1], dtype=np.int32)
        ptr = np.append(0, np.cumsum(self.length[numbers], dtype=np.int64))
        entries = np.empty(int(ptr[-1]), self.dtype)
        copy_rows(
            self._begin[numbers], self.length[numbers], self._storage.array, ptr[:-1], entries
        )
        self._release(numbers)
        return RowPiece(numbers, ptr, entries)

    def _note(self, largest: int) -> None:
        """Widen the largest count seen."""
        with self._lock:
            self.largest = max(self.largest, largest)

    def merge(self, i: int, deltas: Addresses, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """Add the rows lo[r] to hi[r]-1 of each block r to piece ``i``.

        Returns the column sums, float64[padded(K)]. Several threads may merge into different
        pieces.
        """
        words = self.edges[i : i + 2] - (0, 1)
        change = np.zeros(padded(self.topics))
        largest = merge_packed(
            self._begin,
            self.length,
            self._storage.array,
            self.bits,
            deltas.where,
            deltas.wide,
            deltas.long,
            lo,
            hi,
            self.topics,
            change,
        )
        self._release(words)
        if largest < 0:
            raise TopicsError(
                f"words {words[0]} to {words[1]}: {WRONG[largest]}: deltas and table do not "
                f"belong together; the last checkpoint is "
                "intact, report this"
            )
        self._note(largest)
        return change

    def _parts(self, ids: np.ndarray) -> Iterator[slice]:
        """Split the ids (int32, ascending) into parts that are worked on together.

        In a file they are those of a piece, whose pages are released afterwards.
        """
        cuts = np.searchsorted(ids, self.edges if self._storage.mapped else self.edges[[0, -1]])
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[i], cuts[i + 1])
            yield part
            self._release(ids[part])

    def copy(
        self, ids: np.ndarray, first: int, stop: int, start: np.ndarray, out: np.ndarray
    ) -> None:
        """Copy the rows of ids[first:stop] to the places ``start`` in ``out``.

        out: uint32 or uint64, where ``largest`` fits.
        """
        chosen = ids[first:stop]
        for part in self._parts(chosen):
            words = chosen[part]
            copy_rows(self._begin[words], self.length[words], self._storage.array, start[part], out)

    def expand(self, ids: np.ndarray, out: np.ndarray) -> None:
        """Expand the rows of the ids to dense rows, out[n, >= K] (any number type)."""
        for part in self._parts(ids):
            words = ids[part]
            expand_packed(
                self._begin[words], self.length[words], self._storage.array, self.bits, out[part]
            )

    @property
    def nbytes(self) -> int:
        """Return the bytes of the entries."""
        return int(self.length.sum(dtype=np.int64)) * self.dtype.itemsize

    def save(self, file: IO[bytes]) -> None:
        """Write the row lengths (int32), then all entries, a piece at a time."""
        file.write(self.length.data)
        for i in range(len(self.edges) - 1):
            file.write(self.take(i).entries.astype(self.stored, copy=False).data)

    def load(self, file: IO[bytes]) -> None:
        """Read the rows that ``save`` wrote.

        Raises StoreError if they are damaged.
        """
        lengths = read_array(file, np.int32, len(self.length))
        for first, stop in pairwise(self.edges.tolist()):
            length = lengths[first:stop]
            begin = self._begin[first : stop + 1]
            ptr = np.append(0, np.cumsum(length, dtype=np.int64))
            fits = (length >= 0).all() and (length <= np.diff(begin)).all()
            # a damaged length asks for no memory
            entries = read_array(file, self.stored, int(ptr[-1]) if fits else 0)
            topic = entries & self.stored.type((1 << self.bits) - 1)
            most = int(entries.max(initial=0))
            if not fits or int(topic.max(initial=0)) >= self.topics or most >> 62:
                raise StoreError(
                    f"{file.name}: an invalid topic or count; start again from an older checkpoint"
                )
            copy_rows(ptr[:-1], length, entries, begin[:-1], self._storage.array)
            self._storage.release_pages(int(begin[0]), int(begin[-1]))
            self._note(most >> self.bits)
        self.length[:] = lengths

    def clear(self) -> None:
        """Empty all rows."""
        self.length[:] = 0
        self.largest = 0

    def close(self) -> None:
        """Free the rows with their memory and file."""
        self.clear()
        self._storage.close()


def read_array(file: IO[bytes], dtype: DTypeLike, count: int) -> np.ndarray:
    """Read ``count`` numbers from a file.

    Raises StoreError if it ends early.
    """
    numbers = np.fromfile(file, dtype, max(count, 0))
    if len(numbers) != count:
        raise StoreError(f"{file.name}: is truncated; start again from an older checkpoint")
    return numbers


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
            return MergedRound(space, self._counts.edges, self.columns, 1.0, ordered=True)
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
