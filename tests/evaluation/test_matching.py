"""Distances of topics and what becomes of them, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.evaluation import matching
from topicstream.evaluation.matching import align, compare, l1_distances
from topicstream.model.manifest import TopicIds
from topicstream.model.topic_model import TopicModel


def ids_after(monkeypatch, distances, ids, following, far):
    """What ``align`` says of topics with these distances, old ones in rows."""
    distances = np.array(distances)
    monkeypatch.setattr(matching, "l1_distances", lambda old, new: distances)
    new = type("New", (), {"n_topics": distances.shape[1]})
    before = TopicIds(
        ids=ids, next=following, kept=[], born=[], died=[], split=[], merged=[], distance=None
    )
    return align(None, new, before, far)


def test_topics_keep_split_merge_and_die(monkeypatch):
    distances = [
        [0.1, 1.9, 0.5, 1.9],
        [1.9, 0.2, 1.9, 1.9],
        [1.9, 0.4, 1.9, 1.9],
    ]
    # a fourth old topic takes nothing, and is near nothing
    distances.append([1.8, 1.8, 1.8, 1.8])
    after = ids_after(monkeypatch, distances, [3, 5, 8, 9], 20, 1.0)
    assert after.ids == [3, 5, 20, 21] and after.next == 22
    assert after.kept == [3, 5] and after.born == [20, 21] and after.died == [8, 9]
    assert after.split == [(3, 20)] and after.merged == [(8, 5)]
    assert after.distance == pytest.approx(0.15)


def test_a_distance_that_equals_the_limit_is_too_far(monkeypatch):
    after = ids_after(monkeypatch, [[0.5]], [4], 7, 0.5)
    assert after.ids == [7] and after.died == [4] and after.next == 8
    assert after.split == [] and after.merged == [] and after.distance is None
    after = ids_after(monkeypatch, [[0.5]], [4], 7, 0.51)
    assert after.ids == [4] and after.next == 7 and after.distance == 0.5


def test_what_is_far_is_all_the_same_to_the_assignment(monkeypatch):
    """0.9 + 1.8 is less than 0.2 + 2.0 without the limit; with it, the near pair counts."""
    distances = [[0.2, 0.9], [1.2, 2.0]]
    after = ids_after(monkeypatch, distances, [0, 1], 2, 1.0)
    assert after.ids == [0, 2] and after.died == [1]
    assert after.split == [(0, 2)] and after.merged == []


NAMES = ["a", "b", "c", "d", "e", "f"]


def model_of(columns, names=NAMES):
    """A model without a prior, of topics given by their words' counts."""
    return TopicModel.from_arrays(np.array(columns, float).T, names, 0.1, 0.0)


def test_compared_topics_have_shares_words_and_distances_by_hand(monkeypatch):
    one = model_of([[6, 2, 0, 0, 0, 0], [0, 0, 9, 3, 0, 0], [0, 0, 0, 0, 10, 10]])
    two = model_of([[0, 0, 2, 2, 0, 0], [7, 0, 1, 0, 0, 0], [0, 1, 0, 0, 2, 1]])
    asked = {}
    opened = matching.open_within

    def note(models, limit, threads, **given):
        asked.update(given)
        return opened(models, limit, threads, **given)

    monkeypatch.setattr(matching, "open_within", note)
    found = compare(one, two, words=2, progress=False)
    assert asked == {"beside": 32 * 9}
    # |.75 - .875| + .25 + .125, then 2 x .25, then |.5 - .5| + .25 + .25
    assert [(p["a"], p["b"], p["distance"]) for p in found["matched"]] == [
        (0, 1, pytest.approx(0.5)),
        (1, 0, pytest.approx(0.5)),
        (2, 2, pytest.approx(0.5)),
    ]
    assert [p["share_a"] for p in found["matched"]] == pytest.approx([0.2, 0.3, 0.5])
    assert [p["share_b"] for p in found["matched"]] == pytest.approx([0.5, 0.25, 0.25])
    first = found["matched"][0]
    assert (first["words"], first["gained"], first["lost"]) == (["a", "c"], ["c"], ["b"])
    assert found["mean_distance"] == pytest.approx(0.5)
    assert found["vocabulary"] == {"a": 6, "b": 6, "common": 6}
    compare(one, model_of([[1, 0, 0, 0, 0, 0]]), progress=False)
    assert asked == {"beside": 32 * 3}
    compare(model_of([[1, 0, 0, 0, 0, 0]]), two, progress=False)
    assert asked == {"beside": 32 * 3}


def test_pairs_go_from_the_nearest_and_a_limit_is_still_near():
    one = model_of([[3, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])
    two = model_of([[1, 3, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 3]])
    found = compare(one, two, words=2, far=1.0, progress=False)
    assert [(p["a"], p["distance"]) for p in found["matched"]] == [
        (1, pytest.approx(0.0)),
        (0, pytest.approx(1.0)),
        (2, pytest.approx(1.0)),
    ]
    assert found["mean_distance"] == pytest.approx(2 / 3)
    nearer = compare(one, two, words=2, far=0.99, progress=False)
    assert [p["a"] for p in nearer["matched"]] == [1]
    assert [t["topic"] for t in nearer["unmatched_a"]] == [0, 2]
    assert [t["topic"] for t in nearer["unmatched_b"]] == [0, 2]
    left = nearer["unmatched_b"][1]
    assert left["share"] == pytest.approx(0.4) and left["words"] == ["f", "a"]
    far = model_of([[1, 0], [0, 1]], ["x", "a"])
    assert compare(one, far, far=0.1, progress=False)["mean_distance"] is None


def test_pieces_of_words_on_members_give_the_same_bits(monkeypatch):
    """Spans of 4 words of 3 topics, shared among two or five members."""
    rng = np.random.default_rng(4)
    one = model_of(rng.random((3, 23)), [f"w{i}" for i in range(23)])
    two = model_of(rng.random((4, 19)), [f"w{i}" for i in range(9, 28)])

    def spans(self):
        for start in range(0, self.n_words, 4):
            yield start, self.phi[start : start + 4]

    whole = l1_distances(one, two)
    monkeypatch.setattr(TopicModel, "spans", spans)
    alone = l1_distances(one, two)
    np.testing.assert_allclose(alone, whole, atol=1e-6)
    told = []
    for number in (1, 2, 5, 9):
        cluster = SimpleNamespace(number=number, map=lambda f, items: map(f, items))
        shared = l1_distances(one, two, lambda *done: told.append(done), cluster)
        assert np.array_equal(shared, alone)
        assert told[-1] == (23, 23)
    assert len(told) == 1 + 2 + 5 + 9
