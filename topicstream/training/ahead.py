"""Storage blocks decoded before the workers come to them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus


class StorageAhead:
    """Decodes the storage blocks that a sequence of blocks needs, ``prefetch`` ahead of the workers, in as many threads: a million
    cells take some 3 ms, their visit a hundred times that; but they may lie in a bucket."""

    def __init__(self, corpus: Corpus, grid: Grid, numbers: np.ndarray, prefetch: int, axes: Sequence[str] = ()) -> None:
        self._corpus, self._grid, self._prefetch, self._axes = corpus, grid, prefetch, axes
        storage = grid.storage[numbers]
        new = np.append(True, np.diff(storage) != 0)[: len(storage)]
        self._run_of = np.cumsum(new) - 1  # position in the pass -> run of blocks from one storage block
        self._storage = storage[new]
        self._left = np.bincount(self._run_of, minlength=len(self._storage))
        self._futures: dict[int, Future[Any]] = {}
        self._asked, self._lock = 0, threading.Lock()
        self._pool = ThreadPoolExecutor(max(1, prefetch), thread_name_prefix="prefetch")
        self._ask(prefetch)

    def _decode(self, run: int) -> Any:
        return self._corpus.decode(int(self._storage[run]), self._grid.heldout, self._axes)

    def _ask(self, count: int) -> None:
        for run in range(self._asked, min(count, len(self._storage))):
            self._futures[run] = self._pool.submit(self._decode, run)
            self._asked = run + 1

    def get(self, position: int) -> Any:
        """The decoded storage block of the block at ``position`` of the sequence."""
        run = int(self._run_of[position])
        with self._lock:
            self._ask(run + 1 + self._prefetch)
            future = self._futures[run]
        return future.result()

    def done(self, position: int) -> None:
        """The block at ``position`` has been cut out."""
        run = int(self._run_of[position])
        with self._lock:
            self._left[run] -= 1
            if self._left[run] == 0:
                del self._futures[run]  # all its blocks have been cut out, and own what they took

    def close(self) -> None:
        """Stop decoding; returns when nothing is being decoded any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._futures.clear()
