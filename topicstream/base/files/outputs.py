"""Output files that a user names: an answer, a table, a figure, a page.

Each appears when it is complete, in one rename; several of one command appear together
(``written_together``). An existing file is replaced only with ``force``, whatever it contains.
Links, folders and special files are never replaced, nor is a file that a folder of ours needs for
itself. In an export or a sweep only files on its list are replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from topicstream.base import system
from topicstream.base.errors import NotOurs, TopicsError, UsageError
from topicstream.base.files.durable import sync
from topicstream.base.files.inventory import is_listed, owns
from topicstream.base.files.marker import KINDS, StrPath, home_of, kind_of, list_paths
from topicstream.base.files.ownership import temporary_path
from topicstream.base.places import places

_HOLD_OUTPUTS = ("export", "sweep")
"""Kinds of folders that list their outputs, and where only listed ones are replaced."""
_MAY_HOLD = (None, "retrain", "demo", *_HOLD_OUTPUTS)
"""Kinds of folders in which a user may put outputs; None: a folder that is not ours."""


def check_output(path: Path, option: str, inputs: Iterable[object] = (), *, force: bool) -> None:
    """Raise an error, before any work, if an output cannot be written or replaced.

    Parameters
    ----------
    path
        The file. Its folder must exist and be neither a store nor a model.
    option
        The option that names the file, for messages.
    inputs
        Paths, or open models and stores, that are read. The file must not be one, nor in one.
    force
        Replace an existing file.

    Raises
    ------
    UsageError
        If the file cannot be written there.
    TopicsError
        If it exists, and ``force`` is not set.
    NotOurs
        If it is none that ``force`` replaces.
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
        kind = kind_of(folder)
        if kind not in _MAY_HOLD:
            raise UsageError(
                f"{option} {path}: lies in {folder}, {KINDS[str(kind)]}; name a file outside of it"
            )
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        _refuse_other(path)


def _refuse_other(path: Path) -> None:
    """Raise NotOurs if --force does not replace the file, link or folder at the output's path."""
    mode = os.lstat(path).st_mode
    if not stat.S_ISREG(mode):
        if stat.S_ISLNK(mode):
            noun = "a link"
        else:
            noun = "a folder" if stat.S_ISDIR(mode) else "no file"
        raise NotOurs(f"{path}: is {noun}, which --force does not replace; name another file")
    home = home_of(path)
    if home is None:
        return
    in_outputs = kind_of(home) in _HOLD_OUTPUTS
    if in_outputs and not is_listed(path):
        raise NotOurs(f"{path}: is no file of {KINDS[str(kind_of(home))]} of ours; move it away")
    if not in_outputs and owns(path):
        raise NotOurs(f"{path}: belongs to {KINDS[str(kind_of(home))]}; name another file")


@dataclass
class _Unnamed:
    """A file that is being written and does not have its name yet.

    Attributes
    ----------
    path
        The name that it will have.
    beside
        A name in the same folder, which it has on the way.
    file
        Open until it has its name.
    nameless
        Whether it has no name so far; else it has ``beside``.
    force
        Whether it replaces a file that is there.
    """

    path: Path
    beside: Path
    file: BinaryIO
    nameless: bool
    force: bool

    @classmethod
    def open(cls, path: Path, force: bool) -> _Unnamed:
        """Open a new file in the folder of ``path``."""
        beside = temporary_path(path)
        fd = system.open_nameless(path.parent)
        nameless = fd is not None
        if fd is None:
            fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        return cls(path, beside, open(fd, "wb"), nameless, force)

    def flush(self) -> None:
        """Bring the content to the disk."""
        self.file.flush()
        system.flush(self.file.fileno())

    def prepare(self) -> None:
        """Check its place once more, and give the file a name beside it."""
        if os.path.lexists(self.path):
            if not self.force:
                raise NotOurs(f"{self.path}: is there since this began; name another file")
            _refuse_other(self.path)
        home = home_of(self.path)
        if home is not None and kind_of(home) in _HOLD_OUTPUTS:
            list_paths(self.path)
        if self.nameless:
            fd = self.file.fileno()
            # only with a folder does Python follow the link
            os.link(system.nameless_path(fd), self.beside, src_dir_fd=fd)

    def discard(self) -> None:
        """Close the file, and remove it where it did not get its name."""
        self.file.close()
        with suppress(FileNotFoundError):
            os.unlink(self.beside)


