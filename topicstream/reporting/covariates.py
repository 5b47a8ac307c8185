"""``effects``: shares of topics explained by covariates of the documents, as text, JSON, a table
and a plot.
"""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import fdtrc

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError, one_line
from topicstream.evaluation.keys import documents
from topicstream.evaluation.visiting import document_shares
from topicstream.files.mirror import mirrored
from topicstream.memory import ThreadedOptions
from topicstream.model.edits import View
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured, like, option
from topicstream.progress import listener
from topicstream.records import Json
from topicstream.reporting.config import ShowConfig
from topicstream.reporting.figures import Figure
from topicstream.reporting.formula import (
    Covariate,
    Design,
    Factor,
    Term,
    as_days,
    as_number,
    parse_formula,
)
from topicstream.reporting.metadata import (
    Metadata,
    check_columns,
    columns_of,
    open_corpus,
    values_given,
)
from topicstream.reporting.regression import Coefficients, Regression
from topicstream.reporting.view import look_at
from topicstream.text import counted, shortened, sparkline

PREDICTED = pa.schema(
    [
        *((name, pa.string()) for name in ("variable", "value", "group")),
        ("topic", pa.int64()),
        ("share", pa.float64()),
        ("se", pa.float64()),
    ]
)
AVERAGED = 2_000
"""Documents whose other covariates a prediction is averaged over, the first that have all of them,
evenly spaced.
"""
PLOTTED = 12
"""Topics of a plot."""
_CURVE = re.compile(r"(s\([^()]*\))\.\d+")
"""Of the name of a coefficient, the part that belongs to a curve."""
POINTS = 40
"""Points of a predicted curve."""
UNSURE = 0.15
"""Standard error of a point of a curve from which on it is not drawn: its interval is wider than
most topics ever vary.
"""


