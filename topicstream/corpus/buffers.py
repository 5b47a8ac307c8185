"""Decode buffers that are used again: a fresh array of 4 MB costs as much in page faults as decoding into it does."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from topicstream.corpus.format import CELLS


class Buffers:
    """Arrays of CELLS 4-byte values, lent out and given back.

    Whoever takes one says when it is free again (``give_back``), after the last view of it; one that is never given back
    costs its memory and nothing else.  Safe from several threads.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, rows: int, dtype: Any) -> np.ndarray:
        """An array of rows * CELLS values (uint32, int32 or float32), whatever is in it."""
        if rows != 1:
            return np.empty(rows * CELLS, dtype)
        with self._lock:
            buffer = self._free.pop() if self._free else None
        return (np.empty(CELLS, np.uint32) if buffer is None else buffer).view(dtype)

    def give_back(self, array: np.ndarray) -> None:
        """``array``, as ``take`` gave it, is used no more."""
        if len(array) == CELLS:
            with self._lock:
                self._free.append(array.view(np.uint32))

    def release(self) -> None:
        """Keep nothing for later; what is lent out stays with its users."""
        with self._lock:
            self._free.clear()
