"""New, changed and deleted raw files, and copies of those to be read.

Known files are listed with size, mtime and sha256. A file whose size and mtime are as listed is
not read. Another one is copied, and counts as changed only if the hash of the copy differs. Since
the copy is ingested, a file that is written to meanwhile cannot tear the corpus: a copy whose file
changed under it is dropped, and the file waits for the next run.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from stat import S_ISREG
from typing import Any

from topicstream.base.errors import InputError
from topicstream.base.files import ownership as owned
from topicstream.base.files.ownership import claim
from topicstream.ingestion.open.names import is_about, is_mark
from topicstream.ingestion.open.source import printable
from topicstream.retraining.config import Config
from topicstream.retraining.state import Failing, RawFile

MEASURED = "measured.zarr"
"""Within the folder of the copies: the store that drift is measured on."""
UNFINISHED = (".tmp", ".part")
TRIES = 3
SET_ASIDE = 3
"""Number of failed runs after which a file is left out until it changes."""
CANNOT_READ = "cannot be read ({}); check its permissions"


@dataclass
class Scan:
    """Raw files compared with the known ones, by their path below ``raw``.

    Attributes
    ----------
    new, changed
        Files with a copy in the snapshot.
    touched
        Files with the same content and another mtime.
    deleted
        Known files that are gone.
    unsettled
        Files that changed while they were copied.
    set_aside
        Unchanged files that failed too often, or files that failed in this run.
    unreadable
        Reasons of files that could not be copied.
    """

    new: dict[str, RawFile] = field(default_factory=dict)
    changed: dict[str, RawFile] = field(default_factory=dict)
    touched: dict[str, RawFile] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Tell whether there are new or changed files."""
        return bool(self.new or self.changed)

    def groups(self, config: Config) -> list[str]:
        """Return the folders of the snapshot that hold files."""
        new = {config.group_of("new", below) for below in self.new}
        changed = {config.group_of("changed", below) for below in self.changed}
        with_files = new | changed
        return [name for name in config.group_names if name in with_files]


def raw_files(raw: Path, patterns: Sequence[str]) -> Iterator[str]:
    """Yield the paths of the files below ``raw`` that can be opened (see ``walk_raw``)."""
    for below, reason in walk_raw(raw, patterns):
        if not reason:
            yield below


