"""Tell which files and folders are ours; ``owned.py``, which alone removes and replaces, asks here.

A folder is ours if it contains a marker, ``.topicstream``, now.  The first line of the marker is a
JSON object: the ``kind`` of the folder, an ``id`` (random; a store's comes from its content, so
that equal input gives equal bytes) and, where it belongs to another folder, that one's id as
``of``.

A file is ours if the nearest marker above lists it.  The other lines are that list: paths within
the folder, of files and of folders with a marker.  Three kinds of lines:

    vocab.parquet     this file is ours
    /vocab.parquet    it was removed: the line before no longer counts
    duckdb_temp/      a library fills this folder: what has the library's names in it is ours

A path is listed before its file is made, so a kill leaves no file of ours that the list lacks.
Everything else is somebody else's: no command removes or replaces it, whatever ``--force`` says.

A list of a large store has 100,000 lines, so a line is appended while the marker has one name
only.  A marker with a second name (a backup made by ``cp -al``) is written anew and renamed first:
the backup does not change.  ``tidy`` and ``seal`` write it anew, too.

Paths are resolved as the system resolves them: ``link/..`` is the folder above the link's target.

The one module that makes, replaces and removes files and folders, and only ours (see
``ownership.py``).

What is not ours is refused in one line (NotOurs) or stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from topicstream.base import system
from topicstream.base.errors import NotOurs, StoreError, UsageError
from topicstream.base.places import places

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
_IN_SCRATCH = re.compile(r"duckdb_temp_[\w.-]+|[0-9a-f]{32}|\w+\.rows")
"""Names that DuckDB and workers give to files in a folder that they fill."""
_HALF_MARKER = re.compile(re.escape(MARK) + r"\.[0-9a-f]{16}\.tmp")
_BEGINS = b'{"kind":"'
"""How each marker begins."""
_HEAD_BYTES = 4096
_FEW = 8
"""Fewer paths than this are looked for in the text of a list, more in a set of its lines."""


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line of ``.topicstream``."""

    kind: Kind
    id: str
    of: str = ""


_MARKS = msgspec.json.Decoder(Mark)


class _Head(msgspec.Struct):
    """The members of a manifest that say whether this version can read it."""

    schema: Literal[1]
    kind: Kind


_HEADS = msgspec.json.Decoder(_Head)


# -- reading
# --------------------------------------------------------------------------------------------------
def located(path: Where) -> str:
    """Return the absolute path with the links and ``..`` of its folders resolved.

    A link at the end of the path is not followed.
    """
    text = os.fspath(path)
    folder, name = os.path.split(text.rstrip(os.sep) or os.sep)
    if name in ("", os.curdir, os.pardir):
        return os.path.realpath(text)
    return os.path.join(os.path.realpath(folder), name)


def folder_named(path: Where) -> Path:
    """Return a folder's path, resolved where it ends with ``..``, so that the folder has a name."""
    place = Path(path)
    return Path(os.path.realpath(place)) if place.name in ("", os.pardir) else place


def mark_of(folder: Where) -> Mark | None:
    """Return the first line of a folder's marker; None where the folder is not ours."""
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
    """Return the kind of a folder of ours; None where it is not ours."""
    mark = mark_of(folder)
    return None if mark is None else mark.kind


def home_of(path: Where) -> Path | None:
    """Return the nearest marked folder above a path."""
    for folder in Path(located(path)).parents:
        if mark_of(folder) is not None:
            return folder
    return None


def _lines(home: Where) -> bytes:
    """Read the whole marker of a folder."""
    with open(os.path.join(home, MARK), "rb", buffering=0) as file:
        return file.read()


def _entries(home: Where) -> set[bytes]:
    """Return the paths that a marker lists, without those that were removed."""
    entries: set[bytes] = set()
    for line in _lines(home).split(b"\n")[1:]:
        if line.startswith(b"/"):
            entries.discard(line[1:])
        elif line:
            entries.add(line)
    return entries


def _entry(path: Where, home: Where) -> bytes:
    """Return a path as a line of the list of its folder."""
    return _line(os.path.relpath(located(path), home))


def _line(path: str) -> bytes:
    return os.fsencode(path).replace(b"\n", b"\\n")


def _above(entry: bytes) -> Iterator[bytes]:
    """Yield the folders of an entry, with a slash at the end."""
    return (entry[: i + 1] for i, c in enumerate(entry) if c == ord("/"))


def is_listed(path: Where) -> bool:
    """Tell whether the nearest marker above lists a path.

    A file in a folder that a library fills is listed if it has a name of the library's.
    """
    home = home_of(path)
    if home is None:
        return False
    lines = _lines(home)
    entry = _entry(path, home)
    if _in_list(lines, entry) or _in_list(lines, entry + b"/"):
        return True
    named_by_library = _IN_SCRATCH.fullmatch(os.path.basename(path)) is not None
    return named_by_library and any(_in_list(lines, folder) for folder in _above(entry))


def _in_list(lines: bytes, entry: bytes) -> bool:
    """Tell whether the last line about an entry lists it."""
    return lines.rfind(b"\n%s\n" % entry) > lines.rfind(b"\n/%s\n" % entry)


