"""Documents of a corpus store, in the order in which they were ingested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.documents import read_documents
from topicstream.corpus.format import from_gaps
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.inference.documents import BLOCK_DOCS, with_columns
from topicstream.kernels.arrays import Array, Ints, Longs
from topicstream.kernels.jit import kernel

PARTS = ("train", "heldout")


@dataclass(frozen=True)
class Cells:
    """Documents as cells over the store's own words; ids: large_string[D], the rest as in a Block."""

    ids: pa.Array
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray


@kernel
def _lengths(starts: Longs, picked: Longs, slots: Longs, indptr: Longs) -> None:
    for i in range(len(picked)):
        indptr[slots[i] + 1] = starts[picked[i] + 1] - starts[picked[i]]


@kernel
def _copy(
    starts: Longs,
    words: Ints,
    counts: Array,
    picked: Longs,
    slots: Longs,
    indptr: Longs,
    out_words: Ints,
    out_counts: Array,
) -> None:
    for i in range(len(picked)):
        at, to = starts[picked[i]], indptr[slots[i]]
        for j in range(starts[picked[i] + 1] - at):
            out_words[to + j] = words[at + j]
            out_counts[to + j] = counts[at + j]


class _Part:
    """One part of a store, read forwards a storage block at a time with the next one being decoded."""

    def __init__(self, corpus: Corpus, heldout: bool, pool: ThreadPoolExecutor) -> None:
        self._corpus, self._heldout, self._pool = corpus, heldout, pool
        parts = [corpus.part(p)["docs"] for p in (False, True)]
        self._ahead = parts[heldout] == max(parts)  # only of the larger part: a block takes 8 MiB
        docs = [b["docs"] for b in corpus.part(heldout)["blocks"]]
        self.first = np.concatenate(([0], np.cumsum(np.array(docs, np.int64)))).astype(np.int64)
        self.at = -1
        self._next: Future[tuple[np.ndarray, np.ndarray, Any]] | None = None
        self.starts = np.zeros(1, np.int64)
        self.words, self.counts = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._raw: Any = None
        self._past: list[Any] = []

    def _decode(self, storage: int) -> tuple[np.ndarray, np.ndarray, Any]:
        raw = self._corpus.decode(storage, self._heldout)
        words = raw.gaps.view(np.int32)  # in place: a gap is read before its id is written
        marker = np.zeros(self._corpus.n_words, np.uint8)
        if from_gaps(raw.gaps, raw.lengths, 0, len(raw.lengths), 0, words, marker) < 0:
            raise StoreError(f"{self._corpus.path}: block {storage}: a word id past the vocabulary; ingest again")
        starts = np.zeros(len(raw.lengths) + 1, np.int64)
        np.cumsum(raw.lengths, out=starts[1:])
        return starts, words, raw

    def turn_to(self, storage: int) -> None:
        """Bring one storage block into place; blocks ascend."""
        if storage == self.at:
            return
        if storage < self.at:
            raise StoreError(f"{self._corpus.path}/docs: documents are not in the order of the blocks; ingest again")
        ready = self._next.result() if self._next is not None and storage == self.at + 1 else self._decode(storage)
        if self._raw is not None:
            self._past.append(self._raw)
        self.starts, self.words, self._raw = ready
        self.counts = self._raw.counts
        self.at, self._next = storage, None
        if not self._ahead:  # now and then this part has two blocks in use: the third one's 8 MiB are not kept for it
            self._corpus.release()

    def let_go(self) -> None:
        """What was taken from the storage blocks before this one has been copied."""
        while self._past:
            self._past.pop().close()

    def read_ahead(self) -> None:
        """Begin to decode the next storage block; while nobody holds the one before this, into its memory."""
        if self._ahead and self._next is None and 0 <= self.at < len(self.first) - 2:
            self._next = self._pool.submit(self._decode, self.at + 1)


