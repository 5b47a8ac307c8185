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
    shrunk,
)
from topicstream.training.starts.seeds import SeedRows
from topicstream.training.tables import RunTables


class WorkerBuffers:
    """The buffers that one worker reuses from visit to visit."""

    def __init__(self, job: Job) -> None:
        corpus = job.corpus
        self.cutter = Cutter(corpus.n_words, corpus.weights, corpus.covariates)
        self.work = Scratch()
        self.kept = Scratch()
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
        return self.visit_some(position, group, range(len(group)), assignment)

    def _order_by_cost(self, pass_number: int) -> None:
        """Put the longest visits of each round first, so that none begins as others end."""
        rounds = np.arange(len(self._todo)) // self.job.layout.round_blocks
        costs = [self.engine.visit_cost(int(number), pass_number) for number in self._todo]
        self._order = np.lexsort((-np.array(costs, np.float64), rounds))
        self._todo = self._todo[self._order]

    def visit_some(
        self, position: int, group: np.ndarray, places: Sequence[int], assignment: Assignment
    ) -> list[Report]:
        """``visit`` of blocks that stand at ``places`` of their round."""
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
            with self._lock:
                k, i = next(order)
                raw = next(decoded, None)
            self._read_ahead(position + k, assignment)
            if raw is None:  # another worker has met the error that ends the pass
                return
            cutter = self._buffers[self.workers.number()].cutter
            block = cutter.block(self.job.grid, int(group[i]), raw)
            del raw  # the block has copies, and the visit takes much more memory
            reports[i] = self._visit(int(group[i]), block, places[i], assignment)

        self.workers.run(work, len(group))
        return reports

    def _read_ahead(self, place: int, assignment: Assignment) -> None:
        """Ask for the state of a block to come, not of so many that it is dropped again."""
        ahead = place + 2 * self.workers.threads
        if assignment.old is not None and ahead < len(self._todo):
            assignment.old.ahead(int(self._todo[ahead]))

    def _visit(self, number: int, block: Block, slot: int, assignment: Assignment) -> Report:
        buffers = self._buffers[self.workers.number()]
        new = assignment.new
        specs = self.engine.tables
        delta = {}
        ids = {name: ids_of(block, specs[name].axis, specs[name]) for name in assignment.targets}
        for name in assignment.targets:
            room = self.rounds[name].slot(slot, ids[name])
            if room is not None:
                delta[name] = room
        shape = BlockShape.measure(block)
        stats = new_stats(self.engine)
        keep = self._space.keep[slot] if self._waits else buffers.kept
        state = new.buffers(shape, buffers.state) if new is not None else {}

        def merge(name: str, first: int, part: SparseDelta) -> None:
            rows = ids[name][first : first + len(part.ptr) - 1]
            self.rounds[name].put(slot, rows, part)

        in_parts = None if self._waits else merge
        out = Out(delta, state, stats, self.engine, shape, buffers.work, keep, in_parts)
        out = self.compute(self._seen(block, number, assignment, buffers, shape), out)
        if new is not None:
            new.write(number, out.state)
        for name in assignment.targets:
            # an outgrown buffer must not be held until the round ends: the round has it now
            if name in out.delta:
                self.rounds[name].put(slot, ids[name], out.delta.pop(name))
        return Report(block.n_docs, out.stats)

    def _seen(
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
            gathered[name] = self.tables.current[name].gather(
                ids_of(block, spec.gathered, spec), buffers.rows[name]
            )
        totals = {name: self.tables.current[name].seen_totals for name in assignment.reads}
        state = (
            assignment.old.read(number, shape, buffers.state) if assignment.old is not None else {}
        )
        return Visit(block, gathered, totals, state, params, key)

    def compute(self, visit: Visit, out: Out) -> Out:
        """Compute one visit by ``run_visit``.

        A derived executor may compute it elsewhere.
        """
        return run_visit(self.engine, visit, out)

    def apply(
        self, name: str, target: Table, blend: tuple[float, float] | None, hold: bool
    ) -> None:
        target.apply(self.rounds[name], shrunk(target, blend), hold)

    def end(self) -> None:
        for one in self._buffers:
            one.seeds.clear()
        if self._decoded is not None:
            with self._lock:  # after an interrupt a worker may still wait for a block
                self._decoded.close()

    def free_buffers(self) -> None:
        for deltas in self.rounds.values():
            deltas.rest()
        own = [
            scratch
            for one in self._buffers
            for scratch in (one.work, one.kept, one.state, *one.rows.values())
        ]
        for scratch in [*self._space.keep, *own]:
            scratch.clear()

    def release(self) -> None:
        self._buffers = []
        self._space.keep = []
        self.rounds = {}


def executor_of(executor: MakeExecutor | str | None) -> MakeExecutor:
    """Return the function that makes the executor of a run.

    A function is returned as it is, a string names an entry point, and None stands for threads of
    this process.
    """
    if executor is None:
        return Threads
    if callable(executor):
        return executor
    make: MakeExecutor = plugins.find(plugins.EXECUTORS, executor, "executor")
    return make
