"""A member of a training on a Dask cluster.

A member has a replica of the tables, and owns some blocks and their state. It is asked by Dask's
own RPC, as workers are that shuffle: a plugin of the worker registers one handler for each
question. In a round every member visits its blocks. Deltas are rounded so that their sum is exact,
so it does not matter who adds, nor in which order. Sparse deltas of a dense table a member sums
over its blocks and sends to all others, who add up all sums (numeric/tables/sums.py). Of other
deltas it sends each other member those that it adds up. The next question tells how the round ends:
each member then adds up its own rows of these and sends the results to all.
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
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from distributed import Worker, WorkerPlugin
from distributed.protocol.pickle import dumps, loads
from distributed.protocol.serialize import to_serialize

from topicstream.base import machine
from topicstream.base.errors import DoesNotFit, TopicsError, WorkersLost
from topicstream.numeric.parallel import Workers
from topicstream.numeric.tables.rounds import Entered, SparseRound
from topicstream.numeric.tables.sums import PackedSums
from topicstream.training.executor import Assignment, Job, Report, shrink_table
from topicstream.training.plan import Allowance, Work, make_plan
from topicstream.training.state.memory import BlockMemory
from topicstream.training.tables import RunTables
from topicstream.training.threads import Threads

T = TypeVar("T")
FORGOTTEN = 120.0
"""Seconds without a word of the driver after which a member ends itself."""


@dataclass(frozen=True)
class JoinOrder:
    """The order that makes the members of a run, the same for all of them.

    Attributes
    ----------
    run
        Name of the run among all those of the cluster.
    place
        Name of the membership on a worker: a later run there, or one whose driver was killed, ends
        the earlier one.
    job
        The job of the members.
    owners
        int64[blocks], the number of the member that owns each block.
    roster
        Address of the worker of each member, by number.
    room
        int64[members], bytes that each may write of block state in a pass.
    allowance
        Of a member. Threads 0 stands for those that Dask gives the worker.
    """

    run: str
    place: str
    job: Job
    owners: np.ndarray
    roster: tuple[str, ...]
    room: np.ndarray
    allowance: Allowance


class Answer(NamedTuple):
    """An answer of a member.

    Attributes
    ----------
    value
        The result.
    working
        Seconds of visiting blocks and adding up since the pass began.
    sent
        Bytes sent to other members.
    """

    value: Any
    working: float
    sent: int


Change = tuple[str, tuple[float, float] | None, bool]
"""Arguments of ``Executor.apply``: table, blend, hold."""
Visited = tuple[int, Report, np.ndarray | None]
"""A block's place in the round, what the driver hears of its visit, and the index rows of its
state.
"""


async def join(order: JoinOrder, dask_worker: Worker) -> TopicsError | None:
    """Make this worker a member, or return the error that prevents it."""
    if order.place in dask_worker.plugins:
        await dask_worker.plugin_remove(order.place)
    member = Member(order, dask_worker)
    try:
        await member.work(member.open)
    except TopicsError as e:
        return e
    await dask_worker.plugin_add(member, name=order.place)
    return None


def work_of_member(job: Job, members: int) -> Work:
    """Describe what a member plans for.

    The seed table of the start is sent to every member, and a start that visits blocks has tables
    there: a member holds what the driver's plan counts for it.
    """
    return Work(
        job.engine, job.layout, job.block, start=job.start, seeded=job.seeded, members=members
    )


def find_room(allowance: Allowance, worker: Worker) -> Allowance:
    """Return what a new member of a worker may use.

    The start ``anchors`` trains an engine of its own in a second member, beside the tables of the
    first.
    """
    others = [plugin for plugin in worker.plugins.values() if isinstance(plugin, Member)]
    return replace(
        allowance,
        threads=allowance.threads or worker.state.nthreads,
        folder=str(worker.local_directory),
        process=allowance.process + sum(other.table_bytes for other in others),
    )


class Member(WorkerPlugin):
    """The plugin of one run in one worker."""

    assignment: Assignment
    last_heard: float
    """Time of the driver's last question."""
    table_bytes = 0
    """Bytes of tables and vocabulary, which it holds between visits too."""

    def __init__(self, order: JoinOrder, worker: Worker) -> None:
        self.order = order
        self.worker = worker
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="member")

    async def setup(self, worker: Worker) -> None:
        """Register the handlers of the questions (Dask calls it)."""
        self.last_heard = time.monotonic()
        for handler in (self.ping, self.ask, self.receive, self.leave):
            worker.handlers[f"{self.order.run}-{handler.__name__}"] = handler
        self.watch = asyncio.create_task(self._watch())

    async def teardown(self, worker: Worker) -> None:
        """Remove the handlers and close the files (Dask calls it)."""
        self.watch.cancel()
        for name in [name for name in worker.handlers if name.startswith(self.order.run)]:
            del worker.handlers[name]
        await self.work(self.close)
        self.thread.shutdown(wait=False)
        self.all_entered.set()  # a question that waits for members who are gone fails

    async def _watch(self) -> None:
        """End when the driver is gone."""
        while time.monotonic() - self.last_heard < FORGOTTEN:
            await asyncio.sleep(FORGOTTEN / 10)
        asyncio.get_running_loop().create_task(self.worker.plugin_remove(self.order.place))

    async def work(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function in the member's thread, after those before it."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *args)

    # begin and end of the membership

    def open(self) -> None:
        """Make tables and threads within a plan of this worker.

        Raises
        ------
        DoesNotFit
            If they do not fit the worker.
        """
        order = self.order
        worker = self.worker
        job = self.order.job
        self.number = order.roster.index(str(worker.contact_address))
        folder = Path(worker.local_directory)
        if job.engine.about.products:
            machine.one_blas_thread()
        n_w = job.corpus.word_counts() if job.corpus.weights is None else job.corpus.weights.n_w
        room = find_room(order.allowance, worker)
        try:
            plan = make_plan(work_of_member(job, len(order.roster)), room)
        except DoesNotFit as e:
            raise DoesNotFit(f"worker {worker.address}: {e}", least=e.least) from None
        self.table_bytes = sum(plan.memory.parts.get(part, 0) for part in ("tables", "vocabulary"))
        self.workers = Workers(plan.threads)
        self.tables = RunTables(
            job.engine, n_w, self.workers, folder if plan.place.tables_on_disk else None
        )
        spill = folder if plan.place.deltas_spill else None
        self.executor = Threads(
            replace(
                job,
                workers=self.workers,
                prefetch=plan.place.prefetch,
                spill=spill,
                seed_rows=plan.seed_rows,
            )
        )
        self.executor.place(self.tables)
        self.sums = self._new_sums() if len(order.roster) > 1 else {}
        self.memories: list[BlockMemory] = []  # of the pass
        self.entered: dict[int, dict[str, Entered]] = {}
        self.all_entered = asyncio.Event()
        self.outbox: list[Any] = []
        self.working = 0.0
        self.sent = 0

    def _new_sums(self) -> dict[str, PackedSums]:
        """Make the collectors for the sums of members, of the tables that have them."""
        tokens = self.order.job.engine.shape.tokens
        collectors = {name: table.new_sums(tokens) for name, table in self.tables.current.items()}
        return {name: sums for name, sums in collectors.items() if sums is not None}

    def close(self) -> None:
        """Write block state to the disk, and release memory, threads and files."""
        self.sync()
        self._end_pass()
        self.executor.release()
        self.workers.close()
        self.tables.close()

    def _end_pass(self) -> None:
        """End a pass that is under way."""
        self.executor.end()
        for memory in self.memories:
            memory.close()

    # questions of the driver and of other members

    async def ping(self) -> bool:
        """Answer that the member is there."""
        self.last_heard = time.monotonic()
        return True

    async def leave(self) -> str:
        """End the membership: the run is over."""
        return str((await self.worker.plugin_remove(self.order.place))["status"])

    async def ask(self, question: str, arguments: bytes, changes: bytes) -> dict[str, bytes]:
        """End the current round with these changes, then call a method by its name.

        Messages that it leaves for other members are sent to them. Both run in the member's thread.
        """
        ended_round = loads(changes)
        if ended_round:
            entered = await self.work(self.sum_owned_rows, ended_round)
            await self._exchange(entered)
        value = await self.work(self._answer, question, arguments)
        await self._send(self.outbox)
        self.outbox = []
        return {"answer": dumps(Answer(value, self.working, self.sent))}

    async def _exchange(self, entered: dict[str, Entered]) -> None:
        """Send the rows that this member has summed, and apply those of all members.

        There may be none, but no member may send deltas of the next round before all have summed.
        """
        await self.receive(self.number, entered)
        await self._send([entered] * len(self.order.roster))
        await self.all_entered.wait()
        self.all_entered.clear()
        all_entered = self.entered
        self.entered = {}
        await self.work(self.apply_rows, all_entered)

    def _answer(self, question: str, arguments: bytes) -> Any:
        """Call a method by its name with pickled arguments."""
        return attrgetter(question)(self)(*loads(arguments))  # block state is a file that is opened

    async def receive(self, sender: int, sent: Any) -> bool:
        """Handle a message from another member: its summed rows, or deltas of its blocks.

        Summed rows come by table, deltas as (table, place in the round, arrays ...), their sums
        with the member's number as the place.
        """
        if isinstance(sent, dict):
            self.entered[sender] = sent
            if len(self.entered) == len(self.order.roster):
                self.all_entered.set()
        else:
            for name, place, *arrays in sent:
                collector = self.sums.get(name) or self.executor.rounds[name]
                collector.receive(place, arrays)
        return True

    def begin(self, blocks: np.ndarray, assignment: Assignment, free: int) -> None:
        """Begin a pass over these blocks.

        ``free`` is the offset where the first member may write block state, followed by the second,
        and so on.
        """
        self._end_pass()
        self.assignment = assignment.for_tables(self.tables)
        self.memories = [
            memory for memory in (assignment.old, assignment.new) if memory is not None
        ]
        if assignment.new is not None:
            assignment.new.end = free + int(self.order.room[: self.number].sum())
            self.stop = assignment.new.end + int(self.order.room[self.number])
        self.working = 0.0
        self.sent = 0
        self.position = 0
        self.executor.begin(blocks[self.order.owners[blocks] == self.number])

    def free_buffers(self) -> None:
        """Free the memory of the buffers until the next visit."""
        self.executor.free_buffers()
        for sums in self.sums.values():
            sums.rest()

    def sync(self) -> None:
        """Bring the block state that this machine has written to the disk."""
        for memory in self.memories:
            memory.sync()

    # rounds

    def visit(self, group: np.ndarray, params: Mapping[str, np.ndarray]) -> list[Visited]:
        """Visit this member's blocks of a round, and queue their deltas for other members."""
        began = time.monotonic()
        self.group = group
        targets = self.assignment.targets
        places = np.flatnonzero(self.order.owners[group] == self.number).tolist()
        reports = self.executor.visit_part(
            self.position, group[places], places, replace(self.assignment, params=params)
        )
        self.position += len(places)
        new = self.assignment.new
        rounds = self.executor.rounds
        members = len(self.order.roster)
        if new is not None and new.end > self.stop:
            raise TopicsError(
                "block state is longer than planned; the last checkpoint is intact, report this"
            )
        packed = [
            (name, self.number, *sums.pack(self.number, cast(SparseRound, rounds[name])))
            for name, sums in self.sums.items()
            if name in targets and places
        ]
        summed_by_owners = [name for name in targets if name not in self.sums]
        for other in range(members):
            message = list(packed)
            for name in summed_by_owners if other != self.number else ():
                spans = partial(targets[name].spans, owner=other, members=members)
                message += [(name, place, *rounds[name].part(place, spans)) for place in places]
            self.outbox.append(message)
        self.working += time.monotonic() - began
        return [
            (place, report, None if new is None else new.index[group[place]].copy())
            for place, report in zip(places, reports, strict=True)
        ]

    def sum_owned_rows(self, changes: Sequence[Change]) -> dict[str, Entered]:
        """End a round: sum the rows that this member owns, and return them."""
        began = time.monotonic()
        entered = dict[str, Entered]()
        for name, blend, hold in changes:
            deltas = self.executor.rounds[name]
            target = self.assignment.targets[name]
            owners = self.order.owners[self.group]
            sums = self.sums.get(name)
            if sums is None:
                missing = self.group[deltas.missing(len(self.group))]
            else:
                missing = self.group[np.isin(owners, sums.missing(np.unique(owners).tolist()))]
            if len(missing):
                raise WorkersLost(f"--scheduler: what blocks {missing.tolist()} made has not come")
            if sums is not None:
                target.apply_sums(sums, shrink_table(target, blend))
                deltas.clear()
                continue
            rows = target.add_owned(
                deltas, shrink_table(target, blend), hold, self.number, len(self.order.roster)
            )
            if rows is not None:
                entered[name] = rows
        self.working += time.monotonic() - began
        return entered

    def apply_rows(self, entered: Mapping[int, Mapping[str, Entered]]) -> None:
        """Apply the rows that every member has summed, by member and table."""
        for name in entered[self.number]:
            self.assignment.targets[name].take_owned(
                [entered[i][name] for i in range(len(self.order.roster))], self.number
            )

    async def _send(self, messages: Sequence[Any]) -> None:
        """Send every other member its message, and return once all have it."""
        calls = []
        for number, (address, message) in enumerate(zip(self.order.roster, messages, strict=False)):
            if number != self.number:
                receive = getattr(self.worker.rpc(address), f"{self.order.run}-receive")
                calls.append(receive(sender=self.number, sent=to_serialize(message)))
                self.sent += size_of(message)
        if not all(await asyncio.gather(*calls)):
            raise WorkersLost("--scheduler: a member is gone")


def size_of(value: Any) -> int:
    """Count the bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return 0
