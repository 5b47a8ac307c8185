"""Tests, by the rooms of the package; what several rooms use stands here beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
DATA = ROOT.parent / "shared" / "data"
"""Real corpora, which are no part of the project: tests skip where they are absent."""


def few_quick(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test that is quick with some values; with the others it is a ``product``."""
    return [
        value if value in quick else pytest.param(*_arguments(value), marks=pytest.mark.product)
        for value in values
    ]


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
