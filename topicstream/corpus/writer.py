"""Word counts -> storage blocks on disk.  Writes chunks only; what is committed is the manifest's business."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np

from topicstream.corpus.cells import to_gaps
from topicstream.corpus.format import CELLS, DOCS, chunk_path, write_row
from topicstream.corpus.manifest import BlockEntry
from topicstream.files.durable import sync_all

IN_FLIGHT = 3
"""Blocks that may wait to be encoded: each holds up to 8 bytes a cell."""


class BlockWriter:
    """Gathers documents into storage blocks of at most CELLS cells and DOCS documents, never splitting a document.

    ``finished`` is called in block order, from the thread that calls ``add`` and ``close``, with each block's manifest
    entry.  With a ``pool`` blocks are encoded
    there (a few in flight); the bytes are the same.  Chunks are written without fsync; ``close`` flushes the last block
    and fsyncs every file written (``finish`` and ``sync``: the same in two steps).
    """

    def __init__(
        self,
        folder: Path,
        part: str,
        first_row: int,
        weighted: bool,
        finished: Callable[[BlockEntry], None],
        pool: Executor | None = None,
        dense: bool = False,
    ) -> None:
        self._folder, self._part, self._row = folder, part, first_row
        self._dtype = np.dtype(np.float32 if weighted else np.uint32)
        self._finished, self._pool, self._dense = finished, pool, dense
        self._encoding: deque[Future[BlockEntry]] = deque()
        self._written: list[Path] = []
        self._fresh()

    def _fresh(self) -> None:
        self._words = np.empty(CELLS, np.int32)
        self._counts = np.empty(CELLS, self._dtype)
        self._lengths = np.zeros(DOCS, np.uint32)
        self._cells = self._docs = 0

    def add(self, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray) -> None:
        """Append documents.  indptr: int64[D+1]; words: int32[nnz] ascending within a document; counts: [nnz] > 0."""
        d, n = 0, len(indptr) - 1
        while d < n:
            room_cells, room_docs = CELLS - self._cells, DOCS - self._docs
            stop = int(np.searchsorted(indptr, indptr[d] + room_cells, side="right")) - 1
            stop = min(stop, d + room_docs, n)
            if stop <= d:
                if self._docs:
                    self._flush()
                    continue
                stop = d + 1  # one document wider than a row: a block of its own
            a, b = int(indptr[d]), int(indptr[stop])
            self._reserve(b - a)
            self._words[self._cells : self._cells + b - a] = words[a:b]
            self._counts[self._cells : self._cells + b - a] = counts[a:b]
            self._lengths[self._docs : self._docs + stop - d] = np.diff(indptr[d : stop + 1])
            self._cells += b - a
            self._docs += stop - d
            d = stop
            if self._cells >= CELLS or self._docs >= DOCS:
                self._flush()

    def _reserve(self, more: int) -> None:
        need = self._cells + more
        if need > len(self._words):
            self._words = np.resize(self._words, need)
            self._counts = np.resize(self._counts, need)

    def _flush(self) -> None:
        lengths = self._lengths[: self._docs]
        words, counts = self._words[: self._cells], self._counts[: self._cells]
        rows = max(1, -(-len(words) // CELLS))
        for r in range(self._row, self._row + rows):
            for kind in ("words", "counts", "lengths"):
                self._written.append(chunk_path(self._folder, self._part, kind, r))
        first, self._row = self._row, self._row + rows
        if self._pool is None:
            self._finished(self._encode(first, rows, lengths, words, counts))
        else:
            self._encoding.append(self._pool.submit(self._encode, first, rows, lengths, words, counts))
            while len(self._encoding) >= IN_FLIGHT or (self._encoding and self._encoding[0].done()):
                self._finished(self._encoding.popleft().result())
        self._fresh()

    def _encode(
        self, first: int, rows: int, lengths: np.ndarray, words: np.ndarray, counts: np.ndarray
    ) -> BlockEntry:
        """Encode and write one block: its manifest entry.  Pure but for the files it writes."""
        n = len(words)
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        gaps = to_gaps(indptr, words)
        files: dict[str, list[tuple[int, int]]] = {"words": [], "counts": [], "lengths": []}
        for r in range(rows):
            cut = slice(r * CELLS, min(n, (r + 1) * CELLS))
            # every row carries a lengths chunk so that the three arrays have one row count
            for kind, values, width in (
                ("words", gaps[cut], CELLS),
                ("counts", counts[cut], CELLS),
                ("lengths", lengths if r == 0 else lengths[:0], DOCS),
            ):
                files[kind].append(write_row(chunk_path(self._folder, self._part, kind, first + r), values, width))
        real = self._dtype.kind == "f"
        total = len(lengths) if self._dense else counts.sum(dtype=np.float64 if real else np.int64)
        tokens = float(total) if real else int(total)
        return BlockEntry(rows=(first, first + rows), docs=len(lengths), cells=n, tokens=tokens, files=files)

    def close(self) -> None:
        """Write the last, partial block; fsync what was written and the folders it lies in."""
        self.finish()
        self.sync()

    def finish(self) -> None:
        """Write the last, partial block, without the fsyncs."""
        if self._docs:
            self._flush()
        while self._encoding:
            self._finished(self._encoding.popleft().result())

    def sync(self) -> None:
        """fsync every file written and the folders they lie in; from any thread."""
        sync_all(self._written, sorted({p for path in self._written for p in list(path.parents)[:4]}))
        self._written.clear()
