"""The raw files: which are new, changed or deleted since they were last taken in, and a snapshot of
those to be read.

Known files are listed with size, mtime and sha256.  A file whose size and mtime are as listed is
not read; else it is
copied, and counts as changed only if the hash of the copy differs.  What is ingested is the copy,
so a file that
is written to meanwhile cannot tear the corpus: a copy whose file changed under it is thrown away
and left for the next run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from topicstream.errors import InputError
from topicstream.files import owned
from topicstream.files.ownership import claim
from topicstream.ingestion.opening.names import is_about, is_mark
from topicstream.retraining.config import Config
from topicstream.retraining.state import Failing, RawFile

MEASURED = "measured.zarr"
"""Within the folder of the copies: the store that drift is measured on."""
UNFINISHED = (".tmp", ".part")
TRIES = 3
SET_ASIDE = 3
"""Runs that a file may fail before it is left out until it changes."""


@dataclass
class Scan:
    """The raw files beside those that are known, by their path below ``raw``.

    new, changed: copied to the snapshot; touched: the same content under another mtime; deleted:
    known, but no longer there; unsettled: changed while they were copied; set_aside: failed too
    often, and are as they were then."""

    new: dict[str, RawFile] = field(default_factory=dict)
    changed: dict[str, RawFile] = field(default_factory=dict)
    touched: dict[str, RawFile] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether there is anything to take in."""
        return bool(self.new or self.changed)

    @property
    def groups(self) -> list[tuple[Literal["new", "changed"], dict[str, RawFile]]]:
        """The folders of the snapshot that hold files, and what they hold."""
        both: list[tuple[Literal["new", "changed"], dict[str, RawFile]]] = [
            ("new", self.new),
            ("changed", self.changed),
        ]
        return [(name, files) for name, files in both if files]


def raw_files(raw: Path, patterns: Sequence[str]) -> Iterator[str]:
    """Paths of the files below ``raw`` (forward slashes), sorted.

    Left out are hidden files, ``*.tmp`` and ``*.part``, and what ``ingest`` leaves out of a folder:
    marks of Spark and Hadoop, and README and LICENSE unless a pattern asks for them."""
    about = all(p == "*" for p in patterns)
    if not raw.is_dir():
        raise InputError(f"{raw}: no such folder; new files are expected there (raw in the config)")

    def unreadable(e: OSError) -> None:
        raise InputError(f"{e.filename}: cannot be read ({e.strerror}); check its permissions")

    relative_names = []
    for folder, names, files in os.walk(raw, onerror=unreadable):
        names[:] = [n for n in names if not n.startswith(".") and not is_mark(n)]
        for name in files:
            below = (Path(folder) / name).relative_to(raw).as_posix()
            if is_mark(name) or (about and below == name and is_about(name)):
                continue
            matches = any(fnmatch(below, p) or fnmatch(name, p) for p in patterns)
            plain = (Path(folder) / name).is_file()  # a fifo would never end
            if plain and matches and not name.startswith(".") and not name.endswith(UNFINISHED):
                relative_names.append(below)
    yield from sorted(relative_names)


def _stat(path: Path) -> tuple[int, int]:
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns


def copy_settled(source: Path, target: Path) -> RawFile | None:
    """Copy a file and hash the copy; None when the file changed meanwhile each time (then there is
    no copy).
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        before = _stat(source)
        owned.copy(source, target)
        with open(target, "rb") as copied:
            digest = hashlib.file_digest(copied, "sha256").hexdigest()
        if _stat(source) == before and target.stat().st_size == before[0]:
            return RawFile(size=before[0], mtime_ns=before[1], sha256=digest)
        owned.remove_file(target)
    return None


def scan_raw(config: Config, known: Mapping[str, RawFile], failing: Mapping[str, Failing]) -> Scan:
    """Compare the raw files with the known ones, and copy those to be read to ``incoming/new`` and
    ``incoming/changed``
    (emptied first).  InputError where a file cannot be read."""
    snapshot = config.folder / "incoming"
    owned.remove(snapshot, "incoming")
    claim(snapshot, "incoming")
    scan, met = Scan(), set()
    for below in raw_files(config.raw, config.patterns):
        old, source = known.get(below), config.raw / below
        target = snapshot / ("new" if old is None else "changed") / below
        failed = failing.get(below)
        try:
            if (
                failed
                and failed.times >= SET_ASIDE
                and _stat(source) == (failed.size, failed.mtime_ns)
            ):
                scan.set_aside.append(below)
            elif old is None or (
                config.changed != "ignore" and _stat(source) != (old.size, old.mtime_ns)
            ):
                _sort_in(scan, below, old, copy_settled(source, target), target)
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError as e:
            if str(e.filename) == str(source):
                raise InputError(
                    f"{source}: cannot be read ({e.strerror}); check its permissions"
                ) from None
            raise
        met.add(below)
    scan.deleted = sorted(set(known) - met)
    return scan


def _sort_in(
    scan: Scan, below: str, old: RawFile | None, entry: RawFile | None, target: Path
) -> None:
    """Enter a file that was copied where it belongs; a copy of what is known goes."""
    if entry is None:
        scan.unsettled.append(below)
    elif old is None:
        scan.new[below] = entry
    elif entry.sha256 != old.sha256:
        scan.changed[below] = entry
    else:
        scan.touched[below] = entry
        owned.remove_file(target)
