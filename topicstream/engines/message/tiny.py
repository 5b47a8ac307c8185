"""What aTBP and sTBP share: priors, theta kept or folded in, starts, learning of priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import ArraySpec, BlockShape, Engine, Key, Options, Out, Rows, option, padded
from topicstream.engines.message.frozen import assign, random_topics
from topicstream.engines.message.learning import Learning, learn, reach_option
from topicstream.engines.message.priors import BINS, count_documents, count_words

START_SWEEPS = 3  # fold-in sweeps of a start before the one that is kept; 1, 2, 3: ever better at the 2nd and 5th pass


@dataclass(frozen=True)
class TinyOptions(Options):
    """Options of tiny belief propagation."""

    alpha: float | None = option(None, "document-topic prior, per topic (default 2/K)", min=1e-9)
    beta: float | None = option(None, "topic-word prior, per word (default 0.01)", min=1e-9)
    theta: str = option(
        "kept",
        "topics of the training documents: kept on disk between visits, or inferred afresh at each (fold-in)",
        choices=("kept", "fold-in"),
    )
    fold_sweeps: int = option(20, "with --theta fold-in: most inner iterations over a document", min=1, advanced=True)
    fold_tol: float = option(
        0.01, "with --theta fold-in: stop when this share of a document's tokens or less moved", min=0.0, advanced=True
    )
    prior_reach: float = reach_option()


class TinyEngine(Learning, Engine):
    """Tables: phi (row sums are n_w).  Block memory: theta, float32[D, padded(K)], unless folded in."""

    Options = TinyOptions
    prior_defaults = ("2/K", "0.01")
    options: TinyOptions

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        """theta of each document, rows sum to its tokens."""
        if self.options.theta == "fold-in":
            return {}
        return {"theta": ArraySpec("document", "float32", padded(self.shape.topics))}

    @property
    def stats(self) -> Mapping[str, int]:
        """loglik, tokens; with learned priors the histograms that they are learned from."""
        found = {"loglik": 1, "tokens": 1}
        if self.options.learn_priors:
            found |= {"topic_bins": self.shape.topics * BINS, "length_bins": BINS, "row_bins": BINS, "sampled": 1}
        return found

    default_alpha_sum = 2.0  # and beta 0.01: Zeng, Liu & Cao 2012, section 4.1

    def scratch_bytes(self, block: BlockShape) -> int:
        """Per word and per cell numbers, a few rows; theta when it is not kept."""
        row = 4 * padded(self.shape.topics)
        folded = block.docs * row if self.options.theta == "fold-in" else 0
        seeded = min(block.words, len(self.shape.seeds)) * row if self.shape.seeds is not None else 0
        return block.words * 21 + block.cells * 8 + 9 * row + folded + seeded + 4096

    def block_cells(self) -> int:
        """Wide rows want big blocks, so that a row copied into the delta serves many cells; 16 blocks a pass or more; no
        more than 2^27 / K, so that the rows and their deltas fit 512 MB at a thousand topics."""
        width, cells = padded(self.shape.topics), self.shape.cells
        least = 1 << (16 if width < 64 else 17 if width < 256 else 18)
        cells = min(max(cells // 64, min(least, max(cells // 16, 1 << 16))), 1 << 20)
        return int(max(min(cells, (1 << 27) // width), 1 << 12))

    # -- pieces of a visit -----------------------------------------------------------------------------------------
    def priors(self, params: Mapping[str, np.ndarray], out: Out) -> tuple[np.ndarray, float]:
        """alpha as float32[KP], padding zero, and beta."""
        alpha = out.scratch.array("alpha", padded(self.shape.topics), np.float32)
        alpha[:] = 0.0
        alpha[: self.shape.topics] = params["alpha"]
        return alpha, float(params["beta"][0])

    def column_sums(self, totals: np.ndarray, out: Out) -> np.ndarray:
        """A float32[KP] copy of lam; padding huge, so that it never decides when 1/lam is renewed."""
        lam = out.scratch.array("lam", len(totals), np.float32)
        lam[:] = totals
        lam[self.shape.topics :] = 1e30
        return lam

    def inverse(self, lam: np.ndarray, smoothing: float, out: Out) -> np.ndarray:
        """1 / (lam + smoothing) as float32[KP], padding (and topics without any mass) zero."""
        inverse = out.scratch.array("inverse", len(lam), np.float32)
        inverse[:] = 0.0
        there = lam[: self.shape.topics] + smoothing
        np.divide(1.0, there, out=inverse[: self.shape.topics], where=there > 0, casting="same_kind")
        return inverse

    def cell_probabilities(self, block: Block, out: Out) -> np.ndarray:
        """float64[most cells of a document of the block]: where a document's normalisers wait for their logarithm."""
        longest = int(np.diff(block.indptr).max(initial=0))
        return out.scratch.array("p", max(longest, 1), np.float64)

    def theta_before(
        self,
        block: Block,
        phi: Rows,
        totals: np.ndarray,
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
    ) -> np.ndarray:
        """theta to work on in place: a copy of the kept one in out.memory, or folded in against the rows as they are."""
        kp = padded(self.shape.topics)
        if self.options.theta == "kept":
            out.memory["theta"][:] = memory["theta"]
            return out.memory["theta"]
        theta = out.scratch.array("theta", (block.n_docs, kp), np.float32)
        alpha, beta = self.priors(params, out)
        assign(
            block.indptr,
            block.words,
            block.counts,
            phi.base,
            phi.index,
            beta,
            alpha,
            self.inverse(totals, self.shape.words * beta, out),
            theta,
            False,
            self.options.fold_sweeps,
            self.options.fold_tol,
            np.zeros((0, kp), np.float32),
            np.zeros(0, np.uint8),
            out.scratch.array("work", 4 * kp, np.float32),
            self.cell_probabilities(block, out),
            False,
        )
        return theta

    def count_for_priors(
        self, block: Block, phi: Rows, theta: np.ndarray, params: Mapping[str, np.ndarray], out: Out
    ) -> None:
        """Add the block to the histograms of the priors, when they are learned."""
        if not self.options.learn_priors:
            return
        k, stats = self.shape.topics, out.stats
        count_documents(theta, k, stats["topic_bins"], stats["length_bins"])
        count_words(
            block.words,
            block.counts,
            block.vocab,
            phi.base,
            phi.counts,
            k,
            out.scratch.array("weight", block.n_words, np.float64),
            stats["row_bins"],
            stats["sampled"],
        )

    # -- the protocol ----------------------------------------------------------------------------------------------
    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        """Without a seed table: a random topic per cell (Fig. 2, lines 4-9).  With one: each cell's soft assignment to
        the seed topics, p(k | w, d) with theta folded in."""
        kp = padded(self.shape.topics)
        theta = out.memory.get("theta")
        if theta is None:
            theta = out.scratch.array("theta", (block.n_docs, kp), np.float32)
        cells = (block.indptr, block.words, block.counts)
        out.stats["tokens"][0] += block.tokens
        if "phi" not in rows:
            random_topics(*cells, self.shape.topics, key.seed, block.first_doc, theta, out.delta["phi"])
            out.stats["loglik"][0] -= block.tokens * np.log(self.shape.words)  # nothing known yet: the even spread
            return
        phi: Rows = rows["phi"]
        alpha, _ = self.priors(params, out)
        loglik, _, _ = assign(
            *cells,
            phi.base,
            phi.index,
            0.0,
            alpha,
            self.inverse(totals["phi"], 0.0, out),
            theta,
            False,
            START_SWEEPS,
            0.0,
            out.delta["phi"],
            out.scratch.array("seen", block.n_words, np.uint8),
            out.scratch.array("work", 4 * kp, np.float32),
            self.cell_probabilities(block, out),
            True,
        )
        out.stats["loglik"][0] += loglik

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Learn the priors from the pass's histograms, where asked to."""
        if not self.options.learn_priors:
            return {}
        return learn(params, self.initial_params(), stats, totals["phi"], self.shape.words, self.options.prior_reach)

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        return self.warn_of_bounds(record, self.options.prior_reach)
