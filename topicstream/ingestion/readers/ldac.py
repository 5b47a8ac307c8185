"""LDA-C: one document a line, ``N word:count …`` with N pairs, words from 0."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import cut, last_line_break
from topicstream.ingestion.parsing.pairs import parse_pairs, words_of_pairs
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import CountRun


class LdaC:
    name = "ldac"
    kind = "counts"
    about = "LDA-C (N word:count …) with its vocabulary"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        return words_of_pairs(source, options, options.first_id or 0)

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        words = self.words(source, options) if source.words is None else source.words
        return cut(source, options, last_line_break, about=(len(words), options.first_id or 0))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return parse_pairs(piece, options, ldac=True)


READER = LdaC()
