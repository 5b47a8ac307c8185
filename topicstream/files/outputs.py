"""Files that a user names: an answer, a table, a figure, a page.  Each appears when it is complete,
in one rename.

What is there already is replaced with ``force`` alone, and only where it is ours: listed by a
folder of ours, or with a sign in it that says so."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from topicstream import system
from topicstream.errors import NotOurs, TopicsError, UsageError
from topicstream.files.durable import sync
from topicstream.files.ownership import KINDS, kind_of, note, owns, temporary
from topicstream.files.remote import address_of

SIGN = b"written by topicstream, which may replace it"
"""In files of formats that have room for a sentence."""
PARQUET_MARK = {b"topicstream": SIGN}
"""In the metadata of every table that we write as Parquet."""
_SIGNS = (
    SIGN,
    b'<meta name="generator" content="topicstream">',
    b"<!-- made by topicstream",
    b"% made by topicstream",
    b"<dc:title>topicstream</dc:title>",
    b"Software\0topicstream",
    b"/Creator (topicstream)",
    b"# topicstream metrics",
)
"""Anywhere near the beginning or the end of what we write."""
_COLUMNS = re.compile(
    r"(?:id,(topic,share|topics,shares|tokens,loglik|(.*,)?topic_\d+)|period,group,topic|topics,seed,algo|word,topic_\d+"
    r"|topic,label,(share,measure|term,estimate|\d+)|question,(word_1|document,text|topic,intruder|intruder_topic,intruder)"
    r"|loglikelihood,coherence,Arun_2010)(?:,|$)"
)
"""How the lists of columns begin of the tables that we write as CSV or JSON lines."""
_HEAD, _TAIL = 1 << 20, 1 << 22


def is_ours(path: Path) -> bool:
    """Whether a file (no link, nothing special) is empty, listed by a folder of ours, or says that
    we wrote it.
    """
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        file.seek(max(path.stat().st_size - _TAIL, 0))
        tail = file.read()
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    try:
        columns = ",".join(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        columns = line.replace('"', "").rstrip()
    signed = any(sign in head or sign in tail for sign in _SIGNS)
    return signed or not head or owns(path) or bool(_COLUMNS.match(columns))


def check_output(path: Path, option: str, inputs: Iterable[object] = (), *, force: bool) -> None:
    """Before any work: ``path`` is no address, its folder is there, and is none of ours; it is no
    input (a path, or an open model or store, which may lie in memory), nor lies in one; a file that
    is there is ours and may be replaced (``force``)."""
    if (address := address_of(path)) is not None:
        raise UsageError(
            f"{option} {address}: files are written to this machine only; name one, and copy it "
            f"there"
        )
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
        if (kind := kind_of(folder)) not in (None, "retrain", "sweep", "export", "demo"):
            raise UsageError(
                f"{option} {path}: lies in {folder}, {KINDS[str(kind)]}; name a file outside of it"
            )
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        if not is_ours(path):
            raise NotOurs(
                f"{path}: does not say that this program wrote it; move it away, or name "
                f"another file"
            )


@contextmanager
def written(
    path: Path, *, force: bool, option: str = "--out", inputs: Iterable[object] = ()
) -> Iterator[BinaryIO]:
    """A file that appears as ``path`` where the block ends without an error; what there was stays
    where it does not.  It has no
    name before, so that a kill leaves nothing, where the system and the file system have such files
    (Linux, not over NFS).

    force: a file of ours that is there may be replaced (another's never);  inputs: what is read,
    which it must not be.
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
            if os.path.lexists(path) and not (force and is_ours(path)):
                raise NotOurs(f"{path}: is there since this began; name another file")
            note(path)
            if nameless:
                # only with a folder does Python follow the link
                os.link(system.nameless_path(fd), beside, src_dir_fd=fd)
            os.replace(beside, path)
            sync(path.parent)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
