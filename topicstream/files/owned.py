"""The one module that makes, replaces and removes files and folders, and only ours (see
``ownership.py``).

What is not ours is refused in one line (NotOurs) or stays.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
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
    beside,
    holds_files,
    home_of,
    is_listed,
    is_temporary,
    located,
    mark_of,
    must_own,
    note,
    ours,
    owns,
    refuse_strangers,
    take_back,
    temporary,
)


# -- making
# ------------------------------------------------------------------------------------------------------------
def reserve(path: Where, *, keep: bool = False) -> Where:
    """Make a new, empty file of ours, and return its path.

    A file of ours that has the name goes first (``keep``: it stays, to be written to in place);
    another's is refused.
    """
    if not os.path.lexists(path):
        if not (is_temporary(path) and is_listed(path)):  # listed once, used again and again
            note(path)
    elif keep:
        must_own(path)
        part_from_backup(path)
        return path
    else:
        must_own(path)
        os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return path


def part_from_backup(path: Where) -> None:
    """Give a file that has other names (a backup by hard links) content that is written to alone."""
    if os.stat(path).st_nlink == 1:
        return
    new = beside(path)
    with open(path, "rb") as read, create(new) as written:
        shutil.copyfileobj(read, written, 1 << 20)
    os.replace(new, path)
    _forget(new)


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
        remove_within(path)


# -- replacing
# ---------------------------------------------------------------------------------------------------------
def replace(new: Where, target: Where) -> None:
    """Rename a file of ours to ``target``, in the place of a file of ours or of none."""
    if os.path.lexists(target):
        must_own(target)
    elif not is_listed(target):
        note(target)
    os.replace(new, target)
    if not is_temporary(new):
        _forget(new)


def move_folder(source: Where, target: Where) -> None:
    """Rename a folder to a name that nothing has, or an empty folder."""
    if os.path.lexists(target) and (
        os.path.islink(target) or not os.path.isdir(target) or os.listdir(target)
    ):
        raise NotOurs(f"{target}: is in the way; move it away and run this again")
    home = home_of(source)
    if mark_of(source) is not None:
        moved: list[Path] = [Path(source)] if home is None or is_listed(source) else []
    else:
        is_folder = os.path.isdir(source) and not os.path.islink(source)
        inside = ours(source) if is_folder else iter(())
        moved = [Path(source) / path.relative_to(located(source)) for path in inside]
    note(*(Path(target) / path.relative_to(source) for path in moved))
    os.rename(source, target)
    if home is not None and moved:
        take_back(home, moved)


def point(link: Where, target: str) -> None:
    """Make ``link`` a symbolic link to ``target`` in one rename; only a link to the same folder (or
    nothing) is replaced.
    """

    def folder(target: str) -> str:
        return os.path.dirname(os.path.realpath(os.path.join(os.path.dirname(link), target)))

    if os.path.lexists(link) and not (
        os.path.islink(link) and folder(os.readlink(link)) == folder(target)
    ):
        raise NotOurs(f"{link}: is not the link that we make; move it away")
    new = Path(link).with_name(f".{os.path.basename(link)}.tmp")
    if os.path.lexists(new):  # a kill left it
        if not (os.path.islink(new) and folder(os.readlink(new)) == folder(target)):
            raise NotOurs(f"{new}: is in the way and not ours; move it away and run this again")
        os.unlink(new)
    os.symlink(target, new)
    os.replace(new, link)


# -- removing
# ----------------------------------------------------------------------------------------------------------
def remove_file(path: Where, *, missing_ok: bool = False) -> None:
    """Remove a file of ours; NotOurs when it is another's."""
    if os.path.lexists(path):
        must_own(path)
    elif missing_ok:
        return
    os.unlink(path)
    _forget(path)


def _forget(path: Where) -> None:
    """Take a path that is gone off the list that names it."""
    home = home_of(path)
    if home is not None:
        take_back(home, [path])


def discard(path: Where) -> None:
    """Remove a file of ours if that can be done: what a failure left that is being reported
    already.
    """
    with contextlib.suppress(OSError, NotOurs):
        remove_file(path)


