"""Files that are never seen half-written: write beside, fsync, rename, fsync the folder; and advisory locks."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topicstream.errors import Busy, StoreError


def sync_folder(path: str | os.PathLike[str]) -> None:
    """fsync a folder, so that the names in it survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str | os.PathLike[str]) -> None:
    """fsync one file's data."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` in one rename.  ``durable=False`` leaves out the fsyncs (survives a kill, not a power
    cut)."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as f:
            f.write(data)
            if durable:
                f.flush()
                os.fsync(f.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    if durable:
        sync_folder(target.parent)


def write_json(path: str | os.PathLike[str], value: Any, *, durable: bool = True) -> None:
    """Replace ``path`` by the JSON of ``value`` (UTF-8, sorted keys, NaN refused) in one rename."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n", durable=durable)


def read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON value in ``path``; StoreError naming the file when it is missing or damaged."""
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        raise StoreError(f"{path}: not found") from None
    except (OSError, ValueError) as e:
        raise StoreError(f"{path}: cannot be read as JSON ({e}); the file is damaged") from None


def exchange(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    """Let two paths change names in one step (renameat2, RENAME_EXCHANGE); False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, both = -100, 2
    return bool(rename(here, os.fsencode(a), here, os.fsencode(b), both) == 0)


@contextlib.contextmanager
def lock(folder: str | os.PathLike[str], what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold the writer's lock of ``folder`` (an flock on ``.lock`` in it); Busy at once when another holds it, unless
    ``wait``.  The lock goes with the process, however it ends."""
    fd = os.open(Path(folder) / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise Busy(f"{folder}: another process is {what} it; wait for it to end, then run this again") from None
        yield
    finally:
        os.close(fd)
