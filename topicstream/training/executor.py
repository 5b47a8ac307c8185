"""Who visits the blocks of a round and enters their deltas: threads of this process, or what takes their place.

The driver (passes.py) sees statistics and params, never rows.  An executor holds the tables and the blocks, visits the
blocks of a round in any order, and adds up their deltas, which are rounded so that the sum is exact: so the bits of a
result do not depend on who worked, nor on how many.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import BlockShape, Engine, Key, Out
from topicstream.parallel.rounds import Workers
from topicstream.tables.spec import TableSpec
from topicstream.tables.table import Table
from topicstream.training.state.memory import BlockMemory


@dataclass(frozen=True)
class Assignment:
    """What the visits of a pass are given beside rows and blocks.

    seeds     the seed table of a start (pass 0), or None
    old, new  block state of the last pass and of this one
    reads, targets  the tables that the phase reads; the tables, or successors of REPLACE tables, that its deltas enter
    """

    key: Key
    params: Mapping[str, np.ndarray]
    seeds: Any | None
    old: BlockMemory | None
    new: BlockMemory | None
    reads: tuple[str, ...]
    targets: Mapping[str, Table]


class Report(NamedTuple):
    """What the driver hears of a visit."""

    docs: int
    stats: dict[str, np.ndarray]


def ids_of(block: Block, axis: str | None, spec: TableSpec) -> np.ndarray:
    """The ids (int32[U], ascending) of a block on an axis; of a table with a fixed number of rows, all of them."""
    if axis is None:
        return np.arange(int(spec.rows), dtype=np.int32)
    return block.rows(axis).ids


def visit(
    engine: Engine,
    block: Block,
    rows: Mapping[str, Any],
    totals: Mapping[str, np.ndarray],
    state: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    key: Key,
    lease: Out,
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """One visit of a block: (deltas, new state, statistics), each by name.  Pure: it reads what it is given, writes nothing
    but what it was leased, and gives the same bits wherever it runs."""
    if key.pass_number == 0:
        engine.start(block, rows, totals, params, key, lease)
    else:
        engine.process(block, rows, totals, state, params, key, lease)
    return lease.delta, lease.memory, lease.stats


@dataclass(frozen=True)
class Job:
    """What an executor works on.

    Attributes
    ----------
    engine, corpus, grid
        The algorithm, the store, and how a pass over it is cut into blocks.
    round_blocks
        Blocks of a round: those that see the same tables.
    block
        The largest of everything over the grid's blocks: what buffers must hold.
    workers
        Threads of this process, which also apply sums to tables.
    prefetch
        Storage blocks decoded ahead.
    spill
        Folder for the deltas of a round where they do not fit RAM; None: they stay in RAM.
    """

    engine: Engine
    corpus: Corpus
    grid: Grid
    round_blocks: int
    block: BlockShape
    workers: Workers
    prefetch: int = 2
    spill: Path | None = None


class Executor(abc.ABC):
    """Who visits blocks and enters deltas: what a driver asks for, pass by pass.

    ``place`` says which tables there are; ``begin`` opens a pass, ``visit`` and ``apply`` alternate round by round,
    ``gather_state`` and ``end`` close it.  ``train(..., executor=make)`` takes any ``make(job: Job) -> Executor``; entry
    points in the group ``topicstream.executors`` give such functions names.
    """

    @abc.abstractmethod
    def place(self, tables: Mapping[str, Table], nexts: Mapping[str, Table]) -> None:
        """From now on these are the tables; nexts: where deltas of REPLACE tables go."""

    @abc.abstractmethod
    def begin(self, numbers: np.ndarray, following: np.ndarray | None) -> None:
        """A pass (or what is left of it) over these blocks begins; following: the blocks of the pass to come, if any."""

    @abc.abstractmethod
    def visit(self, at: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        """Visit the blocks of a round, which stand at position ``at`` of the pass; reports in block order."""

    @abc.abstractmethod
    def apply(self, name: str, target: Table, factor: float, hold: bool) -> None:
        """Enter the sum of the round's deltas for table ``name`` into ``target``."""

    def gather_state(self, memory: BlockMemory) -> None:  # noqa: B027  state is written where the run's files are
        """See that the new state of every block visited is in ``memory``."""

    @abc.abstractmethod
    def end(self) -> None:
        """The pass, or what was made of it, is over."""

    def rest(self) -> None:  # noqa: B027  an executor without buffers has none to give
        """Give the buffers' memory back until the next visit: another phase, or none, comes."""

    @abc.abstractmethod
    def release(self) -> None:
        """Give the buffers back: no pass follows."""


MakeExecutor = Callable[[Job], Executor]
