"""Tests, by the rooms of the package; what several rooms use stands here beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
DATA = ROOT.parent / "shared" / "data"
"""Real corpora, which are no part of the project: tests skip where they are absent."""


def few_quick(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Parameters of a test that is quick with some values; with the others it is among the slow
    ones.
    """
    return [
        value if value in quick else pytest.param(*_arguments(value), marks=pytest.mark.slow)
        for value in values
    ]


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def needs(*addons: str) -> pytest.MarkDecorator:
    """Mark a test outside of an add-on's folder that uses it: skipped where it is not there."""
    missing = [name for name in addons if find_spec(f"topicstream.addons.{name}") is None]
    return pytest.mark.skipif(bool(missing), reason=f"without add-on {', '.join(missing)}")
