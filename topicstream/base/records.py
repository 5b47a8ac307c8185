"""Records on disk as types: JSON with a checksum, decoded against a msgspec schema.

A manifest, the record of a run, a checkpoint, an edit, a configuration: each is a ``Record``,
declared once, beside the code that owns it. ``read_record`` checks the file's checksum, then every
field against its declared type, so whoever holds a record has nothing left to check.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, dataclass_transform

import msgspec

from topicstream.base.errors import StoreError, TopicsError
from topicstream.base.files.durable import read_json, write_json

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""A number of things, or a position."""
Crc = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""A crc32c."""
Amount = Annotated[float, msgspec.Meta(ge=0, lt=1e300)]
"""A number of tokens or a weight: not negative, not infinite, not NaN."""
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
"""A part of a whole."""

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A value that JSON has, as a command prints. Code that reads a result by its keys needs a record.
"""

RESTORE = "The file is corrupt; restore it from a backup"


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all records.

    A field without a default must be present. A member that the type does not know is ignored, so
    that a newer version may add some. Conditions that no type expresses are checked in
    ``__post_init__``, which raises ValueError.
    """


R = TypeVar("R")


def read_record(path: str | os.PathLike[str], kind: type[R], advice: str = RESTORE) -> R:
    """Read a JSON file as a record.

    Parameters
    ----------
    path
        The file, with or without a checksum (``write_record`` writes one).
    kind
        The type that it must have: a ``Record``, or anything that msgspec decodes.
    advice
        Advice to the user about a file of another type.

    Raises
    ------
    StoreError
        If the file is missing, does not match its checksum, or has a field of another type. The
        message names the field: ``manifest.json: `$.parts.train`: expected `int`, got `str`.``
    """
    return decode_record(read_json(path), kind, path, advice)


def decode_record(
    value: Any,
    kind: type[R],
    where: object,
    advice: str = RESTORE,
    error: type[TopicsError] = StoreError,
) -> R:
    """Decode plain JSON values as a record.

    Parameters
    ----------
    value
        The values.
    kind, advice
        As of ``read_record``.
    where
        The file or place, for messages.
    error
        The error that is raised, with the name of a field of another type.

    Examples
    --------
    >>> class Point(Record):
    ...     x: int
    >>> decode_record({"x": 3}, Point, "points.json")
    Point(x=3)
    >>> decode_record({"x": "three"}, Point, "points.json")
    Traceback (most recent call last):
      ...
    topicstream.errors.StoreError: points.json: `$.x`: expected `int`, ...
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as e:
        raise error(f"{where}: {_problem(str(e))}. {advice}") from None


def _problem(message: str) -> str:
    """Put the field first: ``Expected `int` - at `$.x` `` to `` `$.x`: expected `int` ``."""
    problem, _, place = message.partition(" - at ")
    return f"{place or '`$`'}: {re.sub('^[A-Z]', lambda m: m[0].lower(), problem)}"


def plain(record: Any) -> Any:
    """Convert a record to plain JSON values: dicts with text keys, lists, numbers, strings."""
    return msgspec.json.decode(msgspec.json.encode(record))


def write_record(path: str | os.PathLike[str], record: Any, *, durable: bool = True) -> None:
    """Replace a file by a record as JSON with a checksum, in one rename.

    Parameters
    ----------
    path
        The file.
    record
        The record.
    durable
        Make the change survive a power cut.
    """
    write_json(path, plain(record), durable=durable)
