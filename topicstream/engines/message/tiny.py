"""What aTBP and sTBP share: theta kept or folded in, starts, learning of priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Layout,
    Options,
    Out,
    Priors,
    Visit,
    option,
    padded,
)
from topicstream.engines.message.frozen import Topics, Workspace, assign, random_topics
from topicstream.engines.message.priors import Learning, reach_option

# fold-in sweeps of a start before the one that is kept; 1, 2, 3: ever better at the 2nd and 5th
# pass
START_SWEEPS = 3


@dataclass(frozen=True)
class TinyOptions(Options):
    """Options of tiny belief propagation."""

    alpha: float | None = option(
        None, "Document-topic Dirichlet prior, per topic (default: 2/K).", min=1e-9
    )
    beta: float | None = option(
        None, "Topic-word Dirichlet prior, per word (default: 0.01).", min=1e-9
    )
    theta: str = option(
        "kept",
        "Topics of training documents: keep them on disk between passes (kept), or infer them "
        "at each visit (fold-in).",
        choices=("kept", "fold-in"),
    )
    fold_sweeps: int = option(
        20,
        "With --theta fold-in: maximum number of inner iterations for a document.",
        min=1,
        advanced=True,
    )
    fold_tol: float = option(
        0.01,
        "With --theta fold-in: stop when at most this share of a document's tokens changed topic.",
        min=0.0,
        advanced=True,
    )
    prior_reach: float = reach_option()


class TinyEngine(Learning):
    """Tables: phi (row sums are n_w).

    Block state: theta, float32[D, padded(K)], unless folded in.
    """

    Options = TinyOptions
    about = About(priors=Priors(2.0, 0.01, together=True))  # Zeng, Liu & Cao 2012, section 4.1
    options: TinyOptions

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        """theta of each document, rows sum to its tokens."""
        return (
            {"theta": ArraySpec("document", "float32", padded(self.shape.topics))}
            if self._kept
            else {}
        )

    @property
    def _kept(self) -> bool:
        return self.options.theta == "kept"

    @property
    def layout(self) -> Layout:
        """Wide rows want big blocks, so that a row copied into the delta serves many cells; 16
        blocks a pass or more; no more than 2^27 / K, so that the rows and their deltas fit 512 MB
        at a thousand topics."""
        width, cells = padded(self.shape.topics), self.shape.cells
        least = 1 << (16 if width < 64 else 17 if width < 256 else 18)
        cells = min(max(cells // 64, min(least, max(cells // 16, 1 << 16))), 1 << 20)
        return replace(super().layout, block_cells=max(min(cells, (1 << 27) // width), 1 << 12))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        width, seeds = padded(self.shape.topics), self.shape.seeds
        seeded = 0 if seeds is None else min(block.words, len(seeds))
        return super().workspace(block) | {
            "alpha": Buffer(width, "float32"),
            "lam": Buffer(width, "float32"),
            "inverse": Buffer(width, "float32"),
            "theta": Buffer((0 if self._kept else block.docs, width), "float32"),
            "seen": Buffer(block.words, "uint8"),
            "work": Buffer(4 * width, "float32"),
            "p": Buffer(max(block.document, 1), "float64"),
            "per_n_w": Buffer(block.words, "float32"),
            "row of prior": Buffer(block.words, "int32"),
            "priors": Buffer((1 + seeded, width), "float32"),
        }

    # -- pieces of a visit
    # -----------------------------------------------------------------------------------------
    def priors(self, visit: Visit, out: Out) -> tuple[np.ndarray, float]:
        """alpha as float32[KP], padding zero, and beta."""
        alpha = out.array("alpha")
        alpha[:] = 0.0
        alpha[: self.shape.topics] = visit.params["alpha"]
        return alpha, float(visit.params["beta"][0])

    @property
    def sweeps(self) -> int:
        """Inner iterations that fold theta in; 0: it is kept."""
        return 0 if self._kept else self.options.fold_sweeps

    def theta_of(self, visit: Visit, out: Out) -> np.ndarray:
        """theta of the block's documents, to be worked on in place: the block's new state, which
        begins as the old one, or, where theta is folded in, anything."""
        theta = out.state["theta"] if self._kept else out.array("theta")
        if visit.state:
            theta[:] = visit.state["theta"]
        return theta

    def assign(
        self,
        visit: Visit,
        out: Out,
        theta: np.ndarray,
        priors: tuple[np.ndarray, float],
        sweeps: int,
        tol: float,
        delta: np.ndarray,
    ) -> float:
        """``frozen.assign`` of the block's documents; returns the log-likelihood."""
        phi, inverse, (alpha, beta) = visit.rows["phi"], out.array("inverse"), priors
        inverse[:] = 0.0
        lam = visit.totals["phi"][: self.shape.topics] + self.shape.words * beta
        np.divide(1.0, lam, out=inverse[: self.shape.topics], where=lam > 0, casting="same_kind")
        work = Workspace(out.array("work"), out.array("p"), out.array("seen"))
        topics = Topics(phi.base, phi.index, beta, inverse)
        return float(assign(visit.block.cells, topics, alpha, theta, sweeps, tol, delta, work))

    # -- the protocol
    # ----------------------------------------------------------------------------------------------
    def start(self, visit: Visit, out: Out) -> None:
        """Without a seed table: a random topic per cell (Fig. 2, lines 4-9).  With one: each cell's
        soft assignment to
        the seed topics, p(k | w, d) with theta folded in."""
        block, theta, delta = visit.block, self.theta_of(visit, out), out.delta["phi"]
        out.stats["tokens"][0] = block.tokens
        if "phi" not in visit.rows:
            random_topics(
                block.cells, self.shape.topics, visit.key.seed, block.first_doc, theta, delta
            )
            out.stats["loglik"][0] = -block.tokens * np.log(
                self.shape.words
            )  # nothing known yet: the even spread
        else:
            alpha, _ = self.priors(visit, out)
            out.stats["loglik"][0] = self.assign(
                visit, out, theta, (alpha, 0.0), START_SWEEPS, 0.0, delta
            )
