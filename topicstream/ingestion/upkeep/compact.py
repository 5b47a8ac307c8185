"""``topics compact``: small blocks of many appends rewritten as full ones (rewrite.py)."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TypedDict

import numpy as np

from topicstream.base.progress import ProgressLike, listener
from topicstream.corpus.format import PARTS
from topicstream.corpus.manifest import PartEntry, StoreManifest
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import outdated_files
from topicstream.ingestion.upkeep.rewrite import Rewrite, open_for_writing


class Compaction(TypedDict):
    """Result of ``compact``: pairs are before and after."""

    store: str
    compacted: bool
    blocks: list[int]
    bytes: list[int]
    files: list[int]
    documents_purged: int
    cells_purged: int
    waiting: bool


def compact(store: str | Path = "corpus.zarr", *, progress: ProgressLike = None) -> Compaction:
    """Merge small neighbouring storage blocks and purge documents that were withdrawn or replaced.

    Documents, vocabulary and held-out split stay as they are. The old files stay for three days, so
    that whatever reads the store can go on. Models keep their topics, but an unfinished training
    cannot be resumed.

    Parameters
    ----------
    store
        The store.
    progress
        False: silent; a callable or a ``Progress`` that receives progress messages.

    Returns
    -------
    dict
        ``compacted`` (False: there was nothing to do), ``blocks``, ``bytes`` and ``files`` (of the
        documents' table) before and after, ``documents_purged``, ``cells_purged``, and ``waiting``:
        there are old files, which the first command that writes to the store after three days
        removes.

    Raises
    ------
    StoreError
        If the store is damaged.
    Busy
        If another command writes to it.
    DoesNotFit
        If the disk has no room for the new blocks.
    TopicsError
        If an ingest into it is unfinished.

    Examples
    --------
    >>> topicstream.compact("corpus.zarr", progress=False)["compacted"]
    False
    """
    path = Path(store)
    progress = listener(progress)
    with open_for_writing(path) as base:
        removed = base.removed()
        rewrite = Rewrite(base, removed)
        manifest = base.manifest
        if rewrite.changes_store:
            manifest = rewrite.commit(progress)
        return _summarize(path, base.manifest, manifest, len(removed))


def compaction_gain(corpus: Corpus) -> tuple[int, int, int]:
    """Tell what a compaction would do to a store.

    Returns
    -------
    saved, blocks, purged
        Storage blocks that it would save, blocks of the store, and removed documents that it would
        purge.
    """
    rewrite = Rewrite(corpus, np.zeros((0, 4), np.int64))
    blocks = _sum_parts(corpus.manifest, _count_blocks)
    return rewrite.blocks_saved, blocks, len(corpus.removed())


def _sum_parts(manifest: StoreManifest, figure: Callable[[PartEntry], int]) -> int:
    """Add up a figure of both parts."""
    return sum(figure(manifest.parts[part]) for part in PARTS)


def _count_blocks(part: PartEntry) -> int:
    """Count the storage blocks of a part."""
    return len(part.blocks)


def _count_removed_cells(part: PartEntry) -> int:
    """Count the cells of removed documents in the blocks of a part."""
    return sum(block.removed.cells for block in part.blocks)


def _summarize(path: Path, old: StoreManifest, new: StoreManifest, purged: int) -> Compaction:
    """Return the result of a compaction, which changed nothing if the manifest is the old one."""
    compacted = new is not old
    return {
        "store": str(path),
        "compacted": compacted,
        "blocks": [_sum_parts(old, _count_blocks), _sum_parts(new, _count_blocks)],
        "bytes": [_sum_parts(manifest, attrgetter("bytes")) for manifest in (old, new)],
        "files": [len(old.docs), len(new.docs)],
        "documents_purged": purged if compacted else 0,
        "cells_purged": _sum_parts(old, _count_removed_cells) if compacted else 0,
        "waiting": any(outdated_files(path, new)),
    }
