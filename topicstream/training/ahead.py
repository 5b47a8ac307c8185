"""Storage blocks decoded before the workers come to them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.parallel.rounds import Workers


class StorageAhead:
    """Decodes the storage blocks that a sequence of blocks needs, ``prefetch`` ahead of the workers.

    Decoding is work of the workers' own pool, queued behind the visits of the round: a thread beside them would take
    their cores in the middle of visits, and the round waits for its slowest.  With one worker there is no pool, and a thread
    of its own decodes.
    """

    def __init__(
        self, corpus: Corpus, grid: Grid, numbers: np.ndarray, prefetch: int, workers: Workers, axes: Sequence[str] = ()
    ) -> None:
        self._corpus, self._grid, self._prefetch, self._axes = corpus, grid, prefetch, axes
        storage = grid.storage[numbers]
        new = np.append(True, np.diff(storage) != 0)[: len(storage)]
        self._run_of = np.cumsum(new) - 1  # position in the pass -> run of blocks from one storage block
        self._storage = storage[new]
        self._left = np.bincount(self._run_of, minlength=len(self._storage))
        self._futures: dict[int, Future[Any]] = {}
        self._lowest = self._asked = 0
        self._lock = threading.Lock()
        self._own = None if workers.pool is not None else ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._pool: Executor = workers.pool or self._own  # type: ignore[assignment]
        self.reach(prefetch)

    def reach(self, prefetch: int) -> None:
        """From now on decode ``prefetch`` ahead."""
        with self._lock:
            self._prefetch = prefetch
            self._ask()

    def _decode(self, run: int) -> Any:
        return self._corpus.decode(int(self._storage[run]), self._grid.heldout, self._axes)

    def _ask(self, wanted: int = -1) -> None:
        last = max(self._lowest + self._prefetch if self._prefetch else -1, wanted)
        while self._asked < len(self._storage) and self._asked <= last:
            self._futures[self._asked] = self._pool.submit(self._decode, self._asked)
            self._asked += 1

    def get(self, position: int) -> Any:
        """The decoded storage block of the block at ``position`` of the sequence."""
        run = int(self._run_of[position])
        with self._lock:
            self._ask(run)
            future = self._futures[run]
            mine = self._own is None and future.cancel()
            if mine:  # queued behind the caller: nobody else would ever begin it
                future = self._futures[run] = Future()
                future.set_running_or_notify_cancel()
        if mine:
            try:
                future.set_result(self._decode(run))
            except BaseException as e:
                future.set_exception(e)
        return future.result()

    def done(self, position: int) -> None:
        """The block at ``position`` has been cut out."""
        run = int(self._run_of[position])
        with self._lock:
            self._left[run] -= 1
            if self._left[run] == 0:
                self._futures.pop(run, None)  # all its blocks have been cut out, and own what they took
                while self._lowest < len(self._storage) and self._left[self._lowest] == 0:
                    self._lowest += 1
                self._ask()

    def close(self) -> None:
        """Stop decoding; returns when nothing is being decoded any more."""
        if self._own is not None:
            self._own.shutdown(wait=True, cancel_futures=True)
        else:
            wait([f for f in self._futures.values() if not f.cancel()])
        self._futures.clear()