def as_references(references: str | Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    """``party=red``, or some of these -> {party: red}; UsageError."""
    listed = [references] if isinstance(references, str) else references
    pairs = (
        listed if isinstance(listed, Mapping) else dict(one.partition("=")[::2] for one in listed)
    )
    if not all(pairs.values()):
        raise UsageError(f"{' '.join(listed)}: write COLUMN=VALUE, such as party=red")
    return pairs


@dataclass(frozen=True)
class EffectsConfig(ThreadedOptions):
    """What ``effects`` is asked."""

    formula: str = option("", "Covariates, such as 'party * s(date)'.", cli=False)
    model: str | Path | TopicModel = option(
        "model",
        "Folder of the model ($TOPICS_MODEL).",
        env="TOPICS_MODEL",
        show=True,
        parse=mirrored,
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus store ($TOPICS_CORPUS).",
        env="TOPICS_CORPUS",
        show=True,
        parse=mirrored,
    )
    _: KW_ONLY
    topics: Sequence[int] | None = like(ShowConfig, "topics")
    reference: Mapping[str, str] | Sequence[str] = option(
        (),
        "Category that the others of a column are measured from (default: the most frequent; "
        "repeatable).",
        multiple=True,
        metavar="COLUMN=VALUE",
        parse=as_references,
    )


@dataclass(frozen=True, repr=False)
class Effects:
    """Effects of covariates on the shares of topics.

    Attributes
    ----------
    formula
        As it was given.
    documents, left_out
        Training documents in the regression, and those without a known word or a value of a
        covariate (none, NA or NaN).  Of a
        corpus with ``--split`` these are parts; errors are clustered by the
        ``coefficients.clusters`` documents that they are of.
    topics, labels
        Stable numbers int64[K] of the topics, and their labels.
    coefficients
        The fitted regression.
    references
        column -> what its effects are measured from: a category (the most frequent by default), or
        the mean of numbers.
    kinds
        column -> ``category``, ``date``, ``whole`` (numbers without fractions) or ``number``: how
        it entered.
    predictions
        A row per topic and value: predicted shares, averaged over the other covariates of the
        documents.  Columns: variable,
        value, group (of an interaction, else null), topic, share, se.
    """

    formula: str
    documents: int
    left_out: int
    topics: np.ndarray
    labels: list[str]
    coefficients: Coefficients
    references: dict[str, str]
    kinds: dict[str, str]
    predictions: pa.Table

    def table(self) -> pa.Table:
        """The coefficients: topic, label, term, estimate, se, z, low, high (95 % interval), in
        shares of a document.
        """
        names, k = self.coefficients.names, len(self.topics)
        estimate, error = self.coefficients.estimates.T.ravel(), self.coefficients.errors.T.ravel()
        reach = self.coefficients.reach * error
        return pa.table(
            {
                "topic": np.repeat(self.topics, len(names)),
                "label": pa.array([label for label in self.labels for _ in names], pa.string()),
                "term": pa.array(names * k, pa.string()),
                "estimate": estimate,
                "se": error,
                "z": np.divide(estimate, error, out=np.zeros_like(error), where=error > 0),
                "low": estimate - reach,
                "high": estimate + reach,
            }
        )

    def plain(self) -> dict[str, Json]:
        """As ``--json`` prints it."""
        return {
            "formula": self.formula,
            "documents": self.documents,
            "clusters": self.coefficients.clusters,
            "left_out": self.left_out,
            "references": self.references,
            "coefficients": self.table().to_pylist(),
            "predictions": self.predictions.to_pylist(),
        }

    def lines(self) -> list[str]:
        """A block a topic: each coefficient in percentage points with its 95 % interval and a star
        where that excludes zero; of a curve the test of all its coefficients, and the predicted
        shares."""
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
            f"percentage points of a document's share"
        ]
        out += [
            f"  {column}: measured from "
            f"{level}{'' if self.kinds[column] == 'category' else ', for one more (of a date: one more year)'}"
            for column, level in self.references.items()
        ]
        if determined := self.coefficients.left_out:
            out.append(
                f"  left out, determined by the others: "
                f"{shortened(one_line(', '.join(determined)), 200)}"
            )
        terms: dict[str, list[int]] = {}
        for i, name in enumerate(self.coefficients.names):
            terms.setdefault(_CURVE.sub(r"\1", name), []).append(i)
        unknown = {
            term
            for term, places in terms.items()
            if self.coefficients.errors[places].min(axis=1).max() > 1
        }
        if unknown:
            out.append(
                f"  warning: too few documents tell apart "
                f"{', '.join(map(one_line, sorted(unknown)))}: these have no estimates here; "
                "drop the interaction, or smooth more: s(date, 4)"
            )
        curves: dict[tuple[str, int], list[float]] = {}
        ends: dict[str, list[float]] = {}
        for row in self.predictions.to_pylist():
            if row["variable"] not in self.references:
                name = f"{row['variable']}, {row['group']}" if row["group"] else row["variable"]
                share = 100 * row["share"] if row["se"] <= UNSURE else math.nan
                curves.setdefault((name, row["topic"]), []).append(share)
                ends.setdefault(row["variable"], []).append(float(row["value"]))
        out += [
            f"  {name}: a curve from {min(x):.6g} to {max(x):.6g}, below as predicted shares, "
            f"least to most"
            for name, x in ends.items()
        ]
        width = max(map(len, [*terms, *(name for name, _ in curves)]))
        for j, (k, label) in enumerate(zip(self.topics.tolist(), self.labels, strict=True)):
            out.append(f"{k:>4} {one_line(label)}")
            for term, places in terms.items():
                if term not in unknown:
                    out.append(f"     {one_line(term):{width}} {self._result(j, places)}")
            for name, shares in (
                (name, shares)
                for (name, topic), shares in curves.items()
                if topic == k and not np.isnan(shares).all()
            ):
                out.append(
                    f"     {one_line(name):{width}} {sparkline(shares, 24)}  "
                    f"{np.nanmin(shares):.2f} to {np.nanmax(shares):.2f}"
                )
        return out

    def _result(self, topic: int, places: list[int]) -> str:
        """A coefficient with its interval, or Wald's test of several."""
        estimates = self.coefficients.estimates[places, topic]
        if len(places) > 1:
            covariance = self.coefficients.covariances[topic][np.ix_(places, places)]
            freedom = len(places), self.coefficients.clusters - 1
            statistic = float(
                estimates @ np.linalg.pinv(covariance, hermitian=True) @ estimates
            ) / len(places)
            p = float(fdtrc(*freedom, statistic))
            return (
                f"{'*' if p < 0.05 else ' ':>10} F{freedom} {statistic:.2f}, p "
                f"{f'{p:.2g}' if p else '< 1e-300'}"
            )
        error = 100 * self.coefficients.reach * float(self.coefficients.errors[places[0], topic])
        estimate = 100 * float(estimates[0])
        most = (
            abs(estimate) + error
        )  # an effect for each retweet or word is small: as many digits as show two
        digits = 2 if not 0 < most < 0.1 else 1 - math.floor(math.log10(most))
        star = "*" if places != [0] and abs(estimate) > error else " "
        return (
            f"{estimate:+8.{digits}f} {star} [{estimate - error:+.{digits}f}, "
            f"{estimate + error:+.{digits}f}]"
        )

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def plot(self, figure: Figure) -> int:
        """Predicted shares with 95 % intervals, a panel for each topic and variable; returns the
        topics drawn: the twelve at most that differ most beyond their errors."""
        frame = self.predictions.to_pydict()
        columns = {name: np.array(values, object) for name, values in frame.items()}
        topic, share, error = (columns[name].astype(float) for name in ("topic", "share", "se"))
        spread = {
            k: np.std(share[topic == k]) / np.mean(error[topic == k] + 1e-12)
            for k in self.topics.tolist()
        }
        topics = sorted(sorted(spread, key=lambda k: -spread[k])[:PLOTTED])
        topic_names = dict(zip(self.topics.tolist(), self.labels, strict=True))
        variables = list(dict.fromkeys(frame["variable"]))
        panels = figure.panels(len(topics) * len(variables), across=len(variables), size=(4, 2.2))
        for axis, (k, variable) in zip(panels, itertools.product(topics, variables), strict=True):
            of_panel = (topic == k) & (columns["variable"] == variable)
            figure.titled(
                axis, f"{k} {shortened(topic_names[k], 30)}, by {shortened(variable, 30)}"
            )
            if self.kinds[variable] == "category":
                chosen = np.flatnonzero(of_panel)[::-1]
                axis.errorbar(
                    100 * share[chosen],
                    range(len(chosen)),
                    xerr=100 * self.coefficients.reach * error[chosen],
                    fmt="o",
                    ms=3,
                    lw=1,
                )
                names = [figure.text(shortened(value, 30)) for value in columns["value"][chosen]]
                axis.set_yticks(range(len(chosen)), names, fontsize=6)
                continue
            figure.ticks(axis, self.kinds[variable])
            groups = list(dict.fromkeys(columns["group"][of_panel]))
            for group in groups:
                chosen = np.flatnonzero(of_panel & (columns["group"] == group))
                x = columns["value"][chosen].astype(float)
                if self.kinds[variable] == "date":
                    x = as_days(x)
                share[chosen[(error[chosen] > UNSURE) & (variable not in self.references)]] = np.nan
                (curve,) = axis.plot(
                    x,
                    100 * share[chosen],
                    lw=1.2,
                    label=group and figure.text(shortened(group, 30)),
                )
                low, high = (
                    100 * (share[chosen] + side * self.coefficients.reach * error[chosen])
                    for side in (-1, 1)
                )
                axis.fill_between(x, low, high, color=curve.get_color(), alpha=0.18, lw=0)
            if groups != [None] and k == topics[0]:
                axis.legend(fontsize=6, frameon=False)
        kinds = {self.kinds[variable] == "category" for variable in variables}
        figure.save(
            "share of a document, %" + " (categories: horizontal)" * (len(kinds) > 1),
            across=kinds == {True},
        )
        return len(topics)


