"""Responsibilities of points, at most L each, and what all mixtures share (Hughes & Sudderth 2016, section 2 and Alg. 1).

    W_nk = E[log pi_k] + E[log F(x_n | phi_k)],      r_n = softmax of the L largest W_n.
    N_k  = sum_n r_nk,      q(pi) = Dir(N + alpha),      E[log pi_k] = psi(N_k + alpha) + const.

The bound, at clusters that are the sums of the points' statistics, is

    L = data term + log B(N + alpha) - log B(alpha) - sum_nk r_nk log r_nk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from topicstream.engines.base import ArraySpec, Engine, Options, Out, Rule, Shape, TableSpec, option
from topicstream.errors import TopicsError
from topicstream.kernels.arrays import Bools, Doubles, Floats, Longs, Shorts
from topicstream.kernels.digamma import digamma, exp, lgamma, log
from topicstream.kernels.jit import kernel

ROUND = 8  # blocks of a step: as many threads can share it
ALPHA = 10.0  # over all clusters


@kernel
def respond(
    scores: Doubles, there: Bools, topics: int, most: int, cluster: Shorts, share: Floats
) -> tuple[float, float]:
    """The ``most`` largest scores of each row, normalised -> cluster: uint16[n, L], share: float32[n, L]; rows of points that are
    not ``there`` are 0.  Returns (entropy, sum of log sum_k exp score).

    scores: float64[n, >= topics].  Among equal scores the first ones are taken; with L = K clusters stay in their order.
    """
    entropy, fit = 0.0, 0.0
    best, value, p = np.empty(most, np.int64), np.empty(most), np.empty(most)
    for d in range(len(cluster)):
        if not there[d]:
            for j in range(most):
                cluster[d, j], share[d, j] = 0, 0.0
            continue
        row, held = scores[d], 0
        for k in range(topics):
            s = row[k]
            if most == topics:
                best[k], value[k] = k, s
                continue
            if held == most and s <= value[most - 1]:
                continue
            at = min(held, most - 1)
            while at > 0 and value[at - 1] < s:
                best[at], value[at] = best[at - 1], value[at - 1]
                at -= 1
            best[at], value[at] = k, s
            held = min(held + 1, most)
        top, total, every = value[0], 0.0, 0.0
        for j in range(most):
            top = max(top, value[j])
        for j in range(most):
            p[j] = exp(value[j] - top)
            total += p[j]
        for k in range(topics):
            every += exp(row[k] - top)
        fit += top + log(every)
        for j in range(most):
            r = np.float32(p[j] / total)
            cluster[d, j], share[d, j] = best[j], r
            if r > 0:
                entropy -= np.float64(r) * log(np.float64(r))
    return entropy, fit


@kernel
def changes(
    topics: int,
    old_cluster: Shorts,
    old_share: Floats,
    cluster: Shorts,
    share: Floats,
    count: Longs,
    which: Shorts,
    by: Floats,
    sizes: Doubles,
) -> None:
    """What changed of each point: count[n] pairs (which[n, :], by[n, :]) of cluster and change of its share, those that did not
    left out; sizes: float64[topics] += the changes.  No old shares (0 rows): all is new."""
    total, seen = np.zeros(topics), np.zeros(topics, np.bool_)
    fresh = len(old_cluster) == 0
    for d in range(len(cluster)):
        n = 0
        for j in range(cluster.shape[1]):
            k, r = cluster[d, j], share[d, j]
            if r > 0:
                seen[k], total[k], which[d, n] = True, r, k
                n += 1
        if not fresh:
            for j in range(old_cluster.shape[1]):
                k, r = old_cluster[d, j], old_share[d, j]
                if r > 0:
                    if not seen[k]:
                        seen[k], which[d, n] = True, k
                        n += 1
                    total[k] -= r
        found = 0
        for j in range(n):
            k = which[d, j]
            v, total[k], seen[k] = total[k], 0.0, False
            if v != 0.0:
                which[d, found], by[d, found] = k, v
                sizes[k] += v
                found += 1
        count[d] = found


@kernel
def allocation_bound(sizes: Doubles, alpha: Doubles) -> float:
    """log B(N + alpha) - log B(alpha); sizes, alpha: float64[K]."""
    value, mass, prior = 0.0, 0.0, 0.0
    for k in range(len(sizes)):
        value += lgamma(max(sizes[k], 0.0) + alpha[k]) - lgamma(alpha[k])
        mass += max(sizes[k], 0.0) + alpha[k]
        prior += alpha[k]
    return value - lgamma(mass) + lgamma(prior)  # type: ignore[no-any-return]


@kernel
def log_shares(sizes: Doubles, alpha: Doubles, out: Doubles) -> None:
    """out[k] = E[log pi_k]; sizes: float64[>= K], alpha, out: float64[K]."""
    mass = 0.0
    for k in range(len(alpha)):
        mass += max(sizes[k], 0.0) + alpha[k]
    for k in range(len(alpha)):
        out[k] = digamma(max(sizes[k], 0.0) + alpha[k]) - digamma(mass)


@dataclass(frozen=True)
class ClusterOptions(Options):
    """Options of every mixture."""

    alpha: float | None = option(
        None, "prior of a cluster's size, in points (default: 10 over all clusters)", above=0.0
    )
    learn_priors: bool | None = field(default=False, metadata={"help": "not learned", "cli": False})
    sparsity: int = option(4, "clusters a point may have, L: 1 is a hard assignment, K is dense", min=1, decided=True)
    schedule: str = option(
        "memoized",
        "memoized: blocks take back what they said before, and the bound never falls; stochastic: steps of shrinking size",
        choices=("memoized", "stochastic"),
    )
    tries: int = option(4, "starts that are tried on a sample; the best is kept", min=1)
    kappa: float = option(0.55, "stochastic: how fast steps shrink, rho = (tau + t)^-kappa", min=0.5, max=1.0)
    tau: float = option(10.0, "stochastic: delay of the steps, rho = (tau + t)^-kappa", min=1.0)
    block_docs: int = option(512, "stochastic: points a step sees (rounded up to a multiple of 8)", min=8)


class ClusterEngine(Engine):
    """Base of the mixtures.  ``sizes`` has N_k in two rows, what float32 holds of a block's and the rest: the sum of both is
    exact to 48 bits."""

    Options: ClassVar[Any] = ClusterOptions
    takes_seeds = False
    judged_by_completion = False
    shown_params: ClassVar[tuple[str, ...]] = ("sizes",)

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if shape.topics >= 1 << 16:
            raise TopicsError(f"{self.name} numbers clusters with 16 bits: at most 65535, not {shape.topics}")
        if options.learn_priors:
            raise TopicsError(f"{self.name} does not learn its priors; leave --learn-priors out")
        self.stochastic = options.schedule == "stochastic"
        self.order = "shuffled" if self.stochastic else "sequential"
        self.start_from = "table" if self.stochastic else "visit"

    @property
    def most(self) -> int:
        """L."""
        return min(int(self.options.sparsity), self.shape.topics)

    @property
    def rule(self) -> Rule:
        """Of every table."""
        return Rule.BLEND if self.stochastic else Rule.ADD

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"sizes": TableSpec(rows=2, dtype="float64", rule=self.rule)}

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        if self.stochastic:
            return {}
        return {
            "cluster": ArraySpec("document", "uint16", self.most, below=self.shape.topics),
            "share": ArraySpec("document", "float32", self.most),
        }

    def initial_params(self) -> dict[str, np.ndarray]:
        k, o = self.shape.topics, self.options
        alpha = ALPHA / k if o.alpha is None else o.alpha
        return {
            "alpha": np.full(k, alpha, np.float64),
            "sizes": np.zeros(k),
            "bound": np.full(1, -np.inf),
            "step": np.zeros(1),
        }

    def block_docs(self) -> int:
        if self.stochastic:
            return -(-int(self.options.block_docs) // ROUND)
        return int(min(1 << 16, max(1 << 10, (1 << 22) // self.shape.topics)))  # 32 MB of scores

    def round_blocks(self) -> int:
        return ROUND

    def blend(self, params: Mapping[str, np.ndarray], docs: int) -> tuple[float, float]:
        o: Any = self.options
        return float((o.tau + params["step"][0]) ** -o.kappa), self.shape.docs / max(docs, 1)

    def end_round(self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> None:
        params["step"][0] += 1.0

    def respond(
        self, scores: np.ndarray, there: np.ndarray, memory: Mapping[str, np.ndarray], out: Out
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Responsibilities of a block into its memory and the changes of the sizes; returns (count, which, by) of ``changes``."""
        n, most, topics = len(scores), self.most, self.shape.topics
        if self.stochastic:
            cluster = out.scratch.array("cluster", (n, most), np.uint16)
            share = out.scratch.array("share", (n, most), np.float32)
        else:
            cluster, share = (out.memory[name].reshape(n, most) for name in ("cluster", "share"))
        entropy, fit = respond(scores, there, topics, most, cluster, share)
        out.stats["entropy"][0], out.stats["loglik"][0] = entropy, fit
        out.stats["docs"][0] = np.count_nonzero(there)
        rows = n if memory else 0
        old = (
            memory["cluster"].reshape(rows, most) if memory else cluster[:0],
            memory["share"].reshape(rows, most) if memory else share[:0],
        )
        width = min(2 * most, topics)
        count = out.scratch.array("changed", n, np.int64)
        which = out.scratch.array("changed clusters", (n, width), np.uint16)
        by = out.scratch.array("changes", (n, width), np.float32)
        sizes = out.scratch.array("changed sizes", topics, np.float64)
        sizes[:] = 0.0
        changes(topics, *old, cluster, share, count, which, by, sizes)
        delta = out.delta["sizes"]
        delta[:] = 0.0
        delta[0, :topics] = sizes
        delta[1, :topics] = sizes - delta[0, :topics]
        return count, which, by

    def scratch_bytes_of(self, points: int) -> int:
        """Scores, responsibilities and changes of so many points."""
        each = 8 * self.shape.topics + 6 * self.most + 6 * min(2 * self.most, self.shape.topics) + 16
        return points * each + 64 * self.shape.topics

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        params["sizes"][:] = np.maximum(totals["sizes"][: self.shape.topics], 0.0)
        record = {"empty": int((params["sizes"] < 0.5).sum())}
        if self.stochastic:
            record["rho"] = float((self.options.tau + params["step"][0]) ** -self.options.kappa)  # type: ignore[assignment]
        return record  # type: ignore[return-value]

    def bound_of(self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], data: float) -> dict[str, float]:
        """The bound of a memoized pass whose data term is given, and by how much it fell, if it did."""
        value = data + allocation_bound(params["sizes"], params["alpha"]) + float(stats["entropy"][0])
        fall = float(params["bound"][0]) - value
        params["bound"][0] = value
        return {"bound": value, "bound_fall": fall} if fall > 0 else {"bound": value}

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        fall, rounding = record.get("bound_fall", 0.0), 1e-8 * abs(record.get("bound", 0.0))
        return [f"the bound fell by {fall:.3g} in pass {record['pass']}"] if fall > rounding else []
