"""What the three algorithms with dense stored messages share: belief propagation, siBP and CVB0
differ in one number.

A cell's message over all K topics is kept on disk between visits (float32[K] a cell); the sums
theta, phi and lam are
made of x mu.  Two schedules (Zeng, Cheung & Liu 2013, section 2.2):

    async   the sums move after each cell; inside a block this is the paper's order, one block is
            the paper's algorithm.
            The delta is the change of the block's contribution (ADD).
    sync    every message of a pass comes from the sums of the pass before; the delta is the block's
            whole contribution
            and the tables swap at the end of the pass (REPLACE).

Belief propagation for latent Dirichlet allocation with dense stored messages.

CVB0: belief propagation over tokens instead of cells.

Simplified belief propagation: the same messages without the exclusion, which is smoothed PLSA by
EM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

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
    Rule,
    TableSpec,
    Visit,
    option,
)
from topicstream.engines.message import messages
from topicstream.engines.message.messages import CELL, NOTHING, TOKEN
from topicstream.engines.message.priors import Learning, reach_option

START_ROUNDS = 3


@dataclass(frozen=True)
class DenseOptions(Options):
    """Options of the engines with dense stored messages."""

    schedule: str = option(
        "async",
        "Update messages one after another (async) or all from the previous pass (sync).",
        choices=("async", "sync"),
    )
    prior_reach: float = reach_option()


class DenseMessages(Learning):
    """Base of ``bp``, ``sibp`` and ``cvb0``: a subclass says what a cell's update leaves out
    (``exclude``).
    """

    Options = DenseOptions
    exclude: ClassVar[int]
    about = About(priors=Priors(0.01, 0.01))  # Zeng, Cheung & Liu 2013, section 4

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", rule=Rule.ADD if self._asynchronous else Rule.REPLACE)}

    @property
    def _asynchronous(self) -> bool:
        return bool(self.options.schedule == "async")

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        return {"messages": ArraySpec("cell", "float32", self.shape.topics)}

    @property
    def smaller_state(self) -> str:
        if self.about.axes or not self.state:
            return ""  # authors or links: no other engine learns the same
        return (
            "--algo sparse-bp keeps 32 bytes a cell (perplexity no higher), --algo atbp 4 bytes "
            "a topic and document (0 to 3 % higher)"
        )

    @property
    def layout(self) -> Layout:
        # two copies of a block's messages are in RAM a thread: keep each near 64 MiB whatever K is
        cells = min(super().layout.block_cells, (1 << 26) // (4 * self.shape.topics))
        return replace(super().layout, block_cells=max(cells, 1 << 12))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        return super().workspace(block) | {
            "theta": Buffer((block.docs, self.shape.topics), "float32")
        }

    def start(self, visit: Visit, out: Out) -> None:
        block = visit.block
        key = visit.key
        rows = visit.rows
        new = out.state["messages"]
        delta = out.delta["phi"]
        if "phi" in rows:
            topics = messages.Topics(rows["phi"].base, rows["phi"].index, visit.totals["phi"])
            alpha = visit.params["alpha"].astype(np.float32)
            thetas = out.array("theta")
            out.stats["loglik"][0] = messages.start_soft(
                block.cells, topics, new, delta, alpha, START_ROUNDS, thetas
            )
        else:
            messages.start_random(
                block.cells, key.seed, key.pass_number, block.first_doc, new, delta
            )
        out.stats["tokens"][0] = block.tokens

    def process(self, visit: Visit, out: Out) -> None:
        thetas = out.array("theta")
        self._update(visit, out, thetas, None)
        self.count_for_priors(visit, thetas, out)

    def _update(
        self, visit: Visit, out: Out, thetas: np.ndarray, links: messages.Links | None
    ) -> None:
        """New messages of the block from the old ones."""
        phi = visit.rows["phi"]
        beta = visit.params["beta"][0]
        topics = messages.Topics(phi.base, phi.index, visit.totals["phi"])
        alpha = visit.params["alpha"].astype(np.float32)
        smooth = np.float32(self.shape.words * beta)
        out.stats["loglik"][0] = messages.visit(
            visit.block.cells,
            topics,
            messages.Priors(alpha, np.float32(beta), smooth),
            self.exclude,
            self._asynchronous,
            visit.state["messages"],
            out.state["messages"],
            out.delta["phi"],
            thetas,
            links,
        )
        out.stats["tokens"][0] = visit.block.tokens


class BeliefPropagation(DenseMessages):
    """Each cell's message from all the others: its own, weighted by its count, is taken out of
    theta, phi and lam.
    """

    name = "bp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (7), Fig. 3"
    exclude = CELL


class ZeroOrderCollapsedVariational(DenseMessages):
    """Each token's message from all others.  The tokens of a cell share one message (they differ
    only by the order of
    update), so one of the cell's x tokens is left out of the sums, which weight it by x."""

    name = "cvb0"
    cites = "Asuncion et al. 2009 via Zeng, Cheung & Liu 2013, section 2.5, eq. (23)"
    exclude = TOKEN
    about = replace(DenseMessages.about, real_cells=False)


class SimplifiedBeliefPropagation(DenseMessages):
    """mu ~ theta phi with smoothed sums.

    With ``--schedule sync`` a pass is one turn of the loop of the paper's Fig. 4.
    """

    name = "sibp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (21), Fig. 4"
    exclude = NOTHING
