"""Our own Parquet files, read by row groups or whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from topicstream.files.plain import arrow_file, open_plain

if TYPE_CHECKING:
    import pyarrow as pa


def batches(path: str | os.PathLike[str], columns: list[str] | None, rows: int = 1 << 18) -> Iterator[pa.RecordBatch]:
    """Record batches of at most ``rows`` rows; columns that are not there are left out (None: all of them).

    Raises FileNotFoundError, OSError, ValueError, KeyError or ArrowException where the file is missing or damaged.
    """
    import pyarrow.parquet as pq

    with open(open_plain(path), "rb") as raw, pq.ParquetFile(arrow_file(raw), pre_buffer=False) as file:
        names = file.schema_arrow.names
        wanted = names if columns is None else [c for c in columns if c in names]
        for group in range(file.num_row_groups):  # a group at a time: no more is held
            yield from file.iter_batches(rows, row_groups=[group], columns=wanted)


def read_words(path: str | os.PathLike[str], columns: list[str]) -> pa.Table:
    """The columns of a vocabulary's file as a ``pyarrow.Table``; raises as ``batches`` does."""
    import pyarrow.parquet as pq

    with open(open_plain(path), "rb") as raw, pq.ParquetFile(arrow_file(raw), pre_buffer=False) as file:
        return file.read(columns=columns)
