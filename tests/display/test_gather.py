"""Columns that group documents, numbers of parts and correlations, at the edges."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from topicstream.display import gather, periods
from topicstream.display.gather import Column, ParentIds, ReportSums, Time, correlations, survey
from topicstream.model.top import Best


@pytest.fixture
def surveyed(monkeypatch):
    """Survey columns of documents that come in two batches."""

    def run(columns, **given):
        monkeypatch.setattr(gather, "columns_of", lambda corpus: dict.fromkeys(columns, "text"))
        monkeypatch.setattr(gather, "check_columns", lambda *_: None)

        def stream(corpus, heldout, names):
            table = pa.table({name: pa.array(columns[name], pa.string()) for name in names})
            half = len(table) // 2
            for part in (table.slice(0, half), table.slice(half)):
                yield None, part.combine_chunks().to_batches()[0]

        monkeypatch.setattr(gather, "stream_documents", stream)
        return survey(None, **given)

    return run


def test_columns_of_few_values_group_documents(surveyed):
    columns = {
        "party": ["red"] * 30 + ["blue"] * 10,
        "author": [f"a{i % 20}" for i in range(40)],
        "title": [f"t{i}" for i in range(40)],
        "one": ["same"] * 40,
        "five": ["x"] * 5 + [f"y{i % 14}" for i in range(35)],
        "gaps": ["x", "x", "x", "x", "x", "y", "y"] + [None] * 33,
    }
    found = surveyed(columns)
    # few values first; two documents of each author are too few
    assert [column.name for column in found.columns] == ["party", "gaps", "five"]
    assert [column.distinct for column in found.columns] == [2, 2, 15]
    assert found.columns[0].values == ["red", "blue"] and found.time is None
    four = [*columns["five"][1:], None]
    assert "five" not in [column.name for column in surveyed({"five": four}).columns]


def test_only_columns_that_were_asked_for_must_be_there(surveyed, monkeypatch):
    columns = {"party": ["red", "blue"] * 5}
    assert surveyed(columns).columns[0].name == "party"
    asked = []

    def check(corpus, names, option):
        asked.append((names, option))

    def run(**given):
        monkeypatch.setattr(gather, "check_columns", check)
        return survey(None, **given)

    run(by=["party"])
    run()
    assert asked == [(["party"], "--by")]


def test_a_column_of_which_half_the_values_differ_still_groups(surveyed):
    half = ["x"] * 6 + ["y"] * 6 + [f"z{i}" for i in range(10)]
    assert [c.distinct for c in surveyed({"half": [*half, "x", "y"]}).columns] == [12]  # of 24
    assert surveyed({"half": [*half, "x"]}).columns == []  # 12 of 23
    asked = surveyed({"half": half}, by=["half"], most=3)
    assert asked.columns == [Column("half", ["x", "y", "z0"], 12)]


def test_the_most_frequent_values_are_groups_and_equal_ones_go_by_name(surveyed):
    values = ["b"] * 9 + ["a"] * 9 + ["c"] * 20 + ["d"] * 2
    column = surveyed({"kind": values}, most=3).columns[0]
    assert column.values == ["c", "a", "b"] and column.distinct == 4
    assert [column.code(value) for value in ("c", "b", "d")] == [0, 2, -1]


def test_values_of_less_than_one_in_two_hundred_documents_do_not_group(surveyed):
    for often, grouped in ((9, False), (10, True)):
        names = [f"n{i // 3}" for i in range(2000 - often)]
        column = surveyed({"name": names + ["often"] * often}, most=1).columns
        assert bool(column) == grouped, often


def test_dates_are_no_column_but_time(surveyed):
    found = surveyed({"date": ["2001-05-01"] * 20 + ["2003"] * 20})
    assert found.columns == [] and found.time.values == ["2001", "2002", "2003"]
    assert found.time.years.tolist() == [0, 1, 2]
    assert [found.time.code(text) for text in ("2001", "2003-07", "2004", "soon")] == [0, 2, -1, -1]
    months = Time(periods.GRAINS["month"], range(24000, 24003), Counter())
    assert months.years == pytest.approx([0, 1 / 12, 2 / 12])


def test_strays_are_named_up_to_five():
    days = Counter({(year, 0, 0): 2 for year in range(201, 207)})
    note = Time(periods.GRAINS["year"], range(2000, 2003), days).note
    assert note.endswith("12 documents dated far from all others (0201, 0202, 0203, 0204, 0205, …)")
    days.pop((206, 0, 0))
    assert "0205)" in Time(periods.GRAINS["year"], range(2000, 2003), days).note


def test_correlations_are_numpys():
    theta = np.random.default_rng(3).dirichlet([0.5, 1.0, 2.0], 40)
    theta = np.column_stack([theta, np.full(40, 0.25)])
    sums = ReportSums(
        40, 0, theta.sum(axis=0), np.zeros(4), Best(1, 4), {}, product=theta.T @ theta, linked=40
    )
    found = correlations(sums)
    assert found[:3, :3] == pytest.approx(np.corrcoef(theta[:, :3].T))
    assert not found[3, :3].any() and not found[:3, 3].any()


def test_parts_that_follow_each_other_have_the_number_of_their_document():
    ids = ParentIds()
    first = ids.number_rows(pa.chunked_array([["a", "a", "b"]]))
    second = ids.number_rows(pa.chunked_array([["b", "c", "b"]]))
    assert (np.append(first, second) - first[0]).tolist() == [0, 0, 1, 1, 2, 3]
    assert ids.number_rows(pa.chunked_array([[]], pa.string())).tolist() == []
    assert ids.number_rows(pa.chunked_array([["b"]])).tolist() == [second[-1]]
