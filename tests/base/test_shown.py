"""Results that print as a person reads them."""

from __future__ import annotations

import copy
import json
import pickle

import pyarrow as pa
import pytest

from topicstream.base.shown import ShownTable, Summary


class Counted(Summary):
    documents: int


@pytest.fixture
def summary():
    return Counted(documents=4332, empty=None, notes=[], store={"cells": 7, 1: "a"}, share=0.25)


def test_a_summary_is_a_dict_whose_keys_are_attributes(summary):
    assert summary.documents == summary["documents"] == 4332
    assert json.loads(json.dumps(summary))["store"] == {"cells": 7, "1": "a"}
    assert type(summary.to_dict()) is dict and summary.to_dict() == summary
    assert "documents" in dir(summary)
    with pytest.raises(AttributeError, match="did you mean documents"):
        _ = summary.document


@pytest.mark.parametrize("of", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_of_a_summary_prints_alike(summary, of):
    again = of(summary)
    assert type(again) is Counted and again == summary and repr(again) == repr(summary)


def test_a_summary_prints_the_figures_that_are_there(summary):
    assert str(summary).splitlines() == [
        "Counted",
        "  documents  4,332",
        "  store",
        "    cells    7",
        "    1        a",
        "  share      0.25",
    ]


def test_a_summary_with_lines_of_its_own(summary):
    printed = Counted.printed_as(summary, ["one", "two <b>"])
    assert repr(printed) == "one\ntwo <b>" and printed == summary
    assert printed._repr_html_() == "<pre>one\ntwo &lt;b&gt;</pre>"


def test_html_is_escaped_and_controls_are_not_printed():
    summary = Summary(name="<script>", **{"<i>": "a\x1b[31mb"})
    assert "<script>" not in summary._repr_html_() and "<i>" not in summary._repr_html_()
    assert "\x1b" not in repr(summary)
    table = ShownTable(pa.table({"<b>": ["<script>\x1b"]}))
    assert "<script>" not in table._repr_html_() and "<b>" not in table._repr_html_()
    assert "\x1b" not in repr(table)


def test_columns_are_aligned_whatever_the_width_of_the_letters():
    table = ShownTable(
        pa.table({"id": ["東京", "a"], "n": [7, 1234], "share": [0.5, None]}), percent=["share"]
    )
    assert repr(table).splitlines() == [
        "id        n   share",
        "東京      7  50.0 %",
        "a     1,234       -",
    ]


def test_a_table_is_what_other_libraries_take():
    arrow = pa.table({"topic": [0, 1], "words": [["sea"], ["oven"]]})
    table = ShownTable(arrow, ["topic"])
    assert pa.table(table) == arrow == table.to_arrow() and table == arrow
    assert table.column_names == ["topic", "words"] and table["topic"].to_pylist() == [0, 1]
    assert list(table) == table.to_pylist() == arrow.to_pylist() and len(table) == 2
    assert table.slice(1).to_pylist() == [{"topic": 1, "words": ["oven"]}]
    again = pickle.loads(pickle.dumps(table))
    assert again == table and repr(again) == repr(table) == "topic\n    0\n    1"


def test_long_tables_say_how_many_rows_are_hidden():
    table = ShownTable(pa.table({"n": list(range(100))}))
    assert repr(table).endswith("and 40 more") and "and 40 more" in table._repr_html_()
