"""The deltas of a round: in RAM, or in a scratch file until the round has ended when that is too much."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.engines.base import Scratch, SparseDelta
from topicstream.errors import StoreError

SPILL_WINDOW = 8 << 20  # deltas read back from the scratch file at once


class Deltas:
    """The dense deltas of a round: one slot a block, in RAM, or spilled to a scratch file when that is too much."""

    def __init__(self, slots: int, words: int, width: int, spill: Path | None) -> None:
        self.vocabs = np.zeros((slots, words), np.int32)
        self.used = np.zeros(slots, np.int64)
        self._shape = (slots, words, width)
        self._fd = -1
        self.arena: np.ndarray | None = None
        if spill is None:
            raw = np.empty(slots * words * width * 4 + 64, np.uint8)  # untouched pages cost nothing
            skip = -raw.ctypes.data % 64
            self.arena = raw[skip : skip + slots * words * width * 4].view(np.float32).reshape(self._shape)
        else:
            self._fd = os.open(spill, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.unlink(spill)

    def slot(self, i: int, vocab: np.ndarray, scratch: Scratch) -> np.ndarray:
        """The buffer float32[U, P] that block ``i`` of the round writes its delta to."""
        n = len(vocab)
        self.vocabs[i, :n] = vocab
        self.used[i] = n
        if self.arena is not None:
            return self.arena[i, :n]
        return scratch.array("spilled delta", (n, self._shape[2]), np.float32)

    def filled(self, i: int, delta: np.ndarray) -> None:
        """Block ``i`` has written its delta."""
        if self.arena is None:
            offset = i * self._shape[1] * self._shape[2] * 4
            write_all(self._fd, delta, offset)

    def window(
        self, lo: np.ndarray, hi: np.ndarray, scratch: Scratch
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(arena, vocabs, lo, hi) holding rows lo[r]..hi[r]-1 of every slot."""
        if self.arena is not None:
            return self.arena, self.vocabs, lo, hi
        slots, width = len(lo), self._shape[2]
        most = max(int((hi - lo).max()), 1)
        part = scratch.array("delta window", (slots, most, width), np.float32)
        vocabs = np.zeros((slots, most), np.int32)
        for r in range(slots):
            n = int(hi[r] - lo[r])
            if n:
                read_all(self._fd, part[r, :n], (r * self._shape[1] + int(lo[r])) * width * 4, "a spilled delta")
                vocabs[r, :n] = self.vocabs[r, lo[r] : hi[r]]
        return part, vocabs, np.zeros(slots, np.int64), hi - lo

    def rows_at_once(self, rows: int) -> int:
        """Rows of a table that are scattered to at once: all ``rows`` of a range, or as many as a window of the spilled
        deltas holds."""
        slots, _, width = self._shape
        return rows if self.arena is not None else max(1, SPILL_WINDOW // (slots * width * 4))

    def clear(self) -> None:
        """Forget the round."""
        self.used[:] = 0

    def close(self) -> None:
        """Give back the scratch file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def write_all(fd: int, array: np.ndarray, offset: int) -> None:
    """pwrite the whole array."""
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.pwrite(fd, view[: 1 << 26], offset)
        view, offset = view[n:], offset + n


def read_all(fd: int, array: np.ndarray, offset: int, what: str) -> None:
    """pread into the whole array; StoreError when the file ends before."""
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.preadv(fd, [view[: 1 << 26]], offset)
        if n == 0:
            raise StoreError(f"{what} is shorter than recorded; start again from an older checkpoint")
        view, offset = view[n:], offset + n


class OnDisk:
    """A one-dimensional array in the scratch file; a slice of it is read when it is asked for."""

    def __init__(self, fd: int, offset: int, length: int, dtype: np.dtype) -> None:
        self._fd, self._offset, self._length, self.dtype = fd, offset, length, dtype

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> np.ndarray:
        start, stop, _ = part.indices(self._length)
        out = np.empty(max(stop - start, 0), self.dtype)
        read_all(self._fd, out, self._offset + start * self.dtype.itemsize, "a spilled delta")
        return out


class Spill:
    """Where the sparse deltas of a round go.  ``put`` may be called from several threads; ``clear`` after the round."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        self._end = 0
        self._lock = threading.Lock()

    def put(self, delta: SparseDelta, keep: Scratch) -> Any:
        """The delta with its topics and values on disk; its row pointers are copied into ``keep``."""
        ptr = keep.array("spilled ptr", len(delta.ptr), np.int64)
        ptr[:] = delta.ptr
        return SparseDelta(ptr, self._write(delta.topic), self._write(delta.value))  # type: ignore[arg-type]

    def _write(self, array: np.ndarray) -> OnDisk:
        with self._lock:
            offset = self._end
            self._end += -(-array.nbytes // 64) * 64
        write_all(self._fd, np.ascontiguousarray(array), offset)
        return OnDisk(self._fd, offset, len(array), array.dtype)

    def clear(self) -> None:
        """Forget the round; its space is used again."""
        self._end = 0

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
