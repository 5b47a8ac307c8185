"""The authors of a topic, and those near to an author, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from topicstream.addons.authors import views
from topicstream.addons.authors.views import AuthorsView


class View:
    """Of both topics."""

    def __len__(self):
        return 2

    def columns(self, some):
        return some

    shares = columns


def test_authors_of_at_least_half_a_token_are_listed(monkeypatch):
    rows = np.array([[0.5, 3.0], [0.75, 0.25], [6.0, -1e-6], [2.0, 2.0]], np.float32)
    table = SimpleNamespace(
        n_rows=4, totals=rows.sum(0), spans=lambda: [(0, rows[:3]), (3, rows[3:])]
    )
    shown = SimpleNamespace(
        view=View(),
        ranked=lambda sizes: np.argsort(-sizes),
        first_words=lambda n: [["a"], ["b"]],
        entry=lambda k: {"topic": int(k)},
        trained=SimpleNamespace(name="m"),
    )
    names = np.array(["ann", "bob", "cid", "dee"])
    monkeypatch.setattr(views, "author_names", lambda table, ids: names[ids].tolist())
    asked = SimpleNamespace(shown=shown, table=table, words=4, topics=None)
    first, second = AuthorsView._list_by_topic(asked)["topics"]
    # 9.25 and 5.25 tokens of the topics
    assert (first["topic"], second["topic"]) == (0, 1)
    np.testing.assert_allclose(
        [first["share"], second["share"]], [9.25 / 14.5, 5.25 / 14.5], rtol=1e-6
    )

    def listed(entry):
        return [(a["author"], a["tokens"], round(a["share"], 4)) for a in entry["authors"]]

    assert listed(first) == [("cid", 6.0, 1.0), ("dee", 2.0, 0.5), ("bob", 0.75, 0.75)]
    assert listed(second) == [("ann", 3.0, 0.8571), ("dee", 2.0, 0.5)]


def test_as_many_others_are_near_to_an_author_as_are_asked_for(monkeypatch):
    rows = np.array([[90, 10], [10, 90], [0.25, 0], [80, 20], [50, 50]], np.float32)
    table = SimpleNamespace(
        n_rows=5,
        names=None,
        totals=rows.sum(0),
        spans=lambda: [(0, rows[:2]), (2, rows[2:])],
        gather=lambda ids: rows[ids],
    )
    shown = SimpleNamespace(
        view=View(),
        ranked=lambda sizes: np.argsort(-sizes),
        first_words=lambda n: [["a"], ["b"]],
        entry=lambda k: {"topic": int(k)},
        trained=SimpleNamespace(alpha=np.array([5.0, 5.0])),
    )
    names = np.array(["ann", "bob", "cid", "dee", "eve"])
    monkeypatch.setattr(views, "author_names", lambda table, ids: names[ids].tolist())
    monkeypatch.setattr(views, "find_author", lambda given, name: 0)
    asked = SimpleNamespace(shown=shown, table=table, words=2)
    found = AuthorsView._describe_author(asked, "ann")
    assert found["tokens"] == 100.0
    np.testing.assert_allclose([t["share"] for t in found["topics"]], [95 / 110, 15 / 110])
    prior = 100 * rows.sum(0, dtype=float) / rows.sum(dtype=float)
    mixed = (rows + prior) / (rows.sum(1, keepdims=True) + 100)
    like = np.sqrt(mixed) @ np.sqrt(mixed[0])
    # a quarter of a token tells nothing of cid
    assert [(a["author"], a["tokens"]) for a in found["nearest"]] == [("dee", 100), ("eve", 100)]
    np.testing.assert_allclose([a["likeness"] for a in found["nearest"]], like[[3, 4]], rtol=1e-6)
