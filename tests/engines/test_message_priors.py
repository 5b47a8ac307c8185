"""Histograms from which priors of messages are learned, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma

from tests.engines.test_tbp import make_block, random_state, visit
from tests.visits import pass_end
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.engines.message import priors
from topicstream.engines.message.priors import (
    BINS,
    bin_of,
    bin_values,
    count_at_bounds,
    count_documents,
    document_counts,
    expected_rise,
    pull_by_length,
)
from topicstream.numeric.kernels.dirichlet import Histogram
from topicstream.numeric.kernels.jit import kernel


@kernel
def _bins(values, out):
    for i in range(len(values)):
        out[i] = bin_of(values[i])


def bins_of(values) -> list[int]:
    out = np.empty(len(values), np.int64)
    _bins(np.array(values, np.float32), out)
    return out.tolist()


def test_a_bin_stands_for_the_middle_of_its_quarter_octave():
    """From 2^-16 on: 1 to 1.25 has 1.125, 1.25 to 1.5 has 1.375, 2 to 2.5 has 2.25."""
    values = bin_values()
    assert len(values) == BINS == 48 * 4
    one = 16 * 4
    assert bins_of([1.0, 1.2499, 1.25, 1.5, 1.75, 1.9999, 2.0]) == [
        one,
        one,
        one + 1,
        one + 2,
        one + 3,
        one + 3,
        one + 4,
    ]
    assert values[one : one + 5].tolist() == [1.125, 1.375, 1.625, 1.875, 2.25]
    assert bins_of([2.0**-16, 2.0**-17]) == [0, -4] and values[0] == 1.125 * 2.0**-16
    assert bins_of([2.0**40]) == [BINS - 1] and values[-1] == 1.875 * 2.0**31
    edges = np.ldexp(1 + np.arange(4) / 4, np.arange(-16, 32)[:, None]).ravel()
    assert bins_of(edges) == list(range(BINS))


def test_documents_are_counted_by_topic_and_by_length():
    theta = np.array([[1.0, 0.0, 3.0, 9.0], [0.5, 0.5, 0.0, 9.0], [0.0, 0.0, 0.0, 9.0]], np.float32)
    topics = np.zeros(3 * BINS)
    lengths = np.zeros(BINS)
    count_documents(theta, 3, None, topics, lengths)
    of_topics, of_lengths = document_counts(topics, lengths, 3)
    half, one, three, four = bins_of([0.5, 1.0, 3.0, 4.0])
    values = bin_values()
    assert of_topics.values.tolist() == values[[half, one, three]].tolist()
    assert of_topics.times.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert {i: n for i, n in enumerate(of_lengths.times) if n} == {one: 1, four: 1}
    active = np.array([[2, 0, 3, 1], [1, 0, 3, 2], [0, 1, 3, 2]], np.uint16)
    some = np.take_along_axis(theta, active.astype(int), 1)
    again = np.zeros(3 * BINS)
    count_documents(some, 3, active, again, np.zeros(BINS))
    assert np.array_equal(again, topics)


def test_the_rise_of_a_mean_lies_between_whole_numbers():
    prior = np.array([[0.3], [2.0]])
    found = expected_rise(np.array([0.25, 1.0, 3.5]), prior)
    for row, (a,) in zip(found, prior, strict=True):
        whole = digamma(3 + a) - digamma(a)
        assert row == pytest.approx([0.25 / a, 1 / a, whole + 0.5 / (3 + a)], rel=1e-9)


def test_a_pull_falls_with_the_square_of_the_length_of_short_documents():
    """Ten documents of 7 tokens are a fifth of 35: a twenty-fifth of the rate below."""
    lengths = Histogram(np.array([4.0, 6.0]), np.array([4.0, 9.0]))
    pull = pull_by_length(lengths, 3.0, 0.2)
    assert (pull.mean, pull.above) == (0.2, 30.0)
    assert pull.below == pytest.approx(30.0 / 25)
    long = pull_by_length(Histogram(np.array([4.0]), np.array([70.0])), 3.0, 0.2)
    assert long.below == long.above == 12.0


def test_priors_at_a_bound_are_counted():
    values = np.array([0.01, 0.0100001, 0.5, 9.99999, 10.0])
    assert count_at_bounds(values, 0.1, 10.0) == 3  # 0.01, 9.99999 and 10
    assert count_at_bounds(values, 1.0, 10.0) == 3  # 0.01, 0.0100001 and 10
    assert count_at_bounds(values, 1.0, 100.0) == 1


@pytest.mark.parametrize(("topics", "alpha", "mean"), [(5, 0.4, 0.4), (400, 0.4, 30 / 400)])
def test_alpha_is_pulled_to_its_start_but_to_thirty_tokens_at_most(
    topics, alpha, mean, monkeypatch
):
    kind = find("atbp")
    engine = kind(Shape(20, 40, 300, 900.0, topics), kind.Options(alpha=alpha, learn_priors=True))
    asked = []
    monkeypatch.setattr(
        priors, "pull_by_length", lambda lengths, strength, to: asked.append((strength, to))
    )
    monkeypatch.setattr(priors, "fit_alpha", lambda alpha, *_: alpha)
    stats = {name: np.zeros(size) for name, size in engine.stats.items()}
    stats["length_bins"][70] = 20
    end = pass_end(engine.initial_params(), stats, {"phi": np.ones(topics)})
    engine.learn(end, pull=2.0)
    assert asked == [(2.0, pytest.approx(mean))]


@pytest.mark.parametrize(("after", "counted"), [(0, True), (1, False)])
def test_priors_are_counted_behind_the_wait(after, counted):
    """A visit of the first pass."""
    block = make_block(docs=20, words=40)
    kind = find("atbp")
    shape = Shape(20, 40, len(block.words), float(block.counts.sum()), 3)
    engine = kind(shape, kind.Options(learn_priors=True))
    engine.learns_after = after
    phi, theta = random_state(block, 3)
    stats = visit(engine, block, phi, theta).stats
    assert stats["topic_bins"].any() == stats["row_bins"].any() == counted
