"""Readers of vectors: rows of NumPy arrays and Parquet columns of numbers or lists.

``--vector-field`` names the columns. Coordinates have names as words have. Arrays of objects are
never read, because they are pickles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, UsageError
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import as_metadata
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.vectors import (
    ArrayHeader,
    check_width,
    coordinate_names,
    vector_batch,
)
from topicstream.ingestion.readers.parquet import open_parquet, row_batches


class Vectors(Reader):
    """Reader of the vectors in a column of Parquet files."""

    name = "vectors"
    kind = "counts"
    about = "Parquet, a vector a row (--vector-field)"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        with open_parquet(source) as file:
            names = file.schema_arrow.names
            width = 0
            options = options.fit(names)
            fields = vector_fields(options, file.schema_arrow, source.name)
            columns = [*fields, *options.meta.values()]
            id_column = options.id_column(names)
            if id_column is not None:
                columns.append(id_column)
            for name in columns:
                if name not in names:
                    raise InputError(
                        f"{source.name}: no column '{name}'; choose one of {', '.join(names)[:300]}"
                    )
            for first, rows in row_batches(source, file, list(dict.fromkeys(columns)), options):
                lengths = np.sum([_count_numbers(rows[name]) for name in fields], axis=0)
                width = width or int(lengths[np.argmax(lengths > 0)])  # the first rows may be null
                check_width(width, source.name)
                source.words = coordinate_names(width)
                yield _build_batch(source, options, fields, width, first, rows)


def _build_batch(
    source: Source,
    options: ReadOptions,
    fields: list[str],
    width: int,
    first: int,
    rows: pa.RecordBatch,
) -> pa.RecordBatch:
    """Build a batch of the rows that have vectors of this width."""
    lengths = np.sum([_count_numbers(rows[name]) for name in fields], axis=0)
    id_column = options.id_column(rows.schema.names)
    bad = lengths != width
    for row in np.flatnonzero(bad).tolist():
        reason = (
            f"a vector of {lengths[row]} numbers, of {width} in the first row"
            if lengths[row]
            else "no vector"
        )
        source.reject(first + row + 1, f"row {first + row}: {reason}")
    rows = rows.filter(pa.array(~bad))
    x = np.column_stack([_read_numbers(rows[name], width) for name in fields])

    def text(name: str, column: str) -> pa.Array:
        return as_metadata(
            rows[name], column, f"{source.name}: column '{name}'", options.list_separator
        )

    meta = {column: text(name, column) for column, name in options.meta.items()}
    return vector_batch(
        source,
        x,
        first + np.flatnonzero(~bad),
        None if id_column is None else text(id_column, "id"),
        meta,
    )


def _read_numbers(array: pa.Array, width: int) -> np.ndarray:
    """Read a column without null lists as float64[R, n], NaN where a number is null."""
    values = array.flatten() if _is_list(array.type) else array
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.reshape(numbers, (len(array), -1 if len(array) else width))


def vector_fields(options: ReadOptions, schema: pa.Schema, name: str) -> list[str]:
    """List the requested columns that hold numbers.

    ``*`` stands for all number columns that are neither id nor kept as a field.
    """
    names = [f.strip() for f in (options.vector_field or "").split(",") if f.strip()]
    if not names:
        raise UsageError(
            f"{name}: name the columns with the numbers with --vector-field (* for all)"
        )
    other = {options.id_column(schema.names), *options.meta.values()}
    fields = (
        [f.name for f in schema if f.name not in other and _is_number(f.type)]
        if names == ["*"]
        else names
    )
    for field in fields:
        if field not in schema.names:
            raise InputError(
                f"{name}: no column '{field}'; choose one of {', '.join(schema.names)[:300]}"
            )
        kind = schema.field(field).type
        if not _is_number(kind):
            raise InputError(
                f"{name}: column '{field}' holds {kind}; vectors are numbers or lists of them"
            )
    if not fields:
        raise InputError(f"{name}: no column of numbers; it has {', '.join(schema.names)[:300]}")
    return fields


def _is_list(kind: pa.DataType) -> bool:
    """Tell whether a type is a list of any kind."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    """Tell whether a type is a number, or a list of numbers."""
    value_type = kind.value_type if _is_list(kind) else kind
    return bool(pa.types.is_floating(value_type) or pa.types.is_integer(value_type))


def _count_numbers(array: pa.Array) -> np.ndarray:
    """Count the numbers of every row, none where a list is null."""
    if not _is_list(array.type):
        return np.ones(len(array), np.int64)  # null among numbers is reported as what is no number
    return np.asarray(
        pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )


class Npy(Reader):
    """Reader of NumPy arrays, a vector a row."""

    name = "npy"
    kind = "counts"
    about = "NumPy arrays, a row a vector"
    signature = re.compile(rb"\x93NUMPY")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        header = ArrayHeader(source.as_bytes(), source.name)
        source.words = coordinate_names(header.columns)
        yield from header.batches(source, source, options)
        if source.read(1):
            raise BadFile(source.name, 0, f"holds more than the {header.rows} rows that it says")


VECTORS = Vectors()
NPY = Npy()
