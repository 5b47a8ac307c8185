"""The scorers by their names, in the order of the result; other packages add theirs by an entry point (docs/extending.md)."""

from __future__ import annotations

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

SCORERS = {
    "heldout": HELD_OUT,
    "labels": LABEL_SCORES,
    "authors": AUTHORS,
    "whole": WHOLE,
    "pairs": PAIRS,
    "training": TRAINING,
    "coherence": COHERENCE,
    "diversity": DIVERSITY,
    "links": LINKS,
}


def asked_scorers(config: EvalConfig) -> list[Scorer]:
    """The scorers that a configuration asks for; UsageError for a name that no package has."""
    scorers = [scorer for scorer in SCORERS.values() if scorer.asked(config)]
    for name in (config.score,) if isinstance(config.score, str) else config.score:
        if name in SCORERS or name not in (known := plugins.entries(plugins.SCORERS)):
            there = ", ".join(known) if name not in SCORERS else "ours have options of their own"
            raise UsageError(f"--score {name}: no package has such a scorer ({there or 'none is installed'})")
        scorers.append(plugins.load(plugins.SCORERS, name))
    return scorers
