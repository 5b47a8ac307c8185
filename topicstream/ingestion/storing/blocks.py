"""Spooled cells: first the counts of their words, then, with the vocabulary chosen, storage blocks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse

from topicstream.corpus.manifest import BlockEntry
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing.decide import HELDOUT, TRAIN, Decision
from topicstream.parallel.order import pooled
from topicstream.progress import Progress
from topicstream.tokens.vocabulary import TokenVocabulary, word_table
from topicstream.tokens.word_counts import totals

Entries = list[BlockEntry]


def words_of_training(journal: Journal, decision: Decision, pool: ThreadPoolExecutor, ahead: int) -> Iterator[pa.Table]:
    """The words of the training documents of each piece, with counts and document frequencies (``vocabulary.SCHEMA``)."""

    def count(piece: int) -> pa.Table:
        cells = journal.cells.read(piece)
        words = journal.types.arrays(piece)["types"]
        training = decision.classes[piece] == TRAIN
        return word_table(words, *totals(cells["lengths"], cells["words"], cells["counts"], training, len(words)))

    return pooled(pool, count, range(len(journal.cells)), ahead)


def number_words(
    lengths: np.ndarray, words: np.ndarray, counts: np.ndarray, final: np.ndarray, kind: np.ndarray
) -> tuple[scipy.sparse.csr_array, int]:
    """The documents of a piece that count, the training documents first, their words by final ids, ascending; and how many
    are training documents.

    Parameters
    ----------
    lengths
        uint32[D], cells of each document.
    words, counts
        int32[nnz], numbers of the piece's words, and [nnz].
    final
        int32[T], the final id of each word of the piece, -1 for one left out.
    kind
        uint8[D]: TRAIN, HELDOUT or DROPPED.
    """
    order = np.concatenate([np.flatnonzero(kind == TRAIN), np.flatnonzero(kind == HELDOUT)])
    place = np.full(len(lengths), -1, np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    columns, rows = final[words], np.repeat(place, lengths)
    keep = (columns >= 0) & (rows >= 0)
    shape = len(order), int(final.max(initial=-1)) + 1
    cells = scipy.sparse.coo_array((counts[keep], (rows[keep], columns[keep])), shape).tocsr()  # sorted in each row
    return cells, int((kind == TRAIN).sum())


@dataclass(frozen=True)
class Place:
    """Where blocks go: ``parts``, the folder and the first free row of each part of the store; ``weighted`` and ``dense``
    say what they hold."""

    store: Path
    parts: tuple[tuple[str, int], tuple[str, int]]
    weighted: bool
    dense: bool


@dataclass
class WrittenBlocks:
    """The manifest's entries of the blocks of both parts, in order, the number of documents without a word, and the fsyncs
    that must have come back before a manifest names the blocks."""

    entries: tuple[Entries, Entries]
    empty: int
    syncs: list[Future[None]]


def write_blocks(
    journal: Journal,
    decision: Decision,
    vocabulary: TokenVocabulary,
    place: Place,
    pool: ThreadPoolExecutor,
    ahead: int,
    progress: Progress,
) -> WrittenBlocks:
    """Write the storage blocks of both parts."""
    done = WrittenBlocks(([], []), 0, [])
    writers = [
        BlockWriter(place.store, *part, place.weighted, entries.append, pool, place.dense)
        for part, entries in zip(place.parts, done.entries)
    ]

    def number(piece: int) -> tuple[scipy.sparse.csr_array, int]:
        cells = journal.cells.read(piece)
        counts = cells["counts"].astype(np.float32) if place.weighted else cells["counts"]
        final = vocabulary.lookup(journal.types.arrays(piece)["types"])
        return number_words(cells["lengths"], cells["words"], counts, final, decision.classes[piece])

    for i, (cells, n) in enumerate(pooled(pool, number, range(len(journal.cells)), ahead)):
        indptr = cells.indptr.astype(np.int64)
        done.empty += int((np.diff(indptr) == 0).sum())
        writers[TRAIN].add(indptr[: n + 1], cells.indices, cells.data)
        writers[HELDOUT].add(indptr[n:], cells.indices, cells.data)
        progress.step("writing blocks", i + 1, len(journal.cells), "piece")
    for writer in writers:
        writer.finish()
    done.syncs = [pool.submit(writer.sync) for writer in writers]
    return done
