"""A Dask cluster, as ``--scheduler`` names it: connected, checked, and given tasks.

Tasks are long (seconds), write their results themselves and are made again where a worker is lost,
so they may run twice. Dask is imported only once a scheduler is given.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from topicstream.base.cluster import Cluster, Item, Result, run_task
from topicstream.base.errors import DoesNotFit, InputError, TopicsError, UsageError, WorkersLost
from topicstream.base.machine import (
    __version__,
    default_threads,
    format_bytes,
    memory_allowed,
    return_freed_memory,
)
from topicstream.base.memory import DEFAULT_SHARE, FLOOR, MemoryLimit
from topicstream.numeric.kernels.local_step import dirichlet_weights, probabilities

UNWATCHED = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
}
"""Settings of Dask for workers of our own: what looks at them fifty to a thousand times a second
takes 3 % of a core.
"""
PATIENCE = 10.0
"""Seconds in which a scheduler must answer and a first worker be there."""
ANSWER = 60.0
"""Seconds in which a worker must describe itself; it may have to compile first."""
LOOK = 30.0
"""Seconds between two searches for workers that have come."""
RESOURCE = {"topicstream": 1}
"""Resource of each worker. A task takes all threads and memory, so a worker runs one at a time."""


class Machine(NamedTuple):
    """A worker's description of itself.

    Attributes
    ----------
    threads
        Threads that Dask gives it.
    allowed, limit
        Bytes that its machine or cgroup allows, and that Dask allows it (0: no limit).
    """

    threads: int
    allowed: int
    limit: int


async def describe(version: str, arithmetic: str, paths: list[str], dask_worker: Any) -> Machine:
    """Describe the worker that runs this, and limit it to one task at a time.

    Dask passes the worker.

    Raises
    ------
    UsageError
        If it has another version of this package, or other bits (``self_test``), or cannot read one
        of the paths.
    """
    worker = f"--scheduler: worker {dask_worker.contact_address}"
    if version != __version__:
        raise UsageError(
            f"{worker} has topicstream {__version__}, the command {version}; install the same"
        )
    if arithmetic != self_test():
        raise UsageError(
            f"{worker} has another instruction set than the command's machine, and would give "
            f"other bits; "
            "start the command and all workers on processors of one kind"
        )
    for path in paths:
        if not os.access(path, os.R_OK):
            raise UsageError(
                f"{worker} cannot read {path}; put it on a file system that all machines share"
            )
    return_freed_memory()
    if not RESOURCE.keys() <= dask_worker.state.total_resources.keys():
        await dask_worker.set_resources(**RESOURCE)
        # tasks that no worker could take the scheduler gives only to one that starts to run
        running = dask_worker.status
        dask_worker.status = type(running).paused
        dask_worker.status = running
    return Machine(
        dask_worker.state.nthreads,
        memory_allowed(),
        int(dask_worker.memory_manager.memory_limit or 0),
    )


class DaskCluster(Cluster):
    """Workers of Dask that have described themselves and suit.

    Attributes
    ----------
    client
        ``distributed.Client``.
    machines
        The description of each worker by its address.
    """

    executor = "dask"

    @classmethod
    def check(cls) -> None:
        try:
            import distributed  # noqa: F401  a third of a second
        except ImportError:
            raise UsageError("--scheduler needs Dask: pip install 'topicstream[dask]'") from None

    @classmethod
    @contextmanager
    def connect(
        cls, scheduler: Any, paths: Iterable[str | Path] = (), least: int = 1
    ) -> Iterator[DaskCluster]:
        """Connect to Dask's scheduler, or start workers on this machine.

        Parameters
        ----------
        scheduler
            An address, the path of a scheduler's file, ``local:N``, or a ``distributed.Client``.
        paths, least
            As of ``Cluster.connect``.
        """
        from dask import config as dask_config
        from distributed import Client, LocalCluster

        for name in ("distributed", "distributed.client"):
            # lost connections are reported by our own messages
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with ExitStack() as stack:
            if isinstance(scheduler, Client):
                client = scheduler
            elif str(scheduler).startswith("local:"):
                stack.enter_context(dask_config.set(UNWATCHED))
                stack.enter_context(_without_script())
                try:
                    local_cluster = LocalCluster(
                        processes=True,
                        memory_limit=0,
                        dashboard_address=":0",
                        silence_logs=logging.CRITICAL,
                        **_parse_local(str(scheduler)),
                    )
                    client = stack.enter_context(Client(stack.enter_context(local_cluster)))
                    client.run(_ignore_interrupts)
                except (RuntimeError, OSError) as e:
                    raise WorkersLost(
                        f"--scheduler {scheduler}: a worker ended while it was started "
                        f"({type(e).__name__}); run the same command again"
                    ) from None
            else:
                address = _read_address(str(scheduler))
                try:
                    client = stack.enter_context(Client(address, timeout=PATIENCE))
                except TypeError as e:  # Dask finds no certificates
                    raise UsageError(
                        f"--scheduler {scheduler}: {address} speaks TLS, and Dask has no "
                        f"certificates here ({str(e).splitlines()[0]}); set "
                        f"DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"
                    ) from None
                except ValueError as e:
                    raise UsageError(
                        f"--scheduler {scheduler}: not an address ({e}); give tcp://HOST:PORT, a "
                        f"scheduler's .json file, or local:N"
                    ) from None
                except OSError as e:
                    reason = str(e).splitlines()[0] if str(e) else type(e).__name__
                    raise TopicsError(
                        f"--scheduler {scheduler}: no scheduler answers there ({reason}); "
                        f"check the address, or start one"
                    ) from None
            yield cls(client, paths, least)

    def __init__(self, client: Any, paths: Iterable[str | Path] = (), least: int = 1) -> None:
        self.client = client
        self.least = max(least, 1)
        self.lost = set[str]()
        self._paths = [str(Path(path).absolute()) for path in paths]
        try:
            client.wait_for_workers(self.least, timeout=PATIENCE)
        except TimeoutError:
            raise TopicsError(
                f"--scheduler {client.scheduler.address}: {len(self.addresses)} of {self.least} "
                f"workers after "
                f"{PATIENCE:g} s; start workers, then run the same command again"
            ) from None
        self.machines: Mapping[str, Machine] = self._describe_workers()
        if len(self.machines) < self.least:
            raise TopicsError(
                f"--scheduler {client.scheduler.address}: {len(self.machines)} of {self.least} "
                f"workers answer; restart the others "
                f"({', '.join(sorted(self.lost))})"
            )

    def lose(self, addresses: Iterable[str]) -> None:
        """Drop workers that are gone and look at those that are left.

        Raises
        ------
        WorkersLost
            If they are too few.
        """
        self.lost.update(addresses)
        if len(self.addresses) >= self.least:
            self.machines = self._describe_workers()
        if len(self.addresses) < self.least:
            raise WorkersLost(
                f"--scheduler: {len(self.addresses)} workers are left, and --workers-min is "
                f"{self.least}; the last checkpoint is kept. "
                "Run the same command again to continue, with any number of workers or without "
                "--scheduler"
            )

    def _describe_workers(self) -> Mapping[str, Machine]:
        """Ask every worker to describe itself, and leave out those that do not answer.

        Raises
        ------
        UsageError
            If a worker does not suit.
        """
        import asyncio  # 40 ms, which only Dask needs

        async def ask() -> list[Any]:
            answers = (
                self.client.run(describe, __version__, self_test(), self._paths, workers=[address])
                for address in addresses
            )
            return await asyncio.gather(
                *(asyncio.wait_for(answer, ANSWER) for answer in answers), return_exceptions=True
            )

        addresses = self.addresses
        machines = dict[str, Machine]()
        for address, answer in zip(addresses, self.client.sync(ask), strict=True):
            # Dask raises a bare Exception where what a worker is to run cannot be imported there
            if (
                isinstance(answer, ImportError | AttributeError | TypeError)
                or type(answer) is Exception
            ):
                raise UsageError(
                    f"--scheduler: worker {address} cannot run topicstream {__version__} "
                    f"({answer}); install it there"
                )
            if isinstance(answer, OSError | TimeoutError):  # gone meanwhile, or stopped
                self.lost.add(address)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                machines[address] = answer[address]
        return machines

    @property
    def addresses(self) -> list[str]:
        """Addresses of the present workers, none if the scheduler is gone."""
        return [
            address
            for address in self.client.scheduler_info(n_workers=-1).get("workers", ())
            if address not in self.lost
        ]

    @property
    def number(self) -> int:
        return len(self.machines)

    @property
    def least_threads(self) -> int:
        """Return the least number of threads that Dask gives a worker."""
        return min(machine.threads for machine in self.machines.values())

    def memory(self, limit: MemoryLimit) -> int:
        """Return the bytes that each worker may hold, stated or a share of its machine.

        Raises
        ------
        DoesNotFit
            If Dask allows it less.
        """
        by_dask, tightest = min(
            ((m.limit, address) for address, m in self.machines.items() if m.limit),
            default=(1 << 62, ""),
        )
        if limit.stated:
            if by_dask < limit.bytes:
                raise DoesNotFit(
                    f"--mem-limit {limit}: Dask allows worker {tightest} "
                    f"{format_bytes(by_dask)}; start workers with "
                    # MiB, because Dask's GB is decimal
                    f"--memory-limit {-(-limit.bytes >> 20)}MiB or more, or lower --mem-limit"
                )
            return limit.bytes
        if by_dask < FLOOR:
            raise DoesNotFit(
                f"--scheduler: Dask allows worker {tightest} {format_bytes(by_dask)}, and every "
                f"worker needs at least {format_bytes(FLOOR)}; start workers with --memory-limit "
                f"{FLOOR >> 20}MiB or more"
            )
        hosts = [address.rpartition(":")[0] for address in self.machines]
        shares = [
            m.allowed // hosts.count(host)
            for host, m in zip(hosts, self.machines.values(), strict=True)
        ]
        return max(FLOOR, int(min(*shares, by_dask) * DEFAULT_SHARE))

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield ``work(item)`` of each item, computed on some worker, in order.

        The order is also that of their urgency.

        Raises
        ------
        TopicsError
            If ``work`` raised it, or worker after worker died of an item.
        """
        from distributed import CancelledError, KilledWorker, wait
        from distributed.protocol.pickle import dumps

        pickled = dumps(work)
        no_worker = (
            "--scheduler: no worker is left (see their logs, and `dmesg` for those killed for "
            "memory)"
        )
        futures = [
            self.client.submit(
                _run_pickled, pickled, item, pure=False, priority=-i, resources=RESOURCE
            )
            for i, item in enumerate(items)
        ]
        try:
            for future in futures:
                while not future.done():
                    try:
                        wait(future, LOOK)
                    except TimeoutError:
                        # those that have come take tasks, too
                        before = self.machines
                        self.machines = self._describe_workers()
                        if not (before or self.machines):  # nor do they start again
                            raise TopicsError(
                                f"{no_worker}; start workers, then run the same command again"
                            ) from None
                yield future.result()
        except KilledWorker as e:
            raise TopicsError(
                f"--scheduler: workers died one after the other ({e.last_worker.address}); see "
                f"their logs"
            ) from None
        except CancelledError:
            raise TopicsError(
                "--scheduler: the scheduler is gone; start it again, then run the same command "
                "again"
            ) from None
        finally:
            self.client.cancel(futures)


