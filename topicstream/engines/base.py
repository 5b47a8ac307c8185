"""The engine protocol: one training algorithm, what it declares and what it does.

A pass goes over the corpus block by block.  For each block the driver (training/) gathers the rows
of the tables that the
block touches, hands them with the block's own state to ``process``, and adds the deltas that come
back to the tables at the
end of a round.  An engine opens no file, prints nothing, never loops over blocks and starts no
                 thread.

A visit is pure: ``process`` is called from several threads, processes or machines at once on one
engine object.  It stores
nothing on ``self``, writes only to its ``Out``, and draws random numbers only from its ``Key``.

Tables and their rules are described in numeric/tables/spec.py.  Rows and totals are padded with
zeros to
``padded(columns)``, a
multiple of 16 numbers; padding stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from topicstream.base.errors import UsageError
from topicstream.base.options import option
from topicstream.corpus.block import Block
from topicstream.engines.about import TOPICS, About, Objective, Priors
from topicstream.engines.shapes import ArraySpec, BlockShape, Buffer, Shape
from topicstream.numeric.tables.spec import (
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
    from topicstream.numeric.tables.table import Table


__all__ = [
    "LANES",
    "TOPICS",
    "About",
    "ArraySpec",
    "BlockShape",
    "Buffer",
    "Engine",
    "Key",
    "Layout",
    "Objective",
    "Options",
    "Out",
    "PackedRows",
    "PassEnd",
    "Phase",
    "Priors",
    "Rows",
    "Rule",
    "Scratch",
    "Shape",
    "SparseDelta",
    "TableSpec",
    "VectorEngine",
    "Visit",
    "learns_priors",
    "new_stats",
    "option",
    "option_fields",
    "padded",
    "passes_needed",
    "phase_of",
    "workspace_bytes",
]


class Key(NamedTuple):
    """The source of random numbers: ``rng.stream(seed, pass_number, block.first_doc + row)``.

    The start is pass 0.
    """

    seed: int
    pass_number: int
    phase: str = ""


class Visit(NamedTuple):
    """What a visit reads.

    Attributes
    ----------
    block
        The documents, as cells over the block's own words.
    rows
        Name of a table -> the rows that the block touches: ``Rows``, or ``PackedRows`` of a packed
        table.  In ``start``
        only ``phi``, rows of the seed topics, float32, unnormalised; nothing when the start is
        random.
    totals
        Name of a table -> float64[padded(columns)], its column sums.
    state
        Name -> what the last visit of this block left in ``Out.state``.  Empty in ``start``.
    params
        Small arrays by name: ``alpha`` float64[K], ``beta`` float64[1], and those of
        ``Engine.initial_params``.
    key
        Seed, number and phase of the pass.
    """

    block: Block
    rows: Mapping[str, Any]
    totals: Mapping[str, np.ndarray]
    state: Mapping[str, np.ndarray]
    params: Mapping[str, np.ndarray]
    key: Key


@dataclass
class Out:
    """What a visit writes.

    Attributes
    ----------
    delta
        Name of a table -> float32[U, padded(columns)], uninitialised: write all of it.  For tables
        with sparse deltas the
        engine assigns a ``SparseDelta``.
    state
        Name -> an uninitialised array of the shape that ``Engine.state`` declares.  Arrays per
        ``block`` have the length of
        their limit: assign ``out.state[name] = out.state[name][:n]`` to keep n entries.
    stats
        Name -> float64 array of zeros; summed over blocks in block order.
    """

    delta: dict[str, Any]
    state: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    engine: Engine
    block: BlockShape
    scratch: Scratch = field(default_factory=Scratch)
    kept: Scratch = field(default_factory=Scratch)

    @cached_property
    def _workspace(self) -> Mapping[str, Buffer]:
        return self.engine.workspace(self.block)

    def array(
        self, name: str, shape: int | tuple[int, ...] | None = None, dtype: Any = None
    ) -> np.ndarray:
        """An uninitialised array of the workspace, valid until the visit or (``keep``) the round
        ends.

        ``shape`` and ``dtype`` may ask for less than ``Engine.workspace`` declares; asking for more
        is an error, because the memory plan counts what is declared."""
        spec = buffer = self._workspace[name]
        if shape is not None or dtype is not None:
            spec = Buffer(
                buffer.shape if shape is None else shape,
                buffer.dtype if dtype is None else dtype,
                buffer.keep,
            )
        if spec is not buffer and spec.nbytes > buffer.nbytes:
            raise ValueError(
                f"{self.engine.name}: {name} takes {spec.nbytes} bytes, its workspace declares "
                f"{buffer.nbytes}"
            )
        return (self.kept if buffer.keep else self.scratch).array(name, spec.shape, spec.dtype)


@dataclass(frozen=True)
class Phase:
    """A stretch of passes in which an engine does one thing.

    Attributes
    ----------
    name
        ``Key.phase`` of its visits.
    passes
        How many passes it takes; None (only for the last phase): until the run stops.
    reads, writes
        Tables whose rows a visit sees, and tables that receive deltas; None: all.
    steps
        Whether a pass is one call of ``Engine.end_phase`` on whole tables, without visits.
    order
        Order of the blocks of a pass: ``sequential`` or ``shuffled``.
    start
        Of the first phase, how the tables begin: ``visit``: pass 0 calls ``start`` on every block;
        ``table``: ``phi`` is
        the seed topics themselves, scaled to the corpus;  ``empty``: all zeros.
    settles_after
        Passes before which the run has not settled, whatever perplexity does (priors are not
        learned yet, for example).
    """

    name: str = "train"
    passes: int | None = None
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    steps: bool = False
    order: str = "sequential"
    start: str = "visit"
    settles_after: int = 0


@dataclass
class PassEnd:
    """The end of a pass, as ``Engine.end_pass`` and ``Engine.end_phase`` see it.

    Attributes
    ----------
    key, phase
        Seed and number of the pass; its phase.
    params
        May be changed in place.
    stats
        Sums over the pass.  For each packed table also ``NAME.counts`` and ``NAME.times``, the
                             histogram of its non-zero
        entries, ``NAME.bytes``, and ``NAME.constants``, its counts where it has constants.
    totals
        Name of a table -> its column sums, without constants.
    tables
        The whole tables, to be read with ``pieces``; ``end_phase`` may also ``rewrite`` them.
    say
        Shows the user a line.
    step
        ``step(what, done, total, unit)`` shows how far long work is; it raises Interrupted where a
        signal asked to stop.
    """

    key: Key
    phase: Phase
    params: dict[str, np.ndarray]
    stats: Mapping[str, np.ndarray]
    totals: Mapping[str, np.ndarray]
    tables: Mapping[str, Table]
    say: Callable[[str], object]
    step: Callable[[str, int, int, str], None] = lambda *_: None


@dataclass(frozen=True)
class Layout:
    """How a pass is cut: most cells and documents of a block, and blocks of a round.

    A function of the corpus, K and the options, never of the machine: it decides the bits of a
    result.  It is recorded
    before pass 1 and kept when a run is resumed.
    """

    block_cells: int
    block_docs: int
    round_blocks: int


@dataclass(frozen=True)
class Options:
    """Options that every engine has.  None means the engine's own default, a function of K and the
    corpus.
    """

    alpha: float | None = option(
        None, "Document-topic Dirichlet prior, per topic (default: the engine's).", min=0.0
    )
    beta: float | None = option(
        None, "Topic-word Dirichlet prior, per word (default: the engine's).", min=0.0
    )
    learn_priors: bool | None = option(
        False, "Learn an asymmetric alpha and a symmetric beta during training.", decided=True
    )


def learns_priors(alpha: float | None, beta: float | None, learn: bool | None) -> bool:
    """Whether priors are learned: as asked for, else where neither is given."""
    return alpha is None and beta is None if learn is None else learn


class RowSource(Protocol):
    """Rows of a table with what stays beside it; totals: float64[P], of its columns."""

    totals: np.ndarray

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill ``out``, float32, with the rows of ascending word ids."""


