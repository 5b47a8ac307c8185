"""The memory limit of a command, and the plan that keeps to it.

A verb's configuration derives from ``MemoryOptions``, which declares ``--mem-limit`` for all
verbs. The verb passes ``config.memory``, a ``MemoryLimit``, to whatever it calls, and plans before
it starts. Sizes come from the shapes of the arrays that the work will hold:

>>> from topicstream.base.memory import Array, MemoryLimit, plan_memory, total_bytes
>>> plan = plan_memory(
...     "scoring",
...     MemoryLimit.parse("512M"),
...     workers=16,
...     fixed={"table": Array((100_000, 100), "float32").nbytes},
...     per_worker={
...         "rows": total_bytes([Array((40_000, 100), "float32"), Array((40_000,), "int64")])
...     },
... )
>>> plan.workers
10
>>> print(*plan.lines(), sep="\\n")
memory plan: 509 MB of 512 MB for scoring, 10 threads
  process 304 MB, table 38 MB, rows 156 MB

The bytes of the interpreter and the libraries (``process``), of objects that come from an address
(``objects``) and the losses of the allocator are added here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topicstream.base.errors import DoesNotFit
from topicstream.base.machine import PROCESS_BYTES, format_bytes, memory_allowed, parse_bytes
from topicstream.base.options import option
from topicstream.base.places import places
from topicstream.base.progress import ProgressLike
from topicstream.base.text import counted

FLOOR = 512 << 20
"""The smallest limit that a user may state."""
DEFAULT_SHARE = 0.7
"""Default limit, as a share of the machine's or cgroup's memory."""
SLACK = 1.06
"""Factor for fragmentation and the allocator, of all but the process itself."""


class Array(NamedTuple):
    """An array that the work will hold: its shape and NumPy dtype."""

    shape: tuple[int, ...]
    dtype: object

    @property
    def nbytes(self) -> int:
        """Bytes of its entries."""
        # a tenth of a second, which commands that only read options need not spend
        import numpy as np

        dtype = np.dtype(self.dtype)  # type: ignore[call-overload]
        return math.prod(map(int, self.shape)) * int(dtype.itemsize)


def total_bytes(arrays: Iterable[Array]) -> int:
    """Add up the bytes of several arrays."""
    return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class MemoryLimit:
    """The memory limit of the whole process.

    Attributes
    ----------
    bytes
        The limit.
    stated
        True if the user stated it; otherwise it is 70 % of the machine's or cgroup's memory.
    """

    bytes: int
    stated: bool = True

    @classmethod
    def parse(cls, text: str | int | float | MemoryLimit | None) -> MemoryLimit:
        """Read a value of ``--mem-limit``.

        Parameters
        ----------
        text
            ``"2G"``, ``"512M"``, a number of bytes, or None for the default; a ``MemoryLimit`` is
            returned as it is.

        Raises
        ------
        UsageError
            If the text is no amount of memory.
        DoesNotFit
            If it is less than 512 MB.
        """
        if isinstance(text, MemoryLimit):
            return text
        if text is None:
            return cls(max(FLOOR, int(memory_allowed() * DEFAULT_SHARE)), stated=False)
        limit = parse_bytes(text)
        if limit < FLOOR:
            raise DoesNotFit(
                f"--mem-limit {format_bytes(limit)}: every command needs at least {FLOOR >> 20}M",
                least=FLOOR >> 20,
            )
        return cls(limit)

    def __str__(self) -> str:
        return format_bytes(self.bytes)


@dataclass(frozen=True)
class Room:
    """Memory for data whose size is known only once it is met, such as an unusually large record.

    Attributes
    ----------
    limit
        The memory limit of the process.
    free
        Bytes that are left of it.
    share
        Part of any increase of the limit that this data is sure to get, 0 to 1. The rest may go
        to larger blocks.
    """

    limit: MemoryLimit
    free: int
    share: float = 1.0

    def check(self, needed: int, purpose: str, at_end: int = 0) -> None:
        """Raise DoesNotFit if some data takes more than is free.

        Parameters
        ----------
        needed
            Bytes of the data.
        purpose
            The data, for the message.
        at_end
            Bytes that it will take at its end, if more.

        Raises
        ------
        DoesNotFit
            With the smallest limit that would do.
        """
        if needed > self.free:
            needed = max(needed, at_end)
            bytes_enough = self.limit.bytes + int((needed - self.free) / self.share)
            enough = -(-bytes_enough // (1 << 20))  # rounded up
            raise DoesNotFit(
                f"{purpose} takes about {format_bytes(needed)} of memory, "
                f"{format_bytes(max(self.free, 0))} are left of "
                f"--mem-limit {self.limit}; {enough}M would do (the same command then carries on)",
                least=enough,
            )


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Base of the configurations of all verbs that keep to a memory limit."""

    mem_limit: str | int | None = option(
        None,
        "Memory limit of the whole process, such as 2G or 512M (default: 70 % of the machine or "
        "control group).",
        metavar="SIZE",
        parse=parse_bytes,
        last=True,
        machine=True,
        decides="nothing",
        set_by_retrain=True,
    )

    @property
    def memory(self) -> MemoryLimit:
        """The limit of this run, read by ``MemoryLimit.parse``."""
        return MemoryLimit.parse(self.mem_limit)


