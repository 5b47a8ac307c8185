"""Removal of files that a store's manifest does not name.

A killed writer leaves files that no manifest names, and each change leaves files of the earlier
state. The next writer removes both, unless a reader has the store open, perhaps in its earlier
state.

Readers hold a shared flock on the folder of the training blocks. A compaction writes new folders,
replaces the manifest, and removes the old folders under an exclusive flock, or leaves them to the
next writer while a reader is active. Without flock support active readers cannot be detected, and a
compaction may delete files in use.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

from topicstream.base import system
from topicstream.base.files import ownership as owned
from topicstream.base.files.ownership import beside, located, ours, seal
from topicstream.corpus.manifest import StoreManifest, part_folder


def folder_number(folder: str) -> int:
    """Return the number in a part's folder: 1 for ``train``, 7 for ``train-7``.

    A compaction writes the next one.
    """
    last = folder.rpartition("-")[2]
    return int(last) if last.isdecimal() else 1


def remove_stale_files(store: Path, manifest: StoreManifest) -> None:
    """Link current files to their plain names, and remove files outside the manifest.

    The caller holds the writer's lock.
    """
    for name, file in _plain_names(manifest).items():
        if name != file and not (
            (store / name).exists() and os.path.samefile(store / file, store / name)
        ):
            new = beside(store / name)
            owned.sweep(store, new.name)
            owned.link_file(store / file, new)
            owned.replace(new, store / name)
    owned.sweep(store)
    with contextlib.ExitStack() as stack:
        folders = [path for path in store.glob("train*") if path.is_dir()]
        if all([stack.enter_context(claim_folder(folder)) for folder in folders]):
            owned.discard_all(list(_unnamed(store, manifest)), store)
            owned.remove_empty(store)
    seal(store, manifest.fingerprint[:16])


def waits_for_readers(store: Path, manifest: StoreManifest) -> bool:
    """Return True if files of an earlier state are left for active readers."""
    return any(_unnamed(store, manifest))


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


def _unnamed(store: Path, manifest: StoreManifest) -> Iterator[Path]:
    """Yield our files that the manifest does not name."""
    parts = {part_folder(entry, part): entry.rows for part, entry in manifest.parts.items()}
    folders = {entry.folder for entry in manifest.axes.values()}
    named = {entry.file for entry in (*manifest.files.values(), *manifest.docs)} | {
        "manifest.json",
        "zarr.json",
    }
    named |= {*_plain_names(manifest), *_plain_names(manifest).values()}
    root = Path(located(store))
    for path in ours(store):
        name = path.relative_to(root).as_posix()
        first, *below = name.split("/")
        if (
            name in named
            or "/".join([first, *below[:1]]) in folders
            or (first[0] == "." and not below and path.suffix != ".tmp")
        ):
            continue
        rows = below[2:] and below[2].isdecimal() and int(below[2]) < parts.get(first, 0)
        if not rows and not (first in parts and path.name == "zarr.json"):
            yield path


_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Lease:
    """A reader's hold on a folder, released with the object or the process.

    granted: False if a writer is about to remove the folder, so that the manifest must be read
    again.
    """

    def __init__(self, folder: Path | None) -> None:
        self._fd = -1
        self.granted = True
        with contextlib.suppress(
            OSError
        ):  # a damaged store, or no flock there: reading says what is wrong
            if folder is not None:
                self._fd = os.open(folder, _FLAGS)
                self.granted = system.lock(self._fd, shared=True)

    def close(self) -> None:
        """Release the folder."""
        fd = self._fd
        self._fd = -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if os is not None:  # at the interpreter's end modules have gone, and the process lets go
            self.close()


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[bool]:
    """Lock a folder exclusively, and yield False if another process reads from it.

    Yields True if there is no folder. No reader can begin while the lock is held.
    """
    fd = -1
    free = True
    with contextlib.suppress(OSError):
        fd = os.open(folder, _FLAGS)
        free = system.lock(fd)
        if not free:
            # perhaps only a store that this process has dropped, but not collected yet
            gc.collect()
            free = system.lock(fd)
    try:
        yield free
    finally:
        if fd >= 0:
            os.close(fd)
