"""Hide from a process what macOS lacks: Python imports this module first where the path names it.

``TOPICS_HIDE=windows`` hides what Windows lacks instead.
"""

import builtins
import ctypes
import errno
import functools
import io
import mmap
import os
import sys

LACKING = [
    (os, name)
    for name in (
        "sched_getaffinity",
        "sched_setaffinity",
        "posix_fallocate",
        "posix_fadvise",
        "POSIX_FADV_NORMAL",
        "POSIX_FADV_WILLNEED",
        "POSIX_FADV_DONTNEED",
        "O_TMPFILE",
        "O_PATH",
        "O_DIRECT",
        "O_LARGEFILE",
        "copy_file_range",
        "splice",
        "memfd_create",
        "eventfd",
        "pidfd_open",
        "getrandom",
        "getxattr",
        "setxattr",
        "listxattr",
        "unshare",
    )
] + [
    (mmap, name)
    for name in dir(mmap)
    if name.startswith(("MADV_", "MAP_POPULATE", "MAP_STACK", "MAP_NORESERVE"))
]
IN_THE_C_LIBRARY = {"renameat2", "mallopt", "malloc_trim", "prctl", "fallocate", "posix_fadvise"}
FOLDERS = ("/proc", "/sys")


def refusing(function):
    """Know no path below /proc and /sys."""

    @functools.wraps(function)
    def call(path, *args, **given):
        if isinstance(path, (str, bytes, os.PathLike)):
            name = os.fsdecode(path)
            if name in FOLDERS or name.startswith(tuple(folder + "/" for folder in FOLDERS)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return function(path, *args, **given)

    return call


def hide_from_macos():
    """Remove the names, the files and the functions of the C library."""
    for module, name in LACKING:
        if hasattr(module, name):
            delattr(module, name)
    builtins.open = io.open = refusing(builtins.open)
    for name in ("open", "stat", "lstat", "listdir", "scandir", "readlink"):
        setattr(os, name, refusing(getattr(os, name)))
    look_up = ctypes.CDLL.__getattr__

    def look_up_some(library, name):
        if name in IN_THE_C_LIBRARY:
            raise AttributeError(name)
        return look_up(library, name)

    ctypes.CDLL.__getattr__ = look_up_some


if os.environ.get("TOPICS_HIDE") == "windows":
    for absent in ("fcntl", "resource", "termios", "pwd", "grp"):
        sys.modules[absent] = None
elif os.environ.get("TOPICS_HIDE") == "macos":
    hide_from_macos()
