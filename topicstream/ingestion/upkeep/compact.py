"""``topics compact``: small blocks of many appends rewritten as full ones (rewrite.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import numpy as np

from topicstream.base.progress import ProgressLike, listener
from topicstream.corpus.format import PARTS
from topicstream.corpus.manifest import PartEntry, StoreManifest
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sweep import outdated_files
from topicstream.ingestion.upkeep.rewrite import Rewrite, writing


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
        For a damaged store.
    Busy
        While another command writes to it.
    DoesNotFit
        Where the disk has no room for the new blocks.
    TopicsError
        While an ingest into it is unfinished.

    Examples
    --------
    >>> topicstream.compact("corpus.zarr", progress=False)["compacted"]
    False
    """
    path = Path(store)
    progress = listener(progress)
    with writing(path) as base:
        gone = base.removed()
        work = Rewrite(base, gone)
        manifest = base.manifest
        if work.changes:
            manifest = work.commit(progress)
        return _summarize(path, base.manifest, manifest, len(gone))


def gain(corpus: Corpus) -> tuple[int, int, int]:
    """Return what a compaction would bring.

    Storage blocks fewer, blocks there are, removed documents to purge.
    """
    work = Rewrite(corpus, np.zeros((0, 4), np.int64))
    return (
        work.spare,
        sum(len(corpus.manifest.parts[p].blocks) for p in PARTS),
        len(corpus.removed()),
    )


def _summarize(path: Path, old: StoreManifest, new: StoreManifest, purged: int) -> Compaction:
    def both(figure: Callable[[PartEntry], int]) -> list[int]:
        return [sum(figure(m.parts[p]) for p in PARTS) for m in (old, new)]

    lost = sum(b.removed.cells for p in PARTS for b in old.parts[p].blocks)
    return {
        "store": str(path),
        "compacted": new is not old,
        "blocks": both(lambda part: len(part.blocks)),
        "bytes": both(lambda part: part.bytes),
        "files": [len(old.docs), len(new.docs)],
        "documents_purged": purged if new is not old else 0,
        "cells_purged": lost if new is not old else 0,
        "waiting": any(outdated_files(path, new)),
    }
