"""Shares of topics that a model's prior predicts from covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.files.outputs import written_together
from topicstream.base.options import option
from topicstream.base.progress import listener
from topicstream.base.text import escaped, shortened, sparkline
from topicstream.display.figures import Figure
from topicstream.display.view import ModelView
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.model.design import MOST_LISTED, PriorDesign
from topicstream.model.formula import Covariate, as_days

POINTS = 40
"""Points of a curve."""
PLOTTED = 12
HEAD = "predicted shares, the other covariates at their reference or mean (without intervals)"

ROWS = pa.schema(
    [
        ("variable", pa.string()),
        ("value", pa.string()),
        ("topic", pa.int64()),
        ("label", pa.string()),
        ("documents", pa.int64()),
        ("share", pa.float64()),
    ]
)


@dataclass(frozen=True)
class CovariatesView(ModelView, heeds=("topics",)):
    """Shares that the covariates of a model predict."""

    title: ClassVar[str] = "Shares predicted from covariates (--covariates)"
    covariates: bool = option(
        False,
        "For a model of `train --covariates`: the shares of topics that it expects by the values "
        "of each covariate, before a word is read.",
    )
    out: str | None = option(
        None, "Write the table as .parquet, .csv, .jsonl, .tex or .md.", path="file", metavar="FILE"
    )
    plot: str | None = option(
        None, "Draw bars and curves as .svg, .png or .pdf.", path="file", metavar="FILE"
    )
    force: bool = option(False, "Replace an existing output file.")

    @cached_property
    def table(self) -> pa.Table:
        """Predict shares: a row a value of each variable and topic.

        The share of topic k is alpha_k / sum of alpha at the value, while the other covariates have
        their reference or mean. ``documents``: training documents of a category, null for numbers.
        """
        trained = self.shown.trained
        entry = trained.manifest.covariates
        coefficients = trained.coefficients
        if entry is None or coefficients is None:
            raise InputError(
                f"{trained.path}: was trained without covariates; train with --covariates, or use "
                f"`topics effects` to explain the shares of this model"
            )
        design = entry.design()
        columns = self.shown.columns(self.topics)
        view = self.shown.view
        rows = [pa.table([[]] * len(ROWS), schema=ROWS)]
        for covariate, values in variables(design):
            x = predicted_rows(design, covariate, values)
            alpha = np.exp(x @ coefficients)
            alpha = view.columns(alpha / alpha.sum(axis=1, keepdims=True))[:, columns]
            names = [name for name, _ in values]
            documents = [covariate.counts[name] if covariate.levels else None for name in names]
            labels = np.array([self.shown.names[c] for c in columns], object)
            k = len(columns)
            cells: dict[str, Any] = {
                "variable": [covariate.column] * (len(names) * k),
                "value": np.repeat(np.array(names, object), k),
                "topic": np.tile(view.numbers[np.array(columns)], len(names)),
                "label": np.tile(labels, len(names)),
                "documents": np.repeat(np.array(documents, object), k),
                "share": alpha.ravel(),
            }
            rows.append(pa.table(cells, schema=ROWS))
        return pa.concat_tables(rows)

    def result(self) -> list[dict[str, Any]]:
        """Compute the rows of the table, and write the files that were asked for."""
        if self.out is not None:
            check_table_file(self.out, "--out", force=self.force, text=True)
        figure = Figure(self.plot, "--plot", force=self.force) if self.plot is not None else None
        table = self.table
        tell = listener(self.progress)
        with written_together():
            if self.out is not None:
                write_table(table, self.out, force=self.force, caption="Predicted shares of topics")
            if figure is not None:
                drawn = draw(table.to_pylist(), figure)
        if self.out is not None:
            tell.say(f"{self.out}: {len(table):,} rows")
        if figure is not None:
            tell.say(f"{self.plot}: {drawn} panels")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def lines(self, result: list[dict[str, Any]], width: int | None) -> list[str]:
        """Format a line a topic and variable: the extreme categories, or a curve."""
        if self.out is not None or self.plot is not None:
            return []
        out = [HEAD]
        for topic in dict.fromkeys(row["topic"] for row in result):
            own = [row for row in result if row["topic"] == topic]
            out.append(f"{topic:>4} {escaped(shortened(own[0]['label'], 60))}")
            for variable in dict.fromkeys(row["variable"] for row in own):
                rows = [row for row in own if row["variable"] == variable]
                out.append(f"       {escaped(variable)}: {describe(rows, width or 80)}")
        return out


def variables(design: PriorDesign) -> Iterator[tuple[Covariate, list[tuple[str, str | float]]]]:
    """Yield each covariate with the names and values that shares are predicted for."""
    for covariate in {c.column: c for c in design.covariates.values()}.values():
        if covariate.levels:
            yield covariate, [(level, level) for level in covariate.levels[:MOST_LISTED]]
            continue
        points = np.linspace(covariate.low, covariate.high, POINTS)
        if covariate.kind == "date":
            names = [str(day) for day in as_days(points).tolist()]
        else:
            names = [f"{x:.6g}" for x in points]
        yield covariate, list(zip(names, points.tolist(), strict=True))


def predicted_rows(
    design: PriorDesign, covariate: Covariate, values: list[tuple[str, str | float]]
) -> np.ndarray:
    """Make the rows of the design, float64[n, F], of values of one covariate."""
    blocks = {}
    for factor, other in design.covariates.items():
        width = len(other.names())
        rows = np.zeros((len(values), width))
        own = width - design.has_own_category(other)
        if other.column == covariate.column:
            rows[:, :own] = design.coded([value for _, value in values], factor)
        elif not other.levels:
            rows[:, :own] = design.coded([other.mean], factor)
        blocks[factor] = rows
    out = [np.ones((len(values), 1))]
    for term in design.terms:
        product = np.ones((len(values), 1))
        for factor in term:
            product = (product[:, :, None] * blocks[factor][:, None, :]).reshape(len(values), -1)
        out.append(product)
    return np.concatenate(out, axis=1)


def describe(rows: list[dict[str, Any]], width: int) -> str:
    """Describe the shares of a topic by one variable."""
    shares = [row["share"] for row in rows]
    if rows[0]["documents"] is None:
        curve = sparkline(shares, max(8, min(40, width - 60)))
        first = f"{rows[0]['value']} {100 * shares[0]:.1f} %"
        return f"{escaped(first)}  {curve}  {escaped(rows[-1]['value'])} {100 * shares[-1]:.1f} %"
    ranked = sorted(rows, key=lambda row: -row["share"])
    shown = ranked if len(ranked) <= 6 else [*ranked[:3], None, *ranked[-2:]]
    return ", ".join(
        "..."
        if row is None
        else f"{escaped(shortened(row['value'], 24))} {100 * row['share']:.1f} %"
        for row in shown
    )


def draw(rows: list[dict[str, Any]], figure: Figure) -> int:
    """Draw a panel for each topic and variable, those that vary most, and count them."""
    panels: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        panels.setdefault((row["topic"], row["variable"]), []).append(row)
    spread = {key: float(np.std([row["share"] for row in own])) for key, own in panels.items()}
    chosen = sorted(sorted(panels, key=lambda key: -spread[key])[:PLOTTED])
    for axis, key in zip(figure.add_panels(len(chosen), across=3), chosen, strict=True):
        own = panels[key]
        shares = [100 * row["share"] for row in own]
        figure.set_title(axis, f"{key[0]} {shortened(own[0]['label'], 24)}, by {key[1]}")
        names = [figure.escape_formulas(shortened(row["value"], 18)) for row in own]
        places = list(range(len(own)))
        if own[0]["documents"] is None:
            axis.plot(places, shares, lw=1.2)
        else:
            axis.bar(places, shares, color="C0")
        every = max(1, len(own) // 6)
        axis.set_xticks(places[::every], names[::every], fontsize=6)
        axis.set_ylim(0, None)
    figure.save("predicted share of documents, %")
    return len(chosen)
