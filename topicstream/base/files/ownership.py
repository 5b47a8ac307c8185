"""The one module that makes, replaces and removes files and folders, and only ours.

A folder is ours if it contains a marker (``marker.py``) now. A file is ours if the nearest marker
above lists it; it is listed before it is made, so a kill leaves no file of ours that the list
lacks. Everything else is somebody else's: it stays, and is refused in one line (NotOurs) where it
is in the way, whatever ``--force`` says.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from topicstream.base.errors import NotOurs, StoreError
from topicstream.base.files.inventory import (
    first_inside,
    holds_files,
    is_listed,
    is_on_list,
    owned_files,
    owns,
    refuse_unlisted,
    require_owned,
)
from topicstream.base.files.marker import (
    KINDS,
    LOCK,
    MARK,
    Kind,
    Mark,
    StrPath,
    append_lines,
    format_marker,
    home_of,
    is_temporary,
    line_of,
    list_paths,
    mark_of,
    resolve_folders,
    unlist_path,
    unlist_paths,
    write_marker,
)
from topicstream.base.places import places


class _Head(msgspec.Struct):
    """The members of a manifest that say whether this version can read it."""

    schema: Literal[1]
    kind: Kind


_HEADS = msgspec.json.Decoder(_Head)


# -- writing
# --------------------------------------------------------------------------------------------------


def path_beside(target: StrPath) -> Path:
    """Return the name under which a file is written before it takes the place of ``target``."""
    return temporary_path(target) if line_of(target) is None else replacement_path(Path(target))


def replacement_path(target: Path) -> Path:
    """Return the one name beside ``target``, in a folder of ours, for what will replace it."""
    return target.with_name(f".{target.name}.tmp")


def temporary_path(target: StrPath) -> Path:
    """Return a random name beside ``target`` for what is renamed to it."""
    target = Path(target)
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def claim(folder: StrPath, kind: Kind, *, owner: str = "") -> Mark:
    """Make and mark a folder, or check that it is ours and of this kind.

    Parameters
    ----------
    folder
        The folder.
    kind
        The kind that it must have, or gets.
    owner
        Id of the folder that a new folder belongs to.

    Returns
    -------
    Mark
        Its mark.

    Raises
    ------
    NotOurs
        If it is a link, holds something else, or is ours of another kind.
    UsageError
        If it is an address, or the local copy of one.
    StoreError
        If its manifest is damaged or of another format version.
    """
    path = Path(folder)
    places().refuse_folder(path)
    if path.is_symlink():
        raise NotOurs(f"{path}: is a link to {os.readlink(path)}; name the folder itself")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotOurs(f"{path}: a file is in the way; name another folder") from None
    mark = mark_of(path)
    if mark is not None and mark.kind != kind:
        raise NotOurs(f"{path}: is {KINDS[mark.kind]}, not {KINDS[kind]}; name another folder")
    if mark is None:
        inside = first_inside(path)
        if inside is not None and kind != "retrain":  # where the user's own files lie, too
            noun = KINDS[kind].partition(" ")[2]
            raise NotOurs(
                f"{path}: a folder that is no {noun} of ours "
                f"({inside.relative_to(path).parts[0]} is in it); name another, or an empty one"
            )
        if not is_listed(path):
            list_paths(path)
        with contextlib.suppress(FileExistsError):  # of another process, which was faster
            write_marker(path / MARK, format_marker(Mark(kind, secrets.token_hex(8), owner), []))
        mark = mark_of(path)
    if mark is None:
        raise NotOurs(f"{path / MARK}: cannot be read; move {path} away, or name another folder")
    if kind in ("corpus", "model"):
        _refuse_other_manifest(path, kind)
    return mark


def _refuse_other_manifest(folder: Path, kind: Kind) -> None:
    """Raise StoreError for a manifest that this version cannot read.

    ``--force`` does not replace it.
    """
    try:
        readable = _HEADS.decode((folder / "manifest.json").read_bytes()).kind == kind
    except FileNotFoundError:
        return
    except (OSError, msgspec.DecodeError, RecursionError):
        readable = False
    if not readable:
        raise StoreError(
            f"{folder}/manifest.json: is damaged, of another format version, or not "
            f"{KINDS[kind]}'s; restore it, or move {folder} away"
        )


# -- making
# --------------------------------------------------------------------------------------------------
def reserve(path: StrPath, *, keep: bool = False) -> StrPath:
    """Make a new, empty file of ours, and return its path.

    Parameters
    ----------
    path
        The file. A file of ours that has the name is removed first.
    keep
        Leave a file of ours that has the name, to be written to in place.

    Raises
    ------
    NotOurs
        If a file of others has the name.
    """
    if not os.path.lexists(path):
        if is_temporary(path):  # listed once, used again and again
            _note_unlisted(path)
        else:
            list_paths(path)
    elif keep:
        require_owned(path)
        part_from_backup(path)
        return path
    else:
        require_owned(path)
        os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    return path


def _note_unlisted(path: StrPath) -> None:
    """List a path that is about to be made, unless it is listed."""
    line = line_of(path)
    if line is not None and not is_on_list(line):
        append_lines(line.home, line.entry + b"\n")


def part_from_backup(path: StrPath) -> None:
    """Give a file that has other names content of its own to write to.

    The other names are those of a backup by hard links.
    """
    if os.stat(path).st_nlink == 1:
        return
    new = path_beside(path)
    with open(path, "rb") as read, create(new) as written:
        shutil.copyfileobj(read, written, 1 << 20)
    os.replace(new, path)
    unlist_path(new)


def create(path: StrPath) -> BinaryIO:
    """Create an empty file of ours to write to (see ``reserve``)."""
    return open(reserve(path), "wb")


def copy(source: StrPath, target: StrPath) -> None:
    """Copy a file to a new file of ours, or the files of a folder to a new folder."""
    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=copy)
        return
    with open(source, "rb") as read, create(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)


def link_file(source: StrPath, target: StrPath) -> None:
    """Give a file of ours a second name, or copy it where the file system cannot link."""
    list_paths(target)
    try:
        os.link(source, target)
    except OSError:
        copy(source, target)


@contextlib.contextmanager
def scratch(folder: Path, name: str) -> Iterator[Path]:
    """Yield a folder within one of ours for whatever a library writes.

    It is removed at the end.
    """
    path = temporary_path(folder / name)
    list_paths(f"{path}/")
    path.mkdir()
    try:
        yield path
    finally:
        remove_within(path)


# -- replacing
# --------------------------------------------------------------------------------------------------
def replace(new: StrPath, target: StrPath) -> None:
    """Rename a file of ours to ``target``, in the place of a file of ours or of none."""
    if os.path.lexists(target):
        require_owned(target)
    else:
        _note_unlisted(target)
    os.replace(new, target)
    if not is_temporary(new):
        unlist_path(new)


def move_folder(source: StrPath, target: StrPath) -> None:
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
        inside = owned_files(source) if is_folder else iter(())
        moved = [Path(source) / path.relative_to(resolve_folders(source)) for path in inside]
    list_paths(*(Path(target) / path.relative_to(source) for path in moved))
    os.rename(source, target)
    if home is not None and moved:
        unlist_paths(home, moved)


def point_link(link: StrPath, target: str) -> None:
    """Make ``link`` a symbolic link to ``target`` in one rename.

    An existing link is ours, and is replaced, if it leads into the same folder.

    Raises
    ------
    NotOurs
        If something else has the name.
    """

    def folder_of(target: str) -> str:
        """Return the folder in which a target of the link lies."""
        return os.path.dirname(os.path.realpath(os.path.join(os.path.dirname(link), target)))

    def is_our_link(path: StrPath) -> bool:
        """Tell whether a path is a link that an earlier call made."""
        return os.path.islink(path) and folder_of(os.readlink(path)) == folder_of(target)

    if os.path.lexists(link) and not is_our_link(link):
        raise NotOurs(f"{link}: is not the link that we make; move it away")
    new = Path(link).with_name(f".{os.path.basename(link)}.tmp")
    if os.path.lexists(new):  # a kill left it
        if not is_our_link(new):
            raise NotOurs(f"{new}: is in the way and not ours; move it away and run this again")
        os.unlink(new)
    os.symlink(target, new)
    os.replace(new, link)


# -- removing
# --------------------------------------------------------------------------------------------------
def remove_file(path: StrPath, *, missing_ok: bool = False) -> None:
    """Remove a file of ours.

    Raises
    ------
    NotOurs
        If it is another's.
    FileNotFoundError
        If it is missing, unless ``missing_ok``.
    """
    if os.path.lexists(path):
        require_owned(path)
    elif missing_ok:
        return
    os.unlink(path)
    unlist_path(path)


def discard(path: StrPath) -> None:
    """Remove a file of ours if that can be done.

    It is meant for files of a failed step, whose error is being reported already.
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
    unlist_paths(home, removed)


