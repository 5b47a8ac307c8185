"""Regimes of time: consecutive periods of a date that share their coefficients.

``regimes(date, 5)`` in a formula divides the periods (years, quarters, months or days of a date, or
whole numbers as they are) into five regimes, each with an alpha of its own. Training learns where
they begin (engines/regimes.py). Until then each period is a category. In a model each regime is a
category, and the first is the reference. So the first period never has a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.text import counted
from topicstream.model.formula import PERIODS, Covariate, as_days, as_number

MOST_PERIODS = 400
"""Most periods that are divided: work at the end of a pass grows with their square."""
ENOUGH = 5
"""Periods per regime from which on a kind of period is fine enough to be chosen."""
SMALL_WEIGHT = 0.01
"""Smallest posterior weight of a change point that is recorded."""

MONTHS = {"year": 12, "quarter": 3, "month": 1}


def find_periods(numbers: np.ndarray, period: str) -> np.ndarray:
    """Find the periods of dates, int64[n].

    Parameters
    ----------
    numbers
        Dates as years (1999.41), or whole numbers.
    period
        One of ``PERIODS``, or "" for whole numbers.
    """
    if not period:
        return np.asarray(np.rint(numbers).astype(np.int64))
    days = as_days(numbers)
    if period == "day":
        return np.asarray(days.astype(np.int64))
    months = days.astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // MONTHS[period])


def first_days(numbers: Sequence[int], period: str) -> np.ndarray:
    """Return the first days of periods of dates, datetime64[n]."""
    if period == "day":
        return np.array(numbers, "datetime64[D]")
    months = np.array(numbers, np.int64) * MONTHS[period]
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]"))


def name_period(number: int, period: str) -> str:
    """Name a period: 1999, 1999-Q2, 1999-05 or 1999-05-31."""
    if not period:
        return str(number)
    day = str(first_days([number], period)[0])
    if period == "quarter":
        return f"{day[:-6]}-Q{number % 4 + 1}"
    return day[: {"year": -6, "month": -3, "day": None}[period]]


@dataclass
class Regimes(Covariate):
    """A column of dates or whole numbers, divided into regimes.

    Attributes
    ----------
    regimes
        Number of regimes.
    period
        Unit of the regimes, one of ``PERIODS``; "" for whole numbers or until it is chosen.
    starts
        The first period of each level, ascending. Levels are periods until training has found
        regimes.
    weights
        For each change point, posterior weights by the name of the period that follows it.
    low, high
        The first and the last period with documents.
    """

    regimes: int = 2
    period: str = ""
    starts: list[int] = field(default_factory=list)
    weights: list[dict[str, float]] = field(default_factory=list)

    def __str__(self) -> str:
        period = f", {self.period}" if self.period else ""
        return f"regimes({self.column}, {self.regimes}{period})"

    @property
    def is_divided(self) -> bool:
        """Tell whether the levels are regimes, so that there is nothing to learn."""
        return len(self.starts) == self.regimes

    @property
    def documents(self) -> np.ndarray:
        """Return the training documents of each level, int64[n]."""
        return np.array([self.counts[level] for level in self.levels], np.int64)

    def number_of(self, text: str) -> float | None:
        """Read the period of a value, None for other text."""
        number = as_number(text, self.column)
        if number is None or not self.starts:
            return number
        return float(find_periods(np.array([number]), self.period)[0])

    def range_text(self) -> str:
        """Describe the periods that have documents."""
        first = name_period(int(self.low), self.period)
        return f"{first} to {name_period(int(self.high), self.period)}"

    def _code_categories(self, text: str) -> None:
        """Refuse a column of texts."""
        raise InputError(
            f"{self}: {text[:40]!r} is neither a date nor a whole number; --date-format of "
            f"`topics ingest` reads other dates"
        )

    def _code_numbers(self, numbers: dict[str, float]) -> None:
        """Choose the period and make each one that has documents a level."""
        super()._code_numbers(numbers)
        if self.kind == "number":
            text = next(text for text, number in numbers.items() if number != int(number))
            raise InputError(
                f"{self}: {text[:40]!r} is not whole; regimes are of dates, or of whole numbers "
                f"such as years"
            )
        if self.kind == "whole" and self.period:
            raise InputError(
                f"{self}: {self.column} holds whole numbers, which are the periods; write "
                f"regimes({self.column}, {self.regimes})"
            )
        values = np.array(list(numbers.values()), np.float64)
        self.period = self._choose_period(values)
        periods = find_periods(values, self.period)
        documents = Counter[int]()
        for number, text in zip(periods.tolist(), numbers, strict=True):
            documents[number] += self.counts[text]
        self.starts = sorted(documents)
        self.levels = [name_period(number, self.period) for number in self.starts]
        self.counts = Counter(
            {name: documents[n] for n, name in zip(self.starts, self.levels, strict=True)}
        )
        self.low = float(self.starts[0])
        self.high = float(self.starts[-1])
        self.scale = 1.0

    def _choose_period(self, values: np.ndarray) -> str:
        """Choose the coarsest period of which there are enough, unless the formula names one.

        Raises
        ------
        InputError
            There are fewer periods than regimes, or too many.
        """
        is_given = bool(self.period) or self.kind == "whole"
        counts = dict[str, int]()
        for period in [self.period] if is_given else PERIODS:
            counts[period] = len(np.unique(find_periods(values, period)))
            if counts[period] >= ENOUGH * self.regimes:
                break
        fitting = [name for name in counts if counts[name] <= MOST_PERIODS]
        chosen = max(fitting or counts, key=counts.__getitem__)
        number = counts[chosen]
        noun = chosen or "value"
        if number < self.regimes:
            finer = "" if noun in ("day", "value") else "a finer period or "
            raise InputError(
                f"{self}: the documents have {counted(number, noun)}, too few for {self.regimes} "
                f"regimes; ask for {finer}fewer regimes"
            )
        if number > MOST_PERIODS:
            advice = "round the numbers before they are ingested"
            if noun in PERIODS[1:]:
                advice = f"ask for a coarser period: regimes({self.column}, {self.regimes}, month)"
            raise InputError(
                f"{self}: the documents have {counted(number, noun)}, at most {MOST_PERIODS} "
                f"can be divided; {advice}"
            )
        return chosen

    def matrix(self, values: Sequence[str | float]) -> np.ndarray:
        """Code levels, or periods as numbers, without the first level: float64[D, columns]."""
        place = {level: i for i, level in enumerate(self.levels)}
        codes = [
            place[value] if isinstance(value, str) else self._level_of(value) for value in values
        ]
        return np.asarray(np.eye(len(self.levels))[np.array(codes, np.int64)][:, 1:])

    def _level_of(self, period: float) -> int:
        """Find the level of a period, the level before for one without documents."""
        return max(0, int(np.searchsorted(self.starts, period, side="right")) - 1)

    def divide(self, states: np.ndarray, weights: np.ndarray) -> Regimes:
        """Make a copy with the regimes that training has found.

        Parameters
        ----------
        states
            The regime of each period, ascending from 0.
        weights
            float64[regimes - 1, periods], the posterior weight of each change point before each
            period.
        """
        begin = np.searchsorted(states, np.arange(self.regimes))
        end = np.searchsorted(states, np.arange(self.regimes), side="right") - 1
        documents = self.documents
        levels = []
        counts = Counter[str]()
        for first, last in zip(begin.tolist(), end.tolist(), strict=True):
            name = self.levels[first]
            levels.append(name if first == last else f"{name} to {self.levels[last]}")
            counts[levels[-1]] = int(documents[first : last + 1].sum())
        return replace(
            self,
            levels=levels,
            counts=counts,
            starts=[self.starts[first] for first in begin.tolist()],
            weights=[self._name_weights(row) for row in weights],
        )

    def _name_weights(self, weights: np.ndarray) -> dict[str, float]:
        """Return the weights of a change point by period, without small ones."""
        places = np.flatnonzero(weights >= SMALL_WEIGHT).tolist()
        return {self.levels[place]: round(float(weights[place]), 4) for place in places}

    def entry_fields(self) -> dict[str, Any]:
        """Return the fields that a model's manifest has for regimes only."""
        return {
            "regimes": self.regimes,
            "period": self.period,
            "starts": self.starts,
            "weights": self.weights,
        }

    def edges(self) -> np.ndarray:
        """Return where the regimes begin and the last one ends, as numbers or dates."""
        numbers = [*self.starts, int(self.high) + 1]
        if not self.period:
            return np.array(numbers, np.float64)
        return first_days(numbers, self.period)

    def lines(self) -> list[str]:
        """Say where the regimes are, and how sure their change points."""
        lines = [f"regimes of {self.column}: {', '.join(self.levels)}"]
        points = []
        for start, weights in zip(self.starts[1:], self.weights, strict=False):
            name = name_period(start, self.period)
            ranked = sorted(weights, key=weights.__getitem__, reverse=True)
            elsewhere = [f"{place} {weights[place]:.2f}" for place in ranked if place != name][:2]
            beside = f" ({', '.join(elsewhere)})" if elsewhere else ""
            points.append(f"{name} {weights.get(name, 0.0):.2f}{beside}")
        if any(self.weights):  # a run may end before it has found change points
            lines.append(
                f"posterior weight that a regime begins there, and elsewhere: {'; '.join(points)}"
            )
        return lines
