"""Versions of a model: ``versions/NNNN`` folders that never change, and ``current``, a link to one of them.

A version is copied beside, synced and renamed; ``current`` is replaced by one rename.  Whoever opens ``current`` gets
one whole version or the other: TopicModel follows the link once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from topicstream.durable import lock, sync_file, sync_folder
from topicstream.errors import TopicsError
from topicstream.model.store import read_manifest
from topicstream.retrain.align import write_ids

CURRENT = "current"


def versions(folder: Path) -> list[int]:
    """Numbers of the versions that are there, ascending."""
    place = folder / "versions"
    if not place.is_dir():
        return []
    return sorted(int(p.name) for p in place.iterdir() if p.name.isdigit() and p.is_dir())


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
    name = Path(os.readlink(link)).name
    if not name.isdigit() or not version_path(folder, int(name)).is_dir():
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
    final.parent.mkdir(exist_ok=True)
    beside = final.with_name(f".{final.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    manifest = read_manifest(run)
    for entry in manifest["files"].values():
        source = run / entry["name"]
        if source.is_dir():
            shutil.copytree(source, beside / source.name)
        else:
            shutil.copyfile(source, beside / source.name)
    if (run / "history.jsonl").exists():
        shutil.copyfile(run / "history.jsonl", beside / "history.jsonl")
    shutil.copyfile(run / "manifest.json", beside / "manifest.json")
    write_ids(beside, ids)
    for path in sorted(beside.rglob("*"), reverse=True):
        (sync_folder if path.is_dir() else sync_file)(path)
    sync_folder(beside)
    os.replace(beside, final)
    sync_folder(final.parent)
    return final


def point_to(folder: Path, number: int) -> None:
    """Let ``current`` be version ``number``, in one rename."""
    beside = folder / f".{CURRENT}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    os.symlink(os.path.join("versions", f"{number:04d}"), beside)
    os.replace(beside, folder / CURRENT)
    sync_folder(folder)


def prune(folder: Path, keep: int) -> list[int]:
    """Remove the oldest versions but ``keep``; never the current one or the one before it.  Returns those removed."""
    present = versions(folder)
    now = current(folder)
    held = {n for n in present if now is not None and n <= now}
    spared = set(sorted(held)[-2:]) | set(present[-keep:])
    gone = [n for n in present if n not in spared]
    for n in gone:
        hidden = folder / "versions" / f".{n:04d}.old"
        shutil.rmtree(hidden, ignore_errors=True)
        os.rename(version_path(folder, n), hidden)
    if (folder / "versions").is_dir():
        for stray in (folder / "versions").glob(".*"):  # also of a run that was killed here
            shutil.rmtree(stray, ignore_errors=True)
    return gone


def rollback(folder: str | Path = ".", *, to: int | None = None, wait: bool = False) -> tuple[int | None, int]:
    """Let ``current`` be the version before the present one, or version ``to``: (version before, version now).

    The versions themselves stay.  Raises TopicsError when there is no such version, Busy while a retrain runs.
    """
    folder = Path(folder)
    if not versions(folder):
        raise TopicsError(f"{folder}: no versions here; name the folder that `topics retrain` publishes to")
    with lock(folder, "retraining", wait=wait):
        present = versions(folder)
        link = folder / CURRENT
        name = Path(os.readlink(link)).name if link.is_symlink() else ""
        before = int(name) if name.isdigit() else None
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
