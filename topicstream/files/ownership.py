"""Whose file is it: the mark of a folder and its inventory.  ``owned.py``, which alone removes and
replaces, asks here.

Each folder that we make as a unit carries ``.topicstream``.  Its first line is the mark, a JSON
object: the ``kind`` of the
folder, an ``id`` (random; a store's comes from its content, so that equal input gives equal bytes)
and, where it belongs to
another folder, that one's id as ``of``.  The other lines are the inventory: the path, within the
                                          folder, of every file and
every marked folder that this program made there.  A line that ends in ``/`` is a folder whose whole
content is ours, because
a library fills it.

A path is noted before it is made, so a kill leaves no file of ours that the inventory lacks.  What
the inventory lacks is
somebody else's: no command removes or replaces it, whatever ``--force`` says.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from topicstream import system
from topicstream.errors import NotOurs, StoreError, UsageError
from topicstream.files.remote import address_of, address_read

MARK, LOCK = ".topicstream", ".lock"
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
# the mark, the lock, what is renamed when it is complete; the last form is zarr's
_ALWAYS = re.compile(
    r"\.topicstream|\.lock|\..+\.[0-9a-f]{16}\.tmp|(?:zarr|\d+)\.[0-9a-f]{32}\.partial"
)


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
# -----------------------------------------------------------------------------------------------------------
def _read(folder: Where) -> tuple[Mark | None, bytes]:
    """The mark of a folder, None without one that can be read, and all lines."""
    try:
        with open(os.path.join(folder, MARK), "rb", buffering=0) as file:
            lines = file.read()
        return _MARKS.decode(lines.partition(b"\n")[0]), lines
    except (OSError, msgspec.DecodeError):
        return None, b""


def mark_of(folder: Where) -> Mark | None:
    """The mark of a folder; None where it is not ours."""
    return _read(folder)[0]


def kind_of(folder: Where) -> Kind | None:
    """What kind of ours a folder is; None when it is not ours."""
    mark = mark_of(folder)
    return None if mark is None else mark.kind


def home_of(path: Where) -> tuple[Path | None, bytes]:
    """The nearest marked folder above a path, and the lines of its inventory."""
    for folder in Path(os.path.abspath(path)).parents:
        mark, lines = _read(folder)
        if mark is not None:
            return folder, lines
    return None, b""


def _entry(path: Where, home: Where) -> bytes:
    """A path as a line of the inventory of its folder."""
    return _line(os.path.abspath(path)[len(os.path.abspath(home)) :].lstrip(os.sep))


def _line(path: str) -> bytes:
    return os.fsencode(path).replace(b"\n", b"\\n")


def _above(entry: bytes) -> Iterator[bytes]:
    """The folders of an entry, with a slash at the end."""
    return (entry[: i + 1] for i, c in enumerate(entry) if c == ord("/"))


def is_listed(path: Where) -> bool:
    """Whether the nearest marked folder above lists a path, or a folder that it lies in as a whole;
    the mark, the lock and temporary names need no line."""
    home, lines = home_of(path)
    if home is None or _ALWAYS.fullmatch(os.path.basename(path)):
        return home is not None
    entry = _entry(path, home)
    return any(b"\n%s\n" % line in lines for line in (entry, entry + b"/", *_above(entry)))


def owns(path: Where) -> bool:
    """Whether a file, no link, is ours: listed in the nearest marked folder above."""
    return os.path.isfile(path) and not os.path.islink(path) and is_listed(path)


def must_own(path: Where) -> None:
    """NotOurs where an existing file is not ours."""
    if not owns(path):
        raise NotOurs(f"{path}: is in the way and not ours; move it away and run this again")


def not_ours(folder: Where) -> Iterator[Path]:
    """What lies in a marked folder and is in no inventory: files, symlinks, special files; a folder
    with nothing of ours in it
    as one.  Empty folders count as ours, for a kill may leave one."""
    entries = set(_read(folder)[1].split(b"\n"))
    folders = {above[:-1] for entry in entries for above in _above(entry)}
    stack = [(Path(folder), b"")]
    while stack:
        place, prefix = stack.pop()
        for path in sorted(place.iterdir()):
            entry = prefix + _line(path.name)
            if path.is_symlink() or not path.is_dir():
                if (
                    path.is_symlink()
                    or not path.is_file()
                    or not (entry in entries or _ALWAYS.fullmatch(path.name))
                ):
                    yield path
            elif (marked := mark_of(path) is not None) and (
                entry in entries or _ALWAYS.fullmatch(path.name)
            ):
                yield from not_ours(path)
            elif entry in folders and not marked:
                stack += [(path, entry + b"/")] if entry + b"/" not in entries else []
            elif any(files for _, _, files in os.walk(path)):
                yield path


def refuse_strangers(folder: Where) -> None:
    """Before a folder of ours is removed or replaced as a whole: NotOurs naming the first thing in
    it that is not ours.
    """
    for path in not_ours(folder):
        raise NotOurs(
            f"{path}: is not ours, and {folder} is to be replaced; move it out and run this again"
        )


# -- writing
# -----------------------------------------------------------------------------------------------------------
def note(*paths: Where) -> None:
    """Enter paths that are about to be made in the inventory of the nearest marked folder above;
    nothing without one, nor
    for what is temporary.  A string that ends in ``/`` stands for all that will lie in a folder."""
    for path in paths:
        home = home_of(path)[0]
        if home is not None and not _ALWAYS.fullmatch(os.path.basename(path)):
            line = _entry(path, home) + (b"/\n" if str(path).endswith("/") else b"\n")
            with open(
                os.open(os.path.join(home, MARK), os.O_WRONLY | os.O_APPEND), "wb", buffering=0
            ) as file:
                file.write(line)


def seal(folder: Where, id: str) -> None:
    """Give a folder this id, and sort its inventory without what is gone: equal content, equal
    bytes.
    """
    mark, lines = _read(folder)
    if mark is None:
        raise NotOurs(f"{folder}: has lost its {MARK}; move it away")
    entries = (
        e
        for e in sorted(set(lines.split(b"\n")[1:]))
        if e and os.path.lexists(os.path.join(os.fsencode(folder), e))
    )
    beside = temporary(Path(folder) / MARK)
    _write(beside, Mark(mark.kind, id, mark.of), entries)
    os.replace(beside, Path(folder) / MARK)


def _write(path: Path, mark: Mark, entries: Iterable[bytes]) -> None:
    """Write mark and inventory to a new file, which a full disk does not leave behind half written."""
    with open(path, "xb") as file:
        try:
            file.writelines(line + b"\n" for line in (msgspec.json.encode(mark), *entries))
            file.flush()
            system.flush(file.fileno())
        except OSError:
            os.unlink(path)
            raise


def temporary(target: Where) -> Path:
    """A name of its own beside ``target``, for what is renamed to it; ``owned.sweep`` removes one
    that a kill left.
    """
    target = Path(target)
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def refuse_address(folder: Where) -> None:
    """UsageError for an address, and for the local copy of one."""
    if (address_of(folder) or address_read(folder)) is not None:
        raise UsageError(f"{folder}: addresses are read only; name a folder of this machine")


def claim(folder: Where, kind: Kind, *, of: str = "") -> Mark:
    """Make a folder and those above it, or make sure that it is one of ours of this kind, and mark
    it; its mark.

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
    refuse_address(path)
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
        strangers = sorted(p for p in path.iterdir() if not _ALWAYS.fullmatch(p.name))
        if strangers and kind != "retrain":  # where the user's own files lie, too
            noun = KINDS[kind].partition(" ")[2]
            raise NotOurs(
                f"{path}: a folder that is no {noun} of ours ({strangers[0].name} is in it); "
                f"name another, or an empty one"
            )
        if not is_listed(path):
            note(path)
        mark = Mark(kind, secrets.token_hex(8), of)
        with suppress(FileExistsError):  # of another process, which was faster
            _write(path / MARK, mark, [])
        mark = mark_of(path)
    if mark is None:
        raise NotOurs(f"{path / MARK}: cannot be read; move {path} away, or name another folder")
    if kind in ("corpus", "model"):
        _refuse_other_manifest(path, kind)
    return mark


def _refuse_other_manifest(folder: Path, kind: Kind) -> None:
    """Raise StoreError for a manifest that this version cannot read: --force does not replace it."""
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
    folder above them, or an input, or lies within one, or holds one."""
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
