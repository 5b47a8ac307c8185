"""Who reads a store says so, and what a compaction has put aside is removed when nobody reads it any more.

A reader holds a shared flock on the folder of the training blocks; a compaction writes new folders, replaces the
manifest, and removes the old ones under an exclusive flock, or leaves them to the next writer while a reader is there.
Where the file system has no flock, nobody is told of and old readers may miss their files.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path


class Lease:
    """A reader's hold on a folder; it goes with the object, and with the process.

    given: False when a writer is about to remove the folder (look at the manifest again).
    """

    def __init__(self, folder: Path | None) -> None:
        self._fd = -1
        self.given = True
        if folder is None:
            return
        with contextlib.suppress(OSError):  # a damaged store: whoever reads from it is told
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if self._fd < 0:
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            self.given = False
            time.sleep(0.01)
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # at the interpreter's end ``os`` may have gone
            self.close()


def _take(fd: int) -> bool:
    for last in (False, True):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not last:
                gc.collect()  # perhaps only a store that this process has dropped, but not collected yet
    return False


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Gives True while nobody reads from the folder (nobody can begin to, either), else False; no folder: True."""
    fd = -1
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        free = _take(fd)
    except OSError:
        free = True
    try:
        yield free
    finally:
        if fd >= 0:
            os.close(fd)