def is_lock(path: Where) -> bool:
    """Tell whether a file is a lock of ours: it has the name, and is empty."""
    if os.path.basename(path) != LOCK:
        return False
    about = os.lstat(path)
    return stat.S_ISREG(about.st_mode) and about.st_size == 0


def owns(path: Where) -> bool:
    """Tell whether a file is ours: a marker, an empty lock, or listed.  A link never is."""
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    if os.path.basename(path) == MARK:
        return mark_of(os.path.dirname(path)) is not None
    return is_listed(path) or (is_lock(path) and mark_of(os.path.dirname(path)) is not None)


def must_own(path: Where) -> None:
    """Raise NotOurs where an existing file is not ours."""
    if not owns(path):
        raise NotOurs(f"{path}: is in the way and not ours; move it away and run this again")


def not_ours(folder: Where) -> Iterator[Path]:
    """Yield what lies in a marked folder and is not listed.

    Files, links and special files come one by one, a folder with nothing of ours in it as one.
    Empty folders count as ours, for a kill may leave one.
    """
    entries = _entries(folder)
    folders = {above[:-1] for entry in entries for above in _above(entry)}
    stack = [(Path(folder), b"", False)]
    while stack:
        place, prefix, filled = stack.pop()
        for path in sorted(place.iterdir()):
            entry = prefix + _line(path.name)
            if path.is_symlink() or not path.is_dir():
                if not _is_known(path, entry, entries, filled):
                    yield path
            elif mark_of(path) is not None:
                if entry in entries:
                    yield from not_ours(path)
                elif holds_files(path):
                    yield path
            elif filled or entry in folders or entry + b"/" in entries:
                stack.append((path, entry + b"/", filled or entry + b"/" in entries))
            elif holds_files(path):
                yield path


def ours(folder: Where) -> Iterator[Path]:
    """Yield the files below a folder that are ours: of each folder its marker last.

    A list is read once, not once a file: a folder may hold 100,000.
    """
    home = Path(folder) if mark_of(folder) is not None else home_of(folder)
    if home is not None:
        yield from _ours(Path(located(folder)), Path(os.path.realpath(home)), _entries(home))


def _ours(folder: Path, home: Path, entries: set[bytes]) -> Iterator[Path]:
    prefix = b"" if folder == home else _entry(folder, home) + b"/"
    filled = any(above in entries for above in _above(prefix))
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            files.append(path)
        elif mark_of(path) is None:
            yield from _ours(path, home, entries)
        elif prefix + _line(path.name) in entries:
            yield from _ours(path, path, _entries(path))
    for path in sorted(files, key=lambda path: _LAST.get(path.name, 0)):
        if _is_known(path, prefix + _line(path.name), entries, filled):
            yield path


_LAST = {"state.json": 1, LOCK: 2, MARK: 3}
"""Of the files of a folder: killed on the way, what is left says what it is and whose."""


def _is_known(path: Path, entry: bytes, entries: set[bytes], filled: bool) -> bool:
    """Tell whether something that is no folder is ours; filled: a library fills its folder."""
    if path.is_symlink() or not path.is_file():
        return False
    if entry in entries or (filled and _IN_SCRATCH.fullmatch(path.name)):
        return True
    if b"/" in entry:
        return False
    return path.name == MARK or is_lock(path) or _is_half_marker(path)


def _is_half_marker(path: Path) -> bool:
    """Tell whether a kill left this file while a marker was written."""
    if not _HALF_MARKER.fullmatch(path.name) or path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        begins = file.read(len(_BEGINS))
    return _BEGINS.startswith(begins)


def holds_files(folder: Where) -> bool:
    """Tell whether anything but empty folders and an empty lock lies in a folder."""
    return first_inside(folder) is not None


def first_inside(folder: Where) -> Path | None:
    """Return something in a folder that is neither an empty folder nor an empty lock."""
    for path in sorted(Path(folder).iterdir()):
        if path.is_dir() and not path.is_symlink():
            if (inside := first_inside(path)) is not None:
                return inside
        elif not is_lock(path):
            return path
    return None


def refuse_strangers(folder: Where) -> None:
    """Before a folder of ours is removed or replaced as a whole: NotOurs naming the first thing in
    it that is not ours.
    """
    for path in not_ours(folder):
        raise NotOurs(
            f"{path}: is not ours, and {folder} is to be replaced; move it out and run this again"
        )


# -- writing
# --------------------------------------------------------------------------------------------------
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


def note(*paths: Where) -> None:
    """List paths that are about to be made; nothing where no folder above is ours.

    A string that ends in ``/`` is a folder that a library will fill.
    """
    for path in paths:
        home = home_of(path)
        if home is not None:
            _append(home, _entry(path, home) + (b"/\n" if str(path).endswith("/") else b"\n"))


def take_back(home: Path, paths: Sequence[Where]) -> None:
    """Take paths that were removed off the list of the folder that they lie in."""
    spelt = [spelling for path in paths for spelling in _spellings(_entry(path, home))]
    if len(paths) < _FEW:
        lines = _lines(home)
        listed = [entry for entry in spelt if _in_list(lines, entry)]
    else:
        entries = _entries(home)
        listed = [entry for entry in spelt if entry in entries]
    _append(home, b"".join(b"/%s\n" % entry for entry in listed))


