"""The documents' table of a store: ``docs/part-*.parquet``, one row a document, in the order of the ingest.

    id, source        as the reader gave them
    part, block, row  where its cells lie: ``train`` or ``heldout``, the storage block of that part, the row within it
    authors, labels, links (lists of strings), date and the user's own columns, where the input had them

Documents without any word of the vocabulary keep their row (of no cells).  Streamed, never loaded whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.durable import file_problem, sync_file, sync_folder
from topicstream.files.parquet import batches

ROWS_OF_GROUP = 1 << 16
ROWS_OF_PART = 1 << 20
BYTES_OF_GROUP = 16 << 20
"""Of the ids and metadata of a row group, which is held in memory until it is full."""
def typed_ids(ids: Any, whole: bool) -> Any:
    """Ids as they were in the input: whole numbers (int64) again where they all were, else the strings they are stored as."""
    if not whole:
        return ids
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # of more digits than fit
        return ids


OWN = ("id", "source", "part", "block", "row")


def schema_of(columns: dict[str, str]) -> pa.Schema:
    """The table's schema; columns: name -> ``list`` or ``string`` of the metadata."""
    kinds = {"list": pa.list_(pa.large_string()), "string": pa.large_string()}
    extra = [(name, kinds[columns[name]]) for name in sorted(columns) if name not in OWN]
    own = [("id", pa.large_string()), ("source", pa.large_string())]
    place = [("part", pa.dictionary(pa.int8(), pa.string())), ("block", pa.int32()), ("row", pa.int32())]
    return pa.schema([*own, *place, *extra])


def fill(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with all columns of the schema, nulls where it had none."""
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def row_bytes(table: pa.Table) -> np.ndarray:
    """Bytes of the strings of each row, int64[R]."""
    sizes = np.zeros(len(table), np.int64)
    for column in table.columns:
        at = 0
        for chunk in column.chunks:
            if pa.types.is_list(chunk.type):
                ends = np.concatenate(([0], np.cumsum(_lengths(chunk.values) + 8)))
                found = np.diff(ends[chunk.offsets.to_numpy(zero_copy_only=False)])
            elif pa.types.is_large_string(chunk.type):
                found = _lengths(chunk)
            else:
                continue
            sizes[at : at + len(chunk)] += found
            at += len(chunk)
    return sizes


def _lengths(strings: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.binary_length(strings), 0).to_numpy(zero_copy_only=False).astype(np.int64))


def next_part(files: Iterable[dict[str, Any]]) -> int:
    """The number of the next part file of a store; files: the manifest's entries."""
    return max((int(Path(entry["file"]).stem.rpartition("-")[2]) for entry in files), default=-1) + 1


class DocumentsWriter:
    """Writes part files of at most ROWS_OF_PART documents in row groups of ROWS_OF_GROUP, fewer where they hold
    BYTES_OF_GROUP: the same files however the documents were handed over.  ``files`` lists what was written."""

    def __init__(self, folder: Path, schema: pa.Schema, first: int) -> None:
        self._folder, self._schema, self._number = folder, schema, first
        self._waiting: list[pa.Table] = []
        self._held = self._in_part = 0
        self._sizes = np.zeros(0, np.int64)
        self._writer: pq.ParquetWriter | None = None
        self.files: list[Path] = []
        folder.mkdir(exist_ok=True)

    def add(self, table: pa.Table) -> None:
        """Append documents."""
        self._waiting.append(fill(table, self._schema))
        self._held += len(table)
        self._sizes = np.concatenate((self._sizes, row_bytes(self._waiting[-1])))
        while rows := self._full():
            self._group(rows)

    def _full(self) -> int:
        """Rows of the next group; 0 where it is not full yet."""
        ends = np.cumsum(self._sizes)
        rows = min(ROWS_OF_GROUP, int(np.searchsorted(ends, BYTES_OF_GROUP, "left")) + 1)
        return rows if rows <= self._held else 0

    def _group(self, rows: int) -> None:
        joined = pa.concat_tables(self._waiting)
        group, rest = joined.slice(0, rows).combine_chunks(), joined.slice(rows)
        self._waiting, self._held = [rest] if len(rest) else [], len(rest)
        self._sizes = self._sizes[rows:]
        if self._writer is None:
            self.files.append(self._folder / f"part-{self._number:05d}.parquet")
            self._number += 1
            self._writer = pq.ParquetWriter(
                owned.reserve(self.files[-1]), self._schema, compression="zstd", compression_level=1
            )
        self._writer.write_table(group, row_group_size=max(rows, 1))
        self._in_part += rows
        if self._in_part >= ROWS_OF_PART:
            self._finish_part()

    def _finish_part(self) -> None:
        if self._writer is not None:
            self._writer.close()
            sync_file(self.files[-1])
            self._writer, self._in_part = None, 0

    def close(self) -> None:
        """Write what is left; a store has at least one part, even of no documents."""
        if self._held or not self.files:
            self._group(self._held) if self._held else self._empty()
        self._finish_part()
        sync_folder(self._folder)

    def _empty(self) -> None:
        self._waiting = [fill(pa.table({"id": pa.array([], pa.large_string())}), self._schema)]
        self._group(0)


def read_documents(
    folder: Path, files: Iterable[dict[str, Any]], columns: list[str] | None = None, rows: int = ROWS_OF_GROUP
) -> Iterator[pa.RecordBatch]:
    """The documents of a store, in order, in record batches of at most ``rows`` and of one row group, whose bytes are
    bounded; files: the manifest's entries.  StoreError."""
    for entry in files:
        path = folder / entry["file"]
        if "crc32c" in entry and (problem := file_problem(path, entry["size"], entry["crc32c"])) is not None:
            raise StoreError(problem)
        try:
            yield from batches(path, columns, rows)
        except FileNotFoundError:
            raise StoreError(f"{path}: missing; restore the file or ingest again") from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as e:
            raise StoreError(f"{path}: cannot be read ({e}); restore the file or ingest again") from None


def places(part: np.ndarray, edges: tuple[np.ndarray, np.ndarray], seen: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Block and row of documents that were handed to the two writers in order.

    part: uint8[D], 0 train, 1 heldout; edges: per part, the first document of each block of this ingest plus the end;
    seen: documents of each part before these, counted on.  Returns int32[D] blocks (from 0) and rows.
    """
    block, row = np.empty(len(part), np.int32), np.empty(len(part), np.int32)
    for p in (0, 1):
        mine = np.flatnonzero(part == p)
        numbers = np.arange(seen[p], seen[p] + len(mine))
        seen[p] += len(mine)
        block[mine] = np.searchsorted(edges[p], numbers, "right") - 1
        row[mine] = numbers - edges[p][block[mine]]
    return block, row
