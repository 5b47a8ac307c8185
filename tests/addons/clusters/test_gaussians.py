"""Point estimates of covariances, and which moves of groups are taken, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.addons.clusters import gaussians, split_merge


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
