"""docs/promises.md: the words still stand on their pages; the tests and benchmarks that it names exist."""

from __future__ import annotations

import re

import pytest

from tests import ROOT

TABLE = (ROOT / "docs/promises.md").read_text()
PROMISES = re.findall(r"^\| (\S+\.md) \| (.+?) \| .+ \|$", TABLE, re.M)
DEFECTS = (ROOT / "docs/decisions/options-table.md").read_text()
HOLDERS = sorted(set(re.findall(r"\b(?:tests|scripts)/[\w/]+\.(?:py|md)(?:::\w+)?", TABLE + DEFECTS)))


@pytest.mark.parametrize(("page", "words"), PROMISES)
def test_the_words_stand_on_their_page(page, words):
    assert words in " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_promise_exists(holder):
    path, _, function = holder.partition("::")
    text = (ROOT / path).read_text()
    assert not function or re.search(rf"^def {function}\(", text, re.M)
