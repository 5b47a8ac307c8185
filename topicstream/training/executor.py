"""The interface of an executor, which visits the blocks of a round and applies their deltas.

Threads of this process are the default (threads.py). The driver (passes.py) sees statistics and
params, never rows. An executor holds the tables and the blocks, visits the blocks of a round in any
order, and adds up their deltas, which are rounded so that the sum is exact. The bits of a result
therefore do not depend on who worked, nor on how many.

Everything that another process or machine needs for a visit can be pickled: the ``Job``, whose
corpus is read from its path; the key and params of the ``Assignment``; the rows (``Rows.portable``,
``PackedRows.portable``), totals and state of the ``Visit``. It sends back the arrays of ``Out``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from topicstream.base.cluster import Cluster
from topicstream.base.records import Json
from topicstream.corpus.block import Block
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import (
    BlockShape,
    Engine,
    Key,
    Layout,
    Out,
    Phase,
    Visit,
    new_stats,
    padded,
)
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.spec import TableSpec
from topicstream.numeric.tables.table import Table
from topicstream.training.plan import NO_SUMS, NOTHING, Allowance, StartMemory, Sums
from topicstream.training.starts.seeds import Seeds
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import FinishedTable, RunTables


class Remote(NamedTuple):
    """The workers of a scheduler, and the terms on which they work.

    Attributes
    ----------
    cluster
        The workers.
    folder
        Working folder of the run, which all machines reach.
    allowance
        Memory, threads (0: all that it has) and place of tables of each worker.
    """

    cluster: Cluster
    folder: Path
    allowance: Allowance


@dataclass(frozen=True)
class Job:
    """The work of an executor, which can be pickled for other processes.

    Attributes
    ----------
    engine, corpus, grid, layout
        The algorithm, the store, its blocks, and the sizes of blocks and rounds.
    block
        The largest sizes over the grid's blocks, which buffers must hold.
    workers
        Threads of this process, which also apply sums to tables.
    prefetch
        Number of storage blocks decoded ahead.
    spill
        Folder for the deltas of a round where they do not fit memory; None: they stay in memory.
    sums
        With ``spill``: bytes for the sums of deltas that merge as blocks end; none: deltas wait for
        the end of the round.
    seed_rows
        Rows of seed topics that a worker holds at a time, where its engine takes them in parts.
    start
        Memory of the start, with which another process plans, too.
    seeded
        Whether the start visits blocks with rows of a seed table.
    remote
        With ``--scheduler``: its workers, for whose ``executor`` this job is. It is left out when
        the job is sent to another process.
    """

    engine: Engine
    corpus: Corpus
    grid: Grid
    layout: Layout
    block: BlockShape
    workers: Workers
    prefetch: int = 2
    spill: Path | None = None
    sums: Sums = NO_SUMS
    seed_rows: int = 1 << 31
    start: StartMemory = NOTHING
    seeded: bool = True
    remote: Remote | None = None


@dataclass(frozen=True)
class Assignment:
    """The part of a pass that all its visits share.

    Attributes
    ----------
    key, phase
        Source of random numbers (seed, pass, phase), and that phase.
    params
        The engine's small arrays by name, read only.
    seeds
        The seed table of a start (pass 0), or None.
    old, new
        Files of block state: of the last pass, and of this one.
    reads
        Names of the tables that the phase reads.
    targets
        The tables, or successors of REPLACE tables, that the deltas enter.
    """

    key: Key
    phase: Phase
    params: Mapping[str, np.ndarray]
    seeds: Seeds | None
    old: BlockMemory | None
    new: BlockMemory | None
    reads: tuple[str, ...] = ()
    targets: Mapping[str, Table] = field(default_factory=dict)

    def for_tables(self, tables: RunTables) -> Assignment:
        """Return this assignment with the tables that the phase reads and writes."""
        receiving = dict(tables.current)
        if self.key.pass_number:
            # a REPLACE table is read while its successor is built up
            receiving |= tables.successors
        reads = tuple(tables.current) if self.phase.reads is None else self.phase.reads
        targets = {name: receiving[name] for name in tables.written(self.phase)}
        return replace(self, reads=reads, targets=targets)


class Report(NamedTuple):
    """The result of a visit that the driver receives: documents and statistics."""

    docs: int
    stats: dict[str, np.ndarray]


def ids_of(block: Block, axis: str | None, spec: TableSpec) -> np.ndarray:
    """Return the ids of a block on an axis, int32[U], ascending.

    A table with a fixed number of rows has no axis, and all its ids are returned.
    """
    if axis is None:
        return np.arange(int(spec.rows), dtype=np.int32)
    return block.rows(axis).ids


def new_out(engine: Engine, block: Block) -> Out:
    """Allocate the output arrays of one visit, shared with no other visit.

    Other processes and machines use it.
    """
    shape = BlockShape.measure(block)
    delta = {}
    for name, spec in engine.tables.items():
        if spec.delta == "dense":
            rows = len(ids_of(block, spec.axis, spec))
            columns = padded(spec.n_columns(engine.shape.topics))
            delta[name] = np.zeros((rows, columns), np.float32)
    state = {name: np.zeros(spec.shape(shape), spec.dtype) for name, spec in engine.state.items()}
    return Out(delta, state, new_stats(engine), engine, shape)


def run_visit(engine: Engine, visit: Visit, out: Out) -> Out:
    """Visit one block and return ``out``.

    The visit is pure: it reads its arguments, writes nothing but ``out``, and gives the same bits
    wherever it runs.
    """
    if visit.key.pass_number == 0:
        engine.start(visit, out)
    else:
        engine.process(visit, out)
    return out


def shrink_table(target: Table, blend: tuple[float, float] | None) -> float:
    """Shrink a BLEND table before a round, and return the factor of its deltas.

    blend: (rho, scale), None for other tables, which stay.
    """
    if blend is None:
        return 1.0
    (rho, scale) = blend
    return rho * scale * target.blend(rho)


class Executor(abc.ABC):
    """Base class of executors, which visit blocks and apply deltas.

    The order of calls is ``place``; then for each pass ``begin``, ``visit`` and ``apply`` (once for
    each table that the phase writes) round by round, ``end`` and ``finish_pass``; ``free_buffers``
    between phases; at last ``release``. ``gather`` comes before rows are read, ``share`` after they
    were changed here, ``write_state`` before a checkpoint. Calls come from one thread.

    ``train(..., executor=make)`` takes any ``make(job: Job) -> Executor``. Entry points in the
    group ``topicstream.executors`` give such functions names.

    Examples
    --------
    >>> import topicstream
    >>> from topicstream.training.threads import Threads
    >>> visited = []
    >>> class Counting(Threads):
    ...     def compute(self, visit, out):
    ...         visited.append(visit.block.n_docs)
    ...         return super().compute(visit, out)
    >>> given = {"topics": 2, "passes": 2, "executor": Counting, "progress": False}
    >>> _ = topicstream.train("corpus.zarr", "counted", **given)
    >>> sum(visited)  # a start and two passes over 360 documents
    1080
    """

    tables: RunTables

    def place(self, tables: RunTables) -> None:
        """Take over the tables of the run."""
        self.tables = tables

    @abc.abstractmethod
    def begin(self, blocks: np.ndarray) -> None:
        """Begin a pass over these blocks.

        Parameters
        ----------
        blocks
            int64[], block numbers in visiting order; after a resume, those that are left.
        """

    @abc.abstractmethod
    def visit(self, position: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        """Visit the blocks of a round and return their reports in block order.

        Parameters
        ----------
        position
            Index of the first block in the pass.
        group
            int64[], numbers of the blocks.
        assignment
            Shared by all visits of the pass.
        """

    @abc.abstractmethod
    def apply(
        self, name: str, target: Table, blend: tuple[float, float] | None, hold: bool
    ) -> None:
        """Add the sum of the round's deltas for table ``name`` to ``target``.

        Parameters
        ----------
        blend
            (rho, scale) of a BLEND table.
        hold
            See ``Table.apply``.
        """

    def finish_pass(self, phase: Phase | None) -> dict[str, FinishedTable]:
        """End the pass in all tables: see ``RunTables.finish_pass``."""
        return self.tables.finish_pass(phase)

    def gather(self) -> None:  # noqa: B027  the tables are the run's own
        """Bring the rows of the tables up to date with all passes and rounds."""

    def share(self) -> None:  # noqa: B027
        """Publish rows that were changed here, after a ``gather`` or before the first pass."""

    def write_state(self) -> None:  # noqa: B027  visits write it to the run's files themselves
        """Do as ``gather``, and bring the state of every visited block to the run's files."""

    def effort(self) -> dict[str, dict[str, Json]]:
        """Return figures for the history about how the pass was made."""
        return {}

    @abc.abstractmethod
    def end(self) -> None:
        """End the visits of a pass, whether or not it is complete."""

    def free_buffers(self) -> None:  # noqa: B027  an executor without buffers has none to give
        """Free the memory of the buffers until the next visit: the phase has ended."""

    @abc.abstractmethod
    def release(self) -> None:
        """Free the buffers for good: no pass follows."""


MakeExecutor = Callable[[Job], Executor]
