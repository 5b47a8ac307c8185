"""What the pages of a Parquet file take when they are decoded, read from their headers (Thrift's compact protocol)
before Arrow decodes them whole, and what its footer says that Arrow cannot bear.

A header is a struct of ``type, uncompressed_page_size, compressed_page_size``, all i32, and one of several structs whose
first field is the number of values.  Everything else is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
_HEADER_BYTES = 1 << 12  # more than a header takes unless its statistics hold long values; then more is read
_MOST_HEADER = 1 << 24
_BOOLEANS, _BYTE, _WHOLE, _DOUBLE, _BINARY, _LISTS, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
_I32, _STRUCTS, _NUMBERS = 5, (9, 12), (9, 6)
_REQUIRED, _OPTIONAL, _REPEATED, _TEXTS = 0, 1, 2, 6  # of a schema's elements


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


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The whole numbers, lists and structs of a struct by field, the kind of each under its negative number, and where it ends.
    IndexError where the data do before it."""
    if depth > 16:
        raise ValueError("a page header nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            number += delta
        else:
            raw, at = _varint(data, at)
            number = (raw >> 1) ^ -(raw & 1)
        fields[-number] = (kind, data[at] & 15) if kind in _LISTS else kind
        fields[number], at = (None, at) if kind in _BOOLEANS else _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value that is no boolean, None where nobody asks for it, and where it ends."""
    if kind in _WHOLE:
        raw, at = _varint(data, at)
        return (raw >> 1) ^ -(raw & 1), at
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind == _BINARY:
        size, at = _varint(data, at)
        return None, at + size
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind not in _LISTS or depth > 16:
        raise ValueError("a page header of a kind that it cannot be")
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(data, at)
    found = []
    for _ in range(size):
        if kind in _BOOLEANS:
            data[at]  # there has to be one
        value, at = (None, at + 1) if kind in _BOOLEANS else _value(data, at, kind, depth + 1)
        found.append(value)
    return found, at


def refuse_odd_columns(file: BinaryIO) -> None:
    """ValueError where the footer says of a column what Arrow looks at outside of every ``try``, which ends the process: as many
    columns as the schema has none for, encrypted ones, counts of levels that it does not have."""
    end = file.seek(0, 2)
    file.seek(max(0, end - 8))
    size = int.from_bytes(file.read(4), "little")
    if size > end - 8:
        raise ValueError("a footer larger than the file")
    file.seek(end - 8 - size)
    try:
        footer, _ = _struct(file.read(size), 0, 0)
        levels = _levels(_field(footer, 2, _STRUCTS))
        for group in _field(footer, 4, _STRUCTS):
            chunks = _field(group, 1, _STRUCTS)
            if len(chunks) != len(levels) or not all(map(_fits, chunks, levels)):
                raise ValueError("a footer that its schema does not fit")
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("a footer that cannot be read") from None
    file.seek(0)


def _fits(chunk: dict[int, Any], levels: tuple[int, int, bool]) -> bool:
    repeated, optional, texts = levels
    told = _field(_field(chunk, 3, _STRUCT), 16, _STRUCT, {})  # of sizes
    counts = (_field(told, 2, _NUMBERS, []), _field(told, 3, _NUMBERS, []))
    fitting = all(len(found) in (0, most + 1) for found, most in zip(counts, (repeated, optional)))
    return 8 not in chunk and fitting and (texts or 1 not in told)


def _field(struct: dict[int, Any], number: int, kind: Any, missing: Any = None) -> Any:
    """A member; ValueError where it is of another kind, which other readers pass over, or not there."""
    if number not in struct and missing is not None:
        return missing
    if struct.get(-number) != kind:
        raise ValueError("a footer whose members are of other kinds")
    return struct[number]


def _levels(schema: list[dict[int, Any]]) -> list[tuple[int, int, bool]]:
    """Of each leaf: the most that a value is repeated, and optional, and whether it is of texts."""
    found, open_ = [], [(_field(schema[0], 5, _I32, 0), 0, 0)]
    for element in schema[1:]:
        while open_ and not open_[-1][0]:
            open_.pop()
        left, repeated, optional = open_[-1]
        open_[-1] = (left - 1, repeated, optional)
        kind, children = _field(element, 3, _I32), _field(element, 5, _I32, 0)
        if kind not in (_REQUIRED, _OPTIONAL, _REPEATED):
            raise ValueError("a footer with a field that is neither optional nor repeated")
        repeated, optional = repeated + (kind == _REPEATED), optional + (kind != _REQUIRED)
        if children:
            open_.append((children, repeated, optional))
        else:
            found.append((repeated, optional, _field(element, 1, _I32) == _TEXTS))
    return found


def page_places(column: Any) -> Any:
    """Where the values of a dictionary's column stand in the dictionary, without nulls; ValueError where one stands beyond it,
    which Arrow does not look at as it reads."""
    found = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if len(found) and not 0 <= found.min() <= found.max() < len(column.dictionary):
        raise ValueError("a value beyond its dictionary")
    return found
