"""Files that are never seen half-written, and locks of folders.

A file is written beside its target, flushed and renamed, and then its folder is flushed.
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
from topicstream.base.files.marker import LOCK, MARK, Kind, kind_of, line_of, tidy_list
from topicstream.base.files.openings import explain_damage
from topicstream.base.files.ownership import claim
from topicstream.base.files.plain import open_plain, read_plain
from topicstream.base.places import places


def sync(path: str | os.PathLike[str]) -> None:
    """Flush a file's data, or the names in a folder, so that they survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        system.flush(fd)
    finally:
        os.close(fd)


def sync_all(files: Sequence[Path], *, levels: int) -> None:
    """Flush many files, then ``levels`` levels of the folders that they lie in.

    Several files at a time: each waits for the disk, and the file system joins them.
    """
    folders: set[Path] = set()
    for path in files:
        folders.update(list(path.parents)[:levels])
    with ThreadPoolExecutor(8, thread_name_prefix="sync") as pool:
        for paths in (files, sorted(folders)):
            list(pool.map(sync, paths))  # raises an error of one of them


@contextlib.contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a new, empty file that replaces ``target`` if the block ends without an error.

    Parameters
    ----------
    target
        A file of ours, or none.
    durable
        Flush the file. Otherwise the change survives a kill, but not a power cut.
    """
    line = line_of(target)
    new = owned.temporary_path(target) if line is None else owned.replacement_path(target)
    try:
        yield Path(owned.reserve(new))
        if durable:
            sync(new)
            if line is not None:
                sync(line.home / MARK)  # it must list whatever is committed
        owned.replace(new, target)
    except BaseException:
        owned.discard(new)
        raise
    if durable:
        sync(target.parent)


def write_bytes(
    path: str | os.PathLike[str], data: bytes | memoryview, *, durable: bool = True
) -> None:
    """Replace a file of ours, or none, by ``data`` in one rename (see ``replacing``)."""
    with replacing(Path(path), durable=durable) as new:
        new.write_bytes(data)


_HEAD = re.compile(rb'\{\n "checksum": "crc32c:([0-9a-f]{8})",\n')


def write_json(
    path: str | os.PathLike[str], value: object, *, durable: bool = True, checked: bool = True
) -> None:
    """Replace a file by the JSON of a value (UTF-8, sorted keys) in one rename.

    Parameters
    ----------
    path
        The file.
    value
        The value.
    durable
        Make the change survive a power cut.
    checked
        Give an object a first member ``checksum``, the crc32c of all that follows its line.
        ``read_json`` verifies and removes it. Files whose members others define have none.

    Raises
    ------
    StoreError
        If JSON cannot hold the value, which may come from a stranger's file: NaN, half a
        character, a list that contains itself.
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
    """Insert a first member ``checksum`` into an object whose brace ends the first line."""
    if not text.startswith(b"{\n"):
        return text
    return b'{\n "checksum": "crc32c:%08x",\n' % google_crc32c.value(text[2:]) + text[2:]


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file and verify its checksum, if it has one.

    Raises
    ------
    StoreError
        If the file is missing or damaged.
    """
    try:
        data = read_plain(path)
    except FileNotFoundError:
        raise explain_damage(f"{path}: not found") from None
    except OSError as e:
        raise StoreError(f"{path}: cannot be read ({e.strerror}); restore the file") from None
    head = _HEAD.match(data)
    if head is not None and int(head[1], 16) != google_crc32c.value(data[head.end() :]):
        raise explain_damage(
            f"{path}: does not match its checksum; the file is damaged, restore it"
        )
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


_SEAL = re.compile(rb', "[^"]*": "[0-9a-f]{8}"\}(?=.?$)')
"""The checksum of a line, also if a byte of its name or the line's end is damaged."""


