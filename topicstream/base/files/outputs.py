"""Files that a user names: an answer, a table, a figure, a page.

Each appears when it is complete, in one rename.  One rule for what is there already, whatever it
looks like: a file is replaced with ``force``, and only then.  Links, folders and special files
are never replaced, nor is a file that a folder of ours holds for itself.  In an export or a sweep
only files on its list are replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from topicstream.base import system
from topicstream.base.errors import NotOurs, TopicsError, UsageError
from topicstream.base.files.durable import sync
from topicstream.base.files.ownership import (
    KINDS,
    home_of,
    is_listed,
    kind_of,
    note,
    owns,
    temporary,
)
from topicstream.base.places import places

_HOLD_OUTPUTS = ("export", "sweep")
"""Kinds of folders whose outputs are listed: only what is listed there is replaced."""
_MAY_HOLD = (None, "retrain", "demo", *_HOLD_OUTPUTS)


def check_output(path: Path, option: str, inputs: Iterable[object] = (), *, force: bool) -> None:
    """Raise an error, before any work, where an output cannot be written or must not be replaced.

    Parameters
    ----------
    path
        The file.  Its folder has to be there, and is neither a store nor a model.
    option
        How the command calls it, for messages.
    inputs
        What is read: paths, or open models and stores.  The file is none of them, nor in one.
    force
        Whether a file that is there may be replaced.
    """
    places().refuse_output(path, option)
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: no such folder {path.parent}")
    real = Path(os.path.realpath(path))
    for place in filter(None, (getattr(read, "path", read) for read in inputs)):
        source = Path(os.path.realpath(str(place)))
        if real == source or (path.exists() and source.exists() and os.path.samefile(path, source)):
            raise UsageError(f"{option} {path}: is the input; name another file")
        if source.is_dir() and source in real.parents:
            raise UsageError(
                f"{option} {path}: lies inside the input {place}; name a file outside it"
            )
    for folder in real.parents:
        if (kind := kind_of(folder)) not in _MAY_HOLD:
            raise UsageError(
                f"{option} {path}: lies in {folder}, {KINDS[str(kind)]}; name a file outside of it"
            )
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        _refuse_other(path)


def _refuse_other(path: Path) -> None:
    """Raise NotOurs where --force does not replace what lies at the place of an output."""
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        noun = "a link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
        raise NotOurs(f"{path}: is {noun}, which --force does not replace; name another file")
    home = home_of(path)
    if home is None:
        return
    in_outputs = kind_of(home) in _HOLD_OUTPUTS
    if in_outputs and not is_listed(path):
        raise NotOurs(f"{path}: is not of {KINDS[str(kind_of(home))]} of ours; move it away")
    if not in_outputs and owns(path):
        raise NotOurs(f"{path}: belongs to {KINDS[str(kind_of(home))]}; name another file")


@contextmanager
def written(
    path: Path, *, force: bool, option: str = "--out", inputs: Iterable[object] = ()
) -> Iterator[BinaryIO]:
    """Yield a file that appears as ``path`` where the block ends without an error.

    What was there stays where the block fails.  The file has no name before, so that a kill leaves
    nothing, where the system and the file system have such files (Linux, not over NFS).
    Parameters as of ``check_output``.
    """
    check_output(path, option, inputs, force=force)
    beside = temporary(path)
    fd = system.open_nameless(path.parent)
    nameless = fd is not None
    if fd is None:
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(fd, "wb") as file:
            yield file
            file.flush()
            system.flush(fd)
            if os.path.lexists(path):
                if not force:
                    raise NotOurs(f"{path}: is there since this began; name another file")
                _refuse_other(path)
            home = home_of(path)
            if home is not None and kind_of(home) in _HOLD_OUTPUTS:
                note(path)
            if nameless:
                # only with a folder does Python follow the link
                os.link(system.nameless_path(fd), beside, src_dir_fd=fd)
            os.replace(beside, path)
            sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
