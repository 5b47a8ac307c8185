"""Covariances, their prior, and which moves of groups are taken, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.addons.clusters import gaussians, split_merge
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.training.setup import make_options


@pytest.mark.parametrize(
    "covariance, how, by",
    [
        (np.eye(2), "mean", 9 - 2 - 1),  # of an inverse Wishart distribution
        (np.eye(2), "map", 9 + 2 + 1),
        (np.ones(2), "mean", 9 - 2),  # of an inverse gamma distribution of each number
        (np.ones(2), "map", 9 + 2),
    ],
)
def test_a_covariance_is_the_mean_or_the_mode(covariance, how, by):
    prior = gaussians.Prior(np.zeros(2), covariance, 0.01)
    scale = 36.0 * covariance[None]
    post = gaussians.Posterior(np.array([9.0]), np.ones(1), np.zeros((1, 2)), scale, np.zeros(1))
    np.testing.assert_allclose(gaussians.covariances(post, prior, how), scale / by)


@pytest.mark.parametrize("moved, taken", [(9.97, True), (9.985, False), (10.01, False)])
def test_a_move_of_groups_must_gain_a_little(monkeypatch, moved, taken):
    # 100 points: two ten-thousandths each, 0.02 in all
    def partition(points, assigned, components, prior):
        cost = moved if assigned.any() else 10.0
        made = SimpleNamespace(assigned=assigned, cost=cost)
        made.run_em = lambda: made
        return made

    monkeypatch.setattr(split_merge, "Partition", partition)
    monkeypatch.setattr(split_merge, "propose_moves", lambda best: [np.ones(100, np.int64)])
    groups = split_merge.split_and_merge(np.zeros((100, 2)), np.zeros(100, np.int64), 3, None)
    assert groups.all() == groups.any() == taken


@pytest.mark.parametrize("mean", ["free", "zero"])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_a_far_point_leaves_the_prior_narrow_where_means_are_free(mean, covariance):
    options = {"tries": 1, "spread": 2.0, "mean": mean, "covariance": covariance}
    kind = find("gmm")
    engine = kind(Shape(1000, 2, 2000, 1000.0, 2), make_options(kind, options))
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(200, 2))
    sample[7] = 300.0, -400.0  # squares of 250,000 beside a median of some 6, a mean of 1250
    params = engine.initial_params()
    engine.begin(sample, 1, params)
    centred = sample - (sample.mean(axis=0) if mean == "free" else 0.0)
    near = np.delete(centred, 7, axis=0) if mean == "free" else centred
    squares = (near * near).mean(axis=0)
    expected = squares if covariance == "diag" else near.T @ near / len(near)
    least = 1e-6 * squares
    expected = expected + (least if covariance == "diag" else np.diag(least))
    np.testing.assert_allclose(params["covariance"], 2.0 * expected, rtol=1e-9)


@pytest.mark.parametrize("kappa", [0.01, 0.0])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_most_likely_gaussian_has_the_floor_of_the_mean_variance(diagonal, kappa):
    points = np.array([[1.0, 2.0], [3.0, 8.0], [5.0, 2.0]])
    sums = points.sum(axis=0)[None]
    squares = (points**2).sum(axis=0)[None] if diagonal else (points.T @ points)[None]
    spread = np.array([2.0, 6.0])  # four on average
    prior = gaussians.Prior(np.zeros(2), spread if diagonal else np.diag(spread), kappa)
    stats = gaussians.Statistics(np.array([3.0]), sums, squares)
    means, covariances = gaussians.most_likely(stats, prior, 0.25)
    np.testing.assert_allclose(means, [[3, 4]] if kappa else [[0, 0]])
    full = np.cov(points.T, bias=True) if kappa else points.T @ points / 3
    expected = np.diagonal(full) + 1.0 if diagonal else full + np.eye(2)
    np.testing.assert_allclose(covariances[0], expected, rtol=1e-12)
