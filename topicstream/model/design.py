"""The design of a prior: documents' covariates as sparse rows of numbers.

A document d has the row x_d: 1 for the intercept, then the columns of each term of the formula
(model/formula.py), which ``topics effects`` has too. Rows are sparse, because a category has one
column for each value. Numbers are in standard deviations from their mean, so that one prior suits
the slopes of all. A number beyond the range that a model has learned from counts as the end of the
range, and a category that it has not met has no column: its slopes are 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.base.text import counted
from topicstream.corpus.block import CovariateRows
from topicstream.corpus.columns import flatten_lists, mark_missing
from topicstream.model.covariate_entries import CovariateEntry, CovariatesEntry
from topicstream.model.formula import (
    DEGREE,
    Covariate,
    Design,
    Factor,
    factors_of,
    parse_formula,
)
from topicstream.model.regimes import Regimes

MOST_CATEGORIES = 1_000
"""Most categories of a column."""
MOST_COLUMNS = 1_000
"""Most columns of a design."""
MOST_LISTED = 200
"""Most categories that a view lists."""


class SparseRows(NamedTuple):
    """Rows of numbers, of which most are 0.

    Attributes
    ----------
    indptr
        int64[D + 1], where each row begins.
    columns
        int64[n], ascending within a row.
    values
        float64[n].
    """

    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def take(self, rows: np.ndarray) -> SparseRows:
        """Select rows by their numbers, int64[n]."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], lengths)
        return SparseRows(indptr, self.columns[places], self.values[places])

    def dense(self, width: int) -> np.ndarray:
        """Return the rows as float64[D, width]."""
        out = np.zeros((len(self.indptr) - 1, width))
        out[np.repeat(np.arange(len(out)), np.diff(self.indptr)), self.columns] = self.values
        return out


def sparse_rows(dense: np.ndarray) -> SparseRows:
    """Make sparse rows of float64[D, width]."""
    rows, columns = np.nonzero(dense)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(dense)))))
    return SparseRows(indptr.astype(np.int64), columns, dense[rows, columns])


def multiply_rows(first: SparseRows, second: SparseRows, width: int) -> SparseRows:
    """Multiply each number of a row with each number of the other's row.

    Parameters
    ----------
    first, second
        Rows of the same documents.
    width
        Number of columns of ``second``.

    Returns
    -------
    SparseRows
        Column i * width + j has the product of columns i and j.
    """
    lengths = np.diff(second.indptr)
    owner = np.repeat(np.arange(len(lengths)), np.diff(first.indptr))
    partners = lengths[owner]  # numbers of ``second`` that each of ``first`` is multiplied with
    indptr = np.concatenate(([0], np.cumsum(np.diff(first.indptr) * lengths)))
    left = np.repeat(np.arange(len(owner)), partners)
    begin = np.concatenate(([0], np.cumsum(partners)))[:-1]
    right = np.arange(len(left)) - begin[left] + second.indptr[owner[left]]
    return SparseRows(
        indptr,
        first.columns[left] * width + second.columns[right],
        first.values[left] * second.values[right],
    )


def join_rows(pieces: Sequence[SparseRows], widths: Sequence[int]) -> SparseRows:
    """Put the columns of several sets of rows side by side."""
    docs = len(pieces[0].indptr) - 1
    first = np.concatenate(([0], np.cumsum(widths)))
    owner = np.concatenate([np.repeat(np.arange(docs), np.diff(p.indptr)) for p in pieces])
    order = np.argsort(owner, kind="stable")
    columns = np.concatenate([p.columns + start for p, start in zip(pieces, first, strict=False)])
    indptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=docs))))
    values = np.concatenate([p.values for p in pieces])
    return SparseRows(indptr.astype(np.int64), columns[order], values[order])


