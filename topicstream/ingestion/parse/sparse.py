"""Matrices of counts: documents by rows or columns, cells in the order of either.

Cells that come in the order of the documents are read as they lie. Others are put in order out of
core: they go to ranges of documents, each small enough for memory, in scratch files; then range by
range is sorted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.ingestion.open.source import Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.counts import (
    MOST_COUNT,
    count_batch,
    numbered_words,
    words_for,
)
from topicstream.ingestion.parse.documents import (
    TEXT,
    empty_batch,
    most_records,
    positions,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

CELL = np.dtype([("document", np.int32), ("word", np.int32), ("count", np.float64)])
"""A cell in a scratch file; documents from the first one of the file's range."""
READ_CELLS = 1 << 20
"""Cells that are read at once."""
Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Some cells: line and position across int64[c], from 0, and count [c]."""


class MatrixCells(Protocol):
    """Cells of a matrix, line by line.

    Attributes
    ----------
    cells
        About how many cells there are.
    ascending
        True if the lines come in ascending order.
    """

    cells: int
    ascending: bool

    def parts(self, source: Source, options: ReadOptions) -> Iterator[Part]:
        """Yield all cells, some at a time.

        Raises
        ------
        BadFile
            If the values cannot be counts.
        """


class Compressed:
    """A matrix in compressed form, its arrays sliced where they lie (HDF5, Zarr, NumPy).

    Parameters
    ----------
    pointers
        First cell of each line, and the end, [lines + 1].
    indices, values
        Position across the lines and value of each cell: arrays that can be sliced.
    lines
        Number of lines.
    """

    ascending = True

    def __init__(self, pointers: Any, indices: Any, values: Any, lines: int) -> None:
        self.pointers = np.asarray(pointers[:], np.int64)
        self.indices = indices
        self.values = values
        self.lines = lines
        self.cells = int(values.shape[0])

    def parts(self, source: Source, options: ReadOptions) -> Iterator[Part]:
        """Yield the cells of one line after the other.

        Raises
        ------
        BadFile
            If the pointers do not divide the cells among the lines.
        """
        p = self.pointers
        first = 0
        consistent = (
            len(p) == self.lines + 1 and p[0] == 0 and p[-1] == self.cells == self.indices.shape[0]
        )
        if not consistent or (np.diff(p) < 0).any():
            raise BadFile(
                source.name,
                0,
                "the pointers of the sparse matrix do not fit its values; the file is damaged",
            )
        while first < self.lines:
            last = max(first + 1, int(np.searchsorted(p, p[first] + READ_CELLS, "right")) - 1)
            cells = slice(int(p[first]), int(p[last]))
            line = np.repeat(np.arange(first, last), np.diff(p[first : last + 1]))
            yield (
                line,
                np.asarray(self.indices[cells], np.int64),
                as_counts(source, options, np.asarray(self.values[cells])),
            )
            first = last


class Dense:
    """A matrix that holds every entry.

    Parameters
    ----------
    values
        Array [lines, across] that can be sliced.
    """

    ascending = True

    def __init__(self, values: Any) -> None:
        self.values = values
        self.cells = values.shape[0] * values.shape[1]

    def parts(self, source: Source, options: ReadOptions) -> Iterator[Part]:
        """Yield the entries that are not 0."""
        lines, across = self.values.shape
        step = max(1, READ_CELLS // max(across, 1))
        for first in range(0, lines, step):
            entries = np.asarray(self.values[first : first + step])
            line, position = np.nonzero(entries)
            yield line + first, position, as_counts(source, options, entries[line, position])


@dataclass(frozen=True)
class Side:
    """Names along the rows or the columns of a matrix.

    Attributes
    ----------
    size
        Number of rows or columns.
    names
        Their names, or None if they are called by their numbers.
    meta
        Metadata of each, should they be documents.
    first
        Number of the first one.
    mark
        Character before numbers in ids.
    """

    size: int
    names: pa.Array | None = None
    meta: Mapping[str, pa.Array] = field(default_factory=dict)
    first: int = 0
    mark: str = "#"

    def batch(
        self,
        source: Input,
        first: int,
        rows: np.ndarray,
        words: np.ndarray,
        counts: np.ndarray,
        size: int,
    ) -> pa.RecordBatch:
        """Make a batch of ``size`` documents from ``first`` on.

        An id that is a name begins with the name of its file if the file is one of several.

        Parameters
        ----------
        source
            File of the matrix.
        first, size
            First document, and number of documents.
        rows
            Document of each cell, ascending, from 0, int64[cells].
        words, counts
            Word and count of each cell.
        """
        numbers = np.arange(first + self.first, first + self.first + size)
        ids = (
            positions(source.key, numbers, self.mark)
            if self.names is None
            else self.names.slice(first, size)
        )
        if self.names is not None and not source.alone:  # samples use the same barcodes
            ids = pc.binary_join_element_wise(
                pa.scalar(source.key, TEXT), ids, pa.scalar(":", TEXT)
            )
            source.note("ids begin with the name of their file", size)
        meta = {name: column.slice(first, size) for name, column in self.meta.items()}
        return count_batch(
            source, ids, positions(source.key, numbers, "#"), rows, words, counts, meta
        )


@dataclass(frozen=True)
class Matrix:
    """Matrix in an open file.

    The rows are the documents, unless the matrix is transposed.

    Attributes
    ----------
    cells
        Cells of the matrix.
    by_row
        True if the lines of cells are rows, False if they are columns.
    rows, columns
        Names along the two sides.
    """

    cells: MatrixCells
    by_row: bool
    rows: Side
    columns: Side


class MatrixReader(Reader):
    """A reader of files that hold one matrix, of which it yields the ``documents``.

    Attributes
    ----------
    side_names
        Names of rows and columns in the note that says which are the documents. None for no note.
    shown
        Template of the shape in the note.
    first_word
        Number of the first word that has no name.
    """

    kind = "counts"
    side_names: ClassVar[tuple[str, ...]] = ("rows", "columns")
    shown: ClassVar[str] = "{:,} x {:,}"
    first_word: ClassVar[int] = 0

    def first_number(self, options: ReadOptions) -> int:
        """Return the number that the first word without a name has."""
        return self.first_word

    def documents(
        self, source: Source, options: ReadOptions, matrix: Matrix
    ) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a matrix, whose words are set."""
        cells = matrix.cells
        by_document = matrix.by_row != options.transpose
        documents = matrix.columns if options.transpose else matrix.rows
        words = matrix.rows if options.transpose else matrix.columns
        names = words_for(source, options, words.size) if words.names is None else words.names
        if names is None:
            names = numbered_words(source, words.size, self.first_number(options), options)
        source.words = names
        if self.side_names:
            name = self.side_names[options.transpose]
            shape = self.shown.format(matrix.rows.size, matrix.columns.size)
            source.note(f"{name} as documents, of {shape}, {cells.cells:,} values", documents.size)
        parts = (
            (line, position, counts) if by_document else (position, line, counts)
            for line, position, counts in cells.parts(source, options)
        )
        if by_document and cells.ascending:
            batches = _as_they_come(source, options, parts, documents, words.size)
        else:
            batches = ordered_batches(source, options, parts, documents, words.size, cells.cells)
        yielded = 0
        bytes_before = 0  # progress that putting cells in order has made before the first document
        for batch in batches:
            if not yielded:
                bytes_before = source.progress or 0
            yielded += len(batch)
            if source.size and yielded:  # the documents share the remaining bytes evenly
                bytes_left = source.size - bytes_before
                source.progress = bytes_before + bytes_left * yielded // documents.size
            yield batch


