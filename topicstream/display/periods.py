"""Periods of time: the grain that suits a corpus, and the names of its periods."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate

from topicstream.base.dates import Day, day_of_ordinal, iso, iso_year, ordinal, parse

MOST = 80
"""Periods at most, unless the user chose the grain."""
LONGEST = 10_000
"""Periods at most of a grain that the user chose."""


@dataclass(frozen=True)
class Grain:
    """A length of time.

    Attributes
    ----------
    key
        Its name as an option's value.
    number
        Returns the number of a date's period; numbers ascend in time, without gaps.
    name
        Returns the name of a period by its number.
    needs
        Parts of a date that determine its period: 1 year, 2 month, 3 day.
    years
        Length of a period in years.
    """

    key: str
    number: Callable[[Day], int]
    name: Callable[[int], str]
    needs: int
    years: float

    def find_period(self, day: Day | None) -> int | None:
        """Return the number of a date's period, if the date is exact enough."""
        return self.number(day) if day is not None and all(day[: self.needs]) else None


GRAINS = {
    g.key: g
    for g in (
        Grain("day", ordinal, lambda n: iso(day_of_ordinal(n)), 3, 1 / 365.25),
        Grain(
            "week",
            lambda d: (ordinal(d) - 1) // 7,
            lambda n: iso(day_of_ordinal(7 * n + 1)),
            3,
            7 / 365.25,
        ),
        Grain(
            "month",
            lambda d: 12 * d[0] + d[1] - 1,
            lambda n: f"{iso_year(n // 12)}-{n % 12 + 1:02}",
            2,
            1 / 12,
        ),
        Grain(
            "quarter",
            lambda d: 4 * d[0] + (d[1] - 1) // 3,
            lambda n: f"{iso_year(n // 4)} Q{n % 4 + 1}",
            2,
            0.25,
        ),
        Grain("year", lambda d: d[0], iso_year, 1, 1.0),
        Grain("decade", lambda d: d[0] // 10, lambda n: f"{iso_year(10 * n)}s", 1, 10.0),
        Grain("century", lambda d: d[0] // 100, lambda n: f"{iso_year(100 * n)}s", 1, 100.0),
    )
}


def choose_grain(days: Counter[Day], grain: str | None = None) -> tuple[Grain, range] | None:
    """Choose the finest grain that suits the dates.

    It gives at most 80 periods of 20 documents or more on average, and nine in ten dates are exact
    enough for it.

    Parameters
    ----------
    days
        Documents of each date.
    grain
        The key of the only grain to try.

    Returns
    -------
    tuple or None
        The grain, and the numbers of its periods from first to last; None without dates.
    """
    best = None
    for g in GRAINS.values() if grain is None else (GRAINS[grain],):
        numbers = _count_periods(days, g)
        dated = numbers.total()
        if not numbers or (dated < 0.9 * days.total() and grain is None):
            continue
        periods = range(min(numbers), max(numbers) + 1)
        if len(periods) <= (MOST if grain is None else LONGEST):
            best = g, periods
            if dated >= 20 * len(periods) or len(periods) <= 12:
                break
    return best


def _count_periods(days: Counter[Day], grain: Grain) -> Counter[int]:
    """Count the documents of each period that has any."""
    numbers: Counter[int] = Counter()
    for day, n in days.items():
        number = grain.find_period(day)
        if number is not None:
            numbers[number] += n
    return numbers


def choose_without_strays(
    days: Counter[Day], grain: str | None = None
) -> tuple[Grain, range, Counter[Day]] | None:
    """Choose grain and periods without a few stray dates that would stretch time.

    Strays, mistyped dates mostly, are one in 200 at either end, lie three times the length of the
    others away from them, and would make more than 80 periods.

    Returns
    -------
    tuple or None
        The grain, the numbers of its periods and the strays; None without dates.
    """
    ordered = sorted(days)
    places = [ordinal(day) for day in ordered]
    ends = [*accumulate(days[day] for day in ordered)]
    few = days.total() // 200
    first = places[bisect_right(ends, few)] if days else 0
    last = places[bisect_right(ends, days.total() - few - 1)] if days else 0
    reach = 3 * (last - first)
    far = Counter(
        {
            day: days[day]
            for day, place in zip(ordered, places)
            if not first - reach <= place <= last + reach
        }
    )
    chosen = choose_grain(days - far, grain)
    if chosen is None:
        return None
    numbers = _count_periods(days, chosen[0])
    stretched = reach and max(numbers) - min(numbers) >= MOST
    return (*chosen, far) if stretched else (*(choose_grain(days, grain) or chosen), Counter())


def count_dates(texts: Iterable[tuple[str | None, int]]) -> Counter[Day]:
    """Count the dates among pairs of (text, documents)."""
    days: Counter[Day] = Counter()
    for text, n in texts:
        day = parse(text) if text else None
        if day is not None:
            days[day] += n
    return days
