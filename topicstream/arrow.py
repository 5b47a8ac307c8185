"""Arrow's functions on columns, imported when the first of them is called: making their five hundred docstrings takes a
twentieth of a second, and ``info`` and ``show`` call none."""

from __future__ import annotations

from typing import Any

from topicstream.kernels.lazy import Later

pc: Any = Later("pyarrow.compute")


def places(column: Any) -> Any:
    """Where the values of a dictionary's column stand in the dictionary, without nulls; ValueError where one stands beyond it,
    which Arrow does not look at as it reads."""
    found = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if len(found) and not 0 <= found.min() <= found.max() < len(column.dictionary):
        raise ValueError("a value beyond its dictionary")
    return found
