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
the backup does not change. ``tidy`` and ``seal`` write it anew, too.

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
Where = str | os.PathLike[str]
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
    """The first line of ``.topicstream``."""

    kind: Kind
    id: str
    of: str = ""


_MARKS = msgspec.json.Decoder(Mark)


def located(path: Where) -> str:
    """Return the absolute path with the links and ``..`` of its folders resolved.

    A link at the end of the path is not followed.
    """
    text = os.fspath(path)
    folder, name = os.path.split(text.rstrip(os.sep) or os.sep)
    if name in ("", os.curdir, os.pardir):
        return os.path.realpath(text)
    return os.path.join(os.path.realpath(folder), name)


def mark_of(folder: Where) -> Mark | None:
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


def kind_of(folder: Where) -> Kind | None:
    """Return the kind of a folder of ours, or None."""
    mark = mark_of(folder)
    return None if mark is None else mark.kind


def home_of(path: Where) -> Path | None:
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


def line_of(path: Where) -> Line | None:
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


def read_marker(home: Where) -> bytes:
    """Read the whole marker of a folder."""
    with open(os.path.join(home, MARK), "rb", buffering=0) as file:
        return file.read()


def listed_entries(home: Where) -> set[bytes]:
    """Return the paths that a marker lists, without those that were removed."""
    entries: set[bytes] = set()
    for line in read_marker(home).split(b"\n")[1:]:
        if line.startswith(b"/"):
            entries.discard(line[1:])
        elif line:
            entries.add(line)
    return entries


def entry_of(path: Where, home: Where) -> bytes:
    """Return a path as a line of the list of its folder."""
    return entry_of_name(os.path.relpath(located(path), home))


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


def note(*paths: Where) -> None:
    """List paths that are about to be made.

    Nothing happens where no folder above is ours.

    A string that ends in ``/`` is a folder that a library will fill.
    """
    lines: dict[Path, bytes] = {}
    for path in paths:
        line = line_of(path)
        if line is not None:
            end = b"/\n" if str(path).endswith("/") else b"\n"
            lines[line.home] = lines.get(line.home, b"") + line.entry + end
    for home, added in lines.items():
        append_lines(home, added)


def take_back(home: Path, paths: Sequence[Where]) -> None:
    """Take paths that were removed off the list of the folder that they lie in."""
    entries = (entry_of(path, home) for path in paths)
    append_lines(home, b"".join(b"/%s\n/%s/\n" % (entry, entry) for entry in entries))


def unlist(path: Where) -> None:
    """Take a path that is gone off the list that names it."""
    line = line_of(path)
    if line is not None:
        append_lines(line.home, b"/%s\n/%s/\n" % (line.entry, line.entry))


def append_lines(home: Path, lines: bytes) -> None:
    """Append lines to the list of a folder of ours."""
    mark = home / MARK
    if not lines:
        return
    with _alone(home):
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
def _alone(folder: Where) -> Iterator[None]:
    """Keep other processes and threads from writing the marker of a folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network file systems lock no folders
            system.lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def seal(folder: Where, id: str) -> None:
    """Give a folder this id, and sort its list without what is gone: equal content, equal bytes."""
    mark = mark_of(folder)
    if mark is None:
        raise NotOurs(f"{folder}: has lost its {MARK}; move it away")
    place = os.fsencode(folder)
    _replace_list(
        Path(folder),
        Mark(mark.kind, id, mark.of),
        lambda entry: os.path.lexists(os.path.join(place, entry)),
    )


def tidy(folder: Where, since: int = 0) -> None:
    """Write the list of a folder of ours, and of those in it, without what counts no longer.

    Files that a person has removed stay on it, for they may be restored; temporary files do not.

    since: lists that have not changed since then (ns, as of ``time.time_ns``) are left as they are.
    """
    place = Path(folder)
    mark = mark_of(place)
    if mark is None:
        return
    if (place / MARK).stat().st_mtime_ns >= since:
        _replace_list(place, mark, lambda entry: _counts(place, os.fsdecode(entry)))
    if since:
        for entry in listed_entries(place):
            inside = place / os.fsdecode(entry)
            if os.path.lexists(inside / MARK) and not inside.is_symlink():
                tidy(inside, since)


def _counts(folder: Path, entry: str) -> bool:
    """Tell whether a line still counts: of a file that stays, or of one that is there."""
    is_passing = is_temporary(entry) or entry.endswith(os.sep)
    return not is_passing or os.path.lexists(folder / entry)


def is_temporary(path: Where) -> bool:
    """Tell whether a path has the name of a file that will take another's place."""
    name = os.path.basename(path)
    return name.startswith(".") and name.endswith(".tmp")


def _replace_list(folder: Path, mark: Mark, counts: Callable[[bytes], bool]) -> None:
    with _alone(folder):
        content = format_marker(mark, filter(counts, sorted(listed_entries(folder))))
        if content != read_marker(folder):
            _rewrite(folder, content)


def _rewrite(home: Path, content: bytes) -> None:
    """Replace a marker in one rename.

    The caller is alone.
    """
    for left in home.glob(f"{MARK}.*.tmp"):
        if is_half_marker(left):  # of a process that was killed here
            os.unlink(left)
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
