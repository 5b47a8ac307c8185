"""Versions of a model: ``versions/NNNN`` folders that never change, and ``current``, a link to one of them.

A version is copied beside, synced and renamed; ``current`` is replaced by one rename.  Whoever opens ``current`` gets
one whole version or the other: TopicModel follows the link once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from topicstream.errors import TopicsError
from topicstream.files import owned
from topicstream.files.durable import lock, sync_file, sync_folder
from topicstream.files.ownership import claim, kind_of, not_ours
from topicstream.model.classifier import RECORD, array_of
from topicstream.model.store import read_manifest
from topicstream.retraining.align import write_ids

CURRENT = "current"
_HIDDEN = re.compile(r"\.\d{4,}\.(tmp|old)")


def published_versions(folder: Path) -> list[int]:
    """Numbers of the versions that are there, ascending."""
    place = folder / "versions"
    if not place.is_dir():
        return []
    return sorted(int(p.name) for p in place.iterdir() if p.name.isdecimal() and p.is_dir())


def version_path(folder: Path, number: int) -> Path:
    """``versions/NNNN``."""
    return folder / "versions" / f"{number:04d}"


def current(folder: Path) -> int | None:
    """The number of the version that ``current`` points to; None without one.  TopicsError when it points elsewhere."""
    link = folder / CURRENT
    if not link.is_symlink():
        if link.exists():
            raise TopicsError(f"{link}: is not the link that retrain makes; move it away")
        return None
    place, name = os.path.split(os.readlink(link))
    if place != "versions" or not name.isdecimal() or not version_path(folder, int(name)).is_dir():
        raise TopicsError(
            f"{link}: points to {os.readlink(link)}, which is not there; `topics rollback --to N` mends it"
        )
    return int(name)


def store_version(run: Path, folder: Path, number: int, ids: dict[str, Any]) -> Path:
    """Copy the model of a finished run to ``versions/NNNN`` (without checkpoints and block memory); a version that is
    there already is left as it is."""
    final = version_path(folder, number)
    if final.exists():
        return final
    claim(final.parent, "versions")
    beside = final.with_name(f".{final.name}.tmp")
    owned.remove(beside, "version")  # of a run that was killed
    claim(beside, "version")
    manifest = read_manifest(run)
    tables = (manifest.get("tables") or {}).values()
    names = [t["names"] for t in tables if t["names"] is not None]
    for entry in (*manifest["files"].values(), *tables, *names):
        source = run / entry["name"]
        (owned.copy_tree if source.is_dir() else owned.copy_file)(source, beside / source.name)
    if (name := array_of(run)) is not None:
        owned.copy_tree(run / name, beside / name)
        owned.copy_file(run / RECORD, beside / RECORD)
    if (run / "history.jsonl").exists():
        owned.copy_file(run / "history.jsonl", beside / "history.jsonl")
    owned.copy_file(run / "manifest.json", beside / "manifest.json")
    write_ids(beside, ids)
    for path in sorted(beside.rglob("*"), reverse=True):
        (sync_folder if path.is_dir() else sync_file)(path)
    sync_folder(beside)
    owned.move_folder(beside, final)
    sync_folder(final.parent)
    return final


def point_to(folder: Path, number: int) -> None:
    """Let ``current`` be version ``number``, in one rename."""
    owned.point(folder / CURRENT, os.path.join("versions", f"{number:04d}"), folder / f".{CURRENT}.tmp")
    sync_folder(folder)


def prune(folder: Path, keep: int) -> list[int]:
    """Remove the oldest versions but ``keep``; never the current one or the one before it, nor one that others have put
    something into.  Returns those removed."""
    present = published_versions(folder)
    now = current(folder)
    held = {n for n in present if now is not None and n <= now}
    spared = set(sorted(held)[-2:]) | set(present[-keep:])
    place = folder / "versions"
    gone = [
        n for n in present if n not in spared and not any(True for _ in not_ours(version_path(folder, n), "version"))
    ]
    if place.is_dir():
        claim(place, "versions")
    for n in gone:
        hidden = place / f".{n:04d}.old"
        _remove_version(hidden)
        if not os.path.lexists(hidden):  # else another's is in the way, and the version stays
            owned.move_folder(version_path(folder, n), hidden)
    for stray in place.glob(".[0-9]*") if place.is_dir() else ():  # also of a run that was killed here
        if _HIDDEN.fullmatch(stray.name):
            _remove_version(stray)
    return gone


def _remove_version(folder: Path) -> None:
    """Remove a folder that is a version of ours (0.1.0 marked none) with nothing of others in it; others stay."""
    kind = kind_of(folder) if folder.is_dir() and not folder.is_symlink() else None
    if kind in ("version", "model") and not any(True for _ in not_ours(folder, kind)):
        owned.remove(folder, kind)


def rollback(folder: str | Path = ".", *, to: int | None = None, wait: bool = False) -> tuple[int | None, int]:
    """Let ``current`` be the version before the present one, or version ``to``: (version before, version now).

    The versions themselves stay.  Raises TopicsError when there is no such version, Busy while a retrain runs.
    """
    folder = Path(folder)
    if not published_versions(folder):
        raise TopicsError(f"{folder}: no versions here; name the folder that `topics retrain` publishes to")
    with lock(folder, "retraining", kind="retrain", wait=wait):
        present = published_versions(folder)
        link = folder / CURRENT
        name = Path(os.readlink(link)).name if link.is_symlink() else ""
        before = int(name) if name.isdecimal() else None
        if to is None:
            earlier = [n for n in present if before is not None and n < before]
            if not earlier:
                raise TopicsError(f"{folder}: no version before {before}; there are {', '.join(map(str, present))}")
            to = earlier[-1]
        if to not in present:
            raise TopicsError(f"{folder}: no version {to}; there are {', '.join(map(str, present))}")
        read_manifest(version_path(folder, to))
        point_to(folder, to)
    return before, to
