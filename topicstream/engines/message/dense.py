"""What the three algorithms with dense stored messages share: belief propagation, siBP and CVB0 differ in one number.

A cell's message over all K topics is kept on disk between visits (float32[K] a cell); the sums theta, phi and lam are
made of x mu.  Two schedules (Zeng, Cheung & Liu 2013, section 2.2):

    async   the sums move after each cell; inside a block this is the paper's order, one block is the paper's algorithm.
            The delta is the change of the block's contribution (ADD).
    sync    every message of a pass comes from the sums of the pass before; the delta is the block's whole contribution
            and the tables swap at the end of the pass (REPLACE).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import ArraySpec, BlockShape, Engine, Key, Options, Out, Rule, TableSpec, option
from topicstream.engines.message import messages
from topicstream.engines.message.learning import Learning, count_rows, learn, prior_stats, reach_option
from topicstream.engines.message.priors import count_documents

START_ROUNDS = 3


@dataclass(frozen=True)
class DenseOptions(Options):
    """Options of the engines with dense stored messages."""

    schedule: str = option("async", "order in which messages see each other's changes", choices=("async", "sync"))
    prior_reach: float = reach_option()


class DenseMessages(Learning, Engine):
    """Base of ``bp``, ``sibp`` and ``cvb0``: a subclass says what a cell's update leaves out (``exclude``)."""

    Options = DenseOptions
    exclude: ClassVar[int]
    default_alpha: ClassVar[float] = 0.01  # Zeng, Cheung & Liu 2013, section 4: alpha = beta = 0.01
    default_beta: ClassVar[float] = 0.01
    prior_defaults = ("0.01", "0.01")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.ADD if self._asynchronous else Rule.REPLACE)}

    @property
    def _asynchronous(self) -> bool:
        return bool(self.options.schedule == "async")

    @property
    def stats(self) -> Mapping[str, int]:
        """loglik, tokens; with learned priors the histograms that they are learned from."""
        found = {"loglik": 1, "tokens": 1}
        return found | prior_stats(self.shape.topics) if self.options.learn_priors else found

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        return {"messages": ArraySpec("cell", "float32", self.shape.topics)}

    def block_cells(self) -> int:
        # two copies of a block's messages are in RAM a thread: keep each near 64 MiB whatever K is
        return int(max(min(super().block_cells(), (1 << 26) // (4 * self.shape.topics)), 1 << 12))

    def scratch_bytes(self, block: BlockShape) -> int:
        return 4 * self.shape.topics * block.docs + 64

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        new, delta = self._cells(out.memory["messages"]), out.delta["phi"]
        if "phi" in rows:
            thetas = out.scratch.array("theta", (block.n_docs, self.shape.topics), np.float32)
            out.stats["loglik"][0] = messages.start_soft(
                block.indptr,
                block.words,
                block.counts,
                rows["phi"].base,
                rows["phi"].index,
                totals["phi"],
                new,
                delta,
                params["alpha"].astype(np.float32),
                START_ROUNDS,
                thetas,
            )
        else:
            messages.start_random(
                block.indptr, block.words, block.counts, key.seed, key.pass_number, block.first_doc, new, delta
            )
        out.stats["tokens"][0] = block.tokens

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
        thetas = out.scratch.array("theta", (block.n_docs, self.shape.topics), np.float32)
        visit = messages.asynchronous if self._asynchronous else messages.synchronous
        beta = np.float32(params["beta"][0])
        out.stats["loglik"][0] = visit(
            block.indptr,
            block.words,
            block.counts,
            rows["phi"].base,
            rows["phi"].index,
            totals["phi"],
            self._cells(memory["messages"]),
            self._cells(out.memory["messages"]),
            out.delta["phi"],
            params["alpha"].astype(np.float32),
            beta,
            np.float32(self.shape.words * params["beta"][0]),
            self.exclude,
            thetas,
        )
        out.stats["tokens"][0] = block.tokens
        if self.options.learn_priors:
            count_documents(thetas, self.shape.topics, out.stats["topic_bins"], out.stats["length_bins"])
            count_rows(block, rows["phi"], self.shape.topics, out)

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Learn the priors from the pass's histograms, where asked to."""
        if not self.options.learn_priors:
            return {}
        return learn(params, self.initial_params(), stats, totals["phi"], self.shape.words, self.options.prior_reach)

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        return self.warn_of_bounds(record, self.options.prior_reach)

    def _cells(self, messages_of_block: np.ndarray) -> np.ndarray:
        return messages_of_block.reshape(-1, self.shape.topics)
