"""Sums of a round in memory and in a scratch file: their types, arrays and runs."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from topicstream.numeric.tables.spec import SparseDelta


class Spilled(NamedTuple):
    """Run of sums in a scratch file: its offset, rows, entries and their type.

    No rows: nothing is there.
    """

    offset: int
    rows: int
    entries: int
    kind: Any = np.float64


def place_bytes(columns: int, *, dense: bool, ordered: bool) -> int:
    """Compute the bytes of a place in a buffer: a sum, its order and topic."""
    if dense:
        return 8
    return 4 + 8 * ordered + (2 if columns <= 1 << 16 else 4)


class SumLayout:
    """Form of the sums of a round, in memory and in a scratch file.

    Parameters
    ----------
    columns
        Numbers in a row; of dense deltas padded.
    quantum
        What deltas are rounded to.
    dense
        Whether deltas are dense rows.
    ordered
        Whether the entries of a row are listed in the order in which blocks of the round brought
        them, which packed rows keep where counts are equal.
    """

    def __init__(self, columns: int, quantum: float, *, dense: bool, ordered: bool) -> None:
        self.columns = columns
        self.quantum = quantum
        self.dense = dense
        self.ordered = ordered
        self.in_pieces = not dense and not ordered
        self.topic = np.dtype(np.uint16 if columns <= 1 << 16 else np.int32)
        self.entry_bytes = place_bytes(columns, dense=dense, ordered=ordered)

    def new_arrays(self, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make topics, values and orders of ``size`` entries.

        Their length is 0 for what there is not.

        Their memory is mapped by itself, so that all of it goes back to the system with them.
        """
        memory = np.zeros(0, np.uint8)
        if size:
            own = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            memory = np.frombuffer(mmap.mmap(-1, size * self.entry_bytes, own), np.uint8)
        ordered = 8 * size * self.ordered
        orders = memory[:ordered].view(np.uint64)
        if self.dense:
            return memory[:0].view(self.topic), memory[ordered:].view(np.float64), orders
        values = memory[ordered : ordered + 4 * size].view(np.int32)
        return memory[ordered + values.nbytes :].view(self.topic), values, orders


class SpillFile:
    """The runs and pieces of a round in a scratch file, which is made with the first of them."""

    def __init__(self, layout: SumLayout, folder: Path) -> None:
        self._layout = layout
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()

    def write(self, rows: int, entries: int, arrays: tuple[np.ndarray, ...]) -> Spilled:
        """Write the arrays of a run behind the scratch file."""
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            offset = self._end
            self._end += size
        at = offset
        for array in arrays:
            octets = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            view = memoryview(octets)  # type: ignore[arg-type]
            while len(view):
                n = os.pwrite(self._file.fileno(), view, at)
                view = view[n:]
                at += n
        return Spilled(offset, rows, entries)

    def read(self, run: Spilled) -> tuple[np.ndarray, Any, np.ndarray]:
        """Read a run: its ids, its delta, and the ``orders`` of its entries."""
        if self._layout.dense:
            ids, values = self._read(
                run, (run.rows, np.int32), ((run.rows, self._layout.columns), np.float64)
            )
            return ids, values, np.zeros(0, np.uint64)
        ordered = run.entries if self._layout.ordered else 0
        ids, ptr, topics, values, orders = self._read(
            run,
            (run.rows, np.int32),
            (run.rows + 1, np.int64),
            (run.entries, self._layout.topic),
            (run.entries, np.float64),
            (ordered, np.uint64),
        )
        return ids, SparseDelta(ptr, topics, values), orders

    def write_piece(self, ids: np.ndarray, delta: SparseDelta, lo: int, hi: int) -> Spilled:
        """Write local rows ``lo`` to ``hi - 1`` of a delta as they are."""
        ptr = delta.ptr[lo : hi + 1]
        entries = slice(int(ptr[0]), int(ptr[-1]))
        topic = delta.topic[entries].astype(self._layout.topic, copy=False)
        value = delta.value[entries]
        run = self.write(hi - lo, len(topic), (ids[lo:hi], ptr - ptr[0], topic, value))
        return run._replace(kind=value.dtype)

    def read_piece(self, piece: Spilled) -> list[np.ndarray]:
        """Read a piece: its ids, ptr, topics and values."""
        entries = ((piece.entries, self._layout.topic), (piece.entries, piece.kind))
        return self._read(piece, (piece.rows, np.int32), (piece.rows + 1, np.int64), *entries)

    def _read(self, run: Spilled, *shapes: tuple[Any, Any]) -> list[np.ndarray]:
        assert self._file is not None
        offset = run.offset
        arrays = []
        for shape, kind in shapes:
            array = np.empty(shape, kind)
            view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            while len(view):
                n = os.preadv(self._file.fileno(), [view], offset)
                if n == 0:
                    raise OSError("a scratch file of this run is shorter than it was written")
                view = view[n:]
                offset += n
            arrays.append(array)
        return arrays

    def empty(self) -> None:
        """Forget all runs and pieces."""
        self._end = 0
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)
