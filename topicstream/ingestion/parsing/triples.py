"""What the formats with one cell a line share: a header of sizes, then ``document word count`` in the order of documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.counts import MOST_COUNT, count_batch, matching, parsed_numbers
from topicstream.ingestion.parsing.cut import lines_of, most_records
from topicstream.ingestion.parsing.documents import positions
from topicstream.ingestion.parsing.reader import Reader
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.sparse import Named, ordered_batches
from topicstream.ingestion.parsing.vocabulary import numbered_words, words_for
from topicstream.ingestion.read_options import ReadOptions

_WHOLE = r"[-+]?[0-9]{1,18}"
_REAL = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?"


@dataclass(frozen=True)
class MatrixHeader:
    """D, W and NNZ as the file says; fields a line (2: no count, it is 1); whether counts are decimal numbers; the header's
    bytes."""

    documents: int
    words: int
    cells: int
    fields: int = 3
    real: bool = False
    size: int = 0


def check_header(name: str, line: int, header: MatrixHeader) -> None:
    """BadFile when the sizes cannot be true."""
    if header.words >= 2**31:
        raise BadFile(name, line, f"{header.words} words; at most 2147483647 are possible")
    if header.cells > header.documents * header.words:
        raise BadFile(name, line, f"{header.cells} cells do not fit {header.documents} x {header.words}")
    if header.documents > 1_000_000 + 100 * header.cells:
        raise BadFile(name, line, f"{header.documents} documents for {header.cells} cells; is the header right?")


class TripleReader(Reader):
    """A reader whose file begins with a header of sizes, in ASCII, followed by one cell a line."""

    kind = "counts"

    def header(self, source: Source) -> MatrixHeader:
        """The sizes; BadFile when there is none."""
        raise NotImplementedError

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        header = self.header(source)
        size = header.documents if options.transpose else header.words
        listed = words_for(source, options, size)
        return numbered_words(source, size, 1, options) if listed is None else listed

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        header = self.header(source)
        if options.transpose:
            cells = cells_of(source, options, header, transposed=True)
            documents, words = header.words, header.documents
            yield from ordered_batches(source, options, cells, documents, words, header.cells, Named())
            return
        waiting, filled = np.empty((0, 3), np.int64), 0
        done = 0  # documents that are read whole
        for numbers, lines in lines_of(source, options, 1 + source.read(header.size).count(b"\n")):
            more, used = _cells(source, options, header, numbers, lines, int(waiting[-1, 0]) if len(waiting) else done + 1)
            filled += used
            waiting = np.concatenate((waiting, more))
            last = int(waiting[-1, 0]) - 1 if len(waiting) else done
            if last > done:
                whole = np.searchsorted(waiting[:, 0], last, "right")
                yield from _documents(source, options, waiting[:whole], done, last)
                waiting, done = waiting[whole:], last
        # before the documents without a cell at the end: a header of a few bytes may speak of billions
        if _all_read(source, header, filled):
            yield from _documents(source, options, waiting, done, header.documents)


def cells_of(
    source: Source, options: ReadOptions, header: MatrixHeader, *, transposed: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(document, word, count) of cells in any order, numbers from 0; ``transposed``: documents are the columns."""
    filled = 0
    for numbers, lines in lines_of(source, options, 1 + source.read(header.size).count(b"\n")):
        cells, used = _cells(source, options, header, numbers, lines, None)
        filled += used
        rows, columns = cells[:, 0].astype(np.int64) - 1, cells[:, 1].astype(np.int64)
        yield (columns, rows, cells[:, 2]) if transposed else (rows, columns, cells[:, 2])
    _all_read(source, header, filled)


def _all_read(source: Source, header: MatrixHeader, filled: int) -> bool:
    """False where reading ended at damage; BadFile where the file has another number of cells than its header."""
    if source.damage:
        return False
    if filled != header.cells:
        reason = f"{filled} cells where the header says {header.cells}; the file is truncated or its header wrong"
        raise BadFile(source.name, source.line, reason)
    return True


def _cells(
    source: Source, options: ReadOptions, header: MatrixHeader, numbers: np.ndarray, lines: list[bytes], first: int | None
) -> tuple[np.ndarray, int]:
    """The good cells [c, 3] of some lines, words from 0, and how many lines are not blank.  first: the least document, from
    which on they have to ascend; None: in any order."""
    filled = matching(lines, r"[^ \t\r]")
    pattern = r"\s+".join([_WHOLE, _WHOLE, _REAL if header.real else _WHOLE][: header.fields])
    good = matching(lines, rf"^\s*{pattern}\s*$")
    if not good.all():
        for i in np.flatnonzero(filled & ~good).tolist():
            source.reject(int(numbers[i]), "not the numbers 'document word count'", lines[i])
        lines, numbers = [line for line, use in zip(lines, good) if use], numbers[good]
    cells = parsed_numbers(lines, header.real).reshape(-1, header.fields)
    if header.fields == 2:
        cells = np.column_stack((cells, np.ones(len(cells), cells.dtype)))
    docs, words, counts = cells.T
    below = np.zeros(len(docs), docs.dtype)
    if first is not None:
        below = np.maximum.accumulate(np.concatenate(([first], np.where(docs <= header.documents, docs, first))))[:-1]
    wrong = {
        f"document number out of range (1 to {header.documents})": (docs < 1) | (docs > header.documents),
        "a document out of order; sort the file by document (by row)": docs < below,
        f"word number out of range ({header.words} words)": (words < 1) | (words > header.words),
        "a count that is negative or not finite": ~((counts >= 0) & (counts < MOST_COUNT)),
    }
    bad = np.logical_or.reduce(list(wrong.values()))
    for i in np.flatnonzero(bad).tolist():
        source.reject(int(numbers[i]), next(reason for reason, rows in wrong.items() if rows[i]), lines[i])
    cells = cells[~bad] - np.array([0, 1, 0], cells.dtype)
    if header.real and not options.weighted and (cells == np.floor(cells)).all() and cells.max(initial=0) < 2**53:
        cells = cells.astype(np.int64)  # counts, which R's writeMM writes as real
    return cells, int(filled.sum())


def _documents(
    source: Source, options: ReadOptions, cells: np.ndarray, done: int, last: int
) -> Iterator[pa.RecordBatch]:
    """The documents done + 1 .. last, those without a cell included."""
    for first in range(done + 1, last + 1, most_records(options)):
        end = min(first + most_records(options), last + 1)
        docs, words, counts = cells[slice(*np.searchsorted(cells[:, 0], (first, end)))].T
        numbers = np.arange(first, end, dtype=np.int64)
        ids, sources = positions(source.key, numbers), positions(source.key, numbers, "#")
        yield count_batch(source, ids, sources, docs.astype(np.int64) - first, words, counts)
