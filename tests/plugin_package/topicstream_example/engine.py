"""The mixture of unigrams (Nigam et al. 2000): a document has one topic; EM, batch.

    p(k|d)  ~  pi_k prod_w p(w|k)^x_dw,      p(w|k) = (phi_wk + beta) / (lam_k + W beta),      phi_wk = sum_d x_dw p(k|d)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Engine, Key, Options, Out, Rule, TableSpec, option


@dataclass(frozen=True)
class UnigramOptions(Options):
    """Its own options: each is an option of ``topics train --algo unigrams`` and goes into the run's record."""

    sharpness: float = option(1.0, "power of a document's likelihood: below 1, softer assignments", min=0.0, max=1.0)


class Unigrams(Engine):
    """Written in NumPy."""

    name, cites, Options = "unigrams", "Nigam, McCallum, Thrun & Mitchell 2000", UnigramOptions
    starts = ("random", "documents", "warm")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

    def initial_params(self) -> dict[str, np.ndarray]:
        alpha = 1.0 if self.options.alpha is None else self.options.alpha
        beta = 0.01 if self.options.beta is None else self.options.beta
        return {"alpha": np.full(self.shape.topics, alpha), "beta": np.array([beta])}

    def scratch_bytes(self, block: BlockShape) -> int:
        return 8 * self.shape.topics * (3 * block.cells + 4 * block.docs + 2 * block.words)

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        if "phi" in rows:
            self.process(block, rows, totals, {}, params, key, out)
        else:
            rng = np.random.default_rng([key.seed, block.first_doc])
            self._write(block, np.eye(self.shape.topics)[rng.integers(self.shape.topics, size=block.n_docs)], out)

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
        k, beta = self.shape.topics, params["beta"][0]
        phi = rows["phi"].base[rows["phi"].index][:, :k].astype(np.float64)
        log_p = np.log(phi + beta) - np.log(totals["phi"][:k] + self.shape.words * beta)
        sums = np.zeros((block.n_docs, k))
        np.add.at(sums, self._documents(block), log_p[block.words] * block.counts[:, None])
        sums = self.options.sharpness * sums + np.log(params["alpha"] / params["alpha"].sum())
        top = sums.max(axis=1, keepdims=True)
        shares = np.exp(sums - top)
        norms = shares.sum(axis=1, keepdims=True)
        out.stats["loglik"][0] = float((top + np.log(norms)).sum())
        self._write(block, shares / norms, out)

    def _documents(self, block: Block) -> np.ndarray:
        return np.repeat(np.arange(block.n_docs), np.diff(block.indptr))

    def _write(self, block: Block, shares: np.ndarray, out: Out) -> None:
        delta = out.delta["phi"]
        added = np.zeros((len(delta), self.shape.topics))
        np.add.at(added, block.words, shares[self._documents(block)] * block.counts[:, None])
        delta[:] = 0
        delta[:, : self.shape.topics] = added
        out.stats["tokens"][0] = block.tokens