class Engine:
    """Base of all engines: thirteen methods, of which ``process`` (and usually ``start``) have to
    be defined.

    Parameters
    ----------
    shape
        The training problem: sizes of the corpus, number of topics.
    options
        An instance of the class's ``Options``.

    Class attributes: ``name`` (of ``--algo``), ``cites`` (paper, equation or figure), ``Options``
    (a frozen dataclass derived from ``Options``) and ``about``."""

    name: ClassVar[str] = ""
    cites: ClassVar[str] = ""
    Options: ClassVar[type[Options]] = Options
    about: ClassVar[About] = About()
    options: Any

    def __init__(self, shape: Shape, options: Any) -> None:
        self.shape = shape
        self.options = options
        if options.learn_priors and not self.about.learns_priors:
            raise UsageError(f"{self.name} does not learn its priors; leave --learn-priors out")

    def registered_start(self, name: str) -> str:
        """Return the entry point that serves a name of ``about.starts``."""
        return name

    # -- what it declares
    # ------------------------------------------------------------------------------------------
    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Tables by name.

        ``phi`` (unnormalised topic-word counts, without the prior) is what a model stores.
        """
        return {"phi": TableSpec(mass="row")}

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        """What is kept of each block between its visits, on disk, by name."""
        return {}

    @property
    def smaller_state(self) -> str:
        """What keeps less of each block on disk, and its cost in quality, for people; "" where
        nothing does.
        """
        return ""

    @property
    def stats(self) -> Mapping[str, int]:
        """Statistics by name -> length.  ``loglik`` (sum over cells of x log p, nats) and
                                          ``tokens`` are expected:
        running perplexity is exp(-loglik / tokens)."""
        return {"loglik": 1, "tokens": 1}

    def workspace(self, block: BlockShape) -> Mapping[str, Buffer]:
        """Arrays that a visit of a block of that shape works on, by name: ``Out.array`` gives them
        out, and the memory
        plan adds up their bytes.  A buffer with ``keep`` stays as it is until the round ends, as
                                   sparse deltas must.
        Temporary arrays of NumPy belong here too, under any name: they are counted, never given
        out."""
        return {}

    @property
    def layout(self) -> Layout:
        """How a pass is cut.  Blocks of 2^16 to 2^20 cells, at least 64 of them a pass where
                               possible, and no more than
        2^26 / K cells, so that the rows of a block do not grow with K without bound; rounds of 8
        blocks."""
        cells = min(max(self.shape.cells // 64, 1 << 16), 1 << 20)
        return Layout(max(min(cells, (1 << 26) // padded(self.shape.topics)), 1 << 12), 1 << 16, 8)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """In their order.

        Where the last one has a number of passes, a run makes exactly those of all phases.
        """
        return (Phase(),)

    def initial_params(self) -> dict[str, np.ndarray]:
        """Small named arrays that visits read and only ``end_round``, ``end_pass`` and
        ``end_phase`` change.

        ``alpha`` float64[K] (per topic) and ``beta`` float64[1] (per word) are always there: the
        model's priors."""
        topics = self.shape.topics
        priors = self.about.priors
        options = self.options
        alpha = priors.alpha_of(topics) if options.alpha is None else options.alpha
        beta = priors.beta if options.beta is None else options.beta
        return {"alpha": np.full(topics, alpha, np.float64), "beta": np.array([beta], np.float64)}

    # -- what it does
    # ----------------------------------------------------------------------------------------------
    def start(self, visit: Visit, out: Out) -> None:
        """The first visit of a block: write its contribution to ``out.delta``, and its state."""
        raise NotImplementedError(f"{type(self).__name__}.start")

    def process(self, visit: Visit, out: Out) -> None:
        """One visit of a block: write its deltas, its new state and its statistics."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def end_round(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], docs: int
    ) -> tuple[float, float]:
        """After the visits of a round, before its deltas enter.

        Parameters
        ----------
        params
            May be changed in place.
        stats
            Sums over the round.
        docs
            Documents of the round's blocks.

        Returns
        -------
        (rho, scale) for BLEND tables; other tables ignore it.
        """
        return 1.0, 1.0

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        """After each pass; what it returns goes into the history (plain numbers by name)."""
        return {}

    def end_phase(self, end: PassEnd) -> None:
        """Work on whole tables: after the last pass of a phase, or in the place of each pass of a
        phase of ``steps``.
        """

    def likelihoods(
        self, params: Mapping[str, np.ndarray], rows: RowSource | None
    ) -> Callable[[Block], np.ndarray]:
        """Make a function that scores the documents of a block as whole points.

        It returns log p(x) of each document with a word, float64[D].  Engines define it whose
        ``about.completion`` is False.  rows: of ``phi``; None for an engine on vectors.
        """
        raise NotImplementedError(f"{type(self).__name__}.likelihoods")


def workspace_bytes(engine: Engine, block: BlockShape) -> tuple[int, int]:
    """Bytes that a visit of a block of that shape takes: (until it ends, until its round ends)."""
    buffers = engine.workspace(block).values()
    return sum(b.nbytes for b in buffers if not b.keep), sum(b.nbytes for b in buffers if b.keep)


def new_stats(engine: Engine) -> dict[str, np.ndarray]:
    """Zeroed statistics."""
    return {name: np.zeros(length) for name, length in engine.stats.items()}


def phase_of(phases: Sequence[Phase], pass_number: int) -> tuple[Phase, bool]:
    """The phase of a pass (1 is the first), and whether the pass is the phase's last."""
    number = pass_number
    for phase in phases[:-1]:
        if number <= (phase.passes or 0):
            return phase, number == phase.passes
        number -= phase.passes or 0
    return phases[-1], number == phases[-1].passes


