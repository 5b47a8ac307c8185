"""Texts that contain some bytes, as Arrow finds them."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from topicstream.ingestion.tokens import substrings
from topicstream.ingestion.tokens.substrings import mark_texts_with


@pytest.mark.parametrize("window", [1, 7, 1 << 18])
@pytest.mark.parametrize("sought", ["&", "aba", "é&"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_marks_are_those_of_arrow(window, sought, kind, monkeypatch):
    monkeypatch.setattr(substrings, "WINDOW", window)
    choose = random.Random(window)
    letters = ["a", "b", "é", "&", None]
    texts = []
    for _ in range(300):
        drawn = choose.choices(letters, k=choose.randrange(6))
        texts.append(None if None in drawn else "".join(drawn))
    for part in (pa.array(texts, kind), pa.array(texts, kind).slice(40, 200)):
        expected = pc.fill_null(pc.match_substring(part, sought), False).to_pylist()
        assert mark_texts_with(part, sought).tolist() == expected
        assert 0 < sum(expected) < len(expected)


@pytest.mark.parametrize("texts", [[], [None], ["", ""]])
def test_nothing_contains_nothing(texts):
    assert not mark_texts_with(pa.array(texts, pa.large_string()), "&").any()
