"""The raw files: which are new, changed or gone since they were last taken in, and a snapshot of those to be read.

Known files are listed with size, mtime and sha256.  A file whose size and mtime are as listed is not read; else it is
copied, hashed on the way, and counts as changed only if the hash differs.  What is ingested is the copy, so a file that
is written to meanwhile cannot tear the corpus: a copy whose file changed under it is thrown away and left for the next
run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

from topicstream.errors import InputError, NotOurs
from topicstream.files import owned
from topicstream.files.ownership import claim
from topicstream.ingestion.opening.names import is_about, is_mark

COPIES, MEASURED = "copies.jsonl", "measured.zarr"
"""Within the folder of the copies: the list of them, and the store that drift is measured on."""
UNFINISHED = (".tmp", ".part")
TRIES = 3


@dataclass
class Found:
    """What a scan found.  new, changed: path below raw -> entry (size, mtime_ns, sha256), copied to the snapshot;
    touched: the same content under another mtime; gone: known, but no longer there; unsettled: changed while copied."""

    new: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    touched: dict[str, dict[str, Any]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        return bool(self.new or self.changed)


def raw_files(raw: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    """Paths of the files below ``raw`` (forward slashes), sorted; hidden ones, *.tmp and *.part, and what ``ingest`` leaves out of a folder
    are left out: marks of Spark and Hadoop, and where no pattern asks for them README and LICENSE."""
    about = all(p == "*" for p in patterns)
    if not raw.is_dir():
        raise InputError(f"{raw}: no such folder; new files are expected there (raw in the config)")

    def unreadable(e: OSError) -> None:
        raise InputError(f"{e.filename}: cannot be read ({e.strerror}); check its permissions")

    found = []
    for folder, names, files in os.walk(raw, onerror=unreadable):
        names[:] = [n for n in names if not n.startswith(".") and not is_mark(n)]
        for name in files:
            below = (Path(folder) / name).relative_to(raw).as_posix()
            if is_mark(name) or (about and below == name and is_about(name)):
                continue
            wanted = any(fnmatch(below, p) or fnmatch(name, p) for p in patterns)
            plain = (Path(folder) / name).is_file()  # a fifo would never end
            if plain and wanted and not name.startswith(".") and not name.endswith(UNFINISHED):
                found.append(below)
    yield from sorted(found)


def _stat(path: Path) -> tuple[int, int]:
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns


def copy_settled(source: Path, target: Path) -> dict[str, Any] | None:
    """Copy a file and hash the copy; None when the file changed meanwhile (the copy is removed)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    before = _stat(source)
    digest, size = hashlib.sha256(), 0
    with open(source, "rb") as f, owned.create(target) as out:
        while piece := f.read(1 << 20):
            digest.update(piece)
            out.write(piece)
            size += len(piece)
    if _stat(source) != before or size != before[0]:
        owned.remove_file(target)
        return None
    return {"size": size, "mtime_ns": before[1], "sha256": digest.hexdigest()}


def remove_copies(snapshot: Path) -> None:
    """Remove the folder of the copies.  NotOurs, and nothing is removed, where it holds a file that no scan copied: the
    names of raw files are the user's, so only the list of the copies tells whose a file is."""
    if not os.path.lexists(snapshot):
        return
    claim(snapshot, "incoming")
    copies = snapshot / COPIES
    listed = set(copies.read_text("utf-8", "surrogateescape").splitlines()) if copies.is_file() else set()
    for name in ("new", "changed"):
        for folder, _, files in os.walk(snapshot / name):
            for path in (Path(folder) / file for file in files):
                if json.dumps(path.relative_to(snapshot).as_posix()) not in listed:
                    raise NotOurs(f"{path}: was not put there by topics retrain; move it out and run this again")
    owned.remove(snapshot / MEASURED, "corpus")
    owned.remove(snapshot / f"{MEASURED}.wip", "ingest")
    owned.remove(snapshot, "incoming")


def scan(
    raw: Path, patterns: tuple[str, ...], known: Mapping[str, Mapping[str, Any]], snapshot: Path, changed: bool
) -> Found:
    """Compare ``raw`` with the ``known`` files and copy what is to be read into ``snapshot/new`` and ``snapshot/changed``
    (emptied first).  changed=False leaves changed files alone."""
    remove_copies(snapshot)
    claim(snapshot, "incoming")
    with owned.create(snapshot / COPIES) as copies:
        return _compare(raw, patterns, known, snapshot, changed, copies)


def _compare(
    raw: Path,
    patterns: tuple[str, ...],
    known: Mapping[str, Mapping[str, Any]],
    snapshot: Path,
    changed: bool,
    copies: BinaryIO,
) -> Found:
    found = Found()
    seen = set()
    for below in raw_files(raw, patterns):
        seen.add(below)
        old = known.get(below)
        source = raw / below
        try:
            if old is not None and (not changed or _stat(source) == (old["size"], old["mtime_ns"])):
                continue
            target = snapshot / ("new" if old is None else "changed") / below
            copies.write(json.dumps(target.relative_to(snapshot).as_posix()).encode() + b"\n")
            copies.flush()  # listed before it is made: a kill leaves no copy that the list does not name
            entry = None
            for _ in range(TRIES):
                entry = copy_settled(source, target)
                if entry is not None:
                    break
        except FileNotFoundError:  # gone since it was listed
            seen.discard(below)
            continue
        except OSError as e:
            if e.filename is not None and str(e.filename) == str(source):
                raise InputError(f"{source}: cannot be read ({e.strerror}); check its permissions") from None
            raise
        if entry is None:
            found.unsettled.append(below)
        elif old is None:
            found.new[below] = entry
        elif entry["sha256"] == old["sha256"]:
            found.touched[below] = entry
            owned.remove_file(target)
        else:
            found.changed[below] = entry
    found.gone = sorted(set(known) - seen)
    return found
