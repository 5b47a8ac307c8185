"""The table of documents of a store: ``docs/part-*.parquet``, one row per document.

Columns:

- ``id`` and ``source``, as the reader gave them;
- ``part``, ``block`` and ``row``, the place of the cells: ``train`` or ``heldout``, the storage
  block of that part, and the row within the block;
- the list columns (corpus/format.py), ``date`` and the user's columns, if the input has them.

Rows are in the order of the ingest. Documents without any word of the vocabulary keep their row,
without cells. The table is streamed, never loaded whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import sync
from topicstream.base.files.plain import batches, open_table
from topicstream.base.text import compose_text
from topicstream.corpus.format import PARTS
from topicstream.corpus.manifest import (
    PartEntry,
    StoreFile,
    StoreManifest,
    block_edges,
    store_file,
)
from topicstream.corpus.vocabulary import string_buffers
from topicstream.numeric.kernels.arrays import Bytes, Longs, Words
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits

ROWS_OF_GROUP = 1 << 16
ROWS_OF_PART = 1 << 20
BYTES_OF_GROUP = 16 << 20
"""Bytes of ids and metadata in a row group, which stays in memory until it is full."""


def typed_ids(ids: Any, are_integers: bool) -> Any:
    """Convert stored ids to int64 if all were whole numbers in the input."""
    if not are_integers:
        return ids
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # of more digits than fit
        return ids


OWN_COLUMNS = ("id", "source", "part", "block", "row")
"""Columns that every store has."""


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Build the table's schema from the kinds (``list``, ``string``) of its metadata columns."""
    kinds = {"list": pa.list_(pa.large_string()), "string": pa.large_string()}
    extra = [(name, kinds[columns[name]]) for name in sorted(columns) if name not in OWN_COLUMNS]
    own_fields = [("id", pa.large_string()), ("source", pa.large_string())]
    place = [
        ("part", pa.dictionary(pa.int8(), pa.string())),
        ("block", pa.int32()),
        ("row", pa.int32()),
    ]
    return pa.schema([*own_fields, *place, *extra])


def fill_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the missing columns of a schema to a table, filled with nulls."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def remove_values(lists: pa.Array, marked: pa.Array) -> pa.Array:
    """Remove marked values from lists of strings.

    Empty lists stay empty, nulls stay null.

    Parameters
    ----------
    lists
        The lists.
    marked
        A bool for each value of all lists: True removes it.
    """
    stays = pc.invert(marked).to_numpy(zero_copy_only=False)
    ends = np.cumsum(pc.fill_null(lists.value_lengths(), 0).to_numpy())
    offsets = np.concatenate(([0], ends))
    staying_before = np.concatenate(([0], np.cumsum(stays)))
    new_offsets = staying_before[offsets].astype(np.int32)
    null = np.append(lists.is_null().to_numpy(zero_copy_only=False), False)
    return pa.ListArray.from_arrays(
        pa.array(new_offsets, mask=null), lists.flatten().filter(pa.array(stays))
    )


def remove_empty(lists: pa.Array) -> pa.Array:
    """Remove empty strings and nulls from lists, and turn null lists into empty ones."""
    lists = pc.coalesce(lists, pa.scalar([], lists.type))
    lengths = pc.fill_null(pc.binary_length(lists.flatten()), 0)
    return remove_values(lists, pc.equal(lengths, 0))


def row_bytes(table: pa.Table) -> np.ndarray:
    """Sum the bytes of the strings of each row, int64[R]."""
    sizes = np.zeros(len(table), np.int64)
    for column in table.columns:
        values = column.combine_chunks()
        if pa.types.is_list(values.type):
            ends = np.concatenate(([0], np.cumsum(_lengths(values.values) + 8)))
            sizes += np.diff(ends[values.offsets.to_numpy(zero_copy_only=False)])
        elif pa.types.is_large_string(values.type):
            sizes += _lengths(values)
    return sizes


