"""A member of a training on a Dask cluster: what a worker owns of it, and what the driver and other members ask of it.

A member has a replica of the tables, and owns some blocks and their state.  It is asked by Dask's own RPC, as workers are that
shuffle: a plugin of the worker registers one handler for each question.  In a round every member visits its blocks and
sends to each other what that one adds up: deltas are rounded so that their sum is exact, so it does not matter who adds, nor in
which order.  With the next question it hears how the round ends; each adds up what is its own, and sends to all what came out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from distributed import Worker, WorkerPlugin
from distributed.protocol.pickle import dumps, loads
from distributed.protocol.serialize import to_serialize

from topicstream import machine
from topicstream.corpus.grid import Grid
from topicstream.engines.base import BlockShape, Key, Phase
from topicstream.errors import DoesNotFit, TopicsError, WorkersLost
from topicstream.memory import MemoryLimit
from topicstream.parallel.rounds import Workers
from topicstream.tables.rounds import Entered
from topicstream.training.executor import Assignment, Job, Report, RunRecipe, shrunk
from topicstream.training.plan import Allowance, Work, make_plan
from topicstream.training.starts.seeds import Seeds
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import RunTables
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
    room
        int64[members], bytes that each may write of block state in a pass.
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
    room: np.ndarray
    limit: int
    threads: int | None
    tables: str
    driver: tuple[str, str]


class StateFile(NamedTuple):
    """A file of block state: its path, the rows of its index, and where the first member writes, before the second ..."""

    path: Path
    rows: np.ndarray
    free: int


class PassOrder(NamedTuple):
    """What the visits of a pass share, as in an ``Assignment``, and its blocks."""

    key: Key
    phase: Phase
    blocks: np.ndarray
    seeds: Seeds | None
    old: StateFile | None
    new: StateFile | None


class Answer(NamedTuple):
    """What a member answers; seconds in which it has visited blocks and added up since the pass began, and bytes that it has sent
    other members."""

    value: Any
    working: float
    sent: int


Change = tuple[str, tuple[float, float] | None, bool]
"""Of ``Executor.apply``: table, blend, hold."""
Visited = tuple[int, Report, np.ndarray | None]
"""A block's place in the round, what the driver hears of its visit, and the index rows of its state."""


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
        for handler in (self.ping, self.ask, self.hear, self.leave):
            worker.handlers[f"{self.order.run}-{handler.__name__}"] = handler
        self.watch = asyncio.create_task(self._watch())

    async def teardown(self, worker: Worker) -> None:
        """Called by Dask."""
        self.watch.cancel()
        for name in [name for name in worker.handlers if name.startswith(self.order.run)]:
            del worker.handlers[name]
        await self.work(self.close)
        self.thread.shutdown(wait=False)
        self.all_entered.set()  # a question that waits for members who are gone fails

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
        self.entered: dict[int, dict[str, Entered]] = {}
        self.all_entered = asyncio.Event()
        self.outbox: list[Any] = []
        self.working, self.sent = 0.0, 0

    def close(self) -> None:
        """Give everything back."""
        self.sync()
        self._forget()
        self.executor.release()
        self.workers.close()
        self.tables.close()

    def _forget(self) -> None:
        """End a pass that is under way."""
        self.executor.end()
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

    async def ask(self, question: str, given: bytes, changes: bytes) -> dict[str, bytes]:
        """End the round that there is, with these changes; then a method by its name, and what it leaves for other members is
        sent to them.  Both run in the member's thread."""
        if ended := loads(changes):
            entered = await self.work(self.enter, ended)
            await self.hear(self.number, entered)
            await self._send([entered] * len(self.order.roster))
            await self.all_entered.wait()
            self.all_entered.clear()
            all_entered, self.entered = self.entered, {}
            await self.work(self.absorb, all_entered)
        value = await self.work(attrgetter(question)(self), *loads(given))
        await self._send(self.outbox)
        self.outbox = []
        return {"answer": dumps(Answer(value, self.working, self.sent))}

    async def hear(self, sender: int, sent: Any) -> bool:
        """What a member has entered, by table, or what blocks made there: (table, place in the round, arrays ...)."""
        if isinstance(sent, dict):
            self.entered[sender] = sent
            if len(self.entered) == len(self.order.roster):
                self.all_entered.set()
        else:
            for name, place, *arrays in sent:
                self.executor.rounds[name].receive(place, arrays)
        return True

    def begin(self, order: PassOrder) -> None:
        """A pass begins."""
        self._forget()
        self.working, self.sent = 0.0, 0
        mine = self.order.owners == self.number
        self.executor.begin(order.blocks[mine[order.blocks]])
        self.position, old, new = 0, self._state(order.old), self._state(order.new)
        self.assignment = Assignment.of(self.tables, order.key, order.phase, {}, order.seeds, old, new)

    def _state(self, file: StateFile | None) -> BlockMemory | None:
        if file is None:
            return None
        memory = BlockMemory(file.path, self.executor.engine.state, file.rows.copy(), create=False)
        memory.end = file.free + int(self.order.room[: self.number].sum())
        self.stop = memory.end + int(self.order.room[self.number])
        return memory

    def sync(self) -> None:
        """Bring the block state that this machine has written to the disk."""
        for memory in self._memories():
            memory.sync()

    # -- rounds ----------------------------------------------------------------------------------------------------
    def visit(self, group: np.ndarray, params: Mapping[str, np.ndarray]) -> list[Visited]:
        """Visit the blocks of a round that are this member's; what they made goes to those who add it up."""
        assert self.assignment is not None
        began = time.monotonic()
        self.group, targets = group, self.assignment.targets
        places = np.flatnonzero(self.order.owners[group] == self.number).tolist()
        made = self.executor.visit_some(self.position, group[places], places, replace(self.assignment, params=params))
        self.position += len(places)
        new, rounds, members = self.assignment.new, self.executor.rounds, len(self.order.roster)
        if new is not None and new.end > self.stop:
            raise TopicsError("block state is longer than planned; the last checkpoint is intact, report this")
        for other in range(members):
            chosen = {name: partial(targets[name].spans, owner=other, members=members) for name in targets}
            here = [] if other == self.number else [(n, place) for n in targets for place in places]
            self.outbox.append([(n, place, *rounds[n].part(place, chosen[n])) for n, place in here])
        self.working += time.monotonic() - began
        return [
            (place, report, None if new is None else new.index[group[place]].copy())
            for place, report in zip(places, made, strict=True)
        ]

    def enter(self, changes: Sequence[Change]) -> dict[str, Entered]:
        """The end of a round: add up what is this member's to add up; what came out, by table."""
        assert self.assignment is not None
        began, entered = time.monotonic(), dict[str, Entered]()
        for name, blend, hold in changes:
            deltas, target = self.executor.rounds[name], self.assignment.targets[name]
            if missing := deltas.missing(len(self.group)):
                raise WorkersLost(f"--scheduler: what blocks {self.group[missing].tolist()} made has not come")
            own = target.enter(deltas, shrunk(target, blend), hold, self.number, len(self.order.roster))
            if own is not None:
                entered[name] = own
        self.working += time.monotonic() - began
        return entered

    def absorb(self, entered: Mapping[int, Mapping[str, Entered]]) -> None:
        """Take over what all have entered, by member and table."""
        assert self.assignment is not None
        for name in entered[self.number]:
            self.assignment.targets[name].absorb([entered[i][name] for i in range(len(self.order.roster))], self.number)

    async def _send(self, given: Sequence[Any]) -> None:
        """Give every other member what there is for it; returns once all have it."""
        calls = []
        for (address, identity), own in zip(self.order.roster, given, strict=False):
            if identity != self.worker.id:
                hear = getattr(self.worker.rpc(address), f"{self.order.run}-hear")
                calls.append(hear(sender=self.number, sent=to_serialize(own)))
                self.sent += size_of(own)
        if not all(await asyncio.gather(*calls)):
            raise WorkersLost("--scheduler: a member is gone")


def size_of(given: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(given, np.ndarray):
        return int(given.nbytes)
    inside = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return sum(map(size_of, inside))
