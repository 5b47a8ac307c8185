"""The one module that makes, replaces and removes files and folders, and only ours (see
``ownership.py``).

What is not ours is refused in one line (NotOurs) or stays.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from topicstream.errors import NotOurs
from topicstream.files.ownership import (
    KINDS,
    LOCK,
    MARK,
    Where,
    home_of,
    is_listed,
    mark_of,
    must_own,
    note,
    owns,
    refuse_strangers,
    temporary,
)


# -- making
# ------------------------------------------------------------------------------------------------------------
def reserve(path: Where, *, keep: bool = False) -> Where:
    """The path, where a new, empty file of ours lies; one of ours that has the name goes first
    (``keep``: stays as it is), another's is refused."""
    if not os.path.lexists(path):
        note(path)
    elif keep:
        must_own(path)
        return path
    else:
        remove_file(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return path


def create(path: Where) -> BinaryIO:
    """A new, empty file of ours to write to (see ``reserve``)."""
    return open(reserve(path), "wb")


def copy(source: Where, target: Where) -> None:
    """Copy a file's content to a new file of ours, or a folder's files to a folder that is made."""
    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=copy)
        return
    with open(source, "rb") as read, create(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)


def link_file(source: Where, target: Where) -> None:
    """Give a file of ours a second name, which nothing has; a copy where the file system cannot
    link.
    """
    note(target)
    try:
        os.link(source, target)
    except OSError:
        copy(source, target)


@contextlib.contextmanager
def scratch(folder: Path, name: str) -> Iterator[Path]:
    """A folder within one of ours for whatever a library writes; it is removed at the end."""
    path = temporary(folder / name)
    note(f"{path}/")
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path)


# -- replacing
# ---------------------------------------------------------------------------------------------------------
def replace(beside: Where, target: Where) -> None:
    """Rename a file of ours to ``target``, in the place of a file of ours or of none."""
    if os.path.lexists(target):
        must_own(target)
    elif not is_listed(target):
        note(target)
    os.replace(beside, target)


def move_folder(source: Where, target: Where) -> None:
    """Rename a folder to a name that nothing has, or an empty folder."""
    if os.path.lexists(target) and (
        os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)
    ):
        raise NotOurs(f"{target}: is in the way; move it away and run this again")
    if mark_of(source) is None:
        note(*(Path(target) / p.relative_to(source) for p in Path(source).rglob("*") if owns(p)))
    elif home_of(source)[0] is None or is_listed(source):
        note(target)
    os.rename(source, target)


def point(link: Where, target: str) -> None:
    """Make ``link`` a symbolic link to ``target`` in one rename; only a link to the same folder (or
    nothing) is replaced.
    """

    def folder(target: str) -> str:
        return os.path.realpath(
            os.path.dirname(os.path.normpath(os.path.join(os.path.dirname(link), target)))
        )

    if os.path.lexists(link) and not (
        os.path.islink(link) and folder(os.readlink(link)) == folder(target)
    ):
        raise NotOurs(f"{link}: is not the link that we make; move it away")
    beside = temporary(link)
    os.symlink(target, beside)
    os.replace(beside, link)


# -- removing
# ----------------------------------------------------------------------------------------------------------
def remove_file(path: Where, *, missing_ok: bool = False) -> None:
    """Remove a file of ours; NotOurs when it is another's."""
    if os.path.lexists(path):
        must_own(path)
    with contextlib.suppress(FileNotFoundError) if missing_ok else contextlib.nullcontext():
        os.unlink(path)


def discard(path: Where) -> None:
    """Remove a file of ours if that can be done: what a failure left that is being reported
    already.
    """
    with contextlib.suppress(OSError, NotOurs):
        remove_file(path)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove what a kill left directly in a folder of ours: temporary and scratch files and
    folders, or those that match; the caller holds its lock."""
    for path in sorted(
        p
        for pattern in patterns or (".*.tmp", "*.partial", "*.scratch")
        for p in folder.glob(pattern)
    ):
        if owns(path):
            discard(path)
        elif path.is_dir() and not path.is_symlink() and is_listed(path):
            remove_within(path)


def remove(folder: Where, kind: str) -> None:
    """Remove a folder of ours of this kind with all in it; none: nothing.  NotOurs, and nothing is
    removed, when it is not
    one or holds what is not ours."""
    if os.path.lexists(folder):
        clear(folder, kind, keep=())
        os.rmdir(folder)


def clear(folder: Where, kind: str, keep: Iterable[str] = (MARK, LOCK)) -> None:
    """``remove``, but the folder stays, with the names of ``keep``."""
    path, mark = Path(folder), mark_of(folder)
    holds_files = any(
        files for _, _, files in os.walk(path)
    )  # a kill may leave empty folders and no mark
    if (
        path.is_symlink()
        or not path.is_dir()
        or (holds_files if mark is None else mark.kind != kind)
    ):
        raise NotOurs(f"{path}: is not {KINDS[kind]} of ours, and in the way; move it away")
    refuse_strangers(path)
    _take_down(path, keep)


def remove_within(path: Where) -> None:
    """Remove what is ours below a path within a folder of ours (a checkpoint, a chunk, a table);
    what is not ours stays, and so do the folders that it lies in."""
    if not os.path.islink(path):
        _take_down(Path(path))
        with contextlib.suppress(OSError):
            os.rmdir(path)


def remove_unused(folder: Path, keep: bool = False) -> None:
    """Remove a folder that holds nothing but our lock and mark; ``keep``: those two, and the folder
    was there before.
    """
    if {p.name for p in folder.iterdir()} <= {MARK, LOCK}:
        _take_down(folder)
        if not keep:
            os.rmdir(folder)


_LAST = ("state.json", LOCK, MARK)
"""Of the files of a folder: killed on the way, what is left says what it is and whose."""


def _take_down(folder: Path, keep: Iterable[str] = ()) -> None:
    """Remove what is ours in a folder, but not these files directly in it, and then the empty
    folders in it.
    """
    for base, _, files in os.walk(folder, topdown=False):
        for name in sorted(files, key=lambda name: _LAST.index(name) if name in _LAST else -1):
            path = os.path.join(base, name)
            if owns(path) and not (name in keep and Path(base) == folder):
                os.unlink(path)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove the empty folders below a folder of ours."""
    for base, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(base, name))
