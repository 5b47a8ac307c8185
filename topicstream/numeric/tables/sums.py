"""The sums of a round's sparse deltas, one for each process that takes part.

A process sums the deltas of its blocks, packs the sum (numeric/kernels/packing.py) and sends it to
all others. Each adds up all of them as they are, its own included: nothing is unpacked first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.packing import SLACK, most_bytes, pack_rows, scatter_packed
from topicstream.numeric.kernels.scatter import RowRange
from topicstream.numeric.tables.rounds import Addresses, SparseRound, cut_ids
from topicstream.numeric.tables.spec import RunAll, Scratch

PIECES = 8
"""Pieces of a sum, made by one thread each, and so short that memory for them is used again."""
MOST_COLUMNS = 1 << 16
"""A packed topic has 16 bits."""


class PackedSum(NamedTuple):
    """The packed sum of some blocks.

    Attributes
    ----------
    places
        int64[ranges, 4]. Of each range of rows: the piece it is in, its first row there, the row
        after its last, and its first byte.
    pieces
        Rows (int32, ascending) and bytes of each piece.
    """

    places: np.ndarray
    pieces: Sequence[tuple[np.ndarray, np.ndarray]]


class PackedSums:
    """The packed sums of a round, by sender.

    Parameters
    ----------
    edges
        int64[ranges + 1], the table's ranges of rows.
    columns, quantum
        Of the table. The quantum is not 0.
    run_all
        Runs the work on pieces, perhaps on several threads.
    """

    def __init__(self, edges: np.ndarray, columns: int, quantum: float, run_all: RunAll) -> None:
        self._edges = edges
        self._columns = columns
        self._quantum = quantum
        self._run_all = run_all
        self._own = Scratch()
        self._sums: dict[int, PackedSum] = {}

    def pack(self, sender: int, deltas: SparseRound) -> list[np.ndarray]:
        """Sum the deltas of a process, and return arrays for ``receive`` elsewhere.

        They are valid until it is called again.
        """
        parts = deltas.deltas
        addresses = Addresses.of(parts)
        cuts = cut_ids([ids for ids, _ in parts], self._edges)
        rows = np.diff(cuts, axis=0).sum(axis=1)
        ends = [delta.ptr[cuts[:, b]] for b, (_, delta) in enumerate(parts)]
        entries = np.diff(np.array(ends), axis=1).sum(axis=0)
        piece_of = _deal(entries)
        places = np.zeros((len(rows), 4), np.int64)
        pieces: list[tuple[np.ndarray, np.ndarray]] = []
        for piece in range(PIECES):
            mine = piece_of == piece
            most_rows = int(rows[mine].sum())
            size = most_bytes(most_rows, int(entries[mine].sum()), self._columns)
            ids = self._own.array(f"ids {piece}", most_rows + 1, np.int32)
            pieces.append((ids, self._own.array(f"data {piece}", size, np.uint8)))

        def pack_piece(piece: int) -> None:
            ids, data = pieces[piece]
            n = 0
            at = 0
            for i in np.flatnonzero(piece_of == piece).tolist():
                more, size = pack_rows(
                    addresses.where,
                    cuts[i],
                    cuts[i + 1],
                    self._columns,
                    self._quantum,
                    ids[n:],
                    data[at:],
                )
                places[i] = piece, n, n + more, at
                n += more
                at += size
            pieces[piece] = ids[:n], data[: at + SLACK]

        self._run_all(pack_piece, PIECES)
        deltas.release_pages()
        self._sums[sender] = PackedSum(places, pieces)
        return [places, *(array for piece in pieces for array in piece)]

    def receive(self, sender: int, arrays: Sequence[np.ndarray]) -> None:
        """Store what ``pack`` returned elsewhere."""
        # kernels take addresses
        places, *parts = (np.require(array, requirements="A") for array in arrays)
        self._sums[sender] = PackedSum(places, list(zip(parts[::2], parts[1::2], strict=True)))

    def missing(self, senders: Iterable[int]) -> list[int]:
        """List which of the senders have no sum here."""
        return [sender for sender in senders if sender not in self._sums]

    def touched(self) -> np.ndarray:
        """Mark the ranges of rows that sums change, bool[ranges]."""
        changed = np.zeros(len(self._edges) - 1, np.bool_)
        for places, _ in self._sums.values():
            changed |= places[:, 2] > places[:, 1]
        return changed

    def add_range(self, i: int, part: RowRange, factor: float) -> None:
        """Add ``factor`` times all sums to range ``i``."""
        addresses = []
        bounds = []
        for places, pieces in self._sums.values():
            piece, first, stop, start = places[i].tolist()
            ids, data = pieces[piece]
            addresses.append((ids.ctypes.data, data.ctypes.data))
            bounds.append((first, stop, start))
        lo, hi, starts = np.array(bounds, np.int64).T.copy()
        where = np.array(addresses, np.int64)
        scatter_packed(part, where, lo, hi, starts, self._quantum, factor)

    def clear(self) -> None:
        """Clear the round."""
        self._sums = {}

    def rest(self) -> None:
        """Free memory while no delta is expected."""
        self.clear()
        self._own.clear()


def _deal(entries: np.ndarray) -> np.ndarray:
    """Deal ranges of rows out to pieces of about as many entries, int64[ranges], ascending."""
    before = np.cumsum(entries) - entries
    pieces = PIECES * before // max(1, int(entries.sum()))
    return np.asarray(np.minimum(pieces, PIECES - 1))
