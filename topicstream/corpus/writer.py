"""Word counts -> storage blocks on disk.  Writes chunks only; what is committed is the manifest's business."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.format import CELLS, DOCS, chunk_path, encode_chunk, to_gaps
from topicstream.durable import sync_file


class BlockWriter:
    """Gathers documents into storage blocks of at most CELLS cells and DOCS documents, never splitting a document.

    ``finished`` is called with each block's manifest entry: rows [r0, r1), docs, cells, tokens, files {kind: [[size,
    crc32c], ...]}.  Chunks are written without fsync; ``close`` flushes the last block and fsyncs every file written.
    """

    def __init__(
        self,
        folder: Path,
        part: str,
        first_row: int,
        weighted: bool,
        finished: Callable[[dict[str, Any]], None],
    ) -> None:
        self._folder, self._part, self._row = folder, part, first_row
        self._dtype = np.dtype(np.float32 if weighted else np.uint32)
        self._finished = finished
        self._words = np.empty(CELLS, np.int32)
        self._counts = np.empty(CELLS, self._dtype)
        self._lengths = np.zeros(DOCS, np.uint32)
        self._cells = self._docs = 0
        self._written: list[Path] = []

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
        n, docs = self._cells, self._docs
        indptr = np.zeros(docs + 1, np.int64)
        np.cumsum(self._lengths[:docs], out=indptr[1:])
        gaps = np.empty(n, np.uint32)
        to_gaps(indptr, self._words[:n], gaps)
        rows = max(1, -(-n // CELLS))
        files: dict[str, list[list[int]]] = {"words": [], "counts": [], "lengths": []}
        for r in range(rows):
            cut = slice(r * CELLS, min(n, (r + 1) * CELLS))
            # every row carries a lengths chunk so that the three arrays have one row count
            lengths = self._lengths[:docs] if r == 0 else np.zeros(0, np.uint32)
            for kind, values, width in (
                ("words", gaps[cut], CELLS),
                ("counts", self._counts[:n][cut], CELLS),
                ("lengths", lengths, DOCS),
            ):
                data, crc = encode_chunk(values, width)
                path = chunk_path(self._folder, self._part, kind, self._row + r)
                path.parent.mkdir(parents=True, exist_ok=True)
                with open(path, "wb") as f:
                    f.write(data)
                self._written.append(path)
                files[kind].append([len(data), crc])
        total = self._counts[:n].sum(dtype=np.float64 if self._dtype.kind == "f" else np.int64)
        self._finished(
            {
                "rows": [self._row, self._row + rows],
                "docs": docs,
                "cells": n,
                "tokens": float(total) if self._dtype.kind == "f" else int(total),
                "files": files,
            }
        )
        self._row += rows
        self._cells = self._docs = 0

    def close(self, *, durable: bool = True) -> None:
        """Write the last, partial block; fsync what was written."""
        if self._docs:
            self._flush()
        if durable:
            for path in self._written:
                sync_file(path)
        self._written.clear()