def sweep(folder: Path, *patterns: str) -> None:
    """Remove files and folders that a kill left directly in a folder of ours.

    The caller holds the folder's lock.

    Parameters
    ----------
    folder
        The folder.
    patterns
        Patterns of their names (default: those of temporary files and scratch folders).
    """
    paths: list[Path] = []
    for pattern in patterns or (".*.tmp",):
        paths += folder.glob(pattern)
    for path in sorted(paths):
        if owns(path):
            discard(path)
        elif path.is_dir() and not path.is_symlink() and is_listed(path):
            remove_within(path)


def remove(folder: StrPath, kind: str) -> None:
    """Remove a folder of ours of this kind with all in it, if there is one.

    It is renamed first. After a kill on the way no half of it has its name, and the next call
    removes the rest.

    Raises
    ------
    NotOurs
        If it is no such folder, or holds files of others; nothing is removed then.
    """
    sweep_removed(folder)
    if not os.path.lexists(folder):
        return
    _refuse_other(folder, kind)
    path = Path(resolve_folders(folder))
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.removed")
    list_paths(aside)
    os.rename(path, aside)
    unlist_path(path)
    _remove_renamed(aside)


def sweep_removed(folder: StrPath) -> None:
    """Remove what ``remove`` left of a folder when it was killed."""
    path = Path(resolve_folders(folder))
    pattern = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.removed")
    if not path.parent.is_dir():
        return
    with os.scandir(path.parent) as entries:
        renamed = [entry.path for entry in entries if pattern.fullmatch(entry.name)]
    for path_text in renamed:
        if os.path.isdir(path_text) and not os.path.islink(path_text):
            _remove_renamed(Path(path_text))


