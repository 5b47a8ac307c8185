"""What the formats of sparse matrices share: documents by rows or by columns, from matrices compressed along either.

A matrix that is compressed along its documents is read as it lies.  One that is compressed along its words is transposed out of
core: its cells go to ranges of documents, each small enough for memory, in scratch files; then range by range is put in order.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from topicstream.ingestion.opening.source import Input
from topicstream.ingestion.parsing.counts import MOST_COUNT, count_batch
from topicstream.ingestion.parsing.cut import most_records
from topicstream.ingestion.parsing.documents import TEXT, positions
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.read_options import ReadOptions

CELL = np.dtype([("document", np.int32), ("word", np.int32), ("count", np.float64)])
"""A cell in a scratch file; documents from the first one of the file's range."""
READ_CELLS = 1 << 20
"""Cells that are read at once."""


@dataclass(frozen=True)
class Compressed:
    """A matrix in compressed form, its arrays sliced where they lie (HDF5, Zarr, NumPy).

    Attributes
    ----------
    pointers
        int64[lines + 1]: where each line's cells begin.
    indices, values
        Arrays [cells] that can be sliced: position across the lines, and value.
    lines, across
        Number of lines that it is compressed along, and of positions across.
    """

    pointers: np.ndarray
    indices: Any
    values: Any
    lines: int
    across: int

    @property
    def cells(self) -> int:
        """Values that are held."""
        return int(self.values.shape[0])

    def check(self, name: str) -> None:
        """BadFile where the pointers do not divide the cells among the lines."""
        p = self.pointers
        ends = len(p) == self.lines + 1 and (not len(p) or (p[0] == 0 and p[-1] == self.cells))
        if not ends or (np.diff(p) < 0).any() or self.indices.shape[0] != self.cells:
            raise BadFile(name, 0, "the pointers of the sparse matrix do not fit its values; the file is damaged")

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(line, position, value) of each cell, line after line, some at a time."""
        first = 0
        while first < self.lines:
            limit = self.pointers[first] + READ_CELLS
            last = max(first + 1, int(np.searchsorted(self.pointers, limit, "right")) - 1)
            a, b = int(self.pointers[first]), int(self.pointers[last])
            line = np.repeat(np.arange(first, last), np.diff(self.pointers[first : last + 1]))
            yield line, np.asarray(self.indices[a:b], np.int64), np.asarray(self.values[a:b])
            first = last


class Dense:
    """A matrix that holds every entry, as one that is compressed along its rows.  values: an array [lines, across] that can be
    sliced."""

    def __init__(self, values: Any) -> None:
        self.values, (self.lines, self.across) = values, values.shape
        self.cells = self.lines * self.across

    def check(self, name: str) -> None:
        """All is where it has to be."""

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """As of ``Compressed``: the entries that are not 0."""
        step = max(1, READ_CELLS // max(self.across, 1))
        for first in range(0, self.lines, step):
            entries = np.asarray(self.values[first : first + step])
            line, position = np.nonzero(entries)
            yield line + first, position, entries[line, position]


@dataclass(frozen=True)
class Named:
    """Names along the documents, and metadata of the documents; ids None: their numbers.  Of a file among others, or in a
    folder, an id begins with the file's name."""

    ids: pa.Array | None = None
    meta: Mapping[str, pa.Array] | None = None

    def batch(
        self, source: Input, first: int, rows: np.ndarray, words: np.ndarray, counts: np.ndarray, size: int
    ) -> pa.RecordBatch:
        """The documents first .. first + size - 1; rows: int64[cells], ascending, from 0."""
        places = positions(source.key, np.arange(first, first + size), "#")
        ids = places if self.ids is None else self.ids.slice(first, size)
        if self.ids is not None and not source.alone:  # samples use the same barcodes
            ids = pc.binary_join_element_wise(pa.scalar(source.key, TEXT), ids, pa.scalar(":", TEXT))
            source.note("ids begin with the name of their file", size)
        meta = {name: column.slice(first, size) for name, column in (self.meta or {}).items()}
        return count_batch(source, ids, places, rows, words, counts, meta)


