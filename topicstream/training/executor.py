"""Who visits the blocks of a round and enters their deltas: threads of this process, or what takes their place.

The driver (passes.py) sees statistics and params, never rows.  An executor holds the tables and the blocks, visits the
blocks of a round in any order, keeps the deltas where they were made, and enters them in block order: so the bits of a
result do not depend on who worked, nor on how many.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.cutting import Cutter
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine, Key, Out, Rows, Scratch
from topicstream.parallel.rounds import Workers
from topicstream.tables.rounds import Round
from topicstream.tables.spec import TableSpec
from topicstream.tables.table import Table
from topicstream.training.ahead import StorageAhead
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


class Executor(abc.ABC):
    """place, visit, apply, gather_state: the four things a driver asks for."""

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
        """Enter the round's deltas for table ``name`` into ``target``, in block order."""

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


class Threads(Executor):
    """Workers of this process.

    rounds        name -> where the deltas of a round wait
    spilled       the deltas wait on disk: what a visit keeps of them is free once it has ended
    prefetch      storage blocks decoded ahead
    """

    def __init__(
        self,
        engine: Engine,
        corpus: Corpus,
        grid: Grid,
        workers: Workers,
        rounds: Mapping[str, Round],
        round_blocks: int,
        spilled: bool = False,
        prefetch: int = 2,
    ) -> None:
        self.engine, self.corpus, self.grid, self.workers = engine, corpus, grid, workers
        self._rounds, self._spilled, self._prefetch = dict(rounds), spilled, prefetch
        self._tables: dict[str, Table] = {}
        self._cutters = [Cutter(corpus.n_words) for _ in range(workers.threads)]
        self._scratch = [Scratch() for _ in range(workers.threads)]
        self._io_scratch = [Scratch() for _ in range(workers.threads)]
        self._table_scratch: list[dict[str, Scratch]] = [
            {name: Scratch() for name in engine.tables} for _ in range(workers.threads)
        ]
        held = max((r.window for r in rounds.values()), default=1)  # deltas of a table at once
        self._keep = [Scratch() for _ in range(workers.threads if spilled else min(held, round_blocks))]
        self._ahead: StorageAhead | None = None
        self._following: tuple[np.ndarray, StorageAhead] | None = None
        self._next_pass: np.ndarray | None = None
        self._todo = np.zeros(0, np.int64)

    def place(self, tables: Mapping[str, Table], nexts: Mapping[str, Table]) -> None:
        self._tables = dict(tables)

    def begin(self, numbers: np.ndarray, following: np.ndarray | None) -> None:
        begun, self._following = self._following, None
        self._todo, self._next_pass = numbers, following
        if begun is not None:  # what the end of the pass before has begun to decode, if it is the right thing
            if np.array_equal(begun[0], numbers):
                begun[1].reach(self._prefetch)
                self._ahead = begun[1]
                return
            begun[1].close()
        self._ahead = StorageAhead(self.corpus, self.grid, numbers, self._prefetch, self.workers, self.engine.axes)

    def visit(self, at: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        reports: list[Any] = [None] * len(group)

        def work(i: int) -> None:
            reports[i] = self._visit(int(group[i]), at + i, i, assignment)

        if assignment.old is not None:
            for number in self._todo[at + len(group) : at + 2 * len(group)]:
                assignment.old.ahead(int(number))
        if self._next_pass is not None and at + len(group) >= len(self._todo):
            # queued behind the last visits, for a worker that has none left
            first = min(self.workers.threads - 1, self._prefetch)
            ahead = StorageAhead(self.corpus, self.grid, self._next_pass, first, self.workers, self.engine.axes)
            self._following = self._next_pass, ahead
        for name, target in assignment.targets.items():
            self._rounds[name].begin(target)
        self.workers.run(work, len(group))
        return reports

    def _visit(self, number: int, position: int, slot: int, assignment: Assignment) -> Report:
        try:
            return self._visited(number, position, slot, assignment)
        except BaseException:
            for deltas in self._rounds.values():
                deltas.fail()
            raise

    def _visited(self, number: int, position: int, slot: int, assignment: Assignment) -> Report:
        worker = self.workers.number()
        scratch, io, own = self._scratch[worker], self._io_scratch[worker], self._table_scratch[worker]
        assert self._ahead is not None
        block = self._cutters[worker].block(self.corpus, self.grid, number, self._ahead.get(position))
        self._ahead.done(position)
        specs, delta, ids = self.engine.tables, {}, {}
        for name in assignment.targets:
            ids[name] = ids_of(block, specs[name].axis, specs[name])
            room = self._rounds[name].slot(slot, ids[name], own[name])
            if room is not None:
                delta[name] = room
        new, old, key = assignment.new, assignment.old, assignment.key
        memory = new.buffers(block, io) if new is not None else {}
        keep = self._keep[worker if self._spilled else slot % len(self._keep)]
        lease = Out(delta, dict(memory), self.engine.new_stats(), scratch, keep)
        rows: dict[str, Any] = {}
        totals: dict[str, np.ndarray] = {}
        kept: Mapping[str, np.ndarray] = {}
        if key.pass_number == 0:
            if assignment.seeds is not None:
                base = assignment.seeds.rows(block.vocab)
                rows = {"phi": Rows(base, np.arange(len(block.vocab), dtype=np.int64))}
                totals = {"phi": assignment.seeds.totals}
        else:
            for name in assignment.reads:
                spec, table = specs[name], self._tables[name]
                rows[name] = table.gather(ids_of(block, spec.gathered, spec), own[name])
                totals[name] = table.seen_totals
            kept = old.read(number, block, io) if old is not None else {}
        deltas, state, stats = visit(self.engine, block, rows, totals, kept, assignment.params, key, lease)
        if new is not None:
            new.write(number, state)
        for name in assignment.targets:
            # an outgrown buffer must not be held until the round ends: the round has it now
            self._rounds[name].put(slot, ids[name], deltas.pop(name))
        return Report(block.n_docs, stats)

    def apply(self, name: str, target: Table, factor: float, hold: bool) -> None:
        target.apply(self._rounds[name], factor, hold)

    def end(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def rest(self) -> None:
        for deltas in self._rounds.values():
            deltas.rest()
        for scratch in self._buffers():
            scratch.clear()

    def release(self) -> None:
        if self._following is not None:
            self._following[1].close()
            self._following = None
        for deltas in self._rounds.values():
            deltas.close()
        self._cutters, self._keep, self._rounds = [], [], {}
        self._scratch, self._io_scratch, self._table_scratch = [], [], []

    def scratch_bytes(self) -> int:
        """Bytes the buffers hold now."""
        return sum(s.nbytes for s in self._buffers())

    def _buffers(self) -> list[Scratch]:
        return [*self._scratch, *self._io_scratch, *self._keep, *(s for d in self._table_scratch for s in d.values())]
