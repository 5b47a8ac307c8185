"""What is ours: whose a file or a folder is.  ``owned.py`` alone removes, replaces and truncates, and asks here first.

Every folder that we make carries a mark, ``.topicstream``: one JSON object with its ``kind``, a random ``id`` (a store's
comes from its content, so that equal input gives equal bytes) and, where it belongs to another folder, that one's id as
``of``.  A folder without a mark is ours when it is empty, or when 0.1.0 made it (told by its manifest or its journal).
Within a folder of ours a name is ours when ``_NAMES`` lists it for the kind; **whoever adds a file to a store, a model or
a working folder adds its name there.**  A file elsewhere is ours when this process made it, or when it was asked to be
written and reads as what we write there (``topics infer -o``).

Nothing else is removed or replaced by any command, whatever ``--force`` says: links, special files, what others put into
our folders.  Folders go name by name, through descriptors that follow no link, so that what appears meanwhile stays.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from topicstream.errors import NotOurs, StoreError, UsageError

MARK = ".topicstream"
Where = str | os.PathLike[str]

# -- the names within each kind of folder ------------------------------------------------------------------------------
_OWN = r"\.topicstream|\.lock|\.[^/]+\.(?:[0-9a-f]{16}|\d+)\.tmp"  # 0.1.0 named temporary files by its process
_OWN += r"|(?:zarr|\d+)\.[0-9a-f]{32}\.partial"  # what zarr renames to zarr.json or a chunk, left by a kill
_RUNS = r"(?:generation-\d+|merged)\.[a-z]+"
DEEPEST = 7
"""Names that the path of a file of ours has below the folder whose mark says so: axes/authors/train/lengths/c/1/0."""
_AXIS = r"axes/(?:authors|labels|links)(?:-\d{4,})?"
_PART = r"(?:train|heldout)(?:-\d+)?"  # train-2 once it was compacted
_CORPUS = (
    r"(?:manifest|zarr|\.inputs)\.json|(?:vocab|pruned)(?:-\d+)?\.parquet|removed(?:-\d+)?\.npy|rejects(?:-\d+)?\.jsonl"
    r"|\.(?:vocab|pruned)\.tmp|docs/part-\d+\.parquet"
    rf"|{_PART}/(?:(?:words|counts|lengths)/)?zarr\.json|{_PART}/(?:words|counts|lengths)/c/\d+/0"
    rf"|axes/zarr\.json|{_AXIS}\.parquet|{_AXIS}/(?:(?:train|heldout)/(?:(?:lengths|ids)/)?)?zarr\.json"
    rf"|{_AXIS}/(?:train|heldout)/(?:lengths|ids)/c/\d+/0|\.axes-\w+/.+"
)
_CORPUS_FOLDERS = rf"docs|{_PART}(?:/(?:words|counts|lengths)(?:/c(?:/\d+)?)?)?"
_CORPUS_FOLDERS += rf"|axes|{_AXIS}(?:/(?:train|heldout)(?:/(?:lengths|ids)(?:/c(?:/\d+)?)?)?)?|\.axes-\w+(?:/.+)?"
_CHECKPOINT = r"(?:\d{6}-\d{6}|\.\d{6}-\d{6}\.(?:tmp|old))"
_CHECKPOINTS = rf"{_CHECKPOINT}/[a-z][\w.-]*"
_WORK = r"memory-\d+\.bin|[a-z][\w.-]*\.(?:scratch|rows)|vocab\.parquet"
_TABLES = r"(?:topics|classifier|table-[a-z]{1,20})(?:-2)?"
_MODEL = (
    r"(?:manifest|training|finished|carried|topics|classifier)\.json|(?:history|edits)\.jsonl|(?:vocab|names-[a-z]{1,20})(?:-2)?\.parquet"
    rf"|{_TABLES}/(?:zarr\.json|c/\d+/0)|checkpoints/(?:{_CHECKPOINTS})|work/(?:{_WORK})"
)
_MODEL_FOLDERS = rf"{_TABLES}(?:/c(?:/\d+)?)?|work|checkpoints(?:/{_CHECKPOINT})?"
_WIP = r"state\.json|[a-z]+\.spool|[a-z]+(?:-\d+)*\.npy|rejects\.jsonl"
_WIP += rf"|side/[a-z]+\d*-\d+\.arrows|(?:words|phrases-\w+)/(?:{_RUNS})|(?:store|old)/(?:{_CORPUS})"
_WIP_FOLDERS = rf"words|side|phrases-\w+|(?:store|old)(?:/(?:{_CORPUS_FOLDERS}))?"
_HOME = r"\.topicstream|\.lock|(?:journal|state)\.json|\.(?:journal|state)\.json\.(?:[0-9a-f]{16}|\d+)\.tmp"


def _inside(folders: str, files: str, more: str = "") -> tuple[str, str]:
    """(folders, files): a mark, a lock and temporary files may lie in every folder of ours."""
    return folders, rf"{files}|(?:(?:{folders}{more})/)?(?:{_OWN})"


_NAMES: dict[str, tuple[str, str]] = {
    "corpus": _inside(_CORPUS_FOLDERS, _CORPUS),
    "model": _inside(_MODEL_FOLDERS, _MODEL),
    "version": _inside(_MODEL_FOLDERS, _MODEL),
    "topics": _inside(r"c(?:/\d+)?", r"zarr\.json|c/\d+/0"),
    "grids": _inside(r"(?!)", r"[0-9a-f]{40}\.grid"),
    "work": _inside(r"(?!)", _WORK),
    "checkpoints": _inside(_CHECKPOINT, _CHECKPOINTS),
    "ingest": _inside(_WIP_FOLDERS, _WIP),
    # copies of the user's files, under their names
    "incoming": _inside(r"(?:new|changed)(?:/.+)?", r"copies\.jsonl|(?:new|changed)/.+"),
    "runs": _inside(r"\d{4,}(?:/.+)?", r"\d{4,}/.+"),
    "versions": _inside(r"\.?\d{4,}(?:\.tmp|\.old)?(?:/.+)?", r"\.?\d{4,}(?:\.tmp|\.old)?/.+"),
    "scratch": ("(?s:.+)", "(?s:.+)"),
    # holds models, each with a mark of its own
    "sweep": _inside(r"runs|results", r"sweep\.(?:json|parquet)|results/[\w.-]+\.json"),
    # holds the user's config and raw files too
    "retrain": (r"(?!)", _HOME),
}  # fmt: skip


@cache
def kind_names(kind: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What the folders and the files (paths within it) of a folder of ours are called."""
    folders, files = _NAMES[kind]
    return re.compile(folders), re.compile(files)


