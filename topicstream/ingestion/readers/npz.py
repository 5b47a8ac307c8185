"""NumPy's .npz: a sparse matrix of SciPy, or arrays of vectors.

Rows are documents. Arrays of Python objects are never read.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parse.sparse import Compressed, Matrix, MatrixReader, Side
from topicstream.ingestion.parse.vectors import ArrayHeader, coordinate_names, npy_header
from topicstream.ingestion.readers.parquet import seekable

BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    UnicodeDecodeError,
)


class Npz(MatrixReader):
    """Reader of NumPy archives of a sparse matrix, or of dense rows."""

    name = "npz"
    about = "NumPy archives: a sparse matrix (scipy.sparse.save_npz), or a row a vector"
    suffixes = (".npz",)

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        try:
            with seekable(source) as place, zipfile.ZipFile(place) as archive:
                if {"shape.npy", "format.npy"} <= set(archive.namelist()):
                    yield from self.documents(source, options, _matrix(source.name, archive))
                else:
                    yield from _vectors(source, options, archive)
        except (*BROKEN, KeyError, ValueError, TypeError) as e:
            raise BadFile(
                source.name,
                0,
                f"not an .npz that can be read ({e or 'it is truncated'}); get it again",
            ) from None


def _matrix(name: str, archive: zipfile.ZipFile) -> Matrix:
    """Read a sparse matrix as SciPy saves it."""
    rows, columns = _Member(archive, "shape")[:].tolist()
    with archive.open("format.npy") as stream:
        kind = np.lib.format.read_array(stream, allow_pickle=False).astype(str).item()
    if kind not in ("csr", "csc"):
        raise BadFile(name, 0, f"a sparse matrix in {kind} form; save it as CSR (matrix.tocsr())")
    pointers, indices, values = (
        _Member(archive, member) for member in ("indptr", "indices", "data")
    )
    cells = Compressed(pointers, indices, values, rows if kind == "csr" else columns)
    return Matrix(cells, kind == "csr", Side(rows), Side(columns))


class _Member:
    """A one-dimensional array of an archive, its slices read one after the other."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._name = name
        self._stream = archive.open(f"{name}.npy")
        self._next = 0
        self.shape, _, self._dtype = npy_header(self._stream)
        if self._dtype.hasobject:
            raise ValueError(f"{name} holds Python objects")

    def __getitem__(self, part: slice) -> np.ndarray:
        first, last, _ = part.indices(self.shape[0])
        data = self._stream.read((last - first) * self._dtype.itemsize)
        if first != self._next or len(data) < (last - first) * self._dtype.itemsize:
            raise ValueError(f"{self._name} is truncated")
        self._next = last
        return np.frombuffer(data, self._dtype)


def _vectors(
    source: Source, options: ReadOptions, archive: zipfile.ZipFile
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all arrays as documents."""
    width = record = 0
    for member in archive.namelist():
        with archive.open(member) as stream:
            header = ArrayHeader(stream, f"{source.name}[{member}]")
            if width and header.columns != width:
                raise BadFile(
                    source.name,
                    0,
                    f"vectors of {header.columns} numbers in {member}, of {width} in the first "
                    f"array",
                )
            width = header.columns
            source.words = coordinate_names(width)
            yield from header.batches(source, stream, options, record)
            record += header.rows
    if not width:
        raise BadFile(source.name, 0, "holds no array")


READER = Npz()
