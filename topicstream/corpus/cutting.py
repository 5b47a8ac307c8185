"""A decoded storage block, and the engine blocks that are cut out of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from topicstream.corpus.block import AxisRows, Block
from topicstream.corpus.buffers import Buffers
from topicstream.corpus.format import from_gaps, localise, number_words
from topicstream.errors import StoreError

if TYPE_CHECKING:
    from topicstream.corpus.grid import Grid
    from topicstream.corpus.reader import Corpus


class Decoded:
    """One storage block's raw arrays: gaps uint32[cells], counts[cells], lengths uint32[docs]; axes: name -> (indptr
    int64[docs + 1], ids int32[entries]).

    gaps and counts are lent by ``buffers``: ``close`` gives them back, when nobody looks at them any more.
    """

    def __init__(
        self, gaps: np.ndarray, counts: np.ndarray, lengths: np.ndarray, lent: tuple[np.ndarray, ...], buffers: Buffers
    ) -> None:
        self.gaps, self.counts, self.lengths = gaps, counts, lengths
        self.axes: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._lent, self._buffers = lent, buffers

    def close(self) -> None:
        """Give the buffers back, once."""
        lent, self._lent = self._lent, ()
        if lent:
            self.gaps = self.counts = np.zeros(0, np.uint32)
        for array in lent:
            self._buffers.give_back(array)


def cut_axis(raw: Decoded, name: str, first: int, last: int) -> AxisRows:
    """What documents first .. last - 1 of a storage block have of an axis."""
    indptr, ids = raw.axes[name]
    mine = indptr[first : last + 1]
    found, local = np.unique(ids[mine[0] : mine[-1]], return_inverse=True)
    return AxisRows(found.astype(np.int32, copy=False), mine - mine[0], local.astype(np.int32).reshape(-1))


class Cutter:
    """Cuts decoded storage blocks into blocks with local ids through W-sized marker arrays (no sort).  One thread at a
    time may use it; it takes 5 bytes a vocabulary word."""

    def __init__(self, n_words: int) -> None:
        self._marker = np.zeros(n_words, np.uint8)
        self._local = np.empty(n_words, np.int32)
        self._lock = threading.Lock()

    def block(self, corpus: Corpus, grid: Grid, number: int, raw: Decoded) -> Block:
        """Block ``number`` of ``grid`` out of its decoded storage block; it owns its arrays."""
        first, last = int(grid.row_start[number]), int(grid.row_stop[number])
        start, n = int(grid.cell_start[number]), int(grid.cells[number])
        ids = np.empty(n, np.int32)
        with self._lock:
            if from_gaps(raw.gaps, raw.lengths, first, last, start, ids, self._marker) != n:
                self._marker[:] = 0
                raise StoreError(
                    f"{corpus.path}: block {int(grid.storage[number])}: a word id past the vocabulary; ingest again"
                )
            vocab = np.empty(min(n, len(self._marker)), np.int32)
            u = number_words(self._marker, vocab, self._local)
            localise(ids, self._local)
        indptr = np.zeros(last - first + 1, np.int64)
        np.cumsum(raw.lengths[first:last], out=indptr[1:])
        counts = raw.counts[start : start + n].copy()  # the block outlives what it is cut from
        tokens = counts.sum(dtype=np.float64 if corpus.weighted else np.int64)
        axes = {name: cut_axis(raw, name, first, last) for name in raw.axes}
        block = Block(number, int(grid.first_doc[number]), indptr, ids, counts, vocab[:u].copy(), float(tokens), axes)
        return block if corpus.weights is None else corpus.weights.block(block)
