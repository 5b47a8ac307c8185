"""A sweep for people: a line a setting, and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from topicstream.addons.sweep.formulas import READS
from topicstream.addons.sweep.judging import COVARIATES
from topicstream.base.text import escaped, render
from topicstream.display.figures import Figure
from topicstream.evaluation.topic_number import MEASURES
from topicstream.model.topic_kinds import LIVE, counted_in_means

COLUMNS = (
    ("perplexity", 22, 1),
    ("npmi", 18, 3),
    ("exclusivity", 18, 2),
    ("diversity", 18, 2),
    ("stability", 18, 2),
)
"""A figure, the width of its column and its digits."""
PANELS = (
    ("perplexity", "held-out perplexity"),
    ("npmi", "NPMI coherence"),
    ("stability", "stability over seeds"),
    *zip(
        MEASURES,
        (
            "Arun 2010 (lower is better)",
            "Cao-Juan 2009 (lower is better)",
            "Mimno 2011 (higher is better)",
        ),
        strict=True,
    ),
)
"""A figure and what its panel is called; one that no setting has (stability of one seed) gets none.
"""


def lines(result: Mapping[str, Any]) -> list[str]:
    """Format a line for each setting, then the choice.

    Each figure has its standard error, and ``≈`` where it ties with the best.
    """
    settings = result["settings"]
    options = result["options"]
    measures = [name for name in MEASURES if name in result["runs"][0]]
    head = f"{'algo':10} {'topics':>6} {'dead':>5} {'seeds':>5}" + "".join(
        f"{name:>{width}}" for name, width, _ in COLUMNS
    )
    out = ["  ".join([head, *measures, *options])]
    for row in settings:
        line = render("{algo:10} {topics:>6} {dead:>5.3g} {seeds:>5}", row)[0]
        for name, width, digits in COLUMNS:
            figure = row.get(name)
            line += f"{_format_figure(figure, digits):>{width}}"
        line += "".join(f"  {row[n]:>{len(n)}.4f}" for n in measures)
        out.append(line + "".join(f"  {row.get(n)!s:>{len(n)}}" for n in options))
    reads = [row for row in settings if READS[0] in row]
    for row in reads:
        perplexities = ", ".join(f"{row[name]:.1f}" for name in READS)
        out.append(
            f"{row['algo']} {row['topics']} topics, {COVARIATES} {escaped(row[COVARIATES])}: "
            f"perplexity {row['perplexity']['value']:.1f}, {perplexities} where 80, 50, 20 and 0 % "
            f"of a document's words are read"
        )
    out += [
        "±: standard errors; ≈: a tie with the best, within two standard errors of the "
        "difference (perplexity: on the half kept for choosing; shown: the other half); dead: "
        "topics that hold next to nothing, which NPMI, exclusivity and diversity leave out",
        result["why"],
    ]
    template = (
        "{model}: what the seeds have in common[, perplexity {perplexity:.1f}][, NPMI "
        "{npmi:.3f}]; {stable} of {counted:topic} {are} in more "
        "than half of the seeds ({table})"
    )
    shared = result.get("consensus")
    if not shared:
        return out
    number = shared["topics"] - (shared["background_topic"] is not None)
    are = "is" if shared["stable"] == 1 else "are"
    return out + render(template, {**shared, "counted": number, "are": are})


def _format_figure(figure: Mapping[str, Any] | None, digits: int) -> str:
    """Format a figure with its standard error and, or blanks for, the mark of a tie."""
    if figure is None:
        return "-  "
    text = f"{figure['value']:.{digits}f}"
    if figure["error"] is not None:
        text += f" ± {figure['error']:.{digits}f}"
    return text + (" ≈" if figure["tie"] else "  ")


def _curves(axis: Any, rows: Sequence[Mapping[str, Any]], name: str, label: str) -> None:
    """Plot a figure against the number of topics, with two standard errors."""
    rows = sorted((row for row in rows if row.get(name) is not None), key=lambda row: row["topics"])
    values = [
        row[name] if isinstance(row[name], Mapping) else {"value": row[name], "error": None}
        for row in rows
    ]
    bars = [2 * (v["error"] or 0.0) for v in values]
    axis.errorbar(
        [r["topics"] for r in rows],
        [v["value"] for v in values],
        yerr=bars,
        marker="o",
        ms=3,
        lw=1.2,
        capsize=2,
        label=label,
    )


def plot_sweep(result: Mapping[str, Any], figure: Figure) -> None:
    """Plot each figure against the number of topics, and exclusivity against coherence.

    In the latter a cross is a setting, a dot a topic.
    """
    settings: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["settings"]:
        settings.setdefault(
            " ".join([row["algo"], *(f"{n} {row.get(n)}" for n in result["options"])]), []
        ).append(row)
    panels = [
        panel
        for panel in PANELS
        if any(row.get(panel[0]) is not None for row in result["settings"])
    ]
    *axes, last = figure.add_panels(len(panels) + 1, across=2, size=(4.4, 3))
    for axis, (name, title) in zip(axes, panels, strict=True):
        for label, rows in settings.items():
            _curves(axis, rows, name, figure.escape_formulas(label))
        figure.set_title(axis, title)
        axis.set_xlabel("topics")
    if len(settings) > 1:
        axes[0].legend(fontsize=6, frameon=False)
    for row in result["settings"]:
        x = np.array(row["by_topic"]["npmi"], float)
        y = np.array(row["by_topic"]["exclusivity"], float)
        counts = counted_in_means(row["by_topic"]["kinds"] or [LIVE] * len(x))
        x = x[counts]
        y = y[counts]
        dots = last.scatter(x, y, s=7, alpha=0.35, lw=0)
        colour = dots.get_facecolor()[0][:3]
        means = [
            (row[name]["value"], 2 * (row[name]["error"] or 0.0))
            for name in ("npmi", "exclusivity")
        ]
        last.errorbar(
            [means[0][0]],
            [means[1][0]],
            xerr=[means[0][1]],
            yerr=[means[1][1]],
            color=colour,
            capsize=2,
            lw=1.4,
        )
        last.annotate(
            str(row["topics"]),
            (means[0][0], means[1][0]),
            xytext=(3, 3),
            textcoords="offset points",
            color=colour,
            weight="bold",
        )
    figure.set_title(last, "exclusivity against coherence, by number of topics")
    last.set_xlabel("NPMI coherence")
    last.set_ylabel("exclusivity")
    figure.save()
