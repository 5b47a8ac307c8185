"""The mixture of unigrams (Nigam et al. 2000): a document has one topic; EM, batch.

p(k|d)  ~  pi_k prod_w p(w|k)^x_dw,      p(w|k) = (phi_wk + beta) / (lam_k + W beta),      phi_wk =
sum_d x_dw p(k|d)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topicstream.engines.base import (
    About,
    BlockShape,
    Buffer,
    Engine,
    Options,
    Out,
    Priors,
    Rule,
    TableSpec,
    Visit,
    option,
)


@dataclass(frozen=True)
class UnigramOptions(Options):
    """Its own options: each is an option of ``topics train --algo unigrams`` and goes into the
    run's record.
    """

    sharpness: float = option(
        1.0, "power of a document's likelihood: below 1, softer assignments", min=0.0, max=1.0
    )


class Unigrams(Engine):
    """Written in NumPy."""

    name = "unigrams"
    cites = "Nigam, McCallum, Thrun & Mitchell 2000"
    Options = UnigramOptions
    about = About(starts=("random", "documents", "warm"), priors=Priors(alpha=1.0, beta=0.01))

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

    def workspace(self, block: BlockShape) -> Mapping[str, Buffer]:
        """What NumPy takes on the way: never given out, but counted by the memory plan."""
        rows = 3 * block.cells + 4 * block.docs + 2 * block.words
        return {"temporaries": Buffer((rows, self.shape.topics), "float64")}

    def start(self, visit: Visit, out: Out) -> None:
        if "phi" in visit.rows:
            self.process(visit, out)
        else:
            block = visit.block
            topics = self.shape.topics
            rng = np.random.default_rng([visit.key.seed, block.first_doc])
            self._write(visit, np.eye(topics)[rng.integers(topics, size=block.n_docs)], out)

    def process(self, visit: Visit, out: Out) -> None:
        k = self.shape.topics
        block = visit.block
        params = visit.params
        beta = params["beta"][0]
        table = visit.rows["phi"]
        phi = table.base[table.index][:, :k].astype(np.float64)
        log_p = np.log(phi + beta) - np.log(visit.totals["phi"][:k] + self.shape.words * beta)
        sums = np.zeros((block.n_docs, k))
        np.add.at(sums, self._documents(visit), log_p[block.words] * block.counts[:, None])
        sums = self.options.sharpness * sums + np.log(params["alpha"] / params["alpha"].sum())
        top = sums.max(axis=1, keepdims=True)
        shares = np.exp(sums - top)
        norms = shares.sum(axis=1, keepdims=True)
        out.stats["loglik"][0] = float((top + np.log(norms)).sum())
        self._write(visit, shares / norms, out)

    def _documents(self, visit: Visit) -> np.ndarray:
        """int64[nnz]: the document of each cell."""
        return np.repeat(np.arange(visit.block.n_docs), np.diff(visit.block.indptr))

    def _write(self, visit: Visit, shares: np.ndarray, out: Out) -> None:
        block = visit.block
        delta = out.delta["phi"]
        added = np.zeros((len(delta), self.shape.topics))
        np.add.at(added, block.words, shares[self._documents(visit)] * block.counts[:, None])
        delta[:] = 0
        delta[:, : self.shape.topics] = added
        out.stats["tokens"][0] = block.tokens
