"""What a store, a model or a batch is of: documents, a count for each of their words; or dense rows of numbers, all of one width."""

from __future__ import annotations


def noun_of(width: int | None) -> str:
    """``documents``, or ``vectors`` where there is a width."""
    return "vectors" if width else "documents"


def payload_of(width: int | None) -> str:
    """``documents``, or ``vectors of 63 numbers``."""
    return f"{noun_of(width)} of {width} numbers" if width else noun_of(width)
