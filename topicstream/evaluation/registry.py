"""The scorers, in the order of the result; other packages add theirs by an entry point (docs/extending.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, make_dataclass
from typing import Any

from topicstream import plugins
from topicstream.errors import UsageError
from topicstream.evaluation.authors import AUTHORS
from topicstream.evaluation.coherence import COHERENCE, DIVERSITY
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.held_out import HELD_OUT, TRAINING, WHOLE
from topicstream.evaluation.labels import LABEL_SCORES
from topicstream.evaluation.links import LINKS
from topicstream.evaluation.pair_entropy import PAIRS
from topicstream.evaluation.scoring import Scorer
from topicstream.options import checked

SCORERS = (HELD_OUT, LABEL_SCORES, AUTHORS, WHOLE, PAIRS, TRAINING, COHERENCE, DIVERSITY, LINKS)

Chosen = list[tuple[Scorer, Any]]
"""Scorers with their options."""


def foreign_scorers(names: str | Sequence[str]) -> list[Scorer]:
    """Scorers of other packages; UsageError for a name that no package has."""
    scorers, ours = [], [scorer.name for scorer in SCORERS]
    for name in (names,) if isinstance(names, str) else names:
        if name in ours or name not in (known := plugins.entries(plugins.SCORERS)):
            there = ", ".join(known) if name not in ours else "ours have options of their own"
            raise UsageError(f"--score {name}: no package has such a scorer ({there or 'none is installed'})")
        scorers.append(plugins.load(plugins.SCORERS, name))
    return scorers


def options_of(scorers: Sequence[Scorer]) -> type:
    """A dataclass of the options of several scorers."""
    return make_dataclass("ScorerOptions", (), bases=tuple(scorer.Options for scorer in reversed(scorers)), frozen=True)


def chosen_scorers(config: EvalConfig) -> tuple[Chosen, bool]:
    """The scorers that a configuration asks for, and whether it asks for any by itself; UsageError for an unknown option."""
    foreign = foreign_scorers(config.score)
    every = [*SCORERS, *foreign]
    given = checked(options_of(every), config.options or {}, "evaluate")
    chosen, asked = [], bool(config.heldout or foreign)
    for scorer in every:
        own = {field.name for field in fields(scorer.Options)}
        options = scorer.Options(**{name: value for name, value in given.items() if name in own})
        asked = asked or scorer.asked(options)
        if scorer in foreign or scorer.asked(options) or scorer.beside(config, options):
            chosen.append((scorer, options))
    return chosen, asked
