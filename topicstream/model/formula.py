"""Formulas of covariates, ``party * s(date)``, and the columns of numbers that they stand for.

A formula is a sum of terms; a term is a product of variables:

    a + b        the effects of both
    a : b        their interaction
    a * b        a + b + a:b
    s(x), s(x, 5)                          a smooth curve over x: a cubic B-spline with 10 (or 5)
                                           degrees of freedom, as stm's ``s()``
    regimes(x, 5), regimes(x, 5, month)    five regimes of a date (by months) or of whole numbers
                                           such as years, whose bounds are learned
                                           (model/regimes.py); in a prior only

Columns of numbers and dates enter as numbers (a date as years, 1999.41) from their mean on, all
others as categories: one column for each value but the first, the most frequent by default, which
the others are compared with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import fsum, isfinite, prod, sqrt

import numpy as np

from topicstream.base.dates import ordinal, parse
from topicstream.base.errors import InputError, UsageError
from topicstream.base.text import compose_text
from topicstream.corpus.columns import DATE, NO_NUMBER

MOST_LEVELS = 50
MOST_COLUMNS = 200
"""Most categories of a column and columns of a design, where none is given."""
SMOOTH_DF = 10
DEGREE = 3
"""Degrees of freedom of a curve, where none is given, and degree of its polynomials."""
DAYS = 365.25
"""Mean days of a year."""
ABSENT = "(missing)"
"""Name of the category of documents without a value."""
MOST_REGIMES = 20
PERIODS = ("year", "quarter", "month", "day")
"""Periods of dates, the coarsest first, of which regimes consist."""
_FACTOR = re.compile(
    r"\s*(?:s\(\s*(?P<smooth>[\w.-]+)\s*(?:,\s*(?P<df>\d+)\s*)?\)"
    r"|regimes\(\s*(?P<timed>[\w.-]+)\s*,\s*(?P<regimes>\d+)\s*(?:,\s*(?P<period>\w+)\s*)?\)"
    r"|(?P<name>[\w.-]+))\s*"
)


@dataclass(frozen=True)
class Factor:
    """A variable of a term.

    Attributes
    ----------
    column
        The column of the documents' metadata.
    df
        Degrees of freedom of the variable's curve; 0: it enters as it is.
    regimes
        Regimes that the variable is divided into; 0: it is not.
    period
        What regimes of dates consist of, one of ``PERIODS``; "": chosen by the documents.
    """

    column: str
    df: int = 0
    regimes: int = 0
    period: str = ""

    def __str__(self) -> str:
        if self.regimes:
            period = f", {self.period}" if self.period else ""
            return f"regimes({self.column}, {self.regimes}{period})"
        return self.column if not self.df else f"s({self.column})"


Term = tuple[Factor, ...]


def parse_formula(text: str) -> list[Term]:
    """Split a formula into its distinct terms, main effects before interactions.

    Parameters
    ----------
    text
        The formula, such as ``party * s(date)``; a ``~`` before it is ignored.

    Returns
    -------
    list
        A tuple of factors for each term.

    Raises
    ------
    UsageError
        The text is no formula.

    Examples
    --------
    >>> [":".join(map(str, term)) for term in parse_formula("party * s(date) + age")]
    ['party', 's(date)', 'age', 'party:s(date)']
    """
    text = compose_text(text)
    terms: dict[Term, None] = {}
    for summand in text.strip().removeprefix("~").split("+"):  # as R writes formulas
        parts = re.split("([*:])", summand)
        factors = [_read_factor(text, part) for part in parts[::2]]
        if {"*", ":"} <= set(parts):
            raise UsageError(f"formula {text!r}: write * and : in terms of their own")
        sizes = range(1, len(factors) + 1) if "*" in parts else [len(factors)]
        for size in sizes:
            terms |= dict.fromkeys(combinations(factors, size))
    _check_regimes(text, terms)
    return sorted(terms, key=len)


def factors_of(formula: str) -> list[Factor]:
    """List the distinct variables of a formula."""
    return list(dict.fromkeys(factor for term in parse_formula(formula) for factor in term))


def _read_factor(formula: str, part: str) -> Factor:
    """Read a variable of a formula.

    Raises
    ------
    UsageError
        ``part`` is no variable.
    """
    match = _FACTOR.fullmatch(part)
    if match is None:
        raise UsageError(
            f"formula {formula!r}: expected a column, s(column) or regimes(column, 5) at "
            f"{part.strip()[:40]!r}; write for example 'party * s(date)'"
        )
    if match["regimes"]:
        number = int(match["regimes"])
        period = match["period"] or ""
        if not 2 <= number <= MOST_REGIMES:
            raise UsageError(
                f"formula {formula!r}: 2 to {MOST_REGIMES} regimes are possible, not {number}; for "
                f"example regimes({match['timed']}, 5)"
            )
        if period not in ("", *PERIODS):
            raise UsageError(
                f"formula {formula!r}: {period!r} is no period of dates; choose "
                f"{', '.join(PERIODS)}"
            )
        return Factor(match["timed"], 0, number, period)
    df = int(match["df"] or SMOOTH_DF) if match["smooth"] else 0
    if df and df < DEGREE:
        raise UsageError(
            f"formula {formula!r}: s({match['smooth']}, {df}): a cubic curve has at least "
            f"{DEGREE} degrees of freedom"
        )
    return Factor(match["smooth"] or match["name"], df)


def _check_regimes(formula: str, terms: Iterable[Term]) -> None:
    """Refuse regimes in products, several of them, and other terms of their column.

    Raises
    ------
    UsageError
        Naming the formula.
    """
    factors = dict.fromkeys(factor for term in terms for factor in term)
    timed = [factor for factor in factors if factor.regimes]
    if not timed:
        return
    if len(timed) > 1:
        raise UsageError(
            f"formula {formula!r}: {timed[0]} and {timed[1]}; a formula may have one regimes()"
        )
    if any(len(term) > 1 and timed[0] in term for term in terms):
        raise UsageError(
            f"formula {formula!r}: {timed[0]} stands in a product; write it as a term of its own"
        )
    for factor in factors:
        if factor.column == timed[0].column and not factor.regimes:
            raise UsageError(
                f"formula {formula!r}: {factor.column} stands in {timed[0]} and in {factor}; "
                f"leave one out"
            )


def _plain_number(text: str) -> float | None:
    """Read a finite number, None for other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def as_number(text: str, column: str) -> float | None:
    """Read a number, or a date as years (1999.41).

    In the column ``date``, 19990531 is a date.

    Returns
    -------
    float or None
        None for other text.
    """
    number = None if column == DATE else _plain_number(text)
    if number is not None:
        return number
    parsed = parse(text)
    if parsed is None:
        return None
    return parsed[0] + (ordinal(parsed) - ordinal((parsed[0], 1, 1))) / DAYS


