"""``topics compact``: a store that many appends have left in small blocks, written anew in full ones.

New blocks and a new documents' table are written beside the old ones, then the manifest is replaced, in one rename; what
it does not name any more is removed when nobody reads it (corpus/lease.py).  Killed at any instant, the store is the old
one or the new one, and the next command that writes to it removes what is left over.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.axes import MEMORY
from topicstream.corpus.axis_build import Contents, blank_names, derive
from topicstream.corpus.format import PARTS
from topicstream.corpus.reader import Corpus
from topicstream.errors import TopicsError
from topicstream.files import durable
from topicstream.files.plain import refuse_links
from topicstream.ingestion.storing import commit
from topicstream.ingestion.upkeep import retired
from topicstream.ingestion.upkeep.rewrite import Rewrite, live
from topicstream.progress import Progress, Silent, Told, listener


def compact(store: str | Path = "corpus.zarr", *, progress: Told = None) -> dict[str, Any]:
    """Merge small neighbouring storage blocks of a corpus store and purge the cells, rows and table entries of documents
    that were withdrawn or replaced.

    Readers that hold the store open go on with what they opened.  Documents, vocabulary and held-out split stay as they
    are; models keep their topics, but their block state does not fit the new blocks: the next update starts every block
    from the model.

    Returns plain values: ``compacted`` (False: there was nothing to do), ``blocks``, ``bytes`` and ``files`` (of the
    documents' table) before and after, ``documents_purged``, ``cells_purged``, ``waiting`` (old files that readers still
    hold; the next command that writes to the store removes them).  Raises StoreError, Busy (another writer), DoesNotFit
    (no room on the disk), TopicsError (an unfinished ingest).
    """
    path, progress = Path(store), listener(progress)
    Corpus.open(path, vectors=True).let_go()
    with durable.lock(path, "writing to", kind="corpus"):
        refuse_links(path)
        base = Corpus.open(path, vectors=True).to_change()
        refuse_unfinished(path)
        base.let_go()  # the writer's lock keeps what it reads
        commit.sweep(path, base.manifest)
        gone = base.removed()
        work = Rewrite(base, base.manifest["parts"], gone, progress)
        manifest = base.manifest
        if work.changes:
            manifest = write_anew(base, work, progress, {})
        commit.sweep(path, manifest)
        commit.plain_names(path, manifest)
        return _told(path, base.manifest, manifest, len(gone))


def refuse_unfinished(store: Path) -> None:
    """TopicsError where an ingest into the store was killed and has not been run again."""
    wip = store.with_name(store.name + ".wip")
    if (wip / "state.json").exists():
        raise TopicsError(f"{wip}: an unfinished ingest is there; run it again first, or remove that folder")


def gain(corpus: Corpus) -> tuple[int, int, int]:
    """What a compaction would bring: storage blocks fewer, blocks there are, removed documents to purge."""
    work = Rewrite(corpus, corpus.manifest["parts"], np.zeros((0, 4), np.int64), Silent())
    return work.spare, sum(len(corpus.manifest["parts"][p]["blocks"]) for p in PARTS), len(corpus.removed())


def write_anew(
    base: Corpus, work: Rewrite, progress: Progress, changes: dict[str, Any], forgotten: Any = None
) -> dict[str, Any]:
    """Write blocks and table, commit; the new manifest.  changes: members that take the place of the old manifest's
    (``n_words``, ``vocabulary``, ``files``, ``summary``, ``same_as``).  What was written is removed when something goes
    wrong before the commit."""
    path, old = base.path, base.manifest
    work.check_room()
    try:
        parts = work.write_blocks()
        commit.settle_arrays(path, base.weighted, parts)
        docs = work.write_documents(old.get("columns", {}), forgotten)
        manifest = _manifest(old, parts, docs, changes)
        manifest["axes"] = _axes(path, manifest, old.get("axes"), forgotten is not None)
        manifest["summary"] |= commit.axes_summary(manifest["axes"])
        durable.sync_folder(path)
        commit.commit_manifest(path, manifest)
        commit.plain_names(path, manifest)
    except BaseException:  # behind the commit nothing of it goes: it is named now
        with contextlib.suppress(OSError, TopicsError):
            commit.sweep(path, Corpus.open(path, vectors=True).manifest)
        raise
    finally:
        progress.close()
    return manifest


def _axes(path: Path, manifest: dict[str, Any], old: dict[str, Any] | None, blank: bool) -> dict[str, Any]:
    """Authors, labels and links for the new blocks; ids stay.  blank: names that no document has any more are taken out,
    too, and something without meaning put in their place."""
    facts = (manifest["parts"], manifest["docs"], manifest.get("columns", {}), manifest["fingerprint"])
    contents = Contents(path, *facts, manifest["generation"], np.zeros((0, 4), np.int64))
    axes = derive(contents, old, MEMORY)
    for entry in axes.values() if blank else ():
        if "names" in entry:
            entry["names"] = blank_names(path, entry["names"]["file"])
    return axes


def _manifest(
    old: dict[str, Any], parts: dict[str, Any], docs: list[dict[str, Any]], changes: dict[str, Any]
) -> dict[str, Any]:
    files = {k: v for k, v in changes.get("files", old["files"]).items() if k != "removed"}
    vocabulary = changes.get("vocabulary", old["vocabulary"])
    stored, cells = (sum(parts[p][k] for p in PARTS) for k in ("bytes", "cells"))
    summary = old["summary"] | {
        "documents": sum(parts[p]["docs"] for p in PARTS),
        "documents_training": parts["train"]["docs"],
        "documents_heldout": parts["heldout"]["docs"],
        "documents_removed": 0,
        "cells": cells,
        "tokens": sum(parts[p]["tokens"] for p in PARTS),
        "bytes": stored,
        "bytes_per_cell": round(stored / max(cells, 1), 4),
    }
    generation = old["generation"] + 1
    manifest = old | {"same_as": [*old.get("same_as", []), old["fingerprint"]]} | changes
    return manifest | {
        "generation": generation,
        "compacted": generation,
        "fingerprint": commit.fingerprint(vocabulary["hash"], parts, None),
        "parts": parts,
        "files": files,
        "docs": docs,
        "summary": summary | changes.get("summary", {}),
    }


def _told(path: Path, old: dict[str, Any], new: dict[str, Any], purged: int) -> dict[str, Any]:
    def both(figure: Any) -> list[int]:
        return [sum(figure(m["parts"][p]) for p in PARTS) for m in (old, new)]

    lost = sum(b["cells"] - live(b, "cells") for p in PARTS for b in old["parts"][p]["blocks"])
    return {
        "store": str(path),
        "compacted": new is not old,
        "blocks": both(lambda part: len(part["blocks"])),
        "bytes": both(lambda part: part["bytes"]),
        "files": [len(old["docs"]), len(new["docs"])],
        "documents_purged": purged if new is not old else 0,
        "cells_purged": lost if new is not old else 0,
        "waiting": retired.waiting(path, new),
    }