_TOLD = {
    "corpus": "a corpus store",
    "model": "a model",
    "version": "a published version of a model",
    "ingest": "the working folder of an ingest",
    "retrain": "the folder of a retrain",
    "runs": "the runs of a retrain",
    "versions": "the versions of a retrain",
    "incoming": "the copies of a retrain",
    "sweep": "a sweep",
    "scratch": "the scratch folder of a compilation",
}


def told(kind: str) -> str:
    """A kind in words."""
    return _TOLD.get(kind, f"the folder {kind} of a model")


made: dict[str, tuple[int, int]] = {}
"""Path -> device and inode of the files that this process made."""


@dataclass(frozen=True)
class Mark:
    """What ``.topicstream`` says of its folder."""

    kind: str
    id: str
    of: str = ""


# -- whose is it -------------------------------------------------------------------------------------------------------
def mark_of(folder: Where) -> Mark | None:
    """The mark of a folder; None without one (or where it cannot be read: then the folder is not ours)."""
    value = _json(Path(folder) / MARK, 1 << 16)
    if value is None or not all(isinstance(value.get(k), str) for k in ("kind", "id")) or value["kind"] not in _NAMES:
        return None
    return Mark(value["kind"], value["id"], str(value.get("of", "")))


def kind_of(folder: Where) -> str | None:
    """What kind of ours a folder is; None when it is not ours."""
    mark = mark_of(folder)
    return mark.kind if mark is not None else _kind_of_first_release(Path(folder))