def _remove_renamed(aside: Path) -> None:
    """Remove our files in a folder renamed to be removed, and the folder if nothing is left."""
    if mark_of(aside) is not None:
        _remove_owned(aside)
    elif holds_files(aside):
        return
    with contextlib.suppress(OSError):
        remove_empty(aside)
        os.rmdir(aside)
        unlist_path(aside)


def _refuse_other(folder: StrPath, kind: str) -> None:
    """Raise NotOurs unless a folder is one of ours of this kind with nothing of others in it."""
    path = Path(folder)
    mark = mark_of(path)
    is_folder = path.is_dir() and not path.is_symlink()
    if mark is None and is_folder and not holds_files(path):
        return
    if not is_folder or mark is None or mark.kind != kind:
        raise NotOurs(f"{path}: is not {KINDS[kind]} of ours, and in the way; move it away")
    refuse_unlisted(path)


def clear(folder: StrPath, kind: str, keep: Iterable[str] = (MARK, LOCK)) -> None:
    """Remove all in a folder of ours of this kind, but the names of ``keep`` directly in it."""
    _refuse_other(folder, kind)
    _remove_owned(Path(folder), keep)


def remove_within(path: StrPath) -> None:
    """Remove our files below a folder within one of ours: a checkpoint, a chunk, a table.

    Files of others stay, and so do the folders that they lie in.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        _remove_owned(Path(path))
        with contextlib.suppress(OSError):
            os.rmdir(path)
            unlist_path(path)


def remove_unused(folder: Path, keep: bool = False) -> None:
    """Remove a folder that holds nothing but our lock and mark.

    Parameters
    ----------
    folder
        The folder.
    keep
        Remove only the lock and the mark: the folder was there before.
    """
    if {p.name for p in folder.iterdir()} <= {MARK, LOCK}:
        _remove_owned(folder)
        if not keep:
            os.rmdir(folder)
            unlist_path(folder)


def _remove_owned(folder: Path, keep: Iterable[str] = ()) -> None:
    """Remove our files in a folder, and then its empty folders.

    Parameters
    ----------
    folder
        The folder.
    keep
        Names of files directly in it that stay.
    """
    folder = Path(resolve_folders(folder))
    was_marked = mark_of(folder) is not None
    stays = {folder / name for name in keep}
    removed: list[Path] = []
    for path in owned_files(folder):
        if path not in stays:
            with contextlib.suppress(FileNotFoundError):  # another process removes it, too
                os.unlink(path)
            removed.append(path)
    home = folder if was_marked else home_of(folder)
    if home is not None and mark_of(home) is not None:
        unlist_paths(home, removed)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove the empty folders below a folder of ours."""
    for base, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(base, name))
