"""Text whose documents are paragraphs: an empty line ends one.

Files called ``*.para`` are known by their name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import batch_of, lines_of
from topicstream.ingestion.parse.reader import Reader


class Paragraphs(Reader):
    name = "paragraphs"
    about = "text, a document a paragraph"
    suffixes = (".para",)

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        lines = (
            pair
            for numbers, part in lines_of(source, options)
            for pair in zip(numbers.tolist(), part)
        )
        ids = []
        texts = []
        size = 0
        for filled, paragraph in groupby(lines, lambda pair: bool(pair[1].strip())):
            if filled:
                number, text = next(paragraph)
                text = b"\n".join([text, *(line for _, line in paragraph)]).decode(
                    "utf-8", "replace"
                )
                ids.append(f"{source.key}:{number}")
                texts.append(text)
                size += len(text)
            if size >= options.piece_bytes:
                yield batch_of(ids, ids, {"text": pa.array(texts, pa.large_string())}, {})
                ids = []
                texts = []
                size = 0
        yield batch_of(ids, ids, {"text": pa.array(texts, pa.large_string())}, {})


PARAGRAPHS = Paragraphs()
