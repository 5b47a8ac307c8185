"""Spooled cells: first the counts of their words, then, with the vocabulary chosen, storage blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import scipy.sparse

from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.storing.decide import HELDOUT, TRAIN, Decision
from topicstream.parallel.order import pooled
from topicstream.progress import Progress
from topicstream.tokens.vocabulary import TokenVocabulary, word_table
from topicstream.tokens.word_counts import totals

PieceWords = tuple[tuple[int, int], pa.Array, np.ndarray, np.ndarray, np.ndarray]
"""The words of a piece: their frame of the spool, which tells them from others, and themselves; which of them its documents use,
counts and document frequencies in its training documents."""


def words_of_training(journal: Journal, decision: Decision, pool: ThreadPoolExecutor, ahead: int) -> Iterator[pa.Table]:
    """The words of the documents of pieces that have the same words, with counts and document frequencies in training
    documents (``vocabulary.SCHEMA``)."""

    last: tuple[tuple[int, int], pa.Array] = (-1, 0), None

    def count(piece: int) -> PieceWords:
        nonlocal last
        cells, entry = journal.cells.read(piece), journal.types.entries[piece]
        if (read := last)[0] != entry:
            last = read = entry, journal.types.arrays(piece)["types"]
        used = np.bincount(cells["words"], minlength=len(read[1])) > 0
        training = decision.classes[piece] == TRAIN
        return *read, used, *totals(cells["lengths"], cells["words"], cells["counts"], training, len(used))

    def add(one: PieceWords, other: PieceWords) -> PieceWords:
        for total, part in zip(one[2:], other[2:]):
            total += part
        return one

    for _, same in groupby(pooled(pool, count, range(len(journal.cells)), ahead), key=itemgetter(0)):
        _, words, used, counts, df = reduce(add, same)
        yield word_table(words.filter(pa.array(used)), counts[used], df[used])


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


def write_blocks(
    journal: Journal,
    decision: Decision,
    vocabulary: TokenVocabulary,
    writers: Sequence[BlockWriter],
    pool: ThreadPoolExecutor,
    ahead: int,
    progress: Progress,
) -> int:
    """Write the storage blocks of both parts, each with its writer, without the fsyncs; documents without a word."""
    empty = 0
    final = (-1, 0), np.zeros(0, np.int32)  # ids of the words that the last pieces had

    def number(piece: int) -> tuple[scipy.sparse.csr_array, int]:
        nonlocal final
        cells, entry = journal.cells.read(piece), journal.types.entries[piece]
        if (ids := final)[0] != entry:
            final = ids = entry, vocabulary.lookup(journal.types.arrays(piece)["types"])
        return number_words(cells["lengths"], cells["words"], cells["counts"], ids[1], decision.classes[piece])

    for i, (cells, n) in enumerate(pooled(pool, number, range(len(journal.cells)), ahead)):
        indptr = cells.indptr.astype(np.int64)
        empty += int((np.diff(indptr) == 0).sum())
        writers[TRAIN].add(indptr[: n + 1], cells.indices, cells.data)
        writers[HELDOUT].add(indptr[n:], cells.indices, cells.data)
        progress.step("writing blocks", i + 1, len(journal.cells), "piece")
    for writer in writers:
        writer.finish()
    return empty
