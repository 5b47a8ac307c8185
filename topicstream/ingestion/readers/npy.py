"""Vectors: NumPy's .npy (also compressed), a row a vector.  Arrays of objects are never read: they are pickles."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.files.plain import array_header
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.cut import most_records, positions
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import CountRun, Provenance

MOST = 4096
"""Numbers of a vector: a full covariance of so many takes 128 MB."""


@dataclass(frozen=True)
class ArrayHeader:
    """Of one array: rows, columns, dtype as text, bytes before the numbers."""

    rows: int
    columns: int
    dtype: str
    size: int


def read_header(head: bytes, name: str) -> ArrayHeader:
    """BadFile where it is no array of numbers with rows of one width."""
    stream = io.BytesIO(head)
    try:
        shape, fortran, dtype = array_header(stream)
    except ValueError as e:
        raise BadFile(name, 0, f"not an .npy file that can be read ({e})") from None
    if dtype.hasobject:
        raise BadFile(name, 0, "an array of Python objects, which only a pickle could hold; save an array of numbers")
    if dtype.kind not in "fiu" or dtype.names is not None:
        raise BadFile(name, 0, f"an array of {dtype}; vectors are numbers")
    if len(shape) != 2:
        raise BadFile(name, 0, f"an array of shape {shape}; vectors are the rows of two dimensions")
    if fortran and min(shape) > 1:
        raise BadFile(name, 0, "stored column by column; save np.ascontiguousarray of it")
    check_width(shape, name)
    return ArrayHeader(*shape, dtype.str, stream.tell())


def check_width(shape: tuple[int, ...], name: str) -> None:
    """BadFile for vectors of no, or too many, numbers."""
    if not 0 < shape[1] <= MOST:
        raise BadFile(name, 0, f"vectors of {shape[1]} numbers; 1 to {MOST} are possible")


def names_of(columns: int) -> pa.LargeStringArray:
    """The coordinates' names, in the order of their bytes too."""
    wide = len(str(columns))
    return pa.array([f"x{i + 1:0{wide}}" for i in range(columns)], pa.large_string())


def vectors_run(
    x: np.ndarray,
    piece: Piece,
    rejects: Rejects,
    ids: pa.Array | None = None,
    meta: Mapping[str, pa.Array] | None = None,
    taken: np.ndarray | bool = True,
) -> CountRun:
    """Documents of all coordinates out of x: [D, n]; rows with NaN or beyond float32 are rejected, those that are not ``taken``
    have been."""
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    good = np.isfinite(single).all(axis=1)
    for row in np.flatnonzero(~good & taken).tolist():
        at = int(np.flatnonzero(~np.isfinite(single[row]))[0])
        rejects.add(
            piece.name, piece.record + row + 1, f"row {piece.record + row}, column {at}: {x[row, at]} is no number"
        )
    good &= taken
    numbers, kept = piece.record + np.flatnonzero(good), pa.array(good)
    single, n = single[good], x.shape[1]
    names = positions(piece.key, numbers) if ids is None else ids.filter(kept)
    of_kept = {name: values.filter(kept) for name, values in (meta or {}).items()}
    about = Provenance(ids=names, source=positions(piece.key, numbers, "#"), meta=of_kept)
    indptr = np.arange(len(single) + 1, dtype=np.int64) * n
    words = np.tile(np.arange(n, dtype=np.int32), len(single))
    return CountRun(about, indptr, words, single.ravel(), vectors=True)


class Npy:
    name = "npy"
    kind = "counts"
    about = "NumPy arrays, a row a vector"

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        source.encoding = "utf-8"  # bytes as they are
        return names_of(read_header(source.head(), source.name).columns)

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        source.encoding = "utf-8"
        header = read_header(source.head(), source.name)
        source.read(header.size)
        row = header.columns * np.dtype(header.dtype).itemsize
        # in memory a number takes eight bytes as it is spooled
        step = max(1, min(most_records(options), options.piece_bytes // (16 * header.columns)))
        for first in range(0, header.rows, step):
            rows = min(step, header.rows - first)
            data = source.read(rows * row)
            if len(data) != rows * row:
                reason = f"ends in row {first + len(data) // row} of {header.rows}; the file is cut short"
                raise BadFile(source.name, 0, reason)
            yield Piece(source.name, source.key, data, record=first, about=header)
        if source.read(1):
            raise BadFile(source.name, 0, f"holds more than the {header.rows} rows that it says")

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        rejects, header = Rejects(), piece.about
        x = np.frombuffer(piece.data, np.dtype(header.dtype)).reshape(-1, header.columns)
        return vectors_run(x, piece, rejects), rejects


READER = Npy()