def entry_of(covariate: Covariate, df: int) -> CovariateEntry:
    """Describe a covariate, whose formula asks for ``df`` degrees of freedom."""
    return CovariateEntry(
        column=covariate.column,
        df=df,
        kind=covariate.kind,
        levels=covariate.levels,
        documents=[covariate.counts[level] for level in covariate.levels],
        low=covariate.low,
        high=covariate.high,
        mean=covariate.mean,
        scale=covariate.scale,
        knots=covariate.knots.tolist(),
        missing=sorted(covariate.missing),
        listed=covariate.listed,
        absent=covariate.absent,
        **(covariate.entry_fields() if isinstance(covariate, Regimes) else {}),
    )


def decode_covariate(entry: CovariateEntry) -> Covariate:
    """Return the coding of a column that a manifest describes."""
    kind: type[Covariate] = Covariate
    regime_fields: dict[str, Any] = {}
    if entry.regimes:
        kind = Regimes
        regime_fields = {
            "regimes": entry.regimes,
            "period": entry.period,
            "starts": list(entry.starts),
            "weights": list(entry.weights),
        }
    return kind(
        entry.column,
        entry.df,
        counts=Counter(dict(zip(entry.levels, entry.documents, strict=False))),
        levels=list(entry.levels),
        kind=entry.kind,
        low=entry.low,
        high=entry.high,
        mean=entry.mean,
        knots=np.array(entry.knots),
        missing=frozenset(entry.missing),
        most=MOST_CATEGORIES,
        listed=entry.listed,
        keeps_absent=True,
        absent=entry.absent,
        scale=entry.scale,
        **regime_fields,
    )


def decode_design(entry: CovariatesEntry) -> PriorDesign:
    """Return the design that a manifest describes."""
    covariates = [decode_covariate(column) for column in entry.columns]
    factors = factors_of(entry.formula)
    return PriorDesign.from_formula(entry.formula, dict(zip(factors, covariates, strict=True)))


@dataclass
class Unseen:
    """Values that a model has not learned from, so that it codes them as others.

    Attributes
    ----------
    levels
        Documents with each new category of a column.
    unread
        Documents with each text in a column of numbers or dates that is none.
    absent
        Documents without a value in a column where all had one that the model learned from.
    beyond
        Documents whose number or date lies outside of the range, by column.
    """

    levels: dict[str, Counter[str]] = field(default_factory=dict)
    unread: dict[str, Counter[str]] = field(default_factory=dict)
    absent: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)

    def add(self, other: Unseen) -> None:
        """Add the values of other documents."""
        for column, new in other.levels.items():
            self.levels.setdefault(column, Counter()).update(new)
        for column, texts in other.unread.items():
            self.unread.setdefault(column, Counter()).update(texts)
        self.absent.update(other.absent)
        self.beyond.update(other.beyond)

    def lines(self, design: PriorDesign) -> list[str]:
        """Say how such values are coded, a line for each column."""
        lines = []
        ranges = {c.column: c for c in design.covariates.values()}
        for column, new in self.levels.items():
            lines.append(
                f"{column}: {_documents(new.total(), 'has', 'have')} a value that the model has "
                f"not met ({_examples(new)}); its coefficients are 0"
            )
        for column, texts in self.unread.items():
            kind = "date" if ranges[column].kind == "date" else "number"
            lines.append(
                f"{column}: {_documents(texts.total(), 'has', 'have')} a value that is no {kind} "
                f"({_examples(texts)}), which counts as none"
            )
        for column, number in self.absent.items():
            coding = "its coefficients are 0" if ranges[column].levels else "the mean is taken"
            if isinstance(ranges[column], Regimes):
                coding = "the first regime is taken"
            lines.append(
                f"{column}: {_documents(number, 'has', 'have')} no value, which the model has not "
                f"met; {coding}"
            )
        for column, number in self.beyond.items():
            covariate = ranges[column]
            coding = "the effect is held at its end"
            if isinstance(covariate, Regimes):
                coding = "the first or the last regime is taken"
            lines.append(
                f"{column}: {_documents(number, 'lies', 'lie')} outside of "
                f"{covariate.range_text()}, the range that the model learned from; {coding}"
            )
        return lines


