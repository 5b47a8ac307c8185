"""One document a line of ``number:count`` pairs: LDA-C and svmlight."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.text import counted
from topicstream.corpus.format import LABELS
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.counts import (
    MOST_COUNT,
    count_batch,
    first_lines,
    matching,
    numbered_words,
    parsed_numbers,
    words_for,
)
from topicstream.ingestion.parse.documents import LIST, lines_of, positions
from topicstream.ingestion.parse.reader import Reader

PAIR = r"[0-9]{1,18}:[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?"
NO_PAIRS = "not 'number:count' pairs, or not as many as the line says"
_QID = re.compile(rb"\sqid:\S*")


class PairLines(NamedTuple):
    """Lines taken apart.

    bool[L], which hold a document; of those, the heads, numbers of pairs int64[D], and the pairs
    float64[c, 2]; bool[L], which are neither that nor blank.
    """

    good: np.ndarray
    heads: list[bytes]
    lengths: np.ndarray
    cells: np.ndarray
    bad: np.ndarray


class PairReader(Reader):
    """A reader of lines of pairs, each behind a head of its own: a number of pairs, or a label.

    Attributes
    ----------
    first
        The number of the first word where the user does not say it.
    labelled
        Whether a head is labels (its counts may be weights), not the number of pairs.
    line
        A regular expression (of RE2) of a line that holds a document; ``blank`` of one that holds
        none.
    """

    kind = "counts"
    first: ClassVar[int]
    labelled: ClassVar[bool] = False
    line: ClassVar[str]
    blank: ClassVar[str] = r"^\s*$"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        source.words = self._words(source, options)
        weighted = self.labelled and options.weighted
        for numbers, lines in lines_of(source, options):
            pairs = self._taken_apart(lines)
            owner = np.repeat(np.arange(len(pairs.heads)), pairs.lengths)
            words = pairs.cells[:, 0] - self._first(options)
            counts = pairs.cells[:, 1]
            wrong = {
                "a count that is negative or not finite": ~((counts >= 0) & (counts < MOST_COUNT)),
            }
            if not weighted:
                wrong["a weight that is no count; --weighted accepts it"] = (
                    counts != np.floor(counts)
                ) | (counts > 9e15)
            places = np.flatnonzero(pairs.good)
            reasons = dict.fromkeys(np.flatnonzero(pairs.bad).tolist(), NO_PAIRS)
            for reason, cells in reversed(wrong.items()):
                reasons.update(dict.fromkeys(places[owner[cells]].tolist(), reason))
            outside = np.flatnonzero((words < 0) | (words >= len(source.words)))[::-1]
            for place, number in zip(places[owner[outside]].tolist(), pairs.cells[outside, 0]):
                reasons[place] = self._why_outside(int(number), len(source.words), options)
            if not self.labelled:
                reasons.update(
                    dict.fromkeys(
                        places[pairs.lengths != [int(head) for head in pairs.heads]].tolist(),
                        NO_PAIRS,
                    )
                )
            for row in sorted(reasons):
                source.reject(int(numbers[row]), reasons[row], lines[row])
            good = ~np.isin(places, list(reasons))
            is_used = good[owner]
            rows = (np.cumsum(good) - 1)[owner[is_used]]
            counts = counts[is_used] if weighted else counts[is_used].astype(np.int64)
            ids = positions(source.key, numbers[places[good]])
            heads = (head.decode("utf-8", "replace") for head, use in zip(pairs.heads, good) if use)
            meta = (
                {LABELS: pa.array([list(filter(None, head.split(","))) for head in heads], LIST)}
                if self.labelled
                else {}
            )
            yield count_batch(source, ids, ids, rows, words[is_used].astype(np.int64), counts, meta)

    def _words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        """Return the vocabulary given or beside the file.

        Else numbers up to the highest, for which the file is read once.
        """
        listed = words_for(source, options, None)
        if listed is not None:
            return listed
        if source.path is None:
            raise InputError("standard input has no file of words next to it; give one as --words")
        first = self._first(options)
        highest = -1
        with Source(source.name, source.path, encoding=options.encoding, strict=False) as again:
            for _, lines in lines_of(again, options):
                highest = max(highest, int(self._taken_apart(lines).cells[:, 0].max(initial=-1)))
        return numbered_words(source, highest - first + 1, first, options)

    def _why_outside(self, number: int, words: int, options: ReadOptions) -> str:
        """Say why a word number is none, and what to do."""
        first = self._first(options)
        said = (
            f"word number {number} is out of range: {counted(words, 'word')}, counted from {first}"
        )
        if number < first:
            return f"{said}; give --first-id {number} where the file counts from {number}"
        if number == first + words:
            return f"{said}; give --first-id {first + 1} where the file counts from {first + 1}"
        return f"{said}; name the right file with --words"

    def _first(self, options: ReadOptions) -> int:
        return self.first if options.first_id is None else options.first_id

    def _taken_apart(self, lines: list[bytes]) -> PairLines:
        good = matching(lines, self.line)
        bad = ~good & ~matching(lines, self.blank)
        heads = []
        rests = []
        for line, use in zip(lines, good):
            if use:
                head, _, rest = line.partition(b"#")[0].replace(b"\t", b" ").strip().partition(b" ")
                heads.append(head)
                rests.append(_QID.sub(b"", b" " + rest))
        lengths = np.array([rest.count(b":") for rest in rests], np.int64)
        cells = parsed_numbers([rest.replace(b":", b" ") for rest in rests], real=True).reshape(
            -1, 2
        )
        return PairLines(good, heads, lengths, cells, bad)


_LDAC = re.compile(rb"^(\d{1,9})((?: +\d+:\d+)*)\s*$")


class LdaC(PairReader):
    """``N word:count …`` with N pairs, words from 0."""

    name = "ldac"
    about = "LDA-C (N word:count …) with its vocabulary"
    suffixes = (".ldac", ".lda-c")
    first = 0
    line = rf"^\s*[0-9]{{1,18}}(\s+{PAIR})*\s*$"

    def resembles(self, head: bytes) -> bool:
        lines = first_lines(head)
        parts = [_LDAC.match(line) for line in lines]
        return any(b":" in line for line in lines) and all(
            p and int(p[1]) == p[2].count(b":") for p in parts
        )


_SVMLIGHT = re.compile(rb"^[-+]?[\w.,+-]*(?: +(?:qid|\d+):[-+.\deE]+)+\s*(?:#.*)?$")


class SvmLight(PairReader):
    """``label word:weight … # comment``, words from 1 (``--first-id 0`` for files from 0)."""

    name = "svmlight"
    about = "svmlight / libsvm (label word:count …)"
    suffixes = (".svm", ".svmlight", ".libsvm")
    first = 1
    labelled = True
    line = rf"^\s*[^\s#]\S*(\s+(qid:\S*|{PAIR}))*\s*(#.*)?$"
    blank = r"^\s*(#.*)?$"

    def resembles(self, head: bytes) -> bool:
        lines = first_lines(head)
        return (
            bool(lines)
            and lines[0][:1] != b"#"
            and all(_SVMLIGHT.match(x) for x in lines if x[:1] != b"#")
        )


LDAC = LdaC()
SVMLIGHT = SvmLight()
