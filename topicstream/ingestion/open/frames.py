"""Tables and data frames in memory, as tables of Arrow.

A frame is converted some rows at a time, which takes less memory than all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.ingestion.open.source import Input
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import clean_strings
from topicstream.ingestion.parse.documents import TEXT, select_fields

ROWS = 1 << 13
"""Rows of a data frame that are converted at once."""


@dataclass(frozen=True)
class Frames:
    """Tables, record batches or data frames, one after the other."""

    parts: Iterable[Any]


def is_series(documents: Any) -> bool:
    """Tell whether documents are a series of pandas or polars, or an array of objects."""
    return hasattr(documents, "to_list") or (
        isinstance(documents, np.ndarray) and documents.dtype.kind == "O"
    )


def is_table(documents: Any) -> bool:
    """Tell whether documents are rows with named columns.

    Whatever has Arrow's PyCapsule stream is one: a table, batch or reader of Arrow, a frame of
    pandas or polars, a relation of DuckDB. A dataset of pyarrow has none, and gives its batches
    otherwise. A column of texts is no table.
    """
    if isinstance(documents, (pa.Array, pa.ChunkedArray)) or is_series(documents):
        return False
    return any(hasattr(documents, name) for name in ("__arrow_c_stream__", "scanner", "to_reader"))


def read_tables(documents: Any, source: Input, options: ReadOptions) -> Iterable[pa.Table] | None:
    """Return the Arrow tables of a table or frame, with the columns that are read.

    It is None for any other object.
    """
    if isinstance(documents, Frames):
        tables = map(_as_table, documents.parts)
        return (
            table.select(select_fields(table.column_names, options, source)) for table in tables
        )
    if isinstance(documents, (pa.Array, pa.ChunkedArray)):
        documents = pa.table({options.text_fields[0]: documents})
    if all(hasattr(documents, name) for name in ("with_format", "column_names", "__len__")):
        return _hugging_face_tables(documents, source, options)
    if not is_table(documents):
        return None
    if hasattr(documents, "__arrow_c_stream__"):
        # a frame of pandas or polars is converted some rows at a time, which takes less memory
        if hasattr(documents, "iloc") or hasattr(documents, "iter_slices"):
            return _frame_tables(documents, source, options)
        stream = pa.RecordBatchReader.from_stream(documents)
    elif hasattr(documents, "scanner"):  # a dataset of pyarrow, whose partitions are columns, too
        selected = select_fields(documents.schema.names, options, source)
        stream = documents.scanner(columns=selected, batch_size=ROWS).to_reader()
    else:
        stream = documents.to_reader()
    names = select_fields(stream.schema.names, options, source)
    return (pa.Table.from_batches([batch.select(names)]) for batch in stream)


def _frame_tables(frame: Any, source: Input, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the rows of a frame of pandas or polars, some at a time."""
    frame = _with_index(frame, options)
    names = select_fields([str(name) for name in frame.columns], options, source)
    columns = [name for name in frame.columns if str(name) in names]  # pandas allows numbers
    for first in range(0, len(frame), ROWS):
        yield _as_table(frame[columns][first : first + ROWS]).select(names)


def _hugging_face_tables(dataset: Any, source: Input, options: ReadOptions) -> Iterator[pa.Table]:
    """Yield the rows of a dataset of Hugging Face, which is mapped from its files."""
    names = select_fields(dataset.column_names, options, source)
    arrow = dataset.with_format("arrow")
    for first in range(0, len(dataset), ROWS):
        yield _with_class_names(arrow[first : first + ROWS].select(names), dataset)


def names_rows(frame: Any) -> bool:
    """Tell whether the index of a frame or series of pandas names its rows.

    It does if it has a name, or if its labels are distinct and not the row numbers.
    """
    index = getattr(frame, "index", None)
    if not hasattr(frame, "iloc") or index is None or index.nlevels > 1:
        return False
    if index.name is not None:
        return True
    return bool(index.is_unique) and not np.array_equal(index.to_numpy(), np.arange(len(index)))


def _with_index(frame: Any, options: ReadOptions) -> Any:
    """Add the index of a frame of pandas as a column of ids, if it names rows and there is none."""
    if not names_rows(frame):
        return frame
    name = options.id_field or "id"
    if name in frame.columns or (options.id_field not in (None, frame.index.name)):
        return frame
    return frame.assign(**{name: frame.index.astype(str)})


def _with_class_names(table: pa.Table, dataset: Any) -> pa.Table:
    """Replace the numbers of classes in rows of a Hugging Face dataset by their names.

    A negative number stands for a missing class (``ClassLabel``).
    """
    for i, name in enumerate(table.column_names):
        classes = getattr(dataset.features[name], "names", None)
        if classes is not None:
            class_numbers = pc.if_else(pc.less(table[name], 0), None, table[name])
            table = table.set_column(i, name, pc.take(pa.array(classes, TEXT), class_numbers))
    return table


def _as_table(frame: Any) -> pa.Table:
    """Convert a frame to a table.

    Raises
    ------
    InputError
        If the values of a column have several types.
    """
    try:
        try:
            if hasattr(frame, "__arrow_c_stream__"):
                return pa.RecordBatchReader.from_stream(frame).read_all()
            return pa.table(frame)
        except UnicodeEncodeError:  # a string with lone surrogates, which pandas allows
            return pa.table({str(name): clean_strings(frame[name]) for name in frame.columns})
    except pa.ArrowException as e:
        raise InputError(
            f"documents: {'; '.join(map(str, e.args))}; give its values one type, as by "
            f".astype(str)"
        ) from None
