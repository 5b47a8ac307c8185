"""Which grain suits some dates, at its limits, and the names of periods."""

from __future__ import annotations

from collections import Counter

import pytest

from topicstream.display.periods import (
    GRAINS,
    LONGEST,
    MOST,
    choose_grain,
    choose_without_strays,
    count_dates,
)


def days_of(n: int, documents: int) -> Counter:
    """So many documents on each of n days from 1 January 2001 on (up to 28 a month)."""
    return Counter({(2001 + i // 336, 1 + i // 28 % 12, 1 + i % 28): documents for i in range(n)})


@pytest.mark.parametrize(
    ("grain", "day", "number", "name"),
    [
        ("day", (2001, 1, 1), 730486, "2001-01-01"),
        ("week", (2001, 1, 1), 104355, "2001-01-01"),  # a Monday
        ("week", (2001, 1, 7), 104355, "2001-01-01"),
        ("week", (2001, 1, 8), 104356, "2001-01-08"),
        ("month", (2001, 1, 0), 24012, "2001-01"),
        ("month", (2001, 12, 31), 24023, "2001-12"),
        ("quarter", (2001, 3, 0), 8004, "2001 Q1"),
        ("quarter", (2001, 4, 0), 8005, "2001 Q2"),
        ("quarter", (2001, 12, 0), 8007, "2001 Q4"),
        ("year", (987, 0, 0), 987, "0987"),
        ("decade", (1989, 0, 0), 198, "1980s"),
        ("century", (1999, 0, 0), 19, "1900s"),
    ],
)
def test_numbers_and_names(grain, day, number, name):
    assert GRAINS[grain].find_period(day) == number
    assert GRAINS[grain].name(number) == name


def test_a_date_that_does_not_say_has_no_period():
    for grain, day in (("day", (2001, 5, 0)), ("week", (2001, 5, 0)), ("quarter", (2001, 0, 0))):
        assert GRAINS[grain].find_period(day) is None
    assert GRAINS["month"].find_period(None) is None
    assert {key: grain.years for key, grain in GRAINS.items()} == {
        "day": 1 / 365.25,
        "week": 7 / 365.25,
        "month": 1 / 12,
        "quarter": 1 / 4,
        "year": 1,
        "decade": 10,
        "century": 100,
    }


def test_eighty_periods_of_twenty_documents_or_twelve_of_any():
    assert (MOST, LONGEST) == (80, 10_000)
    assert choose_grain(Counter({(y, 0, 0): 20 for y in range(1901, 1981)}))[0].key == "year"
    assert choose_grain(Counter({(y, 0, 0): 20 for y in range(1901, 1982)}))[0].key == "decade"
    assert choose_grain(days_of(28, 20))[0].key == "day"
    assert choose_grain(days_of(28, 19))[0].key == "week"
    assert choose_grain(days_of(12, 1))[0].key == "day"
    assert choose_grain(days_of(13, 1))[0].key == "week"
    assert choose_grain(days_of(12, 1))[1] == range(730486, 730498)


def test_nine_dates_in_ten_say_enough():
    days = days_of(12, 3)
    days[(2001, 1, 0)] = 4  # one in ten
    assert choose_grain(days)[0].key == "day"
    days[(2001, 1, 0)] = 5
    assert choose_grain(days)[0].key == "month"
    assert choose_grain(days, "day")[0].key == "day"
    assert choose_grain(Counter({(2001, 0, 0): 5}), "day") is None


def test_a_grain_that_is_asked_for_has_ten_thousand_periods():
    assert len(choose_grain(Counter({(1, 1, 0): 1, (834, 4, 0): 1}), "month")[1]) == LONGEST
    assert choose_grain(Counter({(1, 1, 0): 1, (834, 5, 0): 1}), "month") is None


def test_one_date_in_two_hundred_is_far():
    years = Counter({(y, 0, 0): 20 for y in range(2000, 2020)})
    years[(2109, 0, 0)] = 2  # of 402 documents, two may be left out at either end
    grain, numbers, far = choose_without_strays(years)
    assert (grain.key, numbers, far) == ("year", range(2000, 2020), Counter({(2109, 0, 0): 2}))
    years[(2109, 0, 0)] = 3
    grain, numbers, far = choose_without_strays(years)
    assert not far and numbers[-1] == grain.find_period((2109, 0, 0))


def test_few_dates_round_down():
    """Of 398 documents one may be left out at either end; 399.9 would be two."""
    years = Counter({(y, 0, 0): 20 for y in range(2000, 2019)})
    years[(2018, 0, 0)] -= 2
    years[(2009, 0, 0)] += 18
    years[(2109, 0, 0)] = 2
    assert years.total() == 398
    assert not choose_without_strays(years)[2]
    years[(2109, 0, 0)] = 1
    assert choose_without_strays(years)[2] == Counter({(2109, 0, 0): 1})


def test_a_far_date_that_eighty_periods_reach_is_none():
    years = Counter({(y, 0, 0): 100 for y in range(2000, 2005)})
    years[(2040, 0, 0)] = 1  # more than three times four years away, but within 80 years
    assert choose_without_strays(years) == (GRAINS["decade"], range(200, 205), Counter())


def test_dates_are_counted_and_what_is_none_is_left_out():
    assert count_dates([("2001-05-02", 2), ("2001-05-02", 3), ("", 1), (None, 9), ("soon", 4)]) == {
        (2001, 5, 2): 5
    }
