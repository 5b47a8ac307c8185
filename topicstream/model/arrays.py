"""A table of a model on disk: a Zarr array float32[rows, columns] in chunks of whole rows.

A chunk is about 1 MiB. The array's attributes hold the column sums and the size and crc32c of every
chunk file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from topicstream.base.chunks import create_array, read_chunk, write_chunk
from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import read_json, size_and_crc, sync
from topicstream.base.files.openings import explain_damage
from topicstream.base.records import Amount, Record, decode_record

CHUNK_BYTES = 1 << 20
MOST_CHUNK = 1 << 26
"""Bytes of the largest chunk that is read, unless it is a single row."""
LEVEL = 1
"""Level of compression."""
Length = Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)]


class _ChunkShape(Record):
    """``configuration`` of a chunk grid."""

    chunk_shape: tuple[Length, Length]


class _ChunkGrid(Record):
    """``chunk_grid`` of ``zarr.json``."""

    configuration: _ChunkShape


class Attributes(Record):
    """The attributes of a model's array, with alpha and beta if it holds the topics."""

    totals: list[float]
    chunks: str
    alpha: list[Amount] = []
    beta: Amount = 0.0


class _Metadata(Record):
    """The members of ``zarr.json`` that a reader needs."""

    shape: tuple[Length, Length]
    chunk_grid: _ChunkGrid
    attributes: Attributes


