"""Vectors: NumPy's .npz, the rows of all its arrays one after the other; objects are never read (readers/npy.py)."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from topicstream.ingestion.opening.source import HEAD_BYTES, Source
from topicstream.ingestion.parsing.cut import most_records
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.readers.npy import READER as NPY
from topicstream.ingestion.readers.npy import ArrayHeader, names_of, read_header
from topicstream.tokens.documents import CountRun

BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, UnicodeDecodeError)


class Npz:
    name = "npz"
    kind = "counts"
    about = "NumPy archives, a row a vector"

    def _arrays(self, source: Source) -> Iterator[tuple[IO[bytes], str, ArrayHeader]]:
        """Each array, open behind its header."""
        if source.path is None:
            raise BadFile(source.name, 0, "an .npz is read from a plain file, not from standard input")
        width = 0
        try:
            with zipfile.ZipFile(source.path) as archive:
                for member, info in zip(archive.namelist(), archive.infolist(), strict=True):
                    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # LZMA may ask for 4 GB
                        raise BadFile(source.name, 0, f"{member} is compressed as NumPy does not; save it with np.savez_compressed")
                    with archive.open(member) as f:
                        header = read_header(f.read(HEAD_BYTES), f"{source.name}[{member}]")
                    if width and header.columns != width:
                        reason = f"vectors of {header.columns} numbers in {member}, of {width} in the first array"
                        raise BadFile(source.name, 0, reason)
                    width = header.columns
                    with archive.open(member) as f:
                        f.read(header.size)
                        yield f, member, header
        except BROKEN as e:
            raise BadFile(source.name, 0, f"not an .npz that can be read ({e or 'it is cut short'})") from None
        if not width:
            raise BadFile(source.name, 0, "holds no array")

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        _, _, header = next(self._arrays(source))
        return names_of(header.columns)

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        record = 0
        for stream, member, header in self._arrays(source):
            row = header.columns * np.dtype(header.dtype).itemsize
            step = max(1, min(most_records(options), options.piece_bytes // (16 * header.columns)))
            for first in range(0, header.rows, step):
                rows = min(step, header.rows - first)
                data = stream.read(rows * row)
                if len(data) != rows * row:
                    raise BadFile(source.name, 0, f"{member} ends before its {header.rows} rows; the file is cut short")
                yield Piece(source.name, source.key, data, record=record, about=header)
                record += rows

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[CountRun, Rejects]:
        return NPY.parse(piece, options)


READER = Npz()
