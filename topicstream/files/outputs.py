"""Files that a user names: an answer, a table, a figure, a page.  Each appears when it is complete, in one rename.

What is there already is replaced with ``force`` alone, and only where it is ours: noted as ours when it was written
(``owned.publish``), or, where the file system keeps no such notes, read as ours by what its kind of file begins with.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from topicstream.errors import InputError, NotOurs, TopicsError, UsageError
from topicstream.files import owned
from topicstream.files.durable import sync_file, sync_folder
from topicstream.files.ownership import DEEPEST, kind_of, temporary, told

Reads = Callable[[BinaryIO], bool]
"""Whether an open file holds what we would write there."""
_TEMPORARY = r"[0-9a-f]{16}"


def never(file: BinaryIO) -> bool:
    """A kind of file that does not say who wrote it."""
    return False


PARQUET_MARK = {b"topicstream": b"written by topicstream, which may replace it"}
"""In the metadata of every table that we write as Parquet."""
MOST_FOOTER = 1 << 26


def marked_parquet(file: BinaryIO) -> bool:
    """Whether a Parquet file has our mark in its footer (which is not decoded: it may be a stranger's)."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(4), "little")
    if size < 12 + length or length > MOST_FOOTER or file.read(4) != b"PAR1":
        return False
    file.seek(size - 8 - length)
    return PARQUET_MARK[b"topicstream"] in file.read(length)


def is_ours(path: Path, reads: Reads = never) -> bool:
    """Whether a file (no link, nothing special) is empty, was published by us, or reads as ours."""
    if owned.noted(path):
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode):
        os.close(fd)
        return False
    with open(fd, "rb") as f:
        return about.st_size == 0 or reads(f)


def check_output(path: Path, option: str, inputs: Iterable[Any] = (), *, force: bool, reads: Reads = never) -> None:
    """Before any work: a file that is there is ours and may be replaced (``force``), and ``path`` is no input, nor lies in
    one, nor in a folder of ours."""
    real = Path(os.path.realpath(path))
    for given in inputs:
        source = Path(os.path.realpath(given))
        if real == source or (path.exists() and source.exists() and os.path.samefile(path, source)):
            raise UsageError(f"{option} {path}: is the input itself; name another file")
        if source.is_dir() and source in real.parents:
            raise UsageError(f"{option} {path}: lies in the input {given}; name a file outside of it")
    for folder in list(real.parents)[:DEEPEST]:
        if (kind := kind_of(folder)) not in (None, "retrain", "sweep"):
            raise UsageError(f"{option} {path}: lies in {folder}, {told(str(kind))}; name a file outside of it")
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        if not is_ours(path, reads):
            raise NotOurs(f"{path}: was not written by this program; move it away, or name another file")


class OutputFile:
    """A file written beside and renamed by ``commit``; what there was stays where it is not called (use as a context).

    force: a file of ours that is there may be replaced (another's never);  inputs: what is read, which it must not be.
    """

    def __init__(
        self, path: str | Path, option: str, *, force: bool, inputs: Iterable[Any] = (), reads: Reads = never
    ) -> None:
        self.path, self._force, self._reads = Path(path), force, reads
        if not self.path.parent.is_dir():
            raise InputError(f"{option} {path}: no such folder {self.path.parent}")
        check_output(self.path, option, inputs, force=force, reads=reads)
        _sweep(self.path)
        self._beside = temporary(self.path)
        self.file = owned.create(self._beside)
        fcntl.flock(self.file, fcntl.LOCK_EX)  # says that this one is being written

    def __enter__(self) -> OutputFile:
        return self

    def commit(self) -> None:
        """Put the finished file in its place."""
        self.file.close()
        sync_file(self._beside)
        owned.publish(self._beside, self.path, force=self._force, ours=is_ours(self.path, self._reads))
        sync_folder(self.path.parent)

    def __exit__(self, *exc: object) -> None:
        self.file.close()
        owned.discard(self._beside)


@contextmanager
def written(
    path: Path, *, force: bool, option: str = "--out", inputs: Iterable[Any] = (), reads: Reads = never
) -> Iterator[BinaryIO]:
    """``OutputFile``, committed where the block ends without an error."""
    with OutputFile(path, option, force=force, inputs=inputs, reads=reads) as out:
        yield out.file
        out.commit()


def _sweep(path: Path) -> None:
    """Remove what killed runs left of writing this very file: they held a lock on it while they lived."""
    for stray in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not re.fullmatch(_TEMPORARY, stray.name[len(path.name) + 2 : -4]):
            continue
        with suppress(OSError):
            fd = os.open(stray, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                owned.remove_left(stray, os.fstat(fd))
            finally:
                os.close(fd)
