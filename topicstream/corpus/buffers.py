"""Decode buffers that are used again: a fresh array of 4 MB costs as much in page faults as decoding into it does."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from topicstream.corpus.format import CELLS

_COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()
_UNUSED = 3  # references to an array that nobody else holds: the list's, the loop's and that of the question itself


class Buffers:
    """Arrays of CELLS 4-byte values.  ``take`` gives one that nobody refers to any more, directly or by a view of it, or a
    fresh one; so whoever keeps a block keeps its values.  Safe from several threads."""

    def __init__(self) -> None:
        self._held: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, rows: int, dtype: Any) -> np.ndarray:
        """An array of rows * CELLS values (uint32, int32 or float32), whatever is in it."""
        if rows != 1 or not _COUNTED:
            return np.empty(rows * CELLS, dtype)
        with self._lock:
            for buffer in self._held:
                if sys.getrefcount(buffer) <= _UNUSED:
                    return buffer.view(dtype)
            buffer = np.empty(CELLS, np.uint32)
            self._held.append(buffer)
            return buffer.view(dtype)

    def release(self) -> None:
        """Hold nothing any more; what is in use stays with its users."""
        with self._lock:
            self._held.clear()
