"""Run work on several threads, with results in the order of the items.

Kernels release the GIL. The bits of a result do not depend on the number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Yield ``work(item)`` in the order of the items, using ``threads`` threads.

    At most one result beyond the threads waits. The first item runs in the calling thread, so that
    compiling is over before threads start.
    """
    source = iter(items)
    yield from map(work, islice(source, 1 if threads > 1 else None))
    if threads > 1:
        with ThreadPoolExecutor(threads, thread_name_prefix="topics") as pool:
            yield from pooled(pool, work, source, threads)


def pooled(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    ahead: int,
    alone: Callable[[Item], bool] = lambda item: False,
) -> Iterator[Result]:
    """Yield ``work(item)`` from a pool in the order of the items.

    Parameters
    ----------
    pool, work, items
        The threads, the function and its arguments.
    ahead
        Items that are submitted before the result of an earlier one is taken, at most.
    alone
        Tells of an item if it must run while no other one does.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while waiting and by_itself:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
            while len(waiting) > (0 if by_itself else ahead):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


class Workers:
    """A pool of workers numbered 0..threads-1, each with its own buffers."""

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._local = local = threading.local()
        numbers = iter(range(self.threads))

        def number_thread() -> None:
            """Give a new thread its number."""
            local.number = next(numbers)

        self.pool: ThreadPoolExecutor | None = None
        if self.threads > 1:
            self.pool = ThreadPoolExecutor(self.threads, "topics", number_thread)

    def __reduce__(self) -> tuple[type[Workers], tuple[int]]:
        """Create a pool of the same size in another process."""
        return Workers, (self.threads,)

    def number(self) -> int:
        """Return the calling worker's number.

        It is 0 in a thread that runs items itself while no worker is busy.
        """
        return int(getattr(self._local, "number", 0))

    def run(self, work: Callable[[int], None], n: int) -> None:
        """Run work(0) .. work(n-1), each once, and wait for all.

        Raises the first error.
        """
        if self.pool is None or n <= 1:
            # one item runs here, on worker 0's buffers: nobody else is running
            for i in range(n):
                work(i)
            return
        futures = [self.pool.submit(work, i) for i in range(n)]
        _, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        wait(waiting)
        for future in futures:
            if not future.cancelled():
                future.result()

    def run_ranges(self, work: Callable[[int], None], n: int) -> None:
        """Run many small items: each worker takes the next one until none is left."""
        items = iter(range(n))

        def run_remaining(_: int) -> None:
            """Run items that no other worker has taken, until none is left."""
            for i in items:
                work(i)

        self.run(run_remaining, min(self.threads, n))

    def close(self) -> None:
        """Stop the threads."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
