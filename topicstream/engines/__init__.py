"""block -> delta.

One algorithm, one file, in message/, gibbs/, variational/, moments/ or mixtures/; listed in
``topicstream.base.plugins``.
"""

from __future__ import annotations

from topicstream.base import plugins
from topicstream.engines.base import Engine


def engines() -> dict[str, type[Engine]]:
    """Every engine by name: ours, in the order of families and files, then those of other
    packages.
    """
    return dict(plugins.loaded(plugins.ENGINES))


def find(name: str) -> type[Engine]:
    """The engine of that name, the only one that is loaded; UsageError with the nearest name where
    there is none.
    """
    kind: type[Engine] = plugins.find(plugins.ENGINES, name, "--algo")
    return kind
