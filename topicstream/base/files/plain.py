"""Files of stores and models, which may come from anywhere, read without trust.

No link is followed, because it could lead out of the folder, and only regular files are opened,
because a fifo or a device may never answer or never end. SECURITY.md has the promises.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from topicstream.base.errors import StoreError, one_line
from topicstream.base.files.marker import StrPath
from topicstream.base.files.openings import explain_damage
from topicstream.base.line_ends import end_lines_alike
from topicstream.base.places import places

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def open_plain(path: StrPath, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor.

    A file that the mirror of a store at an address lacks is fetched first (base/places.py).

    Raises
    ------
    StoreError
        If a link or anything but a regular file lies there.
    OSError
        If the file is missing or cannot be read.
    """
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise StoreError(f"{path}: {_kind(path)}, not a regular file; restore the file")
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        fetched = places().fetch(path)
        if fetched is None:
            raise
        return fetched


def arrow_file(file: BinaryIO) -> Any:
    """Reopen a file so that Arrow reads it without Python."""
    # Arrow's threads return buffers of a Python file under Python's lock, and a thread that asks
    # for it while the interpreter ends aborts the process (exit 134)
    import pyarrow as pa

    try:
        return pa.OSFile(f"/dev/fd/{file.fileno()}")
    except OSError:  # a system without /dev/fd
        return file


def _kind(path: StrPath) -> str:
    """Name the kind of something that is no regular file."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "a link"
    return "a folder" if stat.S_ISDIR(mode) else "a fifo, socket or device"


def read_plain(path: StrPath) -> bytes:
    """Read a regular file, opened by ``open_plain``."""
    with open(open_plain(path), "rb") as file:
        return file.read()


MOST_LISTED = 1 << 23
"""Bytes of a list of words, at most: they become Python strings, and stand in the manifest."""


def read_text(path: StrPath, most: int = MOST_LISTED) -> bytes:
    """Read the text of a file that a user names, its lines ended by line feeds.

    Raises
    ------
    OSError
        As ``read_list`` does.
    """
    return end_lines_alike(read_list(path, most))


def read_list(path: StrPath, most: int = MOST_LISTED) -> bytes:
    """Read a file of words that a user names.

    Raises
    ------
    OSError
        If the file cannot be read, is a pipe or a device, which may never end, or has more than
        ``most`` bytes.
    """
    if os.path.exists(path):
        if not os.path.isfile(path):
            raise OSError("not a regular file, but a folder, a pipe or a device")
        size = os.path.getsize(path)
        if size > most:
            raise OSError(f"{size:,} bytes, where a list of words has {most:,} at most")
    with open(path, "rb") as f:
        return f.read()


def refuse_links(folder: StrPath, *, but: Iterable[str] = ()) -> None:
    """Raise StoreError if a folder contains a link or a special file at any depth.

    Call it before anything in the folder is written or removed.

    Parameters
    ----------
    folder
        The folder, which may itself be a link.
    but
        Names directly in the folder that are skipped.
    """
    folders = [os.fspath(folder)]
    skipped = set(but)
    while folders:
        current = folders.pop()
        with os.scandir(current) as entries:
            for entry in entries:
                if current == os.fspath(folder) and entry.name in skipped:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise StoreError(
                        f"{entry.path}: {_kind(entry.path)}; a store or model contains only "
                        f"regular files and folders; move it away"
                    )


def refuse_linked_folders(folder: Path, inner: Iterable[str]) -> None:
    """Raise StoreError if one of the folders ``inner`` below ``folder`` is a link or a file."""
    for name in inner:
        place = os.path.join(folder, name)
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place)):
            raise StoreError(f"{place}: {_kind(place)}, not a folder; restore it")


def load_arrays(path: StrPath) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file by name, or of an ``.npy`` file as ``array``.

    Raises
    ------
    StoreError
        If the file is neither, or contains Python objects.
    """
    data = read_plain(path)
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        return {"array": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as e:  # the head of an array is a line of Python, which may be anything
        raise explain_damage(
            f"{path}: is no file of arrays ({one_line(e)[:200]}); restore the file"
        ) from None


@contextmanager
def open_table(path: StrPath) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for the block.

    Raises
    ------
    StoreError
        If the file is missing, or is found to be damaged within the block.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with (
            open(open_plain(path), "rb") as raw,
            pq.ParquetFile(arrow_file(raw), pre_buffer=False) as file,
        ):
            yield file
    except FileNotFoundError:
        raise explain_damage(f"{path}: not found; restore the file") from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as e:
        raise explain_damage(
            f"{path}: cannot be read ({one_line(e)[:200]}); restore the file or make it again"
        ) from None


def batches(
    file: pq.ParquetFile, columns: list[str] | None, rows: int = 1 << 18
) -> Iterator[pa.RecordBatch]:
    """Yield record batches of a Parquet file.

    Parameters
    ----------
    file
        The open file.
    columns
        Columns to read, as far as the file has them; None: all.
    rows
        Rows of a batch, at most.
    """
    present = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
    for group in range(file.num_row_groups):  # one group at a time bounds the memory
        yield from file.iter_batches(rows, row_groups=[group], columns=present)
