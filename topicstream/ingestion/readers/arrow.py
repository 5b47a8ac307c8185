"""Arrow files (Feather, version 2): one document a row, read a record batch at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import as_documents, select_fields
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.readers.parquet import BROKEN, seekable, sliced


class Arrow(Reader):
    """Reader of Arrow files and streams, a document a row."""

    name = "arrow"
    about = "Arrow (Feather), one document a row"
    suffixes = (".arrow", ".feather")
    signature = re.compile(b"ARROW1")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in _record_batches(source, options):
            for rows in sliced(batch, options):
                numbers = np.arange(first + 1, first + 1 + len(rows), dtype=np.int64)
                yield as_documents(
                    source, options, dict(zip(rows.schema.names, rows.columns)), numbers, mark="#"
                )
                first += len(rows)


def _record_batches(source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a file, with the columns that are asked for."""
    try:
        with (
            seekable(source) as place,
            pa.ipc.open_file(pa.OSFile(str(place)) if isinstance(place, Path) else place) as file,
        ):
            names = select_fields(file.schema.names, options, source)
            for number in range(file.num_record_batches):
                batch = file.get_batch(number).select(names)
                batch.validate(full=True)  # offsets out of bounds would end the process
                source.progress = (source.size or 0) * (number + 1) // file.num_record_batches
                yield batch
    except BROKEN as e:
        raise BadFile(
            source.name, 0, f"not a whole Arrow file ({str(e).splitlines()[0][:200]})"
        ) from None


READER = Arrow()
