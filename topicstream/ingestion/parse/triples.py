"""Matrices as text: a header of sizes, then ``document word count``, a cell a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.counts import MOST_COUNT, matching, parsed_numbers
from topicstream.ingestion.parse.documents import lines_of
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.sparse import Matrix, MatrixReader, Part, Side

_WHOLE = r"[-+]?[0-9]{1,18}"
_REAL = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?"


@dataclass(frozen=True)
class MatrixHeader:
    """Header of a matrix file.

    Attributes
    ----------
    documents, words, cells
        Sizes of the matrix.
    fields
        Fields of a line. With two a line has no count, and each count is 1.
    real
        True if counts are decimal numbers.
    size
        Bytes of the header.
    """

    documents: int
    words: int
    cells: int
    fields: int = 3
    real: bool = False
    size: int = 0


def check_header(name: str, line: int, header: MatrixHeader) -> None:
    """Raise BadFile if the sizes cannot be true."""
    if header.words >= 2**31:
        raise BadFile(name, line, f"{header.words} words; at most 2147483647 are possible")
    if header.cells > header.documents * header.words:
        raise BadFile(
            name, line, f"{header.cells} cells do not fit {header.documents} x {header.words}"
        )
    if header.documents > 1_000_000 + 100 * header.cells:
        raise BadFile(
            name,
            line,
            f"{header.documents} documents for {header.cells} cells; is the header right?",
        )


class Triples:
    """Cells of a file with one a line: row and column, from 1, and count.

    Parameters
    ----------
    file
        File of the cells, behind its header.
    header
        Sizes and format of the file.
    ascending
        True if its rows have to ascend.
    """

    def __init__(self, file: Source, header: MatrixHeader, *, ascending: bool) -> None:
        self._file = file
        self._header = header
        self.cells = header.cells
        self.ascending = ascending

    def parts(self, source: Source, options: ReadOptions) -> Iterator[Part]:
        """Yield row, column and count of the cells that can be used.

        Raises
        ------
        BadFile
            If the file has another number of cells than its header says.
        """
        file = self._file
        header = self._header
        filled = 0
        least = 1
        for numbers, lines in lines_of(file, options, 1 + file.read(header.size).count(b"\n")):
            cells, used = _cells(
                file, options, header, numbers, lines, least if self.ascending else None
            )
            filled += used
            least = int(cells[-1, 0]) if len(cells) else least
            yield cells[:, 0].astype(np.int64) - 1, cells[:, 1].astype(np.int64) - 1, cells[:, 2]
        # before the documents without a cell at the end: a header of a few bytes may speak of
        # billions
        if filled != header.cells and not file.damage:
            reason = (
                f"{filled} cells where the header says {header.cells}; the file is truncated or "
                f"its header wrong"
            )
            raise BadFile(file.name, file.line, reason)


class TripleReader(MatrixReader):
    """A reader whose file begins with a header of sizes, in ASCII, followed by one cell a line."""

    def first_number(self, options: ReadOptions) -> int:
        return 1 if options.first_id is None else options.first_id

    def header(self, source: Source) -> MatrixHeader:
        """Read the sizes.

        Raises
        ------
        BadFile
            If the file does not begin with sizes.
        """
        raise NotImplementedError

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        header = self.header(source)
        cells = Triples(source, header, ascending=not options.transpose)
        first = self.first_number(options)
        documents = Side(header.documents, first=first, mark=":")
        matrix = Matrix(cells, True, documents, Side(header.words))
        yield from self.documents(source, options, matrix)


def _cells(
    source: Source,
    options: ReadOptions,
    header: MatrixHeader,
    numbers: np.ndarray,
    lines: list[bytes],
    first: int | None,
) -> tuple[np.ndarray, int]:
    """Return the good cells [c, 3] of some lines, and how many lines are not blank.

    ``first`` is the least document, from which on they have to ascend, or None for any order.
    """
    filled = matching(lines, r"[^ \t\r]")
    pattern = r"\s+".join([_WHOLE, _WHOLE, _REAL if header.real else _WHOLE][: header.fields])
    good = matching(lines, rf"^\s*{pattern}\s*$")
    if not good.all():
        for i in np.flatnonzero(filled & ~good).tolist():
            source.reject(int(numbers[i]), "not the numbers 'document word count'", lines[i])
        lines = [line for line, use in zip(lines, good) if use]
        numbers = numbers[good]
    cells = parsed_numbers(lines, header.real).reshape(-1, header.fields)
    if header.fields == 2:
        cells = np.column_stack((cells, np.ones(len(cells), cells.dtype)))
    base = 1 if options.first_id is None else options.first_id
    cells[:, :2] += 1 - base
    docs, words, counts = cells.T
    below = np.zeros(len(docs), docs.dtype)
    if first is not None:
        below = np.maximum.accumulate(
            np.concatenate(([first], np.where(docs <= header.documents, docs, first)))
        )[:-1]
    wrong = {
        f"document number {{0}} is out of range ({base} to {base - 1 + header.documents})": (
            (docs < 1) | (docs > header.documents)
        ),
        "a document out of order; sort the file by document (by row)": docs < below,
        f"word number {{1}} is out of range ({base} to {base - 1 + header.words})": (
            (words < 1) | (words > header.words)
        ),
        "a count that is negative or not finite": ~((counts >= 0) & (counts < MOST_COUNT)),
    }
    if header.real and not (options.weighted or options.binarize):
        wrong["a weight that is no count; --weighted accepts it, --binarize takes it for 1"] = (
            counts != np.floor(counts)
        ) | (counts > 9e15)
    bad = np.logical_or.reduce(list(wrong.values()))
    for i in np.flatnonzero(bad).tolist():
        reason = next(reason for reason, rows in wrong.items() if rows[i])
        in_file = [int(number) - 1 + base for number in (docs[i], words[i])]
        if base == 1 and min(in_file) == 0:
            reason += "; give --first-id 0 where the file counts from 0"
        source.reject(int(numbers[i]), reason.format(*in_file), lines[i])
    cells = cells[~bad]
    if header.real and not (options.weighted or options.binarize):
        cells = cells.astype(np.int64)  # counts, which R's writeMM writes as real
    return cells, int(filled.sum())
