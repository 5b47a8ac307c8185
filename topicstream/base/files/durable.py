"""Files that are never seen half-written: write beside, fsync, rename, fsync the folder; and
advisory locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google_crc32c
import msgspec

from topicstream.base import system
from topicstream.base.errors import Busy, NotOurs, StoreError, one_line
from topicstream.base.files import ownership as owned
from topicstream.base.files.marker import LOCK, MARK, Kind, home_of, kind_of, tidy
from topicstream.base.files.ownership import beside, claim
from topicstream.base.files.plain import open_plain, read_plain
from topicstream.base.places import places


def sync(path: str | os.PathLike[str]) -> None:
    """fsync a file's data, or a folder, so that the names in it survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        system.flush(fd)
    finally:
        os.close(fd)


def sync_all(files: Sequence[Path], *, levels: int) -> None:
    """fsync many files, several at a time (each waits for the disk, and the file system joins
    them), then so many levels of the folders that they lie in.
    """
    folders = {folder for path in files for folder in list(path.parents)[:levels]}
    with ThreadPoolExecutor(8, thread_name_prefix="sync") as pool:
        for paths in (files, sorted(folders)):
            list(pool.map(sync, paths))  # raises what one of them did


@contextlib.contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """A new, empty file beside ``target``, which takes the place of a file of ours, or of none,
    where the block ends without an error. ``durable=False`` leaves out the fsyncs (survives a
    kill, not a power cut).
    """
    new = beside(target)
    try:
        yield Path(owned.reserve(new))
        if durable:
            sync(new)
            if (home := home_of(target)) is not None:
                sync(home / MARK)  # what is committed is listed there
        owned.replace(new, target)
    except BaseException:
        owned.discard(new)
        raise
    if durable:
        sync(target.parent)


def write_bytes(
    path: str | os.PathLike[str], data: bytes | memoryview, *, durable: bool = True
) -> None:
    """Replace ``path``, a file of ours or none, by ``data`` in one rename (see ``replacing``)."""
    with replacing(Path(path), durable=durable) as new:
        new.write_bytes(data)


_HEAD = re.compile(rb'\{\n "checksum": "crc32c:([0-9a-f]{8})",\n')


def write_json(
    path: str | os.PathLike[str], value: object, *, durable: bool = True, checked: bool = True
) -> None:
    """Replace ``path`` by the JSON of ``value`` (UTF-8, sorted keys, NaN refused) in one rename.

    An object gets a first member ``checksum``, the crc32c of all that follows its line, which
    ``read_json`` verifies and takes out again (``checked=False``: none, for files whose members
    others lay down). StoreError where JSON cannot hold the value: numbers that are none, half a
    character, lists without end come from files that a stranger made.
    """
    try:
        line = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
        text = msgspec.json.format(line, indent=1) + b"\n"  # with an indent, json encodes in Python
    except (ValueError, RecursionError) as e:
        raise StoreError(
            f"{path}: was not written: an input file contains a value that JSON cannot "
            f"represent ({one_line(e)[:120]})"
        ) from None
    write_bytes(path, with_checksum(text) if checked else text, durable=durable)


def with_checksum(text: bytes) -> bytes:
    """JSON with the first member ``checksum``; what is no object with a line break behind its brace
    stays as it is.
    """
    if not text.startswith(b"{\n"):
        return text
    return b'{\n "checksum": "crc32c:%08x",\n' % google_crc32c.value(text[2:]) + text[2:]


