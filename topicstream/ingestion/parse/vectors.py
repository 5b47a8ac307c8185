"""Vectors as documents: rows of numbers of one width, whose coordinates have names as words have.

Arrays of objects are never read: they are pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.errors import one_line
from topicstream.ingestion.open.source import Input
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    batch_of,
    ids_or_places,
    most_records,
    positions,
)
from topicstream.ingestion.parse.rejects import BadFile

MOST = 4096
"""Numbers of a vector: a full covariance of so many takes 128 MB."""


NO_HEADER = (
    ValueError,
    TypeError,
    LookupError,
    SyntaxError,
    EOFError,
    OverflowError,
    RecursionError,
    MemoryError,
    TokenError,
)
"""Errors that NumPy raises for a damaged header, which is a line of Python."""


def coordinate_names(width: int) -> pa.LargeStringArray:
    """Name the coordinates, in the order of their bytes too."""
    digits = len(str(width))
    return pa.array([f"x{i + 1:0{digits}}" for i in range(width)], pa.large_string())


def check_width(width: int, name: str) -> None:
    """Raise BadFile for vectors of no, or too many, numbers."""
    if not 0 < width <= MOST:
        raise BadFile(name, 0, f"vectors of {width} numbers; 1 to {MOST} are possible")


def rows_at_once(options: ReadOptions, width: int) -> int:
    """Return how many vectors make a batch: a number takes up to 16 bytes until it is spooled."""
    return max(1, min(most_records(options), options.piece_bytes // (16 * width)))


def vector_batch(
    source: Input,
    x: np.ndarray,
    numbers: np.ndarray,
    ids: pa.Array | None = None,
    meta: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Make documents of the rows of a matrix.

    Rows with NaN or numbers beyond float32 are rejected.

    Parameters
    ----------
    source
        Input of the rows.
    x
        Vectors, [D, n].
    numbers
        Number of each row in the input from 0, int64[D].
    ids
        Ids of the rows, None to call them by their numbers.
    meta
        Metadata columns by name.
    """
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    finite = np.isfinite(single)
    for row in np.flatnonzero(~finite.all(axis=1)).tolist():
        number = int(numbers[row])
        column = int(np.flatnonzero(~finite[row])[0])
        source.reject(number + 1, f"row {number}, column {column}: {x[row, column]} is no number")
    places = positions(source.key, numbers)
    names = places if ids is None else ids_or_places(source, ids, places)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(single.ravel()), x.shape[1])
    batch = batch_of(names, positions(source.key, numbers, "#"), {"vector": vectors}, meta or {})
    return batch.filter(pa.array(finite.all(axis=1)))


def npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an ``.npy`` array, whose numbers follow in the stream.

    Returns
    -------
    tuple
        Shape, True if in Fortran's order, and dtype.
    """
    version = np.lib.format.read_magic(stream)
    read_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    return read_header(stream)  # type: ignore[no-any-return,no-untyped-call,unused-ignore]


class ArrayHeader:
    """Header of an ``.npy`` array of rows of one width.

    Only the header is read.

    Parameters
    ----------
    stream
        File or stream that begins with the header.
    name
        Name of the file in messages.

    Attributes
    ----------
    rows, columns, dtype
        Shape and type of the array.

    Raises
    ------
    BadFile
        If it is no array of rows of numbers.
    """

    def __init__(self, stream: Any, name: str) -> None:
        try:
            shape, fortran, self.dtype = npy_header(stream)
        except NO_HEADER as e:
            raise BadFile(
                name,
                0,
                f"not an .npy file that can be read ({one_line(e)[:200] or type(e).__name__})",
            ) from None
        if self.dtype.hasobject:
            raise BadFile(
                name,
                0,
                "an array of Python objects, which only a pickle could hold; save an array of "
                "numbers",
            )
        if self.dtype.kind not in "fiu" or self.dtype.names is not None:
            raise BadFile(name, 0, f"an array of {self.dtype}; vectors are numbers")
        if len(shape) != 2 or min(shape) < 0:
            raise BadFile(
                name, 0, f"an array of shape {shape}; vectors are the rows of two dimensions"
            )
        if fortran and min(shape) > 1:
            raise BadFile(name, 0, "stored column by column; save np.ascontiguousarray of it")
        check_width(shape[1], name)
        self.name = name
        (self.rows, self.columns) = shape

    def batches(
        self, source: Input, stream: Any, options: ReadOptions, record: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows behind the header, of which ``record`` is the number of the first one.

        Raises
        ------
        BadFile
            If the stream ends before the last row.
        """
        step = rows_at_once(options, self.columns)
        for first in range(0, self.rows, step):
            rows = min(step, self.rows - first)
            data = stream.read(rows * self.columns * self.dtype.itemsize)
            if len(data) != rows * self.columns * self.dtype.itemsize:
                last_row = first + len(data) // (self.columns * self.dtype.itemsize)
                raise BadFile(
                    self.name, 0, f"ends in row {last_row} of {self.rows}; the file is truncated"
                )
            x = np.frombuffer(data, self.dtype).reshape(rows, self.columns)
            yield vector_batch(source, x, record + first + np.arange(rows))