def _as_they_come(
    source: Input, options: ReadOptions, parts: Iterator[Part], documents: Side, words: int
) -> Iterator[pa.RecordBatch]:
    """Yield the documents of cells that come in their order.

    A damaged file yields the documents before the damage.
    """
    first = 0
    waiting = (np.zeros(0, np.int64),) * 3
    for part in parts:
        rows, columns, counts = (np.concatenate(pair) for pair in zip(waiting, part))
        check_positions(source, columns, words, "word")
        last = int(rows[-1]) if len(rows) else first  # it may go on in the next part
        cut = int(np.searchsorted(rows, last))
        yield from _cut(
            source, options, documents, first, last, rows[:cut], columns[:cut], counts[:cut]
        )
        first = last
        waiting = (rows[cut:], columns[cut:], counts[cut:])
    if not source.damage:
        yield from _cut(source, options, documents, first, documents.size, *waiting)


def _cut(
    source: Input,
    options: ReadOptions,
    documents: Side,
    first: int,
    last: int,
    rows: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
) -> Iterator[pa.RecordBatch]:
    """Yield the documents first .. last - 1 of cells in their order, some at a time."""
    for begin in range(first, last, most_records(options)):
        end = min(begin + most_records(options), last)
        cells = slice(*np.searchsorted(rows, (begin, end)))
        yield documents.batch(
            source, begin, rows[cells] - begin, words[cells], counts[cells], end - begin
        )


