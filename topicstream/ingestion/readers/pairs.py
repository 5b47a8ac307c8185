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
    """Lines of pairs, parsed.

    Attributes
    ----------
    good
        True for a line that holds a document, bool[L].
    heads
        Text before the pairs of each document.
    lengths
        Number of pairs of each document, int64[D].
    cells
        Word and count of each pair, float64[c, 2].
    bad
        True for a line that neither holds a document nor is blank, bool[L].
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
        Number of the first word unless ``--first-id`` gives another.
    labelled
        True if a head is labels and counts may be weights; False if it is the number of pairs.
    line
        Regular expression of RE2 of a line that holds a document.
    blank
        Regular expression of RE2 of a line that holds none.
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
            pairs = self._parse_lines(lines)
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
                other_length = pairs.lengths != [int(head) for head in pairs.heads]
                reasons.update(dict.fromkeys(places[other_length].tolist(), NO_PAIRS))
            for row in sorted(reasons):
                source.reject(int(numbers[row]), reasons[row], lines[row])
            good = ~np.isin(places, list(reasons))
            is_used = good[owner]
            rows = (np.cumsum(good) - 1)[owner[is_used]]
            counts = counts[is_used] if weighted else counts[is_used].astype(np.int64)
            ids = positions(source.key, numbers[places[good]])
            meta = {}
            if self.labelled:
                heads = [head for head, use in zip(pairs.heads, good) if use]
                meta[LABELS] = pa.array([_split_labels(head) for head in heads], LIST)
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
                words = self._parse_lines(lines).cells[:, 0]
                highest = max(highest, int(words.max(initial=-1)))
        return numbered_words(source, highest - first + 1, first, options)

    def _why_outside(self, number: int, words: int, options: ReadOptions) -> str:
        """Explain why a word number is none, with what to do."""
        first = self._first(options)
        fault = (
            f"word number {number} is out of range: {counted(words, 'word')}, counted from {first}"
        )
        if number < first:
            return f"{fault}; give --first-id {number} where the file counts from {number}"
        if number == first + words:
            return f"{fault}; give --first-id {first + 1} where the file counts from {first + 1}"
        return f"{fault}; name the right file with --words"

    def _first(self, options: ReadOptions) -> int:
        """Return the number of the first word."""
        return self.first if options.first_id is None else options.first_id

    def _parse_lines(self, lines: list[bytes]) -> PairLines:
        """Parse lines into heads and pairs."""
        good = matching(lines, self.line)
        bad = ~good & ~matching(lines, self.blank)
        heads = []
        tails = []
        for line, use in zip(lines, good):
            if use:
                content = line.partition(b"#")[0].replace(b"\t", b" ").strip()
                head, _, tail = content.partition(b" ")
                heads.append(head)
                tails.append(_QID.sub(b"", b" " + tail))
        lengths = np.array([tail.count(b":") for tail in tails], np.int64)
        numbers = parsed_numbers([tail.replace(b":", b" ") for tail in tails], real=True)
        return PairLines(good, heads, lengths, numbers.reshape(-1, 2), bad)


def _split_labels(head: bytes) -> list[str]:
    """List the labels of a head, which commas part."""
    labels = head.decode("utf-8", "replace").split(",")
    return [label for label in labels if label]


_LDAC = re.compile(rb"^(\d{1,9})((?: +\d+:\d+)*)\s*$")


class LdaC(PairReader):
    """Reader of LDA-C: lines ``N word:count …`` with N pairs, words from 0."""

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
    """Reader of svmlight: lines ``label word:weight … # comment``, words from 1."""

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