def _kind_of_first_release(folder: Path) -> str | None:
    """0.1.0 set no marks: a manifest of ours, the record of a run, or a journal tells."""
    manifest = _json(folder / "manifest.json", 1 << 30)
    if manifest is not None:
        kind = manifest.get("kind")
        return kind if kind in ("corpus", "model") and manifest.get("schema") == 1 else None
    if os.path.lexists(folder / "manifest.json"):
        return None
    array = (_json(folder / "zarr.json", 1 << 30) or {}).get("attributes")
    if isinstance(array, dict) and {"alpha", "beta", "totals", "chunks"} <= array.keys():
        return "topics"
    run = _json(folder / "training.json", 1 << 26)
    if run is not None and run.get("schema") == 1 and {"engine", "layout", "corpus", "options"} <= run.keys():
        return "model"
    state = _json(folder / "state.json", 1 << 30)
    if state is not None and "journal" in state and {"key", "spools", "pieces"} <= state.keys():
        return "ingest"
    if state is not None and state.get("schema") == 1 and {"files", "last_trained"} <= state.keys():
        return "retrain"
    return None


def _json(path: Path, most: int) -> dict[str, Any] | None:
    """The object in a regular file (no link) of at most ``most`` bytes; None when there is none, or not one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        os.close(fd)
        return None
    with open(fd, "rb") as f:
        try:
            value = json.loads(f.read())
        except (ValueError, RecursionError, OSError):
            return None
    return value if isinstance(value, dict) else None


def bare(folder: Where) -> bool:
    """Whether a folder holds nothing but what may lie in every folder of ours, and no mark of another kind."""
    return mark_of(folder) is None and all(re.fullmatch(_OWN, n) for n in os.listdir(folder))


def claim(folder: Where, kind: str, *, of: str = "", id: str | None = None) -> Mark:
    """Make the folder, or make sure that it is one of ``kind`` of ours, and mark it; its mark.

    A folder of something else is refused (NotOurs), and so is one of ours of another kind, of a newer version, or whose
    manifest cannot be read (StoreError): that is never taken for none.  The last folder may be made, those above it too.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise NotOurs(f"{path}: a file is in the way; name another folder") from None
    if path.is_symlink():
        raise NotOurs(f"{path}: is a link to {os.readlink(path)}; name the folder itself")
    mark = mark_of(path)
    found = mark.kind if mark is not None else None
    if found is None:
        others = sorted(n for n in os.listdir(path) if not re.fullmatch(_OWN, n))
        if not others:
            found = kind
        elif kind in ("retrain", "grids", "work", "checkpoints", "runs", "versions", "incoming"):
            found = kind if _may_become(path, kind) else None
        else:
            found = _kind_of_first_release(path)
        if found is None:
            raise NotOurs(_stranger(path, kind, others))
    if found != kind:
        raise NotOurs(f"{path}: is {told(found)}, not {told(kind)}; name another folder")
    if kind in ("corpus", "model"):
        _readable(path, kind)
    return mark if mark is not None else write_mark(path, Mark(kind, id or secrets.token_hex(8), of))


def _may_become(path: Path, kind: str) -> bool:
    """A folder within one of ours that 0.1.0 left without a mark: ours when every name in it is.  The folder of a retrain
    holds the user's own files as well: none of its own names may be another's."""
    if kind == "retrain":
        state = _kind_of_first_release(path) == "retrain"
        for name in ("state.json", "journal.json"):
            value = _json(path / name, 1 << 30)
            if (
                os.path.lexists(path / name)
                and not state
                and (value is None or value.get("schema") != 1 or "stage" not in value)
            ):
                raise NotOurs(f"{path / name}: is in the way and not ours; name another folder in the config")
        return True
    inside = kind == "grids" or kind_of(path.parent) is not None
    return inside and not any(True for _ in not_ours(path, kind))


def _stranger(path: Path, kind: str, others: list[str]) -> str:
    manifest = path / "manifest.json"
    if not os.path.lexists(manifest):
        what = re.sub("^(a|the) ", "", told(kind))
        return f"{path}: a folder that is no {what} of ours ({others[0]} is in it); name another, or an empty one"
    value = _json(manifest, 1 << 30)
    if value is None:
        return f"{manifest}: cannot be read as a manifest; the file is damaged, restore it, or move {path} away"
    if value.get("kind") in ("corpus", "model"):
        return f"{path}: {_TOLD[value['kind']]} of schema {value.get('schema')}, which this version does not know; move it away"
    return f"{manifest}: is another program's; name another folder than {path}"


