"""The marker ``.topicstream`` of a folder of ours, and the list in it.

The first line is a JSON object: the ``kind`` of the folder, an ``id`` (random; a store's comes from
its content, so that equal input gives equal bytes) and, where it belongs to another folder, that
one's id as ``of``. The other lines are the list: paths within the folder, of files and of folders
with a marker. Three kinds of lines:

    vocab.parquet     this file is ours
    /vocab.parquet    it was removed: the line before no longer counts
    duckdb_temp/      a library fills this folder: what has the library's names in it is ours

A list of a large store has 100,000 lines, so a line is appended while the marker has one name
only. A marker with a second name (a backup made by ``cp -al``) is written anew and renamed first:
the backup does not change. ``tidy_list`` and ``seal_marker`` write it anew, too.

Paths are resolved as the system resolves them: ``link/..`` is the folder above the link's target.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from topicstream.base import system
from topicstream.base.errors import NotOurs

MARK = ".topicstream"
LOCK = ".lock"
StrPath = str | os.PathLike[str]
Kind = Literal[
    "corpus",
    "model",
    "version",
    "ingest",
    "retrain",
    "runs",
    "versions",
    "incoming",
    "sweep",
    "export",
    "demo",
]
KINDS: dict[str, str] = {
    "corpus": "a corpus store",
    "model": "a model",
    "version": "a published version of a model",
    "ingest": "the working folder of an ingest",
    "retrain": "the folder of a retrain",
    "runs": "the runs of a retrain",
    "versions": "the versions of a retrain",
    "incoming": "the copies of a retrain",
    "sweep": "a sweep",
    "export": "an export",
    "demo": "the folder of a demo",
}
"""Each kind of folder in words."""
_HALF_MARKER = re.compile(re.escape(MARK) + r"\.[0-9a-f]{16}\.tmp")
_BEGINS = b'{"kind":"'
"""First bytes of every marker."""
_HEAD_BYTES = 4096


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of ``.topicstream``.

    Attributes
    ----------
    kind
        Kind of the folder.
    id
        Its id.
    owner
        Id of the folder that it belongs to; in the file the member ``of``.
    """

    kind: Kind
    id: str
    owner: str = msgspec.field(name="of", default="")


_MARKS = msgspec.json.Decoder(Mark)


def resolve_folders(path: StrPath) -> str:
    """Return the absolute path with the links and ``..`` of its folders resolved.

    A link at the end of the path is not followed.
    """
    text = os.fspath(path)
    folder, name = os.path.split(text.rstrip(os.sep) or os.sep)
    if name in ("", os.curdir, os.pardir):
        return os.path.realpath(text)
    return os.path.join(os.path.realpath(folder), name)


