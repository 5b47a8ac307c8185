"""The full dependence mixture: topics, and the matrix of topics that go together.

Both are learned from pairs of words of a document. Every pass is an E-step over the blocks and an
exact M-step, so the cross-entropy of the pairs never rises:

    a        <-  a o G
    mu_t(u)  <-  mu_t(u) [a z_u]_t
    z_u      =   sum over v of m_uv / p(u, v) mu_v
    G        =   sum over u of z_u mu_u^T

The paper's steps on softmax parameters (Adam) end higher, later
(docs/internals/decisions/moments.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.moments import word_pairs as pairs
from topicstream.addons.moments.anchors import ALPHA_SUM_BOUNDS, fit_dirichlet
from topicstream.base.errors import InputError
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
    Priors,
    Rule,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.numeric.kernels.products import multiply, multiply_transposed


@dataclass(frozen=True)
class MixtureOptions(Options):
    """Options of ``fdm``."""

    pairs: int = option(
        2000, "Sample at most this many word pairs of a document, once; 0: use all pairs.", min=0
    )


class FullDependenceMixture(Engine):
    """``fdm``: topics and the matrix of their pairs, by EM over pairs of words."""

    name = "fdm"
    cites = (
        "Fisher, Kozdoba & Mannor, Topic Modeling via Full Dependence Mixtures, eq. 2, 3, 10 and 11"
    )
    Options: ClassVar[Any] = MixtureOptions
    about = About(
        priors=Priors(1.0, 0.01, together=True),
        starts=("anchors", "documents", "random", "kmeans", "best", "warm"),
        random_seeds=True,
        real_cells=False,
        constants=False,  # its topics are no counts with a prior
        learns_priors=False,  # moments give alpha
        products=True,
        stored_tables=("phi", "pairs"),
        objective=Objective("cross-entropy", "cross", "mass"),
        passes=100,
        tol=1e-4,
        alpha_sum_bounds=ALPHA_SUM_BOUNDS,
    )

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        k = self.shape.topics
        return {
            "phi": TableSpec(rule=Rule.REPLACE),
            "pairs": TableSpec(rows=k, columns=k, dtype="float64", rule=Rule.REPLACE),
        }

    @property
    def stats(self) -> Mapping[str, int]:
        return {"cross": 1, "mass": 1, "docs": 1, "same": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        # a document's weight, by which phi sums to the tokens
        scale = np.array([self.shape.tokens / max(self.shape.docs, 1)])
        return super().initial_params() | {"scale": scale}

    @property
    def layout(self) -> Layout:
        """Layout with long blocks.

        A block's words, each of which costs a product with a, are then few beside its pairs.
        """
        return replace(
            super().layout, block_cells=max(min(self.shape.cells // 32, 1 << 18), 1 << 12)
        )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        width = padded(self.shape.topics)
        return {
            "mu": Buffer((block.words, width), "float32"),
            "rows": Buffer((block.words, width), "float32"),
            "mu a": Buffer((block.words, width), "float32"),
            "z": Buffer((block.words, width), "float32"),
            "matrices": Buffer((5, width, width), "float32"),
            "document": Buffer(block.longest, "float64"),
        }

    # visits

    def start(self, visit: Visit, out: Out) -> None:
        k = self.shape.topics
        width = padded(self.shape.topics)
        totals = visit.totals
        sizes = totals["phi"][:k] / totals["phi"][:k].sum()
        a = np.zeros((width, width), np.float32)
        # the second moment of a Dirichlet whose parameters sum to one
        a[:k, :k] = (np.outer(sizes, sizes) + np.diag(sizes)) / 2
        self._expect(visit, a, out)

    def process(self, visit: Visit, out: Out) -> None:
        self._expect(visit, self._matrix(visit.rows["pairs"].base), out)

    def _matrix(self, stored: np.ndarray) -> np.ndarray:
        """Return the matrix a, float32[P, P], scaled to the sum one."""
        k = self.shape.topics
        width = padded(self.shape.topics)
        a = np.zeros((width, width), np.float32)
        a[:k, :k] = stored[:k, :k] / max(float(stored[:k, :k].sum()), 1e-300)
        return a

    def _expect(self, visit: Visit, a: np.ndarray, out: Out) -> None:
        """Run an E-step: the block's part of the next phi and pair matrix."""
        block = visit.block
        phi = visit.rows["phi"]
        mu = out.array("mu")
        np.divide(
            phi.base[phi.index], np.maximum(visit.totals["phi"], 1e-300), out=mu, casting="unsafe"
        )
        y = out.array("mu a")
        z = out.array("z")
        sums = np.zeros(3)
        multiply(mu, a, y)
        scale = float(visit.params["scale"][0])
        pairs.expect(
            block.cells,
            pairs.PairVectors(mu, y, z),
            scale,
            self.options.pairs,
            visit.key.seed,
            block.first_doc,
            sums,
        )
        g = np.empty_like(a)
        multiply_transposed(z, mu, g)
        multiply(z, a, y)
        np.multiply(mu, y, out=out.delta["phi"])
        k = self.shape.topics
        symmetric = a[:k, :k] * (g[:k, :k] + g[:k, :k].T) / 2
        out.delta["pairs"][:] = 0.0
        out.delta["pairs"][:, :k] = (symmetric + symmetric.T) / 2
        out.stats["cross"][0] = -sums[0]
        out.stats["mass"][0] = sums[1]
        out.stats["docs"][0] = sums[2]
        out.stats["same"][0] = np.trace(symmetric)

    # end of a pass

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        stats = end.stats
        params = end.params
        if not stats["mass"][0] > 0:
            raise InputError(
                "fdm: no document has two or more words, so there are no co-occurrences"
            )
        if self.options.alpha is None:
            sizes = end.totals["pairs"][: self.shape.topics] / end.totals["pairs"].sum()
            params["alpha"][:] = fit_dirichlet(
                1.0 - float(stats["same"][0] / stats["mass"][0]), sizes
            )
        params["scale"][0] = self.shape.tokens / max(float(stats["docs"][0]), 1.0)
        return {}
