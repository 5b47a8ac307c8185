"""Parquet: one document a row, read a bounded number of rows at a time."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topicstream.base.places import places
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import as_documents, most_records, select_fields
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

BUFFER = 1 << 20
"""Bytes of a column that are read at once; without it Arrow reads the column of a whole row group.
"""
MOST_ROWS = 1 << 13
"""Rows decoded at once: a value that stands in a dictionary once may take far more memory than
file.
"""
BROKEN = (pa.ArrowException, OSError, ValueError, KeyError)


class Parquet(Reader):
    """Reader of Parquet files, a document a row."""

    name = "parquet"
    about = "Parquet, one document a row"
    suffixes = (".parquet",)
    signature = re.compile(b"PAR1")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        with open_parquet(source) as file:
            names = select_fields(file.schema_arrow.names, options, source)
            for first, rows in row_batches(source, file, names, options):
                numbers = np.arange(first + 1, first + 1 + len(rows), dtype=np.int64)
                yield as_documents(
                    source, options, dict(zip(rows.schema.names, rows.columns)), numbers, mark="#"
                )


@contextmanager
def seekable(source: Source) -> Iterator[Any]:
    """Open what a library that goes to and fro in a file can read.

    It is the path, an object read by ranges, or a copy of what is compressed as a whole or comes
    from a stream.
    """
    if source.path is not None and not source.as_bytes().compressed:
        source.close()
        yield places().open_file(source.path)
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(source.as_bytes(), copy, 1 << 20)
        copy.seek(0)
        yield copy


@contextmanager
def open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file."""
    with seekable(source) as place:
        try:
            yield pq.ParquetFile(place, buffer_size=BUFFER, pre_buffer=False)
        except BROKEN as e:
            raise BadFile(
                source.name, 0, f"not a whole Parquet file ({str(e).splitlines()[0][:200]})"
            ) from None


def row_batches(
    source: Source, file: pq.ParquetFile, names: list[str], options: ReadOptions
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield about ``piece_bytes`` of rows, and the number of the first one, from 0."""
    total = max(file.metadata.num_rows, 1)
    size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups))
    step = max(
        1, min(MOST_ROWS, most_records(options), options.piece_bytes * total // max(size, 1))
    )
    first = 0
    for batch in file.iter_batches(step, columns=names, use_threads=False):
        for rows in sliced(batch, options):
            source.progress = (source.size or 0) * (first + len(rows)) // total
            yield first, rows
            first += len(rows)


def sliced(batch: pa.RecordBatch, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of about ``piece_bytes``."""
    step = max(
        1, min(most_records(options), options.piece_bytes * len(batch) // max(batch.nbytes, 1))
    )
    for first in range(0, len(batch), step):
        yield batch.slice(first, step)


READER = Parquet()
