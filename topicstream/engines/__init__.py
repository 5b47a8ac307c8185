"""block -> delta.  One algorithm, one file, in message/, gibbs/ or variational/; found by being there."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from topicstream.engines.base import Engine
from topicstream.errors import TopicsError

FAMILIES = ("message", "gibbs", "variational")


@cache
def engines() -> dict[str, type[Engine]]:
    """Every engine by name, in the order of families and files."""
    found: dict[str, type[Engine]] = {}
    for family in FAMILIES:
        package = importlib.import_module(f"topicstream.engines.{family}")
        for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
            loaded = importlib.import_module(f"topicstream.engines.{family}.{module}")
            for value in vars(loaded).values():
                if (
                    isinstance(value, type)
                    and issubclass(value, Engine)
                    and value.name
                    and value.__module__ == loaded.__name__
                ):
                    found[value.name] = value
    return found


def find(name: str) -> type[Engine]:
    """The engine of that name; TopicsError with the nearest names otherwise."""
    known = engines()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise TopicsError(f"no engine is called {name!r}; {hint} (`topics engines` lists them)")
    return known[name]
