"""The engine protocol: the declarations and methods of one training algorithm.

A pass goes over the corpus block by block. For each block the driver (training/) gathers the table
rows that the block touches and hands them, with the block's state, to ``process``. The deltas that
come back are added to the tables at the end of a round. An engine opens no file, prints nothing,
never loops over blocks and starts no thread.

A visit is pure: ``process`` is called from several threads, processes or machines at once on one
engine object. It stores nothing on ``self``, writes only to its ``Out`` and draws random numbers
only from its ``Key``.

Tables and their rules are described in numeric/tables/spec.py. Rows and totals are padded with
zeros to ``padded(columns)``, a multiple of 16 numbers. Padding stays zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from topicstream.base.errors import UsageError
from topicstream.base.options import option
from topicstream.corpus.block import Block
from topicstream.engines.about import TOPICS, About, Objective, Priors
from topicstream.engines.phases import Phase, passes_needed, phase_of
from topicstream.engines.shapes import ArraySpec, BlockShape, Buffer, Shape
from topicstream.numeric.kernels.dirichlet import exp, log
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
    """The source of a visit's random numbers.

    Document ``row`` of a block draws from ``rng.stream(seed, pass_number, block.first_doc + row)``.

    Attributes
    ----------
    seed
        The run's ``--seed``.
    pass_number
        Number of the pass, from 1; the start is pass 0.
    phase
        ``Phase.name`` of the pass.
    """

    seed: int
    pass_number: int
    phase: str = ""


class Visit(NamedTuple):
    """The input of a visit: one block with its rows, state and parameters.

    Attributes
    ----------
    block
        The documents, as cells over the block's own words.
    rows
        Name of a table -> the rows that the block touches: ``Rows``, or ``PackedRows`` of a packed
        table. In ``start`` only ``phi``, rows of the seed topics, float32, unnormalised; nothing
        when the start is random.
    totals
        Name of a table -> float64[padded(columns)], its column sums.
    state
        Name -> what the last visit of this block left in ``Out.state``. Empty in ``start``.
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
    """The output of a visit: deltas, new state and statistics.

    Attributes
    ----------
    delta
        Name of a table -> float32[U, padded(columns)], uninitialised: write all of it. For tables
        with sparse deltas the engine assigns a ``SparseDelta``.
    state
        Name -> an uninitialised array of the shape that ``Engine.state`` declares. Arrays per
        ``block`` have the length of their limit: assign ``out.state[name] = out.state[name][:n]``
        to keep n entries.
    stats
        Name -> float64 array of zeros; summed over blocks in block order.
    merge
        ``merge(table, first, delta)`` takes the sparse delta of some rows, local row ``first`` and
        on, at once; what it has taken may be overwritten, and is not assigned to ``delta``. None:
        deltas are taken whole.
    engine, block
        What declares the workspace: the engine, and the largest sizes of a block.
    scratch, round_scratch
        Memory of ``array``: for buffers of the visit, and for those with ``keep``.
    """

    delta: dict[str, Any]
    state: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    engine: Engine
    block: BlockShape
    scratch: Scratch = field(default_factory=Scratch)
    round_scratch: Scratch = field(default_factory=Scratch)
    merge: Callable[[str, int, SparseDelta], None] | None = None

    @cached_property
    def _workspace(self) -> Mapping[str, Buffer]:
        return self.engine.workspace(self.block)

    def array(
        self, name: str, shape: int | tuple[int, ...] | None = None, dtype: Any = None
    ) -> np.ndarray:
        """Return an uninitialised workspace array.

        The array is valid until the visit ends, or until the round ends where the buffer has
        ``keep``.

        Parameters
        ----------
        name
            A buffer of ``Engine.workspace``.
        shape, dtype
            Those of the buffer by default. They may ask for fewer bytes than it has, not for more,
            because the memory plan counts what is declared.

        Raises
        ------
        ValueError
            The array takes more bytes than the buffer.
        """
        buffer = self._workspace[name]
        spec = buffer
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
        scratch = self.round_scratch if buffer.keep else self.scratch
        return scratch.array(name, spec.shape, spec.dtype)


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
        Sums over the pass. For each packed table also ``NAME.counts`` and ``NAME.times``, the
        histogram of its non-zero entries, ``NAME.bytes``, and ``NAME.constants``, its counts where
        it has constants.
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
    """The partition of a pass into blocks and rounds.

    It is a function of the corpus, K and the options, never of the machine, because it decides the
    bits of a result. It is recorded before pass 1 and reused when a run is resumed.

    Attributes
    ----------
    block_cells, block_docs
        Most cells and documents of a block.
    round_blocks
        Number of blocks of a round.
    """

    block_cells: int
    block_docs: int
    round_blocks: int


