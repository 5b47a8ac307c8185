"""UCI bag of words: three header lines D, W, NNZ, then ``document word count`` a line, numbers from 1."""

from __future__ import annotations

import re

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.triples import MatrixHeader, TripleReader, check_header

_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})[ \t\r]*(\n|$)")
_NEGATIVE = re.compile(rb"\s*-?\d+\s+-?\d+\s+-?\d+[ \t\r]*(\n|$)")
_HEADER_BYTES = 4096


class Docword(TripleReader):
    name = "docword"
    about = "UCI bag of words (docword.txt with its vocab.txt)"

    def header(self, source: Source) -> tuple[MatrixHeader, int]:
        """The sizes and the length of the header in bytes; BadFile when there is none."""
        found = _HEADER.match(source.head(_HEADER_BYTES))
        if found is None and _NEGATIVE.match(source.head(_HEADER_BYTES)):
            raise BadFile(source.name, 1, "the header's D, W and NNZ must be numbers from 0 on")
        if found is None:
            raise BadFile(source.name, 1, "does not begin with three lines D, W, NNZ (UCI bag of words)")
        header = MatrixHeader(int(found[1]), int(found[2]), int(found[3]))
        check_header(source.name, 1, header)
        return header, found.end()


READER = Docword()
