"""``effects``: shares of topics explained by covariates of the documents."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.addons.covariates.effects import PREDICTED, Effects
from topicstream.addons.covariates.regression import Coefficients, Regression, reach
from topicstream.addons.covariates.robustness import OtherModel
from topicstream.addons.covariates.support import Support
from topicstream.base.errors import InputError, UsageError
from topicstream.base.memory import Room, ThreadedOptions
from topicstream.base.options import configured, like, option
from topicstream.base.places import places
from topicstream.base.progress import listener
from topicstream.base.text import compose_text
from topicstream.corpus.columns import check_columns, columns_of, mark_missing
from topicstream.corpus.reader import Corpus
from topicstream.display.config import ShowConfig
from topicstream.display.gather import PARENT, parents_of
from topicstream.display.metadata import open_model_corpus
from topicstream.display.view import open_shown
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.matching import compare
from topicstream.evaluation.memory import room_beside_scoring
from topicstream.evaluation.metadata import Metadata
from topicstream.evaluation.visiting import document_shares
from topicstream.model.edits import View
from topicstream.model.formula import Covariate, Design, Factor, Term, as_number, parse_formula
from topicstream.model.topic_model import TopicModel

VALUE_BYTES = 400
"""Bytes of a distinct value of a covariate: its text, its number, the tables that find them."""
AVERAGED = 2_000
"""Documents whose other covariates a prediction is averaged over, the first that have all of them,
evenly spaced.
"""
POINTS = 40
"""Points of a predicted curve."""
CARRIED_BY_FEW = "too few documents carry the estimate"
NOT_TOLD_APART = "too few documents tell it apart; drop the interaction, or smooth more: s(date, 4)"
MOST_ERROR = 1.0
"""Standard error of a difference between categories from which on nothing is known: shares lie
between 0 and 1.
"""


def parse_references(references: str | Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    """Parse ``party=red``, or several of these, to {party: red}.

    Raises
    ------
    UsageError
        If one is not of this form.
    """
    texts = [references] if isinstance(references, str) else references
    if isinstance(texts, Mapping):
        pairs = dict(texts)
    else:
        pairs = dict(text.partition("=")[::2] for text in texts)
    if not all(pairs.values()):
        raise UsageError(f"{' '.join(texts)}: write COLUMN=VALUE, such as party=red")
    return {compose_text(column): compose_text(value) for column, value in pairs.items()}


def list_models(models: Any) -> Sequence[str | Path | TopicModel]:
    """Return models, of which one may be given alone."""
    alone = isinstance(models, str | Path | TopicModel)
    return [models] if alone else list(models)


@dataclass(frozen=True)
class EffectsConfig(ThreadedOptions):
    """The options of ``effects``."""

    formula: str = option("", "Covariates, such as 'party * s(date)'.", cli=False)
    model: str | Path | TopicModel = option(
        "model",
        "Folder of the model ($TOPICS_MODEL).",
        env="TOPICS_MODEL",
        show=True,
        parse=places().resolve,
    )
    corpus: str | Path | Corpus = option(
        "corpus.zarr",
        "Corpus store ($TOPICS_CORPUS).",
        env="TOPICS_CORPUS",
        show=True,
        parse=places().resolve,
    )
    _: KW_ONLY
    topics: Sequence[int] | None = like(ShowConfig, "topics")
    reference: Mapping[str, str] | Sequence[str] = option(
        (),
        "Category that the others of a column are measured from (default: the most frequent; "
        "repeatable).",
        multiple=True,
        metavar="COLUMN=VALUE",
        parse=parse_references,
    )
    also: Any = option(
        (),
        "Estimate the effects under this model, too, such as one of another seed (repeatable); "
        "each says in how many models it differs from zero.",
        multiple=True,
        metavar="MODEL",
        parse=list_models,
    )


@configured(EffectsConfig)
def effects(config: EffectsConfig) -> Effects:
    """Regress the shares of topics in the training documents on covariates of the documents.

    Estimates are differences in the share of a document (0.02: two percentage points). The 95 %
    intervals include chance in the documents and in their words, not in the topics themselves. What
    fewer than ten documents carry has no interval, and ``reasons`` says so. With ``also``, models
    of other seeds, each coefficient says in how many models it differs from zero. See
    ``topicstream.addons.covariates.regression`` for the method and its sources.

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
    fitted = _fit(config)
    others = [_fit_other(model, config, fitted) for model in list_models(config.also)]
    return replace(fitted, others=others)


