"""The deltas of a round, stored until ranges of rows add them up.

They are in memory or in mapped files. A visit writes its delta into its slot (dense rows) or hands
over new arrays (sparse changes). Deltas are rounded to the table's quantum, so their sum does not
depend on its order (spec.py).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import DeltaAddresses
from topicstream.numeric.kernels.scatter import RowRange, scatter_rows, scatter_sparse
from topicstream.numeric.tables.range_buffer import MergeSpace
from topicstream.numeric.tables.spec import Scratch, SparseDelta
from topicstream.numeric.tables.storage import Storage

# dense deltas of a round that a worker reads from a mapped file before it lets go of them
WINDOW_BYTES = 8 << 20


def _joined(array: np.ndarray, spans: Sequence[slice]) -> np.ndarray:
    """Concatenate the spans of an array."""
    return np.concatenate([array[:0], *(array[span] for span in spans)])


class Entered(NamedTuple):
    """The changes that the owner of some groups of ranges made in a round.

    Attributes
    ----------
    rows
        The changed ids and their changes (``changed_entries``: lengths, columns, bits of the
        values), for all ranges of the owner. Empty if there is no other member.
    change
        float64[G, padded(columns)], of the owner's groups.
    worst
        float64[G, 3], of the owner's groups.
    """

    rows: tuple[np.ndarray, ...]
    change: np.ndarray
    worst: np.ndarray


class RoundSpace:
    """Storage for the deltas of all tables in a round.

    ``keep[i]`` has the arrays that the visit of block i hands over.

    Parameters
    ----------
    blocks
        Blocks of a round.
    folder
        Where mapped files are made; None: deltas stay in memory.
    merge
        What bounds the sums of deltas that merge as blocks end; None: they wait for the end of the
        round.
    """

    def __init__(
        self, blocks: int, folder: Path | None = None, merge: MergeSpace | None = None
    ) -> None:
        self.blocks = blocks
        self.folder = folder
        self.merge = merge
        self.keep = [Scratch(folder) for _ in range(blocks)]


def cut_ids(ids: Sequence[np.ndarray], edges: np.ndarray) -> np.ndarray:
    """Find where each range of rows begins in the ids of each block, int64[edges, blocks]."""
    places = np.array([np.searchsorted(some, edges) for some in ids], np.int64)
    return places.reshape(len(ids), len(edges)).T.copy()


class Round(abc.ABC):
    """The deltas of one table: of blocks 0, 1, ... of the round.

    Each has its ids (int32[U], ascending).
    """

    def __init__(self, space: RoundSpace, quantum: float) -> None:
        self._space = space
        self._quantum = quantum
        self._made: list[tuple[np.ndarray, Any] | None] = [None] * space.blocks

    def slot(self, i: int, ids: np.ndarray) -> np.ndarray | None:
        """Return the uninitialised array for the delta of block ``i``.

        None: the visit hands over new arrays.
        """
        return None

    @abc.abstractmethod
    def put(self, i: int, ids: np.ndarray, delta: Any) -> None:
        """Store the delta of block ``i``.

        It is called from several threads, once for each block.
        """

    def part(
        self, i: int, choose: Callable[[np.ndarray], Sequence[slice]]
    ) -> tuple[np.ndarray, ...]:
        """Cut the ids and delta of block ``i`` to the spans that ``choose`` selects.

        The ids come first, followed by arrays that can be sent elsewhere.
        """
        entry = self._made[i]
        assert entry is not None
        ids, delta = entry
        spans = choose(ids)
        return _joined(ids, spans), *self._cut(delta, spans)

    @abc.abstractmethod
    def _cut(self, delta: Any, spans: Sequence[slice]) -> tuple[np.ndarray, ...]:
        """Cut a delta to spans of its local rows."""

    @abc.abstractmethod
    def receive(self, i: int, part: Sequence[np.ndarray]) -> None:
        """Store the part of block ``i`` that ``part`` made elsewhere."""

    def missing(self, blocks: int) -> list[int]:
        """List which of the first ``blocks`` blocks have no delta."""
        return [i for i, entry in enumerate(self._made[:blocks]) if entry is None]

    @property
    def deltas(self) -> list[tuple[np.ndarray, Any]]:
        """List (ids, delta) of every stored block, in block order."""
        return [entry for entry in self._made if entry is not None]

    @property
    def ids(self) -> list[np.ndarray]:
        """List the ids of every stored block, in block order."""
        return [ids for ids, _ in self.deltas]

    def cut(self, edges: np.ndarray) -> np.ndarray:
        """Prepare ``add_range`` and mark the ranges of rows that deltas change, bool[ranges].

        edges: int64[ranges + 1], first row of each range and the number of rows.
        """
        self.cuts = cut_ids(self.ids, edges)
        return np.asarray((self.cuts[1:] > self.cuts[:-1]).any(axis=1))

    def add_range(self, i: int, part: RowRange, factor: float) -> None:
        """Add ``factor`` times the deltas to range ``i``, once ``cut`` has been called."""
        self.add_to(part, self.cuts[i], self.cuts[i + 1], factor)

    @abc.abstractmethod
    def add_to(self, part: RowRange, lo: np.ndarray, hi: np.ndarray, factor: float) -> None:
        """Add ``factor`` times the deltas to a range of rows.

        Block r contributes its local rows lo[r] to hi[r] - 1.
        """

    def clear(self) -> None:
        """Clear the round."""
        self._made = [None] * len(self._made)

    def rest(self) -> None:
        """Free memory while no delta is expected."""
        self.clear()


class DenseRound(Round):
    """A round of dense deltas, float32[U, padded(columns)] a block.

    Each block has a slot in one array.

    quantum: what deltas are rounded to; 0.0: they are added up in block order.
    """

    def __init__(self, space: RoundSpace, most_rows: int, width: int, quantum: float) -> None:
        super().__init__(space, quantum)
        self._shape = (space.blocks * most_rows, width)
        self._most = most_rows
        self._held = np.zeros((space.blocks, most_rows), np.int32)
        self._slots = Storage(self._shape, np.float32, space.folder)

    def slot(self, i: int, ids: np.ndarray) -> np.ndarray:
        self._held[i, : len(ids)] = ids
        return self._slots.array[i * self._most : i * self._most + len(ids)]

    def put(self, i: int, ids: np.ndarray, delta: np.ndarray) -> None:
        self._slots.release_pages(i * self._most, i * self._most + len(ids))
        self._made[i] = self._held[i, : len(ids)], delta

    def _cut(self, delta: np.ndarray, spans: Sequence[slice]) -> tuple[np.ndarray, ...]:
        return (_joined(delta, spans),)

    def receive(self, i: int, part: Sequence[np.ndarray]) -> None:
        ids, delta = part
        room = self.slot(i, ids)
        room[:] = delta
        self.put(i, ids, room)

    def add_to(self, part: RowRange, lo: np.ndarray, hi: np.ndarray, factor: float) -> None:
        blocks = len(lo)
        rows = len(part.rows)
        slots = self._slots.array.reshape(self._space.blocks, self._most, -1)[:blocks]
        step = max(1, WINDOW_BYTES // (blocks * self._shape[1] * 4)) if self._slots.mapped else rows
        for begin in range(0, rows, step):
            step_rows = slice(begin, begin + step)
            some = part._replace(
                first=part.first + begin, rows=part.rows[step_rows], mass=part.mass[step_rows]
            )
            stop = hi
            if begin + step < rows:
                ahead = [
                    np.searchsorted(ids[a:b], some.first + step)
                    for ids, a, b in zip(self.ids, lo, hi)
                ]
                stop = lo + np.array(ahead, np.int64)
            scatter_rows(some, slots, self._held[:blocks], lo, stop, self._quantum, factor)
            for r in range(blocks if self._slots.mapped else 0):
                self._slots.release_pages(
                    r * self._most + int(lo[r]), r * self._most + int(stop[r])
                )
            lo = stop

    def rest(self) -> None:
        super().rest()
        self._slots = Storage(self._shape, np.float32, self._space.folder)


class Addresses(NamedTuple):
    """Addresses of the SparseDeltas of some blocks, for kernels.

    arrays: what lies there.
    """

    where: DeltaAddresses
    arrays: object

    @classmethod
    def of(cls, deltas: Sequence[tuple[np.ndarray, SparseDelta]]) -> Addresses:
        """Collect the addresses of (ids, delta) pairs in block order.

        There is at least one. Arrays whose types differ from their neighbours' are copied.
        """
        wide = any(delta.topic.dtype != np.uint16 for _, delta in deltas)
        topic = np.dtype(np.int32 if wide else np.uint16)
        value = np.result_type(*(delta.value for _, delta in deltas))
        arrays = [
            (
                ids,
                delta.ptr,
                delta.topic.astype(topic, copy=False),
                delta.value.astype(value, copy=False),
            )
            for ids, delta in deltas
        ]
        where = np.array([[array.ctypes.data for array in block] for block in arrays], np.int64)
        return cls(DeltaAddresses(where, wide, value.itemsize == 8), arrays)


class SparseRound(Round):
    """A round of ``SparseDelta`` objects, one for each block.

    The arrays belong to the engine (``out.keep``) until the round has ended.
    """

    def __init__(self, space: RoundSpace, quantum: float) -> None:
        super().__init__(space, quantum)
        self._addresses: Addresses | None = None

    def put(self, i: int, ids: np.ndarray, delta: SparseDelta) -> None:
        self._made[i] = ids, delta
        self._space.keep[i].release_pages()

    def _cut(self, delta: SparseDelta, spans: Sequence[slice]) -> tuple[np.ndarray, ...]:
        entries = [slice(int(delta.ptr[span.start]), int(delta.ptr[span.stop])) for span in spans]
        return (
            _joined(np.diff(delta.ptr), spans),
            _joined(delta.topic, entries),
            _joined(delta.value, entries),
        )

    def receive(self, i: int, part: Sequence[np.ndarray]) -> None:
        # kernels take addresses
        ids, lengths, topic, value = (np.require(array, requirements="A") for array in part)
        self.put(
            i, ids, SparseDelta(np.append(0, np.cumsum(lengths, dtype=np.int64)), topic, value)
        )

    def release_pages(self) -> None:
        """Return the pages of mapped deltas to the system."""
        for keep in self._space.keep:
            keep.release_pages()

    def add_to(self, part: RowRange, lo: np.ndarray, hi: np.ndarray, factor: float) -> None:
        # rows are held to their mass by ``finish_pass``, at the end of the pass
        self._addresses = self._addresses or Addresses.of(self.deltas)
        scatter_sparse(part, self._addresses.where, lo, hi, self._quantum, factor)
        self.release_pages()

    def clear(self) -> None:
        super().clear()
        self._addresses = None
