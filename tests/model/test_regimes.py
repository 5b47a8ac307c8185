"""Regimes of time: their periods, how values are coded, what is refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from topicstream.base.errors import InputError, UsageError
from topicstream.model.covariate_entries import CovariateEntry
from topicstream.model.design import PriorDesign, Unseen, decode_covariate, entry_of
from topicstream.model.formula import factors_of, parse_formula
from topicstream.model.regimes import MOST_PERIODS, Regimes, find_periods, name_period

DAYS = ("2000-01-31", "2000-02-29", "2000-04-01", "2001-12-31", "2002-01-01")


def coded(values, regimes=2, period="", column="date"):
    covariate = Regimes(column, counts=Counter(values), regimes=regimes, period=period)
    covariate.keeps_absent = True
    covariate.choose_coding()
    return covariate


def design_of(formula, values, absent=0):
    (factor,) = factors_of(formula)
    covariate = Regimes(
        factor.column,
        counts=Counter(values),
        regimes=factor.regimes,
        period=factor.period,
        keeps_absent=True,
        absent=absent,
    )
    covariate.choose_coding()
    return PriorDesign.from_formula(formula, {factor: covariate})


@pytest.mark.parametrize(
    ("period", "names"),
    [
        ("year", ["2000", "2001", "2002"]),
        ("quarter", ["2000-Q1", "2000-Q2", "2001-Q4", "2002-Q1"]),
        ("month", ["2000-01", "2000-02", "2000-04", "2001-12", "2002-01"]),
        ("day", list(DAYS)),
    ],
)
def test_dates_are_of_periods(period, names):
    covariate = coded(DAYS, period=period)
    assert covariate.levels == names
    assert sum(covariate.counts.values()) == len(DAYS)
    assert covariate.range_text() == f"{names[0]} to {names[-1]}"


def test_each_day_is_of_its_own_period():
    """Years with fractions lose no day, before 1970 and in leap years."""
    days = np.arange(np.datetime64("1896-01-01"), np.datetime64("2030-01-01"), 13)
    texts = days.astype(str).tolist()
    numbers = np.array([Regimes("date").number_of(text) for text in texts])
    for period, length in (("year", 4), ("month", 7), ("day", 10)):
        found = find_periods(numbers, period).tolist()
        assert [name_period(number, period) for number in found] == [t[:length] for t in texts]
    quarters = [f"{t[:4]}-Q{(int(t[5:7]) + 2) // 3}" for t in texts]
    found = find_periods(numbers, "quarter").tolist()
    assert [name_period(number, "quarter") for number in found] == quarters


@pytest.mark.parametrize(
    ("first", "days", "regimes", "period"),
    [
        ("1960-01-01", 20_000, 5, "year"),
        ("2000-01-01", 3_000, 5, "quarter"),
        ("2000-01-01", 800, 5, "month"),
        ("2000-01-01", 60, 5, "day"),
    ],
)
def test_the_coarsest_period_of_which_there_are_enough_is_chosen(first, days, regimes, period):
    dates = np.datetime64(first) + np.arange(0, days, 2)
    assert coded(dates.astype(str).tolist(), regimes).period == period


def test_whole_numbers_are_periods_themselves():
    covariate = coded(["3", "1", "1", "7"], column="session")
    assert covariate.levels == ["1", "3", "7"] and covariate.documents.tolist() == [2, 1, 1]
    assert covariate.period == ""


@pytest.mark.parametrize(
    ("values", "options", "told"),
    [
        (["2000", "2001"], {"regimes": 3}, "have 2 values, too few for 3 regimes"),
        (["2000-01", "2001-01", "2001-02"], {"regimes": 3, "period": "year"}, "a finer period"),
        (["a", "2000"], {}, "'a' is neither a date nor a whole number"),
        (["1.5", "2"], {"column": "score"}, "'1.5' is not whole"),
        (["1", "2"], {"column": "year", "period": "month"}, r"write regimes\(year, 2\)"),
        (list(map(str, range(500))), {"column": "n"}, f"at most {MOST_PERIODS} can be divided"),
    ],
)
def test_columns_without_periods_are_refused(values, options, told):
    with pytest.raises(InputError, match=told) as refused:
        coded(values, **options)
    assert "\n" not in str(refused.value)


def test_too_many_days_are_refused_with_a_period_that_would_do():
    days = (np.datetime64("2000-01-01") + np.arange(500)).astype(str).tolist()
    with pytest.raises(InputError, match=r"500 days, .* regimes\(date, 2, month\)"):
        coded(days, period="day")


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("regimes(date, 1)", "2 to 20 regimes are possible, not 1"),
        ("regimes(date, 21)", "2 to 20 regimes are possible, not 21"),
        ("regimes(date)", "expected a column"),
        ("regimes(date, 5, week)", "'week' is no period"),
        ("regimes(date, 5) * party", "stands in a product"),
        ("regimes(date, 5) + regimes(year, 3)", "may have one regimes"),
        ("regimes(date, 5) + s(date)", r"stands in regimes\(date, 5\) and in s\(date\)"),
    ],
)
def test_formulas_that_cannot_be_are_refused(formula, told):
    with pytest.raises(UsageError, match=told):
        parse_formula(formula)


def test_a_column_may_be_called_regimes():
    assert [str(term[0]) for term in parse_formula("regimes + s(x)")] == ["regimes", "s(x)"]
    assert str(parse_formula("regimes( date ,5, month )")[0][0]) == "regimes(date, 5, month)"


def test_periods_are_columns_until_regimes_are_found():
    years = [str(year) for year in range(2000, 2006)]
    design = design_of("regimes(year, 2)", years * 2, absent=1)
    values = pa.array(["2000", "2003", None, "1990", "2010"])
    assert design.undivided[1] == 1
    rows = design.rows({"year": values}).dense(len(design.names))
    assert [np.flatnonzero(row).tolist() for row in rows] == [[0], [0, 3], [0, 6], [0], [0, 5]]
    states = np.array([0, 0, 0, 1, 1, 1])
    found = design.divide(states, np.array([[0, 0, 0.004, 0.9, 0.096, 0]]))
    assert found.undivided is None
    assert found.names == ["(intercept)", "year=2003 to 2005", "year=(missing)"]
    assert found.regimes.weights == [{"2003": 0.9, "2004": 0.096}]
    assert found.regimes.counts == {"2000 to 2002": 6, "2003 to 2005": 6}
    unseen = Unseen()
    rows = found.rows({"year": values}, unseen).dense(len(found.names))
    assert [np.flatnonzero(row).tolist() for row in rows] == [[0], [0, 1], [0, 2], [0], [0, 1]]
    (line,) = unseen.lines(found)
    assert line == (
        "year: 2 documents lie outside of 2000 to 2005, the range that the model learned from; "
        "the first or the last regime is taken"
    )


def test_a_period_without_documents_is_of_the_regime_before():
    design = design_of("regimes(year, 2)", ["2000", "2001", "2008", "2009"])
    found = design.divide(np.array([0, 0, 1, 1]), np.zeros((1, 4)))
    rows = found.rows({"year": pa.array(["2007", "2008"])}).dense(2)
    assert rows[:, 1].tolist() == [0.0, 1.0]


def test_regimes_survive_a_manifest():
    design = design_of("regimes(date, 2, month)", DAYS)
    found = design.divide(np.array([0, 0, 1, 1, 1]), np.array([[0, 0.2, 0.8, 0, 0]]))
    (covariate,) = found.covariates.values()
    entry = entry_of(covariate, 0)
    again = decode_covariate(entry)
    assert again.levels == ["2000-01 to 2000-02", "2000-04 to 2002-01"]
    assert (again.starts, again.period, again.weights) == (
        covariate.starts,
        "month",
        [{"2000-02": 0.2, "2000-04": 0.8}],
    )
    assert again.edges().astype(str).tolist() == ["2000-01-01", "2000-04-01", "2002-02-01"]
    assert again.lines() == [
        "regimes of date: 2000-01 to 2000-02, 2000-04 to 2002-01",
        "posterior weight that a regime begins there, and elsewhere: 2000-04 0.80 (2000-02 0.20)",
    ]
    unfound = design.divide(np.array([0, 0, 1, 1, 1]), np.zeros((1, 5))).regimes
    assert len(unfound.lines()) == 1
    with pytest.raises(ValueError, match="not one start for each regime"):
        CovariateEntry(column="date", regimes=3, starts=[1, 2], levels=["a", "b"])
