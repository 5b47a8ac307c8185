"""Remove files of a store that its manifest does not name.

A killed writer leaves files that no manifest has named; the next writer removes them. Files of an
earlier state stay for some days, because a training or another long command may still read that
state. ``.replaced.json`` says since when a file or a folder is no longer named. It is written
before the manifest that replaces another, so that a kill in between loses nothing.

``topics forget`` removes the files of earlier states at once. Whoever reads one of them then is
told that the store was rewritten (``base/files/openings.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from topicstream.base.files import ownership as owned
from topicstream.base.files.inventory import owned_files
from topicstream.base.files.marker import resolve_folders, seal_marker
from topicstream.base.files.ownership import path_beside
from topicstream.base.records import Record, read_record, write_record
from topicstream.corpus.manifest import StoreManifest, part_folder

NAME = ".replaced.json"
DAYS_KEPT = 3
"""Days that files of an earlier state stay."""


class ReplacedFiles(Record):
    """The files and folders of earlier states, with the day on which each was replaced."""

    days: dict[str, date] = {}


def folder_number(folder: str) -> int:
    """Return the number in a part's folder: 1 for ``train``, 7 for ``train-7``.

    A compaction writes the folder with the next number.
    """
    suffix = folder.rpartition("-")[2]
    return int(suffix) if suffix.isdecimal() else 1


def list_replaced_files(store: Path, old: StoreManifest, new: StoreManifest) -> None:
    """List the files and folders that only the old manifest names.

    Call it before the new one is written.
    """
    replaced = _named_entries(old) - _named_entries(new)
    if replaced:
        days = dict.fromkeys(replaced, datetime.now(UTC).date())
        write_record(store / NAME, ReplacedFiles(days=days | _read_replaced(store)))


def remove_stale_files(store: Path, manifest: StoreManifest, *, at_once: bool = False) -> None:
    """Link current files to their plain names, and remove files outside the manifest.

    The caller holds the writer's lock.

    Parameters
    ----------
    store, manifest
        Folder and manifest of the store.
    at_once
        Keep no file of an earlier state, however short ago it was replaced.
    """
    for name, file in _plain_names(manifest).items():
        plain = store / name
        if name == file or (plain.exists() and os.path.samefile(store / file, plain)):
            continue
        new = path_beside(plain)
        owned.sweep(store, new.name)
        owned.link_file(store / file, new)
        owned.replace(new, plain)
    owned.sweep(store)
    days = _read_replaced(store)
    oldest = datetime.now(UTC).date() - timedelta(days=DAYS_KEPT)
    current = _named_entries(manifest)
    recent = {}  # files of earlier states that stay
    if not at_once:
        for name, day in days.items():
            if name not in current and day > oldest:
                recent[name] = day
    root = resolve_folders(store)
    stale = [
        path
        for path in outdated_files(store, manifest)
        if _entry_of(path.relative_to(root)) not in recent
    ]
    owned.discard_all(stale, store)
    owned.remove_empty(store)
    if recent != days:
        write_record(store / NAME, ReplacedFiles(days=recent))
    if not recent:
        owned.remove_file(store / NAME, missing_ok=True)
    seal_marker(store, manifest.fingerprint[:16])


def outdated_files(store: Path, manifest: StoreManifest) -> Iterator[Path]:
    """Yield our files that the manifest does not name."""
    current = _named_entries(manifest)
    rows = {part_folder(entry, part): entry.rows for part, entry in manifest.parts.items()}
    root = Path(resolve_folders(store))
    for path in owned_files(store):
        inside = path.relative_to(root)
        first, *below = inside.parts
        if first[0] == "." and not below and path.suffix != ".tmp":
            continue  # the marker, the lock, and lists beside the manifest
        if first in rows and path.name != "zarr.json":
            # a killed writer leaves blocks behind the last one
            is_block = len(below) > 2 and below[2].isdecimal() and int(below[2]) < rows[first]
            if not is_block:
                yield path
        elif _entry_of(inside) not in current:
            yield path


def _named_entries(manifest: StoreManifest) -> set[str]:
    """Return the files that a manifest names, and the folders of its blocks and axes."""
    files = {entry.file for entry in manifest.single_files}
    plain = _plain_names(manifest)
    parts = {part_folder(entry, part) for part, entry in manifest.parts.items()}
    axes = {entry.folder for entry in manifest.axes.values()}
    return {"manifest.json", "zarr.json", *files, *plain, *plain.values(), *parts, *axes}


def _entry_of(inside: Path) -> str:
    """Return the name by which ``_named_entries`` lists a file: its folder's for a block."""
    parts = inside.parts
    if parts[0].startswith(("train", "heldout")):
        return parts[0]
    return "/".join(parts[:2])


def _plain_names(manifest: StoreManifest) -> dict[str, str]:
    """Map the plain names that stock readers open to the current files."""
    names = {
        f"axes/{axis}.parquet": entry.names.file
        for axis, entry in manifest.axes.items()
        if entry.names is not None
    }
    words = {
        f"{kind}.parquet": manifest.files[kind].file
        for kind in ("vocab", "pruned")
        if kind in manifest.files
    }
    return words | names


def _read_replaced(store: Path) -> dict[str, date]:
    """Read the days of the list, none where there is no list."""
    path = store / NAME
    return read_record(path, ReplacedFiles).days if path.exists() else {}
