"""A member of a training on a Dask cluster: what a worker owns of it, and what the driver and other members ask of it.

A member has a replica of the tables, and owns some blocks and their state.  It is asked by Dask's own RPC, as workers are that
shuffle: a plugin of the worker registers one handler for each question.  In a round every member visits its blocks and
sends to each other what that one adds up: deltas are rounded so that their sum is exact, so it does not matter who adds, nor in
which order.  Then each sends to all what came out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from distributed import Worker, WorkerPlugin
from distributed.protocol.serialize import to_serialize

from topicstream import machine
from topicstream.corpus.grid import Grid
from topicstream.engines.base import BlockShape, Key, Phase
from topicstream.errors import DoesNotFit, TopicsError, WorkersLost
from topicstream.memory import MemoryLimit
from topicstream.parallel.rounds import Workers
from topicstream.tables.rounds import Entered
from topicstream.training.executor import Assignment, Job, RunRecipe, shrunk
from topicstream.training.plan import Allowance, Work, make_plan
from topicstream.training.starts.seeds import Seeds
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import RunTables, Settled
from topicstream.training.threads import Threads

T = TypeVar("T")
FORGOTTEN = 120.0
"""Seconds without a word of the driver after which a member ends itself."""


@dataclass(frozen=True)
class JoinOrder:
    """What makes the members of a run: the same for all of them.

    Attributes
    ----------
    run
        Name of the run among those of the cluster.
    recipe, grid, block
        As in a ``Job``.
    owners
        int64[blocks], the number of the member that owns each block.
    roster
        Address and id of the worker of each member, by number.
    limit, threads, tables
        Bytes of a member, its threads (None: those that Dask gives the worker), and where its tables live.
    driver
        The process that gives the order, and the run's folder.
    """

    run: str
    recipe: RunRecipe
    grid: Grid
    block: BlockShape
    owners: np.ndarray
    roster: tuple[tuple[str, str], ...]
    limit: int
    threads: int | None
    tables: str
    driver: tuple[str, str]


class StateFile(NamedTuple):
    """A file of block state: its path, the rows of its index, and where this member writes: from, and up to."""

    path: str
    rows: np.ndarray
    first: int
    stop: int


class PassOrder(NamedTuple):
    """What the visits of a pass share, as in an ``Assignment``, and its blocks."""

    key: Key
    phase: Phase
    blocks: np.ndarray
    seeds: Seeds | None
    old: StateFile | None
    new: StateFile | None


class Visited(NamedTuple):
    """What a member tells of its share of a round: a place in the round, documents, statistics and index rows of the state
    for each block; seconds visiting, seconds sending, and bytes sent."""

    reports: list[tuple[int, int, dict[str, np.ndarray], np.ndarray | None]]
    visiting: float
    sending: float
    sent: int


Change = tuple[str, tuple[float, float] | None, bool]
"""Of ``Executor.apply``: table, blend, hold."""


async def join(order: JoinOrder, dask_worker: Worker) -> TopicsError | None:
    """Make this worker a member; what keeps it from being one."""
    for name, plugin in list(dask_worker.plugins.items()):
        before = plugin.order.driver if isinstance(plugin, Member) else order.driver
        if before[1] == order.driver[1] and before != order.driver:  # whose driver was killed: this one has the lock
            await dask_worker.plugin_remove(name)
    member = Member(order, dask_worker)
    try:
        await member.work(member.open)
    except TopicsError as e:
        return e
    await dask_worker.plugin_add(member, name=order.run)
    return None


class Member(WorkerPlugin):
    """The plugin of one run in one worker."""

    def __init__(self, order: JoinOrder, worker: Worker) -> None:
        self.order, self.worker, self.heard = order, worker, time.monotonic()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="member")

    async def setup(self, worker: Worker) -> None:
        """Called by Dask."""
        self.heard = time.monotonic()
        for handler in (self.ping, self.ask, self.visit, self.receive, self.apply, self.take, self.leave):
            worker.handlers[f"{self.order.run}-{handler.__name__}"] = handler
        self.watch = asyncio.create_task(self._watch())

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask."""
        self.watch.cancel()
        for name in [name for name in worker.handlers if name.startswith(self.order.run)]:
            del worker.handlers[name]
        await self.work(self.close)
        self.thread.shutdown(wait=False)

    async def _watch(self) -> None:
        """End when the driver is gone."""
        while time.monotonic() - self.heard < FORGOTTEN:
            await asyncio.sleep(FORGOTTEN / 10)
        asyncio.get_running_loop().create_task(self.worker.plugin_remove(self.order.run))

    async def work(self, function: Callable[..., T], *args: Any) -> T:
        """Run in the member's thread, one thing after the other."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *args)

    # -- made and ended --------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Open the store, make tables and threads.  DoesNotFit, StoreError ..."""
        order, worker, ids = self.order, self.worker, [identity for _, identity in self.order.roster]
        if worker.id not in ids:
            raise WorkersLost(f"--scheduler: worker {worker.address} was restarted while the run began")
        self.number, folder = ids.index(worker.id), Path(worker.local_directory)
        engine, corpus, grid = order.recipe.open(order.grid)
        if engine.about.dense:
            machine.one_blas_thread()
        n_w = corpus.word_counts() if corpus.weights is None else corpus.weights.n_w
        room = Allowance(MemoryLimit(order.limit), order.threads or worker.state.nthreads, order.tables, folder=str(folder))
        try:
            plan = make_plan(Work(engine, order.recipe.layout, order.block), room)
        except DoesNotFit as e:
            raise DoesNotFit(f"worker {worker.address}: {e}", least=e.least) from None
        self.workers = Workers(plan.threads)
        self.tables = RunTables(engine, n_w, self.workers, folder if plan.place.tables_on_disk else None)
        spill = folder if plan.place.deltas_on_disk else None
        job = Job(order.recipe, engine, corpus, grid, order.block, self.workers, plan.place.prefetch, spill)
        self.executor = Threads(job)
        self.executor.place(self.tables)
        self.assignment: Assignment | None = None
        self.running, self.entered = False, dict[int, dict[str, Entered]]()

    def close(self) -> None:
        """Give everything back."""
        self.sync()
        self._forget()
        self.executor.release()
        self.workers.close()
        self.tables.close()

    def _forget(self) -> None:
        """End a pass that is under way."""
        if self.running:
            self.executor.end()
            self.running = False
        for memory in self._memories():
            memory.close()
        self.assignment = None

    def _memories(self) -> list[BlockMemory]:
        given = self.assignment
        return [memory for memory in (given.old, given.new) if memory is not None] if given is not None else []

    # -- questions -------------------------------------------------------------------------------------------------
    async def ping(self) -> str:
        """The worker's id."""
        self.heard = time.monotonic()
        return str(self.worker.id)

    async def leave(self) -> str:
        """The run is over."""
        return str((await self.worker.plugin_remove(self.order.run))["status"])

    async def ask(self, question: str, given: Sequence[Any]) -> dict[str, Any]:
        """One of the questions below, answered by the member's thread."""
        return {"answer": to_serialize(await self.work(getattr(self, question), *given))}

    def begin(self, order: PassOrder) -> None:
        """A pass begins."""
        self._forget()
        mine = self.order.owners == self.number
        self.executor.begin(order.blocks[mine[order.blocks]])
        self.position, self.running = 0, True
        old, new = self._state(order.old), self._state(order.new)
        self.assignment = Assignment.of(self.tables, order.key, order.phase, {}, order.seeds, old, new)
        if order.new is not None:
            self.stop = order.new.stop

    def _state(self, file: StateFile | None) -> BlockMemory | None:
        if file is None:
            return None
        memory = BlockMemory(Path(file.path), self.executor.engine.state, file.rows.copy(), create=False)
        memory.end = file.first
        return memory

    def load(self, place: Path, arrays: Mapping[str, np.ndarray], scales: Mapping[str, float]) -> None:
        """Tables as the driver has them."""
        self.tables.load(place, arrays, scales)

    def save(self, place: Path, midway: bool) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Write the tables to files that the driver reads."""
        self._absorb()
        return self.tables.save(place, midway)

    def settle(self, phase: Phase | None) -> dict[str, Settled]:
        """The end of a pass: see ``RunTables.settle``."""
        self._absorb()
        return self.tables.settle(phase)

    def sync(self) -> None:
        """Bring the block state that this machine has written to the disk."""
        for memory in self._memories():
            memory.sync()

    def rest(self) -> None:
        """See ``Executor.rest``."""
        self.executor.rest()

    # -- rounds ----------------------------------------------------------------------------------------------------
    async def visit(self, group: np.ndarray, params: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Visit the blocks of a round that are this member's; send what they made to those who add it up: ``Visited``."""
        began = time.monotonic()
        reports, parts = await self.work(self._visit, group, params)
        visited = time.monotonic()
        sent = await self._send("receive", parts)
        return {"answer": to_serialize(Visited(reports, visited - began, time.monotonic() - visited, sent))}

    def _visit(self, group: np.ndarray, params: Mapping[str, np.ndarray]) -> tuple[list[Any], list[Any]]:
        self._absorb()
        assert self.assignment is not None
        self.group, targets = group, self.assignment.targets
        places = np.flatnonzero(self.order.owners[group] == self.number).tolist()
        made = self.executor.visit_some(self.position, group[places], places, replace(self.assignment, params=params))
        self.position += len(places)
        new, rounds, members = self.assignment.new, self.executor.rounds, len(self.order.roster)
        if new is not None and new.end > self.stop:
            raise TopicsError("block state is longer than planned; the last checkpoint is intact, report this")
        reports = [
            (place, report.docs, report.stats, None if new is None else new.index[group[place]].copy())
            for place, report in zip(places, made, strict=True)
        ]
        parts: list[Any] = [None] * members
        for other in range(members):
            if other != self.number:
                chosen = {name: partial(targets[name].spans, owner=other, members=members) for name in targets}
                parts[other] = [(n, place, *rounds[n].part(place, chosen[n])) for n in targets for place in places]
        return reports, parts

    async def receive(self, sender: int, sent: Sequence[Any]) -> bool:
        """What blocks made on another member: (table, place in the round, arrays ...)."""
        for name, place, *arrays in sent:
            self.executor.rounds[name].receive(place, arrays)
        return True

    async def apply(self, changes: Sequence[Change]) -> dict[str, Any]:
        """The end of a round: add up what is this member's to add up, send to all what came out; bytes sent."""
        entered = await self.work(self._enter, changes)
        return {"answer": await self._send("take", [entered] * len(self.order.roster))}

    def _enter(self, changes: Sequence[Change]) -> dict[str, Entered]:
        assert self.assignment is not None
        entered: dict[str, Entered] = {}
        for name, blend, hold in changes:
            deltas, target = self.executor.rounds[name], self.assignment.targets[name]
            if missing := deltas.missing(len(self.group)):
                raise WorkersLost(f"--scheduler: what blocks {self.group[missing].tolist()} made has not come")
            own = target.enter(deltas, shrunk(target, blend), hold, self.number, len(self.order.roster))
            if own is not None:
                entered[name] = own
        self.entered[self.number] = entered
        return entered

    async def take(self, sender: int, sent: dict[str, Entered]) -> bool:
        """What another member has entered."""
        self.entered[sender] = sent
        return True

    def _absorb(self) -> None:
        """Take over what the others entered in the round before."""
        entered, self.entered = self.entered, {}
        if not entered:
            return
        assert self.assignment is not None
        for name in entered[self.number]:
            self.assignment.targets[name].absorb([entered[i][name] for i in range(len(self.order.roster))], self.number)

    async def _send(self, handler: str, given: Sequence[Any]) -> int:
        """Give every other member its own; returns the bytes, once all have them."""
        calls, sent = [], 0
        for other, (address, _) in enumerate(self.order.roster):
            if other != self.number:
                ask = getattr(self.worker.rpc(address), f"{self.order.run}-{handler}")
                calls.append(ask(sender=self.number, sent=to_serialize(given[other])))
                sent += size_of(given[other])
        if not all(await asyncio.gather(*calls)):
            raise WorkersLost("--scheduler: a member is gone")
        return sent


def size_of(given: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(given, np.ndarray):
        return int(given.nbytes)
    inside = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return sum(map(size_of, inside))