def as_days(years: np.ndarray) -> np.ndarray:
    """Convert years (1999.41) back to dates, datetime64[n]."""
    full_years = np.floor(years)
    begin = (full_years.astype(np.int64) - 1970).astype("datetime64[Y]").astype("datetime64[D]")
    return np.asarray(begin + np.rint((years - full_years) * DAYS).astype("timedelta64[D]"))


@dataclass
class Covariate:
    """A column of the documents' metadata, coded as numbers.

    Count the values of all documents in ``counts``, call ``choose_coding``, then ``matrix``.

    Attributes
    ----------
    column
        The column's name.
    df
        Degrees of freedom of the column's curve; 0: none.
    reference
        The category that the others are compared with; None: the most frequent.
    counts
        Documents with each value.
    levels
        Values of a column of categories, the reference first; empty for a column of numbers.
    kind
        ``category``, ``date``, ``whole`` (numbers without fractions) or ``number``.
    low, high, mean
        Range and mean of a column of numbers.
    knots
        Interior knots of the curve, float64[n].
    missing
        Values of a column of numbers that say that there is none (``NA``).
    most
        Categories at most.
    listed
        Categories that one document has at most, where it may have several; 0: it has one. Each has
        a column then, the most frequent one too.
    keeps_absent
        Whether documents without a value are coded: as a category of their own or, in a column of
        numbers, by the mean and an indicator. (Those of lists have no category.)
    absent
        Documents without a value, where they are coded.
    scale
        Standard deviation of a column of numbers.
    """

    column: str
    df: int = 0
    reference: str | None = None
    counts: Counter[str] = field(default_factory=Counter)
    levels: list[str] = field(default_factory=list)
    kind: str = "category"
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    knots: np.ndarray = field(default_factory=lambda: np.zeros(0))
    missing: frozenset[str] = frozenset()
    most: int = MOST_LEVELS
    listed: int = 0
    keeps_absent: bool = False
    absent: int = 0
    scale: float = 1.0

    def choose_coding(self) -> None:
        """Decide from the counted values between numbers, dates and categories.

        Raises
        ------
        InputError
            If the column cannot be coded, or does not vary.
        """
        if not self.counts:
            raise InputError(f"column {self.column}: no document has a value")
        if self.listed:
            self._code_categories(next(iter(self.counts)))
            return
        numbers = {value: self.number_of(value) for value in self.counts}
        read = {value: number for value, number in numbers.items() if number is not None}
        texts = numbers.keys() - read.keys()
        numeric = bool(read) and texts <= NO_NUMBER  # no text but the likes of NA
        distinct = read if numeric else numbers
        if len(distinct) == 1:
            raise InputError(
                f"column {self.column}: all documents have the value {next(iter(distinct))}; "
                f"leave it out"
            )
        if numeric:
            self.missing = frozenset(texts)
            if self.keeps_absent:
                self.absent += sum(self.counts[value] for value in texts)
            self._code_numbers(read)
        else:
            self._code_categories(next(value for value in numbers if value not in read))

    def number_of(self, text: str) -> float | None:
        """Read a value of a column of numbers or dates, None for other text."""
        return as_number(text, self.column)

    def range_text(self) -> str:
        """Describe the range of a column of numbers."""
        return f"{self.low:.6g} to {self.high:.6g}"

    def _code_numbers(self, numbers: dict[str, float]) -> None:
        """Note range, mean and kind of numbers or dates, and place the knots of a curve."""
        if self.reference is not None:
            raise InputError(
                f"--reference {self.column}={self.reference}: {self.column} holds numbers, "
                f"which are measured from their mean"
            )
        values = np.array(list(numbers.values()), np.float64)
        weights = np.array([self.counts[value] for value in numbers])
        self.low = float(values.min())
        self.high = float(values.max())
        whole = bool((values == np.floor(values)).all())
        dates = any(_plain_number(text) is None for text in numbers)
        dates = dates or (self.column == DATE and not whole)
        if dates and self.low >= 1:  # axes of dates begin with the year 1
            self.kind = "date"
        else:
            self.kind = "whole" if whole else "number"
        documents = float(weights.sum())
        self.mean = fsum(values * weights) / documents  # the same on every processor
        self.scale = sqrt(fsum((values - self.mean) ** 2 * weights) / documents)
        if self.df:
            self.df = max(1, min(self.df, len(values) - 1))
            quantiles = np.linspace(0, 1, max(0, self.df - DEGREE) + 2)[1:-1]
            order = np.argsort(values)
            shares = np.cumsum(weights[order]) / weights.sum()
            self.knots = np.unique(values[order][np.searchsorted(shares, quantiles)])
            self.knots = self.knots[(self.knots > self.low) & (self.knots < self.high)]

    def _code_categories(self, text: str) -> None:
        """Order the categories. Messages name ``text``, a value that is no number."""
        if self.reference not in (None, *self.counts):
            frequent = ", ".join(value for value, _ in self.counts.most_common(8))
            raise InputError(
                f"--reference {self.column}={self.reference}: no document has this value; it "
                f"has {frequent[:200]}"
            )
        if self.df:
            raise InputError(
                f"s({self.column}): {text[:40]!r} is neither a number nor a date; leave out s()"
            )
        self.levels = sorted(
            self.counts, key=lambda value: (value != self.reference, -self.counts[value], value)
        )
        if len(self.levels) > self.most:
            raise InputError(
                f"column {self.column}: {text[:40]!r} is neither a number nor a date, and of "
                f"{len(self.levels):,} different groups at most {self.most:,} can be compared; "
                f"--date-format of `topics ingest` reads other dates"
            )

    def names(self) -> list[str]:
        """Name the columns of ``matrix``."""
        if self.levels:
            names = [f"{self.column}={level}" for level in self.levels[self.listed == 0 :]]
        elif self.df:
            names = [f"s({self.column}).{i + 1}" for i in range(len(self.knots) + DEGREE)]
        else:
            names = [self.column]
        if self.absent and not self.listed:
            names.append(f"{self.column}={ABSENT}")
        return names

    def matrix(self, values: Sequence[str | float]) -> np.ndarray:
        """Code values as columns of numbers, without the column for absent ones.

        Parameters
        ----------
        values
            Text, or numbers of a column of numbers; none is missing.

        Returns
        -------
        float64[D, columns]
        """
        if self.levels:
            place = {level: i for i, level in enumerate(self.levels)}
            codes = np.array([place[str(value)] for value in values], np.int64)
            return np.eye(len(self.levels))[codes][:, self.listed == 0 :]
        numbers = [
            value if isinstance(value, float) else as_number(str(value), self.column)
            for value in values
        ]
        x = np.array(numbers, np.float64)
        if not self.df:
            # from the mean, so that other terms are effects there and not in the year 0
            return (x - self.mean)[:, None]
        from scipy.interpolate import BSpline  # a fifth of a second, which manifests need not take

        left = np.repeat(self.low, DEGREE + 1)
        right = np.repeat(self.high, DEGREE + 1)
        knots = np.concatenate((left, self.knots, right))
        spline = BSpline.design_matrix(np.clip(x, self.low, self.high), knots, DEGREE)
        return np.asarray(spline.toarray()[:, 1:])


