"""The executor of a Dask cluster.

Members visit the blocks and hold the tables (member.py). The driver keeps params, statistics,
checkpoints and the decision to stop. The rows of the tables come here where something reads them,
and go back where that changed them: they and block state travel through the run's folder, which all
machines share. The sums of a round travel between members.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from distributed.comm.core import CommClosedError
from distributed.protocol.pickle import dumps, loads

from topicstream.addons.cluster.member import Answer, Change, JoinOrder, join
from topicstream.addons.cluster.scheduler import DaskCluster
from topicstream.base.errors import (
    DoesNotFit,
    TopicsError,
    UsageError,
    WorkersLost,
    exit_code_of,
)
from topicstream.base.files import ownership as owned
from topicstream.base.records import Json
from topicstream.engines.base import Phase
from topicstream.numeric.tables.table import Table
from topicstream.training.executor import Assignment, Executor, Job, Report
from topicstream.training.state.memory import BlockMemory
from topicstream.training.table_bytes import state_bytes
from topicstream.training.tables import FinishedTable

BETWEEN = 1.0
"""Seconds between two looks at the members."""
SILENCE = 8.0
"""Seconds without an answer after which a member is lost."""
SLOT = 64  # bytes that an array of block state is rounded up to


def assign_blocks(cells: np.ndarray, round_blocks: int, members: int) -> np.ndarray:
    """Assign each block to a member, int64[blocks].

    In each round the largest blocks come first, each to the member that has least.
    """
    owners = np.zeros(len(cells), np.int64)
    for first in range(0, len(cells), round_blocks):
        load = np.zeros(members)
        for i in first + np.argsort(-cells[first : first + round_blocks], kind="stable"):
            owners[i] = np.argmin(load)
            load[owners[i]] += cells[i]
    return owners


def _full_disk(error: OSError) -> DoesNotFit:
    """Make the error about a worker whose disk is full."""
    place = f" at {error.filename}" if error.filename else ""
    return DoesNotFit(
        f"--scheduler: the disk of a worker is full{place} ({error.strerror or error}); make room, "
        f"or start workers with --local-directory elsewhere, and run the same command again"
    )


class DaskWorkers(Executor):
    """Members on the workers of a cluster, one each.

    Parameters
    ----------
    job
        What they work on, with the workers, their folder and their allowance (``remote``).

    Raises
    ------
    UsageError
        For a job without workers of Dask.
    """

    def __init__(self, job: Job) -> None:
        remote = job.remote
        if remote is None or not isinstance(remote.cluster, DaskCluster):
            raise UsageError("executor dask: give the workers with scheduler= instead")
        cluster = remote.cluster
        job = replace(job, remote=None)
        self.client = cluster.client
        self.cluster = cluster
        self.folder = remote.folder.absolute()
        self.run = f"topics-{uuid.uuid4().hex[:12]}"
        self.roster = tuple(cluster.machines)
        owners = assign_blocks(job.grid.cells, job.layout.round_blocks, len(self.roster))
        state = state_bytes(job.engine, job.block) + SLOT * len(job.engine.state)
        self.room = state * np.bincount(owners, minlength=len(self.roster))
        order = JoinOrder(
            self.run,
            f"{self.folder}-{job.engine.name}",
            job,
            owners,
            self.roster,
            self.room,
            remote.allowance,
        )
        self.changes: list[Change] = []  # of the round that the next question ends, by table
        self.assignment: Assignment | None = None
        # where the rows are newer: with the driver, with the members, or nowhere
        self.newer: Literal["here", "there"] | None = None
        # of the present pass
        self.began = time.monotonic()
        self.visited = 0
        self.about = dict[str, Any]()
        try:
            refused = self.client.run(join, order, workers=list(self.roster))
        except OSError as e:
            if exit_code_of(e) == DoesNotFit.exit_code:
                raise _full_disk(e) from None
            raise WorkersLost(
                f"--scheduler: lost a worker while the run began ({e}); run the same command again"
            ) from None
        for error in filter(None, refused.values()):
            raise error
        self.watch: asyncio.Task[list[str]] = self.client.sync(self._start_watch)

    # questions to members

    async def _start_watch(self) -> asyncio.Task[list[str]]:
        silent = await self._find_silent()
        if silent:
            raise TopicsError(
                f"--scheduler: worker {', '.join(silent)} cannot be reached from here; run the "
                f"command in the network of the workers"
            )
        return asyncio.create_task(self._wait_for_silence())

    async def _wait_for_silence(self) -> list[str]:
        """Wait until members are silent, and return their addresses."""
        while not (silent := await self._find_silent()):
            await asyncio.sleep(BETWEEN)
        return silent

    async def _find_silent(self) -> list[str]:
        """List the members that do not answer."""
        silent = list(self.roster)
        for _ in range(2):  # after a sleep of this machine the first answer comes too late
            calls = (
                asyncio.wait_for(self._ask(address, "ping"), SILENCE / 2) for address in silent
            )
            answers = await asyncio.gather(*calls, return_exceptions=True)
            silent = [
                address
                for address, answer in zip(silent, answers, strict=True)
                if answer is not True
            ]
        return silent

    def _ask(self, address: str, handler: str, **message: Any) -> Awaitable[Any]:
        """Send a message to a handler of one member."""
        call: Awaitable[Any] = getattr(self.client.rpc(address), f"{self.run}-{handler}")(**message)
        return call

    def _ask_all(self, question: str, *arguments: Any, members: int | None = None) -> list[Answer]:
        """Ask all members, or the first few, the same question at once (see ``Member.ask``).

        Raises
        ------
        WorkersLost
            If members are gone. An exception of a member is raised again.
        """

        async def ask() -> list[Answer]:
            message = {  # pickled once, not for each member
                "question": question,
                "arguments": dumps(arguments),
                "changes": dumps(changes),
            }
            calls = [self._ask(address, "ask", **message) for address in self.roster[:members]]
            answers = asyncio.gather(*calls)
            # retrieves an error: asyncio would warn of one that nobody awaits
            answers.add_done_callback(lambda future: future.cancelled() or future.exception())
            await asyncio.wait({answers, self.watch}, return_when=asyncio.FIRST_COMPLETED)
            try:
                if answers.done() and all(answer is not None for answer in answers.result()):
                    return [loads(answer["answer"]) for answer in answers.result()]
            except (TimeoutError, CommClosedError, ConnectionError, WorkersLost):
                pass
            answers.cancel()
            gone = self.watch.result() if self.watch.done() else await self._find_silent()
            addresses = ", ".join(gone) or "the connection between two workers"
            raise WorkersLost(f"--scheduler: lost {addresses}", gone)

        changes = self.changes
        self.changes = []
        try:
            answered: list[Answer] = self.client.sync(ask)
        except WorkersLost as e:
            self.cluster.lose(e.addresses)
            raise
        except OSError as e:
            raise (_full_disk(e) if exit_code_of(e) == DoesNotFit.exit_code else e) from None
        return answered

    # the pass

    def begin(self, blocks: np.ndarray) -> None:
        self.blocks = blocks
        self.assignment = None
        self.began = time.monotonic()
        self.visited = 0
        self.about = {}

    def _start_pass(self, assignment: Assignment) -> None:
        """Start the pass on all members, sending the tables that they lack."""
        if self.newer == "here":
            with owned.scratch(self.folder, "tables") as place:
                self._ask_all("tables.load", place, *self.tables.save(place, True))
        self.assignment = assignment
        self._ask_all(
            "begin", self.blocks, replace(assignment, targets={}), self._free_offset(assignment.new)
        )

    def _free_offset(self, memory: BlockMemory | None) -> int:
        """Return the offset where members may write.

        It lies after everything written, including what lost members may still write.
        """
        if memory is None or (memory.index < 0).all():
            return 0
        return -(-max(memory.end, memory.path.stat().st_size) // SLOT) * SLOT + int(self.room.sum())

    def visit(self, position: int, group: np.ndarray, assignment: Assignment) -> list[Report]:
        if self.assignment is None:
            self._start_pass(assignment)
        reports: dict[int, Report] = {}
        answers = self._ask_all("visit", group, dict(assignment.params))
        for answer in answers:
            for place, reports[place], rows in answer.value:
                if assignment.new is not None:
                    assignment.new.index[group[place]] = rows
        self.newer = "there"
        self.visited += len(group)
        self.about = self._sum_effort(answers)
        return [reports[place] for place in range(len(group))]

    def apply(
        self, name: str, target: Table, blend: tuple[float, float] | None, hold: bool
    ) -> None:
        self.changes.append((name, blend, hold))

    def finish_pass(self, phase: Phase | None) -> dict[str, FinishedTable]:
        if self.assignment is None:  # the pass was made here
            self.gather()
            self.newer = "here"
            return super().finish_pass(phase)
        self.assignment = None
        self.newer = "there"
        answers_by_member = self._ask_all("tables.finish_pass", phase)
        self.about = self._sum_effort(answers_by_member)
        answers: list[dict[str, FinishedTable]] = [answer.value for answer in answers_by_member]
        for address, answer in zip(self.roster, answers, strict=True):
            if any(
                first.totals.tobytes() != answer[name].totals.tobytes()
                for name, first in answers[0].items()
            ):
                raise TopicsError(
                    f"--scheduler: worker {address} made different topics from "
                    f"{self.roster[0]}; the last checkpoint is intact, report this"
                )
        for name, finished in answers[0].items():
            table = self.tables.current[name]
            table.totals[:] = finished.totals
            table.scale = 1.0
        for table in self.tables.successors.values():
            table.totals[:] = 0.0
        return answers[0]

    def gather(self) -> None:
        if self.newer == "there":
            midway = self.assignment is not None
            with owned.scratch(self.folder, "tables") as place:
                (saved,) = self._ask_all("tables.save", place, midway, members=1)
                self.tables.load(place, *saved.value)
            self.newer = None

    def share(self) -> None:
        if self.newer is None:  # rows that were not gathered have not been changed
            self.newer = "here"

    def write_state(self) -> None:
        if not self.watch.cancelled():  # a member that leaves has brought its state to the disk
            self._ask_all("sync")
            self.gather()

    def _sum_effort(self, answers: Sequence[Answer]) -> dict[str, Json]:
        """Sum up the work of the pass, as members report it."""
        working = np.array([answer.working for answer in answers])
        seconds = time.monotonic() - self.began
        return {
            "workers": len(answers),
            "blocks": self.visited,
            "sent_bytes": sum(answer.sent for answer in answers),
            "waiting_seconds": round(max(0.0, seconds - float(working.mean())), 6),
            "slowest": self.roster[int(working.argmax())],
            "speedup": round(float(working.sum()) / seconds, 3),  # beside one of them alone
        }

    def effort(self) -> dict[str, dict[str, Json]]:
        return {"cluster": self.about} if self.about else {}

    def end(self) -> None:
        """Members end a pass when the next one begins."""

    def free_buffers(self) -> None:
        self._ask_all("free_buffers")

    def release(self) -> None:
        if self.watch.cancelled():
            return

        async def leave() -> None:
            self.watch.cancel()
            alive = (address for address in self.roster if address not in self.cluster.lost)
            calls = (asyncio.wait_for(self._ask(address, "leave"), SILENCE) for address in alive)
            await asyncio.gather(*calls, return_exceptions=True)

        self.client.sync(leave)
