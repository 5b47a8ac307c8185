"""Samplers average the last states of the chain, and learn priors that are held near the start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import digamma

from tests.planted import draw, store
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.engines.gibbs.chain import LARGE_TABLE, SAMPLES
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.dirichlet import Histogram, Pull, digamma_rise, fit_alpha
from topicstream.numeric.tables.spec import TableSpec
from topicstream.training.loop import train

SAMPLERS = ("sparselda", "gs")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    _, indptr, words, counts = draw(docs=150, words=90, topics=4, length=30, seed=3)
    return store(tmp_path_factory.mktemp("chain") / "c.zarr", indptr, words, counts, 90)


def topics(corpus: Path, model: Path, algo: str, passes: int, **options) -> np.ndarray:
    options = {"learn_after": 2, "learn_every": 1, **options}
    train(corpus, model, algo=algo, topics=4, passes=passes, options=options, progress=False)
    opened = TopicModel.open(model)
    return opened.rows(np.arange(opened.n_words))


@pytest.mark.quick("gs")
@pytest.mark.parametrize("algo", SAMPLERS)
def test_the_model_is_the_mean_of_the_last_states(corpus, tmp_path, algo):
    states = [topics(corpus, tmp_path / f"s{n}", algo, n, samples=0) for n in (5, 7, 9)]
    mean = topics(corpus, tmp_path / "m", algo, 9, samples=3, sample_every=2)
    assert not np.array_equal(states[0], states[2])
    np.testing.assert_allclose(mean, sum(states) / 3, rtol=1e-6)


def test_a_longer_run_forgets_the_samples_of_a_shorter_one(corpus, tmp_path):
    how = {"samples": 2, "sample_every": 1}
    whole = topics(corpus, tmp_path / "whole", "sparselda", 9, **how)
    first = topics(corpus, tmp_path / "parts", "sparselda", 4, **how)
    for passes in (5, 8, 9):  # of 5: pass 4 is one of its last two; of 9: pass 8
        longer = topics(corpus, tmp_path / "parts", "sparselda", passes, **how)
    assert not np.array_equal(first, whole)
    last = topics(corpus, tmp_path / "one", "sparselda", 9, samples=0)
    assert np.array_equal(longer, last)  # the mean of what it saw: the states of pass 9
    far = topics(corpus, tmp_path / "far", "sparselda", 3, **how)
    far = topics(corpus, tmp_path / "far", "sparselda", 9, **how)
    assert np.array_equal(far, whole)


def test_samples_that_begin_at_a_pass_are_those_passes(corpus, tmp_path):
    how = {"samples": 2, "burn_in": 3, "sample_every": 2}
    states = [topics(corpus, tmp_path / f"s{n}", "sparselda", n, samples=0) for n in (3, 5)]
    mean = topics(corpus, tmp_path / "m", "sparselda", 8, **how)
    np.testing.assert_allclose(mean, sum(states) / 2, rtol=1e-6)


@pytest.mark.parametrize("algo", SAMPLERS)
def test_five_samples_by_default_unless_the_table_is_large(algo):
    kind = find(algo)
    small = kind(Shape(10, 1000, 100, 200.0, 20), kind.Options())
    large = kind(Shape(10, LARGE_TABLE // 20 + 1, 100, 200.0, 20), kind.Options())
    assert list(small.tables["phi"].samples) == [-100, -75, -50, -25, 0]
    assert len(small.tables["phi"].samples) == SAMPLES
    assert not large.tables["phi"].samples


def test_passes_are_counted_from_either_end():
    late = TableSpec(samples=range(-4, 1, 2))
    assert [n for n in range(1, 11) if late.takes_sample(n, 10)] == [6, 8, 10]
    assert [n for n in (1, 2, 3) if late.takes_sample(n, 3)] == [1, 3]
    assert [late.samples_before(n, 10) for n in (1, 6, 7, 11)] == [0, 0, 1, 3]
    early = TableSpec(samples=range(2, 7, 2))
    assert [n for n in range(1, 11) if early.takes_sample(n, 10)] == [2, 4, 6]
    assert [early.samples_before(n, 10) for n in (1, 2, 3, 11)] == [0, 0, 1, 3]


def test_a_pull_is_a_gamma_prior_on_alpha():
    """One topic in two: its alpha maximises likelihood plus gamma prior, solved by bisection."""
    lengths = np.array([3.0, 8.0])
    docs = np.array([40.0, 10.0])
    both = Histogram(np.tile(docs / 2, (2, 1)), lengths)  # each document has one topic, as often
    rate = 50.0
    mean = 2.5

    def slope(alpha: float) -> float:
        # fixed point: alpha (own + rate mean / alpha) = alpha (all + rate), by Minka's bound
        own = (docs / 2 * (digamma(lengths + alpha) - digamma(alpha))).sum()
        every = (docs * (digamma(lengths + 2 * alpha) - digamma(2 * alpha))).sum()
        return own - every + rate * (mean / alpha - 1.0)

    expected = brentq(slope, 1e-3, 10.0)
    start = np.full(2, mean)
    found = start
    for _ in range(50):
        found = fit_alpha(
            found, both, Histogram(docs, lengths), digamma_rise, 1e-5, 100.0, Pull(mean, rate, rate)
        )
    free = fit_alpha(start, both, Histogram(docs, lengths), digamma_rise, 1e-5, 100.0)
    assert found == pytest.approx([expected, expected], rel=1e-3)
    assert free.max() < expected < mean


def test_learned_priors_stay_nearer_where_they_are_pulled(corpus, tmp_path):
    sums = []
    for pull in (0.0, 1.0, 100.0):
        model = tmp_path / f"pull{pull:g}"
        topics(corpus, model, "sparselda", 12, prior_pull=pull)
        sums.append(TopicModel.open(model).alpha.sum())
    assert sums[0] < sums[1] < sums[2] < 5.05
    assert sums[2] == pytest.approx(5.0, rel=0.05)