class StoredArray:
    """Reader of a stored table, straight from its chunk files.

    Each chunk is verified and decoded once a call. Several threads may read.

    Parameters
    ----------
    folder
        Folder of the array.
    crc
        crc32c of its ``zarr.json``.
    shape
        Rows and columns that it must have.
    counts
        True if its numbers may not be negative. They are finite in any case.

    Raises
    ------
    StoreError
        If the metadata are damaged or of another array.
    """

    def __init__(
        self, folder: Path, crc: int, shape: tuple[int, int], *, counts: bool = False
    ) -> None:
        path = folder / "zarr.json"
        if size_and_crc(path)[1] != crc:
            raise explain_damage(
                f"{path}: does not match its checksum; restore the file or train again"
            )
        metadata = decode_record(read_json(path), _Metadata, path)
        self.folder = folder
        self.attributes = metadata.attributes
        self._counts = counts
        self.n_rows, self.columns = shape
        self.step = metadata.chunk_grid.configuration.chunk_shape[0]
        self.totals = np.array(self.attributes.totals)
        try:
            pairs = [chunk.split(":") for chunk in self.attributes.chunks.split()]
            self._files = [(int(size), int(crc, 16)) for size, crc in pairs]
        except ValueError:
            raise StoreError(
                f"{path}: the list of chunks cannot be read; restore the file"
            ) from None
        fits = (
            metadata.shape == shape
            and len(self._files) == -(-self.n_rows // self.step)
            and len(self.totals) == self.columns
            and 4 * self.step * self.columns <= max(MOST_CHUNK, 4 * self.columns)
        )
        if not fits:
            raise StoreError(
                f"{path}: shape or chunks disagree with the manifest; restore the file"
            )
        if not np.isfinite(self.totals).all() or (counts and self.totals.min() < 0):
            raise StoreError(
                f"{path}: a sum that is negative or not finite; restore the file or train again"
            )

    def chunk(self, number: int, out: np.ndarray) -> np.ndarray:
        """Read a chunk into ``out``, float32[step, columns], and check its numbers.

        It holds the rows from ``number * step`` on. Rows past the last are zeros.

        Raises
        ------
        StoreError
            The chunk is damaged, or has a number that a table cannot have.
        """
        path = self.folder / "c" / str(number) / "0"
        read_chunk(path, *self._files[number], out)
        least = out.min(initial=0)
        most = out.max(initial=0)
        is_finite = -np.inf < least and most < np.inf  # NaN fails both
        if not is_finite or (self._counts and least < 0):
            raise StoreError(
                f"{path}: a count that is negative, infinite or no number; restore it or train "
                f"again"
            )
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """Iterate over the whole table as (first row, float32[n, columns]).

        The buffer is reused.
        """
        buffer = np.empty((self.step, self.columns), np.float32)
        for number in range(len(self._files)):
            start = number * self.step
            yield start, self.chunk(number, buffer)[: min(self.step, self.n_rows - start)]

    def gather(self, ids: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Read some rows in any order, float32[n, columns].

        Parameters
        ----------
        ids
            Numbers of the rows, int64[n].
        out
            float32[n, >= columns], which receives the rows and is returned.
        """
        if out is None:
            out = np.empty((len(ids), self.columns), np.float32)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        edges = np.searchsorted(ordered, np.arange(len(self._files) + 1) * self.step)
        buffer = np.empty((self.step, self.columns), np.float32)
        for number in np.flatnonzero(np.diff(edges)):
            span = slice(edges[number], edges[number + 1])
            rows = self.chunk(int(number), buffer)
            out[order[span], : self.columns] = rows[ordered[span] - number * self.step]
        return out


class ArrayWriter:
    """Writer of such an array, row by row, in order.

    Parameters
    ----------
    folder
        Folder of the array. What it holds is removed.
    rows, columns
        Size of the array.

    Attributes
    ----------
    rows_written
        Rows that ``write_rows`` has taken.
    totals
        float64[columns], column sums of the rows of written chunks.
    """

    def __init__(self, folder: Path, rows: int, columns: int) -> None:
        self.folder = folder
        self.n_rows = rows
        self.columns = columns
        owned.remove_within(folder)
        self._step = max(1, CHUNK_BYTES // (4 * columns))  # rows of a chunk
        self._buffer = np.zeros((self._step, columns), np.float32)
        self.rows_written = 0
        self._chunks: list[str] = []
        self.totals = np.zeros(columns, np.float64)

    def write_rows(self, start: int, rows: np.ndarray) -> None:
        """Write the next rows, float [n, >= columns].

        Padding columns are dropped. ``start`` must be the number of rows written so far.
        """
        if start != self.rows_written or start + len(rows) > self.n_rows:
            raise ValueError(
                f"rows {start}..{start + len(rows)} given where {self.rows_written} of "
                f"{self.n_rows} are written"
            )
        first = 0
        while first < len(rows):
            fill = self.rows_written % self._step
            n = min(self._step - fill, len(rows) - first)
            self._buffer[fill : fill + n] = rows[first : first + n, : self.columns]
            first += n
            self.rows_written += n
            if self.rows_written % self._step == 0 or self.rows_written == self.n_rows:
                self._flush()

    def _flush(self) -> None:
        """Write the chunk in the buffer, with zeros after the last row."""
        self._buffer[(self.rows_written - 1) % self._step + 1 :] = 0
        self.totals += self._buffer.sum(axis=0, dtype=np.float64)
        size, crc = write_chunk(
            self.folder / "c" / str(len(self._chunks)) / "0", self._buffer, LEVEL
        )
        self._chunks.append(f"{size}:{crc:08x}")

    def finish(self, dimensions: tuple[str, str], attributes: Mapping[str, Any]) -> int:
        """Write the metadata, sync everything and return the crc32c of ``zarr.json``.

        Parameters
        ----------
        dimensions
            Names of rows and columns.
        attributes
            Attributes of the array beside ``totals`` and ``chunks``.
        """
        if self.rows_written != self.n_rows:
            raise ValueError(f"{self.rows_written} rows given of {self.n_rows}")
        if not np.isfinite(self.totals).all():
            raise ValueError("a model with NaN or infinite numbers is not written")
        shape = (self.n_rows, self.columns)
        chunk = (self._step, self.columns)
        sums = {"totals": self.totals.tolist(), "chunks": " ".join(self._chunks)}
        create_array(
            self.folder,
            shape,
            chunk,
            "float32",
            level=LEVEL,
            dimensions=dimensions,
            attributes={**attributes, **sums},
        )
        # here, not in ``_flush``: a writer that is discarded needs no fsync
        for file in self.folder.rglob("0"):
            sync(file)
            sync(file.parent)
        sync(self.folder / "zarr.json")
        sync(self.folder / "c")
        sync(self.folder)
        return size_and_crc(self.folder / "zarr.json")[1]

    def discard(self) -> None:
        """Remove what was written."""
        owned.remove_within(self.folder)
