"""The executor of one machine: threads of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream import plugins
from topicstream.corpus.block import Block
from topicstream.corpus.cutting import Cutter
from topicstream.engines.base import Key, Out, Rows, Scratch
from topicstream.errors import UsageError
from topicstream.tables.rounds import Round
from topicstream.tables.table import Table
from topicstream.training.ahead import StorageAhead
from topicstream.training.executor import Assignment, Executor, Job, MakeExecutor, Report, ids_of, visit


class Threads(Executor):
    """Workers of this process."""

    def __init__(self, job: Job) -> None:
        self.job, self.engine, self.corpus, self.grid, self.workers = job, job.engine, job.corpus, job.grid, job.workers
        threads = job.workers.threads
        self._rounds: dict[str, Round] = {}
        self._tables: dict[str, Table] = {}
        self._cutters = [Cutter(job.corpus.n_words) for _ in range(threads)]
        self._scratch = [Scratch() for _ in range(threads)]
        self._io_scratch = [Scratch() for _ in range(threads)]
        self._table_scratch = [{name: Scratch() for name in job.engine.tables} for _ in range(threads)]
        # a visit's sparse deltas are kept until its round ends, unless they wait on disk
        self._keep = [Scratch() for _ in range(job.round_blocks if job.spill is None else threads)]
        self._ahead: StorageAhead | None = None
        self._following: tuple[np.ndarray, StorageAhead] | None = None
        self._next_pass: np.ndarray | None = None
        self._todo = np.zeros(0, np.int64)

    def place(self, tables: Mapping[str, Table], nexts: Mapping[str, Table]) -> None:
        self._tables = dict(tables)
        if self._rounds:
            return
        for name, table in tables.items():
            spill = None if self.job.spill is None else self.job.spill / f"deltas-{name}.scratch"
            rows = self.job.block.most_rows(self.engine.tables[name].rows)
            self._rounds[name] = table.new_round(self.job.round_blocks, rows, spill, self.engine.shape.tokens)

    def begin(self, numbers: np.ndarray, following: np.ndarray | None) -> None:
        begun, self._following = self._following, None
        self._todo, self._next_pass = numbers, following
        if begun is not None:  # what the end of the pass before has begun to decode, if it is the right thing
            if np.array_equal(begun[0], numbers):
                begun[1].reach(self.job.prefetch)
                self._ahead = begun[1]
                return
            begun[1].close()
        self._ahead = StorageAhead(self.corpus, self.grid, numbers, self.job.prefetch, self.workers, self.engine.axes)

    def visit(self, at: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        reports: list[Any] = [None] * len(group)

        def work(i: int) -> None:
            reports[i] = self._visit(int(group[i]), at + i, i, assignment)

        if assignment.old is not None:
            for number in self._todo[at + len(group) : at + 2 * len(group)]:
                assignment.old.ahead(int(number))
        if self._next_pass is not None and at + len(group) >= len(self._todo):
            # queued behind the last visits, for a worker that has none left
            first = min(self.workers.threads - 1, self.job.prefetch)
            ahead = StorageAhead(self.corpus, self.grid, self._next_pass, first, self.workers, self.engine.axes)
            self._following = self._next_pass, ahead
        self.workers.run(work, len(group))
        return reports

    def _visit(self, number: int, position: int, slot: int, assignment: Assignment) -> Report:
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
        keep = self._keep[slot if self.job.spill is None else worker]
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
        deltas, state, stats = self.compute(block, rows, totals, kept, assignment.params, key, lease)
        if new is not None:
            new.write(number, state)
        for name in assignment.targets:
            # an outgrown buffer must not be held until the round ends: the round has it now
            self._rounds[name].put(slot, ids[name], deltas.pop(name))
        return Report(block.n_docs, stats)

    def compute(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        lease: Out,
    ) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray]]:
        """One visit, as ``visit`` has it; an executor derived from this one may make it elsewhere."""
        return visit(self.engine, block, rows, totals, state, params, key, lease)

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


def executor_of(given: MakeExecutor | str | None) -> MakeExecutor:
    """What makes the executor of a run: a function as it is, the entry point of that name, or threads of this process."""
    if given is None:
        return Threads
    if callable(given):
        return given
    if given not in plugins.entries(plugins.EXECUTORS):
        known = ", ".join(plugins.entries(plugins.EXECUTORS)) or "no installed package brings one"
        raise UsageError(f"executor: none is called {given!r}; known: {known}")
    made: MakeExecutor = plugins.load(plugins.EXECUTORS, given)
    return made