def read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON value in ``path``; StoreError naming the file when it is missing or damaged.  A file
    without a checksum (written by hand) is taken as it is.
    """
    try:
        data = read_plain(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: not found") from None
    except OSError as e:
        raise StoreError(f"{path}: cannot be read ({e.strerror}); restore the file") from None
    head = _HEAD.match(data)
    if head is not None and int(head[1], 16) != google_crc32c.value(data[head.end() :]):
        raise StoreError(f"{path}: does not match its checksum; the file is damaged, restore it")
    if head is None and (b"checksum" in data[:20] or b'"crc32c:' in data[:24]):
        raise StoreError(f"{path}: its checksum cannot be read; the file is damaged, restore it")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise StoreError(
            f"{path}: cannot be read as JSON ({e}); the file is damaged, restore it"
        ) from None
    if head is not None:
        value.pop("checksum", None)
    return value


_SEAL = re.compile(
    rb', "[^"]*": "[0-9a-f]{8}"\}(?=.?$)'
)  # perhaps with one byte damaged, its name or the line's end


def sealed_line(record: Mapping[str, object]) -> str:
    """An object as one line of a ``.jsonl`` file, with the crc32c of the line before it as the last
    member.
    """
    text = json.dumps(dict(record))
    return f'{text[:-1]}, "crc32c": "{google_crc32c.value(text.encode()):08x}"}}\n'


_LINES = "lines"
"""Member of the last line of a log: how many lines it has."""


def log_text(records: Sequence[Mapping[str, object]]) -> str:
    """Return the text of a log: each line has its checksum, the last the number of lines.

    The file is replaced as a whole, so that a part of it is never taken for all.
    """
    counted = [dict(record) for record in records]
    if counted:
        counted[-1][_LINES] = len(counted)
    return "".join(map(sealed_line, counted))


def read_log(path: Path, advice: str) -> list[dict[str, Any]]:
    """Return the records of a log (``log_text``); no file: none.

    StoreError, with advice, where any byte was lost or changed.
    """
    if not os.path.lexists(path):
        return []
    records, damaged = read_sealed(path)
    if damaged:
        raise StoreError(damaged[0].replace("this line is left out", advice))
    count = records[-1].pop(_LINES, None) if records else None
    if count != len(records) or not read_plain(path).endswith(b"\n"):
        raise StoreError(f"{path}: is not whole, lines were lost or added; {advice}")
    return records


def read_sealed(path: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The objects of a ``.jsonl`` file, and a sentence for each line that is damaged (and left
    out).

    A last line without a newline, which a kill cut short, is left out without a sentence; who
    knows how many lines there were looks for it.  Lines without a checksum (made by hand) are taken
    as they are.  No file: nothing.
    """
    records: list[dict[str, Any]] = []
    damaged: list[str] = []
    try:
        lines = read_plain(path).split(b"\n")
    except FileNotFoundError:
        return [], []
    for number, line in enumerate(lines, 1):
        body, sealed = _SEAL.subn(b"}", line)
        try:
            record = json.loads(body)
            good = isinstance(record, dict) and "crc32c" not in record
            good = good and (not sealed or sealed_line(record).encode() == line + b"\n")
        except (ValueError, RecursionError):
            record = {}
            good = False
        if good:
            records.append(record)
        elif sealed or number < len(lines):
            damaged.append(f"{path}:{number}: does not match its checksum; this line is left out")
    return records, damaged


def size_and_crc(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Bytes and crc32c of a file; StoreError when it is missing."""
    crc = size = 0
    try:
        with open(open_plain(path), "rb") as file:
            while data := file.read(1 << 20):
                crc = int(google_crc32c.extend(crc, data))
                size += len(data)
    except FileNotFoundError:
        raise StoreError(f"{path}: missing; restore the file") from None
    return size, crc


def file_problem(
    path: str | os.PathLike[str], size: int, crc: int, remedy: str = "ingest again"
) -> str | None:
    """What is wrong with a file whose size and crc32c were recorded, in a sentence; None when
    nothing is.
    """
    try:
        length, actual_crc = size_and_crc(path)
    except StoreError as e:
        return f"{e} or {remedy}"
    except OSError as e:
        return f"{path}: cannot be read ({e.strerror}); restore the file or {remedy}"
    if length != size:
        return f"{path}: has {length} bytes where the manifest says {size}; restore it or {remedy}"
    return (
        None
        if actual_crc == crc
        else f"{path}: does not match its checksum; restore the file or {remedy}"
    )


def exchange_folders(new: Path, old: Path) -> None:
    """Let two folders change names in one step; where the system or the file system cannot, in two
    (a reader may then miss the old one for an instant).
    """
    if not system.exchange_names(new, old):
        aside = old.with_name(old.name + ".old")
        owned.move_folder(old, aside)
        owned.move_folder(new, old)
        owned.move_folder(aside, new)
    sync(old.parent)


@contextlib.contextmanager
def lock(
    folder: str | os.PathLike[str], doing: str, *, kind: Kind | None = None, wait: bool = False
) -> Iterator[None]:
    """Hold the writer's lock of ``folder`` (an flock on ``.lock`` in it), which is made, or known
    to be ours and of this
    kind (``ownership.claim``); Busy at once when another holds it, unless ``wait``.  The lock goes
    with the process,
    however it ends.  A folder that was made here and holds nothing but lock and mark when the work
    fails (refused before
    it began) goes again.  kind: None for any folder of ours.
    """
    path = Path(folder) / LOCK
    parent_existed = path.parent.is_dir()
    kind = kind or kind_of(folder)
    if kind is None:
        places().refuse_folder(folder)
        raise NotOurs(f"{folder}: is no folder of ours")
    while True:
        claim(folder, kind)
        try:
            fd = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644
            )
        except FileNotFoundError:  # who held it has removed the folder just now
            continue
        if not system.lock(fd, wait=wait):
            os.close(fd)
            raise Busy(
                f"{folder}: another process is {doing} it; wait for it to end, then run this again"
            )
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                claim(folder, kind)  # it may have been removed and made in between
                break
        os.close(fd)  # who held it has removed it: lock the one that is there now
    began = time.time_ns()
    try:
        owned.sweep_removed(folder)
        tidy(folder)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            owned.remove_unused(path.parent, keep=parent_existed)
        raise
    finally:
        with contextlib.suppress(OSError):
            tidy(folder, began)
        os.close(fd)
