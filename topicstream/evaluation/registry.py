"""The scorers by name: ours, and those of other packages that are asked for (``topicstream.plugins``, SCORERS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, make_dataclass
from typing import Any

from topicstream import plugins
from topicstream.errors import UsageError
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.scoring import Scorer
from topicstream.options import checked

Chosen = list[tuple[Scorer, Any]]
"""Scorers with their options."""


def scorers(names: str | Sequence[str] = ()) -> list[Scorer]:
    """Ours, in the order of the result, then those of these names; UsageError for a name that no other package has."""
    ours, asked = plugins.OWN[plugins.SCORERS], (names,) if isinstance(names, str) else names
    theirs = [name for name in plugins.entries(plugins.SCORERS) if name not in ours]
    if unknown := [name for name in asked if name not in theirs]:
        there = "ours have options of their own" if unknown[0] in ours else ", ".join(theirs) or "none is installed"
        raise UsageError(f"--score {unknown[0]}: no package has such a scorer ({there})")
    return [plugins.load(plugins.SCORERS, name) for name in (*ours, *asked)]


def options_of(every: Sequence[Scorer]) -> type:
    """A dataclass of the options of several scorers."""
    return make_dataclass("ScorerOptions", (), bases=tuple(scorer.Options for scorer in reversed(every)), frozen=True)


def chosen_scorers(config: EvalConfig) -> tuple[Chosen, bool]:
    """The scorers that a configuration asks for, and whether it asks for any by itself; UsageError for an unknown option."""
    every = scorers(config.score)
    foreign = every[len(plugins.OWN[plugins.SCORERS]) :]
    given = checked(options_of(every), config.options or {}, "evaluate")
    chosen, asked = [], bool(config.heldout or foreign)
    for scorer in every:
        own = {field.name for field in fields(scorer.Options)}
        options = scorer.Options(**{name: value for name, value in given.items() if name in own})
        asked = asked or scorer.asked(options)
        if scorer in foreign or scorer.asked(options) or scorer.beside(config, options):
            chosen.append((scorer, options))
    return chosen, asked
