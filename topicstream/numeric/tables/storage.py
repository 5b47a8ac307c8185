"""Arrays of a run that may be bigger than RAM, in memory or mapped.

A mapped array is read and written like any other. Its pages count as memory of the process until
``release_pages`` returns them to the system, which keeps or writes them as it has room. Code that
works through a mapped array releases each part when it is done with it, so the parts in work bound
the memory of the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

import numpy as np

from topicstream.base import system

ALIGNMENT = 64
"""Bytes: a padded row is whole cache lines."""
AROUND = 1 << 17
"""Bytes that are released together: the system maps some pages around the one that is read."""


class Storage:
    """An array of zeros, aligned to 64 bytes, in memory or in a mapped file.

    Parameters
    ----------
    shape, dtype
        Shape and type of the array.
    folder
        Folder of the scratch file, which has no name and ends with the process; None: the array is
        in memory.

    Attributes
    ----------
    array
        The array.
    mapped
        True if it lies in a file.

    Raises
    ------
    OSError
        If the disk has no room for the file, which takes its full size at once.
    """

    def __init__(self, shape: tuple[int, ...], dtype: object, folder: Path | None = None) -> None:
        itemsize = np.dtype(dtype).itemsize  # type: ignore[call-overload]
        self._size = int(np.prod(shape, dtype=np.int64)) * itemsize
        self.mapped = folder is not None
        self._map: mmap.mmap | None = None
        self._file: IO[bytes] | None = None
        if folder is None:
            # pages that are never touched cost nothing
            memory = np.zeros(self._size + ALIGNMENT, np.uint8)
            start = -memory.ctypes.data % ALIGNMENT
        else:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed with the storage
            system.allocate(self._file.fileno(), max(self._size, 1))
            self._map = mmap.mmap(self._file.fileno(), max(self._size, 1))
            memory = np.frombuffer(self._map, np.uint8)
            start = 0
        typed = memory[start : start + self._size].view(dtype)  # type: ignore[call-overload]
        self.array: np.ndarray = typed.reshape(shape)

    def release_pages(self, first: int = 0, stop: int | None = None) -> None:
        """Return the pages of rows ``first`` to ``stop - 1`` to the system, if they are mapped.

        The rows keep their values.
        """
        if self._map is None or self._file is None or not self._size:
            return
        row = self._size // len(self.array)
        start = first * row // AROUND * AROUND
        end = self._size if stop is None else min(self._size, -(-stop * row // AROUND) * AROUND)
        if end > start:
            system.release_pages(self._map, self._file.fileno(), start, end - start)

    def clear(self) -> None:
        """Set all entries to zero."""
        if self._file is None:
            self.array[:] = 0
        else:
            os.ftruncate(self._file.fileno(), 0)
            system.allocate(self._file.fileno(), max(self._size, 1))

    def close(self) -> None:
        """Free the memory or the file, once nothing refers to the array."""
        self.array = self.array[:0]
        self._map = None
        if self._file is not None:
            self._file.close()
            self._file = None
