"""Reading files of stores and models, which may come from anywhere: regular files alone, as bytes,
arrays or Parquet.

No link is followed (it could lead out of the folder), and nothing but a regular file is opened (a
fifo or a device never answers, or never ends). SECURITY.md says what is promised.
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
from topicstream.base.line_ends import with_line_feeds
from topicstream.base.places import places

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


_Where = str | os.PathLike[str]


def open_plain(path: _Where, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a plain file; StoreError where a link or anything else lies there.
    FileNotFoundError, OSError.

    A file of a store at an address is fetched first where its mirror does not have it
    (base/places.py).
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
    """The open file as Arrow reads it by itself.  What a Python file hands over, Arrow's threads
    give back under Python's lock, and one that asks for it while the interpreter ends aborts the
    process (134).
    """
    import pyarrow as pa

    try:
        return pa.OSFile(f"/dev/fd/{file.fileno()}")
    except OSError:  # a system without /dev/fd
        return file


def _kind(path: _Where) -> str:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return "a link"
    return "a folder" if stat.S_ISDIR(mode) else "a fifo, socket or device"


def read_plain(path: _Where) -> bytes:
    """A plain file's bytes.  StoreError, FileNotFoundError, OSError."""
    with open(open_plain(path), "rb") as file:
        return file.read()


MOST_LISTED = 1 << 23
"""Bytes of a list of words that are left out: they become Python strings, and stand in the
manifest.
"""


def read_given(path: _Where, most: int = MOST_LISTED) -> bytes:
    """Read the text of a file that a user names, its lines ended by line feeds.

    OSError too for a pipe or a device, which may never end, and beyond ``most``.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError("not a regular file, but a folder, a pipe or a device")
    if os.path.exists(path) and (size := os.path.getsize(path)) > most:
        raise OSError(f"{size:,} bytes, where a list of words has {most:,} at most")
    with open(path, "rb") as f:
        return with_line_feeds(f.read())


def refuse_links(folder: _Where, *, but: Iterable[str] = ()) -> None:
    """StoreError naming the first link or special file below ``folder`` (itself it may be a link),
    or a folder that cannot be listed. ``but``: names directly in the folder that are not looked
    into. Before anything is written or removed.
    """
    folders = [os.fspath(folder)]
    skipped = set(but)
    while folders:
        at = folders.pop()
        with os.scandir(at) as entries:
            for entry in entries:
                if at == os.fspath(folder) and entry.name in skipped:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise StoreError(
                        f"{entry.path}: {_kind(entry.path)}; a store or model contains only "
                        f"regular files and folders; move it away"
                    )


def refuse_linked_folders(folder: Path, inner: Iterable[str]) -> None:
    """StoreError where one of the folders ``inner`` (below ``folder``) is not a folder of its own;
    one may be missing.
    """
    for place in (os.path.join(folder, name) for name in inner):
        if os.path.islink(place) or (os.path.lexists(place) and not os.path.isdir(place)):
            raise StoreError(f"{place}: {_kind(place)}, not a folder; restore it")


def load_arrays(path: _Where) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by their names, or of an ``.npy`` file by the name ``array``;
    StoreError where it is none, or holds Python objects.
    """
    data = read_plain(path)
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        return {"array": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except Exception as e:  # the head of an array is a line of Python, which may be anything
        raise StoreError(
            f"{path}: is no file of arrays ({one_line(e)[:200]}); restore the file"
        ) from None


@contextmanager
def open_table(path: _Where) -> Iterator[pq.ParquetFile]:
    """A Parquet file; StoreError where it is missing, or what is read of it in the block shows that
    it is damaged.
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
        raise StoreError(f"{path}: not found; restore the file") from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as e:
        raise StoreError(
            f"{path}: cannot be read ({one_line(e)[:200]}); restore the file or make it again"
        ) from None


def batches(
    file: pq.ParquetFile, columns: list[str] | None, rows: int = 1 << 18
) -> Iterator[pa.RecordBatch]:
    """Record batches of at most ``rows`` rows; columns that are not there are left out (None: all
    of them).
    """
    wanted = None if columns is None else [c for c in columns if c in file.schema_arrow.names]
    for group in range(file.num_row_groups):  # a group at a time: no more is held
        yield from file.iter_batches(rows, row_groups=[group], columns=wanted)
