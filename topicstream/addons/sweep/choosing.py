"""The choice of a sweep, and its reason in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topicstream.addons.sweep.judging import (
    Estimate,
    HalfScores,
    Run,
    Scores,
    Setting,
    judge_settings,
)
from topicstream.addons.sweep.marks import describe_marks, list_topics, mark_settings, take_setting


def choose_setting(
    runs: Sequence[Run], scores: Mapping[Run, Scores], rows: Sequence[Mapping[str, Any]]
) -> tuple[Setting, dict[str, Any], str]:
    """Choose the setting that held-out likelihood, stability and coherence mark together.

    Likelihood alone decides where a measure is missing, as stability is of one seed. A tie is a
    difference within two standard errors, paired by documents, on the choosing half.

    Returns
    -------
    tuple
        The setting, its best row with the topics that each measure ``marks``, and the reason in
        words.
    """
    first = scores[runs[0]].choosing
    documents = HalfScores(runs, scores, first)
    reported = HalfScores(runs, scores, ~first)
    marks = mark_settings(documents, judge_settings(runs, scores, rows), _count_dead(runs, rows))
    setting = take_setting(marks)
    rows_of_setting = [
        dict(row) for run, row in zip(runs, rows, strict=True) if run.setting == setting
    ]
    pick = min(rows_of_setting, key=lambda r: r["perplexity_choosing"])
    estimate = reported.perplexity(setting, True)
    chosen = {
        **pick,
        "perplexity_reported_mean": estimate.value,
        "perplexity_reported_se": estimate.error,
        "marks": list_topics(marks),
    }
    reasons = [describe_choice(setting, documents), describe_marks(marks, documents)]
    dead = max(row.get("dead", 0) for row in rows_of_setting)
    if dead:
        reasons.append(
            f"up to {dead} of its topics are dead (they hold next to nothing), so fewer would do"
        )
    reasons.append(describe_report(estimate, len(rows_of_setting), reported.total))
    numbers = {tried[1] for tried in documents.loglik}
    if len(numbers) > 2 and len(documents.find_ties()[1]) == len(documents.loglik):
        reasons.append(
            "perplexity cannot tell any of them apart: the documents are too few, or say too little"
        )
    if len(numbers) > 1 and setting[1] == max(numbers):
        reasons.append("it is the largest tried, more may be better")
    return setting, chosen, "; ".join(reason for reason in reasons if reason)


def _count_dead(runs: Sequence[Run], rows: Sequence[Mapping[str, Any]]) -> dict[Setting, float]:
    """Count the dead topics of each setting, the mean over its seeds."""
    counts: dict[Setting, list[float]] = {}
    for run, row in zip(runs, rows, strict=True):
        counts.setdefault(run.setting, []).append(float(row.get("dead") or 0))
    return {setting: sum(dead) / len(dead) for setting, dead in counts.items()}


def describe_choice(setting: Setting, documents: HalfScores) -> str:
    """Describe a setting and how its perplexity compares with the lowest."""
    best, near = documents.find_ties()
    words = f"{setting[1]} topics ({_describe_options(setting)})"
    half = "on the half of the held-out documents kept for choosing"
    if setting == best:
        others = ", ".join(_name(s) for s in near if s != best)
        ties = f"; {others} {'ties' if len(near) == 2 else 'tie'} with it" if others else ""
        return f"{words}: the lowest perplexity {half}{ties}"
    if setting in near:
        return (
            f"{words}: a tie with the lowest perplexity ({best[1]} topics, "
            f"{_describe_options(best)}; within two standard errors of the difference), {half}"
        )
    return (
        f"{words}: near the lowest perplexity ({best[1]} topics, {_describe_options(best)}) {half}"
    )


def _describe_options(setting: Setting) -> str:
    """Describe the engine and options of a setting."""
    return ", ".join([setting[0], *(f"{name} {value}" for name, value in setting[2])])


def _name(setting: Setting) -> str:
    """Describe a setting by its number of topics, engine and options."""
    return f"{setting[1]} ({_describe_options(setting)})"


def describe_report(estimate: Estimate, seeds: int, tokens: float) -> str:
    """Describe the perplexity on the half that did not choose."""
    mean = f"mean of {seeds} {'seed' if seeds == 1 else 'seeds'}"
    return (
        f"on the other half {estimate.value:.1f} ± {estimate.error:.1f} ({mean}, "
        f"{tokens:,.0f} tokens scored)"
    )
