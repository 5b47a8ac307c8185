"""Dates as text -> periods of time: which grain suits a corpus, and what its periods are called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

Day = tuple[int, int, int]  # year, month (0: not said), day (0: not said)
MOST = 80
_ISO = re.compile(r"\s*(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2})(?:[T ]\d.*)?)?)?\s*$")
_COMPACT = re.compile(r"\s*(\d{4})(\d{2})(\d{2})\s*$")
_MONTHS = {
    m: i for i, m in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_NAMED = re.compile(r"\s*(\d{4})[ -]([A-Za-z]{3})[a-z]*(?:[ -](\d{1,2}))?\s*$")


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Day | None:
    """A date: ``1999``, ``1999-05``, ``1999-05-31``, ``19990531``, an ISO time, PubMed's ``1999 May 31``; None for what is
    none of these."""
    match = _ISO.match(text) or _COMPACT.match(text)
    if match:
        year, month, day = (int(g or 0) for g in match.groups())
    elif (match := _NAMED.match(text)) and match[2].lower() in _MONTHS:
        year, month, day = int(match[1]), _MONTHS[match[2].lower()], int(match[3] or 0)
    else:
        return None
    if year < 1 or month > 12 or day > 31:
        return None
    if day:
        try:
            date(year, month, day)
        except ValueError:
            return None
    return year, month, day


def _ordinal(d: Day) -> int:
    return date(d[0], d[1], d[2]).toordinal()


def _week(d: Day) -> int:
    return (_ordinal(d) - 1) // 7  # Mondays begin


@dataclass(frozen=True)
class Grain:
    """A length of time.  number: the period's number of a date (ascending in time, without gaps); name: what it is called;
    needs: 1 the year, 2 the month too, 3 the day too; years: its length."""

    key: str
    number: Callable[[Day], int]
    name: Callable[[int], str]
    needs: int
    years: float


GRAINS = {
    g.key: g
    for g in (
        Grain("day", _ordinal, lambda n: date.fromordinal(n).isoformat(), 3, 1 / 365.25),
        Grain("week", _week, lambda n: (date.fromordinal(7 * n + 1) + timedelta(0)).isoformat(), 3, 7 / 365.25),
        Grain("month", lambda d: 12 * d[0] + d[1] - 1, lambda n: f"{n // 12:04}-{n % 12 + 1:02}", 2, 1 / 12),
        Grain("quarter", lambda d: 4 * d[0] + (d[1] - 1) // 3, lambda n: f"{n // 4:04} Q{n % 4 + 1}", 2, 0.25),
        Grain("year", lambda d: d[0], lambda n: f"{n:04}", 1, 1.0),
        Grain("decade", lambda d: d[0] // 10, lambda n: f"{n:03}0s", 1, 10.0),
        Grain("century", lambda d: d[0] // 100, lambda n: f"{n:02}00s", 1, 100.0),
    )
}


def usable(d: Day, grain: Grain) -> bool:
    """Whether a date says enough for a grain."""
    return grain.needs <= 1 or (d[1] > 0 and (grain.needs <= 2 or d[2] > 0))


def choose(counts: Counter[Day], grain: str | None = None) -> tuple[Grain, list[int]] | None:
    """The finest grain that gives at most 80 periods, of 20 documents or more on average, and that nine in ten dates are
    exact enough for; with the numbers of its periods from first to last.  None without dates."""
    total = sum(counts.values())
    if not total:
        return None
    best: tuple[Grain, list[int]] | None = None
    for g in GRAINS.values() if grain is None else (GRAINS[grain],):
        numbers = Counter[int]()
        for d, n in counts.items():
            if usable(d, g):
                numbers[g.number(d)] += n
        kept = sum(numbers.values())
        if not numbers or (kept < 0.9 * total and grain is None):
            continue
        first, last = min(numbers), max(numbers)
        span = last - first + 1
        if grain is not None:
            if span > 10_000:
                return None
            return g, list(range(first, last + 1))
        if span <= MOST:
            best = g, list(range(first, last + 1))
            if kept >= 20 * span or span <= 12:
                break
    return best


def period_number(text: str, grain: Grain) -> int | None:
    """The number of the period that a date lies in; None where it does not say."""
    d = parse(text)
    return grain.number(d) if d is not None and usable(d, grain) else None


def count(texts: Iterable[tuple[str, int]]) -> Counter[Day]:
    """Dates counted, of (text, how often)."""
    out: Counter[Day] = Counter()
    for text, n in texts:
        d = parse(text)
        if d is not None:
            out[d] += n
    return out
