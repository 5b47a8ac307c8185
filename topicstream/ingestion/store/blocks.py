"""Spooled cells: first the counts of their words, then, with the vocabulary chosen, storage
blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from topicstream.base.progress import Progress
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.parts.journal import Journal
from topicstream.ingestion.store.decide import HELDOUT, TRAIN, Decision
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary, word_table
from topicstream.ingestion.tokens.word_counts import totals
from topicstream.numeric.kernels.arrays import Cells, CellsByWord, sort_by_word
from topicstream.numeric.parallel import pooled

PieceWords = tuple[tuple[int, int], pa.Array, np.ndarray, np.ndarray, np.ndarray]
"""The words of a piece: their frame of the spool, which tells them from others, and themselves;
which of them its documents use, counts and document frequencies in its training documents."""


def words_of_training(
    journal: Journal, decision: Decision, pool: ThreadPoolExecutor, ahead: int
) -> Iterator[pa.Table]:
    """The words of the documents of pieces that have the same words, with counts and document
    frequencies in training documents (``vocabulary.SCHEMA``).
    """

    last: tuple[tuple[int, int], pa.Array] = (-1, 0), None

    def count(piece: int) -> PieceWords:
        nonlocal last
        cells = journal.cells.read(piece)
        entry = journal.types.entries[piece]
        if (read := last)[0] != entry:
            last = read = entry, journal.types.arrays(piece)["types"]
        used = np.bincount(cells["words"], minlength=len(read[1])) > 0
        training = decision.classes[piece] == TRAIN
        return (
            *read,
            used,
            *totals(cells["lengths"], cells["words"], cells["counts"], training, len(used)),
        )

    def add(one: PieceWords, other: PieceWords) -> PieceWords:
        for total, part in zip(one[2:], other[2:]):
            total += part
        return one

    for _, same in groupby(
        pooled(pool, count, range(len(journal.cells)), ahead), key=itemgetter(0)
    ):
        _, words, used, counts, df = reduce(add, same)
        yield word_table(words.filter(pa.array(used)), counts[used], df[used])


def number_words(
    lengths: np.ndarray, words: np.ndarray, counts: np.ndarray, final: np.ndarray, kind: np.ndarray
) -> tuple[Cells, int]:
    """The documents of a piece that count, the training documents first, their words by final ids,
    ascending; and how many are training documents.

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
    row = np.full(
        len(lengths), len(order), np.int32
    )  # what is left out comes last: one word more and one document more
    row[order] = np.arange(len(order), dtype=np.int32)
    size = int(final.max(initial=-1)) + 1
    given = Cells(
        np.append(0, np.cumsum(lengths, dtype=np.int64)),
        np.where(final < 0, size, final)[words],
        counts,
    )
    by_word = CellsByWord(
        np.empty(size + 2, np.int64), np.empty(len(words), np.int32), np.empty_like(counts)
    )
    sort_by_word(given, by_word)
    n = by_word.ptr[size]
    sorted_cells = CellsByWord(
        np.empty(len(order) + 2, np.int64), np.empty(n, np.int32), np.empty(n, counts.dtype)
    )
    sort_by_word(Cells(by_word.ptr[: size + 1], row[by_word.doc[:n]], by_word.x[:n]), sorted_cells)
    indptr = sorted_cells.ptr[:-1]
    return Cells(indptr, sorted_cells.doc[: indptr[-1]], sorted_cells.x[: indptr[-1]]), int(
        (kind == TRAIN).sum()
    )


def write_blocks(
    journal: Journal,
    decision: Decision,
    vocabulary: TokenVocabulary,
    writers: Sequence[BlockWriter],
    pool: ThreadPoolExecutor,
    ahead: int,
    progress: Progress,
) -> int:
    """Write the storage blocks of both parts, each with its writer, without the fsyncs; documents
    without a word.
    """
    empty = 0
    final = (-1, 0), np.zeros(0, np.int32)  # ids of the words that the last pieces had

    def number(piece: int) -> tuple[Cells, int]:
        nonlocal final
        cells = journal.cells.read(piece)
        entry = journal.types.entries[piece]
        if (ids := final)[0] != entry:
            final = ids = entry, vocabulary.lookup(journal.types.arrays(piece)["types"])
        return number_words(
            cells["lengths"], cells["words"], cells["counts"], ids[1], decision.classes[piece]
        )

    for i, (cells, n) in enumerate(pooled(pool, number, range(len(journal.cells)), ahead)):
        empty += int((np.diff(cells.indptr) == 0).sum())
        writers[TRAIN].add(cells.indptr[: n + 1], cells.words, cells.counts)
        writers[HELDOUT].add(cells.indptr[n:], cells.words, cells.counts)
        progress.step("writing blocks", i + 1, len(journal.cells), "piece")
    for writer in writers:
        writer.finish()
    return empty
