"""What the pages of a Parquet file take when they are decoded, read from their headers (Thrift's compact protocol)
before Arrow decodes them whole.

A header is a struct of ``type, uncompressed_page_size, compressed_page_size``, all i32, and one of several structs whose
first field is the number of values.  Everything else is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
_HEADER_BYTES = 1 << 12  # more than a header takes unless its statistics hold long values; then more is read
_MOST_HEADER = 1 << 24
_BOOLEANS, _BYTE, _WHOLE, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12


@dataclass(frozen=True)
class Page:
    """One page: its kind, bytes decoded and as stored, number of values (0 where it is not told)."""

    kind: int
    decoded: int
    stored: int
    values: int


def pages(file: BinaryIO, first: int, stop: int) -> Iterator[Page]:
    """The pages between two places of a file.  ValueError where there are none."""
    while first < stop:
        size, wanted = 0, _HEADER_BYTES
        while not size:
            file.seek(first)
            data = file.read(min(wanted, stop - first))
            try:
                fields, size = _struct(data, 0, 0)
            except IndexError:
                if wanted >= min(stop - first, _MOST_HEADER):
                    raise ValueError("a page header that does not end") from None
                wanted *= 16
        kind, decoded, stored = (fields.get(i) for i in (1, 2, 3))
        if (
            not (isinstance(kind, int) and isinstance(decoded, int) and isinstance(stored, int))
            or min(decoded, stored) < 0
        ):
            raise ValueError("a page header without sizes")
        about = fields.get({DATA: 5, DICTIONARY: 7, DATA_V2: 8}.get(kind, 0))
        values = about.get(1) if isinstance(about, dict) else 0
        yield Page(kind, decoded, stored, values if isinstance(values, int) else 0)
        first += size + stored


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits in a page header")


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, object], int]:
    """The whole numbers and structs of a struct by field, and where it ends.  IndexError where the data do before it."""
    if depth > 8:
        raise ValueError("a page header nested too deeply")
    fields: dict[int, object] = {}
    number = 0
    while data[at]:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            number += delta
        else:
            raw, at = _varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        if kind in _WHOLE:
            raw, at = _varint(data, at)
            fields[number] = (raw >> 1) ^ -(raw & 1)
        elif kind == _STRUCT:
            fields[number], at = _struct(data, at, depth + 1)
        elif kind == _BINARY:
            size, at = _varint(data, at)
            at += size
        elif kind in (_BYTE, _DOUBLE):
            at += 1 if kind == _BYTE else 8
        elif kind not in _BOOLEANS:
            raise ValueError("a page header with a list, which it cannot have")
    return fields, at + 1
