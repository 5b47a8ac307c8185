"""Likeness of topics, their places on a plane and their tree, by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from topicstream.display import geometry
from topicstream.model.topic_model import TopicModel


def test_likeness_is_the_sum_of_roots_of_products():
    phi = np.array([[9.0, 0, 1], [0, 4, 1], [0, 5, 1], [0, 0, 1]])
    model = TopicModel.from_arrays(phi, ["a", "b", "c", "d"], 0.1, 0.25)
    p = (phi + 0.25) / (phi.sum(axis=0) + 4 * 0.25)
    expected = np.sqrt(p).T @ np.sqrt(p)
    np.testing.assert_allclose(geometry.gram(model), expected, atol=1e-6)
    bare = TopicModel.from_arrays(np.array([[4.0, 0, 1], [0, 0, 1]]), ["a", "b"], 0.1, 0.0)
    alike = geometry.gram(bare)
    assert alike[1, 1] == 1 and alike[0, 1] == 0  # an empty topic is like itself alone
    assert alike[0, 2] == pytest.approx(np.sqrt(0.5))


def test_places_have_the_distances_of_topics():
    """Three topics lie in a plane: squared distances are 2 - 2 likeness."""
    similar = np.array([[1, 0.5, 0.1], [0.5, 1, 0.3], [0.1, 0.3, 1.0]])
    place = geometry.layout(similar)
    squares = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares, 2 - 2 * similar, atol=1e-9)
    assert place.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    # the farthest topic of each axis lies on its positive side, the longest axis comes first
    for axis in place.T:
        assert axis[np.argmax(np.abs(axis).round(9))] > 0
    assert place[:, 0].std() > place[:, 1].std()
    for order in permutations(range(3)):  # eigenvectors come with either sign
        again = geometry.layout(similar[np.ix_(order, order)])
        np.testing.assert_allclose(again, place[list(order)], atol=1e-9)
    assert not geometry.layout(np.ones((3, 3))).any()
    assert geometry.layout(np.ones((1, 1))).tolist() == [[0, 0]]


def test_the_tree_joins_the_nearest_first():
    """Heights: sqrt(1 - likeness) of two topics, and Ward's of a pair and a topic."""
    similar = np.array([[1, 0.19, 0.84], [0.19, 1, 0.36], [0.84, 0.36, 1.0]])
    tree = geometry.tree(similar, np.array([10.0, 25.0, 12.0]))
    assert (tree.left.tolist(), tree.right.tolist()) == ([2, 1], [0, 3])
    ward = np.sqrt((2 * 0.81 + 2 * 0.64 - 0.16) / 3)
    assert tree.height == pytest.approx([0.4, ward])
    assert tree.order.tolist() == [1, 2, 0]
    # two topics together are larger than the third: 23 against 22
    other = geometry.tree(similar, np.array([10.0, 22.0, 13.0]))
    assert (other.left.tolist(), other.right.tolist()) == ([2, 3], [0, 1])
    same = geometry.tree(similar, np.array([10.0, 20.0, 10.0]))
    assert (same.left[0], same.right[0]) == (0, 2)
    assert (same.left[1], same.right[1]) == (1, 3)  # as large: the lower number
    assert tree.cut(1) == [[0, 1, 2]] and tree.cut(2) == [[0, 2], [1]]
    assert tree.cut(3) == tree.cut(9) == [[0], [1], [2]] and tree.cut(0) == tree.cut(1)
    lone = geometry.tree(np.ones((1, 1)), np.ones(1))
    assert lone.order.tolist() == [0] and lone.cut(1) == [[0]]