def _fit_other(
    model: str | Path | TopicModel, config: EffectsConfig, fitted: Effects
) -> OtherModel:
    """Estimate the same effects under another model, whose topics are matched to those shown.

    Raises
    ------
    InputError
        If the model has documents of its own, so that its coefficients are others.
    """
    name = model.name if isinstance(model, TopicModel) else str(model)
    other = _fit(replace(config, model=model, topics=None, also=()))
    if other.coefficients.names != fitted.coefficients.names:
        raise InputError(
            f"--also {name}: its documents determine other coefficients; give a model of the same "
            f"corpus and vocabulary"
        )
    pairs = compare(config.model, model, progress=config.progress)["matched"]
    match_of = {pair["a"]: pair["b"] for pair in pairs}
    place_of = {number: place for place, number in enumerate(other.topics.tolist())}
    places = [place_of.get(match_of.get(number), -1) for number in fitted.topics.tolist()]
    return OtherModel(name, other.coefficients, np.array(places, np.int64))


def _fit(config: EffectsConfig) -> Effects:
    """Estimate the effects under one model."""
    terms = parse_formula(config.formula)
    shown = open_shown(config.model, config.mem_limit, config.threads)
    model = shown.trained
    view = shown.view
    corpus = open_model_corpus(model, config.corpus)
    factors = list(dict.fromkeys(factor for term in terms for factor in term))
    with_regimes = [factor for factor in factors if factor.regimes]
    if with_regimes:
        raise UsageError(
            f"formula {config.formula!r}: regimes() is for `train --covariates`, which learns "
            f"their bounds; take {with_regimes[0].column} or s({with_regimes[0].column}) here"
        )
    room = room_beside_scoring(model, config.memory, shown.threads)
    design, sample = _survey_values(
        corpus, terms, factors, parse_references(config.reference), room
    )
    chosen = shown.columns(config.topics)
    alpha = shown.model.alpha
    tell = listener(config.progress)
    if model.manifest.covariates is not None:
        tell.say(
            f"note: the prior of this model used {model.manifest.covariates.formula}; shares are "
            f"read with its mean prior here, so they come from the words alone"
        )

    def blocks() -> Iterator[DocumentBlock]:
        for block, documents_read in _read_documents(model, corpus, view, design, shown.threads):
            yield block._replace(shares=block.shares[:, chosen])
            tell.step("reading topics and covariates", documents_read, corpus.n_docs, "documents")

    topics = Topics(
        view.numbers[np.array(chosen)],
        [shown.names[j] for j in chosen],
        alpha[chosen],
        float(alpha.sum()),
    )
    fitted = explain(config.formula, design, blocks(), topics, sample)
    return replace(
        fitted,
        left_out=corpus.n_docs - fitted.documents,
        topic_kinds=[shown.model.kinds[j] for j in chosen],
    )


class Topics(NamedTuple):
    """The topics whose shares are explained.

    Attributes
    ----------
    numbers
        int64[K], stable numbers.
    labels
        K texts.
    alpha
        float64[K], their prior.
    alpha_sum
        Sum over all topics of the model, which may have more.
    """

    numbers: np.ndarray
    labels: list[str]
    alpha: np.ndarray
    alpha_sum: float


class DocumentBlock(NamedTuple):
    """Documents that have all covariates and a known word.

    Attributes
    ----------
    values
        Covariates by column.
    shares
        float[D, K].
    tokens
        float64[D].
    wholes
        The whole document of each.
    """

    values: dict[str, list[str]]
    shares: np.ndarray
    tokens: np.ndarray
    wholes: list[str]


def explain(
    formula: str,
    design: Design,
    blocks: Iterable[DocumentBlock],
    topics: Topics,
    sample: dict[str, list[str]],
) -> Effects:
    """Regress the shares in blocks of documents on the design of a formula.

    Parameters
    ----------
    sample
        Values, by column, of documents that predictions are averaged over.
    """
    support = Support(design)
    with tempfile.TemporaryFile() as scratch:
        regression = Regression(design.names, topics.alpha, topics.alpha_sum, scratch)
        for block in blocks:
            rows = design.matrix(block.values, len(block.tokens))
            regression.add(rows, block.shares, block.tokens, block.wholes)
            support.add(block.values, block.wholes)
        coefficients = regression.fit()
        points = _choose_points(design, sample)
        predictions = _tabulate_predictions(
            points, regression, coefficients, support, topics.numbers
        )
    covariates = design.covariates.values()
    return Effects(
        formula=formula,
        documents=coefficients.documents,
        left_out=0,
        topics=topics.numbers,
        labels=topics.labels,
        coefficients=coefficients,
        reasons=_explain_missing(design, support, coefficients),
        references={
            c.column: c.levels[0] if c.levels else f"{c.mean:.6g}" for c in covariates if not c.df
        },
        kinds={c.column: c.kind for c in covariates},
        predictions=predictions,
    )