def discard_all(paths: Iterable[Path], home: Path) -> None:
    """Remove many files of one folder of ours as far as that can be done."""
    removed: list[Path] = []
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)
            removed.append(path)
    take_back(home, removed)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove what a kill left directly in a folder of ours: temporary and scratch files and
    folders, or those that match; the caller holds its lock."""
    for path in sorted(p for pattern in patterns or (".*.tmp",) for p in folder.glob(pattern)):
        if owns(path):
            discard(path)
        elif path.is_dir() and not path.is_symlink() and is_listed(path):
            remove_within(path)


def remove(folder: Where, kind: str) -> None:
    """Remove a folder of ours of this kind with all in it; none: nothing.

    NotOurs, and nothing is removed, when it is not one or holds what is not ours.  It is renamed
    first: killed on the way, no half of it has its name, and the next call removes the rest.
    """
    sweep_removed(folder)
    if not os.path.lexists(folder):
        return
    _refuse_other(folder, kind)
    path = Path(located(folder))
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.removed")
    if home_of(path) is not None:
        note(aside)
    os.rename(path, aside)
    _forget(path)
    _remove_renamed(aside)


def sweep_removed(folder: Where) -> None:
    """Remove what ``remove`` left of a folder when it was killed."""
    path = Path(located(folder))
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.removed")
    if not path.parent.is_dir():
        return
    with os.scandir(path.parent) as entries:
        left = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for name in left:
        if os.path.isdir(name) and not os.path.islink(name):
            _remove_renamed(Path(name))


def _remove_renamed(aside: Path) -> None:
    """Remove what is ours of a folder that was renamed to be removed."""
    if mark_of(aside) is not None:
        _take_down(aside)
    elif holds_files(aside):
        return
    with contextlib.suppress(OSError):
        remove_empty(aside)
        os.rmdir(aside)
        _forget(aside)


def _refuse_other(folder: Where, kind: str) -> None:
    """Raise NotOurs unless a folder is one of ours of this kind with nothing of others in it."""
    path = Path(folder)
    mark = mark_of(path)
    is_folder = path.is_dir() and not path.is_symlink()
    if mark is None and is_folder and not holds_files(path):
        return
    if not is_folder or mark is None or mark.kind != kind:
        raise NotOurs(f"{path}: is not {KINDS[kind]} of ours, and in the way; move it away")
    refuse_strangers(path)


def clear(folder: Where, kind: str, keep: Iterable[str] = (MARK, LOCK)) -> None:
    """Remove all in a folder of ours of this kind, but the names of ``keep`` directly in it."""
    _refuse_other(folder, kind)
    _take_down(Path(folder), keep)


def remove_within(path: Where) -> None:
    """Remove what is ours below a path within a folder of ours (a checkpoint, a chunk, a table);
    what is not ours stays, and so do the folders that it lies in."""
    if os.path.isdir(path) and not os.path.islink(path):
        _take_down(Path(path))
        with contextlib.suppress(OSError):
            os.rmdir(path)
            _forget(path)


def remove_unused(folder: Path, keep: bool = False) -> None:
    """Remove a folder that holds nothing but our lock and mark; ``keep``: those two, and the folder
    was there before.
    """
    if {p.name for p in folder.iterdir()} <= {MARK, LOCK}:
        _take_down(folder)
        if not keep:
            os.rmdir(folder)
            _forget(folder)


def _take_down(folder: Path, keep: Iterable[str] = ()) -> None:
    """Remove what is ours in a folder, but not these files directly in it, and then the empty
    folders in it.
    """
    folder = Path(located(folder))
    was_marked = mark_of(folder) is not None
    stays = {folder / name for name in keep}
    removed: list[Path] = []
    for path in ours(folder):
        if path not in stays:
            with contextlib.suppress(FileNotFoundError):  # another process removes it, too
                os.unlink(path)
            removed.append(path)
    home = folder if was_marked else home_of(folder)
    if home is not None and mark_of(home) is not None:
        take_back(home, removed)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove the empty folders below a folder of ours."""
    for base, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(base, name))
