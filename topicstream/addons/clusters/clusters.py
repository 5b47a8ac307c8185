"""The base of all mixtures: responsibilities of points, at most L each.

Hughes & Sudderth (2016), section 2 and Alg. 1:

    W_nk = E[log pi_k] + E[log F(x_n | phi_k)],      r_n = softmax of the L largest W_n.
    N_k  = sum_n r_nk,      q(pi) = Dir(N + alpha),      E[log pi_k] = psi(N_k + alpha) + const.

The bound, at clusters that are the sums of the points' statistics, is

    L = data term + log B(N + alpha) - log B(alpha) - sum_nk r_nk log r_nk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Layout,
    Options,
    Out,
    PassEnd,
    Phase,
    Priors,
    Rule,
    Shape,
    SteppingEngine,
    TableSpec,
    option,
)
from topicstream.numeric.kernels.arrays import Bools, Doubles, Floats, Longs, Shorts
from topicstream.numeric.kernels.dirichlet import exp, log, log_gamma, psi
from topicstream.numeric.kernels.jit import kernel

ROUND = 8  # blocks of a step: as many threads can share it


@kernel
def respond(
    scores: Doubles, nonempty: Bools, topics: int, most: int, cluster: Shorts, share: Floats
) -> tuple[float, float]:
    """Normalise the ``most`` largest scores of each row.

    Among equal scores the first ones are taken. With L = K clusters stay in their order. Rows of
    points that are not ``nonempty`` become 0.

    Parameters
    ----------
    scores
        float64[n, >= topics].
    cluster, share
        uint16[n, L] and float32[n, L], results.

    Returns
    -------
    tuple
        Entropy, and the sum of log sum_k exp score.
    """
    entropy = 0.0
    fit = 0.0
    best = np.empty(most, np.int64)
    value = np.empty(most)
    p = np.empty(most)
    for d in range(len(cluster)):
        if not nonempty[d]:
            for j in range(most):
                cluster[d, j] = 0
                share[d, j] = 0.0
            continue
        row = scores[d]
        # the L largest scores, in descending order by insertion; with L = K all of them
        n_best = 0
        for k in range(topics):
            s = row[k]
            if most == topics:
                best[k] = k
                value[k] = s
                continue
            if n_best == most and s <= value[most - 1]:
                continue
            at = min(n_best, most - 1)
            while at > 0 and value[at - 1] < s:
                best[at] = best[at - 1]
                value[at] = value[at - 1]
                at -= 1
            best[at] = k
            value[at] = s
            n_best = min(n_best + 1, most)
        # r_j = exp(W_j) / sum exp(W), over the L largest; the fit has the sum over all k
        top = value[0]
        total = 0.0
        every = 0.0
        for j in range(most):
            top = max(top, value[j])
        for j in range(most):
            p[j] = exp(value[j] - top)
            total += p[j]
        for k in range(topics):
            every += exp(row[k] - top)
        fit += top + log(every)
        for j in range(most):
            # entropy: - r log r
            r = np.float32(p[j] / total)
            cluster[d, j] = best[j]
            share[d, j] = r
            if r > 0:
                entropy -= np.float64(r) * log(np.float64(r))
    return entropy, fit


class ClusterShares(NamedTuple):
    """The largest clusters of each point, uint16[D, L], and their shares, float32[D, L]."""

    cluster: Shorts
    share: Floats


@kernel
def changes(
    topics: int,
    old: ClusterShares,
    new: ClusterShares,
    count: Longs,
    which: Shorts,
    by: Floats,
    sizes: Doubles,
) -> None:
    """List the changes of each point's shares, without clusters that keep theirs.

    Point d has count[d] pairs of cluster, which[d, :], and change of its share, by[d, :].

    Parameters
    ----------
    sizes
        float64[topics], to which the changes are added.
    """
    (old_cluster, old_share) = old
    (cluster, share) = new
    total = np.zeros(topics)
    for d in range(len(cluster)):
        n = 0
        # total_k = -old_k
        for j in range(old_cluster.shape[1]):
            total[old_cluster[d, j]] -= old_share[d, j]
        # r_k - old_k of the clusters that the point has now
        for j in range(cluster.shape[1]):
            k = cluster[d, j]
            v = total[k] + share[d, j]
            total[k] = 0.0
            if v != 0.0:
                which[d, n] = k
                by[d, n] = v
                sizes[k] += v
                n += 1
        # -old_k of those that it had: the totals of the others are zero by now
        for j in range(old_cluster.shape[1]):
            k = old_cluster[d, j]
            v = total[k]
            total[k] = 0.0
            if v != 0.0:
                which[d, n] = k
                by[d, n] = v
                sizes[k] += v
                n += 1
        count[d] = n


def allocation_bound(sizes: np.ndarray, alpha: np.ndarray) -> float:
    """Compute log B(N + alpha) - log B(alpha).

    ``sizes`` and ``alpha`` are float64[K].
    """
    counts = np.maximum(sizes, 0.0) + alpha
    # cumsum adds one by one: the same bits on every processor
    mass = np.cumsum(counts)[-1:]
    prior = np.cumsum(alpha)[-1:]
    of_topics = np.cumsum(log_gamma(counts) - log_gamma(alpha))[-1]
    return float((of_topics - log_gamma(mass) + log_gamma(prior))[0])


def log_shares(sizes: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Compute E[log pi_k], float64[K].

    ``sizes`` is float64[>= K], ``alpha`` float64[K].
    """
    counts = np.maximum(sizes[: len(alpha)], 0.0) + alpha
    return np.asarray(psi(counts) - psi(np.cumsum(counts)[-1:]))