def _documents(number: int, singular: str, plural: str) -> str:
    """Count documents, with the verb that they take."""
    return f"{counted(number, 'document')} {singular if number == 1 else plural}"


def _examples(texts: Counter[str]) -> str:
    """Quote the most frequent of some texts."""
    names = [f"{text!r:.40}" for text, _ in texts.most_common(3)]
    return ", ".join(names) + (", ..." if len(texts) > len(names) else "")


class PriorDesign(Design):
    """A design whose rows are sparse, and which codes documents without a value.

    Attributes
    ----------
    formula
        The formula as the user wrote it.
    names
        Names of the columns, the intercept first.
    """

    formula: str

    @classmethod
    def from_formula(cls, formula: str, covariates: Mapping[Factor, Covariate]) -> PriorDesign:
        """Make the design of a formula with coded covariates."""
        design = cls(parse_formula(formula), covariates, MOST_COLUMNS)
        design.formula = formula
        return design

    @property
    def columns(self) -> list[str]:
        """List the columns of metadata that it reads."""
        return list(dict.fromkeys(c.column for c in self.covariates.values()))

    @property
    def patterns(self) -> int:
        """Bound the number of distinct rows.

        0: as many as there are documents.
        """
        by_column = {c.column: c for c in self.covariates.values()}.values()
        if any(c.listed or not c.levels for c in by_column):
            return 0
        return prod(len(c.levels) + 1 for c in by_column)

    @property
    def regimes(self) -> Regimes | None:
        """Return the covariate that is divided into regimes, None without any."""
        covariates = self.covariates.values()
        return next((c for c in covariates if isinstance(c, Regimes)), None)

    @property
    def undivided(self) -> tuple[Regimes, int] | None:
        """Return the covariate whose regimes training has to find, and its first column.

        None without any.
        """
        for (_, places, _), factors in zip(columns_of_terms(self), self.terms, strict=True):
            covariate = self.covariates[factors[0]]
            if isinstance(covariate, Regimes) and not covariate.is_divided:
                return covariate, places.start
        return None

    def divide(self, states: np.ndarray, weights: np.ndarray) -> PriorDesign:
        """Make the design with the regimes that training has found (``Regimes.divide``)."""
        covariates = dict(self.covariates)
        for factor, covariate in covariates.items():
            if isinstance(covariate, Regimes) and not covariate.is_divided:
                covariates[factor] = covariate.divide(states, weights)
        return PriorDesign.from_formula(self.formula, covariates)

    def entry(self, **prior: Any) -> CovariatesEntry:
        """Describe the design for a model's manifest, and the prior of its coefficients."""
        columns = [entry_of(c, factor.df) for factor, c in self.covariates.items()]
        return CovariatesEntry(formula=self.formula, columns=columns, **prior)

    def rows(self, values: Mapping[str, Any], unseen: Unseen | None = None) -> SparseRows:
        """Code documents.

        Parameters
        ----------
        values
            Arrow arrays of the columns, of text or of lists of text; null: no value.
        unseen
            Receives the values that the model has not learned from.
        """
        coded = {}
        seen_columns = set[str]()
        for factor, covariate in self.covariates.items():
            # a column that stands in several factors is counted once
            counts_unseen = unseen if covariate.column not in seen_columns else None
            seen_columns.add(covariate.column)
            coded[factor] = encode(covariate, values[covariate.column], counts_unseen)
        docs = len(next(iter(values.values())))
        pieces = [SparseRows(np.arange(docs + 1), np.zeros(docs, np.int64), np.ones(docs))]
        widths = [1]
        for term in self.terms:
            rows = coded[term[0]]
            width = len(self.covariates[term[0]].names())
            for factor in term[1:]:
                factor_width = len(self.covariates[factor].names())
                rows = multiply_rows(rows, coded[factor], factor_width)
                width *= factor_width
            pieces.append(rows)
            widths.append(width)
        return join_rows(pieces, widths)

    def has_own_category(self, covariate: Covariate) -> bool:
        """Tell whether documents without a value of a covariate have a column of their own."""
        return bool(covariate.absent) and not covariate.listed

    def code_values(self, values: Sequence[str | float], factor: Factor) -> np.ndarray:
        """Code known values of a factor, without the column for absent ones.

        Returns
        -------
        float64[n, columns]
        """
        covariate = self.covariates[factor]
        rows = covariate.matrix(values)
        if covariate.levels or covariate.df:
            return rows
        return rows / (covariate.scale or 1.0)

    def notes(self) -> list[str]:
        """Say how documents without a value are coded, a line for each column that has some."""
        lines = []
        for covariate in {c.column: c for c in self.covariates.values()}.values():
            if isinstance(covariate, Regimes):
                number = counted(len(covariate.levels), covariate.period or "value")
                lines.append(f"{covariate}: of {number} with documents, {covariate.range_text()}")
            if not covariate.absent:
                continue
            coding = "the mean and an indicator"
            if covariate.listed:
                coding = "no category"
            elif covariate.levels:
                coding = "a category of their own"
            lines.append(
                f"{covariate.column}: {counted(covariate.absent, 'document')} without a value, "
                f"coded as {coding}"
            )
        return lines


