"""Block memory: what an engine keeps of each block between visits, one file a pass, never changed once written.

A slot is written by the worker that has processed the block, wherever the file ends then; the index (offset, length and
crc32c of each array of each block) says where it went, so the order in which threads finish leaves no trace.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import google_crc32c
import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import ArraySpec, BlockShape, Scratch
from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.plain import open_plain
from topicstream.files.whole import read_all, write_all
from topicstream.training.state.checkpoint import State

WRITE_BEHIND = 16 << 20
_libc = ctypes.CDLL(None, use_errno=True)
_SYNC_FILE_RANGE_WRITE = 2


AFRESH = "restore the file, or remove it to start every block from the model"


def check_memory(path: Path, index: np.ndarray, advice: str = AFRESH) -> None:
    """Verify every array of a file of block memory; StoreError naming file and block.  index: as of ``BlockMemory``."""
    with open(open_plain(path), "rb", buffering=0) as f:
        for number, arrays in enumerate(index):
            for offset, size, wanted in arrays:
                if offset < 0:
                    continue
                f.seek(int(offset))
                crc, left = 0, int(size)
                while left and (piece := f.read(min(left, 1 << 22))):
                    crc = google_crc32c.extend(crc, piece)
                    left -= len(piece)
                if left or crc != wanted:
                    raise StoreError(f"{path}: the memory of block {number} does not match its checksum; {advice}")


class BlockMemory:
    """The memory file of one pass.  ``index``: int64[blocks, arrays, 3] (offset, bytes, crc32c); -1: nothing there."""

    def __init__(
        self, path: Path, specs: Mapping[str, ArraySpec], blocks: int, *, create: bool, behind: bool = False
    ) -> None:
        self.path, self.specs = path, specs
        self.index = np.full((blocks, len(specs), 3), -1, np.int64)
        self._fd = owned.create_fd(path) if create else open_plain(path, os.O_RDWR)
        self._end = 0
        self._started = 0
        self._behind = behind
        self._lock = threading.Lock()

    def buffers(self, block: Block, scratch: Scratch) -> dict[str, np.ndarray]:
        """Arrays for the engine to fill."""
        shape = BlockShape.of(block)
        return {name: scratch.array("new " + name, spec.shape(shape), spec.dtype) for name, spec in self.specs.items()}

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the arrays of a block."""
        for i, name in enumerate(self.specs):
            data = np.ascontiguousarray(arrays[name], dtype=self.specs[name].dtype)
            with self._lock:
                offset = self._end
                self._end += -(-data.nbytes // 64) * 64
            write_all(self._fd, data, offset)
            crc = google_crc32c.value(data.reshape(-1).view(np.uint8))
            self.index[number, i] = offset, data.nbytes, crc
        if self._behind and self._end - self._started > WRITE_BEHIND:
            # dirty pages count in a memory cgroup: start writing them out before the kernel must
            with self._lock:
                start, self._started = self._started, self._end
            _libc.sync_file_range(
                self._fd, ctypes.c_int64(start), ctypes.c_int64(self._end - start), _SYNC_FILE_RANGE_WRITE
            )

    def read(self, number: int, block: Block, scratch: Scratch) -> dict[str, np.ndarray]:
        """The arrays of a block as they were written; StoreError naming the block when they are damaged."""
        shape = BlockShape.of(block)
        found: dict[str, np.ndarray] = {}
        for i, (name, spec) in enumerate(self.specs.items()):
            offset, size, crc = (int(v) for v in self.index[number, i])
            if offset < 0:
                raise StoreError(f"{self.path}: the memory of block {number} is missing; start anew with --force")
            full = spec.shape(shape)
            itemsize = np.dtype(spec.dtype).itemsize
            want = (size // itemsize,) if spec.per == "block" else full
            if not 0 <= size <= itemsize * math.prod(full):
                raise StoreError(
                    f"{self.path}: the memory of block {number} ({name}) has another size; start anew with --force"
                )
            array = scratch.array("old " + name, want, spec.dtype)
            if array.nbytes != size:
                raise StoreError(
                    f"{self.path}: the memory of block {number} ({name}) has another size; start anew with --force"
                )
            read_all(self._fd, array, offset, f"{self.path}: the memory of block {number}")
            if google_crc32c.value(array.reshape(-1).view(np.uint8)) != crc:
                raise StoreError(
                    f"{self.path}: the memory of block {number} ({name}) does not match its checksum; start anew with --force"
                )
            if (spec.ends and want != full) or not spec.holds(array, found):
                raise StoreError(
                    f"{self.path}: the memory of block {number} ({name}) holds what cannot be; start anew with --force"
                )
            found[name] = array
        return found

    def ahead(self, number: int) -> None:
        """Ask the kernel to read a block's memory before it is needed."""
        offset, size = int(self.index[number, 0, 0]), int(self.index[number, :, 1].sum())
        if offset >= 0:
            os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_WILLNEED)

    def resume(self, index: np.ndarray) -> None:
        """Take up a file written before, with its index."""
        self.index[:] = index
        self._end = int((index[:, :, 0] + index[:, :, 1]).max(initial=0) + 63) // 64 * 64

    @property
    def nbytes(self) -> int:
        """Bytes written so far."""
        return self._end

    def sync(self) -> None:
        """fsync."""
        os.fsync(self._fd)

    def digest(self) -> str:
        """sha256 over the checksums in block order: equal for equal content, wherever it lies in the file."""
        return hashlib.sha256(np.ascontiguousarray(self.index[:, :, 1:]).tobytes()).hexdigest()

    def close(self, *, remove: bool = False) -> None:
        """Close, and remove the file when the pass it belongs to is past."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if remove:
            owned.remove_file(self.path, missing_ok=True)


class Memories:
    """The block memory of a run: ``old``, of the last pass, and ``new``, of the one under way; None where there is none."""

    def __init__(self, work: Path, specs: Mapping[str, ArraySpec], blocks: int, behind: bool) -> None:
        self._work, self._specs, self._blocks, self._behind = work, specs, blocks, behind
        self._creating = ""
        self.old: BlockMemory | None = None
        self.new: BlockMemory | None = None

    @property
    def held(self) -> list[tuple[str, BlockMemory]]:
        """Those that are there, by name."""
        return [(which, m) for which, m in (("old", self.old), ("new", self.new)) if m is not None]

    @property
    def names(self) -> set[str]:
        """Files in use."""
        return {self._creating, *(m.path.name for _, m in self.held)}

    def begin(self, number: int, take_spare: Callable[[Path], bool]) -> None:
        """The memory of a pass, unless it has begun or the engine keeps none.  take_spare: whether a file that is not needed
        any more was moved there, to be written over."""
        if self.new is None and self._specs:
            path = self._work / f"memory-{number:06d}.bin"
            self._creating = path.name  # before it is there: the saver removes files that nobody holds
            fresh = not take_spare(path)
            self.new = BlockMemory(path, self._specs, self._blocks, create=fresh, behind=self._behind)

    def end_pass(self) -> BlockMemory | None:
        """What was new is old; returns what was old."""
        stale, self.old, self.new = self.old, (self.new if self._specs else None), None
        return stale

    def reopen(self, state: State) -> None:
        """Be as a checkpoint says."""
        self.close()
        self._creating = ""
        self.old, self.new = self.opened(state, "old"), self.opened(state, "new")

    def opened(self, state: State, which: str) -> BlockMemory | None:
        """One memory as a checkpoint names it; StoreError where its file is missing or damaged."""
        name = state.facts["memory"].get(which)
        if name is None:
            return None
        path = self._work / name
        if not path.exists():
            raise StoreError(f"{path}: the block memory of checkpoint {state.name} is missing; start anew with --force")
        index = state.arrays[f"memory.{which}"]
        if not self._behind:
            # files are written over there: should the power fail, perhaps before the disk has heard of a newer checkpoint
            check_memory(path, index, "restore the file, or start anew with --force")
        memory = BlockMemory(path, self._specs, self._blocks, create=False, behind=self._behind)
        memory.resume(index)
        return memory

    def close(self) -> None:
        """Close the files."""
        for _, memory in self.held:
            memory.close()
        self.old = self.new = None
