"""Tables of a store read by row groups, each weighed before it is decoded: a small file does not take gigabytes.

What we write holds some megabytes a row group, more only where one document does.  A group may hold ``MOST`` bytes, or
``TIMES`` as many as it takes in the file.  Pages say what they decode to; texts that stand once in a dictionary and are
meant a thousand times are counted before they are written out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.errors import StoreError
from topicstream.files.parquet_pages import DICTIONARY, page_places, pages, refuse_odd_columns
from topicstream.files.plain import arrow_file, open_plain

MOST, TIMES = 256 << 20, 64
VALUE = 8  # bytes of a place, an offset or a number


def batches(path: str | os.PathLike[str], columns: list[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    """Record batches of at most ``rows`` and of one row group; columns that are not there are left out (None: all).
    StoreError where a group is too heavy for its file; FileNotFoundError, OSError, ValueError, KeyError, ArrowException."""
    with open(open_plain(path), "rb") as raw, pq.ParquetFile(arrow_file(raw), pre_buffer=False) as file:
        refuse_odd_columns(raw)
        schema, size = file.schema_arrow, os.fstat(raw.fileno()).st_size
        wanted = schema.names if columns is None else [c for c in columns if c in schema.names]
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            chunks = [c for c in map(group.column, range(group.num_columns)) if c.path_in_schema.split(".")[0] in wanted]
            most = max(MOST, TIMES * sum(max(0, c.total_compressed_size) for c in chunks))
            repeated, heavy = _repeated(raw, chunks, group.num_rows, size, most, path)
            step = min([group.num_rows, *(most // _longest(raw, file.metadata, number, c) for c in heavy)])
            if not repeated:
                plain = file.iter_batches(max(1, min(rows, step)), row_groups=[number], columns=wanted)
                yield from _joined(plain, rows, most, path) if step < group.num_rows else plain
                continue
            with pq.ParquetFile(
                arrow_file(raw), read_dictionary=repeated, metadata=file.metadata, pre_buffer=False
            ) as known:
                for batch in known.iter_batches(rows, row_groups=[number], columns=wanted):
                    _within(path, sum(map(_text_bytes, batch.columns)), most)
                    kinds = [schema.field(name) for name in batch.schema.names]
                    yield pa.record_batch([_plain(c, k.type) for c, k in zip(batch.columns, kinds)], schema=pa.schema(kinds))


def _joined(batches: Iterator[pa.RecordBatch], rows: int, most: int, path: Any) -> Iterator[pa.RecordBatch]:
    """The batches of a group, together again up to ``rows``."""
    held: list[pa.RecordBatch] = []
    total = given = count = 0
    for batch in batches:
        total, count = total + batch.nbytes, count + len(batch)
        _within(path, total, most)
        held.append(batch)
        if count >= rows or total - given > most // 16:
            yield _one(held)
            held, given, count = [], total, 0
    if held:
        yield _one(held)


def _one(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def _longest(raw: Any, metadata: Any, number: int, column: str) -> int:
    """Bytes of the longest text of a column of a group, read as its dictionaries and places in them."""
    import pyarrow.compute as pc  # slow to import

    most = 1
    with pq.ParquetFile(arrow_file(raw), read_dictionary=[column], metadata=metadata, pre_buffer=False) as known:
        for batch in known.iter_batches(1 << 16, row_groups=[number], columns=[column]):
            texts = _values(batch.column(0))
            texts = texts.dictionary if pa.types.is_dictionary(texts.type) else texts
            most = max(most, pc.max(pc.binary_length(texts)).as_py() or 0)
    return most


def _repeated(
    raw: Any, chunks: list[Any], rows: int, size: int, most: int, path: Any
) -> tuple[list[str], list[str]]:
    """Columns whose texts could be more, written out, than a group may hold: of lists, and of others; StoreError where the
    pages are already."""
    found, others, decoded = list[str](), list[str](), 0
    for chunk in chunks:
        starts = [p for p in (chunk.dictionary_page_offset, chunk.data_page_offset) if p]
        first, values = min(starts, default=0), chunk.num_values
        stop = first + max(0, chunk.total_compressed_size)
        if values and not 0 < first <= stop <= size:
            raise ValueError("a column outside the file")
        dictionary = 0
        for page in pages(raw, first, stop) if values else ():
            decoded += page.decoded
            dictionary += page.decoded if page.kind == DICTIONARY else 0
        decoded += VALUE * max(0, values)
        _within(path, decoded, most)
        if chunk.physical_type == "BYTE_ARRAY" and dictionary * values > most:
            (found if values > rows else others).append(chunk.path_in_schema)
    raw.seek(0)
    return found, others


def _text_bytes(column: pa.Array) -> int:
    """Bytes of the texts that stand in a dictionary, written out."""
    import pyarrow.compute as pc  # seldom needed here

    column = _values(column)
    if not pa.types.is_dictionary(column.type) or not len(page_places(column)):
        return 0
    lengths = pc.fill_null(pc.binary_length(column.dictionary), 0).to_numpy(zero_copy_only=False)
    return int(lengths[page_places(column)].sum(dtype=np.int64))


def _values(column: pa.Array) -> pa.Array:
    """What lists hold; other columns as they are."""
    while pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = column.values
    return column


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column with its texts written out."""
    if pa.types.is_dictionary(column.type):
        words = column.dictionary
        if words.nbytes * len(column) > MOST * len(words):  # what Arrow would take beforehand: their mean length at each place
            return pa.array(column.to_pylist(), kind)
        return words.take(column.indices).cast(kind)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = _plain(column.values, kind.value_type)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[values])
    return column.cast(kind)


def _within(path: Any, decoded: int, most: int) -> None:
    if decoded > most:
        raise StoreError(f"{path}: a group of rows of {decoded} bytes, where {most} can be; restore the file or ingest again")
