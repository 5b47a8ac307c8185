"""Vectors in Parquet: a column of lists of one length, or columns of a number each (--vector-field)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError, UsageError
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import not_utf8, positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.npy import MOST, names_of, vectors_run
from topicstream.ingestion.readers.parquet import Parquet, as_strings, buffers, column_meta, is_plain
from topicstream.tokens.documents import CountRun


class Vectors(Parquet):
    name = "vectors"
    kind = "counts"
    about = "Parquet, a vector a row (--vector-field)"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        source.encoding = "utf-8"  # bytes as they are
        if source.path is None or not is_plain(source):
            raise BadFile(source.name, 0, "vectors are read from a plain Parquet file, not from a stream")
        try:
            parquet = pq.ParquetFile(source.path)
            fields = vector_fields(options, parquet.schema_arrow, source.name)
            batch = next(parquet.iter_batches(1, columns=fields), None)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
            raise BadFile(source.name, 0, f"not a whole Parquet file ({str(e).splitlines()[0][:200]})") from None
        kinds = [parquet.schema_arrow.field(name).type for name in fields]
        width = sum(
            k.list_size if pa.types.is_fixed_size_list(k) else _lengths(batch[i])[0] if _is_list(k) and batch else 1
            for i, k in enumerate(kinds)
        )
        if not 0 < width <= MOST:
            raise BadFile(source.name, 1, f"row 0: a vector of {width} numbers; 1 to {MOST} are possible")
        return names_of(int(width))

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        assert source.words is not None and source.path is not None
        fields = vector_fields(options, pq.read_schema(source.path), source.name)
        for piece in super().split(source, replace(options, text_field=",".join(fields))):
            yield replace(piece, about=(fields, len(source.words)))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:  # type: ignore[override]
        batch, rejects, (fields, width) = piece.data, Rejects(), piece.about
        x, bad = np.full((len(batch), width), np.nan), np.zeros(len(batch), np.bool_)
        lengths = np.sum([_lengths(batch[name]) for name in fields], axis=0)
        for row in np.flatnonzero(lengths != width).tolist():
            number = piece.record + row
            told = f"a vector of {lengths[row]} numbers, of {width} in the first row" if lengths[row] else "no vector"
            rejects.add(piece.name, number + 1, f"row {number}: {told}")
            bad[row] = True
        keep, at = pa.array(~bad), 0
        for name in fields:
            array = batch[name].filter(keep)
            size = int(_lengths(array)[0]) if len(array) else 0
            if not size:
                continue
            values = array.flatten() if _is_list(array.type) else array
            x[~bad, at : at + size] = (
                values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).reshape(-1, size)
            )
            at += size
        id_name = options.id_column(batch.schema.names)
        if id_name is None:
            ids = positions(piece.key, piece.record + np.arange(len(batch)))
        else:
            ids = as_strings(batch[id_name], id_name, piece, "--id-field")
            nulls = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False)).tolist()
            wrong = not_utf8(*buffers(ids)) | dict.fromkeys(nulls, f"field '{id_name}' is null, not an id")
            for row, reason in sorted(wrong.items()):
                if not bad[row]:
                    rejects.add(piece.name, piece.record + row + 1, f"row {piece.record + row}: {reason}")
                bad[row] = True
        meta = {col: column_meta(batch[name], col, name, piece, options) for col, name in options.meta.items()}
        return vectors_run(x, piece, rejects, ids, meta, ~bad), rejects


def vector_fields(options: ReadOptions, schema: pa.Schema, name: str) -> list[str]:
    """The columns that hold numbers, those asked for; ``*``: all of numbers that are neither id nor kept as a field."""
    asked = [f.strip() for f in (options.vector_field or "").split(",") if f.strip()]
    if not asked:
        raise UsageError(f"{name}: --vector-field says which columns hold the numbers (* for all)")
    other = {options.id_column(schema.names), *options.meta.values()}
    found = [f.name for f in schema if f.name not in other and _is_number(f.type)] if asked == ["*"] else asked
    for field in found:
        if field not in schema.names:
            raise InputError(f"{name}: no column '{field}'; choose one of {', '.join(schema.names)[:300]}")
        if not _is_number(kind := schema.field(field).type):
            raise InputError(f"{name}: column '{field}' holds {kind}; vectors are numbers or lists of them")
    if not found:
        raise InputError(f"{name}: no column of numbers; it has {', '.join(schema.names)[:300]}")
    return found


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    one = kind.value_type if _is_list(kind) else kind
    return bool(pa.types.is_floating(one) or pa.types.is_integer(one))


def _lengths(array: pa.Array) -> np.ndarray:
    """Numbers of every row; none where it is null."""
    there = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    if not _is_list(array.type):
        return np.ones(len(array), np.int64)  # null among numbers is told as what is no number
    if pa.types.is_fixed_size_list(array.type):
        return np.asarray(there * array.type.list_size)
    return np.asarray(pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64))


READER = Vectors()
