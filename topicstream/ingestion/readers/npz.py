"""NumPy's .npz: a sparse matrix that SciPy saved, its rows documents; or arrays of vectors, a row each (readers/dense_rows.py).

Arrays of Python objects are never read.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from topicstream.files.remote import address_of
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.reader import Reader
from topicstream.ingestion.parsing.rejects import BadFile
from topicstream.ingestion.parsing.sparse import Compressed, Named, matrix_batches
from topicstream.ingestion.parsing.vocabulary import numbered_words, words_for
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


class Npz(Reader):
    name = "npz"
    kind = "counts"
    about = "NumPy archives: a sparse matrix (scipy.sparse.save_npz), or a row a vector"
    suffixes = (".npz",)

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        if (shape := _sparse_shape(source)) is not None:
            size = shape[0] if options.transpose else shape[1]
            listed = words_for(source, options, size)
            return numbered_words(source, size, 0, options) if listed is None else listed
        _, header = next(_arrays(source))
        return coordinate_names(header.columns)

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        if (shape := _sparse_shape(source)) is not None:
            yield from _sparse_batches(source, options, shape)
            return
        record = 0
        for stream, header in _arrays(source):
            yield from header.batches(source, stream, options, record)
            record += header.rows


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


def _sparse_shape(source: Source) -> tuple[int, int] | None:
    """Rows and columns of a sparse matrix; None where the archive holds none."""
    if source.path is None or not zipfile.is_zipfile(source.path):
        return None
    try:
        with zipfile.ZipFile(source.path) as archive:
            if not {"shape.npy", "format.npy"} <= set(archive.namelist()):
                return None
            rows, columns = _Member(archive, "shape")[:].tolist()
            return rows, columns
    except (*BROKEN, ValueError, TypeError) as e:
        raise BadFile(source.name, 0, f"not a sparse matrix that can be read ({e})") from None


def _sparse_batches(source: Source, options: ReadOptions, shape: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    assert source.path is not None
    try:
        with zipfile.ZipFile(source.path) as archive, archive.open("format.npy") as stream:
            kind = np.lib.format.read_array(stream, allow_pickle=False).item()
            kind = kind.decode() if isinstance(kind, bytes) else kind
            if kind not in ("csr", "csc"):
                raise BadFile(source.name, 0, f"a sparse matrix in {kind} form; save it as CSR (matrix.tocsr())")
            lines, across = shape if kind == "csr" else shape[::-1]
            pointers = np.asarray(_Member(archive, "indptr")[:], np.int64)
            matrix = Compressed(pointers, _Member(archive, "indices"), _Member(archive, "data"), lines, across)
            what = "columns" if options.transpose else "rows"
            size = shape[int(options.transpose)]
            source.note(f"{what} as documents, of {shape[0]:,} x {shape[1]:,}, {matrix.cells:,} values", size)
            yield from matrix_batches(source, options, matrix, (kind == "csr") != options.transpose, Named())
    except (*BROKEN, ValueError, TypeError) as e:
        raise BadFile(source.name, 0, f"not a sparse matrix that can be read ({e})") from None


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
