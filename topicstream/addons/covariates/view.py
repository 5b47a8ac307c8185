"""Shares of topics that a model's prior predicts from covariates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit, softmax

from topicstream.addons.covariates.effects import without_nan
from topicstream.addons.covariates.influence import FEW
from topicstream.addons.covariates.intervals import choose_draws, draw_errors
from topicstream.base.errors import InputError, TopicsError
from topicstream.base.files.outputs import written_together
from topicstream.base.options import option
from topicstream.base.progress import listener
from topicstream.base.text import escaped, shortened, sparkline
from topicstream.display.figures import Figure
from topicstream.display.metadata import open_model_corpus
from topicstream.display.view import ModelView
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.model.design import MOST_LISTED, PriorDesign, decode_design
from topicstream.model.formula import Covariate, as_days
from topicstream.model.regimes import Regimes

POINTS = 40
"""Points of a curve."""
LEAST_WHOLE = 5
"""Between whole ends so far apart a number is taken at whole values; 0 to 1 is a share."""
PLOTTED = 12
HEAD = (
    "predicted shares in %, the other covariates at their reference or mean; in brackets the 95 % "
    "interval; *: beyond it from the reference or mean"
)
EXCLUDED = (
    "the 95 % intervals are about the documents, given these topics: of simulated corpora whose "
    "topics have words of their own they held 91 to 97 % of the true shares, but where topics "
    "overlap, shares come out too equal, and of 2,000 documents they held 41 to 87 %; a star is "
    "about a difference between values, where that error cancels"
)
UNSURE = "the intervals and stars take the change points as given"
PLAIN_HEAD = "predicted shares, the other covariates at their reference or mean"
REACH = 1.96
"""Standard errors of a 95 % interval."""
EDGE = 1e-12

ROWS = pa.schema(
    [
        ("variable", pa.string()),
        ("value", pa.string()),
        ("topic", pa.int64()),
        ("label", pa.string()),
        ("documents", pa.int64()),
        ("share", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("differs", pa.bool_()),
        ("reason", pa.string()),
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
        ``low``, ``high``: the 95 % interval. ``differs``: whether the share is beyond its interval
        from that at the reference, or at the mean of numbers; null where ``reason`` says why not.
        """
        trained = self.shown.trained
        entry = trained.manifest.covariates
        coefficients = trained.coefficients
        if entry is None or coefficients is None:
            raise InputError(
                f"{trained.path}: was trained without covariates; train with --covariates, or use "
                f"`topics effects` to explain the shares of this model"
            )
        design = decode_design(entry)
        errors, reason = self._draw_errors(*coefficients.shape)
        rows = [pa.table([[]] * len(ROWS), schema=ROWS)]
        for covariate, values in list_variables(design):
            x = predicted_rows(design, covariate, values)
            base = predicted_rows(design, *reference_of(covariate))
            predicted = Predicted.predict(x, base, coefficients, errors, self.shown.view.columns)
            rows.append(self._tabulate(covariate, [name for name, _ in values], predicted, reason))
        return pa.concat_tables(rows)

    @property
    def timed(self) -> Regimes | None:
        """Return the covariate that is divided into regimes, None without any."""
        entry = self.shown.trained.manifest.covariates
        return None if entry is None else decode_design(entry).regimes

    def _draw_errors(self, columns: int, topics: int) -> tuple[np.ndarray | None, str | None]:
        """Draw errors of the coefficients, None with the reason where that cannot be."""
        draws = choose_draws(columns, topics)
        if not draws:
            return None, f"too many coefficients for intervals: {columns:,} of {topics:,} topics"
        tell = listener(self.progress)
        try:
            corpus = open_model_corpus(self.shown.trained, self.corpus)
        except TopicsError as e:
            tell.say(f"no intervals, for they need the corpus: {e}")
            return None, "no corpus"

        def step(documents_read: int, documents: int) -> None:
            tell.step("reading topics and covariates", documents_read, documents, "documents")

        return draw_errors(self.shown.trained, corpus, draws, self.shown.threads, step), None

    def _tabulate(
        self, covariate: Covariate, names: list[str], predicted: Predicted, reason: str | None
    ) -> pa.Table:
        """Tabulate the predictions of a variable."""
        columns = self.shown.columns(self.topics)
        k = len(columns)
        documents = [covariate.counts[name] if covariate.levels else None for name in names]
        labels = np.array([self.shown.names[c] for c in columns], object)
        reasons = [reason or explain_missing_star(covariate, name) for name in names]
        tested = np.array([text is None for text in reasons])
        differs = predicted.differs[:, columns].astype(object)
        differs[~tested] = None
        cells: dict[str, Any] = {
            "variable": [covariate.column] * (len(names) * k),
            "value": np.repeat(np.array(names, object), k),
            "topic": np.tile(self.shown.view.numbers[np.array(columns)], len(names)),
            "label": np.tile(labels, len(names)),
            "documents": np.repeat(np.array(documents, object), k),
            "share": predicted.share[:, columns].ravel(),
            "low": predicted.low[:, columns].ravel(),
            "high": predicted.high[:, columns].ravel(),
            "differs": differs.ravel(),
            "reason": np.repeat(np.array(reasons, object), k),
        }
        return without_nan(pa.table(cells, schema=ROWS))

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
                drawn = draw_panels(table.to_pylist(), figure, self.timed)
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
        known = any(row["low"] is not None for row in result)
        out = [HEAD, EXCLUDED] if known else [PLAIN_HEAD]
        timed = self.timed
        if timed is not None:
            out += [UNSURE] if known else []
            out += timed.lines()
        for topic in dict.fromkeys(row["topic"] for row in result):
            rows_of_topic = [row for row in result if row["topic"] == topic]
            out.append(f"{topic:>4} {escaped(shortened(rows_of_topic[0]['label'], 60))}")
            for variable in dict.fromkeys(row["variable"] for row in rows_of_topic):
                rows = [row for row in rows_of_topic if row["variable"] == variable]
                in_time = timed is not None and variable == timed.column
                text = describe(rows, width or 80, in_time)
                out.append(f"       {escaped(variable)}: {text}")
        return out


