"""The engines: training algorithms that turn a block of documents into table deltas.

Each algorithm has a file in message/, gibbs/ or variational/, or in an add-on. The names are listed
in ``topicstream.base.plugins``.
"""

from __future__ import annotations

from topicstream.base import plugins
from topicstream.engines.base import Engine


def engines() -> dict[str, type[Engine]]:
    """List every engine by name, ours first, then those of other packages."""
    return dict(plugins.loaded(plugins.ENGINES))


def find(name: str) -> type[Engine]:
    """Load the engine of that name.

    Parameters
    ----------
    name
        As in ``--algo``.

    Returns
    -------
    The engine's class.

    Raises
    ------
    UsageError
        There is no such engine. The message suggests the nearest name.
    """
    kind: type[Engine] = plugins.find(plugins.ENGINES, name, "--algo")
    return kind
