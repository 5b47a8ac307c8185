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

from topicstream.durable import file_problem, sync_file, sync_folder
from topicstream.errors import StoreError

ROWS_OF_GROUP = 1 << 16
ROWS_OF_PART = 1 << 20
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


class DocumentsWriter:
    """Writes part files of at most ROWS_OF_PART documents in row groups of ROWS_OF_GROUP: the same files however the
    documents were handed over.  ``files`` lists what was written."""

    def __init__(self, folder: Path, schema: pa.Schema, first: int) -> None:
        self._folder, self._schema, self._number = folder, schema, first
        self._waiting: list[pa.Table] = []
        self._held = self._in_part = 0
        self._writer: pq.ParquetWriter | None = None
        self.files: list[Path] = []
        folder.mkdir(exist_ok=True)

    def add(self, table: pa.Table) -> None:
        """Append documents."""
        self._waiting.append(fill(table, self._schema))
        self._held += len(table)
        while self._held >= ROWS_OF_GROUP:
            self._group(ROWS_OF_GROUP)

    def _group(self, rows: int) -> None:
        joined = pa.concat_tables(self._waiting)
        group, rest = joined.slice(0, rows).combine_chunks(), joined.slice(rows)
        self._waiting, self._held = [rest] if len(rest) else [], len(rest)
        if self._writer is None:
            self.files.append(self._folder / f"part-{self._number:05d}.parquet")
            self._number += 1
            self._writer = pq.ParquetWriter(self.files[-1], self._schema, compression="zstd", compression_level=1)
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
    folder: Path, files: Iterable[dict[str, Any]], columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The documents of a store, in order, in record batches; files: the manifest's entries.  StoreError."""
    for entry in files:
        path = folder / entry["file"]
        if "crc32c" in entry and (problem := file_problem(path, entry["size"], entry["crc32c"])) is not None:
            raise StoreError(problem)
        try:
            file = pq.ParquetFile(path, memory_map=False)
            there = set(file.schema_arrow.names)
            wanted = None if columns is None else [c for c in columns if c in there]
            yield from file.iter_batches(batch_size=ROWS_OF_GROUP, columns=wanted)
        except FileNotFoundError:
            raise StoreError(f"{path}: missing; restore the file or ingest again") from None
        except (OSError, ValueError, pa.ArrowException) as e:
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