def _readable(path: Path, kind: str) -> None:
    """A manifest that is there must be one of this kind that this version can read."""
    manifest = path / "manifest.json"
    if not os.path.lexists(manifest):
        return
    value = _json(manifest, 1 << 30)
    if value is None:
        raise StoreError(f"{manifest}: cannot be read; the file is damaged, restore it, or move {path} away")
    if value.get("kind") != kind:
        raise NotOurs(f"{manifest}: not the manifest of {_TOLD[kind]}; move {path} away, or name another folder")
    if value.get("schema") != 1:
        raise StoreError(
            f"{path}: {_TOLD[kind]} of schema {value.get('schema')}, this version reads 1; use a newer one, or move it away"
        )


def write_mark(folder: Path, mark: Mark) -> Mark:
    """Mark a folder, in one step: the mark is whole or not there."""
    text = {"made_by": "topicstream", "kind": mark.kind, "id": mark.id, **({"of": mark.of} if mark.of else {})}
    beside = temporary(folder / MARK)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(fd, "wb") as f:
        f.write(json.dumps(text).encode() + b"\n")
        f.flush()
        os.fsync(f.fileno())
    os.replace(beside, folder / MARK)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return mark


def temporary(target: Where) -> Path:
    """A name of its own beside ``target``, for what is renamed to it; ``owned.sweep`` removes one that a kill left."""
    target = Path(target)
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def not_ours(folder: Where, kind: str) -> Iterator[Path]:
    """What lies in a folder of ours and is not ours."""
    folders, files = kind_names(kind)
    stack = [""]
    while stack:
        below = stack.pop()
        with os.scandir(Path(folder) / below) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False) and folders.fullmatch(name):
                    stack.append(name)
                elif not (entry.is_file(follow_symlinks=False) and files.fullmatch(name)):
                    yield Path(folder) / name


def refuse_strangers(folder: Where, kind: str) -> None:
    """NotOurs naming the first thing in a folder of ours that is not ours."""
    for path in not_ours(folder, kind):
        raise NotOurs(f"{path}: is not ours, and {folder} is to be replaced; move it out and run this again")


def owns(path: Where) -> bool:
    """Whether an existing file is ours: made by this process, or of a name of ours in a folder of ours."""
    path = Path(os.path.abspath(path))
    try:
        about = os.lstat(path)
    except OSError:
        return False
    if not stat.S_ISREG(about.st_mode):
        return False
    if made.get(str(path)) == (about.st_dev, about.st_ino):
        return True
    for folder in list(path.parents)[:DEEPEST]:
        kind = kind_of(folder)
        if kind is not None:
            return bool(kind_names(kind)[1].fullmatch(path.relative_to(folder).as_posix()))
        if folder.is_symlink():
            return False
    return False


def must_own(path: Where) -> None:
    """NotOurs where an existing file is not ours."""
    if not owns(path):
        raise NotOurs(f"{path}: is in the way and not ours; move it away and run this again")


# -- places ------------------------------------------------------------------------------------------------------------
def check_place(place: Where, option: str, inputs: Iterable[Where] = ()) -> None:
    """UsageError when a folder to be made is the working folder, the root, the user's home or a folder above them, or an
    input, or lies within one, or holds one."""
    real = Path(os.path.realpath(place))
    for name, what in ((os.getcwd(), "the working folder"), (os.path.expanduser("~"), "the home folder")):
        other = Path(os.path.realpath(name))
        if real == other or real in other.parents:
            raise UsageError(
                f"{option} {place}: is {'' if real == other else 'a folder above '}{what}; name a folder of its own"
            )
    for given in inputs:
        taken = Path(os.path.realpath(given))
        if real == taken:
            raise UsageError(f"{option} {place}: is the input itself; name another place")
        if real in taken.parents:
            raise UsageError(f"{option} {place}: holds the input {given}; name another place")
        if taken in real.parents and taken.is_dir():
            raise UsageError(
                f"{option} {place}: lies in the input {given}, which would be read with it; name another place"
            )
