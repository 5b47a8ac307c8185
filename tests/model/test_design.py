"""The design of a prior: categories, numbers, curves, lists and missing values as rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from topicstream.base.errors import InputError
from topicstream.base.records import decode_record, plain
from topicstream.model.covariate_entries import CovariatesEntry
from topicstream.model.design import (
    PriorDesign,
    SparseRows,
    Unseen,
    columns_of_terms,
    decode_design,
    group_rows,
    longest_row,
    sparse_rows,
    usual_row,
)
from topicstream.model.formula import Covariate, Design, factors_of, parse_formula

PARTIES = ["red", "blue", "red", "green", None, "red", "blue", ""]
YEARS = ["1990", "1995", "2000", "2010", "2004", "NA", "1992", "2020"]
LABELS = [["a"], ["a", "b"], [], None, ["c", "a"], ["b"], ["b", "b"], ["a"]]


def design_of(formula, keeps_absent=True):
    columns = {"party": PARTIES, "year": YEARS, "labels": LABELS}
    covariates = {}
    for factor in factors_of(formula):
        values = columns[factor.column]
        listed = factor.column == "labels"
        flat = [v for one in values for v in one or []] if listed else [v for v in values if v]
        covariates[factor] = Covariate(
            factor.column,
            factor.df,
            counts=Counter(flat),
            listed=2 if listed else 0,
            keeps_absent=keeps_absent,
            absent=0 if not keeps_absent else len([v for v in values if not v]),
        )
        covariates[factor].choose_coding()
    return PriorDesign.from_formula(formula, covariates)


def values_of(design, party=PARTIES, year=YEARS, labels=LABELS):
    columns = {
        "party": pa.array(party, pa.large_string()),
        "year": pa.array(year, pa.large_string()),
        "labels": pa.array(labels, pa.list_(pa.large_string())),
    }
    return {name: columns[name] for name in design.columns}


def dense(design, **given):
    return design.rows(values_of(design, **given)).dense(len(design.names))


def test_a_category_has_a_column_for_each_value_but_the_first_and_one_for_none():
    design = design_of("party")
    assert design.names == ["(intercept)", "party=blue", "party=green", "party=(missing)"]
    want = np.array([0, 1, 0, 2, 3, 0, 1, 3])
    np.testing.assert_array_equal(
        dense(design), np.eye(4)[want] + (np.arange(4) == 0) * (want > 0)[:, None]
    )
    assert design.notes() == [
        "party: 2 documents without a value, coded as a category of their own"
    ]


def test_numbers_are_in_standard_deviations_and_missing_ones_at_the_mean():
    design = design_of("year")
    assert design.names == ["(intercept)", "year", "year=(missing)"]
    years = np.array([float(y) for y in YEARS if y != "NA"])
    rows = dense(design)
    known = [i for i, y in enumerate(YEARS) if y != "NA"]
    np.testing.assert_allclose(rows[known, 1], (years - years.mean()) / years.std())
    assert rows[5].tolist() == [1, 0, 1]


def test_each_value_of_a_list_counts_once():
    design = design_of("labels")
    assert design.names == ["(intercept)", "labels=a", "labels=b", "labels=c"]
    want = [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0], [1, 0, 0]]
    np.testing.assert_array_equal(dense(design)[:, 1:], want)


@pytest.mark.parametrize("formula", ["party + year", "party * year", "s(year, 4) + party:year"])
def test_rows_are_those_of_effects_where_all_values_are_there(formula):
    party = ["red", "blue", "red", "green", "blue"]
    year = ["1990", "1995", "2000", "2010", "2004"]
    covariates = {}
    for factor in factors_of(formula):
        values = {"party": party, "year": year}[factor.column]
        covariates[factor] = Covariate(factor.column, factor.df, counts=Counter(values))
        covariates[factor].choose_coding()
    effects = Design(parse_formula(formula), covariates)
    prior = PriorDesign.from_formula(formula, covariates)
    assert effects.names == prior.names
    values = {"party": pa.array(party), "year": pa.array(year)}
    got = prior.rows(values).dense(len(prior.names))
    for covariate in covariates.values():
        covariate.scale = 1.0
    plain_rows = prior.rows(values).dense(len(prior.names))
    want = effects.matrix({"party": party, "year": year}, 5)
    np.testing.assert_allclose(plain_rows, want, atol=1e-12)
    assert ((got != 0) == (want != 0)).all()


def test_what_was_not_met_has_no_column_and_numbers_stay_in_range():
    design = design_of("party + year + labels")
    unseen = Unseen()
    rows = design.rows(
        values_of(design, party=["pink"], year=["2050"], labels=[["z", "a"]]), unseen
    ).dense(len(design.names))
    last = dense(design, party=["red"], year=["2020"], labels=[["a"]])
    np.testing.assert_array_equal(rows, last)
    told = "\n".join(unseen.lines(design))
    assert "party: 1 document has a value that the model has not met ('pink')" in told
    assert "labels: 1 document has" in told and "outside of 1990 to 2020" in told


def test_documents_without_a_value_are_reported_where_the_model_met_none():
    covariates = {}
    for factor in factors_of("party + s(year, 4)"):
        values = {"party": ["red", "blue", "red"], "year": ["1990", "2000", "2010"]}[factor.column]
        covariates[factor] = Covariate(
            factor.column, factor.df, counts=Counter(values), keeps_absent=True
        )
        covariates[factor].choose_coding()
    design = PriorDesign.from_formula("party + s(year, 4)", covariates)
    given = dict(party=[None, "", "blue"], year=["soon", "2000", None])
    unseen = Unseen()
    unseen.add(Unseen())
    one = Unseen()
    rows = design.rows(values_of(design, **given), one).dense(len(design.names))
    unseen.add(one)
    assert unseen.lines(design) == [
        "year: 1 document has a value that is no number ('soon'), which counts as none",
        "party: 2 documents have no value, which the model has not met; its coefficients are 0",
        "year: 2 documents have no value, which the model has not met; the mean is taken",
    ]
    at_mean = dense(design, party=["blue"], year=["2000"])[0]
    np.testing.assert_array_equal(rows[2], at_mean)
    np.testing.assert_array_equal(rows[0, 2:], at_mean[2:])
    assert rows[0, 1] == rows[1, 1] == 0.0


def test_the_record_of_a_design_gives_it_back():
    formula = "party * s(year, 5) + labels"
    design = design_of(formula)
    entry = decode_record(
        plain(design.entry(slope_sd=0.5, intercept_sd=10.0)), CovariatesEntry, "test"
    )
    again = decode_design(entry)
    assert again.names == design.names and again.patterns == design.patterns == 0
    np.testing.assert_array_equal(dense(again), dense(design))
    with pytest.raises(ValueError, match="not one column"):
        CovariatesEntry(formula="party", slope_sd=1.0, intercept_sd=1.0, columns=[])


def test_distinct_rows_are_found_once():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (200, 5)) * rng.choice([0.5, 2.0], (200, 5))
    grouped = group_rows(sparse_rows(x))
    assert len(grouped.indptr) - 1 == len(np.unique(x, axis=0))
    again = SparseRows(grouped.indptr, grouped.columns, grouped.values).dense(5)
    np.testing.assert_array_equal(again[grouped.pattern], x)


def test_bounds_hold_for_every_row():
    design = design_of("party * year + labels + s(year, 4)")
    rows = dense(design)
    most = 1
    for _, columns, norm in columns_of_terms(design):
        some = np.abs(rows[:, columns.start : columns.stop])
        assert some.sum(1).max() <= norm + 1e-12
    most = (rows != 0).sum(1).max()
    assert most <= longest_row(design)
    assert usual_row(design) == longest_row(design) - 1  # lists of two labels at most
    assert len(np.unique(dense(design_of("party")), axis=0)) <= design_of("party").patterns


def test_too_many_columns_are_refused():
    counts = Counter({f"v{i}": 1 for i in range(1200)})
    covariate = Covariate("x", counts=counts, most=2000)
    covariate.choose_coding()
    with pytest.raises(InputError, match="at most 1,000"):
        PriorDesign.from_formula("x", {factors_of("x")[0]: covariate})
