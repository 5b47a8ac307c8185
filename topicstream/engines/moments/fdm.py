"""The full dependence mixture: topics and the matrix of which topics go together, from pairs of words of a document.

em     every pass is an E-step over the blocks and an exact M-step: the cross-entropy of the pairs never rises
       a <- a o G,  mu_t(u) <- mu_t(u) [a z_u]_t,  z_u = sum over v of m_uv / p(u, v) mu_v,  G = sum over u of z_u mu_u^T
adam   the paper's: steps on softmax parameters with batches of pairs that were drawn once, at the start
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.engines.base import (
    About,
    BlockShape,
    Buffer,
    Engine,
    Layout,
    Objective,
    Options,
    Out,
    PassEnd,
    Phase,
    Priors,
    Rule,
    Shape,
    SparseDelta,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.engines.moments.adam import Arrays, Mixture
from topicstream.engines.moments.anchors import ALPHA_BOUNDS, dirichlet_of
from topicstream.errors import InputError, TopicsError
from topicstream.kernels import word_pairs as pairs
from topicstream.tables.spec import DOCUMENTS

STEPS = 500  # of Adam that make a pass
DRAWN, MOST_DRAWN, ALL_DRAWN = 64, 1024, 1 << 23  # pairs from which Adam's batches are drawn: of a document, in all
MOMENTS = ("logits_first", "logits_second")
SMALL = ("pair_logits", "pair_logits_first", "pair_logits_second")


@dataclass(frozen=True)
class MixtureOptions(Options):
    """Options of ``fdm``."""

    withdrawn = ("rate_decay", "importance", "decay_steps")

    solver: str = option("em", "em: exact, no learning rate; adam: the paper's minibatches", choices=("em", "adam"))
    pairs: int = option(
        2000, "em: a document of more pairs of words gives so many, drawn once; 0: all pairs of all documents", min=0
    )
    batch: int = option(512, "adam: pairs of a batch", min=1)
    learning_rate: float = option(0.01, "adam: learning rate", min=0.0)
    device: str = option(
        "cpu", "adam: cpu (NumPy) or gpu (PyTorch or CuPy, extra gpu)", choices=("cpu", "gpu"), run_time=True
    )


class FullDependenceMixture(Engine):
    """``fdm``."""

    name = "fdm"
    cites = "Fisher, Kozdoba & Mannor, Topic Modeling via Full Dependence Mixtures, eq. 2, 3, 10 and 11"
    Options: ClassVar[Any] = MixtureOptions
    about = About(
        priors=Priors(1.0, 0.01, together=True),
        starts=("anchors", "documents", "random", "kmeans", "best", "warm"),
        real_cells=False,
        seed_words=False,  # its topics are no counts with a prior
        stored_tables=("phi", "pairs"),
        objective=Objective("cross-entropy", "cross", "mass"),
        passes=100,
        tol=1e-4,
        alpha_bounds=ALPHA_BOUNDS,
    )

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
        # a document's weight, by which phi sums to the tokens
        own = {"scale": np.array([self.shape.tokens / max(self.shape.docs, 1)])}
        if self._adam:
            own |= {"step": np.zeros(1), **{name: np.zeros((k, k)) for name in SMALL}}
        return super().initial_params() | own

    @property
    def layout(self) -> Layout:
        """Long enough that a block's words, each of which costs a product with a, are few beside its pairs."""
        return replace(super().layout, block_cells=max(min(self.shape.cells // 32, 1 << 18), 1 << 12))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        width = padded(self.shape.topics)
        found = {
            "mu": Buffer((block.words, width), "float32"),
            "rows": Buffer((block.words, width), "float32"),
            "mu a": Buffer((block.words, width), "float32"),
            "z": Buffer((block.words, width), "float32"),
            "G": Buffer((width, width), "float64"),
            "matrices": Buffer((4, width, width), "float32"),
            "document": Buffer(block.longest, "float64"),
        }
        if self._adam:
            found["drawn"] = Buffer((block.docs, 2 * self._drawn), "float32")
            found["a step beside the tables"] = Buffer((6, self.shape.words, width), "float32")
        return found

    # -- visits ----------------------------------------------------------------------------------------------------
    def start(self, visit: Visit, out: Out) -> None:
        block, k, width, totals = visit.block, self.shape.topics, padded(self.shape.topics), visit.totals
        mu = out.array("mu")
        sizes = np.full(k, 1.0 / k)
        if visit.rows:
            base, index = visit.rows["phi"].base, visit.rows["phi"].index
            sums = np.maximum(totals["phi"], 1e-300)
            sizes = totals["phi"][:k] / totals["phi"][:k].sum()
            np.divide(base[index], sums, out=mu, casting="unsafe")
        else:
            mu[:] = 0.0
            pairs.random_rows(visit.key.seed, block.vocab, k, mu)
            mu /= self.shape.words
        a = np.zeros((width, width), np.float32)
        a[:k, :k] = (np.outer(sizes, sizes) + np.diag(sizes)) / 2  # of a Dirichlet whose parameters sum to one
        self._expect(visit, mu, a, out)
        if self._adam:
            room, cells = out.array("drawn"), (block.indptr, block.words, block.counts)
            pairs.draw_pairs(*cells, block.vocab, visit.key.seed, block.first_doc, room)
            out.delta["drawn"][:, : 2 * self._drawn] = room
            out.delta["drawn"][:, 2 * self._drawn :] = 0.0
            for name in ("logits", *MOMENTS):
                out.delta[name] = SparseDelta(
                    np.zeros(block.n_words + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
                )

    def process(self, visit: Visit, out: Out) -> None:
        phi, mu = visit.rows["phi"], out.array("mu")
        np.divide(phi.base[phi.index], np.maximum(visit.totals["phi"], 1e-300), out=mu, casting="unsafe")
        self._expect(visit, mu, self._matrix(visit.rows["pairs"].base), out)

    def _matrix(self, stored: np.ndarray) -> np.ndarray:
        """a float32[P, P], summing to one."""
        k, width = self.shape.topics, padded(self.shape.topics)
        a = np.zeros((width, width), np.float32)
        a[:k, :k] = stored[:k, :k] / max(float(stored[:k, :k].sum()), 1e-300)
        return a

    def _expect(self, visit: Visit, mu: np.ndarray, a: np.ndarray, out: Out) -> None:
        """One E-step: the block's part of the next phi and of the next pair matrix."""
        block, y, z, g = visit.block, out.array("mu a"), out.array("z"), out.array("G")
        sums = np.zeros(3)
        pairs.times(mu, a, y)
        scale = float(visit.params["scale"][0])
        pairs.expect(
            block.indptr, block.words, block.counts, mu, y, z, scale, self.options.pairs, visit.key.seed, block.first_doc, sums
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
    def end_pass(self, end: PassEnd) -> dict[str, Any]:
        stats, params = end.stats, end.params
        if self.options.alpha is None:
            sizes = end.totals["pairs"][: self.shape.topics] / end.totals["pairs"].sum()
            params["alpha"][:] = dirichlet_of(1.0 - float(stats["same"][0] / stats["mass"][0]), sizes)
        if self._adam:
            return {"steps": float(params["step"][0])}
        params["scale"][0] = self.shape.tokens / max(float(stats["docs"][0]), 1.0)
        return {}

    def end_phase(self, end: PassEnd) -> None:
        """A pass of Adam's steps."""
        tables, params, key, stats = end.tables, end.params, end.key, end.stats
        arrays = [tables[name].array for name in ("phi", "logits", *MOMENTS, "drawn")]
        if any(array is None for array in arrays):
            raise TopicsError("--solver adam needs its tables in memory: raise --mem-limit, or use --solver em")
        phi, logits, first, second, drawn = arrays
        assert phi is not None and logits is not None and first is not None and second is not None and drawn is not None
        k = self.shape.topics
        step = int(params["step"][0])
        if step == 0:
            logits[:, :k] = np.log(phi[:, :k] / np.maximum(phi[:, :k].sum(0), 1e-30) + 1e-8)
            stored = np.concatenate([rows.copy() for _, rows in tables["pairs"].pieces()])
            params["pair_logits"][:] = np.log(self._matrix(stored)[:k, :k] + 1e-8) / 2
        some = np.flatnonzero(drawn[:, 0] >= 0)
        if not len(some):
            raise InputError("fdm: no document has two words or more, so there are no pairs of words")
        values = {"logits": logits[:, :k], "logits_first": first[:, :k], "logits_second": second[:, :k]}
        values |= {name: params[name].astype(np.float32) for name in SMALL}
        mixture = Mixture(Arrays(self.options.device), values, step)
        rng = np.random.Generator(np.random.Philox(key=[key.seed, key.pass_number]))
        batch, losses = self.options.batch, []
        for _ in range(STEPS):
            rows, at = some[rng.integers(0, len(some), batch)], 2 * rng.integers(0, self._drawn, batch)
            u, v = drawn[rows, at].astype(np.int64), drawn[rows, at + 1].astype(np.int64)
            losses.append(mixture.step(u, v, self.options.learning_rate))
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
        stats["cross"][0] += float(np.mean([float(loss) for loss in losses])) * STEPS * batch
        stats["mass"][0] += STEPS * batch
        stats["same"][0] += float(np.trace(a)) * STEPS * batch
