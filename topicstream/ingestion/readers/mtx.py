"""Matrix Market coordinate files: rows are documents, columns words; entries sorted by row.

``integer`` and ``pattern`` matrices hold counts, ``real`` ones weights (float32 cells).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.reader import Piece, ReadOptions
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.parsing.triples import Header, check_header, parse_triples, split_triples
from topicstream.ingestion.parsing.vocabulary import numbered, words_for
from topicstream.tokens.documents import CountRun

_BANNER = re.compile(rb"%%MatrixMarket\s+matrix\s+(\w+)\s+(\w+)\s+([\w-]+)\s*?\n", re.IGNORECASE)
_SIZES = re.compile(rb"(?:(?:%[^\n]*|[ \t\r]*)\n)*[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*(\n|$)")


class MatrixMarket:
    name = "mtx"
    kind = "counts"
    about = "Matrix Market coordinate (rows = documents)"

    def header(self, source: Source) -> tuple[Header, int]:
        """Sizes and the length of the header; BadFile for a matrix that holds no documents by rows."""
        head = source.head()
        banner = _BANNER.match(head)
        if banner is None:
            raise BadFile(source.name, 1, "does not begin with %%MatrixMarket matrix …")
        layout, field, symmetry = (banner[i].decode().lower() for i in (1, 2, 3))
        if layout != "coordinate" or symmetry != "general" or field not in ("integer", "real", "pattern"):
            reason = f"a {layout} {field} {symmetry} matrix; coordinate integer, real or pattern general is read"
            raise BadFile(source.name, 1, reason)
        sizes = _SIZES.match(head, banner.end())
        if sizes is None:
            raise BadFile(source.name, 2, "no line 'rows columns entries' behind the comments")
        documents, words, cells = (int(sizes[i]) for i in (1, 2, 3))
        header = Header(documents, words, cells, 2 if field == "pattern" else 3, field == "real")
        check_header(source.name, 1 + head.count(b"\n", 0, sizes.start(1)), header)
        return header, sizes.end()

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        header, _ = self.header(source)
        found = words_for(source, options, header.words)
        return numbered(header.words, 1, source.name, options) if found is None else found

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        header, size = self.header(source)
        start = source.read(size)
        return split_triples(source, options, header, b"", 1 + start.count(b"\n"))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return parse_triples(piece, options)


READER = MatrixMarket()