def _lengths(strings: pa.Array) -> np.ndarray:
    """Return the bytes of each string, int64[n]."""
    return np.asarray(
        pc.fill_null(pc.binary_length(strings), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )


class DocumentsWriter:
    """A writer of part files of at most ROWS_OF_PART documents.

    Row groups have ROWS_OF_GROUP rows, or fewer if these hold BYTES_OF_GROUP. The files do not
    depend on the sizes of the tables that ``add`` is called with.

    Parameters
    ----------
    folder, schema, first
        Folder of the files, their columns, and the number of the first file.
    bytes_of_part
        Bytes of strings after which a part file ends, too.

    Attributes
    ----------
    files
        The files written so far.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, first: int, bytes_of_part: float = math.inf
    ) -> None:
        self._folder = folder
        self._schema = schema
        self._number = first
        self._bytes_of_part = bytes_of_part
        self._bytes = 0
        self._waiting: list[pa.Table] = []
        self._in_part = 0
        self._sizes = np.zeros(0, np.int64)  # bytes of each row that waits
        self._writer: pq.ParquetWriter | None = None
        self.files: list[Path] = []
        folder.mkdir(exist_ok=True)

    def add(self, table: pa.Table) -> None:
        """Append documents."""
        self._waiting.append(fill_columns(table, self._schema))
        self._sizes = np.concatenate((self._sizes, row_bytes(self._waiting[-1])))
        rows = self._rows_of_group()
        while rows:
            self._write_group(rows)
            rows = self._rows_of_group()

    def _rows_of_group(self) -> int:
        """Return the rows of the next group, or 0 if it is not full yet."""
        ends = np.cumsum(self._sizes)
        rows = min(ROWS_OF_GROUP, int(np.searchsorted(ends, BYTES_OF_GROUP, "left")) + 1)
        return rows if rows <= len(self._sizes) else 0

    def _write_group(self, rows: int) -> None:
        """Write the first waiting rows as a row group, and end the part if it is full."""
        joined = pa.concat_tables(self._waiting)
        group = joined.slice(0, rows).combine_chunks()
        remaining = joined.slice(rows)
        self._waiting = [remaining] if len(remaining) else []
        self._bytes += int(self._sizes[:rows].sum())
        self._sizes = self._sizes[rows:]
        if self._writer is None:
            self.files.append(self._folder / f"part-{self._number:05d}.parquet")
            self._number += 1
            self._writer = pq.ParquetWriter(
                owned.reserve(self.files[-1]), self._schema, compression="zstd", compression_level=1
            )
        self._writer.write_table(group, row_group_size=max(rows, 1))
        self._in_part += rows
        if self._in_part >= ROWS_OF_PART or self._bytes >= self._bytes_of_part:
            self._finish_part()

    def _finish_part(self) -> None:
        """Close the file of the part."""
        if self._writer is not None:
            self._writer.close()
            sync(self.files[-1])
            self._writer = None
            self._in_part = 0
            self._bytes = 0

    def close(self) -> None:
        """Write the remaining rows, and at least one part."""
        if len(self._sizes) or not self.files:
            self._waiting = self._waiting or [
                fill_columns(pa.table({"id": pa.array([], pa.large_string())}), self._schema)
            ]
            self._write_group(len(self._sizes))
        self._finish_part()
        sync(self._folder)


class PlacedDocuments(DocumentsWriter):
    """A writer of documents with the places of their cells.

    Documents of each part lie in its blocks in the order of writing.

    Parameters
    ----------
    docs
        Files of the table written earlier.
    parts
        The manifest's entries.
    first_blocks
        First block of each part that the documents lie in.
    """

    def __init__(
        self,
        store: Path,
        columns: Mapping[str, str],
        docs: Iterable[StoreFile],
        parts: Mapping[str, PartEntry],
        first_blocks: Sequence[int] = (0, 0),
    ) -> None:
        last = max((int(Path(entry.file).stem.rpartition("-")[2]) for entry in docs), default=-1)
        super().__init__(store / "docs", schema_of(columns), last + 1)
        self._store = store
        self._first_blocks = first_blocks
        self._placed = [0, 0]  # documents of each part so far
        self._edges = [
            block_edges(parts[part].blocks[first:]) for part, first in zip(PARTS, first_blocks)
        ]

    def place(self, table: pa.Table, part: np.ndarray) -> None:
        """Append documents to the parts that they belong to.

        Parameters
        ----------
        table
            The documents.
        part
            uint8[D], 0 train, 1 heldout.
        """
        block = np.empty(len(part), np.int32)
        row = np.empty(len(part), np.int32)
        for p, edges in enumerate(self._edges):
            of_part = np.flatnonzero(part == p)
            numbers = np.arange(self._placed[p], self._placed[p] + len(of_part))
            self._placed[p] += len(of_part)
            blocks = np.searchsorted(edges, numbers, "right") - 1
            block[of_part] = self._first_blocks[p] + blocks
            row[of_part] = numbers - edges[blocks]
        names = pa.DictionaryArray.from_arrays(
            pa.array(part.astype(np.int8)), pa.array(PARTS, pa.string())
        )
        places = [name for name in ("part", "block", "row") if name in table.column_names]
        self.add(
            table.drop_columns(places)
            .append_column("part", names)
            .append_column("block", pa.array(block))
            .append_column("row", pa.array(row))
        )

    def finish(self) -> list[StoreFile]:
        """Write the remaining rows, and return the manifest's entries of the files."""
        self.close()
        return [store_file(self._store, f"docs/{path.name}") for path in self.files]


def read_documents(
    folder: Path,
    files: Iterable[StoreFile],
    columns: list[str] | None = None,
    rows: int = ROWS_OF_GROUP,
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Stream the documents of a store in order, as numbers int64[] and record batches.

    Parameters
    ----------
    folder, files
        Folder of the store, and the manifest's entries of the table's files.
    columns
        Columns to read (default: all).
    rows
        Rows of a batch, at most. A batch is of one row group, whose bytes are bounded.

    Raises
    ------
    StoreError
        If a file is damaged.
    """
    first = 0
    for entry in files:
        with open_table(entry.verified(folder)) as file:
            # a store made before its names were composed has them as they were written
            stored = {compose_text(name): name for name in file.schema_arrow.names}
            selected = None if columns is None else [stored.get(name, name) for name in columns]
            for batch in batches(file, selected, rows):
                batch = batch.rename_columns([*map(compose_text, batch.schema.names)])
                yield np.arange(first, first + len(batch)), batch
                first += len(batch)


Placed = tuple[pa.RecordBatch, np.ndarray, np.ndarray, np.ndarray]
"""Some documents, and where they lie: part (0 train, 1 heldout), storage block and row, int64 each.
"""


def placed_documents(
    store: Path, manifest: StoreManifest, removed: np.ndarray, columns: list[str] | None, rows: int
) -> Iterator[Placed]:
    """Stream the documents of a store that were not removed, with their places.

    A column that came with an append is null for the documents before it.

    Parameters
    ----------
    store, manifest
        Folder and manifest of the store.
    removed
        Numbers of the removed documents, int64.
    columns
        Columns to read beside the id and the place. None reads all.
    rows
        Rows of a batch, at most.

    Raises
    ------
    StoreError
        If a document lies past the blocks.
    """
    selected = None
    if columns is not None:
        selected = list(dict.fromkeys(["id", *columns, "part", "block", "row"]))
    docs_of_blocks = [np.diff(block_edges(manifest.parts[part].blocks)) for part in PARTS]
    schema = schema_of(manifest.columns)
    for numbers, batch in read_documents(store, manifest.docs, selected, rows):
        present = batch.filter(pa.array(np.isin(numbers, removed, invert=True)))
        try:
            is_heldout = pc.equal(present["part"].cast(pa.string()), "heldout")
            part = is_heldout.to_numpy(zero_copy_only=False).astype(np.int64)
            block = present["block"].to_numpy(zero_copy_only=False).astype(np.int64)
            row = present["row"].to_numpy(zero_copy_only=False).astype(np.int64)
            docs = [docs_of_blocks[p][b] for p, b in zip(part, block)]
            if len(row) and (min(block.min(), row.min()) < 0 or (row >= docs).any()):
                raise ValueError
        except (ValueError, KeyError, IndexError, pa.ArrowException):
            raise StoreError(
                f"{store}/docs: a document lies past its block; ingest again"
            ) from None
        yield add_columns(present, selected, schema), part, block, row


def add_columns(
    batch: pa.RecordBatch, names: list[str] | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Add missing columns of a schema, filled with nulls: those of these names, or all (None)."""
    for field in schema:
        if field.name not in batch.schema.names and (names is None or field.name in names):
            batch = batch.append_column(field, pa.nulls(len(batch), field.type))
    return batch


_A = np.uint64(0x9AE16A3B2F90404F)
_B = np.uint64(0xC3A5C85C97CB3127)
_R29 = np.uint64(29)
_R35 = np.uint64(35)
_R31 = np.uint64(31)
_R33 = np.uint64(33)
_EIGHT = np.uint64(8)


@kernel
def _hash(data: Bytes, offsets: Longs, high: Words, low: Words) -> None:
    """Hash strings, uint8[] with offsets int64[D + 1], into high and low, uint64[D]."""
    for d in range(len(offsets) - 1):
        start = offsets[d]
        stop = offsets[d + 1]
        a = _A ^ np.uint64(stop - start)
        b = _B
        i = start
        while i < stop:
            word = np.uint64(0)
            end = min(i + 8, stop)
            for j in range(end - 1, i - 1, -1):
                word = (word << _EIGHT) | np.uint64(data[j])
            a = (a ^ word) * _B
            a = (a << _R29) | (a >> _R35)
            b = (b + word) * _A
            b = ((b << _R31) | (b >> _R33)) ^ a
            i = end
        high[d] = bits(a + bits(b))
        low[d] = bits(b ^ bits(a ^ _A))


def hash_ids(ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Hash ids to 128 bits.

    The hash never changes between versions, because the held-out split of a store rests on it. It
    mixes 8 bytes at a time into two 64-bit lanes and finishes both with SplitMix64
    (numeric/kernels/rng.py).

    Parameters
    ----------
    ids
        large_string[D].

    Returns
    -------
    high, low
        uint64[D] each.
    """
    high = np.empty(len(ids), np.uint64)
    low = np.empty(len(ids), np.uint64)
    offsets, text = string_buffers(ids)
    _hash(text, offsets, high, low)
    return high, low
