"""FREX shrinks the topics of rare words, as R's stm does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from topicstream.addons.views import word_table as tables
from topicstream.addons.views.word_table import format_for_print, shrink_shares, word_measures
from topicstream.model.topic_model import TopicModel


def test_shares_of_rare_words_are_shrunk_towards_equal_ones():
    """By hand: variance .62 / (n - 1), squared distance from a third .14 / 3."""
    shares = np.tile([[0.5], [0.3], [0.2]], 5)
    out = shrink_shares(shares, np.array([0, 1, 11, 101, 1_000_001]))
    assert out[:, :3] == pytest.approx(1 / 3)  # nothing known, nothing known, weight above one
    weight = 0.0062 / (0.14 / 3)
    assert out[:, 3] == pytest.approx([weight / 3 + (1 - weight) * s for s in (0.5, 0.3, 0.2)])
    assert out[:, 4] == pytest.approx(shares[:, 4], rel=1e-4)


def test_without_counts_nothing_is_shrunk():
    shares = np.array([[0.9, 0.5], [0.1, 0.5]])
    assert np.array_equal(shrink_shares(shares, np.zeros(2, np.int64)), shares)
    assert shrink_shares(shares, np.array([5, 5]))[:, 1] == pytest.approx([0.5, 0.5])


def test_a_word_seen_once_is_not_exclusive():
    """Only the first topic has the last word, once: no topic is known for it."""
    counts = np.array([[400.0, 1.0], [300.0, 1.0], [1.0, 500.0], [300.0, 100.0], [1.0, 0.0]])
    words = ["own", "other", "theirs", "shared", "rare"]
    sums = counts.sum(axis=1).astype(np.int64)
    known = TopicModel.from_arrays(
        counts.astype(np.float32), words, alpha=0.1, beta=0.01, counts=sums
    )
    unknown = TopicModel.from_arrays(counts.astype(np.float32), words, alpha=0.1, beta=0.01)
    frex = word_measures(known)["frex"][0]
    assert np.argmax(word_measures(unknown)["frex"][0]) == 0
    assert [words[i] for i in np.argsort(-frex)[:2]] == ["own", "other"]
    assert frex[4] < word_measures(unknown)["frex"][0][4]


def test_measures_by_hand():
    """Two topics of sizes 10 and 30, without a prior."""
    counts = np.array([[6.0, 3.0], [3.0, 3.0], [1.0, 24.0]])
    model = TopicModel.from_arrays(counts, ["a", "b", "c"], alpha=0.1, beta=0.0)
    p = counts / counts.sum(axis=0)
    found = word_measures(model)
    np.testing.assert_allclose(found["probability"], p.T, rtol=1e-6)
    np.testing.assert_allclose(found["lift"], (p / (counts.sum(axis=1) / 40)[:, None]).T, rtol=1e-6)
    middle = np.log(p).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found["score"], (p * (np.log(p) - middle)).T, rtol=1e-6)
    # ranks of p: 3 2 1 and 1.5 1.5 3; of its share among the topics: 3 2 1 and 1 2 3
    first = [1, 2 / 3, 1 / 3]
    second = [2 / (3 + 2), 2 / (2 + 1.5), 1]
    np.testing.assert_allclose(found["frex"], [first, second], rtol=1e-6)


def test_words_are_ranked_from_one_by_each_measure(monkeypatch):
    every = {"p": np.array([[0.2, 0.5, 0.3]] * 2), "lift": np.array([[9.0, 1.0, 4.0]] * 2)}
    monkeypatch.setattr(tables, "word_measures", lambda model: every)
    vocabulary = SimpleNamespace(texts=lambda ids: [["a", "b", "c"][i] for i in ids])
    model = SimpleNamespace(kinds=["topic", "stop"], shares=np.array([0.6, 0.4]))
    model.vocabulary = vocabulary
    shown = SimpleNamespace(
        model=model, view=SimpleNamespace(ids=[3, 7]), plain_names=["one", "two"]
    )
    rows = tables.word_table(shown, [1], 2).to_pylist()
    about = {"topic": 7, "label": "two", "kind": "stop", "share": 0.4}
    assert rows == [
        {**about, "measure": measure, "rank": rank, "word": word, "value": value}
        for measure, rank, word, value in [
            ("p", 1, "b", 0.5),
            ("p", 2, "c", 0.3),
            ("lift", 1, "a", 9.0),
            ("lift", 2, "c", 4.0),
        ]
    ]


def test_rows_of_a_printed_table_keep_their_order():
    """Groups of a large table come in any order from the library."""
    rows = [
        {
            "topic": k,
            "label": "",
            "kind": "live",
            "share": 0.05,
            "measure": measure,
            "word": f"w{i}",
        }
        for k in range(19, -1, -1)
        for measure in ("probability", "frex", "lift", "score")
        for i in range(10)
    ]
    printed = format_for_print(pa.Table.from_pylist(rows), labelled=False)
    order = list(zip(printed["topic"].to_pylist(), printed["measure"].to_pylist(), strict=True))
    assert order == list(dict.fromkeys((row["topic"], row["measure"]) for row in rows))
    assert set(printed["words"].to_pylist()) == {", ".join(f"w{i}" for i in range(10))}