@configured(EffectsConfig)
def effects(config: EffectsConfig) -> Effects:
    """Regress the shares of topics in the training documents on covariates of the documents.

    Estimates are differences in the share of a document (0.02: two percentage points); standard
    errors include the uncertainty of the documents' topics (see
    ``topicstream.reporting.regression`` for the method and its sources).

    Returns
    -------
    Effects
        Coefficients, predictions, and what they were estimated from; ``table()`` makes a table of
        the coefficients.

    Raises
    ------
    InputError
        Where a column is missing, has too many values, or covariates determine one another.

    Examples
    --------
    >>> effects = topicstream.effects("s(date)", "model", "corpus.zarr", progress=False)
    >>> effects.documents, effects.table().column_names[:4]
    (360, ['topic', 'label', 'term', 'estimate'])
    """
    terms = parse_formula(config.formula)
    shown = look_at(config.model, config.mem_limit, config.threads)
    model, view = shown.trained, shown.view
    corpus = open_corpus(model, config.corpus)
    factors = list(dict.fromkeys(factor for term in terms for factor in term))
    design, sample = _survey(corpus, terms, factors, as_references(config.reference))
    chosen = shown.columns(config.topics)
    alpha = shown.model.alpha
    tell = listener(config.progress)
    with tempfile.TemporaryFile() as scratch:
        regression = Regression(design.names, alpha[chosen], float(alpha.sum()), scratch)
        for rows, shares, tokens, wholes, done in _documents(
            model, corpus, view, design, shown.threads
        ):
            regression.add(rows, shares[:, chosen], tokens, wholes)
            tell.step("reading topics and covariates", done, corpus.n_docs, "documents")
        coefficients = regression.fit()
    labels = [shown.names[j] for j in chosen]
    numbers = view.numbers[np.array(chosen)]
    references = {
        c.column: c.levels[0] if c.levels else f"{c.mean:.6g}"
        for c in design.covariates.values()
        if not c.df
    }
    kinds = {c.column: c.kind for c in design.covariates.values()}
    table = _predictions(design, coefficients, sample, numbers)
    left_out = corpus.n_docs - coefficients.documents
    return Effects(
        config.formula,
        coefficients.documents,
        left_out,
        numbers,
        labels,
        coefficients,
        references,
        kinds,
        table,
    )