@dataclass(frozen=True, kw_only=True)
class WorkOptions(MemoryOptions):
    """Base of the configurations of verbs that also report progress."""

    progress: ProgressLike = option(
        None,
        "progress listener (topicstream/base/progress.py)",
        cli=False,
        last=True,
        machine=True,
        decides="nothing",
        set_by_retrain=True,
    )


@dataclass(frozen=True, kw_only=True)
class ThreadedOptions(WorkOptions):
    """Base of the configurations of verbs that also work in threads."""

    threads: int | None = option(
        None,
        "Threads (default: all processors); the result does not depend on them.",
        min=1,
        max=4096,
        last=True,
        machine=True,
    )


@dataclass(frozen=True)
class MemoryPlan:
    """The number of threads with which a task keeps to its limit.

    Attributes
    ----------
    task
        The task, for messages: ``"scoring model"``.
    limit
        The limit.
    workers
        Threads that work at once.
    parts
        Bytes by purpose, ``process`` (interpreter, libraries, kernels) first.
    """

    task: str
    limit: MemoryLimit
    workers: int
    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes that the process will hold at most."""
        process = self.parts["process"]
        return process + int((sum(self.parts.values()) - process) * SLACK)

    @property
    def free(self) -> int:
        """Bytes that may be held besides."""
        return int((self.limit.bytes - self.total) / SLACK)

    def lines(self) -> list[str]:
        """Format the plan as lines."""
        parts = ", ".join(
            f"{name} {format_bytes(size)}" for name, size in self.parts.items() if size >= 1 << 20
        )
        total = format_bytes(self.total)
        return [
            f"memory plan: {total} of {self.limit} for {self.task}, "
            f"{counted(self.workers, 'thread')}",
            f"  {parts}",
        ]


Stage = tuple[Mapping[str, int], Mapping[str, int]]
"""Bytes by purpose, of the process and of each worker."""


def plan_memory(
    task: str,
    limit: MemoryLimit,
    workers: int,
    fixed: Mapping[str, int],
    per_worker: Mapping[str, int],
    advice: str = "raise --mem-limit",
    further_stages: Sequence[Stage] = (),
    process: int | None = None,
) -> MemoryPlan:
    """Plan a task with as many workers as the limit allows.

    Parameters
    ----------
    task
        The task, for messages.
    limit
        The memory limit of the whole process.
    workers
        Threads wanted; the plan has at least 1 and at most these.
    fixed
        Bytes by purpose, whatever the number of workers.
    per_worker
        Bytes by purpose of each worker; a purpose may also stand in ``fixed``.
    advice
        Advice to the user if the task does not fit.
    further_stages
        Further stages of the task, one after the other, each with its ``fixed`` and
        ``per_worker``.
    process
        Bytes of the process without data, if measured (``machine.process_bytes``).

    Returns
    -------
    MemoryPlan
        The plan of the stage that takes most.

    Raises
    ------
    DoesNotFit
        If one worker does not fit; the message and ``least`` (in MB) name the smallest limit
        that would do.
    """

    def plan_stage(stage: Stage, number: int) -> MemoryPlan:
        """Plan a stage with ``number`` workers."""
        parts = {"process": PROCESS_BYTES if process is None else process, **stage[0]}
        if places().buffers():
            parts["objects"] = places().buffers()
        parts |= {name: parts.get(name, 0) + size * number for name, size in stage[1].items()}
        return MemoryPlan(task, limit, number, parts)

    for number in range(max(1, workers), 0, -1):
        plan = max(
            (plan_stage(stage, number) for stage in ((fixed, per_worker), *further_stages)),
            key=lambda plan: plan.total,
        )
        if plan.total <= limit.bytes:
            return plan
    least = max(FLOOR, plan.total)
    megabytes = -(-least // (1 << 20))
    raise DoesNotFit(
        f"{task} does not fit {limit}: the smallest limit that would do is {megabytes}M; {advice}",
        least=megabytes,
    )