def ordered_batches(
    source: Input,
    options: ReadOptions,
    parts: Iterator[Part],
    documents: Side,
    words: int,
    cells: int,
) -> Iterator[pa.RecordBatch]:
    """Sort the documents of cells in any order, out of core.

    Yields an empty batch for each part that went to the scratch files, half of the progress.

    Parameters
    ----------
    source, options
        File of the cells, and options of its reader.
    parts
        Document, word and count of some cells at a time.
    documents
        Names of the documents.
    words
        Number of words.
    cells
        About how many cells there are, which decides into how many ranges of documents they go.
    """
    import scipy.sparse  # a tenth of a second, which texts need not spend

    # sorting a range takes three times its bytes
    needed = -(-cells * CELL.itemsize * 3 // max(options.piece_bytes, 1))
    ranges = max(1, min(documents.size, needed, 512))
    edges = np.linspace(0, documents.size, ranges + 1).astype(np.int64)
    real = False
    cells_read = 0
    with ExitStack() as opened:
        files = [
            opened.enter_context(tempfile.TemporaryFile(dir=options.scratch)) for _ in range(ranges)
        ]
        for rows, columns, counts in parts:
            check_positions(source, rows, documents.size, "document")
            check_positions(source, columns, words, "word")
            real |= counts.dtype.kind == "f"
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            cuts = np.searchsorted(rows, edges)
            sorted_cells = np.empty(len(rows), CELL)
            sorted_cells["document"] = rows - np.repeat(edges[:-1], np.diff(cuts))
            sorted_cells["word"] = columns[order]
            sorted_cells["count"] = counts[order]
            for number in np.flatnonzero(np.diff(cuts)).tolist():
                files[number].write(sorted_cells[cuts[number] : cuts[number + 1]].tobytes())
            cells_read += len(rows)
            if source.size:
                source.progress = source.size * min(cells_read, cells) // (2 * max(cells, 1))
                yield empty_batch("counts")
        for number, file in enumerate(files):
            file.seek(0)
            part = np.frombuffer(file.read(), CELL)
            file.close()
            first = int(edges[number])
            last = int(edges[number + 1])
            shape = (last - first, words)
            by_row = scipy.sparse.csr_array(
                (part["count"], (part["document"], part["word"])), shape=shape
            ).tocoo()
            counts = by_row.data if real else by_row.data.astype(np.int64)
            yield from _cut(
                source, options, documents, first, last, by_row.row + first, by_row.col, counts
            )


def is_matrix(documents: object) -> bool:
    """Tell whether documents are a matrix of SciPy, or of numbers in NumPy."""
    if isinstance(documents, np.ndarray):
        return documents.ndim == 2 and documents.dtype.kind in "biuf"
    return hasattr(documents, "tocsr")


def check_positions(source: Input, positions: np.ndarray, size: int, axis: str) -> None:
    """Raise BadFile if a cell lies outside of the matrix."""
    if len(positions) and not (positions.min() >= 0 and positions.max() < size):
        raise BadFile(
            source.name,
            0,
            f"a {axis} number out of range (there are {size:,}); the file is damaged",
        )


def as_counts(source: Input, options: ReadOptions, values: np.ndarray) -> np.ndarray:
    """Cast values to counts (int64) or, with ``--weighted``, to weights (float32).

    With ``--binarize`` they are 1 where they are above 0.

    Raises
    ------
    BadFile
        At a value that is negative, not finite, or no count where weights are not accepted.
    """
    if values.dtype.kind not in "biuf":
        raise BadFile(source.name, 0, f"values of type {values.dtype}; counts are numbers")
    if (values.dtype.kind == "f" and not np.isfinite(values).all()) or (
        len(values) and values.min() < 0
    ):
        raise BadFile(
            source.name,
            0,
            "a value that is negative or not finite; give the matrix of counts (--layer NAME)",
        )
    if options.binarize:
        return (values > 0).astype(np.int64)
    if options.weighted:
        return values.astype(np.float32)
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        reason = (
            "a value that is no count; give the matrix of counts (--layer NAME), --binarize, or "
            "--weighted"
        )
        raise BadFile(source.name, 0, reason)
    if len(values) and int(values.max()) >= min(MOST_COUNT, 2**63):
        raise BadFile(source.name, 0, "a count that is too large")
    return values.astype(np.int64)