def _places(corpus: Corpus, columns: Sequence[str]) -> Iterator[tuple[pa.Array, np.ndarray, np.ndarray, np.ndarray]]:
    """(ids, part 0 or 1, storage block, row) of consecutive documents in the order of the ingest; without a documents'
    table the documents' numbers are their ids, the training part first."""
    listed = corpus.manifest.get("docs")
    if not listed:
        number = 0
        for p, heldout in enumerate((False, True)):
            for s, block in enumerate(corpus.part(heldout)["blocks"]):
                for row in range(0, block["docs"], BLOCK_DOCS):
                    n = min(BLOCK_DOCS, block["docs"] - row)
                    ids = pc.cast(pa.array(np.arange(number, number + n)), pa.large_string())
                    yield ids, np.full(n, p), np.full(n, s), np.arange(row, row + n)
                    number += n
        return
    first, gone = 0, corpus.removed()[:, 0]
    for batch in read_documents(corpus.path, listed, ["id", *columns, "part", "block", "row"]):
        there = np.isin(np.arange(first, first + len(batch)), gone, invert=True)
        first += len(batch)
        part = batch.column("part").cast(pa.string())
        block, row = (
            pc.fill_null(batch.column(c), -1).to_numpy(zero_copy_only=False).astype(np.int64) for c in ("block", "row")
        )
        if not pc.all(pc.is_in(part, value_set=pa.array(PARTS))).as_py() and len(part):
            raise StoreError(f"{corpus.path}/docs: a document of no part; ingest again")
        held = pc.equal(part, "heldout").to_numpy(zero_copy_only=False).astype(np.int64)
        placed = np.flatnonzero((block >= 0) & (row >= 0) & there)
        for i in range(0, len(placed), BLOCK_DOCS):
            some = placed[i : i + BLOCK_DOCS]
            ids = with_columns(batch.column("id"), {c: batch.column(c) for c in columns})
            in_a_row = some[-1] - some[0] == len(some) - 1
            ids = ids.slice(some[0], len(some)) if in_a_row else ids.take(pa.array(some))
            yield ids, held[some], block[some], row[some]


def stored(corpus: Corpus, parts: tuple[str, ...] = PARTS, columns: Sequence[str] = ()) -> Iterator[Cells]:
    """All documents of the parts, a few thousand at a time, in the order of the ingest; with ``columns`` of the documents'
    table beside the ids (``documents.with_columns``).

    Documents that were removed or replaced since are left out; empty ones are there.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        readers = [_Part(corpus, heldout, pool) for heldout in (False, True)]
        dtype = np.float32 if corpus.weighted else np.int32
        for ids, part, block, row in _places(corpus.whole, columns):
            wanted = np.flatnonzero(np.isin(part, [PARTS.index(p) for p in parts]))
            which, row = corpus.within(part[wanted], block[wanted], row[wanted])
            wanted = wanted[which]
            if len(wanted) < len(part):
                ids, part, block = ids.take(pa.array(wanted)), part[wanted], block[wanted]
            steps: list[tuple[_Part, int, np.ndarray]] = []
            for p, reader in enumerate(readers):
                for s in np.unique(block[part == p]).tolist():
                    slots = np.flatnonzero((part == p) & (block == s))
                    if s + 1 >= len(reader.first) or row[slots].max() >= reader.first[s + 1] - reader.first[s]:
                        raise StoreError(
                            f"{corpus.path}/docs: a document lies past the blocks of the store; ingest again"
                        )
                    steps.append((reader, s, slots))
            pieces, indptr = [], np.zeros(len(ids) + 1, np.int64)
            for reader, s, slots in steps:
                reader.turn_to(s)
                _lengths(reader.starts, row[slots], slots, indptr)
                pieces.append((reader.starts, reader.words, reader.counts, row[slots], slots))  # two blocks at most
            np.cumsum(indptr, out=indptr)
            words, counts = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], dtype)
            while pieces:
                _copy(*pieces.pop(), indptr, words, counts)
            for reader in readers:
                reader.let_go()
                reader.read_ahead()
            yield Cells(ids, indptr, words, counts)