@dataclass(frozen=True)
class Options:
    """Options that every engine has.

    None means the engine's default, a function of K and the corpus.
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
    """Decide whether to learn priors: as requested, else if neither prior is set."""
    if learn is not None:
        return learn
    return alpha is None and beta is None


class RowSource(Protocol):
    """Rows of a table with the constants beside it.

    Attributes
    ----------
    totals
        float64[P], the column sums.
    """

    totals: np.ndarray

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill ``out``, float32, with the rows of ascending word ids."""


class Engine:
    """Base class of all engines.

    An engine defines ``process``, usually ``start``, and whatever else differs from the defaults of
    its fourteen methods.

    Parameters
    ----------
    shape
        The training problem: sizes of the corpus and number of topics.
    options
        An instance of the class's ``Options``.

    Attributes
    ----------
    name
        The engine's name, as in ``--algo``.
    cites
        The paper with its equation or figure.
    Options
        A frozen dataclass derived from ``Options``.
    about
        Facts that commands and reports need before the engine is configured.
    starts_by_words
        True if ``start`` takes the rows of the seed topics a part at a time (``rows["phi"].part``),
        so that they need not fit memory.
    """

    name: ClassVar[str] = ""
    cites: ClassVar[str] = ""
    Options: ClassVar[type[Options]] = Options
    about: ClassVar[About] = About()
    starts_by_words: ClassVar[bool] = False
    options: Any

    def __init__(self, shape: Shape, options: Any) -> None:
        self.shape = shape
        self.options = options
        if options.learn_priors and not self.about.learns_priors:
            raise UsageError(f"{self.name} does not learn its priors; leave --learn-priors out")

    def registered_start(self, name: str) -> str:
        """Return the entry point that serves a name of ``about.starts``."""
        return name

    # -- declarations
    @property
    def tables(self) -> Mapping[str, TableSpec]:
        """Declare the tables by name.

        ``phi`` (unnormalised topic-word counts, without the prior) is what a model stores.
        """
        return {"phi": TableSpec(mass="row")}

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        """Declare the arrays stored on disk for each block between its visits."""
        return {}

    @property
    def smaller_state(self) -> str:
        """Describe how to store less per block and the cost in quality.

        The text is shown to users. It is empty if there is no such alternative.
        """
        return ""

    @property
    def stats(self) -> Mapping[str, int]:
        """Declare the length of each statistic by name.

        ``loglik`` (sum over cells of x log p, in nats) and ``tokens`` are expected: running
        perplexity is exp(-loglik / tokens).
        """
        return {"loglik": 1, "tokens": 1}

    def workspace(self, block: BlockShape) -> Mapping[str, Buffer]:
        """Declare the arrays that a visit of a block works on, by name.

        ``Out.array`` hands them out, and the memory plan adds up their bytes. A buffer with
        ``keep`` stays as it is until the round ends, as sparse deltas must. Temporary NumPy arrays
        belong here too, under any name: they are counted but never handed out.
        """
        return {}

    @property
    def layout(self) -> Layout:
        """Choose the sizes of blocks and rounds.

        By default blocks have 2^16 to 2^20 cells, at least 64 of them a pass where possible, and at
        most 2^26 / K cells, so that the rows of a block do not grow with K without bound. A round
        has 8 blocks.
        """
        cells = min(max(self.shape.cells // 64, 1 << 16), 1 << 20)
        cells = min(cells, (1 << 26) // padded(self.shape.topics))
        return Layout(max(cells, 1 << 12), 1 << 16, 8)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """List the phases in order.

        If the last phase has a number of passes, a run makes exactly the passes of all phases.
        """
        return (Phase(),)

    def initial_params(self) -> dict[str, np.ndarray]:
        """Create the small named arrays that visits read.

        Only ``end_round``, ``end_pass`` and ``end_phase`` change them.

        ``alpha`` float64[K] (per topic) and ``beta`` float64[1] (per word) are always there: the
        model's priors.
        """
        topics = self.shape.topics
        priors = self.about.priors
        options = self.options
        alpha = priors.alpha_of(topics) if options.alpha is None else options.alpha
        beta = priors.beta if options.beta is None else options.beta
        return {"alpha": np.full(topics, alpha, np.float64), "beta": np.array([beta], np.float64)}

    def model_beta(self, params: Mapping[str, np.ndarray]) -> float:
        """Return the beta that the model has, which predicts new documents."""
        return float(params["beta"][0])

    # -- work
    def start(self, visit: Visit, out: Out) -> None:
        """Visit a block for the first time and write its contribution and state."""
        raise NotImplementedError(f"{type(self).__name__}.start")

    def process(self, visit: Visit, out: Out) -> None:
        """Visit a block once and write its deltas, new state and statistics."""
        raise NotImplementedError(f"{type(self).__name__}.process")

    def visit_cost(self, number: int, pass_number: int) -> float:
        """Estimate the time of a visit of block ``number``, beside those of other blocks.

        Workers begin with the longest visits of a round.
        """
        return 1.0

    def end_round(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], docs: int
    ) -> tuple[float, float]:
        """Update the parameters after a round's visits, before its deltas are applied.

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
        """Update the parameters after a pass.

        Returns
        -------
        Plain numbers by name, for the history.
        """
        return {}

    def end_phase(self, end: PassEnd) -> None:
        """Work on whole tables at the end of a phase.

        It is called after the last pass of a phase, or in place of each pass of a phase of
        ``steps``.
        """

    def likelihoods(
        self, params: Mapping[str, np.ndarray], rows: RowSource | None
    ) -> Callable[[Block], np.ndarray]:
        """Make a function that scores the documents of a block as whole points.

        Engines define it whose ``about.completion`` is False.

        Parameters
        ----------
        params
            Parameters of the model.
        rows
            Rows of ``phi``. None for an engine on vectors.

        Returns
        -------
        A function of a block that returns log p(x) of each document with a word, float64[D].
        """
        raise NotImplementedError(f"{type(self).__name__}.likelihoods")


class WorkspaceBytes(NamedTuple):
    """Bytes of a visit's workspace.

    Attributes
    ----------
    visit
        Buffers that are free when the visit ends.
    deltas
        Buffers of deltas, which are free when the round ends.
    delta_parts
        The same buffers where ``Out.merge`` takes deltas in parts.
    """

    visit: int
    deltas: int
    delta_parts: int


def workspace_bytes(engine: Engine, block: BlockShape) -> WorkspaceBytes:
    """Compute the bytes of a visit's workspace."""
    buffers = engine.workspace(block).values()
    of_deltas = [buffer for buffer in buffers if buffer.keep]
    return WorkspaceBytes(
        sum(buffer.nbytes for buffer in buffers if not buffer.keep),
        sum(buffer.nbytes for buffer in of_deltas),
        sum(buffer.part_bytes for buffer in of_deltas),
    )


def new_stats(engine: Engine) -> dict[str, np.ndarray]:
    """Create zeroed statistics."""
    return {name: np.zeros(length) for name, length in engine.stats.items()}


def option_fields(options: type[Options]) -> dict[str, Field[Any]]:
    """List the dataclass fields of an engine's options by name, in declaration order."""
    return {f.name: f for f in options.__dataclass_fields__.values() if f.default is not MISSING}


class SteppingEngine(Engine):
    """Base class of engines that blend each round into their tables.

    The weight of step t = 0, 1, ... is rho_t = (tau + t)^-kappa.
    """

    def _rho(self, params: Mapping[str, np.ndarray]) -> float:
        """Compute the weight of the next step."""
        return float(exp(-self.options.kappa * log(float(self.options.tau + params["step"][0]))))

    def end_round(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], docs: int
    ) -> tuple[float, float]:
        rho = self._rho(params)
        params["step"][0] += 1.0
        return rho, self.shape.docs / max(docs, 1)


class VectorEngine(Engine):
    """Base class of engines for dense points (``about.dense``).

    Their first parameters are computed from a sample of points.
    """

    def registered_start(self, name: str) -> str:
        return "points"

    def begin(self, sample: np.ndarray, seed: int, params: dict[str, np.ndarray]) -> None:
        """Compute the parameters that the start needs, before pass 0.

        Parameters
        ----------
        sample
            float64[S, n], some points of the store.
        seed
            Random seed of the run.
        params
            The parameters, which are filled.
        """
        raise NotImplementedError(f"{type(self).__name__}.begin")

    def start_rows(self, table: str, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute a table's first padded rows in a run without pass 0."""
        raise NotImplementedError(f"{type(self).__name__}.start_rows")

    def model_rows(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute the rows that a model stores as topics, float64[n, K]."""
        raise NotImplementedError(f"{type(self).__name__}.model_rows")
