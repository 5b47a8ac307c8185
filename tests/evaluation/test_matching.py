"""Distances of topics and what becomes of them, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.evaluation import matching
from topicstream.evaluation.matching import align
from topicstream.model.manifest import TopicIds


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
