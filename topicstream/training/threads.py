"""The executor of one machine: threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from topicstream.base import plugins
from topicstream.corpus.block import Block
from topicstream.corpus.grid import Cutter, Decoded
from topicstream.engines.base import BlockShape, Out, Rows, Scratch, SparseDelta, Visit, new_stats
from topicstream.numeric.tables.range_buffer import MergeSpace
from topicstream.numeric.tables.rounds import Round, RoundSpace, SparseRound
from topicstream.numeric.tables.table import Table
from topicstream.training.executor import (
    Assignment,
    Executor,
    Job,
    MakeExecutor,
    Report,
    ids_of,
    run_visit,
    shrink_table,
)
from topicstream.training.starts.seeds import SeedRows
from topicstream.training.tables import RunTables


class WorkerBuffers:
    """The buffers that one worker reuses from visit to visit.

    Attributes
    ----------
    cutter
        Cuts blocks out of decoded storage blocks.
    work
        Arrays of a visit.
    deltas
        Arrays of sparse deltas, where these merge as blocks end.
    state, seeds, rows
        Block state, rows of seed topics, and rows of each table.
    """

    def __init__(self, job: Job) -> None:
        corpus = job.corpus
        self.cutter = Cutter(corpus.n_words, corpus.weights, corpus.covariates)
        self.work = Scratch()
        self.deltas = Scratch()
        self.state = Scratch()
        self.seeds = Scratch()
        self.rows = {name: Scratch() for name in job.engine.tables}


class Threads(Executor):
    """Workers of this process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.engine = job.engine
        self.workers = job.workers
        self.rounds: dict[str, Round] = {}
        self._buffers = [WorkerBuffers(job) for _ in range(job.workers.threads)]
        merge = MergeSpace(job.sums.start, job.spill) if job.spill and any(job.sums) else None
        self._space = RoundSpace(job.layout.round_blocks, job.spill, merge)
        self._waits = True  # whether arrays of sparse deltas stay until the round ends
        self._decoded: Generator[Decoded, None, None] | None = None
        self._lock = threading.Lock()
        self._todo = np.zeros(0, np.int64)
        self._order = self._todo  # places of the blocks in the pass, as they are visited

    def place(self, tables: RunTables) -> None:
        super().place(tables)
        for name, table in tables.current.items():
            rows = self.job.block.most_rows(self.engine.tables[name].rows)
            self.rounds[name] = table.new_round(self._space, rows, self.engine.shape.tokens)
        self._waits = self._space.merge is None or any(
            isinstance(deltas, SparseRound) for deltas in self.rounds.values()
        )

    def begin(self, blocks: np.ndarray) -> None:
        self._todo = blocks
        self._order = np.arange(len(blocks))
        self._decoded = None

    def visit(self, position: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        if self._decoded is None:
            self._order_by_cost(assignment.key.pass_number)
        return self.visit_part(position, group, range(len(group)), assignment)

    def _order_by_cost(self, pass_number: int) -> None:
        """Put the longest visits of each round first, so that none begins when others end."""
        rounds = np.arange(len(self._todo)) // self.job.layout.round_blocks
        costs = [self.engine.visit_cost(int(number), pass_number) for number in self._todo]
        self._order = np.lexsort((-np.array(costs, np.float64), rounds))
        self._todo = self._todo[self._order]

    def visit_part(
        self, position: int, group: np.ndarray, places: Sequence[int], assignment: Assignment
    ) -> list[Report]:
        """Visit a part of the blocks of a round.

        Parameters
        ----------
        position, group, assignment
            As of ``visit``.
        places
            Place of each block in its round.
        """
        if self._decoded is None:
            self._decoded = self.job.corpus.decoded(
                self._todo, self.job.grid, self.job.prefetch, self.engine.about.axes
            )
        if self._space.merge is not None:
            sums = self.job.sums
            self._space.merge.bound = sums.passes if assignment.key.pass_number else sums.start
        reports: list[Any] = [None] * len(group)
        decoded = self._decoded
        order = enumerate((self._order[position : position + len(group)] - position).tolist())

        def work(_: int) -> None:
            """Take the next block and visit it."""
            with self._lock:
                k, i = next(order)
                raw = next(decoded, None)
            self._read_ahead(position + k, assignment)
            if raw is None:  # an error in another worker ends the pass
                return
            cutter = self._buffers[self.workers.number()].cutter
            block = cutter.block(self.job.grid, int(group[i]), raw)
            del raw  # the block has copies, and the visit takes much more memory
            reports[i] = self._visit(int(group[i]), block, places[i], assignment)

        self.workers.run(work, len(group))
        return reports

    def _read_ahead(self, place: int, assignment: Assignment) -> None:
        """Ask for the state of a later block.

        Of blocks further ahead the system would drop it again before the visit.
        """
        ahead = place + 2 * self.workers.threads
        if assignment.old is not None and ahead < len(self._todo):
            assignment.old.read_ahead(int(self._todo[ahead]))

    def _visit(self, number: int, block: Block, slot: int, assignment: Assignment) -> Report:
        """Visit one block, and hand its deltas to the round.

        slot: place of the block in its round.
        """
        buffers = self._buffers[self.workers.number()]
        new = assignment.new
        specs = self.engine.tables
        delta = {}
        ids = {name: ids_of(block, specs[name].axis, specs[name]) for name in assignment.targets}
        for name in assignment.targets:
            array = self.rounds[name].slot(slot, ids[name])
            if array is not None:
                delta[name] = array
        shape = BlockShape.measure(block)
        stats = new_stats(self.engine)
        of_deltas = self._space.keep[slot] if self._waits else buffers.deltas
        state = new.buffers(shape, buffers.state) if new is not None else {}

        def merge(name: str, first: int, part: SparseDelta) -> None:
            """Add a part of a delta to the round (``Out.merge``)."""
            rows = ids[name][first : first + len(part.ptr) - 1]
            self.rounds[name].put(slot, rows, part)

        in_parts = None if self._waits else merge
        out = Out(delta, state, stats, self.engine, shape, buffers.work, of_deltas, in_parts)
        visit = self._collect_input(block, number, assignment, buffers, shape)
        out = self.compute(visit, out)
        if new is not None:
            new.write(number, out.state)
        for name in assignment.targets:
            # pop: ``out`` must not hold an outgrown buffer until the round ends
            if name in out.delta:
                self.rounds[name].put(slot, ids[name], out.delta.pop(name))
        return Report(block.n_docs, out.stats)

    def _collect_input(
        self,
        block: Block,
        number: int,
        assignment: Assignment,
        buffers: WorkerBuffers,
        shape: BlockShape,
    ) -> Visit:
        """Collect the rows, totals and state that the visit of a block reads."""
        key = assignment.key
        params = assignment.params
        if key.pass_number == 0:
            seeds = assignment.seeds
            if seeds is None:
                return Visit(block, {}, {}, {}, params, key)
            words = len(block.vocab)
            rows: Any = SeedRows(seeds, block.vocab, buffers.seeds, self.job.seed_rows)
            if not self.engine.starts_by_words:
                rows = Rows(seeds.rows(block.vocab, buffers.seeds), np.arange(words))
            return Visit(block, {"phi": rows}, {"phi": seeds.totals}, {}, params, key)
        gathered: dict[str, Any] = {}
        for name in assignment.reads:
            spec = self.engine.tables[name]
            ids = ids_of(block, spec.gathered, spec)
            gathered[name] = self.tables.current[name].gather(ids, buffers.rows[name])
        totals = {name: self.tables.current[name].seen_totals for name in assignment.reads}
        state: dict[str, np.ndarray] = {}
        if assignment.old is not None:
            state = assignment.old.read(number, shape, buffers.state)
        return Visit(block, gathered, totals, state, params, key)

    def compute(self, visit: Visit, out: Out) -> Out:
        """Compute one visit by ``run_visit``.

        A derived executor may compute it elsewhere.
        """
        return run_visit(self.engine, visit, out)

    def apply(
        self, name: str, target: Table, blend: tuple[float, float] | None, hold: bool
    ) -> None:
        target.apply(self.rounds[name], shrink_table(target, blend), hold)

    def end(self) -> None:
        for buffers in self._buffers:
            buffers.seeds.clear()
        if self._decoded is not None:
            with self._lock:  # after an interrupt a worker may still wait for a block
                self._decoded.close()

    def free_buffers(self) -> None:
        for deltas in self.rounds.values():
            deltas.rest()
        for buffers in self._buffers:
            for scratch in (buffers.work, buffers.deltas, buffers.state, *buffers.rows.values()):
                scratch.clear()
        for scratch in self._space.keep:
            scratch.clear()

    def release(self) -> None:
        self._buffers = []
        self._space.keep = []
        self.rounds = {}


def find_executor(executor: MakeExecutor | str | None) -> MakeExecutor:
    """Return the function that makes the executor of a run.

    Parameters
    ----------
    executor
        Such a function, the name of an entry point, or None for threads of this process.
    """
    if executor is None:
        return Threads
    if callable(executor):
        return executor
    make: MakeExecutor = plugins.find(plugins.EXECUTORS, executor, "executor")
    return make
