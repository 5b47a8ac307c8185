"""The one module that makes, replaces, truncates and removes files and folders, and only ours (see ``ownership.py``).

Files are made anew (no link is followed, nothing is written into a file that is there), folders go name by name through
descriptors.  What is not ours is refused in one line (NotOurs) or stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from topicstream.errors import NotOurs
from topicstream.files.ownership import (
    DEEPEST,
    MARK,
    Mark,
    Where,
    bare,
    kind_names,
    kind_of,
    made,
    mark_of,
    must_own,
    owns,
    refuse_strangers,
    temporary,
    told,
    write_mark,
)


# -- making ------------------------------------------------------------------------------------------------------------
def create_fd(path: Where, mode: int = 0o644) -> int:
    """A descriptor (read and write) of a new, empty file; one of ours that has the name goes first, another's is refused.
    No link is followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, mode)
    except FileExistsError:
        remove_file(path)
        fd = os.open(path, flags, mode)
    _note(path, os.fstat(fd))
    return fd


def _note(path: Where, about: os.stat_result) -> None:
    made[os.path.abspath(path)] = (about.st_dev, about.st_ino)


def create(path: Where) -> BinaryIO:
    """A new, empty file of ours to write to (see ``create_fd``)."""
    return open(create_fd(path), "wb")


def reserve(path: Where) -> Where:
    """``create`` for libraries that open by name: the path, of a new, empty file."""
    os.close(create_fd(path))
    return path


def append(path: Where) -> BinaryIO:
    """A file of ours to add to; made when it is not there."""
    if not os.path.lexists(path):
        return create(path)
    must_own(path)
    _part(path)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    return open(fd, "ab")


def open_fd(path: Where) -> int:
    """A descriptor (read and write) of a file of ours, as it is; made when it is not there."""
    if not os.path.lexists(path):
        return create_fd(path)
    must_own(path)
    _part(path)
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def _part(path: Where) -> None:
    """Give a file of ours a content of its own: what has a second name (a backup by ``cp -al``) is not written into."""
    if shared(path):
        beside = temporary(path)
        try:
            copy_file(path, beside)
            replace(beside, path)
        except BaseException:
            discard(beside)
            raise


def shared(path: Where) -> bool:
    """Whether a file has a second name."""
    return os.lstat(path).st_nlink > 1


def copy_file(source: Where, target: Where) -> None:
    """Copy a file's content to a new file of ours."""
    with open(source, "rb") as read, create(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)


def copy_tree(source: Path, target: Path) -> None:
    """Copy the files below ``source`` (no links) into ``target``, a folder that is made."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
            raise NotOurs(f"{entry}: is no plain file; move it away")
        (copy_tree if entry.is_dir() else copy_file)(entry, target / entry.name)


# -- replacing ---------------------------------------------------------------------------------------------------------
def replace(beside: Where, target: Where) -> None:
    """Rename a file of ours to ``target``, in the place of a file of ours or of none."""
    if os.path.lexists(target):
        must_own(target)
    _note(target, os.lstat(beside))
    os.replace(beside, target)
    made.pop(os.path.abspath(beside), None)


_NOTE = "user.topicstream"


def noted(path: Where) -> bool:
    """Whether a file was published by us and nobody has written to it since."""
    try:
        about = os.lstat(path)
        return os.getxattr(path, _NOTE, follow_symlinks=False) == b"%d:%d" % (about.st_size, about.st_mtime_ns)
    except (OSError, AttributeError):
        return False


def keeps_notes(path: Where) -> bool:
    """Whether the file system of this file keeps such notes: one without is another's there."""
    try:
        os.listxattr(path, follow_symlinks=False)
    except (OSError, AttributeError):
        return False
    return True


def publish(beside: Where, target: Where, *, force: bool, ours: bool) -> None:
    """Rename a finished file to the name that a user gave it, noted as ours where the file system keeps such notes.
    ``ours``: what is there reads as ours, so ``force`` may replace it; without ``force`` nothing is replaced, whenever it
    came."""
    with contextlib.suppress(OSError, AttributeError):
        about = os.lstat(beside)
        os.setxattr(beside, _NOTE, b"%d:%d" % (about.st_size, about.st_mtime_ns), follow_symlinks=False)
    if force and ours:
        os.replace(beside, target)
        return
    try:
        os.link(beside, target, follow_symlinks=False)
    except FileExistsError:
        raise NotOurs(f"{target}: is there since this began; name another file") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise NotOurs(f"{target}: is there since this began; name another file") from None
        os.replace(beside, target)
        return
    os.unlink(beside)


def move(source: Where, target: Where) -> None:
    """Rename to a name that nothing has."""
    if os.path.lexists(target):
        raise NotOurs(f"{target}: is in the way; move it away and run this again")
    os.rename(source, target)


def move_folder(source: Where, target: Where) -> None:
    """Rename a folder to a name that nothing has, or an empty folder."""
    if os.path.lexists(target) and (os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)):
        raise NotOurs(f"{target}: is in the way; move it away and run this again")
    os.rename(source, target)


