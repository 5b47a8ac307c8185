"""The settings that each of three measures marks, and the one that is taken.

Held-out likelihood alone recommends too many topics: two halves of a topic predict a little better
than the topic. Stability over seeds and coherence fall once topics are split, but are also high for
far too few. So each measure marks all that it cannot tell from its best, among the settings whose
perplexity is near the lowest, and the setting that most measures mark is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from topicstream.addons.sweep.judging import COVARIATES, Estimate, HalfScores, Setting

MOST_LOSS = 0.05
"""Share of the lowest perplexity by which that of a marked setting may be higher."""
CLOSE = 1.0
"""Standard errors of a difference of stability or NPMI within which a setting is marked, too."""
MOST_DEAD = 0.05
"""Share of dead topics above which stability and NPMI do not mark a setting: NPMI leaves dead
topics out, and those of two seeds are alike, so both would be those of fewer topics."""
NAMES = {"perplexity": "held-out perplexity", "stability": "stability", "npmi": "NPMI"}
Marks = Mapping[str, list[Setting]]
"""The settings that each measure marks, by rising number of topics."""


def mark_settings(
    documents: HalfScores,
    figures: Mapping[Setting, Mapping[str, Estimate]],
    dead: Mapping[Setting, float],
) -> dict[str, list[Setting]]:
    """Find the settings that each measure marks.

    Held-out perplexity marks those that tie with the lowest, paired by documents. Stability and
    NPMI mark those within a standard error of their highest value, among the settings of the same
    engine and options whose perplexity ties with the lowest or is within MOST_LOSS of it and, where
    there are any, of which at most MOST_DEAD of the topics are dead.

    Parameters
    ----------
    documents
        Scores of the half that chooses.
    figures
        Figures of every setting, as ``judge_settings`` computes them.
    dead
        Dead topics of every setting, the mean over its seeds.

    Returns
    -------
    dict
        ``perplexity``, and ``stability`` and ``npmi`` where they are known of all these settings.
    """
    best, near = documents.find_ties()
    formulas = list(dict.fromkeys(dict(s[2]).get(COVARIATES) for s in documents.loglik))
    likely = min(
        near,
        key=lambda s: (s[1], formulas.index(dict(s[2]).get(COVARIATES)), documents.nats(s)),
    )
    most = documents.nats(best) + math.log1p(MOST_LOSS)
    alike = [s for s in documents.loglik if (s[0], s[2]) == (likely[0], likely[2])]
    rivals = [s for s in alike if s in near or documents.nats(s) <= most]
    marks = {"perplexity": _by_topics(s for s in near if s in rivals)}
    whole = [s for s in rivals if dead.get(s, 0.0) <= MOST_DEAD * s[1]] or rivals
    for name in ("stability", "npmi"):
        if all(name in figures.get(s, {}) for s in rivals):
            known = {s: figures[s][name] for s in whole}
            marks[name] = _by_topics(s for s in whole if _is_close(known, s))
    return marks


def _by_topics(settings: Iterable[Setting]) -> list[Setting]:
    """Sort settings by their number of topics."""
    return sorted(settings, key=lambda setting: setting[1])


def _is_close(known: Mapping[Setting, Estimate], setting: Setting) -> bool:
    """Return True if a figure is within a standard error of the highest."""
    top = max(known.values(), key=lambda estimate: estimate.value)
    error = math.hypot(top.error or 0.0, known[setting].error or 0.0)
    return top.value - known[setting].value <= CLOSE * error


def take_setting(marks: Marks) -> Setting:
    """Return the setting that most measures mark, of several the middle one.

    Where a measure is unknown, it is that with the fewest topics which perplexity marks.
    """
    if len(marks) < len(NAMES):
        return marks["perplexity"][0]
    votes = [setting for marked in marks.values() for setting in marked]
    most = max(votes.count(setting) for setting in votes)
    candidates = _by_topics({setting for setting in votes if votes.count(setting) == most})
    return candidates[(len(candidates) - 1) // 2]


def describe_marks(marks: Marks, documents: HalfScores) -> str:
    """Describe which measures disagree, or return an empty string where none does."""
    setting_taken = take_setting(marks)
    if all(setting_taken in marked for marked in marks.values()):
        return ""
    marked_text = ", ".join(
        f"{NAMES[name]} {' or '.join(str(setting[1]) for setting in marked)}"
        for name, marked in marks.items()
    )
    best = min(documents.nats(setting) for setting in documents.loglik)
    loss = math.expm1(documents.nats(setting_taken) - best)
    cost = f", {loss:.1%} above the lowest perplexity" if loss > 0 else ""
    return (
        f"the measures disagree (topics marked: {marked_text}); {setting_taken[1]} is taken{cost}"
    )


def list_topics(marks: Marks) -> dict[str, Any]:
    """Return the numbers of topics that each measure marks, as JSON shows them."""
    return {name: [setting[1] for setting in marked] for name, marked in marks.items()}
