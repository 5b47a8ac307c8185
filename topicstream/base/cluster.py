"""Workers beyond this process, as ``--scheduler`` names them.

A scheduler is an entry point of the group ``topicstream.schedulers``: a class derived from
``Cluster``. A text ``NAME:...`` asks for the scheduler of that name. Everything else
(``local:4``, ``tcp://HOST:PORT``, ``HOST:PORT``, a scheduler's file, a client in Python) goes to
``dask``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from topicstream.base import plugins
from topicstream.base.errors import UsageError
from topicstream.base.machine import default_threads
from topicstream.base.memory import FLOOR, MemoryLimit

Item = TypeVar("Item")
Result = TypeVar("Result")
DEFAULT = "dask"
"""The scheduler of every value that names no other one."""
TASKS_PER_WORKER = 4

_threads_of_task: ContextVar[int] = ContextVar("threads_of_task")


class Cluster(abc.ABC):
    """Workers that take tasks, in other processes or on other machines.

    Tasks take seconds, open the stores and models that they need, and return the same result
    wherever and however often they run. A scheduler defines ``connect``, ``number`` and ``map``.

    Attributes
    ----------
    executor
        Name in the group ``topicstream.executors`` of the executor that trains on these workers;
        "": they cannot train.
    threads
        Threads of a task that visits blocks; None: those of the worker.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> from topicstream.base.cluster import Cluster
    >>> class OneWorker(Cluster):
    ...     number = 1
    ...
    ...     @classmethod
    ...     @contextmanager
    ...     def connect(cls, scheduler, paths, least):
    ...         yield cls()
    ...
    ...     def map(self, work, items):
    ...         return map(work, items)
    >>> with OneWorker.connect("one:1", [], least=1) as cluster:
    ...     list(cluster.map(abs, [-1, 2]))
    [1, 2]
    """

    executor: str = ""
    threads: int | None = None

    @classmethod  # noqa: B027  a scheduler without requirements refuses nothing
    def check(cls) -> None:
        """Raise UsageError if a library that the scheduler needs is missing."""

    @classmethod
    @abc.abstractmethod
    def connect(
        cls, scheduler: Any, paths: Iterable[str | Path], least: int
    ) -> AbstractContextManager[Cluster]:
        """Start the workers or connect to them, and leave them at the end of the context.

        Parameters
        ----------
        scheduler
            The value of ``--scheduler``, such as ``NAME:4``.
        paths
            Files and folders that every worker must be able to read.
        least
            Workers that there must be.

        Raises
        ------
        UsageError
            If the value or the workers do not suit.
        TopicsError
            If nothing answers.
        """

    @property
    @abc.abstractmethod
    def number(self) -> int:
        """Return the number of workers."""

    @abc.abstractmethod
    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run ``work(item)`` for each item on some worker, and yield results in order.

        Work, items and results can be pickled. An error of ``work`` is raised here.
        """

    @property
    def least_threads(self) -> int:
        """Return the number of threads that each worker has, or more."""
        return default_threads()

    def memory(self, limit: MemoryLimit) -> int:
        """Return the bytes that each worker may use.

        A limit that the user states holds for each worker; the default is divided by them.
        """
        return limit.bytes if limit.stated else max(FLOOR, limit.bytes // self.number)

    def task_ranges(self, sizes: Iterable[int], most: int) -> Iterator[tuple[int, int]]:
        """Group items into tasks, at least four per worker if there are enough items.

        Parameters
        ----------
        sizes
            Sizes of the items.
        most
            Size of a task, at most, unless a single item is larger.

        Returns
        -------
        iterator
            First item of each task, and the one behind its last.
        """
        *starts, total = accumulate(sizes, initial=0)
        size = max(1, min(most, total // (TASKS_PER_WORKER * self.number)))
        task_of_item = np.array(starts, np.int64) // size
        first_items = np.unique(task_of_item, return_index=True)[1].tolist()
        return pairwise([*first_items, len(starts)])


def run_task(work: Callable[[Item], Result], item: Item, threads: int) -> Result:
    """Run a task on a worker that has ``threads`` threads for it."""
    before = _threads_of_task.set(threads)
    try:
        return work(item)
    finally:
        _threads_of_task.reset(before)


def threads_of_worker(threads: int | None) -> int:
    """Return the threads of a task: ``threads``, or those of the worker that runs it."""
    return threads or _threads_of_task.get(0) or default_threads()


def scheduler_class(scheduler: Any) -> type[Cluster]:
    """Find the scheduler that a value of ``--scheduler`` asks for.

    Raises
    ------
    UsageError
        If no installed package has it, or a library that it needs is missing.
    """
    names = plugins.entries(plugins.SCHEDULERS)
    name = DEFAULT
    if isinstance(scheduler, str) and ":" in scheduler:
        prefix = scheduler.partition(":")[0]
        name = prefix if prefix in names else DEFAULT
    if name not in names:
        prefixes = ", ".join(f"{known}:..." for known in names)
        hint = f"give {prefixes}, or leave" if prefixes else "leave"
        raise UsageError(
            f"--scheduler {scheduler}: no installed package provides this scheduler; {hint} the "
            f"option out"
        )
    kind: type[Cluster] = plugins.load(plugins.SCHEDULERS, name)
    kind.check()
    return kind


@contextmanager
def connected(
    scheduler: Any, paths: Iterable[str | Path] = (), least: int = 1
) -> Iterator[Cluster]:
    """Connect to the workers that ``--scheduler`` names: see ``Cluster.connect``."""
    with scheduler_class(scheduler).connect(scheduler, paths, least) as cluster:
        yield cluster


@contextmanager
def connected_within(
    scheduler: Any, limit: MemoryLimit, read: Iterable[Any]
) -> Iterator[tuple[Cluster | None, MemoryLimit]]:
    """Connect to the workers that ``--scheduler`` names, and limit each process's memory.

    Parameters
    ----------
    scheduler
        The value of ``--scheduler``; None: no workers.
    limit
        Memory limit of the command.
    read
        Models and corpora that workers open, or their paths.

    Returns
    -------
    tuple
        The workers or None, and the limit of this process and of each worker.

    Raises
    ------
    UsageError
        If a model or corpus is in memory alone, and as ``connected``.
    """
    if scheduler is None:
        yield None, limit
        return
    paths = [getattr(item, "path", item) for item in read]
    if None in paths:
        raise UsageError(
            "scheduler: workers open models and corpora themselves; give the path of one that "
            "was stored"
        )
    with connected(scheduler, [path for path in paths if Path(path).exists()]) as cluster:
        yield cluster, MemoryLimit(min(limit.bytes, cluster.memory(limit)), limit.stated)