_TOGETHER: ContextVar[list[_Unnamed] | None] = ContextVar("together", default=None)
"""Complete files that wait for the end of ``written_together``."""


@contextmanager
def written_together() -> Iterator[None]:
    """Let the files of ``written`` in this block appear at its end, or none of them.

    They are renamed one right after the other, and a kill before that leaves the earlier files. A
    kill between two renames leaves some files missing, never an earlier file beside a new one. A
    block within another one is part of it.
    """
    if _TOGETHER.get() is not None:
        yield
        return
    complete: list[_Unnamed] = []
    token = _TOGETHER.set(complete)
    try:
        yield
        _name_all(complete)
    finally:
        _TOGETHER.reset(token)
        for output in complete:
            output.discard()


def _name_all(complete: Sequence[_Unnamed]) -> None:
    """Give complete files their names, after all of them were checked."""
    for output in complete:
        output.prepare()
    # a reader notices a file that is missing, but not two files that do not belong together
    for output in complete[1:]:
        if output.force:
            with suppress(FileNotFoundError):
                os.unlink(output.path)
    for output in complete:
        os.replace(output.beside, output.path)
    for folder in sorted({output.path.parent for output in complete}):
        sync(folder)


@contextmanager
def written(
    path: Path, *, force: bool, option: str = "--out", inputs: Iterable[object] = ()
) -> Iterator[BinaryIO]:
    """Yield a file that appears as ``path`` if the block ends without an error.

    Otherwise an earlier file stays. Until then the new file has no name, so that a kill leaves
    nothing behind, if the system and the file system have such files (Linux, not over NFS). In a
    block of ``written_together`` it appears at the end of that. Parameters and errors are those of
    ``check_output``.
    """
    check_output(path, option, inputs, force=force)
    waiting = _TOGETHER.get()
    if any(os.path.realpath(output.path) == os.path.realpath(path) for output in waiting or ()):
        raise UsageError(f"{option} {path}: is the place of another output; name another file")
    new = _Unnamed.open(path, force)
    try:
        yield new.file
        new.flush()
        if waiting is None:
            _name_all([new])
    except BaseException:
        new.discard()
        raise
    if waiting is None:
        new.discard()
    else:
        waiting.append(new)


def folder_named(path: StrPath) -> Path:
    """Return a folder's path, resolved where it ends with ``..``, so that the folder has a name."""
    place = Path(path)
    return Path(os.path.realpath(place)) if place.name in ("", os.pardir) else place


def check_place(place: StrPath, option: str, inputs: Iterable[StrPath] = ()) -> None:
    """Raise UsageError for a place where no folder can be made.

    Such are the working folder, the root, the user's home and every folder above them; and an
    input, a place within one, and a folder that holds one.
    """
    real = Path(os.path.realpath(place))
    for name, role in (
        (os.getcwd(), "the working folder"),
        (os.path.expanduser("~"), "the home folder"),
    ):
        reserved = Path(os.path.realpath(name))
        if real == reserved or real in reserved.parents:
            relation = "" if real == reserved else "a folder above "
            raise UsageError(f"{option} {place}: is {relation}{role}; name a folder of its own")
    for input_path in inputs:
        source = Path(os.path.realpath(input_path))
        if real == source:
            raise UsageError(f"{option} {place}: is the input itself; name another place")
        if real in source.parents:
            raise UsageError(f"{option} {place}: holds the input {input_path}; name another place")
        if source in real.parents and source.is_dir():
            raise UsageError(
                f"{option} {place}: lies inside the input {input_path}, which would be read "
                f"with it; name another place"
            )
