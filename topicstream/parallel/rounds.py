"""Run a round of blocks: serial, or on a pool of threads (kernels release the GIL).  Same bits
either way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait


class Workers:
    """``threads`` workers, each with a number 0..threads-1 that owns its buffers."""

    def __init__(self, threads: int) -> None:
        self.threads = max(1, threads)
        self._local = local = threading.local()
        numbers = iter(range(self.threads))

        def join() -> None:
            local.number = next(numbers)

        self.pool = ThreadPoolExecutor(self.threads, "topics", join) if self.threads > 1 else None

    def __reduce__(self) -> tuple[type[Workers], tuple[int]]:
        """As many in another process."""
        return Workers, (self.threads,)

    def number(self) -> int:
        """The calling worker's number; 0 in a thread that runs items itself, while no worker is
        busy.
        """
        return int(getattr(self._local, "number", 0))

    def run(self, work: Callable[[int], None], n: int) -> None:
        """work(0) .. work(n-1), each once; returns when all are done, raises the first error met."""
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
        """Like ``run`` for many small items: each worker takes the next one until none is left."""
        items = iter(range(n))

        def share(_: int) -> None:
            for i in items:
                work(i)

        self.run(share, min(self.threads, n))

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
