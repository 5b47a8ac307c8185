"""Effects of covariates on the shares of topics, as text, JSON, a table and a plot."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.addons.covariates.regression import LEVEL, Coefficients
from topicstream.addons.covariates.robustness import ModelCount, OtherModel, count_agreement
from topicstream.base.errors import one_line
from topicstream.base.records import Json
from topicstream.base.text import counted, shortened, sparkline
from topicstream.display.figures import Figure
from topicstream.model.formula import as_days
from topicstream.model.topic_kinds import LIVE

PREDICTED = pa.schema(
    [
        *((name, pa.string()) for name in ("variable", "value", "group")),
        ("topic", pa.int64()),
        *((name, pa.float64()) for name in ("share", "se", "low", "high")),
        ("reason", pa.string()),
    ]
)
TESTED = pa.schema(
    [
        ("topic", pa.int64()),
        *((name, pa.string()) for name in ("label", "term")),
        *((name, pa.float64()) for name in ("f", "df1", "df2", "p")),
        ("reason", pa.string()),
    ]
)
EXCLUDED = (
    "the error of the topics themselves (another training finds somewhat different topics); "
    "where topics share words, differences come out too small"
)
"""Uncertainty that is not in the intervals."""
PLOTTED = 12
"""Topics of a plot."""
ACROSS = 3
"""Panels beside each other where there is one variable; of several each has a column."""
_CURVE = re.compile(r"(s\([^()]*\))\.\d+")
"""Pattern of the coefficients of a curve: its term and a number."""
UNSURE = 0.15
"""Standard error of a point of a curve from which on it is not drawn: its interval is wider than
most topics ever vary.
"""


def without_nan(table: pa.Table) -> pa.Table:
    """Make the missing numbers of a table nulls, as files and JSON write them."""
    columns = [
        pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if pa.types.is_floating(column.type)
        else column
        for column in table.columns
    ]
    return pa.table(columns, schema=table.schema)


@dataclass(frozen=True, repr=False)
class Effects:
    """Effects of covariates on the shares of topics.

    Attributes
    ----------
    formula
        As it was given.
    documents, left_out
        Training documents in the regression, and those without a known word or a value of a
        covariate (none, or NA or NaN in a column of numbers). Of a corpus with ``--split`` these
        are parts; errors are clustered by the ``coefficients.clusters`` documents that they are of.
    topics, labels
        Stable numbers int64[K] of the topics, and their labels.
    coefficients
        The fitted regression.
    reasons
        For each coefficient, why it has no interval and no star; None where it has them.
    references
        column -> what its effects are measured from: a category (the most frequent by default), or
        the mean of numbers.
    kinds
        column -> ``category``, ``date``, ``whole`` (numbers without fractions) or ``number``: how
        it entered.
    predictions
        A row per topic and value: predicted shares, averaged over the other covariates of the
        documents. Columns: variable, value, group (of an interaction, else null), topic, share,
        se, low and high (95 % interval, NaN where there is none), reason (why there is none).
    topic_kinds
        ``live``, ``dead`` or ``background``, of each topic; none: all are live.
    others
        The same regression under the models of ``also``.
    """

    formula: str
    documents: int
    left_out: int
    topics: np.ndarray
    labels: list[str]
    coefficients: Coefficients
    reasons: list[str | None]
    references: dict[str, str]
    kinds: dict[str, str]
    predictions: pa.Table
    topic_kinds: Sequence[str] = ()
    others: Sequence[OtherModel] = ()

    @property
    def _kind_of_topics(self) -> list[str]:
        """Return the kind of each topic."""
        return list(self.topic_kinds) or [LIVE] * len(self.topics)

    def table(self) -> pa.Table:
        """Tabulate the coefficients, in shares of a document.

        Returns
        -------
        Table
            Columns topic, label, term, estimate, se, df (Student's degrees of freedom), z, low,
            high (95 % interval), reason and kind (of the topic). Where too few documents carry an
            estimate, reason says so, and the numbers from se to high are NaN. With ``others`` also
            models (that have the topic), starred (those in which the interval leaves out zero on
            the same side; null without an interval), lowest and highest (estimate).
        """
        names = self.coefficients.names
        refused = np.array([reason is not None for reason in self.reasons])[:, None]

        def column(values: np.ndarray) -> np.ndarray:
            return np.asarray(np.where(refused, np.nan, values).T.ravel())

        estimate = self.coefficients.estimates
        error = self.coefficients.errors
        reach = self.coefficients.reaches
        z = np.divide(estimate, error, out=np.zeros_like(error), where=error > 0)
        table = pa.table(
            {
                "topic": np.repeat(self.topics, len(names)),
                "label": pa.array([label for label in self.labels for _ in names], pa.string()),
                "term": pa.array(names * len(self.topics), pa.string()),
                "estimate": estimate.T.ravel(),
                "se": column(error),
                "df": column(self.coefficients.error_freedoms),
                "z": column(z),
                "low": column(estimate - reach),
                "high": column(estimate + reach),
                "reason": pa.array(self.reasons * len(self.topics), pa.string()),
                "kind": pa.array(
                    [kind for kind in self._kind_of_topics for _ in names], pa.string()
                ),
            }
        )
        return self._with_agreement(table) if self.others else table

    def _with_agreement(self, table: pa.Table) -> pa.Table:
        """Add to the coefficients how they come out under the other models."""
        agreements = [
            self._count_agreement(topic, [row])
            for topic in range(len(self.topics))
            for row in range(len(self.coefficients.names))
        ]
        starred = [
            None if self.reasons[i % len(self.reasons)] else agreement.starred
            for i, agreement in enumerate(agreements)
        ]
        columns = {
            "models": pa.array([agreement.models for agreement in agreements]),
            "starred": pa.array(starred, pa.int64()),
            "lowest": pa.array([agreement.low for agreement in agreements]),
            "highest": pa.array([agreement.high for agreement in agreements]),
        }
        for name, column in columns.items():
            table = table.append_column(name, column)
        return table

    def _count_agreement(self, topic: int, places: list[int]) -> ModelCount:
        """Count the models that agree on a term of a topic."""
        return count_agreement(self.coefficients, self.others, topic, places)

    def tests(self) -> pa.Table:
        """Test each term of several coefficients, such as a curve, as a whole.

        Returns
        -------
        Table
            Columns topic, label, term, f, df1, df2, p and reason (why there is no test).
        """
        rows = []
        for j, (topic, label) in enumerate(zip(self.topics.tolist(), self.labels, strict=True)):
            for term, places in self._group_terms().items():
                if len(places) == 1:
                    continue
                reason = self._explain_term(places)
                test = self.coefficients.test(places, j)._asdict()
                numbers = dict.fromkeys(test, math.nan) if reason else test
                row = {"topic": topic, "label": label, "term": term, **numbers, "reason": reason}
                rows.append(row)
        return pa.Table.from_pylist(rows, TESTED)

    def plain(self) -> dict[str, Json]:
        """Return the record that ``--json`` prints."""
        return {
            "formula": self.formula,
            "documents": self.documents,
            "clusters": self.coefficients.clusters,
            "left_out": self.left_out,
            "references": self.references,
            "also": [other.name for other in self.others],
            "intervals": {"level": LEVEL, "excluded": EXCLUDED},
            "coefficients": without_nan(self.table()).to_pylist(),
            "tests": without_nan(self.tests()).to_pylist(),
            "predictions": without_nan(self.predictions).to_pylist(),
        }

    def _group_terms(self) -> dict[str, list[int]]:
        """Group the positions of the coefficients by term, where a curve is one term."""
        terms: dict[str, list[int]] = {}
        for i, name in enumerate(self.coefficients.names):
            terms.setdefault(_CURVE.sub(r"\1", name), []).append(i)
        return terms

    def _explain_term(self, places: list[int]) -> str | None:
        """Explain why a term has no test: none of its coefficients has an interval."""
        reasons = [self.reasons[i] for i in places]
        return reasons[0] if all(reasons) else None

    def lines(self) -> list[str]:
        """Show a block a topic.

        Each coefficient is in percentage points, with its 95 % interval and a star where that
        excludes zero; a curve has the test of all its coefficients, and the predicted shares.
        """
        terms = self._group_terms()
        curves, ends = self._collect_curves()
        out = self._format_head(ends)
        width = max(map(len, [*terms, *(name for name, _ in curves)]))
        for j, (k, label) in enumerate(zip(self.topics.tolist(), self.labels, strict=True)):
            out.append(f"{k:>4} {one_line(label)}{self._describe_models(j)}")
            for term, places in terms.items():
                agreement = self._describe_agreement(j, places)
                out.append(
                    f"     {one_line(term):{width}} {self._format_term(j, places)}{agreement}"
                )
            for (name, topic), shares in curves.items():
                if topic == k and not np.isnan(shares).all():
                    out.append(
                        f"     {one_line(name):{width}} {sparkline(shares, 24)}  "
                        f"{np.nanmin(shares):.2f} to {np.nanmax(shares):.2f}"
                    )
        return out

    def _describe_models(self, topic: int) -> str:
        """Say in how many models a topic is, where it is not in all."""
        missing = sum(bool(other.places[topic] < 0) for other in self.others)
        models = 1 + len(self.others)
        return f" (in {models - missing} of {models} models)" if missing else ""

    def _describe_agreement(self, topic: int, places: list[int]) -> str:
        """Format in how many models a term has a star, and the range of its estimates."""
        if not self.others or self._explain_term(places):
            return ""
        agreement = self._count_agreement(topic, places)
        stars = f"   * in {agreement.starred} of {agreement.models}"
        return (
            stars
            if len(places) > 1
            else f"{stars}, {100 * agreement.low:+.2f} to {100 * agreement.high:+.2f}"
        )

    def _format_head(self, ends: dict[str, list[float]]) -> list[str]:
        """Format the lines above the topics, with the ranges (``ends``) of curves."""
        left_out = (
            f", {self.left_out:,} left out (no value or no known word)" if self.left_out else ""
        )
        clusters = self.coefficients.clusters
        parts = (
            f" (parts of {clusters:,}, which standard errors are clustered by)"
            if clusters < self.documents
            else ""
        )
        out = [
            f"{self.formula}: {counted(self.documents, 'document')}{parts}{left_out}; "
            f"percentage points of a document's share",
            f"  the 95 % intervals leave out {EXCLUDED}",
        ]
        if self.others:
            out.append(
                f"  * in 2 of 3: models in which the interval leaves out zero on the same side, "
                f"among this one and {', '.join(one_line(other.name) for other in self.others)}; "
                f"and the range of their estimates"
            )
        for column, level in self.references.items():
            of_number = ", for one more (of a date: one more year)"
            unit = "" if self.kinds[column] == "category" else of_number
            out.append(f"  {column}: measured from {level}{unit}")
        determined = self.coefficients.left_out
        if determined:
            out.append(
                f"  left out, determined by the others: "
                f"{shortened(one_line(', '.join(determined)), 200)}"
            )
        return out + [
            f"  {name}: a curve from {min(x):.6g} to {max(x):.6g}, below as predicted shares, "
            f"least to most"
            for name, x in ends.items()
        ]

    def _collect_curves(self) -> tuple[dict[tuple[str, int], list[float]], dict[str, list[float]]]:
        """Collect the predicted curves.

        Returns
        -------
        tuple
            Shares in percent of each curve and topic, NaN where unsure, and the values of each.
        """
        curves: dict[tuple[str, int], list[float]] = {}
        values: dict[str, list[float]] = {}
        for row in self.predictions.to_pylist():
            if row["variable"] in self.references:
                continue
            name = f"{row['variable']}, {row['group']}" if row["group"] else row["variable"]
            share = 100 * row["share"] if row["se"] <= UNSURE else math.nan
            curves.setdefault((name, row["topic"]), []).append(share)
            values.setdefault(row["variable"], []).append(float(row["value"]))
        return curves, values

    def _format_term(self, topic: int, places: list[int]) -> str:
        """Format a coefficient with its interval, or the test of several, or a reason."""
        reason = self._explain_term(places)
        if len(places) > 1:
            if reason:
                return f"{'':>10} {one_line(reason)}"
            f, df1, df2, p = self.coefficients.test(places, topic)
            star = "*" if p < 1 - LEVEL else " "
            return f"{star:>10} F({df1:.4g}, {df2}) {f:.2f}, p {f'{p:.2g}' if p else '< 1e-300'}"
        estimate = 100 * float(self.coefficients.estimates[places[0], topic])
        reach = 0.0 if reason else 100 * float(self.coefficients.reaches[places[0], topic])
        # an effect for each retweet or word is small: as many digits as show two
        most = abs(estimate) + reach
        digits = 2 if not 0 < most < 0.1 else 1 - math.floor(math.log10(most))
        if reason:
            return f"{estimate:+8.{digits}f}   {one_line(reason)}"
        star = "*" if places != [0] and abs(estimate) > reach else " "
        return (
            f"{estimate:+8.{digits}f} {star} [{estimate - reach:+.{digits}f}, "
            f"{estimate + reach:+.{digits}f}]"
        )

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def plot(self, figure: Figure) -> int:
        """Draw predicted shares with 95 % intervals, a panel for each topic and variable.

        Returns
        -------
        int
            Topics drawn: the twelve at most that differ most beyond their errors.
        """
        columns = {
            name: np.array(values, object) for name, values in self.predictions.to_pydict().items()
        }
        for name in ("topic", "share", "se", "low", "high"):
            columns[name] = columns[name].astype(float)
        topics = self._most_different(columns)
        topic_names = dict(zip(self.topics.tolist(), self.labels, strict=True))
        variables = list(dict.fromkeys(columns["variable"]))
        across = len(variables) if len(variables) > 1 else min(ACROSS, len(topics))
        panels = figure.add_panels(len(topics) * len(variables), across=across, size=(4, 2.2))
        for axis, (k, variable) in zip(panels, itertools.product(topics, variables), strict=True):
            figure.set_title(
                axis, f"{k} {shortened(topic_names[k], 30)}, by {shortened(variable, 30)}"
            )
            chosen = np.flatnonzero((columns["topic"] == k) & (columns["variable"] == variable))
            rows = {name: values[chosen] for name, values in columns.items()}
            if self.kinds[variable] == "category":
                _draw_levels(figure, axis, rows)
                continue
            figure.set_ticks(axis, self.kinds[variable])
            self._draw_curves(figure, axis, variable, rows)
            if k == topics[0] and any(rows["group"]):
                axis.legend(fontsize=6, frameon=False)
        kinds = {self.kinds[variable] == "category" for variable in variables}
        figure.save(
            "share of a document, %" + " (categories: horizontal)" * (len(kinds) > 1),
            across=kinds == {True},
        )
        return len(topics)

    def _most_different(self, columns: dict[str, np.ndarray]) -> list[int]:
        """Choose the live topics whose predictions differ most beyond their errors."""
        known = np.isfinite(columns["se"])

        def spread(k: int) -> float:
            chosen = known & (columns["topic"] == k)
            if not chosen.any():
                return 0.0
            return float(
                np.std(columns["share"][chosen]) / (np.mean(columns["se"][chosen]) + 1e-12)
            )

        numbers = self.topics.tolist()
        live = [k for k, kind in zip(numbers, self._kind_of_topics, strict=True) if kind == LIVE]
        return sorted(sorted(live or numbers, key=spread, reverse=True)[:PLOTTED])

    def _draw_curves(
        self, figure: Figure, axis: Any, variable: str, rows: dict[str, np.ndarray]
    ) -> None:
        """Draw shares over the values of a variable, a line for each group."""
        for group in dict.fromkeys(rows["group"]):
            chosen = np.flatnonzero(rows["group"] == group)
            x = rows["value"][chosen].astype(float)
            if self.kinds[variable] == "date":
                x = as_days(x)
            share = rows["share"][chosen]
            if variable not in self.references:
                share[~(rows["se"][chosen] <= UNSURE)] = np.nan
            label = group and figure.escape_formulas(shortened(group, 30))
            (curve,) = axis.plot(x, 100 * share, lw=1.2, label=label)
            low = np.where(np.isnan(share), np.nan, rows["low"][chosen])
            high = np.where(np.isnan(share), np.nan, rows["high"][chosen])
            axis.fill_between(x, 100 * low, 100 * high, color=curve.get_color(), alpha=0.18, lw=0)


def _draw_levels(figure: Figure, axis: Any, rows: dict[str, np.ndarray]) -> None:
    """Draw the shares of a category's levels, without interval for too few documents."""
    share, low, high = (100 * rows[name][::-1] for name in ("share", "low", "high"))
    places = np.arange(len(share))
    known = np.isfinite(low)
    axis.errorbar(
        share[known],
        places[known],
        xerr=np.stack((share - low, high - share))[:, known],
        fmt="o",
        ms=3,
        lw=1,
    )
    axis.plot(share[~known], places[~known], "o", ms=3, color="0.6")
    names = [
        figure.escape_formulas(shortened(value, 30)) + ("" if certain else " (too few documents)")
        for value, certain in zip(rows["value"][::-1], known, strict=True)
    ]
    axis.set_yticks(places, names, fontsize=6)