class Predicted(NamedTuple):
    """Predicted shares of the shown topics, [R, shown] each.

    Attributes
    ----------
    share, low, high
        The shares and the ends of their intervals, NaN where there are none.
    differs
        Whether a share is beyond the interval of its difference from the base.
    """

    share: np.ndarray
    low: np.ndarray
    high: np.ndarray
    differs: np.ndarray

    @classmethod
    def predict(
        cls,
        x: np.ndarray,
        base: np.ndarray,
        coefficients: np.ndarray,
        errors: np.ndarray | None,
        columns: Callable[[np.ndarray], np.ndarray],
    ) -> Predicted:
        """Predict shares at the rows x, float64[R, F], of a design.

        Parameters
        ----------
        base
            float64[1, F], what they are compared with.
        errors
            float64[draws, F, K], of the coefficients.
        columns
            Turns shares of the trained topics, [n, K], into those of the shown ones.
        """
        log_odds = log_odds_at(x, coefficients, columns)
        share = expit(log_odds)
        if errors is None:
            nothing = np.full(share.shape, np.nan)
            return cls(share, nothing, nothing, np.zeros(share.shape, np.bool_))
        of_base = log_odds_at(base, coefficients, columns)
        squares = np.zeros(share.shape)
        squares_of_difference = np.zeros(share.shape)
        for error in errors:
            drawn = log_odds_at(x, coefficients + error, columns) - log_odds
            drawn_base = log_odds_at(base, coefficients + error, columns) - of_base
            squares += drawn**2
            squares_of_difference += (drawn - drawn_base) ** 2
        reach = REACH * np.sqrt(squares / len(errors))
        beyond = REACH * np.sqrt(squares_of_difference / len(errors))
        differs = np.abs(log_odds - of_base) > np.maximum(beyond, EDGE)
        return cls(share, expit(log_odds - reach), expit(log_odds + reach), differs)


