"""Results for people: templates, missing values, escapes, curves."""

from __future__ import annotations

import pytest

from topicstream.base.records import Record
from topicstream.base.text import escaped, render, render_each, shortened, wrapped


class Score(Record):
    value: float
    of: int | None = None


@pytest.mark.parametrize(
    ("template", "record", "lines"),
    [
        ("{a:,} of {b.c:.2f}", {"a": 1200, "b": {"c": 0.5}}, ["1,200 of 0.50"]),
        ("{s.value:.1f}[ of {s.of}]", {"s": Score(value=2.0)}, ["2.0"]),
        ("{s.value:.1f}[ of {s.of}]", {"s": Score(value=2.0, of=3)}, ["2.0 of 3"]),
        ("a[, {n:,} left out][, {m} more]", {"n": 0, "m": 2}, ["a, 2 more"]),
        ("a[ x {m}[ y {n}]]", {"m": 1}, ["a x 1"]),
        ("a[ x {m}[ y {n}]]", {"n": 1}, ["a"]),
        ("[one {x}]\n\ntwo  \n[three]", {}, ["two", "three"]),
        ("{x:>7.3f}|{y:8,}|{z}", {}, ["      -|       -|-"]),
        ("{p:5.1p} %", {"p": 0.1234}, [" 12.3 %"]),
        ("{d:document}, {e:document}", {"d": 1, "e": 1234}, ["1 document, 1,234 documents"]),
        ("{b:size}", {"b": 3 << 20}, ["3.0 MB"]),
        ("{w: }; {w}; {w:; }", {"w": ["a", "b"]}, ["a b; a, b; a; b"]),
        ("{yes:?}x[{no:?} never]", {"yes": True, "no": False}, ["x"]),
        ("{word:6}|", {"word": "a\x1b"}, ["a\\x1b |"]),
        ("{word}", {"word": "[{a}]"}, ["[{a}]"]),
    ],
)
def test_templates(template, record, lines):
    assert render(template, record) == lines


def test_text_of_others():
    assert escaped("a\nb\u202e") == "a b\\u202e" and shortened("one  two three", 9) == "one two …"
    assert render_each("{n}", [{"n": 1}, {"n": 2}]) == ["1", "2"]
    assert wrapped("head ", "word " * 8, 30) == [
        "head word word word word word",
        "     word word word",
    ]
    assert wrapped("head ", "word", None) == ["head word"]