def sealed_line(record: Mapping[str, object]) -> str:
    """Format an object as a line of a ``.jsonl`` file, its own crc32c as the last member."""
    text = json.dumps(dict(record))
    return f'{text[:-1]}, "crc32c": "{google_crc32c.value(text.encode()):08x}"}}\n'


_LINES = "lines"
"""Member of the last line of a log: the number of its lines."""


def log_text(records: Sequence[Mapping[str, object]]) -> str:
    """Format records as a log, which is always replaced as a whole.

    Each line has a checksum and the last line the number of lines, so that a part of the log is
    never taken for all of it.
    """
    counted = [dict(record) for record in records]
    if counted:
        counted[-1][_LINES] = len(counted)
    return "".join(map(sealed_line, counted))


def read_log(path: Path, advice: str) -> list[dict[str, Any]]:
    """Read the records of a log (``log_text``), none if the file is missing.

    Raises
    ------
    StoreError
        If any byte was lost or changed; the message ends with ``advice``.
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
    """Read the objects of a ``.jsonl`` file, without damaged lines.

    A last line without a newline, which a kill cut short, is left out silently. A caller that
    knows the number of lines looks for it. Lines without a checksum, written by hand, are read. A
    missing file has no lines.

    Returns
    -------
    records
        The objects.
    damaged
        A sentence for each damaged line.
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
    """Compute size and crc32c of a file, or raise StoreError if it is missing."""
    crc = 0
    size = 0
    try:
        with open(open_plain(path), "rb") as file:
            for data in iter(lambda: file.read(1 << 20), b""):
                crc = int(google_crc32c.extend(crc, data))
                size += len(data)
    except FileNotFoundError:
        raise explain_damage(f"{path}: missing; restore the file") from None
    return size, crc


def file_problem(
    path: str | os.PathLike[str], size: int, crc: int, remedy: str = "ingest again"
) -> str | None:
    """Describe in a sentence how a file differs from its record, or return None.

    Parameters
    ----------
    path
        The file.
    size, crc
        Its recorded size and crc32c.
    remedy
        Advice beside restoring the file.
    """
    try:
        length, actual_crc = size_and_crc(path)
    except StoreError as e:
        return f"{e} or {remedy}"
    except OSError as e:
        return f"{path}: cannot be read ({e.strerror}); restore the file or {remedy}"
    if length != size:
        return f"{path}: has {length} bytes where the manifest says {size}; restore it or {remedy}"
    if actual_crc != crc:
        return f"{path}: does not match its checksum; restore the file or {remedy}"
    return None


def exchange_folders(new: Path, old: Path) -> None:
    """Exchange the names of two folders.

    It is one step if the system and the file system can. Otherwise a reader may miss the old
    folder for an instant.
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
    """Hold the writer's lock of a folder of ours, which is created if it is missing.

    The lock is an flock on ``.lock`` in the folder, so it ends with the process, however that
    ends. If the block fails before it has written anything into a new folder, the folder is
    removed again, and the folders above it that were made for it.

    Parameters
    ----------
    folder
        The folder.
    doing
        The work, for the message: ``"training in"``.
    kind
        The kind that the folder must have or gets (``ownership.claim``); None: any of ours.
    wait
        Wait for another process that holds the lock.

    Raises
    ------
    Busy
        If another process holds the lock.
    NotOurs
        If the folder is not ours, or of another kind.
    """
    path = Path(folder) / LOCK
    missing = [place for place in path.parents if not place.exists()]
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
        except FileNotFoundError:  # the process that held it has removed the folder just now
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
        os.close(fd)  # the process that held it has removed it: lock the new one
    began = time.time_ns()
    try:
        owned.sweep_removed(folder)
        tidy_list(folder)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            owned.remove_unused(path.parent, keep=path.parent not in missing)
            for place in missing[1:]:
                place.rmdir()  # only an empty one
        raise
    finally:
        with contextlib.suppress(OSError):
            tidy_list(folder, began)
        os.close(fd)
