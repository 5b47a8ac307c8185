"""Tiers of tests: quick, ``product``, slow and ``campaign`` (CONTRIBUTING.md).

A test with the mark ``quick("this", "that*")`` is quick in the cases that these patterns name, by
the text in brackets behind its name; all other cases of it are products.  A product, like a test
of a campaign, is also slow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest


def add_tiers(item: pytest.Item) -> None:
    """Mark a test as a product or as slow where another mark says so."""
    patterns = _patterns_of(item)
    if patterns and not any(fnmatchcase(_case_of(item), pattern) for pattern in patterns):
        item.add_marker("product")
    if item.get_closest_marker("campaign") or item.get_closest_marker("product"):
        item.add_marker("slow")


def find_unused(items: Iterable[pytest.Item]) -> list[str]:
    """Find patterns of quick cases that name no case: such a test might be in no quick run."""
    cases = defaultdict(set)
    patterns = {}
    for item in items:
        found = _patterns_of(item)
        if found:
            name = item.nodeid.partition("[")[0]
            cases[name].add(_case_of(item))
            patterns[name] = found
    return [
        f"{name}: no case {pattern!r}"
        for name, some in patterns.items()
        for pattern in some
        if not any(fnmatchcase(case, pattern) for case in cases[name])
    ]


def _patterns_of(item: pytest.Item) -> tuple[str, ...]:
    mark = item.get_closest_marker("quick")
    return mark.args if mark else ()


def _case_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[2].removesuffix("]")
