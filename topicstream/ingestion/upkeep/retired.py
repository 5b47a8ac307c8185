"""Folders of blocks that no manifest names: those that a compaction has put aside, and those of one that was killed.

The parts of a store lie in ``train`` and ``heldout``, after the first compaction in ``train-2`` and ``heldout-2``, and so
on: the number only grows.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topicstream.corpus.format import PARTS, part_folder
from topicstream.corpus.lease import alone
from topicstream.files import owned


def number_of(folder: str) -> int:
    """``train`` -> 1, ``train-7`` -> 7."""
    last = folder.rpartition("-")[2]
    return int(last) if last.isdecimal() else 1


def _unnamed(store: Path, manifest: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
    """Folders of blocks that the manifest does not name, and whether they are older than those it does."""
    for part in PARTS:
        named = part_folder(manifest["parts"][part], part)
        for path in sorted(store.glob(f"{part}*")):
            if path.name != named and re.fullmatch(rf"{part}(-[1-9]\d*)?", path.name) and path.is_dir():
                yield path, number_of(path.name) < number_of(named)


@contextlib.contextmanager
def readers_gone(store: Path, manifest: dict[str, Any]) -> Iterator[tuple[bool, bool]]:
    """Whether nobody reads the store as it was before its last compaction, and whether nobody reads it at all; nobody can
    begin to inside."""
    with contextlib.ExitStack() as stack:
        older = [path for path, before in _unnamed(store, manifest) if before]
        gone = all([stack.enter_context(alone(path)) for path in older])
        present = store / part_folder(manifest["parts"]["train"], "train")
        yield gone, gone and stack.enter_context(alone(present))


def remove_folders(store: Path, manifest: dict[str, Any], gone: bool) -> None:
    """Remove the folders that the manifest does not name; older ones only when their readers are ``gone``."""
    for path, older in list(_unnamed(store, manifest)):
        if gone or not older:
            owned.remove_within(path, "corpus")


def waiting(store: Path, manifest: dict[str, Any]) -> bool:
    """Whether blocks are left of the store as it was before, for readers that hold it open."""
    return any(True for _ in _unnamed(store, manifest))