@dataclass(frozen=True)
class ClusterOptions(Options):
    """Options of every mixture."""

    alpha: float | None = option(
        None, "Prior of a cluster's size, in documents or points (default: 10/K).", above=0.0
    )
    sparsity: int = option(
        4,
        "Clusters a document or point may have, L; 1: hard assignment, K: dense.",
        min=1,
        decided=True,
    )
    schedule: str = option(
        "memoized",
        "memoized: replace each block's last contribution, so the bound never falls; "
        "stochastic: steps of decreasing size.",
        choices=("memoized", "stochastic"),
    )
    tries: int = option(4, "Number of starts to try on a sample; the best is used.", min=1)
    kappa: float = option(
        0.55,
        "With --schedule stochastic: step size decay, rho = (tau + t)^-kappa.",
        min=0.5,
        max=1.0,
    )
    tau: float = option(
        10.0, "With --schedule stochastic: step size delay, rho = (tau + t)^-kappa.", min=1.0
    )
    block_docs: int = option(
        512,
        "With --schedule stochastic: documents or points per step, rounded up to a multiple of 8.",
        min=8,
    )


class ClusterEngine(SteppingEngine):
    """Base class of the mixtures.

    The table ``sizes`` holds N_k in two rows: the float32 value of a block's N_k, and the
    remainder. Their sum is exact to 48 bits.
    """

    Options: ClassVar[Any] = ClusterOptions
    about = About(
        priors=Priors(10.0, 0.1, together=True),
        constants=False,
        learns_priors=False,
        stored_params=("sizes",),
        completion=False,
    )

    def __init__(self, shape: Shape, options: ClusterOptions) -> None:
        super().__init__(shape, options)
        if shape.topics >= 1 << 16:
            raise TopicsError(f"{self.name} supports at most 65,535 clusters, not {shape.topics}")
        self.stochastic = options.schedule == "stochastic"

    @property
    def most(self) -> int:
        """Return L, the most clusters of a point."""
        return min(int(self.options.sparsity), self.shape.topics)

    @property
    def rule(self) -> Rule:
        """Return the rule of every table."""
        return Rule.BLEND if self.stochastic else Rule.ADD

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"sizes": TableSpec(rows=2, dtype="float64", rule=self.rule)}

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (Phase(order="shuffled", start="table") if self.stochastic else Phase(),)

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        if self.stochastic:
            return {}
        return {
            "cluster": ArraySpec("document", "uint16", self.most, below=self.shape.topics),
            "share": ArraySpec("document", "float32", self.most),
        }

    def initial_params(self) -> dict[str, np.ndarray]:
        cluster_params = {
            "sizes": np.zeros(self.shape.topics),
            "bound": np.full(1, -np.inf),
            "step": np.zeros(1),
        }
        return super().initial_params() | cluster_params

    @property
    def layout(self) -> Layout:
        """Layout with blocks whose scores take 32 MB."""
        docs = min(1 << 16, max(1 << 10, (1 << 22) // self.shape.topics))
        if self.stochastic:
            docs = -(-int(self.options.block_docs) // ROUND)
        return Layout(super().layout.block_cells, docs, ROUND)

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare responsibilities and changes of the points."""
        topics = self.shape.topics
        width = min(2 * self.most, self.shape.topics)
        return {
            "cluster": Buffer((block.docs, self.most), "uint16"),
            "share": Buffer((block.docs, self.most), "float32"),
            "no shares": Buffer((block.docs, self.most), "float32"),
            "changed": Buffer(block.docs, "int64"),
            "changed clusters": Buffer((block.docs, width), "uint16"),
            "changes": Buffer((block.docs, width), "float32"),
            "changed sizes": Buffer(topics, "float64"),
            "there": Buffer(block.docs, "int64"),
            "of clusters": Buffer((7, topics), "float64"),
        }

    def respond(
        self, scores: np.ndarray, nonempty: np.ndarray, state: Mapping[str, np.ndarray], out: Out
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Write a block's responsibilities to its state, and the changes of the sizes.

        Returns
        -------
        tuple
            (count, which, by) of ``changes``.
        """
        n = len(scores)
        most = self.most
        topics = self.shape.topics
        if self.stochastic:
            cluster = out.array("cluster")
            share = out.array("share")
        else:
            cluster, share = (out.state[name].reshape(n, most) for name in ("cluster", "share"))
        entropy, fit = respond(scores, nonempty, topics, most, cluster, share)
        out.stats["entropy"][0] = entropy
        out.stats["loglik"][0] = fit
        out.stats["docs"][0] = np.count_nonzero(nonempty)
        old = state or {"cluster": cluster, "share": np.zeros_like(share)}
        before = ClusterShares(*(old[name].reshape(n, most) for name in ("cluster", "share")))
        count, changed, change, sizes = (
            out.array(name) for name in ("changed", "changed clusters", "changes", "changed sizes")
        )
        sizes[:] = 0.0
        changes(topics, before, ClusterShares(cluster, share), count, changed, change, sizes)
        delta = out.delta["sizes"]
        delta[:] = 0.0
        delta[0, :topics] = sizes
        delta[1, :topics] = sizes - delta[0, :topics]
        return count, changed, change

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        end.params["sizes"][:] = np.maximum(end.totals["sizes"][: self.shape.topics], 0.0)
        record: dict[str, float] = {"empty": int((end.params["sizes"] < 0.5).sum())}
        return record | {"rho": self._rho(end.params)} if self.stochastic else record

    def compute_bound(self, end: PassEnd, data: float) -> dict[str, float]:
        """Compute the bound of a memoized pass from its data term.

        The record also says by how much it fell, if it did.
        """
        params = end.params
        value = (
            data
            + allocation_bound(params["sizes"], params["alpha"])
            + float(end.stats["entropy"][0])
        )
        fall = float(params["bound"][0]) - value
        params["bound"][0] = value
        if fall > 1e-8 * abs(value):  # not by rounding alone
            end.say(f"warning: the bound fell by {fall:.3g} in pass {end.key.pass_number}")
        return {"bound": value, "bound_fall": fall} if fall > 0 else {"bound": value}
