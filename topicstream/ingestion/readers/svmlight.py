"""svmlight / libsvm: ``label word:weight … # comment`` a line, words from 1 (``--first-id 0`` for files from 0)."""

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


class SvmLight:
    name = "svmlight"
    kind = "counts"
    about = "svmlight / libsvm (label word:count …)"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        return words_of_pairs(source, options, _first(options))

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        words = self.words(source, options) if source.words is None else source.words
        return cut(source, options, last_line_break, about=(len(words), _first(options)))

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return parse_pairs(piece, options, ldac=False)


def _first(options: ReadOptions) -> int:
    return 1 if options.first_id is None else options.first_id


READER = SvmLight()
