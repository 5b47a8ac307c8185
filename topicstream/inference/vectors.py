"""Long vectors, in memory or in a file, cut into slices: what an optimiser out of core calculates with.

A vector is float32[rows, K], cut by columns into slices that are worked on one after the other.  In memory there is one
slice and nothing is copied; on disk a slice is read, worked on and written back.  Sums are float64, in an order that
hangs on nothing but the shape.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from topicstream.files import owned
from topicstream.files.whole import read_all, write_all

PIECE = 1 << 16


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """The inner product of two arrays in float64."""
    x, y, total = a.reshape(-1), b.reshape(-1), 0.0
    for at in range(0, len(x), PIECE):
        piece = x[at : at + PIECE].astype(np.float64)
        total += float(np.einsum("i,i->", piece, y[at : at + PIECE].astype(np.float64)))
    return total


class Space:
    """Vectors of one shape.

    rows, columns; slices: (first, last) columns of each; folder: where they lie as files, None: in memory.
    """

    def __init__(self, rows: int, columns: int, slices: int = 1, folder: Path | None = None) -> None:
        edges = np.linspace(0, columns, max(1, min(slices, columns)) + 1).astype(int).tolist()
        self.rows, self.columns, self.folder = rows, columns, folder
        self.slices = list(pairwise(edges))
        if folder is None and len(self.slices) > 1:
            raise ValueError("vectors in memory are whole")
        self._names, self._open = 0, set[Vector]()

    def zeros(self) -> Vector:
        """A new vector of zeros."""
        self._names += 1
        made = Vector(self, self._names)
        self._open.add(made)
        return made

    def forget(self, vector: Vector) -> None:
        """Let go of a vector and its file."""
        vector.close()
        self._open.discard(vector)

    def close(self) -> None:
        """Let go of all vectors."""
        for vector in list(self._open):
            self.forget(vector)


class Vector:
    """One vector of a space."""

    def __init__(self, space: Space, number: int) -> None:
        self.space, self._path, self._fd = space, None, -1
        self._array: np.ndarray | None = None
        if space.folder is None:
            self._array = np.zeros((space.rows, space.columns), np.float32)
        else:
            self._path = space.folder / f"vector-{number}.scratch"
            self._fd = owned.create_fd(self._path)
            os.ftruncate(self._fd, 4 * space.rows * space.columns)

    def read(self, s: int) -> np.ndarray:
        """Slice s, float32[rows, columns of it]; in memory the vector itself."""
        if self._array is not None:
            return self._array
        first, last = self.space.slices[s]
        out = np.empty((self.space.rows, last - first), np.float32)
        read_all(self._fd, out, 4 * self.space.rows * first, str(self._path))
        return out

    def write(self, s: int, values: np.ndarray) -> None:
        """Put slice s."""
        if self._array is not None:
            if values is not self._array:
                self._array[:] = values
            return
        first, _ = self.space.slices[s]
        write_all(self._fd, np.ascontiguousarray(values, np.float32), 4 * self.space.rows * first)

    def take(self, change: Callable[..., np.ndarray], *others: Vector) -> None:
        """self = change(self, *others), slice by slice."""
        for s in range(len(self.space.slices)):
            self.write(s, change(self.read(s), *(o.read(s) for o in others)))

    def dot(self, other: Vector, by: np.ndarray | None = None) -> float:
        """The inner product, float64; ``by``, float32[rows] or [1]: rows weigh so much."""
        slices = range(len(self.space.slices))
        if by is None:
            return sum(inner(self.read(s), other.read(s)) for s in slices)
        return sum(inner(self.read(s) * by[:, None], other.read(s)) for s in slices)

    def row_pieces(self, rows: int) -> Iterator[np.ndarray]:
        """All rows in order, float32[n, K], at most ``rows`` at a time."""
        if self._array is not None:
            for at in range(0, self.space.rows, rows):
                yield self._array[at : at + rows]
            return
        for at in range(0, self.space.rows, rows):
            n = min(rows, self.space.rows - at)
            out = np.empty((n, self.space.columns), np.float32)
            for first, last in self.space.slices:
                part = np.empty((n, last - first), np.float32)
                read_all(self._fd, part, 4 * (self.space.rows * first + at * (last - first)), str(self._path))
                out[:, first:last] = part
            yield out

    def close(self) -> None:
        """Let go of the memory, or remove the file."""
        self._array = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            owned.discard(self._path)  # type: ignore[arg-type]
