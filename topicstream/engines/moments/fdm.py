"""The full dependence mixture: topics and the matrix of which topics go together, from pairs of words of a document.

em     every pass is an E-step over the blocks and an exact M-step: the cross-entropy of the pairs never rises
       a <- a o G,  mu_t(u) <- mu_t(u) [a z_u]_t,  z_u = sum over v of m_uv / p(u, v) mu_v,  G = sum over u of z_u mu_u^T
adam   the paper's: steps on softmax parameters with batches of pairs that were drawn once, at the start
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import (
    BlockShape,
    Engine,
    Key,
    Objective,
    Options,
    Out,
    Phase,
    Rule,
    Shape,
    SparseDelta,
    TableSpec,
    option,
    padded,
)  # fmt: skip
from topicstream.engines.moments.adam import Arrays, Mixture
from topicstream.engines.moments.anchors import ALPHA_BOUNDS, dirichlet_of
from topicstream.errors import TopicsError
from topicstream.kernels import word_pairs as pairs
from topicstream.tables.spec import DOCUMENTS
from topicstream.tables.table import Table

STEPS = 500  # of Adam that make a pass
DRAWN, MOST_DRAWN, ALL_DRAWN = 64, 1024, 1 << 23  # pairs from which Adam's batches are drawn: of a document, in all
BETA = 0.01
MOMENTS = ("logits_first", "logits_second")
SMALL = ("pair_logits", "pair_logits_first", "pair_logits_second")


@dataclass(frozen=True)
class MixtureOptions(Options):
    """Options of ``fdm``."""

    solver: str = option("em", "em: exact, no learning rate; adam: the paper's minibatches", choices=("em", "adam"))
    pairs: int = option(
        2000, "em: a document of more pairs of words gives so many, drawn once; 0: all pairs of all documents", min=0
    )
    batch: int = option(512, "adam: pairs of a batch", min=1)
    learning_rate: float = option(0.01, "adam: learning rate", min=0.0)
    rate_decay: float = option(
        1.0,
        "adam: what the learning rate falls to over the last fifth of --decay-steps, as a share of it",
        min=0.0,
        max=1.0,
    )
    importance: float = option(
        0.0,
        "adam: share of a batch that is drawn evenly over the different pairs, weighed so that the loss stays what it is; 0: "
        "pairs as they come",
        min=0.0,
        max=1.0,
        was=0.0,
    )
    decay_steps: int = option(50_000, "adam: steps over which --rate-decay is reached", min=1)
    device: str = option(
        "cpu", "adam: cpu (NumPy) or gpu (PyTorch or CuPy, extra gpu)", choices=("cpu", "gpu"), run_time=True
    )


class FullDependenceMixture(Engine):
    """``fdm``."""

    name = "fdm"
    prior_defaults = ("1/K", "0.01")
    cites = "Fisher, Kozdoba & Mannor, Topic Modeling via Full Dependence Mixtures, eq. 2, 3, 10 and 11"
    Options: ClassVar[Any] = MixtureOptions
    starts = ("anchors", "documents", "random", "kmeans", "best", "warm")
    shown = ("phi", "pairs")
    objective = Objective("cross-entropy", "cross", "mass")
    default_passes = 100
    default_tol = 1e-4
    accepts_weights = False
    alpha_bounds = ALPHA_BOUNDS
    takes_seeds = False  # its topics are no counts with a prior

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if options.learn_priors:
            raise TopicsError("fdm takes its priors from the moments; leave --learn-priors out")
        self._adam = options.solver == "adam"
        if options.device == "gpu" and not self._adam:
            raise TopicsError("--device gpu goes with --solver adam; em computes on the processor")
        self._drawn = int(min(max(ALL_DRAWN // max(shape.rows or shape.docs, 1), DRAWN), MOST_DRAWN)) // 8 * 8
        if self._adam and shape.words >= 1 << 24:
            raise TopicsError("--solver adam takes 16 million words at most; use --solver em")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        k = self.shape.topics
        found = {
            "phi": TableSpec(rule=Rule.REPLACE),
            "pairs": TableSpec(rows=k, columns=k, dtype="float64", rule=Rule.REPLACE),
        }
        if self._adam:
            found["drawn"] = TableSpec(rows=DOCUMENTS, columns=2 * self._drawn)
            found |= {name: TableSpec(delta="sparse") for name in ("logits", *MOMENTS)}
        return found

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (Phase("adam", None, reads=(), writes=(), steps=True),) if self._adam else (Phase("em"),)

    @property
    def stats(self) -> Mapping[str, int]:
        return {"cross": 1, "mass": 1, "docs": 1, "same": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        k = self.shape.topics
        alpha = 1.0 / k if self.options.alpha is None else self.options.alpha
        beta = BETA if self.options.beta is None else self.options.beta
        found = {
            "alpha": np.full(k, alpha, np.float64),
            "beta": np.array([beta], np.float64),
            "scale": np.array(
                [self.shape.tokens / max(self.shape.docs, 1)]
            ),  # a document's weight: phi sums to the tokens
        }
        if self._adam:
            found["step"] = np.zeros(1)
            found |= {name: np.zeros((k, k)) for name in SMALL}
        return found

    def block_cells(self) -> int:
        """Long enough that a block's words, each of which costs a product with a, are few beside its pairs."""
        return int(max(min(self.shape.cells // 32, 1 << 18), 1 << 12))

    def scratch_bytes(self, block: BlockShape) -> int:
        width = padded(self.shape.topics)
        resident = 6 * 4 * self.shape.words * width if self._adam else 0  # what a step of Adam takes beside the tables
        drawn = 8 * block.docs * self._drawn if self._adam else 0
        if self._adam and self.options.importance:
            drawn += 8 * (self.shape.rows or self.shape.docs) * self._drawn + 8 * pairs.BUCKETS
        return 16 * block.words * width + 24 * width * width + 8 * block.longest + resident + drawn

    # -- visits ----------------------------------------------------------------------------------------------------
    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        k, width = self.shape.topics, padded(self.shape.topics)
        mu = out.scratch.array("mu", (block.n_words, width), np.float32)
        sizes = np.full(k, 1.0 / k)
        if rows:
            base, index = rows["phi"].base, rows["phi"].index
            sums = np.maximum(totals["phi"], 1e-300)
            sizes = totals["phi"][:k] / totals["phi"][:k].sum()
            np.divide(base[index], sums, out=mu, casting="unsafe")
        else:
            mu[:] = 0.0
            pairs.random_rows(key.seed, block.vocab, k, mu)
            mu /= self.shape.words
        a = np.zeros((width, width), np.float32)
        a[:k, :k] = (np.outer(sizes, sizes) + np.diag(sizes)) / 2  # of a Dirichlet whose parameters sum to one
        self._expect(block, mu, a, params, key, out)
        if self._adam:
            room = out.scratch.array("drawn", (block.n_docs, 2 * self._drawn), np.float32)
            pairs.draw_pairs(block.indptr, block.words, block.counts, block.vocab, key.seed, block.first_doc, room)
            out.delta["drawn"][:, : 2 * self._drawn] = room
            out.delta["drawn"][:, 2 * self._drawn :] = 0.0
            for name in ("logits", *MOMENTS):
                out.delta[name] = SparseDelta(
                    np.zeros(block.n_words + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
                )

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        width = padded(self.shape.topics)
        base, index = rows["phi"].base, rows["phi"].index
        mu = out.scratch.array("mu", (block.n_words, width), np.float32)
        np.divide(base[index], np.maximum(totals["phi"], 1e-300), out=mu, casting="unsafe")
        self._expect(block, mu, self._matrix(rows["pairs"].base), params, key, out)

    def _matrix(self, stored: np.ndarray) -> np.ndarray:
        """a float32[P, P], summing to one."""
        k, width = self.shape.topics, padded(self.shape.topics)
        a = np.zeros((width, width), np.float32)
        a[:k, :k] = stored[:k, :k] / max(float(stored[:k, :k].sum()), 1e-300)
        return a

    def _expect(
        self, block: Block, mu: np.ndarray, a: np.ndarray, params: Mapping[str, np.ndarray], key: Key, out: Out
    ) -> None:
        """One E-step: the block's part of the next phi and of the next pair matrix."""
        width = mu.shape[1]
        y = out.scratch.array("mu a", mu.shape, np.float32)
        z = out.scratch.array("z", mu.shape, np.float32)
        g = out.scratch.array("G", (width, width), np.float64)
        sums = np.zeros(3)
        pairs.times(mu, a, y)
        scale = float(params["scale"][0])
        pairs.expect(
            block.indptr, block.words, block.counts, mu, y, z, scale, self.options.pairs, key.seed, block.first_doc, sums
        )  # fmt: skip
        g[:] = 0.0
        pairs.outer_sums(z, mu, g)
        pairs.times(z, a, y)
        np.multiply(mu, y, out=out.delta["phi"])
        k = self.shape.topics
        whole = a[:k, :k] * (g[:k, :k] + g[:k, :k].T) / 2
        out.delta["pairs"][:] = 0.0
        out.delta["pairs"][:, :k] = (whole + whole.T) / 2
        out.stats["cross"][0], out.stats["mass"][0], out.stats["docs"][0] = -sums[0], sums[1], sums[2]
        out.stats["same"][0] = np.trace(whole)

    # -- ends and steps --------------------------------------------------------------------------------------------
    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        if self.options.alpha is None:
            sizes = totals["pairs"][: self.shape.topics] / totals["pairs"].sum()
            params["alpha"][:] = dirichlet_of(1.0 - float(stats["same"][0] / stats["mass"][0]), sizes)
        if self._adam:
            return {"steps": float(params["step"][0])}
        params["scale"][0] = self.shape.tokens / max(float(stats["docs"][0]), 1.0)
        return {}

    def steps(
        self, tables: Mapping[str, Table], params: dict[str, np.ndarray], key: Key, stats: Mapping[str, np.ndarray]
    ) -> None:
        arrays = [tables[name].array for name in ("phi", "logits", *MOMENTS, "drawn")]
        if any(array is None for array in arrays):
            raise TopicsError("--solver adam needs its tables in memory: raise --mem-limit, or use --solver em")
        phi, logits, first, second, drawn = arrays
        assert phi is not None and logits is not None and first is not None and second is not None and drawn is not None
        k, words = self.shape.topics, len(phi)
        step = int(params["step"][0])
        if step == 0:
            logits[:, :k] = np.log(phi[:, :k] / np.maximum(phi[:, :k].sum(0), 1e-30) + 1e-8)
            stored = np.concatenate([rows.copy() for _, rows in tables["pairs"].pieces()])
            params["pair_logits"][:] = np.log(self._matrix(stored)[:k, :k] + 1e-8) / 2
        some = np.flatnonzero(drawn[:, 0] >= 0)
        if not len(some) or drawn.shape[0] != (self.shape.rows or self.shape.docs):
            some = np.zeros(1, np.int64)  # the made tables of the warm-up
        values = {"logits": logits[:, :k], "logits_first": first[:, :k], "logits_second": second[:, :k]}
        values |= {name: params[name].astype(np.float32) for name in SMALL}
        mixture = Mixture(Arrays(self.options.device), values, step)
        rng = np.random.Generator(np.random.Philox(key=[key.seed, key.pass_number]))
        batch, losses = self.options.batch, []
        n_steps = STEPS if words == self.shape.words else 1
        ends = None
        if self.options.importance:
            ends = np.zeros(len(some) * self._drawn)
            pairs.even_chances(drawn, some, self.options.importance, np.zeros(pairs.BUCKETS, np.int64), ends)
        for _ in range(n_steps):
            rows, at, weights = self._batch(some, ends, rng)
            u, v = drawn[rows, at].astype(np.int64), drawn[rows, at + 1].astype(np.int64)
            losses.append(mixture.step(u, v, self._rate(mixture.step_number), weights))
        got = {name: mixture.arrays.get(value) for name, value in mixture.values.items()}
        logits[:, :k], first[:, :k], second[:, :k] = got["logits"], got["logits_first"], got["logits_second"]
        for name in SMALL:
            params[name][:] = got[name]
        params["step"][0] = mixture.step_number
        mu, a = (mixture.arrays.get(value) for value in mixture.topics())
        sizes = a.sum(0).astype(np.float64)

        def counts(first: int, rows: np.ndarray) -> np.ndarray:
            made = np.zeros_like(rows)
            made[:, :k] = mu[first : first + len(rows)] * (sizes * self.shape.tokens)
            return made

        tables["phi"].rewrite(counts)
        tables["pairs"].rewrite(
            lambda first, rows: np.pad(a[first : first + len(rows)], ((0, 0), (0, rows.shape[1] - k)))
        )
        stats["cross"][0] += float(np.mean([float(loss) for loss in losses])) * n_steps * batch
        stats["mass"][0] += n_steps * batch
        stats["same"][0] += float(np.trace(a)) * n_steps * batch

    def _batch(
        self, some: np.ndarray, ends: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Where a batch's pairs stand in the table of drawn ones, and their weights: all alike, or by chances cumulated."""
        n = self.options.batch
        if ends is None:
            return some[rng.integers(0, len(some), n)], 2 * rng.integers(0, self._drawn, n), None
        one = np.searchsorted(ends, ends[-1] * rng.random(n), "right")
        chance = ends[one] - np.where(one > 0, ends[one - 1], 0.0)
        return some[one // self._drawn], 2 * (one % self._drawn), 1.0 / (len(ends) * chance)

    def _rate(self, step: int) -> float:
        """Constant, and over the last fifth of the decay's steps falling by a power: an early fall ruins it."""
        o = self.options
        late = (step / o.decay_steps - 0.8) / 0.2
        return float(o.learning_rate * o.rate_decay ** min(max(late, 0.0), 1.0))
