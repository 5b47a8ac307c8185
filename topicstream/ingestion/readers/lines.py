"""Text with one document a line: the line alone, or MALLET's ``id label text``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from topicstream.corpus.format import LABELS
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    LIST,
    TEXT,
    as_documents,
    batch_of,
    lines_of,
    positions,
    why_not_utf8,
)
from topicstream.ingestion.parse.reader import Reader


class Lines(Reader):
    """Text with a document a line.

    An empty line is an empty document; the id is ``file:line``.
    """

    name = "lines"
    about = "text, one document a line"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        plain = replace(options, text_field="text", id_field=None, meta={})
        for numbers, lines in lines_of(source, options):
            batch = as_documents(
                source, plain, {"text": pa.array(lines, pa.large_binary())}, numbers
            )
            if options.format is None and source.path is not None:
                source.note(
                    "lines, each a document (--format files makes each file one)", len(batch)
                )
            yield batch


class Mallet(Reader):
    """Id, label and text are separated by blanks."""

    name = "mallet"
    about = "MALLET's lines: id, label, text"
    suffixes = (".mallet",)

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        for numbers, lines in lines_of(source, options):
            rows = []
            for number, line in zip(numbers.tolist(), lines):
                parts = line.split(None, 2)
                reason = why_not_utf8(line) or (
                    "not 'id label text'; give --format lines for text alone"
                    if len(parts) == 1
                    else None
                )
                if reason is not None:
                    source.reject(number, reason, line)
                elif parts:
                    rows.append((number, *(part.decode() for part in [*parts, b""][:3])))
            places = positions(source.key, np.array([row[0] for row in rows], np.int64))
            text = pa.array([row[3] for row in rows], TEXT)
            yield batch_of(
                [row[1] for row in rows],
                places,
                {"text": text},
                {LABELS: pa.array([[row[2]] for row in rows], LIST)},
            )


LINES = Lines()
MALLET = Mallet()