def walk_raw(raw: Path, patterns: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the path below ``raw`` of each file, and the reason if it cannot be opened.

    Paths are sorted and have forward slashes; a folder that cannot be listed ends in one. Left out
    are hidden files, ``*.tmp`` and ``*.part``, and the files that ``ingest`` leaves out of a
    folder: marks of Spark and Hadoop, and README and LICENSE unless a pattern asks for them.
    """
    skips_about = all(p == "*" for p in patterns)
    if not raw.is_dir():
        raise InputError(f"{raw}: no such folder; new files are expected there (raw in the config)")
    reasons: dict[str, str] = {}

    def note_unreadable(e: OSError) -> None:
        """Note the reason of a folder that cannot be listed."""
        reason = CANNOT_READ.format(e.strerror)
        folder = Path(e.filename)
        if folder == raw:
            raise InputError(f"{raw}: {reason}")
        reasons[folder.relative_to(raw).as_posix() + "/"] = reason

    for folder, names, files in os.walk(raw, onerror=note_unreadable):
        names[:] = [n for n in names if not n.startswith(".") and not is_mark(n)]
        for name in files:
            below = (Path(folder) / name).relative_to(raw).as_posix()
            if is_mark(name) or (skips_about and below == name and is_about(name)):
                continue
            matches = any(fnmatch(below, p) or fnmatch(name, p) for p in patterns)
            if matches and not name.startswith(".") and not name.endswith(UNFINISHED):
                reasons[below] = _file_problem(os.path.join(folder, name))
    yield from sorted(reasons.items())


def _file_problem(path: str) -> str:
    """Describe why a path cannot be opened as a file, or return ""."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "a link to a file that is not there" if os.path.islink(path) else ""
    except OSError as e:
        return CANNOT_READ.format(e.strerror)
    # reading a pipe would wait for its writer without end
    return "" if S_ISREG(mode) else "no regular file (a pipe, a socket or a device)"


def _stat(path: Path) -> tuple[int, int]:
    """Return size and mtime of a file."""
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns


def copy_settled(source: Path, target: Path) -> RawFile | None:
    """Copy a file and hash the copy.

    Returns
    -------
    RawFile or None
        None if the file changed during each attempt. There is no copy then, nor after an error.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        try:
            before = _stat(source)
            owned.copy(source, target)
            with open(target, "rb") as copied:
                digest = hashlib.file_digest(copied, "sha256").hexdigest()
            if _stat(source) == before and target.stat().st_size == before[0]:
                return RawFile(size=before[0], mtime_ns=before[1], sha256=digest)
        except OSError:
            if target.exists():
                owned.remove_file(target)
            raise
        owned.remove_file(target)
    return None


def scan_raw(
    config: Config,
    known: Mapping[str, RawFile],
    failing: Mapping[str, Failing],
    *,
    failed: Collection[str] = (),
    reading: str = "",
) -> Scan:
    """Compare the raw files with the known ones, and copy those to be read.

    The copies go to ``incoming/new`` and ``incoming/changed``, which are emptied first.

    Parameters
    ----------
    config
        The settings.
    known
        The known files.
    failing
        Files that failed.
    failed
        Names of those that have failed in this run, and are left out of it.
    reading
        Hash of the options and the program that read files (``hash_reading``). A file that failed
        with another is tried again.
    """
    snapshot = config.folder / "incoming"
    owned.remove(snapshot, "incoming")
    claim(snapshot, "incoming")
    scan = Scan()
    present = set()
    for raw_name, reason in walk_raw(config.raw, config.patterns):
        below = printable(raw_name)
        source = config.raw / raw_name
        old = known.get(below)
        target = snapshot / config.group_of("new" if old is None else "changed", below) / below
        try:
            if below in failed:
                scan.set_aside.append(below)
            elif reason:
                scan.unreadable[below] = reason
            elif _is_set_aside(failing.get(below), _stat(source), reading):
                scan.set_aside.append(below)
            elif old is None or (
                config.changed != "ignore" and _stat(source) != (old.size, old.mtime_ns)
            ):
                _classify_copy(scan, below, old, copy_settled(source, target), target)
        except FileNotFoundError:  # deleted since it was listed
            continue
        except OSError as e:
            if str(e.filename) != str(source) and e.errno not in (errno.EIO, errno.ESTALE):
                raise
            scan.unreadable[below] = CANNOT_READ.format(e.strerror)
        present.add(below)
    closed = tuple(name for name in present if name.endswith("/"))
    scan.deleted = sorted(name for name in set(known) - present if not name.startswith(closed))
    return scan


def _is_set_aside(failed: Failing | None, stat: tuple[int, int], reading: str) -> bool:
    """Tell whether a file has failed too often and has not changed since."""
    return (
        failed is not None
        and failed.times >= SET_ASIDE
        and stat == (failed.size, failed.mtime_ns)
        and failed.reading in ("", reading)
    )


def _classify_copy(
    scan: Scan, below: str, old: RawFile | None, entry: RawFile | None, target: Path
) -> None:
    """Enter a copied file in the scan by its content, and remove the copy of known content."""
    if entry is None:
        scan.unsettled.append(below)
    elif old is None:
        scan.new[below] = entry
    elif entry.sha256 != old.sha256:
        scan.changed[below] = entry
    else:
        scan.touched[below] = entry
        owned.remove_file(target)


def count_failure(
    before: Failing | None, file: RawFile | None, reason: str, reading: str
) -> Failing:
    """Count a failure of a raw file, from one if the file has changed.

    Parameters
    ----------
    before
        The failure of an earlier run, or None.
    file
        The file; None: not even its size is known.
    reason
        The reason.
    reading
        Hash of the options and the program that read it (``hash_reading``).
    """
    size, mtime = (file.size, file.mtime_ns) if file is not None else (0, 0)
    times = 1
    if before is not None and (before.size, before.mtime_ns) == (size, mtime):
        times = before.times + 1
    return Failing(size=size, mtime_ns=mtime, times=times, why=reason, reading=reading)


def describe_failures(failing: Mapping[str, Failing]) -> dict[str, Any]:
    """Describe the files that failed: those set aside, and those that are tried again."""
    set_aside = {name: file.why for name, file in failing.items() if file.times >= SET_ASIDE}
    left_out = {name: file.why for name, file in failing.items() if file.times < SET_ASIDE}
    return {
        "files_set_aside": len(set_aside),
        "set_aside": set_aside,
        "files_left_out": len(left_out),
        "left_out": left_out,
    }
