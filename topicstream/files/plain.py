"""Reading what a stranger may have made: plain files only, and nothing larger in memory than the file pays for.

A store or a model may come from anywhere.  No link in it is followed (it could lead out of the folder), nothing but a plain
file is opened (a fifo or a device never answers, or never ends), and sizes that a file declares are compared with what it
has before anything of that size is allocated.  SECURITY.md says what is promised.
"""

from __future__ import annotations

import io
import math
import os
import stat
import struct
import tokenize
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from topicstream.errors import StoreError, one_line

MOST_TEXT = 1 << 28
"""Bytes of a JSON file, or of one of JSON lines; the manifest of a store of ten billion cells takes 10 MB."""
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_Where = str | os.PathLike[str]


def open_plain(path: _Where, flags: int = FLAGS) -> int:
    """A descriptor of a plain file; StoreError where a link or anything else lies there.  FileNotFoundError, OSError."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        refuse_special(path)
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreError(f"{path}: {_kind(path)}, where a plain file has to be; restore the file")
    return fd


def arrow_file(file: BinaryIO) -> Any:
    """The open file as Arrow reads it by itself.  What a Python file hands over, Arrow's threads give back under Python's
    lock, and one that asks for it while the interpreter ends aborts the process (134)."""
    import pyarrow as pa

    try:
        return pa.OSFile(f"/dev/fd/{file.fileno()}")
    except OSError:  # a system without /dev/fd
        return file


def refuse_special(path: _Where) -> None:
    """StoreError where a link, a fifo, a device or a folder has the name of a file; nothing where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{path}: {_kind(path)}, where a plain file has to be; restore the file")


def _kind(path: _Where) -> str:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "a link"
    return "a folder" if stat.S_ISDIR(mode) else "a fifo, socket or device"


def read_plain(path: _Where, most: int = MOST_TEXT) -> bytes:
    """A plain file's bytes; StoreError where it has more than ``most``."""
    with open(open_plain(path), "rb") as f:
        size = os.fstat(f.fileno()).st_size
        if size > most:
            raise StoreError(f"{path}: {size} bytes where at most {most} can be; restore the file")
        return f.read()


MOST_LISTED = 1 << 23
"""Bytes of a list of words that are left out: they become Python strings, and stand in the manifest."""


def read_given(path: _Where, most: int = MOST_LISTED) -> bytes:
    """The bytes of a file that a user names; OSError too for a pipe or a device, which may never end, and beyond ``most``."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError("no regular file, but a folder, a pipe or a device")
    if os.path.exists(path) and (size := os.path.getsize(path)) > most:
        raise OSError(f"{size:,} bytes, where a list of words has {most:,} at most")
    with open(path, "rb") as f:
        return f.read()


def refuse_links(folder: _Where, *, but: Iterable[str] = ()) -> None:
    """StoreError naming the first link or special file below ``folder`` (itself it may be a link), or a folder that cannot
    be listed.  ``but``: names directly in the folder that are not looked into.  Before anything is written or removed."""
    left, skipped = [os.fspath(folder)], set(but)
    while left:
        at = left.pop()
        with os.scandir(at) as entries:
            for entry in entries:
                if at == os.fspath(folder) and entry.name in skipped:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise StoreError(
                        f"{entry.path}: {_kind(entry.path)}; there are only plain files and folders in a store or model, move it away"
                    )


def refuse_linked_folders(folder: Path, inner: Iterable[str]) -> None:
    """StoreError where one of the folders ``inner`` (below ``folder``) is not a folder of its own; one may be missing."""
    for place in (os.path.join(folder, name) for name in inner):
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place)):
            raise StoreError(f"{place}: {_kind(place)}, where a folder has to be; restore it")


def array_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether column by column, and dtype that the head of a ``.npy`` file says; ValueError whatever else it is."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, TypeError, LookupError, SyntaxError, tokenize.TokenError, EOFError, OverflowError, RecursionError, MemoryError) as e:
        # the head is a line of Python, which its parser may also find too deep
        raise ValueError(f"a head that cannot be read: {one_line(e)[:200] or type(e).__name__}") from None
    if any(not 0 <= n < 1 << 62 for n in shape):
        raise ValueError(f"a shape that no array has: {str(shape)[:200]}")
    return tuple(int(n) for n in shape), fortran, dtype


def load_array(data: bytes | memoryview, what: str) -> np.ndarray:
    """The array of a ``.npy`` file; StoreError where its head says more than the file holds, or it holds objects."""
    stream = io.BytesIO(data)
    try:
        shape, fortran, dtype = array_header(stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            raise ValueError(f"{shape} of {dtype} do not take the {len(data) - stream.tell()} bytes that follow")
        flat = np.frombuffer(data, dtype, offset=stream.tell()).copy()
    except (ValueError, TypeError) as e:
        raise StoreError(f"{what}: is no array ({e}); restore the file") from None
    return flat.reshape(shape, order="F" if fortran else "C")


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed ``.npz`` file; StoreError."""
    data = read_plain(path, 1 << 40)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            found: dict[str, Any] = {}
            for info in members.infolist():
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(data):
                    raise ValueError(f"{info.filename} is compressed")
                name = info.filename.removesuffix(".npy")
                found[name] = load_array(members.read(info), f"{path}: {name}")
            return found
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, OSError, struct.error) as e:
        raise StoreError(f"{path}: is no file of arrays ({e}); restore the file") from None
