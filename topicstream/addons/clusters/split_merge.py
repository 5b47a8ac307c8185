"""Split and merge of groups of points (Ueda, Nakano, Ghahramani & Hinton 2000, SMEM).

k-means and EM end where one group covers two clusters and two groups share a third: no single point
gains by changing its group. A move across such a plateau merges the two groups whose union costs
least and splits the group that gains most; it stays where the classification likelihood has grown
after a few steps of classification EM (Celeux & Govaert 1992),

    2 log L = const - sum_k n_k log |C_k|,

with n_k the points and C_k the covariance of group k, to which the prior's counts as one point.
Groups weigh alike: with their sizes in it, the likelihood of hard groups empties those that
overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topicstream.addons.clusters import gaussians
from topicstream.addons.clusters.gaussian_density import log_density, point_densities
from topicstream.addons.clusters.gaussians import Posterior, Prior, Statistics

EM_STEPS = 10
"""Steps of classification EM after a move, at most."""
NEIGHBOURS = 4
"""Nearest groups with which each group may be merged."""
SPLITS = 8
"""Groups that a move may split, those that gain most."""
TRIED = 3
"""Moves tried before the search ends."""
GAIN = 1e-4
"""Least gain of a move, in nats a point."""


class Partition:
    """A partition of points under Gaussian components.

    Parameters
    ----------
    points
        float64[S, n], seen from the data's mean.
    assigned
        int64[S], group of every point.
    prior
        Of every component.
    """

    def __init__(
        self, points: np.ndarray, assigned: np.ndarray, components: int, prior: Prior
    ) -> None:
        self.points = points
        self.components = components
        self.prior = prior
        self.assigned = assigned
        self._measure()

    def _measure(self) -> None:
        """Compute statistics, posteriors and costs of the groups."""
        self.statistics = sum_groups(
            self.points, self.assigned, self.components, self.prior.diagonal
        )
        self.posterior = gaussians.posterior(self.statistics, self.prior)
        self.group_costs = group_costs(self.statistics, self.posterior, self.prior)

    @property
    def cost(self) -> float:
        """Return -2 log L, without constants."""
        return float(self.group_costs.sum())

    def run_em(self, steps: int = EM_STEPS) -> Partition:
        """Run classification EM until hardly a point changes its group, or for ``steps`` steps."""
        for _ in range(steps):
            covariances = gaussians.covariances(self.posterior, self.prior, "mean")
            components = point_densities(self.posterior.means, covariances)
            assigned = log_density(self.points, components).argmax(axis=1)
            changed = np.count_nonzero(assigned != self.assigned)
            self.assigned = assigned
            self._measure()
            if changed <= len(self.points) // 2000:
                break
        return self


def sum_groups(
    points: np.ndarray, assigned: np.ndarray, components: int, diagonal: bool
) -> Statistics:
    """Sum the statistics of points in hard groups."""
    counts = np.ones(len(points), np.int64)
    share = np.ones((len(points), 1), np.float32)
    return gaussians.sum_statistics(
        points, counts, assigned[:, None].astype(np.uint16), share, components, diagonal
    )


def group_costs(statistics: Statistics, posterior: Posterior, prior: Prior) -> np.ndarray:
    """Compute n_k log |C_k| of every group, float64[K]."""
    sizes = np.maximum(statistics.sizes, 0.0)
    logdet = posterior.logdet - prior.n * np.log(sizes + 1.0)
    return np.asarray(sizes * logdet)


def split_and_merge(
    points: np.ndarray, assigned: np.ndarray, components: int, prior: Prior
) -> np.ndarray:
    """Split and merge groups until no move pays, and return them, int64[S].

    Parameters
    ----------
    points
        float64[S, n], relative to the data's mean.
    assigned
        int64[S], groups to begin with.
    components
        Number of groups, K.
    prior
        Of every component. Means are free.
    """
    best = Partition(points, assigned, components, prior).run_em()
    for _ in range(2 * components):
        for candidate in propose_moves(best):
            changed = Partition(points, candidate, components, prior).run_em()
            if changed.cost < best.cost - 2 * GAIN * len(points):
                best = changed
                break
        else:
            break
    return best.assigned


def propose_moves(groups: Partition) -> Iterator[np.ndarray]:
    """Yield assignments with two groups merged and another one split, most promising first."""
    k = groups.components
    if k < 3:
        return
    first, second = near_pairs(groups)
    merged = Statistics(*(part[first] + part[second] for part in groups.statistics))
    together = group_costs(merged, gaussians.posterior(merged, groups.prior), groups.prior)
    losses = together - groups.group_costs[first] - groups.group_costs[second]
    cheapest = np.argsort(losses, kind="stable")[: 2 * k]
    splits = {group: split_group(groups, group) for group in range(k)}
    halves = {group: half for group, half in splits.items() if half is not None}
    likely = sorted(halves, key=lambda group: -halves[group][0])[:SPLITS]
    promises = []
    for pair in cheapest.tolist():
        for group in likely:
            gain = halves[group][0] - losses[pair]
            if gain > 0 and group not in (first[pair], second[pair]):
                promises.append((gain, pair, group))
    for _, pair, group in sorted(promises, reverse=True)[:TRIED]:
        assigned = groups.assigned.copy()
        assigned[assigned == second[pair]] = first[pair]
        assigned[halves[group][1]] = second[pair]
        yield assigned


def near_pairs(groups: Partition) -> tuple[np.ndarray, np.ndarray]:
    """Find pairs of groups whose means are near in units of the data's spread.

    Returns
    -------
    tuple
        int64[P] and int64[P]. Groups without points are paired with all.
    """
    k = groups.components
    n = groups.prior.n
    spread = (
        groups.prior.covariance if groups.prior.diagonal else np.diagonal(groups.prior.covariance)
    )
    means = groups.posterior.means / np.sqrt(spread)
    squares = (means * means).sum(axis=1)
    distances = squares[:, None] + squares - 2 * means @ means.T
    # an empty group is near all
    empty = groups.statistics.sizes <= 0
    distances[empty] = -n
    distances[:, empty] = -n
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1, kind="stable")[:, : min(NEIGHBOURS, k - 1)]
    pairs = np.stack([np.repeat(np.arange(k), near.shape[1]), near.ravel()])
    pairs = np.unique(np.sort(pairs, axis=0), axis=1)
    return pairs[0], pairs[1]


def split_group(groups: Partition, group: int) -> tuple[float, np.ndarray] | None:
    """Split a group in two across its longest axis.

    Returns
    -------
    tuple or None
        The fall in cost and the members of the second half. None if there are too few points.
    """
    members = np.flatnonzero(groups.assigned == group)
    if len(members) < 4:
        return None
    points = groups.points[members]
    centred = points - points.mean(axis=0)
    axis = np.linalg.svd(centred.T @ centred, hermitian=True)[0][:, 0]
    halves = Partition(points, (centred @ axis > 0).astype(np.int64), 2, groups.prior).run_em(
        EM_STEPS // 2
    )
    return float(groups.group_costs[group] - halves.cost), members[halves.assigned == 1]
