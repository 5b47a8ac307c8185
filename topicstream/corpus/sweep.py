"""What lies in a store beside what its manifest names, and its removal.

A killed writer leaves files that no manifest has come to name; they go with the next writer.  Files of earlier generations
stay as long as somebody reads the store, who may have opened it as it was then.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from topicstream.corpus.documents import next_part
from topicstream.corpus.lease import alone
from topicstream.corpus.manifest import StoreManifest, part_folder
from topicstream.files import owned
from topicstream.files.ownership import seal, temporary

_WRITTEN = re.compile(
    r"(?P<kind>vocab|pruned|removed|rejects|axes/[a-z]+|docs/part|train|heldout)(-(?P<number>\d+))?(\.[a-z]+|/.+)"
)
_TEMPORARY = re.compile(r"(.*/)?(\..+\.tmp|.+\.partial)(/.+)?")


class Age(Enum):
    """Of a file that no manifest names: left by a killed writer, for readers from before the last compaction, for readers of
    the present blocks."""

    LEFT_OVER, BEFORE, PRESENT = range(3)


def folder_number(folder: str) -> int:
    """Of the folder of a part: ``train`` -> 1, ``train-7`` -> 7.  A compaction writes the next one."""
    last = folder.rpartition("-")[2]
    return int(last) if last.isdecimal() else 1


def settle(store: Path, manifest: StoreManifest) -> None:
    """Give the latest files their plain names, and remove what the manifest does not name.  The caller holds the writer's
    lock."""
    for name, file in _plain_names(manifest).items():
        if name != file and not ((store / name).exists() and os.path.samefile(store / file, store / name)):
            beside = temporary(store / name)
            owned.link_file(store / file, beside)
            owned.replace(beside, store / name)
    with contextlib.ExitStack() as stack:
        present = store / part_folder(manifest.parts["train"], "train")
        folders = [path for path in sorted(store.glob("train*")) if path.is_dir() and path != present]
        removable = {Age.LEFT_OVER}
        if all([stack.enter_context(alone(folder)) for folder in folders]):
            removable |= {Age.BEFORE} | ({Age.PRESENT} if stack.enter_context(alone(present)) else set())
        for path, age in list(_unnamed(store, manifest)):
            if age in removable:
                owned.discard(path)
        owned.remove_empty(store)
    seal(store, manifest.fingerprint[:16])


def waits_for_readers(store: Path, manifest: StoreManifest) -> bool:
    """Whether files of the store as it was before its last compaction are left, for readers that hold it open."""
    return any(age is Age.BEFORE for _, age in _unnamed(store, manifest))


def _plain_names(manifest: StoreManifest) -> dict[str, str]:
    """Plain name -> file of the words and the names of axes, which stock readers open by their plain names."""
    names = {f"axes/{axis}.parquet": entry.names.file for axis, entry in manifest.axes.items() if entry.names is not None}
    words = {f"{kind}.parquet": manifest.files[kind].file for kind in ("vocab", "pruned") if kind in manifest.files}
    return words | names


def _unnamed(store: Path, manifest: StoreManifest) -> Iterator[tuple[Path, Age]]:
    """The files that a writer made and the manifest does not name, and who may need them."""
    parts = {part_folder(entry, part): entry.rows for part, entry in manifest.parts.items()}
    newest = {folder.partition("-")[0]: folder_number(folder) for folder in parts}
    newest["docs/part"] = next_part(manifest.docs) - 1
    named = {entry.file for entry in (*manifest.files.values(), *manifest.docs)}
    named |= {*_plain_names(manifest), *_plain_names(manifest).values()}
    folders = {entry.folder for entry in manifest.axes.values()}
    for path in store.rglob("*"):
        name = path.relative_to(store).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if _TEMPORARY.fullmatch(name):
            yield path, Age.LEFT_OVER
            continue
        made = _WRITTEN.fullmatch(name)
        if made is None or name in named or (name.rpartition("/")[2] == "zarr.json" and name.partition("/")[0] in parts):
            continue
        first, *below = name.split("/")
        if "/".join([first, *below[:1]]) in folders:
            continue
        if first in parts and below[2:] and below[2].isdecimal() and int(below[2]) < parts[first]:
            continue
        kind, number = made["kind"], int(made["number"] or 1)
        if first in parts or kind == "rejects" or number > newest.get(kind, manifest.generation):
            yield path, Age.LEFT_OVER  # rows behind the last one; no reader opens rejects
        else:
            yield path, Age.BEFORE if kind in newest or number < manifest.compacted else Age.PRESENT
