"""Documents taken out of a committed store: tombstones.

Blocks are never rewritten.  ``removed.npy`` (int64[n, 4]: document number, part, block, row) lists
                             the documents that
readers see as empty; the manifest marks the blocks touched with the generation of the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import PARTS
from topicstream.corpus.manifest import PartEntry, Removed, part_of
from topicstream.corpus.reader import Corpus
from topicstream.files import owned
from topicstream.files.durable import sync
from topicstream.tokens.vocabulary import TokenVocabulary


class Removal:
    """The documents of a store that are gone: those of earlier appends, and those that this one
    withdraws.
    """

    def __init__(self, base: Corpus | None) -> None:
        self._base = base
        self._before = base.removed() if base is not None else np.zeros((0, 4), np.int64)
        self._new = np.zeros((0, 4), np.int64)
        self._changes: dict[tuple[int, int], Removed] = {}

    @property
    def numbers(self) -> np.ndarray:
        """Numbers of all documents that are gone, int64."""
        return self.listed[:, 0]

    @property
    def listed(self) -> np.ndarray:
        """All documents that are gone, those of earlier appends first: int64[n, 4] as of
        ``Corpus.removed``.
        """
        return np.concatenate((self._before, self._new))

    @property
    def training(self) -> int:
        """Training documents of the store that are left."""
        return (
            0
            if self._base is None
            else self._base.part().docs - int((self.listed[:, 1] == 0).sum())
        )

    def take(self, numbers: np.ndarray) -> None:
        """Withdraw documents by number (ascending)."""
        if self._base is None or not len(numbers):
            return
        taken = [self._new]
        for every, batch in read_documents(
            self._base.path, self._base.manifest.docs, ["part", "block", "row"]
        ):
            matches = np.flatnonzero(np.isin(every, numbers))
            part = pc.index_in(batch["part"].cast(pa.string()), value_set=pa.array(PARTS))
            columns = [np.asarray(c)[matches] for c in (part, batch["block"], batch["row"])]
            taken.append(np.stack([every[matches], *columns], axis=1).astype(np.int64))
        self._new = np.concatenate(taken)

    def subtract(self, vocabulary: TokenVocabulary) -> TokenVocabulary:
        """The vocabulary without the counts of the withdrawn training documents; what each block
        loses is noted.
        """
        assert self._base is not None
        counts, df = vocabulary.counts, vocabulary.df
        for part, block in sorted({(int(p), int(b)) for p, b in self._new[:, 1:3]}):
            raw = self._base.decode(block, heldout=bool(part))
            rows = self._new[(self._new[:, 1] == part) & (self._new[:, 2] == block), 3]
            lost = raw.matrix(len(vocabulary))[rows]
            tokens = lost.data.sum(dtype=np.float64 if self._base.weighted else np.int64).item()
            self._changes[part, block] = Removed(
                docs=len(rows), cells=lost.nnz, tokens=len(rows) if self._base.width else tokens
            )
            if part == 0:
                gone = np.bincount(lost.indices, minlength=len(vocabulary))
                counts = counts - (
                    gone if self._base.weighted else lost.sum(axis=0, dtype=np.int64)
                )
                df = df - gone
        return TokenVocabulary.of(vocabulary.words, counts, df)

    def apply(self, parts: Mapping[str, PartEntry], generation: int) -> dict[str, PartEntry]:
        """The parts' entries with the blocks that changed marked."""
        blocks = {name: list(entry.blocks) for name, entry in parts.items()}
        for (part, block), lost in self._changes.items():
            entry = blocks[PARTS[part]][block]
            gone = entry.removed
            total = Removed(
                docs=gone.docs + lost.docs,
                cells=gone.cells + lost.cells,
                tokens=gone.tokens + lost.tokens,
            )
            blocks[PARTS[part]][block] = msgspec.structs.replace(
                entry, removed=total, changed=generation
            )
        return {name: part_of(blocks[name], entry.folder) for name, entry in parts.items()}

    def save(self, folder: Path, name: str) -> str | None:
        """Write the list; its name, or None when nothing was withdrawn now."""
        if not len(self._new):
            return None
        with owned.create(folder / name) as f:
            np.save(f, self.listed)
        sync(folder / name)
        return name
