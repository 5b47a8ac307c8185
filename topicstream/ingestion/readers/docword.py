"""UCI bag of words: lines D, W, NNZ, then ``document word count`` a line, from 1."""

from __future__ import annotations

import re

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.parse.counts import first_lines
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.triples import MatrixHeader, TripleReader, check_header

_HEADER = re.compile(rb"\s*(\d{1,18})\s+(\d{1,18})\s+(\d{1,18})[ \t\r]*(\n|$)")
_NEGATIVE = re.compile(rb"\s*-?\d+\s+-?\d+\s+-?\d+[ \t\r]*(\n|$)")


class Docword(TripleReader):
    """Reader of the UCI bag of words: document, word and count a line."""

    name = "docword"
    about = "UCI bag of words (docword.txt with its vocab.txt)"
    side_names = ()

    def resembles(self, head: bytes) -> bool:
        lines = first_lines(head)
        triples = [bool(re.match(rb"^\s*\d+\s+\d+\s+-?\d+\s*$", x)) for x in lines[3:20]]
        # a header with negative sizes is one too, and ``header`` says what is wrong with it
        sizes = [re.match(rb"^\s*(-?)\d+\s*$", x) for x in lines[:3]]
        return (
            len(lines) >= 3
            and all(sizes)
            and all(triples)
            and bool(triples or not any(x and x[1] for x in sizes))
        )

    def header(self, source: Source) -> MatrixHeader:
        head = source.head(4096)
        sizes = _HEADER.match(head)
        if sizes is None and _NEGATIVE.match(head):
            raise BadFile(source.name, 1, "the header's D, W and NNZ must be numbers from 0 on")
        if sizes is None:
            raise BadFile(
                source.name, 1, "does not begin with three lines D, W, NNZ (UCI bag of words)"
            )
        header = MatrixHeader(int(sizes[1]), int(sizes[2]), int(sizes[3]), size=sizes.end())
        check_header(source.name, 1, header)
        return header


READER = Docword()
