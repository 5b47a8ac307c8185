"""Calls of the system that differ between Linux and macOS.

This module and ``machine`` alone ask for such names; tests/project/test_other_systems.py hides
them.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_AT_WORKING_FOLDER = -100  # AT_FDCWD of Linux
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_MAP_FIXED = 0x10  # the same on both
_ZEROS = 1 << 20


def processors() -> int:
    """Count the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_bytes() -> int:
    """Return the highest resident memory of this process so far."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    # on Linux only where /proc is missing: a child process begins with the peak of its parent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def resident_bytes() -> int:
    """Return the resident memory of this process, or its highest where only that is known."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    return peak_bytes()


def return_free_memory() -> None:
    """Return to the system what glibc has freed.

    Other C libraries are left as they are.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def trim_freed_memory() -> None:
    """Let glibc return freed memory to the system early."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    # M_ARENA_MAX, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_TOP_PAD: arrays of a decoded storage block
    # (4 MB) come from memory that is reused, of which as much is left when the rest is returned
    for parameter, value in ((-8, 2), (-1, 16 << 20), (-3, 8 << 20), (-2, 16 << 20)):
        mallopt(parameter, value)


def flush(fd: int) -> None:
    """Bring a file, or the names in a folder, to the disk itself."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # fsync of macOS stops at the cache of the drive
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError:  # a file system without it, such as a network's
            pass
    os.fsync(fd)


def lock(fd: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder.

    Parameters
    ----------
    fd
        Its descriptor.
    wait
        Wait for another process that holds the lock.

    Returns
    -------
    bool
        False if another process holds the lock.

    Raises
    ------
    OSError
        If the file system has no locks.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def allocate(fd: int, size: int) -> None:
    """Give a file its full size in zeros, so that no later write meets a full disk.

    Raises
    ------
    OSError
        If the disk is full.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    zeros = bytes(_ZEROS)
    for offset in range(0, size, _ZEROS):
        remaining = memoryview(zeros)[: size - offset]
        while len(remaining):
            written = os.pwrite(fd, remaining, offset)
            remaining = remaining[written:]
            offset += written


def read_ahead(fd: int, offset: int, size: int) -> None:
    """Ask the system, if it takes such advice, to read a part of a file ahead."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, offset, size, os.POSIX_FADV_WILLNEED)


def forget_cached(fd: int, offset: int, size: int) -> None:
    """Drop a part of a file from the page cache, if the system can.

    Pages that are not on the disk yet begin to be written. Without this call the system drops pages
    only when a control group has no more, and then those that are needed next as readily.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, offset, size, os.POSIX_FADV_DONTNEED)


def release_pages(mapped: mmap.mmap, fd: int, start: int, size: int) -> None:
    """Release pages of a file's shared mapping from this process.

    Linux has an advice for it.  macOS takes the same advice as a hint and keeps the pages, so there
    the part is mapped anew over itself.

    Parameters
    ----------
    mapped, fd
        The mapping of the whole file, and the file.
    start, size
        Bytes; ``start`` is a multiple of the page size.
    """
    if sys.platform == "linux" and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED, start, size)
        return
    map_again = ctypes.CDLL(None).mmap
    map_again.restype = ctypes.c_void_p
    map_again.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped)) + start
    access = mmap.PROT_READ | mmap.PROT_WRITE
    map_again(address, size, access, mmap.MAP_SHARED | _MAP_FIXED, fd, start)


def exchange_names(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step, if the system can, and return if it did."""
    names = (os.fsencode(first), os.fsencode(second))
    library = ctypes.CDLL(None)
    with suppress(OSError, AttributeError):
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _EXCHANGE) == 0)
        folder = _AT_WORKING_FOLDER
        return bool(library.renameat2(folder, names[0], folder, names[1], _EXCHANGE) == 0)
    return False


def open_nameless(folder: Path) -> int | None:
    """Open a new file without a name, which a kill does not leave behind.

    Returns
    -------
    int or None
        A descriptor; None if the system or the file system has no such files.
    """
    if not hasattr(os, "O_TMPFILE") or not os.path.exists("/proc/self/fd"):
        return None
    with suppress(OSError):  # a file system without them, such as a network's
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    return None


def nameless_path(fd: int) -> str:
    """Return the path from which ``os.link`` gives a file of ``open_nameless`` its name."""
    return f"/proc/self/fd/{fd}"
