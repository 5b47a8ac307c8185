"""Values of a record as text, id and metadata."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from types import NoneType

import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.documents import remove_empty
from topicstream.corpus.format import LIST_COLUMNS

LISTS = LIST_COLUMNS
"""The metadata columns that hold lists of strings."""


class WrongField(ValueError):
    """A record that lacks a field or has a value of the wrong type."""


def clean(text: str) -> str:
    """Replace each lone surrogate of a string (JSON allows ``\\ud800``) by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_strings(values: Iterable[object], kind: pa.DataType | None = None) -> pa.Array:
    """Make an Arrow array of values, without lone surrogates in strings."""
    try:
        return pa.array(values, kind, from_pandas=True)
    except UnicodeEncodeError:
        cleaned = [clean(value) if isinstance(value, str) else value for value in values]
        return pa.array(cleaned, kind, from_pandas=True)


def as_text(value: object, name: str) -> str:
    """Return a text field's string, or its strings as lines.

    Null is an empty text. The string may hold lone surrogates, which ``clean_strings`` replaces.

    Raises
    ------
    WrongField
        If the value is neither a string nor a list of strings.
    """
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise WrongField(
            f"field '{name}' is {kind_of(value)}, not a string; choose another --text-field"
        )
    return value


def as_id(value: object, name: str) -> str | int | None:
    """Return an id, a string or a whole number, or None where it is null or blank.

    Raises
    ------
    WrongField
        If the value is of another type.
    """
    if value is None or isinstance(value, str):
        return clean(value) if value and not value.isspace() else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise WrongField(f"field '{name}' is {kind_of(value)}, not an id; choose another --id-field")


def as_scalar(value: object, name: str) -> str | None:
    """Return a metadata value as a string, None for null.

    Raises
    ------
    WrongField
        If the value is no string, number or boolean.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, int | float):
        return str(value)
    advice = f"; {'=, '.join(LISTS)}= take lists" if isinstance(value, list) else ""
    raise WrongField(f"field '{name}' is {kind_of(value)}, not a string or a number{advice}")


def as_list(value: object, name: str, separator: str) -> list[str]:
    """Return a list column's value as a list of strings or numbers.

    One string is cut at the separator. Null is empty.

    Raises
    ------
    WrongField
        If the value is no list, string or number.
    """
    if value is None:
        return []
    if isinstance(value, str):
        parts = [part.strip() for part in clean(value).split(separator)]
        return [part for part in parts if part]
    if isinstance(value, list):
        items = [as_scalar(item, name) for item in value]
        return [item for item in items if item]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)]
    raise WrongField(f"field '{name}' is {kind_of(value)}, not a list of strings")


def as_lists(values: pa.Array, separator: str) -> pa.Array:
    """Cut strings at the separator into lists of trimmed strings, none empty."""
    cells = pc.split_pattern(pc.fill_null(values, ""), separator)
    return remove_empty(
        pa.ListArray.from_arrays(cells.offsets, pc.utf8_trim_whitespace(cells.values))
    )


def without_missing(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Make the values of a column null that are among ``missing``.

    Lists lose such items.
    """
    if not missing:
        return column
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lists = [
            None if items is None else [item for item in items if item not in missing]
            for items in column.to_pylist()
        ]
        return pa.array(lists, column.type)
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    is_missing = pc.is_in(texts, pa.array(list(missing), pa.large_string()))
    return pc.if_else(is_missing, pa.scalar(None, column.type), column)


def kind_of(value: object) -> str:
    """Name a value's type as JSON does, for messages."""
    kinds: dict[type, str] = {
        NoneType: "null",
        bool: "a boolean",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), "a number")


def unique_names(names: pa.Array) -> pa.Array:
    """Make names unique: one that occurs again gets -1, -2, ...

    AnnData's ``make_index_unique`` does the same.

    >>> unique_names(pa.array(["a", "b", "a", "a-1"])).to_pylist()
    ['a', 'b', 'a-2', 'a-1']
    """
    if pc.count_distinct(names).as_py() == len(names):
        return names
    unique = names.to_pylist()
    used = set(unique)
    seen = set[str]()
    last_number = Counter[str]()
    for place, name in enumerate(unique):
        if name in seen:
            further = count(last_number[name] + 1)
            last_number[name] = next(n for n in further if f"{name}-{n}" not in used)
            unique[place] = f"{name}-{last_number[name]}"
            used.add(unique[place])
        seen.add(name)
    return pa.array(unique, names.type)
