"""The last half of an ingest: from the spools to a store that is committed by one rename.

A new store is built in the working folder and renamed into place.  An append writes files that no manifest mentions into
the store (higher rows, new parts, files of the new generation) and replaces the manifest last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.documents import PlacedDocuments
from topicstream.corpus.format import PARTS
from topicstream.corpus.manifest import (
    AxisEntry,
    BlockEntry,
    PartEntry,
    StoreFile,
    part_of,
)
from topicstream.files import owned
from topicstream.files.durable import exchange_folders, sync_folder
from topicstream.files.ownership import claim, refuse_strangers
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing.decide import DROPPED, Decision, piece_metadata
from topicstream.progress import Progress


def fingerprint(vocabulary_hash: str, parts: Mapping[str, PartEntry], removed: StoreFile | None) -> str:
    """sha256 over the vocabulary and the blocks' checksums in order: equal for stores of equal content."""
    digest = hashlib.sha256(vocabulary_hash.encode())
    for part in PARTS:
        for block in parts[part].blocks:
            crcs = [crc for kind in sorted(block.files) for _, crc in block.files[kind]]
            digest.update(np.array([block.docs, block.cells, *crcs], "<i8").tobytes())
    if removed is not None:
        digest.update(removed.crc32c.to_bytes(4, "little"))
    return digest.hexdigest()


def write_documents(
    journal: Journal, decision: Decision, writer: PlacedDocuments, progress: Progress
) -> list[StoreFile]:
    """Write the documents' table of this ingest; the manifest's entries of its files."""
    for i in range(len(journal.docs)):
        kind = decision.classes[i]
        kept = np.flatnonzero(kind != DROPPED)
        table = piece_metadata(journal.docs.read(i))
        writer.place(table if len(kept) == len(kind) else table.take(kept), kind[kept])
        progress.step("writing documents", i + 1, len(journal.docs), "piece")
    return writer.finish()


def parts_summary(parts: Mapping[str, PartEntry]) -> dict[str, Any]:
    """What the summary says of the blocks."""
    left = {part: sum(block.left.docs for block in parts[part].blocks) for part in PARTS}
    cells, stored = sum(parts[p].cells for p in PARTS), sum(parts[p].bytes for p in PARTS)
    return {
        "documents": sum(left.values()),
        "documents_training": left["train"],
        "documents_heldout": left["heldout"],
        "documents_removed": sum(parts[p].docs for p in PARTS) - sum(left.values()),
        "cells": cells,
        "tokens": sum(parts[p].tokens for p in PARTS),
        "bytes": stored,
        "bytes_per_cell": round(stored / max(cells, 1), 4),
    }


def axes_summary(axes: Mapping[str, AxisEntry]) -> dict[str, Any]:
    """What the summary says of the axes: their sizes, and what became of the links."""
    sizes = {name: entry.size for name, entry in axes.items() if name != "links"}
    return {"axes": sizes, "links": axes["links"].figures if "links" in axes else None}


def summarise_parts(
    old: Mapping[str, PartEntry], new: tuple[list[BlockEntry], list[BlockEntry]]
) -> dict[str, PartEntry]:
    """The parts' entries: the old blocks, then the new ones, in the old folder."""
    return {
        part: part_of([*old[part].blocks, *blocks], old[part].folder) if part in old else part_of(blocks)
        for part, blocks in zip(PARTS, new, strict=True)
    }


def put_in_place(new: Path, out: Path) -> None:
    """Rename ``new`` to ``out``; a store that is there is exchanged in one step and then removed.  What others have put
    into it stops this before anything has changed."""
    if out.exists() and any(out.iterdir()):
        claim(out, "corpus")
        refuse_strangers(out)
        exchange_folders(new, out)
        owned.remove(new, "corpus")
    else:
        owned.move_folder(new, out)
    sync_folder(out.parent)