def matrix_batches(
    source: Input, options: ReadOptions, matrix: Compressed | Dense, by_line: bool, named: Named
) -> Iterator[pa.RecordBatch]:
    """The documents of a matrix.

    Parameters
    ----------
    matrix
        Checked here.
    by_line
        Whether its lines are the documents (else its positions across are).
    named
        Names and metadata of the documents.
    """
    matrix.check(source.name)
    documents, words = (matrix.lines, matrix.across) if by_line else (matrix.across, matrix.lines)
    parts = (
        (*((line, position) if by_line else (position, line)), as_counts(source, options, values))
        for line, position, values in matrix.parts()
    )
    if not by_line:
        yield from ordered_batches(source, options, parts, documents, words, matrix.cells, named)
        return
    first = 0
    for rows, columns, counts in parts:
        check_positions(source, columns, words, "word")
        last = max(first, int(rows[-1]) + 1) if len(rows) else first
        yield from _cut(source, options, named, first, last, rows, columns, counts)
        first = last
    yield from _cut(source, options, named, first, documents, *_NO_CELLS)


_NO_CELLS = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _cut(
    source: Input,
    options: ReadOptions,
    named: Named,
    first: int,
    last: int,
    rows: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
) -> Iterator[pa.RecordBatch]:
    """Documents first .. last - 1 of cells in their order, some at a time."""
    for begin in range(first, last, most_records(options)):
        end = min(begin + most_records(options), last)
        here = slice(*np.searchsorted(rows, (begin, end)))
        yield named.batch(source, begin, rows[here] - begin, words[here], counts[here], end - begin)


def ordered_batches(
    source: Input,
    options: ReadOptions,
    parts: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]],
    documents: int,
    words: int,
    cells: int,
    named: Named,
) -> Iterator[pa.RecordBatch]:
    """The documents of cells in any order, sorted out of core.

    Parameters
    ----------
    parts
        (document, word, count) of some cells at a time.
    cells
        About how many there are: it decides into how many ranges of documents they go.
    """
    ranges = max(1, min(documents, -(-cells * CELL.itemsize * 3 // max(options.piece_bytes, 1)), 512))
    edges = np.linspace(0, documents, ranges + 1).astype(np.int64)
    real = False
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(tempfile.TemporaryFile(dir=options.scratch)) for _ in range(ranges)]
        for rows, columns, counts in parts:
            check_positions(source, rows, documents, "document")
            check_positions(source, columns, words, "word")
            real |= counts.dtype.kind == "f"
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            cuts = np.searchsorted(rows, edges)
            sorted_cells = np.empty(len(rows), CELL)
            sorted_cells["document"] = rows - np.repeat(edges[:-1], np.diff(cuts))
            sorted_cells["word"], sorted_cells["count"] = columns[order], counts[order]
            for number in np.flatnonzero(np.diff(cuts)).tolist():
                files[number].write(sorted_cells[cuts[number] : cuts[number + 1]].tobytes())
        for number, file in enumerate(files):
            file.seek(0)
            part = np.frombuffer(file.read(), CELL)
            file.close()
            first, last = int(edges[number]), int(edges[number + 1])
            shape = (last - first, words)
            by_row = sparse.csr_array((part["count"], (part["document"], part["word"])), shape=shape).tocoo()
            counts = by_row.data if real else by_row.data.astype(np.int64)
            yield from _cut(source, options, named, first, last, by_row.row + first, by_row.col, counts)


def check_positions(source: Input, positions: np.ndarray, size: int, what: str) -> None:
    """BadFile where a cell lies outside of the matrix."""
    if len(positions) and not (positions.min() >= 0 and positions.max() < size):
        raise BadFile(source.name, 0, f"a {what} number out of range (there are {size:,}); the file is damaged")


def as_counts(source: Input, options: ReadOptions, values: np.ndarray) -> np.ndarray:
    """Values as counts (int64) or, with ``--weighted``, as weights (float32); with ``--binarize`` 1 where they are above 0.

    Raises
    ------
    BadFile
        At a value that is negative, not finite, or no count where weights are not accepted.
    """
    if values.dtype.kind not in "biuf":
        raise BadFile(source.name, 0, f"values of type {values.dtype}; counts are numbers")
    if (values.dtype.kind == "f" and not np.isfinite(values).all()) or (len(values) and values.min() < 0):
        raise BadFile(
            source.name, 0, "a value that is negative or not finite; give the matrix of counts (--layer NAME)"
        )
    if options.binarize:
        return (values > 0).astype(np.int64)
    if options.weighted:
        return values.astype(np.float32)
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        reason = "a value that is no count; give the matrix of counts (--layer NAME), --binarize, or --weighted"
        raise BadFile(source.name, 0, reason)
    if len(values) and values.max() >= min(MOST_COUNT, 2**63):
        raise BadFile(source.name, 0, "a count that is too large")
    return values.astype(np.int64)
