"""block -> delta.  One algorithm, one file, in message/, gibbs/, variational/, moments/ or mixtures/; found by being there.  Those of other packages: topicstream/plugins.py."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from topicstream import plugins
from topicstream.engines.base import Engine
from topicstream.errors import UsageError

FAMILIES = ("message", "gibbs", "variational", "moments", "mixtures")


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
    """Every engine by name: ours, in the order of families and files, then those of other packages."""
    found: dict[str, type[Engine]] = {}
    for module in _modules():
        found |= _in_module(module)
    return found | {name: kind for name, kind in plugins.loaded(plugins.ENGINES) if name not in found}


def find(name: str) -> type[Engine]:
    """The engine of that name; TopicsError with the nearest names otherwise."""
    for module in _modules():  # the file of the same name first: the others need not be loaded
        if module.rsplit(".", 1)[1] == name and name in (own := _in_module(module)):
            return own[name]
    if name in plugins.entries(plugins.ENGINES) and not any(name in _in_module(module) for module in _modules()):
        found: type[Engine] = plugins.load(plugins.ENGINES, name)
        return found
    known = engines()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"--algo: no engine is called {name!r}; {hint} (`topics engines` lists them)")
    return known[name]
