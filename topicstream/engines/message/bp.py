"""Belief propagation, siBP and CVB0: the engines with dense stored messages.

A cell's message over all K topics is stored on disk between visits (float32[K] a cell). The sums
theta, phi and lam add up x mu. The three engines differ in how much of a cell's message its update
leaves out of them.
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
    padded,
)
from topicstream.engines.covariates import covariate_rows
from topicstream.engines.message import messages
from topicstream.engines.message.messages import CELL, NOTHING, TOKEN
from topicstream.engines.message.priors import Learning, reach_option

START_ROUNDS = 3  # inner iterations of the first messages under seed topics


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
    """Base class of ``bp``, ``sibp`` and ``cvb0``.

    The message of a cell (word w, document d, count x) is

        mu_k  ~  (theta_dk - o_k + alpha_k) (phi_wk - o_k + beta) / (lam_k - o_k + W beta)

    where o is the part that the cell leaves out: x mu (``CELL``), mu (``TOKEN``) or 0
    (``NOTHING``). A subclass sets it as ``exclude``. ``--schedule`` chooses between two orders
    (Zeng, Cheung & Liu 2013, section 2.2):

    async
        The sums move after each cell, in the paper's order inside a block. A corpus of one block is
        the paper's algorithm. The delta is the change of the block's contribution (ADD).
    sync
        Every message of a pass comes from the sums of the pass before. The delta is the block's
        whole contribution, and the tables swap at the end of the pass (REPLACE).

    Parameters
    ----------
    shape, options
        See ``Engine``. The options are ``DenseOptions``.

    Attributes
    ----------
    tables
        ``phi`` float32[W, K], each row held to the word's tokens.
    state
        ``messages`` float32[nnz, K].

    References
    ----------
    Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(5), 1121-1134.
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
        if self.shape.short:
            return "--algo sparselda keeps 1 or 2 bytes a token (perplexity no higher)"
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
            "theta": Buffer((block.docs, padded(self.shape.topics)), "float32")
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
        alphas = self.document_priors(visit, out)
        self._update(visit, out, thetas, None, alphas)
        self.count_for_priors(visit, thetas, out, None, alphas)

    def _priors(self, visit: Visit, alphas: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return alpha as the kernel takes it, float32[A, padded(K)], and the documents' rows."""
        if alphas is not None:
            return alphas, covariate_rows(visit.block).pattern
        alpha = np.zeros((1, padded(self.shape.topics)), np.float32)
        alpha[0, : self.shape.topics] = visit.params["alpha"]
        return alpha, np.zeros(visit.block.n_docs, np.int32)

    def _update(
        self,
        visit: Visit,
        out: Out,
        thetas: np.ndarray,
        links: messages.Links | None,
        alphas: np.ndarray | None = None,
    ) -> None:
        """Compute the block's new messages from the old ones.

        ``alphas`` are those of ``document_priors``.
        """
        phi = visit.rows["phi"]
        beta = visit.params["beta"][0]
        topics = messages.Topics(phi.base, phi.index, visit.totals["phi"])
        alpha, row_of = self._priors(visit, alphas)
        smooth = np.float32(self.shape.words * beta)
        out.stats["loglik"][0] = messages.visit(
            visit.block.cells,
            topics,
            messages.Priors(alpha, row_of, np.float32(beta), smooth),
            messages.Rule(self.exclude, self._asynchronous),
            messages.Messages(visit.state["messages"], out.state["messages"]),
            out.delta["phi"],
            thetas,
            links,
        )
        out.stats["tokens"][0] = visit.block.tokens


class BeliefPropagation(DenseMessages):
    """Loopy belief propagation for LDA (``bp``).

    A cell's message comes from all other cells: its share x mu is left out of theta, phi and lam
    (eq. 7). See ``DenseMessages``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = BeliefPropagation(shape, BeliefPropagation.Options(schedule="sync"))
    >>> engine.tables["phi"].rule.name
    'REPLACE'

    References
    ----------
    Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(5), 1121-1134. Eq. (7), Fig. 3.
    """

    name = "bp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (7), Fig. 3"
    exclude = CELL
    about = replace(DenseMessages.about, covariates=True)


class ZeroOrderCollapsedVariational(DenseMessages):
    """Zero-order collapsed variational Bayes (``cvb0``).

    A token's message comes from all other tokens. The tokens of a cell share one message, since
    they differ only by the order of update. So one of the cell's x tokens is left out of the sums,
    which weight it by x. See ``DenseMessages``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = ZeroOrderCollapsedVariational(shape, DenseOptions(alpha=0.1))
    >>> engine.state["messages"].width  # numbers that are stored of a cell
    100

    References
    ----------
    Asuncion, Welling, Smyth & Teh (2009). On smoothing and inference for topic models. UAI 2009.
    """

    name = "cvb0"
    cites = "Asuncion et al. 2009 via Zeng, Cheung & Liu 2013, section 2.5, eq. (23)"
    exclude = TOKEN
    about = replace(DenseMessages.about, real_cells=False, covariates=True)


class SimplifiedBeliefPropagation(DenseMessages):
    """Simplified belief propagation (``sibp``), a smoothed PLSA by EM.

    The messages leave nothing out (eq. 21). With ``--schedule sync`` a pass is one turn of the loop
    of the paper's Fig. 4. See ``DenseMessages``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = SimplifiedBeliefPropagation(shape, DenseOptions())
    >>> engine.exclude == NOTHING
    True

    References
    ----------
    Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(5), 1121-1134. Eq. (21), Fig. 4.
    """

    name = "sibp"
    cites = "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (21), Fig. 4"
    exclude = NOTHING
