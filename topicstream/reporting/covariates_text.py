"""Effects of covariates for people: lines of text, JSON, a figure."""

from __future__ import annotations

import itertools
import math

import numpy as np

from topicstream.errors import one_line
from topicstream.records import Json
from topicstream.reporting.covariates import Effects
from topicstream.reporting.figures import Figure
from topicstream.reporting.formula import as_days
from topicstream.text import counted, shortened

PLOTTED = 12


def result_of(effects: Effects) -> dict[str, Json]:
    """As ``--json`` prints it."""
    return {
        "formula": effects.formula,
        "documents": effects.documents,
        "left_out": effects.left_out,
        "references": effects.references,
        "coefficients": effects.table().to_pylist(),
        "predictions": effects.predictions.to_pylist(),
    }


def lines(effects: Effects) -> list[str]:
    """A block a topic: each coefficient in percentage points with its 95 % interval; a star where that excludes zero."""
    left_out = f", {effects.left_out:,} left out (no value or no known word)" if effects.left_out else ""
    out = [f"{effects.formula}: {counted(effects.documents, 'document')}{left_out}; percentage points of a document's share"]
    out += [
        f"  {column}: measured from {level}{'' if effects.kinds[column] == 'category' else ', for one more (of a date: one more year)'}"
        for column, level in effects.references.items()
    ]
    if determined := effects.coefficients.left_out:
        out.append(f"  left out, determined by the others: {shortened(one_line(', '.join(determined)), 200)}")
    if unknown := [effects.coefficients.names[i] for i in np.flatnonzero(effects.coefficients.errors.min(axis=1) > 1)]:
        out.append(
            f"  warning: too few documents tell apart {', '.join(map(one_line, unknown))}: these estimates mean nothing; "
            "drop the interaction, or smooth more: s(date, 4)"
        )
    table = effects.table()
    width = max(map(len, effects.coefficients.names))
    last = None
    for row in table.to_pylist():
        if row["topic"] != last:
            last = row["topic"]
            out.append(f"{last:>4} {one_line(row['label'])}")
        star = "*" if row["term"] != "(intercept)" and row["se"] <= 1 and (row["low"] > 0 or row["high"] < 0) else " "
        low, estimate, high = (100 * row[name] for name in ("low", "estimate", "high"))
        digits = _decimals(max(abs(low), abs(high)))
        out.append(f"     {one_line(row['term']):{width}} {estimate:+8.{digits}f} {star} [{low:+.{digits}f}, {high:+.{digits}f}]")
    return out


def _decimals(most: float) -> int:
    """Two, or as many as show two digits of a smaller number: an effect for each retweet or word is small."""
    return 2 if not 0 < most < 0.1 else 1 - math.floor(math.log10(most))


def plot_effects(effects: Effects, figure: Figure) -> int:
    """Predicted shares with 95 % intervals, a panel for each topic and variable; returns the topics drawn: the twelve at most
    that differ most beyond their errors."""
    frame = effects.predictions.to_pydict()
    columns = {name: np.array(values, object) for name, values in frame.items()}
    topic, share, error = (columns[name].astype(float) for name in ("topic", "share", "se"))
    spread = {k: np.std(share[topic == k]) / np.mean(error[topic == k] + 1e-12) for k in effects.topics.tolist()}
    topics = sorted(sorted(spread, key=lambda k: -spread[k])[:PLOTTED])
    table = effects.table()
    topic_names = dict(zip(table["topic"].to_pylist(), table["label"].to_pylist()))
    variables = list(dict.fromkeys(frame["variable"]))
    panels = figure.panels(len(topics) * len(variables), across=len(variables), size=(4, 2.2))
    for axis, (k, variable) in zip(panels, itertools.product(topics, variables), strict=True):
        here = (topic == k) & (columns["variable"] == variable)
        figure.titled(axis, f"{k} {shortened(topic_names[k], 30)}, by {shortened(variable, 30)}")
        if effects.kinds[variable] == "category":
            chosen = np.flatnonzero(here)[::-1]
            axis.errorbar(100 * share[chosen], range(len(chosen)), xerr=196 * error[chosen], fmt="o", ms=3, lw=1)
            names = [figure.text(shortened(value, 30)) for value in columns["value"][chosen]]
            axis.set_yticks(range(len(chosen)), names, fontsize=6)
            continue
        figure.ticks(axis, effects.kinds[variable])
        groups = list(dict.fromkeys(columns["group"][here]))
        for group in groups:
            chosen = np.flatnonzero(here & (columns["group"] == group))
            x = columns["value"][chosen].astype(float)
            if effects.kinds[variable] == "date":
                x = as_days(x)
            (curve,) = axis.plot(x, 100 * share[chosen], lw=1.2, label=group and figure.text(shortened(group, 30)))
            low, high = (100 * (share[chosen] + side * 1.96 * error[chosen]) for side in (-1, 1))
            axis.fill_between(x, low, high, color=curve.get_color(), alpha=0.18, lw=0)
        if groups != [None] and k == topics[0]:
            axis.legend(fontsize=6, frameon=False)
    kinds = {effects.kinds[variable] == "category" for variable in variables}
    figure.save("share of a document, %" + " (categories: horizontal)" * (len(kinds) > 1), across=kinds == {True})
    return len(topics)
