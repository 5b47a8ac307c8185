"""A scheduler that gives tasks to processes of this machine: ``--scheduler processes:4``."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

from topicstream.base.cluster import Cluster, run_task
from topicstream.base.errors import TopicsError, UsageError
from topicstream.base.machine import default_threads


class LocalProcesses(Cluster):
    """Processes of this machine that share its processors."""

    executor = "processes"  # executor.py, for topics train

    def __init__(self, pool, number):
        self.pool = pool
        self._number = number

    @classmethod
    @contextmanager
    def connect(cls, scheduler, paths, least):
        count = scheduler.partition(":")[2]
        if not count.isdigit() or int(count) < least:
            raise UsageError(
                f"--scheduler {scheduler}: give a number of processes from {least} on, such as "
                f"processes:4"
            )
        context = multiprocessing.get_context("spawn")  # this process has threads: no fork
        with ProcessPoolExecutor(int(count), mp_context=context) as pool:
            yield cls(pool, int(count))

    @property
    def number(self):
        return self._number

    @property
    def least_threads(self):
        return max(1, default_threads() // self.number)

    def map(self, work, items):
        task = partial(run_task, work, threads=self.least_threads)
        try:
            yield from self.pool.map(task, items)
        except BrokenProcessPool as e:
            raise TopicsError(f"--scheduler: a process died ({e}); run the command again") from e
