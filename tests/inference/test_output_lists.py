"""Which topics of a document an answer lists, at the edges."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.inference.output import select_topics

SHARES = np.array([[0.25, 0.5, 0.25], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]], np.float32)


def lists_of(**given):
    """(topic, share) of each document."""
    found = select_topics(SHARES, **given)
    pairs = list(zip(found.topics.tolist(), found.shares.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(found.offsets, found.offsets[1:], strict=False)]


def test_all_topics_are_listed_by_number():
    found = select_topics(SHARES)
    assert found.offsets.tolist() == [0, 3, 6, 9] and found.topics.tolist() == [0, 1, 2] * 3
    assert found.shares.tolist() == SHARES.ravel().tolist()


def test_the_largest_come_first_and_of_equal_ones_the_lower_number():
    assert [[k for k, _ in own] for own in lists_of(top=2)] == [[1, 0], [2, 1], [2, 0]]
    assert [[k for k, _ in own] for own in lists_of(top=1)] == [[1], [2], [2]]
    assert [[k for k, _ in own] for own in lists_of(top=9)] == [[1, 0, 2], [2, 1, 0], [2, 0, 1]]


@pytest.mark.parametrize(
    ("least", "numbers"),
    [(0.25, [[1, 0, 2], [2], [2]]), (0.2500001, [[1], [2], [2]]), (1.0, [[], [], [2]])],
)
def test_a_share_that_equals_the_least_is_listed(least, numbers):
    assert [[k for k, _ in own] for own in lists_of(min_prob=least)] == numbers
    assert lists_of(min_prob=0.0)[2] == [(2, 1.0), (0, 0.0), (1, 0.0)]


def test_both_bounds_hold():
    assert [[k for k, _ in own] for own in lists_of(top=2, min_prob=0.2)] == [[1, 0], [2, 1], [2]]
