"""Counted documents: first the counts of their words, then, with the vocabulary, storage blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from topicstream.base.progress import Progress
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.parts.part_files import PieceRows
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.store.decide import HELDOUT, TRAIN, Decision
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary, word_table
from topicstream.ingestion.tokens.word_counts import add_totals
from topicstream.numeric.kernels.arrays import Cells, CellsByWord, sort_by_word
from topicstream.numeric.parallel import pooled


def words_of_training(working: WorkingFolder, decision: Decision) -> Iterator[pa.Table]:
    """Yield the words of each part with their counts in training documents.

    Tables have ``vocabulary.SCHEMA``. Words of held-out documents alone have the count 0.
    """
    classes = iter(decision.classes)
    for words, pieces in working.pieces_by_part("words", "counts"):
        occurs = np.zeros(len(words), np.bool_)
        counts = np.zeros(len(words), np.int64)
        df = np.zeros(len(words), np.int64)
        for piece in pieces:
            cells = piece.cells
            occurs[cells.words] = True
            add_totals(cells, next(classes) == TRAIN, counts, df)
        yield word_table(words.filter(pa.array(occurs)), counts[occurs], df[occurs])


def number_words(
    lengths: np.ndarray, words: np.ndarray, counts: np.ndarray, final: np.ndarray, kind: np.ndarray
) -> tuple[Cells, int]:
    """Give the words of a piece their final ids, and leave out dropped documents.

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

    Returns
    -------
    cells, training
        The cells, training documents first and ids ascending, and the number of training documents.
    """
    order = np.concatenate([np.flatnonzero(kind == TRAIN), np.flatnonzero(kind == HELDOUT)])
    # all words and documents that are left out become one more word and document, which come last
    row = np.full(len(lengths), len(order), np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    size = int(final.max(initial=-1)) + 1
    cells = Cells(
        np.append(0, np.cumsum(lengths, dtype=np.int64)),
        np.where(final < 0, size, final)[words],
        counts,
    )
    by_word = CellsByWord(
        np.empty(size + 2, np.int64), np.empty(len(words), np.int32), np.empty_like(counts)
    )
    sort_by_word(cells, by_word)
    n = by_word.ptr[size]
    sorted_cells = CellsByWord(
        np.empty(len(order) + 2, np.int64), np.empty(n, np.int32), np.empty(n, counts.dtype)
    )
    sort_by_word(Cells(by_word.ptr[: size + 1], row[by_word.doc[:n]], by_word.x[:n]), sorted_cells)
    indptr = sorted_cells.ptr[:-1]
    stop = indptr[-1]
    training = int(np.count_nonzero(kind == TRAIN))
    return Cells(indptr, sorted_cells.doc[:stop], sorted_cells.x[:stop]), training


def write_blocks(
    working: WorkingFolder,
    decision: Decision,
    vocabulary: TokenVocabulary,
    writers: Sequence[BlockWriter],
    pool: ThreadPoolExecutor,
    ahead: int,
    progress: Progress,
) -> int:
    """Write the storage blocks of both parts, without fsyncs.

    Parameters
    ----------
    working, decision, vocabulary
        The documents, the parts that they belong to, and the words.
    writers
        Writer of each part.
    pool, ahead
        Threads that number words, and pieces that are numbered ahead of the writers.
    progress
        The progress listener.

    Returns
    -------
    int
        Number of documents without a word.
    """
    empty = 0
    classes = iter(decision.classes)
    pieces_written = 0
    for words, pieces in working.pieces_by_part("words", "counts"):
        ids = vocabulary.lookup(words)

        def number_piece(
            item: tuple[np.ndarray, PieceRows], ids: np.ndarray = ids
        ) -> tuple[Cells, int]:
            """Give the words of a piece of this part their final ids."""
            kind, piece = item
            cells = piece.cells
            return number_words(np.diff(cells.indptr), cells.words, cells.counts, ids, kind)

        items = ((next(classes), piece) for piece in pieces)
        for cells, n in pooled(pool, number_piece, items, ahead):
            empty += int((np.diff(cells.indptr) == 0).sum())
            writers[TRAIN].add(cells.indptr[: n + 1], cells.words, cells.counts)
            writers[HELDOUT].add(cells.indptr[n:], cells.words, cells.counts)
            pieces_written += 1
            progress.step("writing blocks", pieces_written, len(decision.classes), "piece")
    for writer in writers:
        writer.finish()
    return empty
