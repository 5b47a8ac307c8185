"""UCI bag of words: three header lines D, W, NNZ, then ``document word count`` a line, numbers from 1."""

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

_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})[ \t\r]*(\n|$)")
_NEGATIVE = re.compile(rb"\s*-?\d+\s+-?\d+\s+-?\d+[ \t\r]*(\n|$)")
_HEADER_BYTES = 4096


class Docword:
    name = "docword"
    kind = "counts"
    about = "UCI bag of words (docword.txt with its vocab.txt)"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        header, _ = self.header(source)
        found = words_for(source, options, header.words)
        return numbered(header.words, 1, source.name, options) if found is None else found

    def header(self, source: Source) -> tuple[Header, int]:
        """The sizes and the length of the header in bytes; BadFile when there is none."""
        found = _HEADER.match(source.head(_HEADER_BYTES))
        if found is None and _NEGATIVE.match(source.head(_HEADER_BYTES)):
            raise BadFile(source.name, 1, "the header's D, W and NNZ must be numbers from 0 on")
        if found is None:
            raise BadFile(source.name, 1, "does not begin with three lines D, W, NNZ (UCI bag of words)")
        header = Header(int(found[1]), int(found[2]), int(found[3]))
        check_header(source.name, 1, header)
        return header, found.end()

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        header, size = self.header(source)
        start = source.read(size)
        return split_triples(source, options, header, b"", 1 + start.count(b"\n"))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return parse_triples(piece, options)


READER = Docword()