def _spellings(entry: bytes) -> tuple[bytes, bytes]:
    """Return how a file and a folder that a library fills are listed."""
    return entry, entry + b"/"


def _append(home: Path, lines: bytes) -> None:
    mark = home / MARK
    if not lines:
        return
    with _alone(home):
        if os.stat(mark).st_nlink > 1:  # of a backup by hard links, which stays as it is
            _rewrite(home, _lines(home))
        descriptor = os.open(mark, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if os.write(descriptor, lines) < len(lines):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(mark))
        finally:
            os.close(descriptor)


def _rewrite(home: Path, content: bytes) -> None:
    """Replace a marker in one rename; the caller is alone."""
    for left in home.glob(f"{MARK}.*.tmp"):
        if _is_half_marker(left):  # of a process that was killed here
            os.unlink(left)
    new = home / f"{MARK}.{secrets.token_hex(8)}.tmp"
    _write(new, content)
    os.replace(new, home / MARK)


def _content(mark: Mark, entries: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in (msgspec.json.encode(mark), *entries))


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
        for entry in _entries(place):
            inside = place / os.fsdecode(entry)
            if os.path.lexists(inside / MARK) and not inside.is_symlink():
                tidy(inside, since)


def _counts(folder: Path, entry: str) -> bool:
    """Tell whether a line still counts: of a file that stays, or of one that is there."""
    is_passing = is_temporary(entry) or entry.endswith(os.sep)
    return not is_passing or os.path.lexists(folder / entry)


def _replace_list(folder: Path, mark: Mark, counts: Callable[[bytes], bool]) -> None:
    with _alone(folder):
        content = _content(mark, filter(counts, sorted(_entries(folder))))
        if content != _lines(folder):
            _rewrite(folder, content)


def _write(path: Path, content: bytes) -> None:
    """Write a new marker, which a full disk does not leave behind half written."""
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
            system.flush(file.fileno())
        except OSError:
            os.unlink(path)
            raise


def beside(target: Where) -> Path:
    """Return the name under which a file is written before it takes the place of ``target``."""
    target = Path(target)
    if home_of(target) is None:
        return temporary(target)
    return target.with_name(f".{target.name}.tmp")


def temporary(target: Where) -> Path:
    """Return a random name beside ``target`` for what is renamed to it."""
    target = Path(target)
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def is_temporary(path: Where) -> bool:
    """Tell whether a path has the name of a file that will take another's place."""
    name = os.path.basename(path)
    return name.startswith(".") and name.endswith(".tmp")


def claim(folder: Where, kind: Kind, *, of: str = "") -> Mark:
    """Make a folder and mark it, or make sure that it is one of ours of this kind; its mark.

    Raises
    ------
    NotOurs
        Where it is a link, holds something else, or is ours of another kind.
    UsageError
        For an address, and for the local copy of one.
    StoreError
        For a manifest that is damaged or of another format version.
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
            note(path)
        with suppress(FileExistsError):  # of another process, which was faster
            _write(path / MARK, _content(Mark(kind, secrets.token_hex(8), of), []))
        mark = mark_of(path)
    if mark is None:
        raise NotOurs(f"{path / MARK}: cannot be read; move {path} away, or name another folder")
    if kind in ("corpus", "model"):
        _refuse_other_manifest(path, kind)
    return mark


def _refuse_other_manifest(folder: Path, kind: Kind) -> None:
    """Raise StoreError for a manifest that this version cannot read: --force does not
    replace it.
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


def check_place(place: Where, option: str, inputs: Iterable[Where] = ()) -> None:
    """UsageError when a folder to be made is the working folder, the root, the user's home or a
    folder above them, or an input, or lies within one, or holds one.
    """
    real = Path(os.path.realpath(place))
    for name, role in (
        (os.getcwd(), "the working folder"),
        (os.path.expanduser("~"), "the home folder"),
    ):
        other = Path(os.path.realpath(name))
        if real == other or real in other.parents:
            raise UsageError(
                f"{option} {place}: is {'' if real == other else 'a folder above '}{role}; name "
                f"a folder of its own"
            )
    for input_path in inputs:
        taken = Path(os.path.realpath(input_path))
        if real == taken:
            raise UsageError(f"{option} {place}: is the input itself; name another place")
        if real in taken.parents:
            raise UsageError(f"{option} {place}: holds the input {input_path}; name another place")
        if taken in real.parents and taken.is_dir():
            raise UsageError(
                f"{option} {place}: lies inside the input {input_path}, which would be read "
                f"with it; name another place"
            )


# -- making
# --------------------------------------------------------------------------------------------------
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
    """Give a file that has other names (a backup by hard links) content that is written to
    alone.
    """
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
# --------------------------------------------------------------------------------------------------
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
# --------------------------------------------------------------------------------------------------
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
    folders, or those that match; the caller holds its lock.
    """
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
    what is not ours stays, and so do the folders that it lies in.
    """
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