def _survey(
    corpus: Corpus, terms: list[Term], factors: list[Factor], first: Mapping[str, str]
) -> tuple[Design, dict[str, list[str]]]:
    """The design of the training documents' values, and the values of documents that predictions
    are averaged over.
    """
    kinds, columns = columns_of(corpus), list(dict.fromkeys(factor.column for factor in factors))
    check_columns(corpus, columns, "column")
    for column in columns:
        if kinds.get(column) == "list":
            raise InputError(
                f"column {column}: a document may have several values; effects take columns of "
                f"single values"
            )
    if strange := [column for column in first if column not in columns]:
        raise UsageError(
            f"--reference {strange[0]}={first[strange[0]]}: the formula has no {strange[0]}"
        )
    covariates = {
        factor: Covariate(factor.column, factor.df, first.get(factor.column)) for factor in factors
    }
    sample: dict[str, list[str]] = {column: [] for column in columns}
    spacing = max(1, corpus.n_docs // AVERAGED)
    for numbers, batch in documents(corpus, False, columns):
        values = pa.table({column: values_given(batch.column(column)) for column in columns})
        for covariate in covariates.values():
            covariate.counts.update(values[covariate.column].drop_null().to_pylist())
        some = values.filter(pa.array(numbers % spacing == 0)).drop_null()
        for column in columns:
            sample[column] += some[column].to_pylist()
    for covariate in covariates.values():
        covariate.settle()
    return Design(terms, covariates), sample


def _documents(
    model: TopicModel, corpus: Corpus, view: View, design: Design, threads: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, list[str], int]]:
    """(design rows, shares, tokens, the whole document of each, documents read so far) block by
    block that has any to use.
    """
    columns = list(dict.fromkeys(c.column for c in design.covariates.values()))
    cluster_column = "document" if (corpus.manifest.reading or {}).get("split") else "id"
    metadata = Metadata(corpus, list(dict.fromkeys([*columns, cluster_column])))
    for block in document_shares(model, corpus, view=view, threads=threads):
        first = block.first
        rows, listed = metadata.of(first, len(block.shares))
        usable = listed & block.counted
        for column in columns:
            usable &= values_given(rows[column]).is_valid().to_numpy(zero_copy_only=False)
        if usable.any():
            usable_rows = np.flatnonzero(usable)
            values = {
                column: rows[column].take(pa.array(usable_rows)).to_pylist() for column in columns
            }
            wholes = rows[cluster_column].take(pa.array(usable_rows)).to_pylist()
            yield (
                design.matrix(values, len(usable_rows)),
                block.shares[usable_rows],
                block.tokens[usable_rows],
                wholes,
                first + len(block.shares),
            )


