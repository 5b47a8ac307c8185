"""Readers of a store hold a shared flock on the folder of its training blocks.

A compaction writes new folders, replaces the manifest, and removes the old ones under an exclusive
flock, or leaves them to
the next writer while a reader is there.  Without flock support, active readers cannot be detected,
                                          and compaction may
delete files that are still in use.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

from topicstream import system

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Lease:
    """A reader's hold on a folder; it goes with the object, and with the process.

    given: False when a writer is about to remove the folder (look at the manifest again).
    """

    def __init__(self, folder: Path | None) -> None:
        self._fd, self.given = -1, True
        with contextlib.suppress(
            OSError
        ):  # a damaged store, or no flock there: reading says what is wrong
            if folder is not None:
                self._fd = os.open(folder, _FLAGS)
                self.given = system.lock(self._fd, shared=True)

    def close(self) -> None:
        """Let go."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if os is not None:  # at the interpreter's end modules have gone, and the process lets go
            self.close()


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Gives True while no other process reads from the folder (none can begin to, either), else
    False; no folder: True.
    """
    fd, free = -1, True
    with contextlib.suppress(OSError):
        fd = os.open(folder, _FLAGS)
        free = system.lock(fd)
        if not free:
            # perhaps only a store that this process has dropped, but not collected yet
            gc.collect()
            free = system.lock(fd)
    try:
        yield free
    finally:
        if fd >= 0:
            os.close(fd)
