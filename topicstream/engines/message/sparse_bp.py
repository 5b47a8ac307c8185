"""Sparse-L belief propagation over each document's L active topics.

Cost and storage of a cell do not grow with K. docs/internals/decisions/sparse-bp.md has the
measurements behind the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topicstream.base.errors import InputError, UsageError
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    LANES,
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Layout,
    Options,
    Out,
    PassEnd,
    Phase,
    Shape,
    TableSpec,
    Visit,
    learns_priors,
    option,
    padded,
)
from topicstream.engines.covariates import covariate_rows
from topicstream.engines.message import active_topics
from topicstream.engines.message import sparse_messages as kernels
from topicstream.engines.message.priors import Learning, reach_option
from topicstream.engines.parts import PART, DeltaParts
from topicstream.numeric.kernels.arrays import CellsByWord, RowEntries, sort_by_word
from topicstream.numeric.kernels.dirichlet import sum_x_log

# beta of the start, as a multiple of a seed topic's mean entry: first messages follow the
# document's mixture alone, which was 1 to 3 % better after 20 passes than following the words
FLAT = 1e4
# a bid grows with alpha up to here: at 13 times the score (gain 128, alpha 0.1, every pass) acl got
# worse from pass to pass
EAGER = 0.1
# a word's row is copied for its cells when they are more than 1 / 64 of its length: where documents
# look by block, a cell took 340 instead of 398 ns at K = 2000 (without AVX-512 490 instead of
# 1,100) and 155 instead of 159 at K = 500
GATHERED = 64
# corpora from FEW_CELLS to MANY_CELLS have smaller blocks and rounds, but no smaller blocks than
# SMALL_BLOCK (docs/internals/decisions/small-corpora.md)
FEW_CELLS = 3 << 14
MANY_CELLS = 3 << 17
SMALL_BLOCK = 1 << 14
# dtype and largest value of a stored number by its bits. Squares must sum to whole float32 numbers:
# with 4095 in 16 bits the first messages of 10,000 articles added up to the tokens only within
# 1.2e-8
STORED = {"8": ("uint8", 255.0), "16": ("uint16", 2047.0), "32": ("float32", 1.0)}


@dataclass(frozen=True)
class SparseOptions(Options):
    """Options of ``sparse-bp``."""

    beta: float | None = option(
        None, "Topic-word Dirichlet prior, per word (default: the engine's).", min=1e-9
    )
    learn_priors: bool | None = option(
        None,
        "Learn an asymmetric alpha and a symmetric beta during training (default: if neither is "
        "given).",
        decided=True,
    )
    sparsity: int = option(
        32,
        "Active topics of a document, rounded up to a multiple of 16.",
        min=1,
        max=65536,
        decided=True,
    )
    message_bits: str = option(
        "8", "Bits of a stored message.", choices=("8", "16", "32"), advanced=True
    )
    band: float = option(
        1.0,
        "Leave a message unchanged if it would move by at most this many quantisation steps; "
        "-1: update all.",
        min=-1.0,
        advanced=True,
    )
    step: float = option(
        1.8,
        "Over-relaxation: 1 moves a message to its new value, more moves it beyond.",
        min=1.0,
        max=1.9,
        advanced=True,
    )
    reopen: int = option(
        4, "Reconsider inactive topics of a document every N passes.", min=1, advanced=True
    )
    gain: float = option(
        64.0,
        "How readily inactive topics enter a document; larger is more readily.",
        min=0.0,
        advanced=True,
    )
    reach: float = option(
        0.05,
        "Reconsider topics whose score for a word is at least this share of the word's best.",
        min=0.0,
        max=1.0,
        advanced=True,
    )
    prior_reach: float = reach_option()
    learn_after: int = option(
        0,
        "Start learning priors after this many passes.",
        min=0,
        advanced=True,
        decided=True,
    )
    prior_pull: float = option(
        0.0,
        "With --learn-priors: weight of a gamma prior that holds alpha near its initial value "
        "(or 30/K, if less), in documents' worth; short documents are held less from above.",
        min=0.0,
        max=1e6,
        advanced=True,
        decided=True,
    )
    background: float = option(
        0.0,
        "Alpha of a background topic for words that all documents share: the last topic, "
        "initialised with the corpus mean; 0: no such topic.",
        min=0.0,
        max=1e6,
        decided=True,
    )

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "learn_priors", learns_priors(self.alpha, self.beta, self.learn_priors)
        )


class SparseBeliefPropagation(Learning):
    """Belief propagation over L active topics a document (``sparse-bp``).

    A cell (word w, document d, count x) has a message over the topics a(1) .. a(L) that are active
    in its document. It is eq. (7) of Zeng, Cheung & Liu (2013), with the cell's share x mu left out
    of all three sums:

        mu_j  ~  (theta_dj - x mu_j + alpha) (phi_w,a(j) - x mu_j + beta)
                 / (lam_a(j) - x mu_j + W beta)

    Start
        The active topics are the L largest of the document's mixture under the seed topics. Every
        cell begins with its document's mixture, whatever the word.
    Order
        A block is swept word by word, so that a row of phi is read once and stays in the first
        cache. theta and phi move after each cell, lam after each round.
    Step
        A message goes ``step`` times as far as eq. (7) says (over-relaxation). Shares below 0
        become 0.
    Active topics
        Every ``reopen`` passes, inactive topics bid with the gradient of the document's likelihood,
        summed over the words that they are strong for. They replace the weakest active topics.
        ``gain`` scales the bids.
    Storage
        A message is stored as L integers of ``message_bits`` bits on a square-root scale.

    With ``--sparsity K`` and 32 bits a message it is dense belief propagation in that order.

    Parameters
    ----------
    shape, options
        See ``Engine``. The options are ``SparseOptions``. Priors are learned if neither is set.

    Attributes
    ----------
    tables
        ``phi`` float32[W, K], each row held to the word's tokens, with sparse deltas.
    state
        ``messages`` uint8[nnz, L] word by word (or uint16, float32); ``topics`` uint16[D, L], the
        active topics of the messages; ``wanted`` uint16[D, L], the active topics of the next visit;
        ``theta`` float32[D, L].
    columns
        padded(K).
    width
        L, rounded up to a multiple of 16, the lanes of a register.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = SparseBeliefPropagation(shape, SparseOptions(sparsity=20))
    >>> engine.width, engine.options.learn_priors
    (32, True)

    References
    ----------
    Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on
    Pattern Analysis and Machine Intelligence 35(5), 1121-1134.
    """

    name = "sparse-bp"
    cites = (
        "Zeng, Cheung & Liu 2013, Learning topic models by belief propagation, eq. (7), over L "
        "topics a document"
    )
    Options = SparseOptions
    about = About(
        starts=("documents", "kmeans", "best", "anchors", "warm", "random"),
        random_seeds=True,
        covariates=True,
    )
    options: SparseOptions
    starts_by_words = True

    def __init__(self, shape: Shape, options: SparseOptions) -> None:
        super().__init__(shape, options)
        if padded(shape.topics) > 1 << 16:
            raise InputError(
                f"sparse-bp stores topics in 16 bits: at most 65,536 topics, not {shape.topics}"
            )
        if options.background and shape.topics < 2:
            raise UsageError("--background adds a topic to others; use at least two topics (-K 2)")
        self.columns = padded(shape.topics)
        self.width = min(padded(options.sparsity), self.columns)

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {"phi": TableSpec(mass="row", delta="sparse")}

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (Phase(settles_after=self.options.learn_after if self.options.learn_priors else 0),)

    def initial_params(self) -> dict[str, np.ndarray]:
        params = super().initial_params()
        if self.options.background:
            params["alpha"][-1] = self.options.background
        return params

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        return {
            "messages": ArraySpec("cell", STORED[self.options.message_bits][0], self.width),
            "topics": ArraySpec("document", "uint16", self.width, below=self.columns),
            "wanted": ArraySpec("document", "uint16", self.width, below=self.columns),
            "theta": ArraySpec("document", "float32", self.width),
        }

    @property
    def smaller_state(self) -> str:
        fewer = ""
        if self.width == 32:
            fewer = "--sparsity 16 halves it (held-out perplexity 2 % lower to 2 % higher), "
        if self.shape.short:
            return f"{fewer}--algo sparselda keeps 1 or 2 bytes a token"
        return (
            f"{fewer}--algo atbp keeps 4 bytes a topic and document (perplexity 1.5 to 3 % "
            "higher, more passes)"
        )

    @property
    def layout(self) -> Layout:
        """Choose larger blocks than other engines.

        A row of phi is read once a block, so its cost a cell falls with the block. Blocks are
        bounded so that rows, messages and deltas of a block fit 300 MB at a hundred topics and 512
        MB at a thousand. The start needs a row of K floats a document, 64 MB of them a thread. A
        round has 4 to 16 blocks, at least 12 of them a pass where possible: wider ones cost topics
        where a pass has few (docs/internals/decisions/rounds.md). In small corpora of texts that
        are not short, blocks and rounds are smaller, so that lam moves twelve times a pass there,
        too.
        """
        cells = self.shape.cells
        small = FEW_CELLS <= cells < MANY_CELLS and not self.shape.short
        block = max(cells // 24, SMALL_BLOCK) if small else max(cells // 12, 1 << 16)
        block = max(min(block, 3 << 17, (3 << 26) // self.columns), 1 << 12)
        docs = max(min(1 << 14, (1 << 24) // self.columns), 1 << 8)
        if small:
            return Layout(block, docs, max(round(cells / (12 * block)), 1))
        return Layout(block, docs, min(max(cells // (12 * block), 4), 16))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        # two lists of topics for a cell whose document's active set changed, never more than a row
        entries = min(block.words * self.columns, 2 * self.width * block.cells) + LANES
        part = PART + self.columns + LANES
        return super().workspace(block) | {
            "ptr": Buffer(block.words + 1, "int64"),
            "doc": Buffer(block.cells, "int32"),
            "x": Buffer(block.cells, "float32"),
            "likely": Buffer(block.cells, "float64"),
            "scores": Buffer((block.docs, self.columns), "float32"),
            "alpha, lam and changes of topics": Buffer((block.docs, self.width, 2), "int64"),
            "rows of a word": Buffer((16, self.columns), "float32"),
            "delta ptr": Buffer(block.words + 1, "int64", keep=True),
            "delta topic": Buffer(entries, "uint16", keep=True, part=part),
            "delta value": Buffer(entries, "float32", keep=True, part=part),
        }

    def start(self, visit: Visit, out: Out) -> None:
        block = visit.block
        seeds = visit.rows["phi"]
        totals = visit.totals["phi"]
        new = out.state
        cells = self._sort_cells(block, out)
        topics = self.shape.topics
        # the documents' shares of topics, which choose the active ones
        even = np.zeros(block.n_docs, np.float32)
        shares = out.array("scores")
        shares[:] = 0.0
        for a in range(0, block.n_words, max(1, seeds.at_once)):
            b = min(a + seeds.at_once, block.n_words)
            rows = seeds.part(a, b)
            part = CellsByWord(cells.ptr[a : b + 1], cells.doc, cells.x)
            active_topics.add_shares(part, rows.base, rows.index, totals, topics, even, shares)
        active_topics.open_topics(even, shares, topics, new["topics"], new["theta"])
        # the first messages, of which no document looks at inactive topics
        beta = FLAT * totals.sum() / (topics * self.shape.words)
        none_looks = np.full(block.n_docs, -1, np.int32)
        self._sweep(visit, out, cells, beta, none_looks, self._priors(visit, out))
        kernels.sum_theta(cells, new["messages"], new["theta"])
        new["wanted"][:] = new["topics"]

    def process(self, visit: Visit, out: Out) -> None:
        topics = out.state["topics"]
        theta = out.state["theta"]
        topics[:] = visit.state["wanted"]
        theta[:] = visit.state["theta"]
        theta[topics != visit.state["topics"]] = 0.0
        # rows of the scores for the documents that look at inactive topics
        looks = self._looks(visit.block, visit.key.pass_number)
        chosen = np.where(looks, np.cumsum(looks) - 1, -1).astype(np.int32)
        cells = self._sort_cells(visit.block, out)
        priors = self._priors(visit, out)
        beta = float(visit.params["beta"][0])
        scores = self._sweep(visit, out, cells, beta, chosen, priors)
        active_topics.choose(
            scores,
            chosen,
            topics,
            theta,
            priors,
            active_topics.BidRule(np.float32(EAGER), np.float32(self.options.gain)),
            self.shape.topics,
            out.state["wanted"],
        )
        alphas = None if visit.block.covariates is None else priors[0]
        self.count_for_priors(visit, theta, out, topics, alphas)

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        return self.learn(end, self.options.prior_pull, fixed=int(self.options.background > 0))

    @property
    def learns_after(self) -> int:  # type: ignore[override]
        return self.options.learn_after

    def _priors(self, visit: Visit, out: Out) -> tuple[np.ndarray, np.ndarray]:
        """Return alpha of the documents: its rows and the row of each document.

        Returns
        -------
        float32[U, columns], one row without covariates, and int32[D].
        """
        alphas = self.document_priors(visit, out)
        if alphas is not None:
            return alphas, covariate_rows(visit.block).pattern
        alpha = np.zeros((1, self.columns), np.float32)
        alpha[0, : self.shape.topics] = visit.params["alpha"]
        return alpha, np.zeros(visit.block.n_docs, np.int32)

    def visit_cost(self, number: int, pass_number: int) -> float:
        if not self._looks_by_block or pass_number == 0 or self.width >= self.shape.topics:
            return 1.0
        # a block that looks at inactive topics, and in the next pass the same block, which has
        # exchanged some (measured at K = 100: 96 and 110 ms, others 66)
        turn = (number + pass_number) % self.options.reopen
        return {0: 1.45, 1: 1.67}.get(turn, 1.0)

    @property
    def _looks_by_block(self) -> bool:
        """Tell whether all documents of a block look at inactive topics in the same pass."""
        return self.shape.cells >= 2 * self.options.reopen * self.layout.block_cells

    def _looks(self, block: Block, pass_number: int) -> np.ndarray:
        """Select the documents that consider inactive topics in this pass.

        They are all documents of every ``reopen``-th block, so that rows are scanned for them once
        in so many visits. In a corpus of few blocks they are every ``reopen``-th document, lest all
        exchange topics at once.
        """
        if self.width >= self.shape.topics:
            return np.zeros(block.n_docs, np.bool_)  # all topics are active
        if self._looks_by_block:
            return np.full(block.n_docs, (block.index + pass_number) % self.options.reopen == 0)
        numbers = block.first_doc + np.arange(block.n_docs)
        return np.asarray((numbers + pass_number) % self.options.reopen == 0)

    def _sort_cells(self, block: Block, out: Out) -> CellsByWord:
        """Sort the block's cells by word into workspace arrays."""
        cells = CellsByWord(out.array("ptr"), out.array("doc"), out.array("x"))
        sort_by_word(block.cells, cells)
        return cells

    def _sweep(
        self,
        visit: Visit,
        out: Out,
        cells: CellsByWord,
        beta: float,
        chosen: np.ndarray,
        priors: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """Sweep the cells once and return scores of inactive topics.

        ``theta`` of the new state holds the documents' counts before and after.

        Parameters
        ----------
        chosen
            int32[D], the row of the scores of each document that looks at inactive topics, or -1.
        priors
            Those of ``_priors``.

        Returns
        -------
        float32[rows, columns], a part of the workspace.
        """
        block = visit.block
        phi = visit.rows["phi"]
        first = visit.key.pass_number == 0
        new = out.state
        old = out.state if first else visit.state
        topics = new["topics"]
        before = old["topics"]
        theta = new["theta"]
        likely = out.array("likely")
        # padding: an infinite lam gives topics beyond K no share
        lam = np.full(self.columns, np.inf, np.float32)
        used = self.shape.topics
        lam[:used] = visit.totals["phi"][:used] + self.shape.words * beta
        inverse = (1.0 / lam).astype(np.float32)
        # alpha of the active topics, which the kernel's theta includes
        alphas, row_of = priors
        active = alphas[0][topics] if len(alphas) == 1 else alphas[row_of[:, None], topics]
        tokens = active_topics.document_tokens(cells, block.n_docs)
        mass = (tokens + active.sum(1)).astype(np.float32)
        changed, lanes = np.nonzero(before != topics)
        changed_ends = np.searchsorted(changed, np.arange(block.n_docs + 1))
        looking = int(chosen.max(initial=-1)) + 1
        scores = out.array("scores", (looking, self.columns))
        scores[:] = 0.0
        theta += active
        documents = kernels.Documents(
            topics, before, changed_ends, lanes.astype(np.uint16), theta, lam[topics], mass
        )
        reach = self.options.reach if looking else -1.0
        bids = kernels.Bids(chosen, scores, inverse, np.float32(reach))
        step = self._step(alphas, beta, first)
        messages = kernels.Messages(old["messages"], new["messages"], likely)
        ends = np.cumsum(np.minimum(2 * self.width * np.diff(cells.ptr), self.columns))
        parts = DeltaParts(out, "phi", ends, LANES, phi.at_once)
        for a, b in parts:
            rows = phi.part(a, b)
            entries = kernels.sweep(
                CellsByWord(cells.ptr[a : b + 1], cells.doc, cells.x),
                kernels.PhiRows(rows.base, rows.index),
                documents,
                bids,
                step,
                messages,
                RowEntries(*parts.arrays),
            )
            parts.add(entries)
        theta -= active
        out.stats["loglik"][0] = sum_x_log(likely, cells.x, 0, block.n_cells, 1.0, 0.0)
        out.stats["tokens"][0] = block.tokens
        return scores

    def _step(self, alphas: np.ndarray, beta: float, first: bool) -> kernels.Step:
        """Collect the constants of a message update."""
        options = self.options
        return kernels.Step(
            np.float32(alphas[:, : self.shape.topics].min()),
            np.float32(beta),
            np.float32(STORED[options.message_bits][1]),
            np.float32(options.band),
            np.float32(options.step),
            first,
            self.columns // GATHERED,
        )
