"""What docs/internals/promises.md names as holding a promise exists."""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from topicstream.engines import engines

TABLE = (ROOT / "docs/internals/promises.md").read_text()
HOLDERS = sorted(set(re.findall(r"\b(?:tests|scripts)/[\w/]+\.(?:py|md)(?:::\w+)?", TABLE)))


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_promise_exists(holder):
    path, _, function = holder.partition("::")
    text = (ROOT / path).read_text()
    assert not function or re.search(rf"^def {function}\(", text, re.M)


def test_there_are_as_many_engines_as_the_comparison_says():
    assert f"{len(engines())} engines" in (ROOT / "docs/comparison.md").read_text()


def test_pages_name_tables_and_options_that_papers_py_has():
    script = (ROOT / "scripts/benchmarks/papers.py").read_text()
    listed = re.search(r"^TABLES = \((.*?)\)$", script, re.M | re.S)[1]
    tables = re.findall(r"\w+", listed)
    pages = " ".join(
        " ".join(page.read_text().split())
        for page in (ROOT / "docs/internals/reproduce").glob("*.md")
    )
    calls = re.findall(r"papers\.py (\w+)([^`]*)`", pages)
    assert len(calls) > 10 and {table for table, _ in calls} <= set(tables)
    assert all(
        f'"{option}"' in script
        for _, options in calls
        for option in re.findall(r"--[a-z]+", options)
    )
