"""Writing word counts as storage blocks on disk.

It writes chunks only. The manifest says which of them belong to the store.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np

from topicstream.base.files.durable import sync_all
from topicstream.corpus.block import to_gaps
from topicstream.corpus.format import CELLS, CUTS, DOCS, KINDS, chunk_path, write_rows
from topicstream.corpus.grid import Decoded, cut_block
from topicstream.corpus.manifest import BlockEntry

IN_FLIGHT = 3
"""Blocks that may wait to be encoded: each holds up to 8 bytes a cell."""


class BlockWriter:
    """A writer of documents into storage blocks, without splitting a document.

    A block has at most CELLS cells and DOCS documents. Chunks are written without fsync until
    ``close``, which writes the last block and syncs all files (or ``finish`` and ``sync``, in two
    steps).

    Parameters
    ----------
    folder, part
        Folder of the store, and the part's folder in it.
    first_row
        First row of the arrays that is written.
    weighted
        True if counts are real numbers.
    pool
        Threads in which a few blocks at a time are encoded, into the same bytes.
    dense
        True for dense rows, whose tokens are their number.

    Attributes
    ----------
    entries
        The manifest's entries of the blocks written so far, in order.
    """

    def __init__(
        self,
        folder: Path,
        part: str,
        first_row: int,
        weighted: bool,
        pool: Executor | None = None,
        dense: bool = False,
    ) -> None:
        self._folder = folder
        self._part = part
        self._row = first_row
        self._dtype = np.dtype(np.float32 if weighted else np.uint32)
        self._pool = pool
        self._dense = dense
        self.entries: list[BlockEntry] = []
        self._encoding: deque[Future[BlockEntry]] = deque()
        self._written: list[Path] = []
        self._begin_block()

    def _begin_block(self) -> None:
        """Begin a block, in arrays of its own: the last one may still be encoded."""
        self._words = np.empty(CELLS, np.int32)
        self._counts = np.empty(CELLS, self._dtype)
        self._lengths = np.zeros(DOCS, np.uint32)
        self._cells = 0
        self._docs = 0

    def add(self, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray) -> None:
        """Append documents.

        Parameters
        ----------
        indptr
            int64[D + 1], the cells of each document.
        words
            int32[nnz], ascending within a document.
        counts
            [nnz] > 0.
        """
        d = 0
        n = len(indptr) - 1
        while d < n:
            room_cells = CELLS - self._cells
            room_docs = DOCS - self._docs
            stop = int(np.searchsorted(indptr, indptr[d] + room_cells, side="right")) - 1
            stop = min(stop, d + room_docs, n)
            if stop <= d:
                if self._docs:
                    self._flush()
                    continue
                stop = d + 1  # one document wider than a row: a block of its own
            cells = slice(int(indptr[d]), int(indptr[stop]))
            end = self._cells + cells.stop - cells.start
            self._reserve(end)
            self._words[self._cells : end] = words[cells]
            self._counts[self._cells : end] = counts[cells]
            self._lengths[self._docs : self._docs + stop - d] = np.diff(indptr[d : stop + 1])
            self._cells = end
            self._docs += stop - d
            d = stop
            if self._cells >= CELLS or self._docs >= DOCS:
                self._flush()

    def _reserve(self, cells: int) -> None:
        """Enlarge the arrays if a block of so many cells does not fit."""
        if cells > len(self._words):
            self._words = np.resize(self._words, cells)
            self._counts = np.resize(self._counts, cells)

    def _flush(self) -> None:
        """Encode and write the block, in a thread of the pool if there is one."""
        lengths = self._lengths[: self._docs]
        words = self._words[: self._cells]
        counts = self._counts[: self._cells]
        first = self._row
        self._row += max(1, -(-len(words) // CELLS))
        if self._pool is None:
            self.entries.append(self._encode(first, lengths, words, counts))
        else:
            self._encoding.append(self._pool.submit(self._encode, first, lengths, words, counts))
            while len(self._encoding) >= IN_FLIGHT or (self._encoding and self._encoding[0].done()):
                self.entries.append(self._encoding.popleft().result())
        self._begin_block()

    def _encode(
        self, first: int, lengths: np.ndarray, words: np.ndarray, counts: np.ndarray
    ) -> BlockEntry:
        """Encode and write one block, and return its manifest entry."""
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        arrays = {"words": to_gaps(indptr, words), "counts": counts, "lengths": lengths}
        files = write_rows(self._folder, self._part, first, arrays)
        rows = (first, first + len(files["words"]))
        for kind in KINDS:
            for row in range(*rows):
                self._written.append(chunk_path(self._folder, self._part, kind, row))
        is_real = self._dtype.kind == "f"
        if self._dense:
            return BlockEntry(
                rows=rows,
                docs=len(lengths),
                cells=len(words),
                tokens=float(len(lengths)) if is_real else len(lengths),
                files=files,
            )
        raw = Decoded(words, counts, lengths)
        return BlockEntry(
            rows=rows,
            docs=len(lengths),
            cells=len(words),
            tokens=counts.sum(dtype=np.float64 if is_real else np.int64).item(),
            files=files,
            cuts=[cut_block(raw, *sizes).entry(*sizes) for sizes in CUTS],
            longest=int(lengths.max(initial=0)),
        )

    def close(self) -> None:
        """Write the last, partial block, and sync all files and their folders."""
        self.finish()
        self.sync()

    def finish(self) -> None:
        """Write the last, partial block, without the fsyncs."""
        if self._docs:
            self._flush()
        while self._encoding:
            self.entries.append(self._encoding.popleft().result())

    def sync(self) -> None:
        """Sync every file written and its folders, from any thread."""
        sync_all(self._written, levels=4)
        self._written.clear()
