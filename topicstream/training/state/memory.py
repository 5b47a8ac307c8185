"""Block memory: the state that an engine keeps of each block between visits.

There is one file a pass, which never changes once written.

A slot is written by the worker that has processed the block, wherever the file ends then; the index
(offset, length and checksum of each array of each block) says where it went, so the order in which
threads finish leaves no trace.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.base import system
from topicstream.base.errors import StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.plain import open_plain
from topicstream.engines.base import ArraySpec, BlockShape, Scratch
from topicstream.numeric.kernels.arrays import checksum
from topicstream.training.state.checkpoint import State

BEHIND = 4  # blocks that are being written out while later ones are visited


class BlockMemory:
    """The file of one pass.

    Parameters
    ----------
    path
        The file.
    specs
        The arrays of each block, by name.
    index
        int64[blocks, arrays, 3]: offset, bytes and checksum of each array of each block; -1:
        nothing there.
    create
        Whether to create the file. Else it is there, and reused.
    passing
        Whether the system's cache has no room for the file beside what is read again and again: it
        is written out at once, and dropped from the cache behind the blocks.

    Attributes
    ----------
    path, specs, index
        As given.
    end
        Offset at which the next array is written.
    """

    def __init__(
        self,
        path: Path,
        specs: Mapping[str, ArraySpec],
        index: np.ndarray,
        *,
        create: bool,
        passing: bool = False,
    ) -> None:
        self.path = path
        self.specs = specs
        self.index = index
        self._fd = open_plain(owned.reserve(path) if create else path, os.O_RDWR)
        self.end = int((index[:, :, 0] + index[:, :, 1]).max(initial=0) + 63) // 64 * 64
        self._lock = threading.Lock()
        self._passing = passing
        self._written = deque[tuple[int, int]]()

    def __reduce__(self) -> Any:
        """Pickle it for another machine, which opens the same file."""
        return partial(BlockMemory, create=False), (self.path.absolute(), self.specs, self.index)

    def buffers(self, shape: BlockShape, scratch: Scratch) -> dict[str, np.ndarray]:
        """Return arrays for the engine to fill with the new state of a block."""
        return {
            name: scratch.array("new " + name, spec.shape(shape), spec.dtype)
            for name, spec in self.specs.items()
        }

    def write(self, number: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the arrays of a block."""
        contiguous = [
            np.ascontiguousarray(arrays[name], dtype=spec.dtype)
            for name, spec in self.specs.items()
        ]
        size = sum(-(-data.nbytes // 64) * 64 for data in contiguous)
        with self._lock:  # the arrays of a block lie together, to be read together
            begin = offset = self.end
            self.end += size
        for i, data in enumerate(contiguous):
            write_all(self._fd, data, offset)
            self.index[number, i] = offset, data.nbytes, checksum(data.reshape(-1).view(np.uint8))
            offset += -(-data.nbytes // 64) * 64
        if self._passing:
            self._pass_by(begin, size)

    def _pass_by(self, begin: int, size: int) -> None:
        """Begin to write a block out, and drop one from the cache that has been written."""
        system.forget_cached(self._fd, begin, size)
        with self._lock:
            self._written.append((begin, size))
            oldest = self._written.popleft() if len(self._written) > BEHIND else None
        if oldest is not None:
            system.forget_cached(self._fd, *oldest)

    def read(self, number: int, shape: BlockShape, scratch: Scratch) -> dict[str, np.ndarray]:
        """Read the arrays of a block.

        Raises
        ------
        StoreError
            Naming the block, if they are damaged.
        """
        arrays = dict[str, np.ndarray]()
        for i, (name, spec) in enumerate(self.specs.items()):
            offset, size, crc = self.index[number, i].tolist()
            full = spec.shape(shape)
            itemsize = np.dtype(spec.dtype).itemsize
            length = (size // itemsize,) if spec.per == "block" and not spec.ends else full
            fits = (
                offset >= 0
                and size == itemsize * math.prod(length)
                and size <= itemsize * math.prod(full)
            )
            if fits:
                array = scratch.array("old " + name, length, spec.dtype)
                read_all(self._fd, array, offset, f"{self.path}: the memory of block {number}")
                fits = int(checksum(array.reshape(-1).view(np.uint8))) == crc and spec.holds(
                    array, arrays
                )
            if not fits:
                raise StoreError(
                    f"{self.path}: the memory of block {number} ({name}) is damaged; start "
                    f"over with --force"
                )
            arrays[name] = array
        if self._passing:
            begin = int(self.index[number, 0, 0])
            system.forget_cached(self._fd, begin, int(self.index[number, :, 1].sum()))
        return arrays

    def read_ahead(self, number: int) -> None:
        """Ask the kernel to read a block's memory before it is needed."""
        offset = int(self.index[number, 0, 0])
        size = int(self.index[number, :, 1].sum())
        if offset >= 0:
            system.read_ahead(self._fd, offset, size)

    def digest(self) -> str:
        """Return the sha256 of the checksums in block order.

        It is equal for equal content, wherever that lies in the file.
        """
        return hashlib.sha256(np.ascontiguousarray(self.index[:, :, 1:]).tobytes()).hexdigest()

    def sync(self) -> None:
        """Bring what this process has written to the disk."""
        system.flush(self._fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Memories:
    """The block state of a run.

    Parameters
    ----------
    work
        Folder of the files.
    specs
        The arrays that the engine keeps of each block, by name.
    blocks
        Blocks of the training part.
    spare
        Keep obsolete files for later passes to overwrite. Their pages exist, and new ones cost ten
        times the copying into them. A file is created only if there is none, so they are no more
        than one pass needs. Not worth it where the system has long written them out.

    Attributes
    ----------
    held
        ``old``, of the last pass, and ``new``, of the current one, if there is one.
    """

    def __init__(
        self, work: Path, specs: Mapping[str, ArraySpec], blocks: int, spare: bool
    ) -> None:
        self._work = work
        self._specs = specs
        self._blocks = blocks
        self._spare = spare
        self.held: dict[str, BlockMemory] = {}

    def begin_pass(self, number: int, needed: set[str]) -> None:
        """Begin the state of a pass, unless it has begun or the engine keeps none.

        ``needed`` names the files that checkpoints refer to.
        """
        if "new" in self.held or not self._specs:
            return
        path = self._work / f"memory-{number:06d}.bin"
        create = True
        for unneeded in self.list_unneeded(needed):
            # a file that a backup shares (cp -l) is not to change
            if not self._spare or unneeded.stat().st_nlink > 1:
                owned.remove_file(unneeded)
            elif create:
                owned.replace(unneeded, path)
                create = False
        index = np.full((self._blocks, len(self._specs), 3), -1, np.int64)
        self.held["new"] = BlockMemory(
            path, self._specs, index, create=create, passing=not self._spare
        )

    def list_unneeded(self, needed: set[str]) -> list[Path]:
        """List the files that neither the run nor a checkpoint refers to."""
        used = needed | {memory.path.name for memory in self.held.values()}
        return [path for path in sorted(self._work.glob("memory-*.bin")) if path.name not in used]

    def remove_unneeded(self, needed: set[str]) -> None:
        """Remove the files that neither the run nor a checkpoint refers to."""
        for path in self.list_unneeded(needed):
            owned.remove_file(path)

    def end_pass(self) -> None:
        """Make the state of this pass the old one, if the pass had visits."""
        if "new" not in self.held:
            return
        if "old" in self.held:
            self.held.pop("old").close()
        self.held["old"] = self.held.pop("new")

    def reopen(self, state: State) -> None:
        """Reopen the state of a checkpoint.

        Raises
        ------
        StoreError
            If a file is missing.
        """
        self.close()
        for role in ("old", "new"):
            if role in state.facts.memory:
                path = self._work / state.facts.memory[role]
                if not path.exists():
                    raise StoreError(
                        f"{path}: the block memory of checkpoint {state.name} is missing; start "
                        f"over with --force"
                    )
                owned.part_from_backup(path)
                self.held[role] = BlockMemory(
                    path,
                    self._specs,
                    state.arrays[f"memory.{role}"].copy(),
                    create=False,
                    passing=not self._spare,
                )

    def close(self) -> None:
        """Close the files."""
        for memory in self.held.values():
            memory.close()
        self.held.clear()


def write_all(fd: int, array: np.ndarray, offset: int) -> None:
    """Write the whole array at an offset."""
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.pwrite(fd, view[: 1 << 26], offset)
        view = view[n:]
        offset = offset + n


def read_all(fd: int, array: np.ndarray, offset: int, name: str) -> None:
    """Read the whole array from an offset.

    Parameters
    ----------
    name
        What is read, for the message.

    Raises
    ------
    StoreError
        If the file ends before.
    """
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    while len(view):
        n = os.preadv(fd, [view[: 1 << 26]], offset)
        if n == 0:
            raise StoreError(
                f"{name} is shorter than recorded; start again from an older checkpoint"
            )
        view = view[n:]
        offset = offset + n