def encode(covariate: Covariate, values: Any, unseen: Unseen | None = None) -> SparseRows:
    """Code the values of a column, an Arrow array.

    ``unseen`` receives the values that the model has not learned from.
    """
    if pa.types.is_nested(values.type):
        return _encode_lists(covariate, values, unseen)
    words = mark_missing(values, covariate.missing).dictionary_encode()
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    texts = words.dictionary.to_pylist()
    codes = words.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    times = np.bincount(codes, minlength=len(texts) + 1)
    table = _dictionary_rows(covariate, texts, times, unseen)
    return sparse_rows(table).take(codes)


def _dictionary_rows(
    covariate: Covariate, texts: list[str], times: np.ndarray, unseen: Unseen | None
) -> np.ndarray:
    """Code distinct values, float64[n + 1, columns], the last row for documents without one.

    ``times`` (int64[n + 1]) are the numbers of documents with each value, and without one.
    """
    width = len(covariate.names())
    table = np.zeros((len(texts) + 1, width))
    value_columns = width - bool(covariate.absent)
    if covariate.absent:
        table[-1, value_columns] = 1.0
    elif covariate.df:
        table[-1] = covariate.matrix([covariate.mean])[0]
    without = int(times[-1])
    if covariate.levels and not isinstance(covariate, Regimes):
        place = {level: i for i, level in enumerate(covariate.levels)}
        for row, text in enumerate(texts):
            level = place.get(text, -1)
            if level > 0:  # the first level is the reference, which has no column
                table[row, level - 1] = 1.0
            elif level < 0 and unseen is not None:
                unseen.levels.setdefault(covariate.column, Counter())[text] += int(times[row])
        _note_absent(covariate, without, unseen)
        return table
    numbers = [covariate.number_of(text) for text in texts]
    is_number = np.array([number is not None for number in numbers], np.bool_)
    x = np.array([number for number in numbers if number is not None], np.float64)
    # text where numbers were expected counts as no value
    no_numbers = np.flatnonzero(~is_number)
    table[no_numbers] = table[-1]
    unread = Counter({texts[row]: int(times[row]) for row in no_numbers.tolist()})
    if unread and unseen is not None:
        unseen.unread.setdefault(covariate.column, Counter()).update(unread)
    _note_absent(covariate, without + unread.total(), unseen)
    outside = (x < covariate.low) | (x > covariate.high)
    if unseen is not None and outside.any():
        unseen.beyond[covariate.column] += int(times[:-1][is_number][outside].sum())
    if len(x):
        inside = np.clip(x, covariate.low, covariate.high).tolist()
        scale = 1.0 if covariate.df else covariate.scale or 1.0
        table[np.flatnonzero(is_number), :value_columns] = covariate.matrix(inside) / scale
    return table