def log_odds_at(
    x: np.ndarray, coefficients: np.ndarray, columns: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Compute the log odds of the shown topics' shares at rows of a design."""
    shares = columns(softmax(x @ coefficients, axis=1))
    return np.asarray(logit(np.clip(shares, EDGE, 1.0 - EDGE)))


def reference_of(covariate: Covariate) -> tuple[Covariate, list[tuple[str, str | float]]]:
    """Return what the values of a covariate are compared with, as ``predicted_rows`` takes it.

    That of lists is a document without a value, so a row in which no covariate has one.
    """
    if covariate.listed:
        return Covariate(""), [("", "")]
    if covariate.levels:
        return covariate, [(covariate.levels[0], covariate.levels[0])]
    return covariate, [("mean", covariate.mean)]


def explain_missing_star(covariate: Covariate, level: str) -> str | None:
    """Explain why a level has no star: it, or the reference, has few documents."""
    if not covariate.levels:
        return None
    for name in (level, *covariate.levels[: not covariate.listed]):
        number = covariate.counts[name]
        if number < FEW:
            return f"too few documents: {number} ({covariate.column}={name})"
    return None


def list_variables(
    design: PriorDesign,
) -> Iterator[tuple[Covariate, list[tuple[str, str | float]]]]:
    """Yield each covariate with the names and values that shares are predicted for."""
    for covariate in {c.column: c for c in design.covariates.values()}.values():
        if covariate.levels:
            yield covariate, [(level, level) for level in covariate.levels[:MOST_LISTED]]
            continue
        points = choose_points(covariate)
        if covariate.kind == "date":
            names = np.datetime_as_string(as_days(points)).tolist()
        else:
            names = [f"{x:.6g}" for x in points]
        yield covariate, list(zip(names, points.tolist(), strict=True))


def choose_points(covariate: Covariate) -> np.ndarray:
    """Choose the values of a number or date that shares are predicted for.

    Between whole ends that lie apart, such as years and grades, they are whole.
    """
    low = covariate.low
    high = covariate.high
    points = np.linspace(low, high, POINTS)
    whole = low == round(low) and high == round(high) and high - low >= LEAST_WHOLE
    return np.unique(np.rint(points)) if whole and covariate.kind != "date" else points


def predicted_rows(
    design: PriorDesign, covariate: Covariate, values: list[tuple[str, str | float]]
) -> np.ndarray:
    """Make the rows of the design, float64[n, F], of values of one covariate."""
    blocks = {}
    for factor, other in design.covariates.items():
        width = len(other.names())
        rows = np.zeros((len(values), width))
        coded_width = width - design.has_own_category(other)
        if other.column == covariate.column:
            rows[:, :coded_width] = design.code_values([value for _, value in values], factor)
        elif not other.levels:
            rows[:, :coded_width] = design.code_values([other.mean], factor)
        blocks[factor] = rows
    out = [np.ones((len(values), 1))]
    for term in design.terms:
        product = np.ones((len(values), 1))
        for factor in term:
            product = (product[:, :, None] * blocks[factor][:, None, :]).reshape(len(values), -1)
        out.append(product)
    return np.concatenate(out, axis=1)


def describe(rows: list[dict[str, Any]], width: int, in_time: bool = False) -> str:
    """Describe the shares of a topic by one variable, all of regimes in order of time."""
    if in_time:
        return ", ".join(format_share(row) for row in rows)
    shares = [row["share"] for row in rows]
    if rows[0]["documents"] is None:
        curve = sparkline(shares, max(8, min(40, width - 60)))
        return f"{format_share(rows[0])}  {curve}  {format_share(rows[-1])}"
    ranked = sorted(rows, key=lambda row: -row["share"])
    shown = ranked if len(ranked) <= 6 else [*ranked[:3], None, *ranked[-2:]]
    return ", ".join("..." if row is None else format_share(row) for row in shown)


def format_share(row: dict[str, Any]) -> str:
    """Format a predicted share, with its interval and star if it has them."""
    text = f"{escaped(shortened(row['value'], 24))} {100 * row['share']:.1f}"
    if row["low"] is None:
        return f"{text} %"
    star = "*" if row["differs"] else ""
    return f"{text}{star} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def draw_panels(rows: list[dict[str, Any]], figure: Figure, timed: Regimes | None = None) -> int:
    """Draw a panel for each topic and variable, those that vary most, and count them.

    The regimes of ``timed`` are steps over time.
    """
    panels: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in rows:
        panels.setdefault((row["topic"], row["variable"]), []).append(row)
    spread = {
        key: float(np.std([row["share"] for row in rows_of_panel]))
        for key, rows_of_panel in panels.items()
    }
    chosen = sorted(sorted(panels, key=lambda key: -spread[key])[:PLOTTED])
    for axis, key in zip(figure.add_panels(len(chosen), across=3), chosen, strict=True):
        rows_of_panel = panels[key]
        shares = 100 * np.array([row["share"] for row in rows_of_panel])
        figure.set_title(axis, f"{key[0]} {shortened(rows_of_panel[0]['label'], 24)}, by {key[1]}")
        names = [figure.escape_formulas(shortened(row["value"], 18)) for row in rows_of_panel]
        in_time = timed is not None and key[1] == timed.column
        is_curve = in_time or rows_of_panel[0]["documents"] is None
        ends = [(row["low"], row["high"]) for row in rows_of_panel if row["low"] is not None]
        low, high = 100 * np.array(ends).T if ends else (shares, shares)
        if timed is not None and in_time:
            places = np.repeat(timed.edges(), 2)[1:-1]
            (shares, low, high) = (np.repeat(values, 2) for values in (shares, low, high))
        else:
            places = read_values(rows_of_panel) if is_curve else np.arange(len(rows_of_panel))
        if is_curve:
            axis.plot(places, shares, lw=1.2)
            axis.fill_between(places, low, high, alpha=0.18, lw=0)
            figure.set_ticks(axis, choose_tick_kind(places))
            axis.tick_params(axis="x", labelsize=6)
        else:
            axis.bar(places, shares, color="C0", alpha=0.6)
            axis.vlines(places, low, high, color="0.2", lw=1)
            every = max(1, len(rows_of_panel) // 6)
            axis.set_xticks(places[::every], names[::every], fontsize=6)
        axis.set_ylim(0, None)
    figure.save("predicted share of documents, %")
    return len(chosen)


def read_values(rows: list[dict[str, Any]]) -> np.ndarray:
    """Read the values of a curve as numbers, or as dates, datetime64[D]."""
    texts = np.array([row["value"] for row in rows])
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts.astype("datetime64[D]")


def choose_tick_kind(values: np.ndarray) -> str:
    """Return the kind of the ticks below a curve, as ``Figure.set_ticks`` takes it."""
    if values.dtype.kind == "M":
        return "date"
    return "whole" if (values == np.rint(values)).all() else "number"
