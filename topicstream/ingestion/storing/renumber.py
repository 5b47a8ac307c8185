"""Spooled cells -> storage blocks: final ids, ascending within each document, training and held-out documents apart."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing.decide import DROPPED, HELDOUT, TRAIN, Decision
from topicstream.kernels.arrays import Array, Bytes, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.parallel.order import pooled
from topicstream.progress import Progress
from topicstream.tokens.builder import GenerationMap


@kernel
def _place_documents(
    lengths: Array, words: Ints, rank: Ints, kind: Bytes, indptr: Longs, ptr: Longs, by_rank: Longs
) -> int:
    """Cells kept of each document, in two groups (training first), and of each rank.

    lengths: uint32[D], words: int32[nnz] (types), rank: int32[T] (-1 pruned), kind: uint8[D]
    -> indptr: int64[D' + 1] of the kept documents, ptr: int64[D] first cell of a document (-1 dropped),
    by_rank: int64[R + 1] first cell of each rank.  Returns the number of training documents.
    """
    n = 0
    train = 0
    for wanted in range(2):
        i = 0
        for d in range(len(lengths)):
            stop = i + lengths[d]
            if kind[d] == wanted:
                ptr[d] = indptr[n]
                kept = 0
                for j in range(i, stop):
                    r = rank[words[j]]
                    if r >= 0:
                        kept += 1
                        by_rank[r + 1] += 1
                indptr[n + 1] = indptr[n] + kept
                n += 1
            elif kind[d] > 1:
                ptr[d] = -1
            i = stop
        if wanted == 0:
            train = n
    for r in range(len(by_rank) - 1):
        by_rank[r + 1] += by_rank[r]
    return train


@kernel
def _sort(
    lengths: Array,
    words: Ints,
    counts: Array,
    rank: Ints,
    final: Ints,
    ptr: Longs,
    by_rank: Longs,
    documents: Ints,
    values: Array,
    out_words: Ints,
    out_counts: Array,
) -> None:
    """Two stable scatters instead of a sort: by word, then by document (so ids ascend within each).

    documents: int32[kept], values: counts' type[kept]: the cells in the order of the words; final: int32[R].
    """
    i = 0
    for d in range(len(lengths)):
        stop = i + lengths[d]
        if ptr[d] >= 0:
            for j in range(i, stop):
                r = rank[words[j]]
                if r >= 0:
                    at = by_rank[r]
                    documents[at] = d
                    values[at] = counts[j]
                    by_rank[r] = at + 1
        i = stop
    start = 0
    for r in range(len(final)):
        for at in range(start, by_rank[r]):
            d = documents[at]
            out_words[ptr[d]] = final[r]
            out_counts[ptr[d]] = values[at]
            ptr[d] += 1
        start = by_rank[r]


@dataclass
class Renumbered:
    """A piece, ready to be written: the training documents first."""

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    training: int


def ranked(final: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int32[T] distinct ids or -1 -> (int32[R] those kept, ascending; int32[T] the rank of each type's id, or -1)."""
    order = np.argsort(final)
    order = order[np.searchsorted(final[order], 0) :]
    rank = np.full(len(final), -1, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return final[order], rank


def renumber(
    lengths: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    ranks: tuple[np.ndarray, np.ndarray],
    kind: np.ndarray,
) -> Renumbered:
    """lengths: uint32[D], words: int32[nnz] (types), counts: [nnz], ranks: of ``ranked``, kind: uint8[D]."""
    final, rank = ranks
    kept = int((kind != DROPPED).sum())
    indptr, ptr = np.zeros(kept + 1, np.int64), np.full(len(lengths), -1, np.int64)
    by_rank = np.zeros(len(final) + 1, np.int64)
    training = _place_documents(lengths, words, rank, kind, indptr, ptr, by_rank)
    n = int(indptr[-1])
    out_words, out_counts = np.empty(n, np.int32), np.empty(n, counts.dtype)
    documents, values = np.empty(n, np.int32), np.empty(n, counts.dtype)
    _sort(lengths, words, counts, rank, final, ptr, by_rank, documents, values, out_words, out_counts)
    return Renumbered(indptr, out_words, out_counts, int(training))


class Maps:
    """Final ids of provisional ones, one generation in memory at a time (pieces come in the order of generations)."""

    def __init__(self, maps: list[GenerationMap]) -> None:
        self._maps = maps
        self._firsts = np.array([m.first for m in maps], np.int64)
        self._held: dict[int, np.ndarray] = {}

    def final(self, ids: np.ndarray) -> np.ndarray:
        """int64[T] provisional -> int32[T] final, -1 for a pruned word."""
        out = np.full(len(ids), -1, np.int32)
        which = np.searchsorted(self._firsts, ids, "right") - 1
        for g in np.unique(which):
            mine = which == g
            out[mine] = self._generation(int(g))[ids[mine] - self._firsts[g]]
        return out

    def _generation(self, g: int) -> np.ndarray:
        if g not in self._held:
            if len(self._held) >= 2:
                self._held.pop(min(self._held))
            self._held[g] = self._maps[g].read()
        return self._held[g]


def write_blocks(
    journal: Journal,
    decision: Decision,
    maps: Maps,
    folder: Path,
    weighted: bool,
    vectors: bool,
    places: tuple[tuple[str, int], tuple[str, int]],
    pool: ThreadPoolExecutor,
    ahead: int,
    progress: Progress,
) -> tuple[tuple[list[dict[str, Any]], list[dict[str, Any]]], int, list[Future[None]]]:
    """Write the storage blocks of both parts (places: folder and first row of each): their manifest entries, in order, the number of empty documents, and the
    fsyncs that must have come back before a manifest names them."""
    entries: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    writers = [BlockWriter(folder, *places[i], weighted, entries[i].append, pool, vectors) for i in (TRAIN, HELDOUT)]
    shared: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def finals(piece: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
        frame, is_source = journal.state["source_words"][piece]
        if is_source and frame in shared:
            return np.empty(0, np.int32), shared[frame]
        final = maps.final(journal.types.read(frame)[0]["ids"])
        if not is_source:
            return final, None
        shared.clear()
        shared[frame] = ranked(final)  # once for all pieces of a bag-of-words source
        return final, shared[frame]

    def work(item: tuple[int, tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]]) -> Renumbered:
        piece, (final, ranks) = item
        cells, _ = journal.cells.read(piece)
        documents, _ = journal.docs.read(piece)
        counts = cells["counts"].astype(np.float32) if weighted else cells["counts"]
        return renumber(
            cells["lengths"], cells["words"], counts, ranks or ranked(final), decision.classes(piece, documents)
        )

    items = ((i, finals(i)) for i in range(len(journal.cells)))
    empty = 0
    for i, done in enumerate(pooled(pool, work, items, ahead)):
        n = done.training
        empty += int((np.diff(done.indptr) == 0).sum())
        writers[TRAIN].add(done.indptr[: n + 1], done.words, done.counts)
        writers[HELDOUT].add(done.indptr[n:], done.words, done.counts)
        progress.step("writing blocks", i + 1, len(journal.cells), "piece")
    for writer in writers:
        writer.finish()
    return entries, empty, [pool.submit(writer.sync) for writer in writers]
