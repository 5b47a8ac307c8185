"""Engines, inference methods, readers, executors and scorers of other packages, found by their entry points.

A package lists them in its ``pyproject.toml`` (docs/extending.md); the name is that of ``--algo``, ``--method`` or ``--format``,
or the ``executor`` of ``topicstream.train``.
A name of ours cannot be taken.  Nothing is imported before it is asked for by name, or all are listed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from topicstream.errors import TopicsError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENGINES, METHODS, READERS = "topicstream.engines", "topicstream.methods", "topicstream.readers"
EXECUTORS, SCORERS = "topicstream.executors", "topicstream.scorers"


@cache
def entries(group: str) -> dict[str, EntryPoint]:
    """name -> entry point of the packages that are installed."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda e: (e.name, e.value))}


@cache
def load(group: str, name: str) -> Any:
    """What an entry point names; TopicsError where it cannot be imported."""
    entry = entries(group)[name]
    try:
        return entry.load()
    except Exception as e:  # of another's code: anything
        package = entry.dist.name if entry.dist is not None else entry.value
        raise TopicsError(
            f"{name}: the package {package} cannot be loaded ({type(e).__name__}: {e}); update or remove it"
        ) from e


def loaded(group: str) -> Iterator[tuple[str, Any]]:
    """All of a group that can be loaded; a line in the log for one that cannot."""
    for name in entries(group):
        try:
            yield name, load(group, name)
        except TopicsError as e:
            logging.getLogger("topicstream").warning("%s", e)