def _predictions(
    design: Design, fitted: Coefficients, sample: dict[str, list[str]], topics: np.ndarray
) -> pa.Table:
    """Predicted shares at the values of each variable, and of a curve for each value of a category
    that it interacts with.
    """
    rows: list[dict[str, str | float | None]] = []
    count = len(next(iter(sample.values()), []))

    def add(fixed: dict[str, str | float], variable: str, value: str, group: str | None) -> None:
        averaged = _averaged(design, sample, fixed)
        number = len(next(iter(averaged.values())))
        values: dict[str, Sequence[str | float]] = {
            **averaged,
            **{column: [v] * number for column, v in fixed.items()},
        }
        mean = design.matrix(values, number).mean(axis=0, keepdims=True)
        share, error = fitted.predict(mean)
        rows.extend(
            {"variable": variable, "value": value, "group": group, "topic": k, "share": p, "se": se}
            for k, p, se in zip(topics.tolist(), share[0].tolist(), error[0].tolist(), strict=True)
        )

    for covariate in {c.column: c for c in design.covariates.values()}.values() if count else ():
        partners = _partners(design, covariate.column)
        for level in covariate.levels:
            add({covariate.column: level}, covariate.column, level, None)
        if covariate.levels:
            continue
        for x in [] if partners else np.linspace(covariate.low, covariate.high, POINTS).tolist():
            add({covariate.column: x}, covariate.column, f"{x:.6g}", None)
        for other, level in ((partner, value) for partner in partners for value in partner.levels):
            if level not in sample[other.column]:
                continue
            group = _averaged(design, sample, {other.column: level})[covariate.column]
            numbers = [x for text in group if (x := as_number(text, covariate.column)) is not None]
            for x in np.linspace(
                min(numbers), max(numbers), POINTS
            ).tolist():  # a curve says nothing where its group has no documents
                fixed = {covariate.column: x, other.column: level}
                add(fixed, covariate.column, f"{x:.6g}", f"{other.column}={level}")
    return pa.Table.from_pylist(rows, PREDICTED)


def _averaged(
    design: Design, sample: dict[str, list[str]], fixed: dict[str, str | float]
) -> dict[str, list[str]]:
    """The documents over whose other covariates a prediction is averaged: where a category
    interacts, those of its value, so that it is not predicted for times or groups that it never
    had; else all."""
    number = len(next(iter(sample.values())))
    rows = set(range(number))
    for factor, covariate in design.covariates.items():
        value = fixed.get(factor.column)
        if (
            covariate.levels
            and value is not None
            and any(len(t) > 1 and factor in t for t in design.terms)
        ):
            rows &= {i for i in rows if sample[factor.column][i] == value}
    return (
        {c: [v for i, v in enumerate(values) if i in rows] for c, values in sample.items()}
        if rows
        else sample
    )


def _partners(design: Design, column: str) -> list[Covariate]:
    """Categories that a column of numbers interacts with."""
    pairs = [
        term
        for term in design.terms
        if len(term) == 2 and column in {factor.column for factor in term}
    ]
    return [
        design.covariates[f]
        for term in pairs
        for f in term
        if f.column != column and design.covariates[f].levels
    ]
