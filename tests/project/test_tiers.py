"""Tiers of tests are what their marks say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.tiers import add_tiers, find_unused


class Item(SimpleNamespace):
    """A test as pytest collects it, with some marks."""

    def get_closest_marker(self, name):
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, name):
        self.marks.append(getattr(pytest.mark, name).mark)


def item(case, *marks):
    return Item(nodeid=f"test_x.py::test_y[{case}]", marks=[mark.mark for mark in marks])


@pytest.mark.parametrize(
    ("marks", "case", "expected"),
    [
        ([], "a", set()),
        ([pytest.mark.slow], "a", {"slow"}),
        ([pytest.mark.campaign], "a", {"campaign", "slow"}),
        ([pytest.mark.product], "a", {"product", "slow"}),
        ([pytest.mark.quick("a", "b*")], "a", {"quick"}),
        ([pytest.mark.quick("a", "b*")], "bc", {"quick"}),
        ([pytest.mark.quick("a", "b*")], "c", {"quick", "product", "slow"}),
    ],
)
def test_marks_decide_the_tier(marks, case, expected):
    collected = item(case, *marks)
    add_tiers(collected)
    assert {mark.name for mark in collected.marks} == expected


def test_a_quick_case_that_is_gone_is_named():
    mark = pytest.mark.quick("a", "b*")
    assert find_unused([item("a", mark), item("bc", mark)]) == []
    assert find_unused([item("a", mark), item("c", mark)]) == ["test_x.py::test_y: no case 'b*'"]