class Design:
    """The design matrix of a formula: an intercept, then the columns of each term.

    Parameters
    ----------
    terms
        The terms of the formula (``parse_formula``).
    covariates
        The coded column of each factor.
    most
        Most columns of the matrix.

    Attributes
    ----------
    names
        Names of the columns, the intercept first.

    Raises
    ------
    InputError
        The formula has more columns.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        covariates: Mapping[Factor, Covariate],
        most: int = MOST_COLUMNS,
    ) -> None:
        self.terms = list(terms)
        self.covariates = dict(covariates)
        self.names = ["(intercept)"]
        for term in self.terms:
            parts = product(*(self.covariates[factor].names() for factor in term))
            self.names += [":".join(part) for part in parts]
        if len(self.names) > most:
            raise InputError(
                f"the formula has {len(self.names):,} coefficients, at most {most:,} can be "
                f"estimated; drop a term"
            )

    def missing(self, column: str) -> frozenset[str]:
        """Return the values of a column of metadata that stand for a missing one."""
        covariates = self.covariates.values()
        return frozenset().union(*(c.missing for c in covariates if c.column == column))

    def category_columns(self) -> list[bool]:
        """Tell of each column whether it compares categories, not numbers or curves."""
        columns = [True]
        for term in self.terms:
            parts = [self.covariates[factor] for factor in term]
            count = prod(len(part.names()) for part in parts)
            columns += [all(part.levels for part in parts)] * count
        return columns

    def matrix(self, values: Mapping[str, Sequence[str | float]], rows: int) -> np.ndarray:
        """Fill the matrix, float64[rows, coefficients], from the values of each column."""
        columns_of_factor = {
            factor: covariate.matrix(values[factor.column])
            for factor, covariate in self.covariates.items()
        }
        columns = [np.ones((rows, 1))]
        for term in self.terms:
            block = np.ones((rows, 1))
            for factor in term:
                products = block[:, :, None] * columns_of_factor[factor][:, None, :]
                block = products.reshape(rows, -1)
            columns.append(block)
        return np.concatenate(columns, axis=1)
