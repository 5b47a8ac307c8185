"""Parquet: one document a row; read a page at a time, so a row group may be larger than memory, and cut by what the values
take once they are decoded: of a column with a dictionary that may be thousands of times its size in the file."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.columns import LISTS, as_list, as_lists, column, without_empty
from topicstream.ingestion.parsing.cut import RECORD_BYTES, most_records, not_utf8, positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import Provenance, TextRun

BUFFER = 1 << 20
"""Bytes of a column that are read at once; without it Arrow reads the column of a whole row group."""
ITEM_BYTES = 64
"""What an item of a list takes as a Python string, besides its bytes."""
_TEXT = pa.large_string()


class Parquet:
    name = "parquet"
    kind = "text"
    about = "Parquet, one document a row"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        if source.path is not None and source.path.stat().st_size and is_plain(source):
            yield from _batches(source, source.path, options)
            return
        with tempfile.TemporaryFile() as whole:  # Parquet is read from its end, a stream must lie on disk first
            shutil.copyfileobj(source.stored_stream(), whole, 1 << 20)
            whole.seek(0)
            yield from _batches(source, whole, options)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        batch: pa.RecordBatch = piece.data
        rows = np.arange(len(batch), dtype=np.int64) + piece.record + 1
        bad: dict[int, str] = {}
        texts = [as_strings(batch[name], name, piece, "--text-field") for name in options.text_fields]
        id_name = options.id_column(batch.schema.names)
        ids = None
        if id_name:
            ids = as_strings(batch[id_name], id_name, piece, "--id-field")
            for at in np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False)).tolist():
                bad[at] = f"field '{id_name}' is null, not an id"
        for array in [*texts, *([ids] if ids is not None else [])]:
            bad.update(not_utf8(*buffers(array)))
        for array in texts:
            for at in np.flatnonzero(np.diff(buffers(array)[1]) > options.record_bytes).tolist():
                bad[at] = f"a record of more than {options.record_bytes >> 20} MiB; split it or raise the limit"
        for at in sorted(bad):
            rejects.add(f"{piece.name}#{piece.record + at + 1}", 0, bad[at])
        if bad:
            keep = pa.array(np.isin(np.arange(len(batch)), list(bad), invert=True))
            batch, rows = batch.filter(keep), rows[keep.to_numpy(zero_copy_only=False)]
            texts = [t.filter(keep) for t in texts]
            ids = ids.filter(keep) if ids is not None else None
        texts = [pc.fill_null(t, "") for t in texts]
        if not texts:  # only the fields are wanted
            texts = [pa.repeat("", len(batch)).cast(_TEXT)]
        text = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar("\n", _TEXT))
        if ids is None:
            ids = positions(piece.key, rows, "#")
        meta = {col: column_meta(batch[name], col, name, piece, options) for col, name in options.meta.items()}
        whole = id_name is not None and pa.types.is_integer(batch.schema.field(id_name).type)
        return TextRun(Provenance(ids, positions(piece.key, rows, "#"), meta, whole=whole), *buffers(text)), rejects


def is_plain(source: Source) -> bool:
    """Whether the file itself begins as Parquet does, not packed by another program."""
    assert source.path is not None
    with open(source.path, "rb") as f:
        return f.read(4) == b"PAR1"


def _batches(source: Source, file: Any, options: ReadOptions) -> Iterator[Piece]:
    """Slices of record batches of about ``piece_bytes`` decoded, whatever the pages take that they are decoded from."""
    with contextlib.ExitStack() as stack:
        if isinstance(file, Path):
            file = stack.enter_context(open(file, "rb"))
        try:
            parquet = pq.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
            names = parquet.schema_arrow.names
            wanted = [*options.text_fields, *options.meta.values()]
            wanted += [id_name] if (id_name := options.id_column(names)) is not None else []
            for field in wanted:
                if field not in names:
                    raise InputError(f"{source.name}: no column '{field}'; choose one of {', '.join(names)[:300]}")
            columns = list(dict.fromkeys(wanted))
            readers: dict[tuple[str, ...], pq.ParquetFile] = {}
            record, total = 0, max(parquet.metadata.num_rows, 1)
            for group in range(parquet.num_row_groups):
                chunks = _chunks(parquet.metadata.row_group(group), columns)
                rows = _rows_at_once(parquet.metadata.row_group(group).num_rows, chunks, options)
                # a value that stands there once and is meant a thousand times stays one in memory, too
                repeated = tuple(
                    c.path_in_schema for c in chunks if c.has_dictionary_page and c.physical_type == "BYTE_ARRAY"
                )
                if repeated not in readers:
                    readers[repeated] = pq.ParquetFile(
                        file,
                        buffer_size=BUFFER,
                        pre_buffer=False,
                        read_dictionary=repeated,
                        metadata=parquet.metadata,
                    )
                reader = readers[repeated]
                for batch in reader.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
                    for first, last, size in _slices(_row_bytes(batch), options.piece_bytes):
                        source.progress = int((source.size or 0) * min(1.0, (record + last - first) / total))
                        some = batch.slice(first, last - first)
                        yield Piece(source.name, source.key, some, 0, record, decoded=size)
                        record += last - first
        except (pa.ArrowException, OSError, ValueError, KeyError) as e:
            reason = str(e).split("\n")[0][:200]
            raise BadFile(source.name, 0, f"not a whole Parquet file ({reason})") from None


def _chunks(group: Any, columns: list[str]) -> list[Any]:
    """The column chunks of a row group that are read."""
    chunks = [group.column(i) for i in range(group.num_columns)]
    return [c for c in chunks if c.path_in_schema.split(".")[0] in columns or c.path_in_schema in columns]


def _rows_at_once(rows: int, chunks: list[Any], options: ReadOptions) -> int:
    """Rows of a batch, so that it takes about a piece once it is decoded."""
    average = sum(chunk.total_uncompressed_size for chunk in chunks) / max(rows, 1)
    return int(min(most_records(options), max(1.0, options.piece_bytes / max(average, 1e-9))))


def page_places(column: Any) -> np.ndarray:
    """Where the values of a dictionary's column stand in the dictionary, without nulls; ValueError where one stands beyond it,
    which Arrow does not look at as it reads."""
    places: np.ndarray = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if len(places) and not 0 <= places.min() <= places.max() < len(column.dictionary):
        raise ValueError("a value beyond its dictionary")
    return places


def _slices(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int, int]]:
    """Rows first..last (exclusive) and their bytes, at most ``most`` bytes or one row."""
    ends = np.cumsum(sizes)
    first = before = 0
    while first < len(sizes):
        last = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        yield first, last, int(ends[last - 1]) - before
        first, before = last, int(ends[last - 1])


def _row_bytes(batch: pa.RecordBatch) -> np.ndarray:
    """Bytes of each row once it is decoded, int64[R]."""
    sizes = np.full(len(batch), RECORD_BYTES, np.int64)
    for array in batch.columns:
        sizes += _value_bytes(array)
    return sizes


def _value_bytes(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_dictionary(kind):
        each = _value_bytes(array.dictionary)
        sizes = np.zeros(len(array), np.int64)
        sizes[array.is_valid().to_numpy(zero_copy_only=False)] = each[page_places(array)]
        return sizes
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sums = np.concatenate(([0], np.cumsum(_value_bytes(array.values) + ITEM_BYTES)))
        return np.diff(sums[array.offsets.to_numpy(zero_copy_only=False)])
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):  # fmt: skip
        return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64))
    return np.full(len(array), max(16, array.nbytes // max(len(array), 1)), np.int64)


def as_strings(array: pa.Array, name: str, piece: Piece, option: str) -> pa.Array:
    """A column as large_string; InputError when its values are neither strings nor whole numbers."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_dictionary(array.type):
        array = array.cast(kind)
    whole = pa.types.is_integer(kind) and option != "--text-field"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or whole):
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
            raise InputError(f"{piece.name}: column '{name}' holds {kind}; choose another {option}")
        array = array.cast(pa.large_binary())
        return pa.LargeStringArray.from_buffers(len(array), *array.buffers()[1:], array.buffers()[0], -1, array.offset)
    return array.cast(_TEXT)


def buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A large_string array -> uint8[B], int64[D+1] from 0."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text[at[0] : at[-1]], at - at[0]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def column_meta(array: pa.Array, col: str, name: str, piece: Piece, options: ReadOptions) -> pa.Array:
    """Column ``name`` of the file as metadata ``col``: texts, or lists of texts where ``col`` is one; InputError."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    try:
        if col in LISTS and pa.types.is_list(array.type) and _is_text(array.type.value_type):
            values = array.flatten().cast(_TEXT)
            values.validate(full=True)
            return without_empty(pc.fill_null(array.value_lengths(), 0).to_numpy().astype(np.int64), values)
        if col in LISTS and _is_text(array.type):
            array = array.cast(_TEXT)
            array.validate(full=True)
            return as_lists(array, None, options.list_separator)
        if col in LISTS:
            return column(col, [as_list(v, name, options.list_separator) for v in array.to_pylist()])
        out = array.cast(_TEXT)
        out.validate(full=True)
        return out
    except (pa.ArrowException, ValueError):
        raise InputError(f"{piece.name}: column '{name}' ({array.type}) cannot be read as {col}") from None


READER = Parquet()
