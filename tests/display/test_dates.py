"""Dates as people write them, and the periods that they fall into."""

from __future__ import annotations

from collections import Counter

import pytest

from topicstream.base.dates import day_of_ordinal, iso, ordinal, parse
from topicstream.display import periods
from topicstream.display.gather import Time


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1999", (1999, 0, 0)),
        ("1999-05", (1999, 5, 0)),
        ("1999-05-31", (1999, 5, 31)),
        ("19990531", (1999, 5, 31)),
        ("1999-05-31T10:00:00Z", (1999, 5, 31)),
        ("1999 May 31", (1999, 5, 31)),
        ("1999 May", (1999, 5, 0)),
        ("1842-1843", (1842, 0, 0)),
        ("1842-43", (1842, 0, 0)),
        ("1842-12", (1842, 12, 0)),
        ("1640s", (1640, 0, 0)),
        ("c. 1640s", (1640, 0, 0)),
        ("[1850?]", (1850, 0, 0)),
        ("1842–1843", (1842, 0, 0)),
        ("1999-2001-05-99", None),
        ("31.05.1999", (1999, 5, 31)),
        ("31. 5. 1999 12:30", (1999, 5, 31)),
        ("31-MAY-1999 15:01:01.79", (1999, 5, 31)),
        ("Mon, 31 May 1999 10:00:00 GMT", (1999, 5, 31)),
        ("36311.4832", (1999, 5, 31)),
        ("5/31/1999", None),
        ("1999-02-30", None),
        ("1999-13", None),
        ("May 1999", (1999, 5, 0)),
        ("1. März 1999", (1999, 3, 1)),
        ("1er juin 1999", (1999, 6, 1)),
        ("12 de julio de 1999", (1999, 7, 12)),
        ("May 31st, 1999", (1999, 5, 31)),
        ("Sun,  9 Jan 2005 10:39:38 -0700", (2005, 1, 9)),
        ("Tue Feb 24 11:35:52 +0000 2015", (2015, 2, 24)),
        ("2015年2月24日", (2015, 2, 24)),
        ("２０１５年２月２４日", (2015, 2, 24)),
        ("٢٠١٥-٠٢-٢٤", (2015, 2, 24)),
        ("[c. 1815?]", (1815, 0, 0)),
        ("1424777752000", (2015, 2, 24)),
        ("31 Foo 1999", None),
        ("-1999", (-1999, 0, 0)),
        ("-0207", (-207, 0, 0)),
        ("-0207-03-15", (-207, 3, 15)),
        ("-0004-02-29", (-4, 2, 29)),
        ("-0207-13", None),
        ("-0000", None),
        ("207 BC", (-207, 0, 0)),
        ("c. 44 v. Chr.", (-44, 0, 0)),
        ("55 av. J.-C.", (-55, 0, 0)),
        ("", None),
        ("0000", None),
    ],
)
def test_dates(text, wanted):
    assert parse(text) == wanted


def test_periods_before_our_era_ascend_and_are_named_by_their_signed_years():
    numbers = [ordinal(day) for day in ((-400, 3, 1), (-1, 12, 31), (0, 1, 1), (1, 1, 1))]
    assert numbers == [-365 - 146_097 + 31 + 29, -366, -365, 1]
    assert day_of_ordinal(numbers[0]) == (-400, 3, 1)
    plays = Counter({(year, 0, 0): 30 for year in range(-207, -159)})
    grain, numbers = periods.choose_grain(plays)
    names = [grain.name(n) for n in numbers]
    assert (names[0], names[-1], len(names)) == ("-0207", "-0160", 48)
    assert iso((-207, 3, 5)) == "-0207-03-05"
    decade = periods.GRAINS["decade"]
    assert decade.name(decade.find_period((-207, 0, 0))) == "-0210s"
    month = periods.GRAINS["month"]
    assert month.name(month.find_period((-207, 3, 0))) == "-0207-03"


def test_the_grain_suits_the_dates():
    years = Counter({(y, 0, 0): 100 for y in range(1950, 2020)})
    grain, numbers = periods.choose_grain(years)
    assert grain.key == "year" and len(numbers) == 70
    days = Counter({(2020, m, d): 30 for m in (1, 2, 3) for d in range(1, 29)})
    assert periods.choose_grain(days)[0].key == "week"
    assert periods.choose_grain(Counter({(2020, 1, d): 30 for d in range(1, 29)}))[0].key == "day"
    assert [periods.GRAINS["quarter"].name(n) for n in (8080, 8081)] == ["2020 Q1", "2020 Q2"]
    assert periods.GRAINS["month"].name(periods.GRAINS["month"].number((2020, 12, 3))) == "2020-12"
    assert (
        periods.choose_grain(Counter()) is None and periods.choose_without_strays(Counter()) is None
    )


MONTHS = [
    ("2003-01-15", "2003 Q1"),
    ("2003-02-28", "2003 Q1"),
    ("2003-03-01", "2003 Q1"),
    ("2003-03-31", "2003 Q1"),
    ("2003-04-01", "2003 Q2"),
    ("2003-05-02", "2003 Q2"),
    ("2003-06-30", "2003 Q2"),
    ("2003-07-01", "2003 Q3"),
    ("2003-08-09", "2003 Q3"),
    ("2003-09-30", "2003 Q3"),
    ("2003-10-01", "2003 Q4"),
    ("2003-11-11", "2003 Q4"),
    ("2003-12-31", "2003 Q4"),
    ("2004-01-01", "2004 Q1"),
    ("2004-03", "2004 Q1"),
    ("2004-12", "2004 Q4"),
]


@pytest.mark.parametrize(("text", "quarter"), MONTHS)
def test_the_period_of_every_month(text, quarter):
    names = {
        key: grain.name(grain.find_period(parse(text)))
        for key, grain in periods.GRAINS.items()
        if grain.needs < 3
    }
    assert names == {
        "month": text[:7],
        "quarter": quarter,
        "year": text[:4],
        "decade": "2000s",
        "century": "2000s",
    }


def test_the_place_of_every_month_among_the_quarters():
    days = periods.count_dates((text, 1) for text, _ in MONTHS)
    grain, numbers, _ = periods.choose_without_strays(days, "quarter")
    time = Time(grain, numbers, Counter())
    assert time.values == [f"{year} Q{q}" for year in (2003, 2004) for q in (1, 2, 3, 4)]
    assert [time.values[time.code(text)] for text, _ in MONTHS] == [q for _, q in MONTHS]
