"""docs/promises.md: the words stand on their pages, what holds them exists, and no figure of README
is without a row.
"""

from __future__ import annotations

import re

import pytest

from tests import ROOT
from topicstream.engines import engines

TABLE = (ROOT / "docs/promises.md").read_text()
PROMISES = re.findall(r"^\| (\S+\.md) \| (.+?) \| .+ \|$", TABLE, re.M)
DEFECTS = (ROOT / "docs/decisions/options-table.md").read_text()
HOLDERS = sorted(
    set(re.findall(r"\b(?:tests|scripts)/[\w/]+\.(?:py|md)(?:::\w+)?", TABLE + DEFECTS))
)


@pytest.mark.parametrize(("page", "words"), PROMISES)
def test_the_words_stand_on_their_page(page, words):
    assert words in " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_promise_exists(holder):
    path, _, function = holder.partition("::")
    text = (ROOT / path).read_text()
    assert not function or re.search(rf"^def {function}\(", text, re.M)


NUMBERS = "three|four|five|six|seven|eight|nine|ten|eleven|twelve"
FIGURE = re.compile(rf"\d|\b(?:{NUMBERS})\b", re.I)


def statements(markdown):
    """Sentences of the paragraphs and list items, and rows of the tables; neither headings nor
    code, which is run elsewhere.
    """
    prose = re.sub(
        r"^```.*?^```|^ {4}.*?$|^#.*?$|<!--.*?-->|(?<=\])\([^)]*\)", "", markdown, flags=re.M | re.S
    )
    for block in re.split(r"\n\s*\n|\n(?=- |\|)", prose):
        yield from re.split(r"(?<=\.)\s+", " ".join(block.split()))


def unheld(page, pieces):
    """Of these pieces of a page those with a figure and no row."""
    words = [text for where, text in PROMISES if where == page]
    return [p for p in pieces if FIGURE.search(p) and not any(w in p or p in w for w in words)]


def test_every_figure_of_README_has_a_row():
    assert unheld("README.md", statements((ROOT / "README.md").read_text())) == []


def test_every_item_of_the_performance_page_has_a_row():
    page = (ROOT / "docs/performance.md").read_text()
    items = [" ".join(item.split()) for item in re.findall(r"^- .*?(?=^\S|^$)", page, re.M | re.S)]
    assert len(items) > 5 and unheld("docs/performance.md", items) == []


def test_a_new_figure_without_a_row_is_found():
    text = (
        "It is fast.\n\n- Opens stores. It reads 7 GB a second.\n\n```\n99\n```\n\n| a | twelve "
        "engines |\n"
    )
    assert unheld("README.md", statements(text)) == [
        "It reads 7 GB a second.",
        "| a | twelve engines |",
    ]


def test_there_are_as_many_engines_as_README_says():
    assert f"{len(engines())} engines" in (ROOT / "README.md").read_text()


def test_pages_name_tables_and_options_that_papers_py_has():
    script = (ROOT / "scripts/benchmarks/papers.py").read_text()
    tables = re.search(r"^TABLES = \((.*)\)$", script, re.M)[1].split(", ")
    pages = " ".join(
        " ".join(page.read_text().split()) for page in (ROOT / "docs/reproduce").glob("*.md")
    )
    calls = re.findall(r"papers\.py (\w+)([^`]*)`", pages)
    assert len(calls) > 10 and {table for table, _ in calls} <= set(tables)
    assert all(
        f'"{option}"' in script
        for _, options in calls
        for option in re.findall(r"--[a-z]+", options)
    )
