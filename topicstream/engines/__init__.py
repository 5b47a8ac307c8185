"""block -> delta.  One algorithm, one file, in message/, gibbs/ or variational/; found by being there."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from topicstream.engines.base import Engine
from topicstream.errors import TopicsError

FAMILIES = ("message", "gibbs", "variational")


def _modules() -> list[str]:
    """Full names of the modules that may hold an engine, in the order of families and files."""
    found = []
    for family in FAMILIES:
        package = importlib.import_module(f"topicstream.engines.{family}")
        found += sorted(f"{package.__name__}.{m.name}" for m in pkgutil.iter_modules(package.__path__))
    return found


def _in_module(module: str) -> dict[str, type[Engine]]:
    loaded = importlib.import_module(module)
    return {
        value.name: value
        for value in vars(loaded).values()
        if isinstance(value, type) and issubclass(value, Engine) and value.name and value.__module__ == module
    }


@cache
def engines() -> dict[str, type[Engine]]:
    """Every engine by name, in the order of families and files."""
    found: dict[str, type[Engine]] = {}
    for module in _modules():
        found |= _in_module(module)
    return found


def find(name: str) -> type[Engine]:
    """The engine of that name; TopicsError with the nearest names otherwise."""
    for module in _modules():  # the file of the same name first: the others need not be loaded
        if module.rsplit(".", 1)[1] == name and name in (own := _in_module(module)):
            return own[name]
    known = engines()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise TopicsError(f"no engine is called {name!r}; {hint} (`topics engines` lists them)")
    return known[name]
