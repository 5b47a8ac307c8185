"""sTBP: synchronous tiny belief propagation (Zeng, Liu, Cao: Memory-Efficient Topic Modeling, Fig. 2).

phi, theta and lam of the last pass are only read; their successors are the sums of this pass's x eta:

    eta_k = (phi[w,k] + beta)(theta[d,k] + alpha_k)/(lam_k + W beta) / sum       (lines 15-16)
    phi' += x eta,  theta' += x eta,  lam' += x eta                              (lines 17-19)

The arithmetic is engines/message/frozen.py's, which has the table symbol -> array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, Rows, Rule, TableSpec, padded
from topicstream.engines.message.frozen import assign
from topicstream.engines.message.tiny import TinyEngine


class STBP(TinyEngine):
    """Synchronous tiny belief propagation: a block's whole contribution enters phi at the end of the pass."""

    name = "stbp"
    cites = "Zeng, Liu & Cao, Memory-Efficient Topic Modeling, Fig. 2"

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """The delta is the block's contribution to the next phi."""
        return {"phi": TableSpec(mass="row", rule=Rule.REPLACE)}

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
        """One visit; theta is the kept one or folded in (then ``fold_sweeps`` inner iterations before the last)."""
        phi: Rows = rows["phi"]
        kp = padded(self.shape.topics)
        kept = self.options.theta == "kept"
        if kept:
            theta = out.memory["theta"]
            theta[:] = memory["theta"]
        else:
            theta = out.scratch.array("theta", (block.n_docs, kp), np.float32)
        alpha, beta = self.priors(params, out)
        loglik, tokens, _ = assign(
            block.indptr,
            block.words,
            block.counts,
            phi.base,
            phi.index,
            beta,
            alpha,
            self.inverse(totals["phi"], self.shape.words * beta, out),
            theta,
            kept,
            0 if kept else self.options.fold_sweeps,
            0.0 if kept else self.options.fold_tol,
            out.delta["phi"],
            out.scratch.array("seen", block.n_words, np.uint8),
            out.scratch.array("work", 4 * kp, np.float32),
            self.cell_probabilities(block, out),
            True,
        )
        out.stats["loglik"][0] += loglik
        out.stats["tokens"][0] += tokens
        self.count_for_priors(block, phi, theta, params, out)