def _explain_missing(design: Design, support: Support, fitted: Coefficients) -> list[str | None]:
    """Say for each coefficient why it has no interval, None where it has one."""
    of_columns = support.reasons()
    category_columns = design.category_columns()
    reasons: list[str | None] = []
    for place, column in enumerate(fitted.used):
        reason = of_columns[column]
        if reason is None and fitted.carried[place]:
            reason = CARRIED_BY_FEW
        if reason is None and category_columns[column] and fitted.errors[place].min() > MOST_ERROR:
            reason = NOT_TOLD_APART
        reasons.append(reason)
    return reasons


def _survey_values(
    corpus: Corpus,
    terms: list[Term],
    factors: list[Factor],
    references: Mapping[str, str],
    room: Room,
) -> tuple[Design, dict[str, list[str]]]:
    """Read the design of the training documents' values, whose distinct ones have ``room``.

    Returns
    -------
    tuple
        The design, and the values of the documents that predictions are averaged over.
    """
    kinds = columns_of(corpus)
    columns = list(dict.fromkeys(factor.column for factor in factors))
    check_columns(corpus, columns, "column")
    for column in columns:
        if kinds.get(column) == "list":
            raise InputError(
                f"column {column}: a document may have several values; effects take columns of "
                f"single values (`show --by {column}` and `train --covariates` take it)"
            )
    unknown = [column for column in references if column not in columns]
    if unknown:
        raise UsageError(
            f"--reference {unknown[0]}={references[unknown[0]]}: the formula has no {unknown[0]}"
        )
    covariates = {
        factor: Covariate(factor.column, factor.df, references.get(factor.column))
        for factor in factors
    }
    sample: dict[str, list[str]] = {column: [] for column in columns}
    spacing = max(1, corpus.n_docs // AVERAGED)
    for numbers, batch in stream_documents(corpus, False, columns):
        values = pa.table({column: mark_missing(batch.column(column)) for column in columns})
        for covariate in covariates.values():
            covariate.counts.update(values[covariate.column].drop_null().to_pylist())
        _check_values(covariates.values(), room, corpus.n_docs / (int(numbers[-1]) + 1))
        known_values = values.filter(pa.array(numbers % spacing == 0)).drop_null()
        for column in columns:
            sample[column] += known_values[column].to_pylist()
    for covariate in covariates.values():
        covariate.choose_coding()
    design = Design(terms, covariates)
    table = pa.table({c: pa.array(values, pa.string()) for c, values in sample.items()})
    known = pa.table({c: mark_missing(table[c], design.missing(c)) for c in columns}).drop_null()
    return design, {column: known[column].to_pylist() for column in columns}


def _check_values(covariates: Collection[Covariate], room: Room, multiple: float) -> None:
    """Raise DoesNotFit if the distinct values of the columns have no room.

    Parameters
    ----------
    covariates
        The columns, with the values counted so far.
    room
        For the values.
    multiple
        All documents, as a multiple of those read so far.
    """
    distinct = sum(len(covariate.counts) for covariate in covariates)
    needed = distinct * VALUE_BYTES
    if needed <= room.free:
        return
    for covariate in covariates:  # a text of many values is refused whatever the limit
        covariate.choose_coding()
    columns = ", ".join(dict.fromkeys(covariate.column for covariate in covariates))
    purpose = f"{distinct:,} different values of {columns} (round numbers, or cut dates to days)"
    room.check(needed, purpose, at_end=int(needed * multiple))


def _read_documents(
    model: TopicModel, corpus: Corpus, view: View, design: Design, threads: int
) -> Iterator[tuple[DocumentBlock, int]]:
    """Read (documents to use, documents read so far), block by block that has any."""
    columns = list(dict.fromkeys(c.column for c in design.covariates.values()))
    parts = [PARENT] if corpus.manifest.has_parts else []
    metadata = Metadata(corpus, list(dict.fromkeys([*columns, "id", *parts])))
    for block in document_shares(model, corpus, view=view, threads=threads):
        rows, has_row = metadata.read_rows(block.first, len(block.shares))
        usable = has_row & block.counted
        for column in columns:
            values = mark_missing(rows[column], design.missing(column))
            usable &= values.is_valid().to_numpy(zero_copy_only=False)
        if usable.any():
            chosen = np.flatnonzero(usable)
            texts = {name: rows[name].take(chosen).to_pylist() for name in columns}
            yield (
                DocumentBlock(
                    {column: texts[column] for column in columns},
                    block.shares[chosen],
                    block.tokens[chosen],
                    (parents_of(rows) if parts else rows["id"]).take(chosen).to_pylist(),
                ),
                block.first + len(block.shares),
            )


class _Point(NamedTuple):
    """A prediction: its variable, value and group, its row of the design, its fixed values."""

    variable: str
    value: str
    group: str | None
    row: np.ndarray
    fixed: dict[str, str | float]


def _tabulate_predictions(
    points: list[_Point],
    regression: Regression,
    coefficients: Coefficients,
    support: Support,
    topics: np.ndarray,
) -> pa.Table:
    """Tabulate predicted shares, without an interval where few documents carry them."""
    if not points:
        return PREDICTED.empty_table()
    shares = regression.predict(coefficients, np.concatenate([point.row for point in points]))
    reasons = [
        support.reason(point.fixed) or (CARRIED_BY_FEW if carried else None)
        for point, carried in zip(points, shares.carried, strict=True)
    ]
    refused = np.array([reason is not None for reason in reasons])[:, None]
    error = np.where(refused, np.nan, shares.error)
    distance = error * reach(shares.freedom)
    k = len(topics)
    columns: dict[str, Any] = {
        name: np.repeat(np.array([getattr(point, name) for point in points], object), k)
        for name in ("variable", "value", "group")
    }
    columns |= {
        "topic": np.tile(topics, len(points)),
        "share": shares.estimate.ravel(),
        "se": error.ravel(),
        "low": (shares.estimate - distance).ravel(),
        "high": (shares.estimate + distance).ravel(),
        "reason": np.repeat(np.array(reasons, object), k),
    }
    return pa.table(columns, schema=PREDICTED)


def _choose_points(design: Design, sample: dict[str, list[str]]) -> list[_Point]:
    """Choose the values of each variable that shares are predicted for.

    A curve has them for each value of a category that it interacts with.
    """
    points: list[_Point] = []
    count = len(next(iter(sample.values()), []))

    def add(fixed: dict[str, str | float], variable: str, value: str, group: str | None) -> None:
        averaged = _select_averaged(design, sample, fixed)
        number = len(next(iter(averaged.values())))
        values: dict[str, Sequence[str | float]] = {
            **averaged,
            **{column: [v] * number for column, v in fixed.items()},
        }
        mean = design.matrix(values, number).mean(axis=0, keepdims=True)
        points.append(_Point(variable, value, group, mean, fixed))

    if not count:
        return points
    for covariate in {c.column: c for c in design.covariates.values()}.values():
        partners = _find_partners(design, covariate.column)
        for level in covariate.levels:
            add({covariate.column: level}, covariate.column, level, None)
        if covariate.levels:
            continue
        if not partners:
            for x in np.linspace(covariate.low, covariate.high, POINTS).tolist():
                add({covariate.column: x}, covariate.column, f"{x:.6g}", None)
        for other in partners:
            for level in other.levels:
                if level not in sample[other.column]:
                    continue
                group = _select_averaged(design, sample, {other.column: level})[covariate.column]
                numbers = [as_number(text, covariate.column) for text in group]
                known = [x for x in numbers if x is not None]
                # a curve says nothing where its group has no documents
                for x in np.linspace(min(known), max(known), POINTS).tolist():
                    fixed = {covariate.column: x, other.column: level}
                    add(fixed, covariate.column, f"{x:.6g}", f"{other.column}={level}")
    return points


def _select_averaged(
    design: Design, sample: dict[str, list[str]], fixed: dict[str, str | float]
) -> dict[str, list[str]]:
    """Select the documents over whose other covariates a prediction is averaged.

    Where a category interacts, they are those of its value, so that it is not predicted for times
    or groups that it never had. Otherwise all.
    """
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
    if not rows:
        return sample
    chosen = sorted(rows)
    return {column: [values[i] for i in chosen] for column, values in sample.items()}


def _find_partners(design: Design, column: str) -> list[Covariate]:
    """Find the categories that a column of numbers interacts with."""
    partners = []
    for term in design.terms:
        if len(term) != 2 or column not in {factor.column for factor in term}:
            continue
        for factor in term:
            if factor.column != column and design.covariates[factor].levels:
                partners.append(design.covariates[factor])
    return partners
