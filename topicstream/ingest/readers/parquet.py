"""Parquet: one document a row; read in record batches, so a row group may be larger than memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.errors import InputError
from topicstream.ingest.columns import LISTS, as_list, column
from topicstream.ingest.cut import not_utf8, positions
from topicstream.ingest.reader import Piece, ReadOptions
from topicstream.ingest.rejects import BadFile, Rejects
from topicstream.ingest.source import Source
from topicstream.tokens.documents import Provenance, TextRun

_TEXT = pa.large_string()


class Parquet:
    name = "parquet"
    kind = "text"
    about = "Parquet, one document a row"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        if source.path is not None and source.path.stat().st_size and _is_plain(source):
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
        texts = [_strings(batch[name], name, piece, "--text-field") for name in options.text_fields]
        id_name = options.id_field or ("id" if "id" in batch.schema.names else None)
        ids = None
        if id_name:
            ids = _strings(batch[id_name], id_name, piece, "--id-field")
            for at in np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False)).tolist():
                bad[at] = f"field '{id_name}' is null, not an id"
        for array in [*texts, *([ids] if ids is not None else [])]:
            bad.update(not_utf8(*_buffers(array)))
        for array in texts:
            for at in np.flatnonzero(np.diff(_buffers(array)[1]) > options.record_bytes).tolist():
                bad[at] = f"a record of more than {options.record_bytes >> 20} MiB; split it or raise the limit"
        for at in sorted(bad):
            rejects.add(f"{piece.name}#{piece.record + at + 1}", 0, bad[at])
        if bad:
            keep = pa.array(np.isin(np.arange(len(batch)), list(bad), invert=True))
            batch, rows = batch.filter(keep), rows[keep.to_numpy(zero_copy_only=False)]
            texts = [t.filter(keep) for t in texts]
            ids = ids.filter(keep) if ids is not None else None
        texts = [pc.fill_null(t, "") for t in texts]
        text = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar("\n", _TEXT))
        if ids is None:
            ids = positions(piece.key, rows, "#")
        meta = {col: _meta(batch[name], col, name, piece, options) for col, name in options.meta.items()}
        return TextRun(Provenance(ids, positions(piece.name, rows, "#"), meta), *_buffers(text)), rejects


def _is_plain(source: Source) -> bool:
    assert source.path is not None
    with open(source.path, "rb") as f:
        return f.read(4) == b"PAR1"


def _batches(source: Source, file: Any, options: ReadOptions) -> Iterator[Piece]:
    try:
        parquet = pq.ParquetFile(file)
        names = parquet.schema_arrow.names
        wanted = [*options.text_fields, *options.meta.values()]
        wanted += [options.id_field or "id"] if options.id_field or "id" in names else []
        for field in wanted:
            if field not in names:
                raise InputError(f"{source.name}: no column '{field}'; choose one of {', '.join(names)[:300]}")
        record, total = 0, max(parquet.metadata.num_rows, 1)
        for group in range(parquet.num_row_groups):
            about = parquet.metadata.row_group(group)
            rows = max(1, int(options.piece_bytes * about.num_rows / max(about.total_byte_size, 1)))
            columns = list(dict.fromkeys(wanted))
            for batch in parquet.iter_batches(min(rows, 1 << 20), row_groups=[group], columns=columns):
                source.progress = int((source.size or 0) * min(1.0, (record + len(batch)) / total))
                yield Piece(source.name, source.key, batch, 0, record)
                record += len(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        reason = str(e).split("\n")[0][:200]
        raise BadFile(source.name, 0, f"not a whole Parquet file ({reason})") from None


def _strings(array: pa.Array, name: str, piece: Piece, option: str) -> pa.Array:
    """A column as large_string; InputError when its values are neither strings nor whole numbers."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    whole = pa.types.is_integer(kind) and option != "--text-field"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or whole):
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
            raise InputError(f"{piece.name}: column '{name}' holds {array.type}; choose another {option}")
        array = array.cast(pa.large_binary())
        return pa.LargeStringArray.from_buffers(len(array), *array.buffers()[1:], array.buffers()[0], -1, array.offset)
    return array.cast(kind).cast(_TEXT) if pa.types.is_dictionary(array.type) else array.cast(_TEXT)


def _buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A large_string array -> uint8[B], int64[D+1] from 0."""
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text[at[0] : at[-1]], at - at[0]


def _meta(array: pa.Array, col: str, name: str, piece: Piece, options: ReadOptions) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    try:
        if col in LISTS:
            return column(col, [as_list(v, name, options.list_separator) for v in array.to_pylist()])
        out = array.cast(_TEXT)
        out.validate(full=True)
        return out
    except (pa.ArrowException, ValueError):
        raise InputError(f"{piece.name}: column '{name}' ({array.type}) cannot be read as {col}") from None


READER = Parquet()
