"""The engine protocol: rows in, deltas out.

An engine is one algorithm, configured.  It opens no file, prints nothing, never loops over blocks and starts no thread.
The pass loop (training/) gives ``process`` a block, the rows of each table that the block touches, the block's own
memory of its last visit, and leased buffers; the engine fills the buffers.  A visit is pure: ``process`` is called from
several threads (or processes, or machines) at once on one engine object, so it keeps nothing on ``self``, and scratch space
comes from ``out.scratch``.

What a table is, and when its deltas enter, stands in tables/spec.py.  Rows and totals are padded with zeros to
``padded(columns)``, a multiple of 16 floats (one cache line, one AVX-512 register); padding stays zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.shapes import ArraySpec, BlockShape, Shape
from topicstream.kernels.constants import Constants
from topicstream.options import option
from topicstream.tables.spec import (
    LANES,
    PackedRows,
    Rows,
    Rule,
    Scratch,
    SparseDelta,
    TableSpec,
    padded,
)

if TYPE_CHECKING:
    from topicstream.tables.table import Table

__all__ = [
    "LANES", "ArraySpec", "BlockShape", "Engine", "Key", "Layout", "Objective", "Options", "Out", "PackedRows", "Phase",
    "Rows", "Rule", "Scratch", "Shape", "SparseDelta", "TableSpec", "learns_priors", "option", "option_fields", "padded",
]  # fmt: skip


@dataclass
class Out:
    """Where ``start`` and ``process`` write.

    delta    name -> float32[U, padded(K)] (uninitialised: write all of it) for dense deltas; the engine assigns a
             SparseDelta (or the packed table's list of moves) for the others
    memory   name -> array of the spec's exact shape for this block, uninitialised; for per "block" specs an array of the
             limit: assign ``out.memory[name] = out.memory[name][:n]`` (or another array of the dtype) to say how much is
             kept
    stats    name -> float64 array, zeroed; summed over blocks in block order
    scratch  reused by this thread's next block
    keep     like scratch, but left alone until the round has ended (for deltas)
    """

    delta: dict[str, Any]
    memory: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    scratch: Scratch
    keep: Scratch


class Key(NamedTuple):
    """Random numbers: ``rng.stream(seed, pass_number, block.first_doc + row)``.  The start is pass 0."""

    seed: int
    pass_number: int
    phase: str = ""


@dataclass(frozen=True)
class Phase:
    """A stretch of passes in which an engine does one thing.

    name     ``Key.phase`` of its visits
    passes   how many; None (only of the last phase): until the run stops.  Where the last has a number, the run ends with it
    reads, writes   tables whose rows a visit sees, and tables that get deltas; None: all
    steps    whole-table steps in the place of visits: a pass is one call of ``Engine.steps``
    """

    name: str = "train"
    passes: int | None = None
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    steps: bool = False


class Objective(NamedTuple):
    """What a pass reports and what stops a run: the statistic ``total`` a unit of the statistic ``weight``.

    ``perplexity`` is exp(-total / weight), anything else total / weight.
    """

    name: str = "perplexity"
    total: str = "loglik"
    weight: str = "tokens"

    def value(self, stats: Mapping[str, np.ndarray]) -> float | None:
        """None where the pass has no such statistics."""
        if self.total not in stats or self.weight not in stats or not stats[self.weight][0] > 0:
            return None
        mean = stats[self.total][0] / float(stats[self.weight][0])
        return float(np.exp(-mean)) if self.name == "perplexity" else float(mean)


@dataclass(frozen=True)
class Layout:
    """How a pass is cut: a function of corpus shape, K and engine, recorded before pass 1 and kept on resume."""

    block_cells: int
    block_docs: int
    round_blocks: int


@dataclass(frozen=True)
class Options:
    """Options every engine has.  None means the engine's own default, a function of K and the corpus."""

    alpha: float | None = option(None, "document-topic prior, per topic (default: the engine's)", min=0.0)
    beta: float | None = option(None, "topic-word prior, per word (default: the engine's)", min=0.0)
    learn_priors: bool | None = option(False, "learn asymmetric alpha and symmetric beta while training", decided=True)


def learns_priors(alpha: float | None, beta: float | None, said: bool | None) -> bool:
    """Whether priors are learned: as ``said``, else where neither is given."""
    return alpha is None and beta is None if said is None else said


TOPICS = 100  # where nobody says how many


class Engine:
    """Base of all engines.  A subclass sets the class attributes and defines ``process`` (and what else it needs).

    name, cites    as ``topics engines`` lists them; cites names paper, authors and equation or figure
    Options        a frozen dataclass derived from ``Options``
    prior_defaults what alpha (a topic) and beta (a word) are where nobody says, as the help prints them: a number, or one over K
    on_vectors     whether it takes a store of vectors, and nothing else; then it begins itself: ``begin``, ``start_rows``
    takes_seeds    whether seed words may be beside its table ``phi``
    judged_by_completion   how held-out documents are judged while it trains (``--eval-every``): by completion, or as whole points
    starts         starts it can make, the first is the default (or ``first_start``): ``random`` (a random topic a cell or token),
                   ``documents``, ``kmeans``, ``best``, ``anchors``, ``warm``
    best_from      tokens of a mean document from which on it begins with ``best`` where topics are few, in the place of ``documents``
    random_topics  whether its ``random`` start takes random topics, as a seed table, and draws nothing itself
    start_from     ``visit``: pass 0 calls ``start`` on every block with REPLACE;  ``table``: the seed table itself,
                   scaled to the corpus, is the first table and no pass 0 is made;  ``empty``: tables begin at zero
    axes           the axes that it looks at beside words and documents (``authors``, ``labels``, ``links``)
    alpha_bounds   least and most alpha a topic that moments can give, where it comes from them; a run that ends there warns
    topics_axis    the axis whose ids have a topic each, the last ones of the model, which bear their names; empty: none
    shown          the tables that a model stores; ``phi`` holds the topics
    shown_params   the params, of one or two dimensions, that a model stores beside alpha and beta
    objective      what a pass reports and what stops a run
    order          order of a pass: ``sequential`` or ``shuffled``
    default_passes, default_tol   stopping rule unless the user says otherwise: passes at most, and the change of running
                   perplexity below which it stops, as ``--tol`` takes it (0: never)
    """

    name: ClassVar[str] = ""
    prior_defaults: ClassVar[tuple[str, str]] = ("", "")
    best_from: ClassVar[float] = np.inf
    random_topics: ClassVar[bool] = False
    cites: ClassVar[str] = ""
    Options: ClassVar[type[Options]] = Options
    on_vectors: ClassVar[bool] = False
    takes_seeds: ClassVar[bool] = True
    judged_by_completion: ClassVar[bool] = True
    starts: ClassVar[tuple[str, ...]] = ("documents", "random", "kmeans", "best", "anchors", "warm")
    start_from: str = "visit"
    axes: ClassVar[tuple[str, ...]] = ()
    alpha_bounds: ClassVar[tuple[float, float] | None] = None
    topics_axis: ClassVar[str] = ""
    shown: ClassVar[tuple[str, ...]] = ("phi",)
    shown_params: ClassVar[tuple[str, ...]] = ()
    objective: ClassVar[Objective] = Objective()
    order: str = "sequential"
    default_passes: ClassVar[int] = 200
    default_tol: ClassVar[float | str] = "0.1%"
    accepts_weights: ClassVar[bool] = True
    default_alpha: ClassVar[float] = 0.1
    default_alpha_sum: ClassVar[float | None] = None
    """alpha of all topics together, where the default is said so"""
    default_beta: ClassVar[float] = 0.01

    def __init__(self, shape: Shape, options: Any) -> None:
        self.shape, self.options = shape, options

    @classmethod
    def n_topics(cls, axes: Mapping[str, int], options: Any, wanted: int | None) -> int:
        """The number of topics of a run; wanted: as the user says, None: not said.  axes: ids of each of the engine's axes.
        UsageError where an engine whose topics follow from the corpus has another number."""
        return TOPICS if wanted is None else wanted

    @property
    def first_start(self) -> str:
        """The start of a run that names none."""
        return self.starts[0]

    @property
    def unsettled(self) -> int:
        """Passes after which it begins to learn what it has not before: no run has settled sooner."""
        return 0

    # -- what it keeps ---------------------------------------------------------------------------------------------
    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Big tables by name.  ``phi`` (unnormalised topic-word counts, without the prior) is what a model stores."""
        return {"phi": TableSpec(mass="row")}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """In their order; the last one ends when the run does."""
        return (Phase(),)

    def constants(self, name: str) -> Constants | None:
        """What stays beside a table and is added where its rows are gathered."""
        return self.shape.seeds if name == "phi" else None

    def phase_of(self, pass_number: int) -> tuple[Phase, bool]:
        """The phase of a pass (1 is the first), and whether it is the phase's last."""
        left = pass_number
        for phase in self.phases[:-1]:
            if left <= (phase.passes or 0):
                return phase, left == phase.passes
            left -= phase.passes or 0
        return self.phases[-1], left == self.phases[-1].passes

    @property
    def needs_passes(self) -> int | None:
        """How many passes it makes where its last phase has a number of them, too: no fewer make a model, no more are made."""
        counts = [phase.passes for phase in self.phases]
        return sum(n or 0 for n in counts) if counts[-1] is not None else None

    @property
    def memory(self) -> Mapping[str, ArraySpec]:
        """Block memory by name."""
        return {}

    @property
    def stats(self) -> Mapping[str, int]:
        """Statistics by name -> length.  ``loglik`` (sum over cells of x log p, nats) and ``tokens`` are expected:
        running perplexity is exp(-loglik / tokens)."""
        return {"loglik": 1, "tokens": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        """Small named arrays that ``process`` reads and only ``end_round`` / ``end_pass`` change; checkpointed.
        ``alpha`` float64[K] (per topic) and ``beta`` float64[1] (per word) are always there: the model's priors."""
        k, alpha, beta = self.shape.topics, self.options.alpha, self.options.beta
        if alpha is None:
            alpha = self.default_alpha if self.default_alpha_sum is None else self.default_alpha_sum / k
        beta = self.default_beta if beta is None else beta
        return {"alpha": np.full(k, alpha, np.float64), "beta": np.array([beta], np.float64)}

    def new_stats(self) -> dict[str, np.ndarray]:
        """Zeroed statistics."""
        return {name: np.zeros(n) for name, n in self.stats.items()}

    def memory_of_pass(self, block: BlockShape) -> int | None:
        """Bytes that the memory of all blocks takes at most, where that is less than each block at its limit; block: its
        cells are those of the corpus, its axes the largest of a block's."""
        return None

    def scratch_bytes(self, block: BlockShape) -> int:
        """Scratch a thread needs for a block of that shape, beside out's own arrays and what is kept for the round."""
        return 0

    def keep_bytes(self, block: BlockShape) -> int:
        """What ``out.keep`` holds of a block of that shape until its round has ended: the sparse deltas at their largest."""
        return 0

    # -- how it wants to be driven: functions of the problem alone, never of the machine ---------------------------
    def block_cells(self) -> int:
        """Cells an engine block aims at: 2^16 to 2^20, at least 64 blocks a pass where possible; no more than 2^26 / K, so
        that the rows of a block do not grow with K without bound (512 MB must do for a thousand topics)."""
        cells = min(max(self.shape.cells // 64, 1 << 16), 1 << 20)
        return int(max(min(cells, (1 << 26) // padded(self.shape.topics)), 1 << 12))

    def block_docs(self) -> int:
        """Most documents of an engine block."""
        return 1 << 16

    def round_blocks(self) -> int:
        """Blocks of a round: the width to which any number of threads gives the same bits."""
        return 8

    def layout(self) -> Layout:
        """The three together."""
        return Layout(self.block_cells(), self.block_docs(), self.round_blocks())

    # -- what it does ----------------------------------------------------------------------------------------------
    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        """First visit of a block: write its contribution to ``out.delta`` and its memory.

        rows["phi"] are rows of the seed table (topics to start from, float32, unnormalised, positive where a topic may
        take a word), totals["phi"] its column sums; both empty mappings for the start ``random``.
        """
        raise NotImplementedError(f"{type(self).__name__}.start")

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
        """One visit of a block.  totals: name -> float64[padded(K)] column sums of each table."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def blend(self, params: Mapping[str, np.ndarray], docs: int) -> tuple[float, float]:
        """BLEND only: (rho, scale) of the round that has just ended, which saw ``docs`` documents."""
        raise NotImplementedError(f"{type(self).__name__}.blend")

    def end_round(self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> None:
        """After each round's scatter; stats are the round's sums.  May change params in place."""

    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """After each pass; stats are the pass's sums.  May change params in place; what it returns goes into the
        history (plain numbers by name).  For each packed table, stats also has ``NAME.counts`` and ``NAME.times``, the
        histogram of its non-zero entries, ``NAME.bytes``, and ``NAME.constants``, its counts where it has constants;
        counts and totals are without the constants."""
        return {}

    def steps(
        self, tables: Mapping[str, Table], params: dict[str, np.ndarray], key: Key, stats: Mapping[str, np.ndarray]
    ) -> None:
        """One pass of a phase of ``steps``: changes whole tables; adds to stats."""
        raise NotImplementedError(f"{type(self).__name__}.steps")

    def end_phase(
        self, phase: Phase, tables: Mapping[str, Table], params: dict[str, np.ndarray]
    ) -> Iterable[str] | None:
        """After the last pass of a phase that has one: may read tables (``pieces``, ``dense``) and rewrite them by ranges
        (``rewrite``), and change params in place.  What it returns is said, a line each."""
        return None

    def warnings(self, record: Mapping[str, Any]) -> list[str]:
        """What a user should hear of a pass's history record, a line each."""
        return []

    def takes_sample(self, pass_number: int) -> bool:
        """Whether the packed tables after this pass are one of the samples whose mean the model stores."""
        return False

    def end_pass_rows(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], rows: Iterable[tuple[int, np.ndarray]]
    ) -> dict[str, float]:
        """After ``end_pass``, for what needs the whole table ``phi``: rows yields (first row, rows [n, P]) in order.

        Only called where an engine defines it; what it returns goes into the history too.
        """
        return {}


    # -- of vectors ------------------------------------------------------------------------------------------------
    def begin(self, sample: np.ndarray, seed: int, params: dict[str, np.ndarray]) -> None:
        """Before pass 0: what the start needs, out of some points, into params."""

    def start_rows(self, name: str, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """A table where a run that makes no pass 0 begins, padded."""
        raise NotImplementedError(f"{type(self).__name__}.start_rows")

    def model_rows(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """What stands in the place of the topics of a model without a table ``phi``: [W, K]."""
        raise NotImplementedError(f"{type(self).__name__}.model_rows")

    def end_pass_tables(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], tables: Mapping[str, Table]
    ) -> dict[str, float]:
        """After ``end_pass``, for what needs whole tables; what it returns goes into the history too."""
        return {}


def option_fields(options: type[Options]) -> dict[str, Any]:
    """name -> dataclass field of every option of an engine, defaults first declared first."""
    return {f.name: f for f in options.__dataclass_fields__.values() if f.default is not MISSING}
