"""The setting that each of three measures marks, and the one that is taken.

Held-out likelihood alone recommends too many topics: two halves of a topic predict a little better
than the topic. Stability over seeds and coherence fall once topics are split, but are also high for
far too few. So a measure marks one of the settings whose perplexity is near the lowest, and the
middle of the three marks is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from topicstream.addons.sweep.judging import TIE, Estimate, HalfScores, Setting

MOST_LOSS = 0.05
"""Share of the lowest perplexity by which that of a marked setting may be higher."""
NAMES = {"perplexity": "held-out perplexity", "stability": "stability", "npmi": "NPMI"}


def mark_settings(
    documents: HalfScores, figures: Mapping[Setting, Mapping[str, Estimate]]
) -> dict[str, Setting]:
    """Find the setting that each measure marks.

    Held-out perplexity marks the fewest topics that tie with the lowest. Stability and NPMI mark
    their highest value among that and the settings of the same engine and options whose perplexity
    is within MOST_LOSS of the lowest, or what perplexity marks where that ties with it.

    Parameters
    ----------
    documents
        Scores of the half that chooses.
    figures
        Figures of every setting, as ``judge_settings`` computes them.

    Returns
    -------
    dict
        ``perplexity``, and ``stability`` and ``npmi`` where they are known of all these settings.
    """
    best, near = documents.tied()
    likely = min(near, key=lambda s: (s[1], documents.nats(s)))
    most = documents.nats(best) + math.log1p(MOST_LOSS)
    rivals = [
        s
        for s in documents.loglik
        if s == likely or ((s[0], s[2]) == (likely[0], likely[2]) and documents.nats(s) <= most)
    ]
    marks = {"perplexity": likely}
    for name in ("stability", "npmi"):
        known = {s: figures[s][name] for s in rivals if name in figures.get(s, {})}
        if len(known) < len(rivals):
            continue
        top = max(known, key=lambda s: known[s].value)
        error = math.hypot(known[top].error or 0.0, known[likely].error or 0.0)
        tied = known[top].value - known[likely].value <= TIE * error
        marks[name] = likely if tied else top
    return marks


def take_middle(marks: Mapping[str, Setting]) -> Setting:
    """Return the middle of three marks by number of topics, or what perplexity marks of fewer."""
    if len(marks) < len(NAMES):
        return marks["perplexity"]
    return sorted(marks.values(), key=lambda setting: setting[1])[1]


def describe_marks(marks: Mapping[str, Setting], documents: HalfScores) -> str:
    """Describe which measures disagree, or return an empty string where none does."""
    taken = take_middle(marks)
    if len(set(marks.values())) < 2:
        return ""
    said = ", ".join(f"{NAMES[name]} {setting[1]}" for name, setting in marks.items())
    best = min(documents.nats(setting) for setting in documents.loglik)
    loss = math.expm1(documents.nats(taken) - best)
    cost = f", {loss:.1%} above the lowest perplexity" if loss > 0 else ""
    return f"the measures disagree (topics marked: {said}); {taken[1]} is taken{cost}"


def as_topics(marks: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the number of topics that each measure marks, as JSON shows it."""
    return {name: setting[1] for name, setting in marks.items()}
