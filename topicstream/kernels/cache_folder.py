"""The folder of compiled kernels: whether it may be trusted, and its files, each with a checksum.

A cached kernel is code that runs as the user, so a file is used only where nobody but the user and root could have put it
there: folder and file belong to one of the two and neither group nor others may write them, and the same holds for every
folder above, up to the root.  Two exceptions are safe: above the cache, a folder with the sticky bit (``/tmp``), in which
others cannot exchange what is not theirs; and a group that has no other member than the user (``umask 002``).

    file      16 bytes: magic, crc32c of the file's name and of the rest (4), 4 zeros; then the pickle of one compiled signature

Nothing here raises: a file that is damaged is dropped with a note, a folder that cannot be written is told of once, and the
kernels are compiled instead.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import secrets
import stat
import sys
import time
from functools import cache
from pathlib import Path

import google_crc32c

from topicstream.errors import one_line

MAGIC = b"TSKERN1\n"
HEAD = 16
MOST = 64 << 20  # bytes of a file; the largest kernel takes 400 kB
KEEP = 64  # files of one function: signatures, processors and versions of its source
STALE = 3600.0  # seconds after which a temporary file is what a kill left
SUFFIX = ".nbc"
TAG = "CACHEDIR.TAG"
_TAG_TEXT = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n# Compiled kernels of topicstream; may be removed at any time.\n"
)
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@cache
def _alone_in(group: int) -> bool:
    """Whether nobody but this user is in the group (a group of the user's name with no further members)."""
    try:
        user, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


def _objection(found: os.stat_result, *, above: bool = False) -> str | None:
    """Why a folder or file is not the user's or root's alone; None when it is."""
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to user {found.st_uid}"
    if above and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & 0o002 or (found.st_mode & 0o020 and not _alone_in(found.st_gid)):
        return f"may be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def distrust(folder: Path) -> str | None:
    """Why code in ``folder`` may be somebody else's, naming the place; None when it can only be the user's or root's."""
    place = Path(os.path.realpath(folder))
    for at in (place, *place.parents[:-1]):
        why = _objection(os.stat(at), above=at != place)
        if why is not None:
            return f"{at} {why}"
    return None


def _crc(name: str, body: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(name.encode()), body))


def _content(folder: int, name: str) -> bytes:
    """What follows the head of a file; OSError, or ValueError that says what is wrong with it."""
    fd = os.open(name, _OPEN, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no file")
        if (why := _objection(found)) is not None:
            raise ValueError(why)
        if not HEAD <= found.st_size <= MOST:
            raise ValueError(f"{found.st_size} bytes")
        data = os.read(fd, found.st_size + 1)
    finally:
        os.close(fd)
    if data[:8] != MAGIC or data[12:HEAD] != bytes(4):
        raise ValueError("not one of its files")
    body = data[HEAD:]
    if len(data) != found.st_size or int.from_bytes(data[8:12], "little") != _crc(name, body):
        raise ValueError("does not match its checksum")
    return body


class KernelFolder:
    """The files of one folder.  ``read_only``: of an image or a package, never written."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._fd = -1
        self._looked = self._swept = False
        self._refused = False

    def read(self, name: str) -> bytes | None:
        """What was written under a name; None when there is nothing that can be used."""
        folder = self._open()
        try:
            return None if folder < 0 else _content(folder, name)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as e:
            self._damaged(name, getattr(e, "strerror", None) or str(e))
            return None

    def has(self, name: str) -> bool:
        """Whether there is something under a name."""
        folder = self._open()
        return folder >= 0 and os.access(name, os.F_OK, dir_fd=folder, follow_symlinks=False)

    def write(self, name: str, body: bytes) -> None:
        """Put a file in its place in one rename; where that cannot be, one warning, and no second try."""
        if self.read_only or self._refused:
            return
        beside = f".{secrets.token_hex(8)}.tmp"
        try:
            folder = self._open(make=True)
            if folder < 0:
                return
            self._sweep(folder, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(beside, flags, 0o644, dir_fd=folder)
            try:
                with open(fd, "wb", buffering=0) as f:
                    data = memoryview(MAGIC + _crc(name, body).to_bytes(4, "little") + bytes(4) + body)
                    while data:
                        data = data[f.write(data) :]
                os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                raise
        except IsADirectoryError:
            pass  # told of when it was read
        except OSError as e:
            self._refuse(f"compiled kernels cannot be kept in {self.path} ({e.strerror or e})")

    def drop(self, name: str, why: str) -> None:
        """Remove a file that turned out not to hold what it should."""
        self._damaged(name, why)

    def writable(self) -> bool:
        """Whether what is compiled now is there for the next process, as far as one can tell."""
        if self.read_only or self._refused:
            return False
        try:
            folder = self._open(make=True)
        except OSError:
            return False
        return folder >= 0 and os.access(".", os.W_OK, dir_fd=folder)

    def _open(self, make: bool = False) -> int:
        """The folder's descriptor; -1 where there is none or it may not be trusted.  OSError only under ``make``."""
        if self._fd >= 0 or self._refused or (self._looked and not make):
            return self._fd
        self._looked = True
        try:
            if make:
                self._make()
            if (why := distrust(self.path)) is not None:
                self._refuse(f"the kernel cache {self.path} is not used: {why}")
                return -1
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            if make:
                raise
        return self._fd

    def _make(self) -> None:
        missing = [p for p in (self.path, *self.path.parents) if not p.exists()]
        for place in reversed(missing):
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o755)
        if self.path in missing:
            fd = os.open(self.path / TAG, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, _TAG_TEXT)
            finally:
                os.close(fd)

    def _sweep(self, folder: int, name: str) -> None:
        """Remove what kills left, once a process, and all but the newest files of a function."""
        names = os.listdir(folder)
        if not self._swept:
            self._swept = True
            for stray in names:
                if re.fullmatch(r"\.[0-9a-f]{16}\.tmp", stray):
                    with contextlib.suppress(OSError):
                        if time.time() - os.lstat(stray, dir_fd=folder).st_mtime > STALE:
                            os.unlink(stray, dir_fd=folder)
        function = name.rpartition("-")[0] + "-"
        alike = [n for n in names if n.startswith(function) and re.fullmatch(r"[0-9a-f]{32}\.nbc", n[len(function) :])]
        if len(alike) >= KEEP:
            with contextlib.suppress(OSError):
                oldest = sorted(alike, key=lambda n: os.lstat(n, dir_fd=folder).st_mtime)
                for old in oldest[: len(alike) - KEEP + 1]:
                    os.unlink(old, dir_fd=folder)

    def _damaged(self, name: str, why: str) -> None:
        if self._fd >= 0 and not self.read_only:
            with contextlib.suppress(OSError):
                try:
                    os.unlink(name, dir_fd=self._fd)
                except IsADirectoryError:
                    os.rmdir(name, dir_fd=self._fd)  # an empty one; another stays, and its kernel is not kept
        _tell_once("note", f"kernel cache {self.path}: {name} cannot be used ({why}); such kernels are compiled again")

    def _refuse(self, what: str) -> None:
        self._refused = True
        _tell_once(
            "warning", f"{what}; every command compiles anew (NUMBA_CACHE_DIR names a folder of yours to use instead)"
        )


_told: set[str] = set()


def _tell_once(kind: str, text: str) -> None:
    """One line of a kind a process, on stderr; nothing where that is closed."""
    if kind not in _told:
        _told.add(kind)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(f"topics: {kind}: {one_line(text)}", file=sys.stderr, flush=True)
