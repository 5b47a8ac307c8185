"""Documents taken out of a committed store: tombstones.

Blocks are never rewritten.  ``removed.npy`` (int64[n, 4]: document number, part, block, row) lists the documents that
readers see as empty; the manifest marks the blocks touched with the generation of the change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import PARTS
from topicstream.corpus.reader import Corpus
from topicstream.files import owned
from topicstream.files.durable import sync_file
from topicstream.tokens.vocabulary import TokenVocabulary


class Removal:
    """The documents of a store that are gone: those of earlier appends, and those that this one withdraws."""

    def __init__(self, base: Corpus | None) -> None:
        self._base = base
        self._before = base.removed() if base is not None else np.zeros((0, 4), np.int64)
        self._new = np.zeros((0, 4), np.int64)
        self._changes: dict[tuple[int, int], dict[str, Any]] = {}

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of all documents that are gone, int64."""
        return np.concatenate((self._before[:, 0], self._new[:, 0]))

    @property
    def listed(self) -> np.ndarray:
        """All documents that are gone, those of earlier appends first: int64[n, 4] as of ``Corpus.removed``."""
        return np.concatenate((self._before, self._new))

    @property
    def training(self) -> int:
        """Training documents of the store that are left."""
        return self._left(0)

    @property
    def heldout(self) -> int:
        """Held-out documents of the store that are left."""
        return self._left(1)

    def _left(self, part: int) -> int:
        if self._base is None:
            return 0
        gone = np.concatenate((self._before[:, 1], self._new[:, 1]))
        return int(self._base.part(bool(part))["docs"] - int((gone == part).sum()))

    def take(self, numbers: np.ndarray) -> None:
        """Withdraw documents by number (ascending)."""
        if self._base is None or not len(numbers):
            return
        found, at = [], 0
        for batch in read_documents(self._base.path, self._base.manifest["docs"], ["part", "block", "row"]):
            here = numbers[(numbers >= at) & (numbers < at + len(batch))] - at
            if len(here):
                rows = batch.take(here)
                part = np.array([PARTS.index(p) for p in rows.column(0).to_pylist()], np.int64)
                columns = (here + at, part, rows.column(1).to_numpy(), rows.column(2).to_numpy())
                found.append(np.stack([np.asarray(c, np.int64) for c in columns], axis=1))
            at += len(batch)
        self._new = np.concatenate(found)

    def subtract(self, vocabulary: TokenVocabulary) -> None:
        """Take the counts of the withdrawn training documents out of the vocabulary's; note what each block loses."""
        assert self._base is not None
        vocabulary.counts, vocabulary.df = vocabulary.counts.copy(), vocabulary.df.copy()  # Parquet's are read-only
        for part, block in sorted({(int(p), int(b)) for p, b in self._new[:, 1:3]}):
            rows = self._new[(self._new[:, 1] == part) & (self._new[:, 2] == block), 3]
            raw = self._base.decode(block, heldout=bool(part))
            indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(raw.lengths, dtype=np.int64)))
            lost: dict[str, Any] = {"docs": len(rows), "cells": 0, "tokens": 0}
            for row in rows:
                a, b = int(indptr[row]), int(indptr[row + 1])
                ids = np.cumsum(raw.gaps[a:b], dtype=np.int64)
                counts = raw.counts[a:b]
                lost["cells"] += b - a
                if self._base.vectors:
                    lost["tokens"] += 1
                else:
                    lost["tokens"] += float(counts.sum(dtype=np.float64)) if self._base.weighted else int(counts.sum())
                if part == 0:
                    vocabulary.counts[ids] -= 1 if self._base.weighted else counts
                    vocabulary.df[ids] -= 1
            raw.close()
            self._changes[part, block] = lost

    def apply(self, parts: dict[str, Any] | None, generation: int) -> dict[str, Any] | None:
        """The parts' entries with the blocks that changed marked."""
        if parts is None:
            return None
        new = {name: {**entry, "blocks": list(entry["blocks"])} for name, entry in parts.items()}
        for (part, block), lost in self._changes.items():
            blocks = new[PARTS[part]]["blocks"]
            before = blocks[block].get("removed", {"docs": 0, "cells": 0, "tokens": 0})
            total = {k: before[k] + lost[k] for k in lost}
            blocks[block] = {**blocks[block], "removed": total, "changed": generation}
        return new

    def save(self, folder: Path, name: str) -> str | None:
        """Write the list; its name, or None when nothing was withdrawn now."""
        if not len(self._new):
            return None
        with owned.create(folder / name) as f:
            np.save(f, self.listed)
        sync_file(folder / name)
        return name