def _note_absent(covariate: Covariate, number: int, unseen: Unseen | None) -> None:
    """Note documents without a value, where the model has no column for them."""
    if unseen is not None and number and not covariate.absent:
        unseen.absent[covariate.column] += number


def _encode_lists(covariate: Covariate, values: Any, unseen: Unseen | None) -> SparseRows:
    """Code a column of lists: each of a document's distinct values has a one."""
    flat, docs = flatten_lists(values)
    words = flat.dictionary_encode()
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    place = {level: i for i, level in enumerate(covariate.levels)}
    texts = words.dictionary.to_pylist()
    table = np.array([*(place.get(text, -1) for text in texts), -2], np.int64)
    indices = words.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    codes = table[indices]
    if unseen is not None:
        new = Counter(texts[i] for i in indices[codes == -1].tolist())
        if new:
            unseen.levels.setdefault(covariate.column, Counter()).update(new)
    width = max(1, len(covariate.levels))
    pairs = np.unique(docs[codes >= 0] * width + codes[codes >= 0])
    owner, columns = np.divmod(pairs, width)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(values)))))
    return SparseRows(indptr.astype(np.int64), columns, np.ones(len(columns)))


def group_rows(rows: SparseRows) -> CovariateRows:
    """Find the distinct rows of some documents, as a block has them."""
    docs = len(rows.indptr) - 1
    lengths = np.diff(rows.indptr)
    # one string of bytes for each row (its length, then columns and numbers), which unique compares
    padded = np.zeros((docs, 2 * int(lengths.max(initial=0)) + 1), np.int32)
    padded[:, 0] = lengths
    owner = np.repeat(np.arange(docs), lengths)
    place = 2 * (np.arange(len(owner)) - rows.indptr[owner]) + 1
    padded[owner, place] = rows.columns
    padded[owner, place + 1] = rows.values.astype(np.float32).view(np.int32)
    row_bytes = np.ascontiguousarray(padded).view(f"V{padded.shape[1] * 4}").ravel()
    _, first, pattern = np.unique(row_bytes, return_index=True, return_inverse=True)
    distinct = rows.take(first)
    return CovariateRows(
        pattern.astype(np.int32).ravel(),
        distinct.indptr,
        distinct.columns.astype(np.int32),
        distinct.values.astype(np.float32),
    )


def columns_of_terms(design: PriorDesign) -> Iterator[tuple[str, range, float]]:
    """Yield each term, as in the formula, the range of its columns, and its norm.

    The norm is the largest sum of the absolute numbers of one document.
    """
    start = 1
    for term in design.terms:
        width = prod(len(design.covariates[factor].names()) for factor in term)
        norm = prod(_norm(design.covariates[factor]) for factor in term)
        yield ":".join(map(str, term)), range(start, start + width), norm
        start += width


def _norm(covariate: Covariate) -> float:
    """Bound the sum of a document's absolute numbers in the columns of a covariate."""
    if covariate.levels or covariate.df:
        return max(1.0, float(covariate.listed))
    furthest = max(covariate.mean - covariate.low, covariate.high - covariate.mean)
    return max(1.0, furthest / (covariate.scale or 1.0))


def longest_row(design: PriorDesign) -> int:
    """Bound the numbers of a document's row."""
    return _count_numbers(design, lists=True)


def usual_row(design: PriorDesign) -> int:
    """Count the numbers of a row that has one value of each column of lists."""
    return _count_numbers(design, lists=False)


def _count_numbers(design: PriorDesign, lists: bool) -> int:
    """Bound the numbers of a row, with all values of columns of lists, or one of each."""
    numbers = 1
    for term in design.terms:
        numbers += prod(_most_numbers(design.covariates[factor], lists) for factor in term)
    return numbers


def _most_numbers(covariate: Covariate, lists: bool) -> int:
    """Bound the numbers that a row has of a covariate (parameters: ``_count_numbers``)."""
    if covariate.levels:
        return max(1, covariate.listed if lists else 1)
    return DEGREE + 1 if covariate.df else 1
