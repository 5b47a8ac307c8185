"""The ways to find the topics of documents: one method, one file, called by the file's name and found by being there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from topicstream.errors import InputError

if TYPE_CHECKING:
    from topicstream.inference.method import Method


def names() -> list[str]:
    """Every method's name; none of them is loaded."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def find(name: str) -> type[Method]:
    """The method of that name; InputError with the names that there are otherwise."""
    from topicstream.inference.method import Method  # not needed to list the names

    if name not in names():
        raise InputError(f"--method {name}: choose one of {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name}")
    (found,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__
    )
    return found