def blocks_were_visited(phases: Sequence[Phase], passes: int) -> bool:
    """Tell whether any of the first passes, the start among them, visits the blocks."""
    if phases[0].start == "visit":
        return True
    return any(not phase_of(phases, number)[0].steps for number in range(1, passes + 1))


def passes_needed(phases: Sequence[Phase]) -> int | None:
    """How many passes make a model where the last phase has a number of them; None: as many as are
    asked for.
    """
    return None if phases[-1].passes is None else sum(phase.passes or 0 for phase in phases)


def option_fields(options: type[Options]) -> dict[str, Field[Any]]:
    """name -> dataclass field of every option of an engine, defaults first declared first."""
    return {f.name: f for f in options.__dataclass_fields__.values() if f.default is not MISSING}


class SteppingEngine(Engine):
    """Base of engines that blend each round into their tables: rho_t = (tau + t)^-kappa at step t =
    0, 1, ...
    """

    def _rho(self, params: Mapping[str, np.ndarray]) -> float:
        return float((self.options.tau + params["step"][0]) ** -self.options.kappa)

    def end_round(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], docs: int
    ) -> tuple[float, float]:
        rho = self._rho(params)
        params["step"][0] += 1.0
        return rho, self.shape.docs / max(docs, 1)


class VectorEngine(Engine):
    """Base of engines whose ``about.dense`` is True: their first parameters come from points."""

    def registered_start(self, name: str) -> str:
        return "points"

    def begin(self, sample: np.ndarray, seed: int, params: dict[str, np.ndarray]) -> None:
        """Before pass 0: put into params what the start needs.

        sample: float64[S, n], some points of the store.
        """
        raise NotImplementedError(f"{type(self).__name__}.begin")

    def start_rows(self, table: str, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """The rows, padded, with which a table begins in a run that makes no pass 0."""
        raise NotImplementedError(f"{type(self).__name__}.start_rows")

    def model_rows(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """What a model stores in the place of topics, float64[n, K]."""
        raise NotImplementedError(f"{type(self).__name__}.model_rows")
