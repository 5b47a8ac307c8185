"""Versions of a model: folders ``versions/NNNN`` that never change, and the link ``current``.

A version is copied beside its place, flushed and renamed, and ``current`` is replaced in one
rename. A reader of ``current`` gets one whole version or the other: TopicModel follows the link
once.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from topicstream.base import plugins
from topicstream.base.errors import NotOurs, TopicsError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock, sync
from topicstream.base.files.marker import kind_of
from topicstream.base.files.ownership import claim, temporary_path
from topicstream.base.progress import Progress
from topicstream.base.records import write_record
from topicstream.base.text import counted
from topicstream.model.manifest import IDS, TopicIds, read_manifest
from topicstream.model.parts import model_parts
from topicstream.model.store import files_of
from topicstream.retraining.config import Config
from topicstream.retraining.state import STATE, read_retrain_state

CURRENT = "current"


def published_versions(folder: Path) -> list[int]:
    """List the numbers of the existing versions, ascending."""
    place = folder / "versions"
    if not place.is_dir():
        return []
    return sorted(int(p.name) for p in place.iterdir() if p.name.isdecimal() and p.is_dir())


def version_path(folder: Path, number: int) -> Path:
    """Return the folder of a version, ``versions/NNNN``."""
    return folder / "versions" / f"{number:04d}"


def run_path(folder: Path, number: int) -> Path:
    """Return the folder in which a version is trained, ``runs/NNNN``."""
    return folder / "runs" / f"{number:04d}"


def current_version(folder: Path) -> int | None:
    """Return the number of the version that ``current`` points to, if it exists.

    Raises
    ------
    TopicsError
        If it points to anything else.
    """
    link = folder / CURRENT
    if not link.is_symlink():
        if link.exists():
            raise TopicsError(f"{link}: is not a link made by `topics retrain`; move it away")
        return None
    place, name = os.path.split(os.path.realpath(link))
    if (
        os.path.realpath(place) != os.path.realpath(folder / "versions")
        or not name.isdecimal()
        or not version_path(folder, int(name)).is_dir()
    ):
        raise TopicsError(
            f"{link}: points to {os.readlink(link)}, which is no version of {folder}; remove "
            f"the link, and `topics rollback --to N` makes it again"
        )
    return int(name)


def store_version(run: Path, folder: Path, number: int, ids: TopicIds) -> Path:
    """Copy the model of a finished run to ``versions/NNNN``, unless it is there already.

    Checkpoints and block memory are left out. A folder there that is not ours is refused.
    """
    final = version_path(folder, number)
    if kind_of(final) == "version":
        return final
    claim(final.parent, "versions")
    owned.sweep(final.parent)  # of a run that was killed
    beside = temporary_path(final)
    claim(beside, "version")
    names = [entry.name for entry in files_of(read_manifest(run))] + [
        "history.jsonl",
        "manifest.json",
    ]
    for part in model_parts().values():
        names += part.files(run)
    for source in (run / name for name in names if (run / name).exists()):
        owned.copy(source, beside / source.name)
    write_record(beside / IDS, ids)
    for path in sorted(beside.rglob("*"), reverse=True):
        sync(path)
    sync(beside)
    owned.move_folder(beside, final)
    sync(final.parent)
    return final


def point_to(folder: Path, number: int) -> None:
    """Point ``current`` to a version, in one rename."""
    owned.point_link(folder / CURRENT, os.path.join("versions", f"{number:04d}"))
    sync(folder)


def prune(folder: Path, keep: int) -> None:
    """Remove all versions but the ``keep`` newest.

    The current one, the one before it, and those with files of others stay.
    """
    present = published_versions(folder)
    current = current_version(folder)
    up_to_current = {n for n in present if current is not None and n <= current}
    spared = set(sorted(up_to_current)[-2:]) | set(present[-keep:])
    for number in (n for n in present if n not in spared):
        with contextlib.suppress(NotOurs):  # others have put something into it: it stays
            owned.remove(version_path(folder, number), "version")


def rollback(
    folder: str | Path = ".", *, to: int | None = None, wait: bool = False
) -> tuple[int | None, int]:
    """Publish the version before the present one, or version ``to``, again.

    Parameters
    ----------
    folder
        The folder of a retrain.
    to
        Number of the version; None: the one before the present one.
    wait
        Wait while a retrain runs, instead of raising Busy.

    Returns
    -------
    tuple of int
        Version before, version now. The versions themselves stay, and ``topics retrain`` leaves an
        earlier one in its place until it runs with ``--release`` (or, by [when] after_rollback,
        until there are new files).

    Raises
    ------
    TopicsError
        If there is no such version.
    Busy
        If a retrain runs.

    Examples
    --------
    >>> topicstream.rollback(".")
    Traceback (most recent call last):
    topicstream.errors.TopicsError: ...
    """
    folder = Path(folder)
    if not published_versions(folder):
        raise TopicsError(
            f"{folder}: contains no versions; name the folder that `topics retrain` publishes to"
        )
    with lock(folder, "retraining", kind="retrain", wait=wait):
        present = published_versions(folder)
        link = folder / CURRENT
        name = Path(os.readlink(link)).name if link.is_symlink() else ""
        before = int(name) if name.isdecimal() else None
        if to is None:
            to = max((n for n in present if before is not None and n < before), default=None)
        if to is None or to not in present:
            raise TopicsError(
                f"{folder}: no version {f'before {before}' if to is None else to}; there are "
                f"{', '.join(map(str, present))}"
            )
        read_manifest(version_path(folder, to))
        write_record(
            folder / STATE,
            replace(read_retrain_state(folder), held=None if to == present[-1] else to),
        )
        point_to(folder, to)
    return before, to


def learn_classifier(run: Path, config: Config, log: Progress) -> dict[str, Any]:
    """Learn the classifier of a new version, and return its figures for the summary."""
    train_classifier = plugins.find(plugins.FUNCTIONS, "train_classifier", "[publish] classifier")
    train = config.train
    learned = train_classifier(run, config.corpus, threads=train.threads, mem_limit=train.mem_limit)
    log.say(
        f"classifier: {counted(learned['documents'], 'document')}, "
        f"{learned['divergence']:.3f} nats from theta"
    )
    return {name: learned[name] for name in ("documents", "divergence", "temperature")}