def point(link: Where, target: str, beside: Where) -> None:
    """Make ``link`` a symbolic link to ``target`` in one rename; only a link of ours (or nothing) is replaced."""
    if os.path.lexists(link) and not (
        os.path.islink(link) and os.path.dirname(os.readlink(link)) == os.path.dirname(target)
    ):
        raise NotOurs(f"{link}: is not the link that we make; move it away")
    if os.path.islink(beside):
        os.unlink(beside)
    os.symlink(target, beside)
    os.replace(beside, link)


# -- removing ----------------------------------------------------------------------------------------------------------
def remove_file(path: Where, *, missing_ok: bool = False) -> None:
    """Remove a file of ours; NotOurs when it is another's."""
    if missing_ok and not os.path.lexists(path):
        return
    if os.path.lexists(path):
        must_own(path)
    with contextlib.suppress(FileNotFoundError) if missing_ok else contextlib.nullcontext():
        os.unlink(path)
    made.pop(os.path.abspath(path), None)


def remove_left(path: Where, about: os.stat_result) -> None:
    """Remove a temporary file that its writer, who is gone, left beside a file of the user's; ``about``: the one that the
    caller has opened and locked."""
    now = os.lstat(path)
    if stat.S_ISREG(now.st_mode) and os.path.samestat(now, about):
        os.unlink(path)


def discard(path: Where) -> None:
    """Remove a file of ours if that can be done: what a failure left that is being told already."""
    with contextlib.suppress(OSError, NotOurs):
        remove_file(path)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove the files of ours in a folder of ours that match; the caller holds its lock."""
    for pattern in patterns or (".*.tmp", "*.partial"):
        for path in sorted(folder.glob(pattern)):
            if owns(path):
                discard(path)


def remove(folder: Where, kind: str) -> None:
    """Remove a folder of ours of this kind with all in it; none: nothing.  NotOurs, and nothing is removed, when it is not
    one or holds what is not ours."""
    if not os.path.lexists(folder):
        return
    _emptied(Path(folder), kind, keep=())
    os.rmdir(folder)


def remove_unused(folder: Path, keep: bool = False) -> None:
    """Remove a folder that holds nothing but our lock and mark; ``keep``: those two, and the folder was there before."""
    if {p.name for p in folder.iterdir()} <= {MARK, ".lock"}:
        for name in (".lock", MARK):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder / name)
        if not keep:
            os.rmdir(folder)


def clear(folder: Where, kind: str, keep: Iterable[str] = (MARK, ".lock")) -> None:
    """``remove``, but the folder stays, with the names of ``keep``."""
    _emptied(Path(folder), kind, keep=tuple(keep))


def remove_within(path: Where, kind: str) -> None:
    """Remove a folder by its place in the nearest folder of ``kind`` above it (a checkpoint, a chunk, a table); what is
    not ours in it stays, and so does the folder then."""
    path = Path(os.path.abspath(path))
    if not os.path.lexists(path):
        return
    home = next((p for p in list(path.parents)[:DEEPEST] if kind_of(p) == kind), None)
    below = path.relative_to(home).as_posix() if home is not None else ""
    if home is None or path.is_symlink() or not kind_names(kind)[0].fullmatch(below):
        raise NotOurs(f"{path}: is in the way and not ours; move it away and run this again")
    _take_down(path, kind, below, ())
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _emptied(folder: Path, kind: str, keep: tuple[str, ...]) -> None:
    # one that was killed between its making and its marking, or its end, holds nothing
    ours = not folder.is_symlink() and folder.is_dir() and (kind_of(folder) == kind or bare(folder))
    if not ours:
        raise NotOurs(f"{folder}: is not {told(kind)} of ours, and in the way; move it away")
    refuse_strangers(folder, kind)
    claim_existing(folder, kind)  # killed on the way, what is left must say whose it is
    _take_down(folder, kind, "", keep)


def claim_existing(folder: Path, kind: str) -> Mark:
    """The mark of a folder of ours, which gets one when it is 0.1.0's."""
    mark = mark_of(folder)
    if mark is None:
        mark = write_mark(folder, Mark(kind, secrets.token_hex(8)))
    return mark


_LAST = ("state.json", ".lock", MARK)


def _take_down(folder: Path, kind: str, below: str, keep: tuple[str, ...]) -> None:
    """Remove what is ours in a folder, the journal and the mark last."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _take_down_at(fd, kind, below, keep)
    finally:
        os.close(fd)


def _take_down_at(fd: int, kind: str, below: str, keep: tuple[str, ...]) -> None:
    folders, files = kind_names(kind)
    with os.scandir(fd) as entries:
        found = sorted((e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False)) for e in entries)
    found.sort(key=lambda e: _LAST.index(e[0]) if e[0] in _LAST else -1)
    for name, is_folder, is_file in found:
        whole = f"{below}/{name}" if below else name
        if is_folder and folders.fullmatch(whole):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                _take_down_at(inner, kind, whole, ())
            finally:
                os.close(inner)
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError as e:
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        elif is_file and files.fullmatch(whole) and not (not below and name in keep):
            os.unlink(name, dir_fd=fd)