def mark_of(folder: StrPath) -> Mark | None:
    """Return the first line of a folder's marker, or None where the folder is not ours."""
    try:
        descriptor = os.open(
            os.path.join(folder, MARK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:
        return None
    try:
        return _MARKS.decode(os.read(descriptor, _HEAD_BYTES).partition(b"\n")[0])
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        os.close(descriptor)


def kind_of(folder: StrPath) -> Kind | None:
    """Return the kind of a folder of ours, or None."""
    mark = mark_of(folder)
    return None if mark is None else mark.kind


def home_of(path: StrPath) -> Path | None:
    """Return the nearest marked folder above a path, its links resolved."""
    line = line_of(path)
    return None if line is None else Path(os.path.realpath(line.home))


class Line(NamedTuple):
    """A path as a line of the list of its folder.

    Attributes
    ----------
    home
        The nearest marked folder above, by the names and links that led to it.
    entry
        The path within it.
    """

    home: Path
    entry: bytes


def line_of(path: StrPath) -> Line | None:
    """Return the nearest marked folder above a path, and the path within it.

    None where no folder above is ours. A link at the end of the path is not followed. A name is
    resolved only where the folder above is not what stands before it: resolving all of them took
    a fifth of a small ingest.
    """
    folder, inside = os.path.split(os.fspath(path).rstrip(os.sep) or os.sep)
    if inside in ("", os.curdir, os.pardir):
        folder, inside = os.path.split(os.path.realpath(path))
    folder = folder or os.curdir
    resolved = False
    while mark_of(folder) is None:
        above, name = os.path.split(folder)
        if not resolved and (name in ("", os.curdir, os.pardir) or os.path.islink(folder)):
            folder = os.path.realpath(folder)
            resolved = True
            continue
        if not name:
            return None
        inside = os.path.join(name, inside)
        folder = above or os.curdir
    return Line(Path(folder), entry_of_name(inside))


def read_marker(home: StrPath) -> bytes:
    """Read the whole marker of a folder."""
    with open(os.path.join(home, MARK), "rb", buffering=0) as file:
        return file.read()


def listed_entries(home: StrPath) -> set[bytes]:
    """Return the paths that a marker lists, without those that were removed."""
    entries: set[bytes] = set()
    for line in read_marker(home).split(b"\n")[1:]:
        if line.startswith(b"/"):
            entries.discard(line[1:])
        elif line:
            entries.add(line)
    return entries


def entry_of(path: StrPath, home: StrPath) -> bytes:
    """Return a path as a line of the list of its folder."""
    return entry_of_name(os.path.relpath(resolve_folders(path), home))


def entry_of_name(path: str) -> bytes:
    """Return a path relative to its folder as a line of the list, its line feeds escaped."""
    return os.fsencode(path).replace(b"\n", b"\\n")


def names_entry(lines: bytes, entry: bytes) -> bool:
    """Tell whether the last line about an entry lists it."""
    return lines.rfind(b"\n%s\n" % entry) > lines.rfind(b"\n/%s\n" % entry)


def is_half_marker(path: Path) -> bool:
    """Tell whether a kill left this file while a marker was written."""
    if not _HALF_MARKER.fullmatch(path.name) or path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        begins = file.read(len(_BEGINS))
    return _BEGINS.startswith(begins)


def list_paths(*paths: StrPath) -> None:
    """List paths that are about to be made, each in the nearest marked folder above.

    Nothing happens where no folder above is ours.

    Parameters
    ----------
    paths
        The paths. A string that ends in ``/`` is a folder that a library will fill.
    """
    lines: dict[Path, bytes] = {}
    for path in paths:
        line = line_of(path)
        if line is not None:
            end = b"/\n" if str(path).endswith("/") else b"\n"
            lines[line.home] = lines.get(line.home, b"") + line.entry + end
    for home, added in lines.items():
        append_lines(home, added)


def unlist_paths(home: Path, paths: Sequence[StrPath]) -> None:
    """Take paths that were removed off the list of the folder that they lie in."""
    entries = (entry_of(path, home) for path in paths)
    append_lines(home, b"".join(b"/%s\n/%s/\n" % (entry, entry) for entry in entries))


def unlist_path(path: StrPath) -> None:
    """Take a path that is gone off the list that names it."""
    line = line_of(path)
    if line is not None:
        append_lines(line.home, b"/%s\n/%s/\n" % (line.entry, line.entry))


def append_lines(home: Path, lines: bytes) -> None:
    """Append lines to the list of a folder of ours."""
    mark = home / MARK
    if not lines:
        return
    with _locked(home):
        if os.stat(mark).st_nlink > 1:  # of a backup by hard links, which stays as it is
            _rewrite(home, read_marker(home))
        descriptor = os.open(mark, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, lines) < len(lines):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(mark))
        finally:
            os.close(descriptor)


@contextmanager
def _locked(folder: StrPath) -> Iterator[None]:
    """Keep other processes and threads from writing the marker of a folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network file systems lock no folders
            system.lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def seal_marker(folder: StrPath, id: str) -> None:
    """Give a folder an id, and sort its list without files that are gone.

    Folders of equal content and id then have equal markers.

    Raises
    ------
    NotOurs
        If the folder has no marker.
    """
    mark = mark_of(folder)
    if mark is None:
        raise NotOurs(f"{folder}: has lost its {MARK}; move it away")
    place = os.fsencode(folder)
    _replace_list(
        Path(folder),
        Mark(mark.kind, id, mark.owner),
        lambda entry: os.path.lexists(os.path.join(place, entry)),
    )


def tidy_list(folder: StrPath, since: int = 0) -> None:
    """Remove temporary files that are gone from the lists of a folder and of those in it.

    Other files that are gone stay listed: a person may have removed them, and may restore them.

    Parameters
    ----------
    folder
        The folder. Nothing happens where it is not ours.
    since
        Time in nanoseconds, as of ``time.time_ns``. Lists that have not changed since then are left
        as they are; 0: only the list of the folder itself is looked at.
    """
    place = Path(folder)
    mark = mark_of(place)
    if mark is None:
        return
    if (place / MARK).stat().st_mtime_ns >= since:
        _replace_list(place, mark, lambda entry: _still_counts(place, os.fsdecode(entry)))
    if since:
        for entry in listed_entries(place):
            inside = place / os.fsdecode(entry)
            if os.path.lexists(inside / MARK) and not inside.is_symlink():
                tidy_list(inside, since)


def _still_counts(folder: Path, entry: str) -> bool:
    """Tell whether a line still counts: temporary files and scratch folders do while they exist."""
    is_passing = is_temporary(entry) or entry.endswith(os.sep)
    return not is_passing or os.path.lexists(folder / entry)


def is_temporary(path: StrPath) -> bool:
    """Tell whether a path has the name of a file that will take another's place."""
    name = os.path.basename(path)
    return name.startswith(".") and name.endswith(".tmp")


def _replace_list(folder: Path, mark: Mark, stays: Callable[[bytes], bool]) -> None:
    """Write a marker anew, with the entries that stay in order."""
    with _locked(folder):
        content = format_marker(mark, filter(stays, sorted(listed_entries(folder))))
        if content != read_marker(folder):
            _rewrite(folder, content)


def _rewrite(home: Path, content: bytes) -> None:
    """Replace a marker in one rename.

    The caller holds the lock (``_locked``).
    """
    for path in home.glob(f"{MARK}.*.tmp"):
        if is_half_marker(path):  # of a process that was killed here
            os.unlink(path)
    new = home / f"{MARK}.{secrets.token_hex(8)}.tmp"
    write_marker(new, content)
    os.replace(new, home / MARK)


def format_marker(mark: Mark, entries: Iterable[bytes]) -> bytes:
    """Format a marker: its mark in the first line, then a line an entry."""
    return b"".join(line + b"\n" for line in (msgspec.json.encode(mark), *entries))


def write_marker(path: Path, content: bytes) -> None:
    """Write a new marker, which a full disk does not leave behind half written."""
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
            system.flush(file.fileno())
        except OSError:
            os.unlink(path)
            raise
