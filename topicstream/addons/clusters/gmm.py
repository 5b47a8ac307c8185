"""The engine ``gmm``: vectors in Gaussian components, memoized or stochastic.

A point has L responsibilities (Hughes & Sudderth 2016, sections 2 and 3, B.1). Blocks come as cells
of all coordinates, row after row (a store of dense rows). The arithmetic of a visit is in
gaussians.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.clusters import gaussians
from topicstream.addons.clusters.clusters import (
    ClusterEngine,
    ClusterOptions,
    allocation_bound,
    log_shares,
)
from topicstream.addons.clusters.gaussian_density import Densities, best_density, point_densities
from topicstream.addons.clusters.gaussians import Prior, Statistics
from topicstream.addons.clusters.model import answer, joint_densities
from topicstream.addons.clusters.split_merge import split_and_merge, sum_groups
from topicstream.base.errors import InputError
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    BlockShape,
    Buffer,
    Layout,
    Objective,
    Out,
    PassEnd,
    RowSource,
    TableSpec,
    VectorEngine,
    Visit,
    option,
    padded,
)

LLOYD = 10
"""Steps of k-means on the sample."""
WIDE = 1 << 20
"""Numbers of a block at most, where covariances are diagonal."""
LARGEST = 1e24
"""Largest mean square of a coordinate: float32 holds the sum over 1e14 points."""
FAR = 1000.0
"""Multiple of the median squared distance from the mean beyond which points have no part in the
prior.
"""
KAPPA = 0.01
"""Points that the prior of a mean is worth."""


@dataclass(frozen=True)
class GaussianOptions(ClusterOptions):
    """Options of ``gmm``."""

    tries: int = option(
        3,
        "Number of starts to try on a sample (k-means, groups by distance from the mean, "
        "Bregman k-means++, "
        "in turn); the best is used.",
        min=1,
    )
    block_docs: int = option(
        8192,
        "With --schedule stochastic: documents or points per step, rounded up to a multiple of 8.",
        min=8,
    )
    covariance: str = option(
        "full", "Full covariance matrices, or diagonal ones.", choices=("full", "diag")
    )
    mean: str = option(
        "free",
        "Estimate the means (free), or fix them at zero (for image patches without their mean).",
        choices=("free", "zero"),
    )
    estimate: str = option(
        "posterior",
        "Compute responsibilities from the posterior, its mode (map), or maximum likelihood "
        "(ml; the bound may then fall).",
        flags=("--global",),
        choices=("posterior", "map", "ml"),
    )
    spread: float = option(
        1.0, "Prior mean of a covariance, as a multiple of the data's covariance.", above=0.0
    )
    floor: float = option(
        1e-3,
        "With --global ml: added to variances, as a share of the data's mean variance.",
        above=0.0,
    )


class GaussianMixture(ClusterEngine, VectorEngine):
    """``gmm``: sizes, sums and squares of K components."""

    name = "gmm"
    cites = (
        "Hughes & Sudderth 2016, sections 2 and 3, Alg. 1, eq. 4 and appendix B.1: L-sparse "
        "mixture of Gaussians"
    )
    Options: ClassVar[Any] = GaussianOptions
    about = replace(
        ClusterEngine.about,
        priors=ClusterEngine.about.priors._replace(beta=0.0),
        starts=("kmeans",),
        dense=True,
        products=True,
        stored_tables=(),
        stored_params=("sizes", "means", "covariances"),
        objective=Objective("nats a point", weight="docs"),
        tol=1e-4,
    )

    _cached: tuple[tuple[np.ndarray, ...], Densities] | None = None

    @property
    def diagonal(self) -> bool:
        """Tell whether covariances are diagonal."""
        return bool(self.options.covariance == "diag")

    def likelihoods(
        self, params: Mapping[str, np.ndarray], rows: RowSource | None
    ) -> Callable[[Block], np.ndarray]:
        components = params["covariances"].reshape(self.shape.topics, self.n, -1)
        covariances = components[:, :, 0] if components.shape[2] == 1 else components
        weights = params["sizes"] + params["alpha"]
        densities = joint_densities(params["means"], covariances, weights / weights.sum())
        return lambda block: answer(block.counts.reshape(-1, self.n), densities)[0]

    @property
    def n(self) -> int:
        """Return the numbers of a vector."""
        return self.shape.words

    @property
    def squares(self) -> int:
        """Return the numbers of a component's second moments."""
        return self.n if self.diagonal else self.n**2

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        # as in ``sizes``: rows of what float32 holds, then rows of the rest; a covariance is a
        # small difference of large sums
        k = self.shape.topics
        rule = self.rule
        return {
            **super().tables,
            "sums": TableSpec(rows=2 * k, columns=self.n, dtype="float64", rule=rule),
            "squares": TableSpec(rows=2 * k, columns=self.squares, dtype="float64", rule=rule),
        }

    @property
    def stats(self) -> Mapping[str, int]:
        return dict.fromkeys(("loglik", "docs", "entropy"), 1)

    def initial_params(self) -> dict[str, np.ndarray]:
        k = self.shape.topics
        n = self.n
        covariance = np.ones(n) if self.diagonal else np.eye(n)
        return {
            **super().initial_params(),
            "beta": np.zeros(1),
            "mean": np.zeros(n),
            "covariance": covariance,
            "begin": np.zeros((k, 1 + n + self.squares)),
            "means": np.zeros((k, n)),
            "covariances": np.tile(covariance.ravel(), (k, 1)),
        }

    @property
    def layout(self) -> Layout:
        points = min(max(self.shape.docs // 64, 512), 8192)
        # a full one's factors are rebuilt each round: the fewer rounds, the better
        if self.diagonal:
            points = min(points, max(WIDE // self.n, 512))
        return replace(super().layout, block_cells=points * self.n)

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        numbers = (2 if self.diagonal else 5) * self.n + 3 * self.shape.topics
        return super().workspace(block) | {
            "points and scores": Buffer((block.docs, numbers), "float64"),
            # of a visit, and of a start and a pass' end: tables, posteriors and what a checkpoint
            # copies
            "components": Buffer((self.shape.topics, 20 * self.squares + 4 * self.n), "float64"),
        }

    # a visit

    def prior(self, params: Mapping[str, np.ndarray]) -> Prior:
        """Return the prior of every component, with points relative to the data's mean."""
        return Prior(
            np.zeros(self.n), params["covariance"], KAPPA if self.options.mean == "free" else 0.0
        )

    def statistics(self, rows: Mapping[str, Any]) -> Statistics:
        """Read the statistics from the gathered tables."""
        halves = {"sizes": 2, "sums": 2 * self.shape.topics, "squares": 2 * self.shape.topics}
        return self._join_parts(
            {name: rows[name].base[:number] * rows[name].scale for name, number in halves.items()}
        )

    def _join_parts(self, sums_of_parts: Mapping[str, np.ndarray]) -> Statistics:
        """Join the two parts of the tables' rows, [2, P] and twice [2 K, P]."""
        k = self.shape.topics
        sums = sums_of_parts["sums"][:k] + sums_of_parts["sums"][k:]
        squares = sums_of_parts["squares"][:k] + sums_of_parts["squares"][k:]
        return Statistics(
            sums_of_parts["sizes"].sum(axis=0)[:k],
            sums[:, : self.n],
            self._shape_squares(squares[:, : self.squares]),
        )

    def _shape_squares(self, squares: np.ndarray) -> np.ndarray:
        """Shape rows of second moments, [K, n, n], or [K, n] of diagonal ones."""
        return np.ascontiguousarray(squares).reshape(
            len(squares), *([self.n] if self.diagonal else [self.n, self.n])
        )

    def components(self, stats: Statistics, params: Mapping[str, np.ndarray]) -> Densities:
        """Prepare the densities behind the weights W.

        All blocks of a round see the same statistics, so the last ones are cached and compared.
        """
        key = (*stats, params["covariance"])
        cached = self._cached
        if cached is not None and all(np.array_equal(a, b) for a, b in zip(cached[0], key)):
            return cached[1]
        prior = self.prior(params)
        estimate = self.options.estimate
        if estimate == "posterior":
            densities = gaussians.expected_densities(gaussians.posterior(stats, prior), prior)
        elif estimate == "map":
            post = gaussians.posterior(stats, prior)
            densities = point_densities(post.means, gaussians.covariances(post, prior, "map"))
        else:
            densities = point_densities(*gaussians.most_likely(stats, prior, self.options.floor))
        densities.plus[:] += log_shares(stats.sizes, params["alpha"])
        self._cached = tuple(a.copy() for a in key), densities
        return densities

    def start(self, visit: Visit, out: Out) -> None:
        self._visit(visit, self.start_statistics(visit.params), out)

    def process(self, visit: Visit, out: Out) -> None:
        self._visit(visit, self.statistics(visit.rows), out)

    def _visit(self, visit: Visit, stats: Statistics, out: Out) -> None:
        """Write responsibilities and changes of the statistics of a block's points."""
        block = visit.block
        state = visit.state
        params = visit.params
        nonempty = np.diff(block.indptr) > 0
        x = block.counts.reshape(-1, self.n) - params["mean"]
        if len(x) < block.n_docs:
            points = x
            x = np.zeros((block.n_docs, self.n))
            x[nonempty] = points
        near = state["cluster"].reshape(-1, self.most) if state else None
        scores = best_density(x, self.components(stats, params), self.most, near)
        count, cluster, change = self.respond(scores, nonempty, state, out)
        sums = gaussians.sum_statistics(x, count, cluster, change, self.shape.topics, self.diagonal)
        for name, value in (
            ("sums", sums.sums),
            ("squares", sums.squares.reshape(-1, self.squares)),
        ):
            delta = out.delta[name]
            (k, width) = value.shape
            delta[:, width:] = 0.0
            delta[:k, :width] = value
            delta[k:, :width] = value - delta[:k, :width]

    # start, and end of a pass

    def start_statistics(self, params: Mapping[str, np.ndarray]) -> Statistics:
        """Read the statistics of the start, as of the whole corpus."""
        begin = params["begin"]
        n = self.n
        return Statistics(begin[:, 0], begin[:, 1 : 1 + n], self._shape_squares(begin[:, 1 + n :]))

    def start_rows(self, table: str, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return a padded table after the start, for the stochastic schedule."""
        stats = self.start_statistics(params)
        k = self.shape.topics
        value = {
            "sizes": stats.sizes[None],
            "sums": stats.sums,
            "squares": stats.squares.reshape(k, -1),
        }[table]
        rows = np.zeros((2 * len(value), padded(value.shape[1])))
        rows[: len(value), : value.shape[1]] = value
        return rows

    def begin(self, sample: np.ndarray, seed: int, params: dict[str, np.ndarray]) -> None:
        """Choose prior and first statistics by some points, the best of ``tries`` starts.

        Parameters
        ----------
        sample
            Some points of the store, float64[S, n].
        seed
            Seed of the draws.
        params
            Parameters of the engine, which get ``mean``, ``covariance`` and ``begin``.
        """
        options: Any = self.options
        params["mean"][:] = sample.mean(axis=0) if options.mean == "free" else 0.0
        mean_square = float((sample * sample).mean())
        sample = sample - params["mean"]
        squares = (sample * sample).sum(axis=1)
        size = float(squares.mean()) / self.n
        if size > LARGEST or 0 < mean_square < 1 / LARGEST:
            magnitude = (
                f"of about {max(size, mean_square) ** 0.5:.0e} are too "
                f"{'large' if size > 1 else 'small'}"
            )
            raise InputError(
                f"gmm sums squares in float32, and numbers {magnitude} for it; rescale them"
            )
        # a few points far from all others would make the prior of every component as wide as they
        # lie apart
        near = sample[squares <= FAR * np.median(squares)] if options.mean == "free" else sample
        variance = (near * near).mean(axis=0)
        # a coordinate that never changes
        least = 1e-6 * np.where(variance > 0, variance, max(float(variance.mean()), 1e-30))
        if self.diagonal:
            params["covariance"][:] = options.spread * (variance + least)
        else:
            params["covariance"][:] = options.spread * (near.T @ near / len(near) + np.diag(least))
        best = -np.inf
        best_groups = np.zeros(0)
        for number in range(options.tries):
            group = self._assign_groups(sample, number, seed + 1_000_003 * number, params)
            if options.mean == "free":
                group = split_and_merge(sample, group, self.shape.topics, self.prior(params))
            fit = self._bound_groups(sample, group, params) if options.tries > 1 else 0.0
            if fit > best:
                best = fit
                best_groups = group
        stats = sum_groups(sample, best_groups, self.shape.topics, self.diagonal)
        scale = self.shape.docs / len(sample)
        params["begin"][:] = scale * np.concatenate(
            [stats.sizes[:, None], stats.sums, stats.squares.reshape(len(stats.sizes), -1)], axis=1
        )

    def _assign_groups(
        self, sample: np.ndarray, number: int, seed: int, params: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Assign every point to a hard group, int64[S], by one of three rules in turn.

        By k-means; by equally many points in order of distance from the mean, because components of
        patches differ mostly in scale (they end 1 to 1.5 nats above k-means); by seeds far apart in
        units of the data's spread. EM on a sample fits its few points too closely: without it,
        patches end 0.5 to 3 nats higher.
        """
        topics = self.shape.topics
        if number % 3 == 0:
            return assign_to_means(sample, topics, seed)
        if number % 3 == 1:
            rank = np.argsort(np.argsort((sample * sample).sum(axis=1), kind="stable"))
            return np.asarray(rank * topics // len(sample))
        return assign_to_far_seeds(
            sample, params["covariance"], topics, seed, self.options.mean == "zero"
        )

    def _bound_groups(
        self, sample: np.ndarray, group: np.ndarray, params: Mapping[str, np.ndarray]
    ) -> float:
        """Compute the bound of groups at responsibilities of 0 and 1.

        It is log p of points and groups, so tiny groups do not fit best.
        """
        stats = sum_groups(sample, group, self.shape.topics, self.diagonal)
        prior = self.prior(params)
        data = gaussians.data_bound(gaussians.posterior(stats, prior), prior, len(sample))
        return data + allocation_bound(stats.sizes, params["alpha"])

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        """Set the model's means and covariances, and compute the bound of a memoized pass.

        With ``posterior`` they are the posterior's mean.
        """
        record = super().end_pass(end)
        k = self.shape.topics
        params = end.params
        rows = {
            name: np.concatenate([rows.copy() for _, rows in t.pieces()])
            for name, t in end.tables.items()
        }
        statistics = self._join_parts(rows)
        prior = self.prior(params)
        post = gaussians.posterior(statistics, prior)
        means = post.means
        covariance = gaussians.covariances(post, prior, "mean")
        if self.options.estimate == "map":
            covariance = gaussians.covariances(post, prior, "map")
        elif self.options.estimate == "ml":
            means, covariance = gaussians.most_likely(statistics, prior, self.options.floor)
        params["means"][:] = means + params["mean"]
        params["covariances"][:] = gaussians.make_storable(covariance).reshape(k, -1)
        if self.stochastic or self.options.estimate != "posterior":
            return record
        return record | self.compute_bound(
            end, gaussians.data_bound(post, prior, float(end.stats["docs"][0]))
        )

    def model_rows(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the rows that a model stores as its topics: [n, K], variances times sizes."""
        square = self._shape_squares(params["covariances"])
        variance = square if self.diagonal else np.diagonal(square, axis1=1, axis2=2)
        return np.asarray(np.maximum(variance, 0.0).T * params["sizes"])


def assign_to_far_seeds(
    x: np.ndarray, covariance: np.ndarray, topics: int, seed: int, zero: bool
) -> np.ndarray:
    """Assign every point to the nearest of seeds drawn by Bregman k-means++, int64[S].

    With the data's covariance made the unit (Hughes & Sudderth 2016), a seed s stands for mean s,
    or for covariance (1 + s s') / 2 where means are zero.
    """
    y = (
        x / np.sqrt(covariance)
        if covariance.ndim == 1
        else np.linalg.solve(np.linalg.cholesky(covariance), x.T).T
    )
    norms = (y * y).sum(axis=1)
    diagonal = covariance.ndim == 1
    nearest = np.full(len(y), np.inf)
    number = np.zeros(len(y), np.int64)
    rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), 0]))
    draws = rng.random(topics)
    for t in range(topics):
        weights = np.cumsum(np.ones(len(y)) if t == 0 else nearest)
        if not weights[-1] > 0:
            break  # no point apart from the seeds: the others stay empty
        seed_point = y[
            min(int(np.searchsorted(weights, draws[t] * weights[-1], side="right")), len(y) - 1)
        ]
        if not zero:
            distance = 0.5 * np.maximum(norms - 2 * (y @ seed_point) + seed_point @ seed_point, 0.0)
        elif diagonal:
            v = 1 + y * y
            u = 1 + seed_point * seed_point
            distance = 0.5 * (
                v @ (1 / u) - np.log(v).sum(axis=1) + np.log(u).sum() - len(seed_point)
            )
        else:
            scale = 1 + seed_point @ seed_point
            distance = 0.5 * (
                norms
                - (y @ seed_point) ** 2 / scale
                - (scale - 1) / scale
                - np.log1p(norms)
                + np.log(scale)
            )
        distance[distance < 1e-12] = 0.0
        closer = distance < nearest
        nearest[closer] = distance[closer]
        number[closer] = t
    return number


def assign_to_means(x: np.ndarray, topics: int, seed: int) -> np.ndarray:
    """Run k-means and return the number of every point's nearest mean, int64[S].

    Seeds as of k-means++ (Arthur & Vassilvitskii 2007).
    """
    norms = (x * x).sum(axis=1)
    nearest = np.full(len(x), np.inf)
    draws = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), 1])).random(topics)
    means = np.empty((0, x.shape[1]))
    for t in range(topics):
        weights = np.cumsum(np.ones(len(x)) if t == 0 else nearest)
        if not weights[-1] > 0:
            break
        seed_point = x[
            min(int(np.searchsorted(weights, draws[t] * weights[-1], side="right")), len(x) - 1)
        ]
        distance = norms - 2 * (x @ seed_point) + seed_point @ seed_point
        distance[distance < 1e-12 * norms] = 0.0
        means = np.concatenate([means, seed_point[None]])
        nearest = np.minimum(nearest, distance)
    group = np.zeros(len(x), np.int64)
    for _ in range(LLOYD):
        group = ((means * means).sum(axis=1) - 2 * (x @ means.T)).argmin(axis=1)
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(len(means) + 1))
        for k in np.flatnonzero(np.diff(ends)).tolist():
            means[k] = x[order[ends[k] : ends[k + 1]]].mean(axis=0)
    return group
