"""Who visits the blocks of a round and enters their deltas: threads of this process, or what takes
their place.

The driver (passes.py) sees statistics and params, never rows. An executor holds the tables and the
blocks, visits the blocks of a round in any order, and adds up their deltas, which are rounded so
that the sum is exact: so the bits of a result do not depend on who worked, nor on how many.

What another process or machine needs for a visit can be pickled: the ``Job``, whose corpus is read
from its path; the key and params of the ``Assignment``; the rows (``Rows.portable``,
``PackedRows.portable``), totals and state of the ``Visit``. What it sends back are the arrays of
``Out``.
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
from topicstream.training.plan import Allowance
from topicstream.training.starts.seeds import Seeds
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import RunTables, Settled


class Remote(NamedTuple):
    """Carry what a run on the workers of a scheduler needs beside its job.

    Attributes
    ----------
    cluster
        The workers.
    folder
        Working folder of the run, which all machines reach.
    allowance
        Memory and tables of each worker; threads: 0 for all that it has.
    """

    cluster: Cluster
    folder: Path
    allowance: Allowance


@dataclass(frozen=True)
class Job:
    """What an executor works on.  It can be pickled, for processes elsewhere.

    Attributes
    ----------
    engine, corpus, grid, layout
        The algorithm, the store, its blocks, and how a pass is cut into them and into rounds.
    block
        The largest of everything over the grid's blocks: what buffers must hold.
    workers
        Threads of this process, which also apply sums to tables.
    prefetch
        Storage blocks decoded ahead.
    spill
        Folder for the deltas of a round where they do not fit memory; None: they stay in memory.
    remote
        With ``--scheduler``: its workers, whose ``executor`` this job is for.  It stays here when
        the job is sent elsewhere.
    """

    engine: Engine
    corpus: Corpus
    grid: Grid
    layout: Layout
    block: BlockShape
    workers: Workers
    prefetch: int = 2
    spill: Path | None = None
    remote: Remote | None = None


@dataclass(frozen=True)
class Assignment:
    """What the visits of a pass share.

    Attributes
    ----------
    key, phase
        Source of random numbers: seed, pass, phase; and that phase.
    params
        Small arrays by name, read only.
    seeds
        The seed table of a start (pass 0), or None.
    old, new
        Files of block state: of the last pass, and of this one.
    reads, targets
        The tables that the phase reads; the tables, or successors of REPLACE tables, that its
        deltas enter.
    """

    key: Key
    phase: Phase
    params: Mapping[str, np.ndarray]
    seeds: Seeds | None
    old: BlockMemory | None
    new: BlockMemory | None
    reads: tuple[str, ...] = ()
    targets: Mapping[str, Table] = field(default_factory=dict)

    def on(self, tables: RunTables) -> Assignment:
        """With what the phase reads and writes of these tables."""
        # rows hold their mass only once every block has entered: not while a start or a REPLACE
        # pass builds them up
        every = tables.current | tables.successors if self.key.pass_number else tables.current
        reads = tuple(tables.current) if self.phase.reads is None else self.phase.reads
        return replace(
            self, reads=reads, targets={name: every[name] for name in tables.written(self.phase)}
        )


class Report(NamedTuple):
    """What the driver hears of a visit: documents and statistics."""

    docs: int
    stats: dict[str, np.ndarray]


def ids_of(block: Block, axis: str | None, spec: TableSpec) -> np.ndarray:
    """The ids (int32[U], ascending) of a block on an axis; of a table with a fixed number of rows,
    all of them.
    """
    if axis is None:
        return np.arange(int(spec.rows), dtype=np.int32)
    return block.rows(axis).ids


def new_out(engine: Engine, block: Block) -> Out:
    """Arrays for a visit that shares none with others, as a process or a machine elsewhere makes
    them.
    """
    shape = BlockShape.of(block)
    delta = {}
    for name, spec in engine.tables.items():
        if spec.delta == "dense":
            rows = len(ids_of(block, spec.axis, spec)), padded(spec.n_columns(engine.shape.topics))
            delta[name] = np.zeros(rows, np.float32)
    state = {name: np.zeros(spec.shape(shape), spec.dtype) for name, spec in engine.state.items()}
    return Out(delta, state, new_stats(engine), engine, shape)


def run_visit(engine: Engine, visit: Visit, out: Out) -> Out:
    """One visit of a block.  Pure: it reads what it is given, writes nothing but ``out``, and gives
    the same bits wherever it runs.
    """
    if visit.key.pass_number == 0:
        engine.start(visit, out)
    else:
        engine.process(visit, out)
    return out


def shrunk(target: Table, blend: tuple[float, float] | None) -> float:
    """The factor of a round's deltas, once a BLEND table has been shrunk by (rho, scale)."""
    return 1.0 if blend is None else blend[0] * blend[1] * target.blend(blend[0])


class Executor(abc.ABC):
    """Who visits blocks and enters deltas: what a driver asks for, pass by pass.

    The order of calls is ``place``; then for each pass ``begin``, ``visit`` and ``apply`` (once
    for each table that the phase writes) round by round, ``end`` and ``settle``; ``rest`` between
    phases; at last ``release``. ``gather`` comes before rows are read, ``share`` after they were
    changed here, ``keep`` before a checkpoint. Calls come from one thread.

    ``train(..., executor=make)`` takes any ``make(job: Job) -> Executor``; entry points in the
    group ``topicstream.executors`` give such functions names.
    """

    tables: RunTables

    def place(self, tables: RunTables) -> None:
        """These are the tables of the run."""
        self.tables = tables

    @abc.abstractmethod
    def begin(self, blocks: np.ndarray) -> None:
        """A pass (or what is left of it) over these blocks begins, int64[]."""

    @abc.abstractmethod
    def visit(self, position: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        """Visit the blocks of a round, which stand at ``position`` of the pass; reports in block
        order.
        """

    @abc.abstractmethod
    def apply(
        self, name: str, target: Table, blend: tuple[float, float] | None, hold: bool
    ) -> None:
        """Enter the sum of the round's deltas for table ``name`` into ``target``; blend: (rho,
        scale) of a BLEND table; hold: see ``Table.apply``.
        """

    def settle(self, phase: Phase | None) -> dict[str, Settled]:
        """The end of a pass: see ``RunTables.settle``."""
        return self.tables.settle(phase)

    def gather(self) -> None:  # noqa: B027  the tables are the run's own
        """See that the rows of the tables are those that passes and rounds so far have made."""

    def share(self) -> None:  # noqa: B027
        """The rows of the tables were changed here, after a ``gather`` or before the first pass:
        they count.
        """

    def keep(self) -> None:  # noqa: B027  state is written where the run's files are
        """``gather``, and see that the state of every block visited is on the disk, in the run's
        files.
        """

    def effort(self) -> dict[str, dict[str, Json]]:
        """What the history tells of how the pass was made."""
        return {}

    @abc.abstractmethod
    def end(self) -> None:
        """The pass, or what was made of it, is over."""

    def rest(self) -> None:  # noqa: B027  an executor without buffers has none to give
        """Give the buffers' memory back until the next visit: another phase, or none, comes."""

    @abc.abstractmethod
    def release(self) -> None:
        """Give the buffers back: no pass follows."""


MakeExecutor = Callable[[Job], Executor]