def _run_pickled(pickled: bytes, item: Any) -> Any:
    """Unpickle a task and run it.

    Dask keeps the arguments of a task as long as its result. Unpickled here, a model among them is
    freed when the task ends.
    """
    from distributed import get_worker
    from distributed.protocol.pickle import loads

    return run_task(loads(pickled), item, int(get_worker().state.nthreads))


@contextmanager
def _without_script() -> Iterator[None]:
    """Keep new processes from running the script that this one runs.

    ``multiprocessing`` would run it again. It may have no ``if __name__ == "__main__":``, and they
    need nothing of it.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker process: only the command acts on it.

    In a terminal it reaches all processes of this machine.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read_address(scheduler: str) -> str:
    """Return an address, or the one that a scheduler's file names.

    Raises
    ------
    InputError
        If the file is no scheduler's file.
    """
    if not scheduler.endswith(".json"):
        return scheduler
    try:
        return str(json.loads(Path(scheduler).read_bytes())["address"])
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InputError(
            f"--scheduler {scheduler}: not a scheduler's file ({e}); give the one that `dask "
            f"scheduler --scheduler-file` wrote"
        ) from None


def _parse_local(scheduler: str) -> dict[str, int]:
    """Parse ``local:N`` to the arguments of a ``LocalCluster``, or raise UsageError."""
    count = scheduler.removeprefix("local:")
    if not count.isdigit() or not 1 <= int(count) <= 1024:
        raise UsageError(f"--scheduler {scheduler}: give a number of processes, such as local:2")
    return {"n_workers": int(count), "threads_per_worker": max(1, default_threads() // int(count))}


def self_test() -> str:
    """Hash the results of two kernels on fixed numbers.

    Instruction sets that sum in another order give another hash.

    Returns
    -------
    str
        The first 16 hexadecimal digits of the sha256.
    """
    cells = 40
    width = 48
    base = (
        np.arange(cells * width, dtype=np.float32).reshape(cells, width) % np.float32(17.3)
    ) / np.float32(7)
    theta = np.sqrt(base[3] + 1)
    inverse = 1 / (base[5] + np.float32(3))
    weights = np.zeros(width, np.float32)
    p = np.zeros(cells, np.float32)
    dirichlet_weights(base[7], np.full(width, np.float32(0.1)), weights)
    rows = np.arange(cells, dtype=np.int64)
    probabilities(rows, base, 0.01, inverse, theta, np.empty(cells * width, np.float32), p)
    return hashlib.sha256(weights.tobytes() + p.tobytes()).hexdigest()[:16]
