"""NumPy's .npz: a sparse matrix that SciPy saved, its rows documents; or arrays of vectors, a row each (readers/dense_rows.py).

Arrays of Python objects are never read.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import numpy as np
import pyarrow as pa

from topicstream.files.remote import address_of
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.sparse import Compressed, Matrix, MatrixReader, Side
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.dense_rows import ArrayHeader, coordinate_names

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
    name = "npz"
    about = "NumPy archives: a sparse matrix (scipy.sparse.save_npz), or a row a vector"
    suffixes = (".npz",)

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        if _is_sparse(source):
            yield from super().batches(source, options)
            return
        record = 0
        for stream, header in _arrays(source):
            source.words = coordinate_names(header.columns)
            yield from header.batches(source, stream, options, record)
            record += header.rows

    @contextmanager
    def opened(self, source: Source, options: ReadOptions) -> Iterator[Matrix]:
        assert source.path is not None
        try:
            with zipfile.ZipFile(source.path) as archive, archive.open("format.npy") as stream:
                rows, columns = _Member(archive, "shape")[:].tolist()
                kind = np.lib.format.read_array(stream, allow_pickle=False).item()
                kind = kind.decode() if isinstance(kind, bytes) else kind
                if kind not in ("csr", "csc"):
                    raise BadFile(source.name, 0, f"a sparse matrix in {kind} form; save it as CSR (matrix.tocsr())")
                pointers, indices, values = (_Member(archive, name) for name in ("indptr", "indices", "data"))
                held = Compressed(pointers, indices, values, rows if kind == "csr" else columns)
                yield Matrix(held, kind == "csr", Side(rows), Side(columns))
        except (*BROKEN, ValueError, TypeError) as e:
            raise BadFile(source.name, 0, f"not a sparse matrix that can be read ({e})") from None


class _Member:
    """A one-dimensional array of an archive, its slices read one after the other."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._name, self._stream, self._next = name, archive.open(f"{name}.npy"), 0
        version = np.lib.format.read_magic(self._stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, _, self._dtype = read(self._stream)
        if self._dtype.hasobject:
            raise ValueError(f"{name} holds Python objects")

    def __getitem__(self, part: slice) -> np.ndarray:
        first, last, _ = part.indices(self.shape[0])
        data = self._stream.read((last - first) * self._dtype.itemsize)
        if first != self._next or len(data) < (last - first) * self._dtype.itemsize:
            raise ValueError(f"{self._name} is truncated")
        self._next = last
        return np.frombuffer(data, self._dtype)


def _is_sparse(source: Source) -> bool:
    """Whether the archive holds a sparse matrix."""
    if source.path is None or not zipfile.is_zipfile(source.path):
        return False
    with suppress(*BROKEN), zipfile.ZipFile(source.path) as archive:
        return {"shape.npy", "format.npy"} <= set(archive.namelist())
    return False


def _arrays(source: Source) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    """Each array, open behind its header."""
    if source.path is None or address_of(source.path) is not None:
        raise BadFile(source.name, 0, "an .npz is read from a file on disk, not from standard input or an address; copy it first")
    width = 0
    try:
        with zipfile.ZipFile(source.path) as archive:
            for member in archive.namelist():
                with archive.open(member) as stream:
                    header = ArrayHeader(stream, f"{source.name}[{member}]")
                    if width and header.columns != width:
                        reason = f"vectors of {header.columns} numbers in {member}, of {width} in the first array"
                        raise BadFile(source.name, 0, reason)
                    width = header.columns
                    yield stream, header
    except BROKEN as e:
        raise BadFile(source.name, 0, f"not an .npz that can be read ({e or 'it is truncated'})") from None
    if not width:
        raise BadFile(source.name, 0, "holds no array")


READER = Npz()
