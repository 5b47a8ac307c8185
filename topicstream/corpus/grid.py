"""Cutting a corpus into engine blocks: decoded storage blocks, the grid, the cutter."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.corpus.block import AxisRows, AxisShape, Block, cut_lengths, to_local

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Grid:
    """The engine blocks of a part of a corpus, in the order of a pass.

    A block is a run of documents with about the requested number of cells, within one storage
    block. All arrays have one entry per block.

    Attributes
    ----------
    storage
        Storage block.
    row_start, row_stop
        Range of documents within the storage block.
    cell_start
        First cell within the storage block.
    cells
        Number of cells.
    first_doc
        Number of the first document within the part.
    tokens
        Sum of counts, float64.
    max_words
        Upper bound of a block's local words.
    longest
        Cells of the longest document.
    axes
        Sizes of the requested axes.
    """

    heldout: bool
    storage: np.ndarray
    row_start: np.ndarray
    row_stop: np.ndarray
    cell_start: np.ndarray
    cells: np.ndarray
    first_doc: np.ndarray
    tokens: np.ndarray
    max_words: int
    longest: int
    axes: Mapping[str, AxisShape] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def docs(self) -> np.ndarray:
        """Count the documents of each block, int64."""
        return np.asarray(self.row_stop - self.row_start)

    def span(self, first: int, last: int) -> Grid:
        """Select blocks ``first`` to ``last - 1``, numbered from 0."""
        columns = ("storage", "row_start", "row_stop", "cell_start", "cells", "first_doc", "tokens")
        return replace(self, **{name: getattr(self, name)[first:last] for name in columns})

    def order(self, how: str, seed: int, pass_number: int) -> np.ndarray:
        """Return block numbers in visiting order, ``sequential`` or ``shuffled``.

        A shuffled order shuffles the storage blocks, then the blocks within each, so that a pass
        still reads every chunk once.
        """
        n = len(self)
        if how == "sequential":
            return np.arange(n)
        if how != "shuffled":
            raise ValueError(f"order must be 'sequential' or 'shuffled', not {how!r}")
        rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), pass_number]))
        by_storage = [
            np.flatnonzero(self.storage == s) for s in rng.permutation(np.unique(self.storage))
        ]
        return (
            np.concatenate([rng.permutation(group) for group in by_storage])
            if by_storage
            else np.arange(0)
        )


@dataclass
class Decoded:
    """A decoded storage block.

    Attributes
    ----------
    words
        int32[cells], global ids, ascending within a document.
    counts
        int32 or float32[cells].
    lengths
        uint32[docs].
    axes
        By name (indptr int64[docs + 1], ids int32[entries]).
    """

    words: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray
    axes: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def indptr(self) -> np.ndarray:
        """Return int64[docs + 1], the first cell of each document and their end."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)))

    def matrix(self, n_words: int) -> csr_array:
        """Return the counts as a sparse matrix [docs, n_words] that shares memory."""
        from scipy.sparse import csr_array  # a tenth of a second, which passes need not spend

        return csr_array(
            (self.counts, self.words, self.indptr.astype(np.int32)), (len(self.lengths), n_words)
        )

    def drop(self, rows: np.ndarray) -> None:
        """Make the documents in these rows (int64, ascending) empty."""
        stays = np.ones(len(self.lengths), np.bool_)
        stays[rows] = False
        cells = np.repeat(stays, self.lengths)
        self.words = self.words[cells]
        self.counts = self.counts[cells]
        self.lengths[rows] = 0


def cut_axis(raw: Decoded, name: str, first: int, last: int) -> AxisRows:
    """Cut the entries of documents ``first`` to ``last - 1`` from an axis."""
    indptr, ids = raw.axes[name]
    mine = indptr[first : last + 1]
    unique, local = np.unique(ids[mine[0] : mine[-1]], return_inverse=True)
    return AxisRows(
        unique.astype(np.int32, copy=False), mine - mine[0], local.astype(np.int32).reshape(-1)
    )


class Cutter:
    """A cutter of decoded storage blocks into blocks with local ids.

    It marks words in arrays of the vocabulary's size (5 bytes per word) and never sorts. One thread
    at a time may use it. weights: as in ``Corpus.weights``.
    """

    def __init__(self, n_words: int, weights: Any = None) -> None:
        self._marker = np.zeros(n_words, np.uint8)
        self._local = np.empty(n_words, np.int32)
        self._weights = weights
        self._lock = threading.Lock()

    def local(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Assign local ids to the distinct words of cells.

        words: int32[nnz] global ids. Returns int32[U], ascending, and int32[nnz].
        """
        vocab = np.empty(min(len(ids), len(self._marker)) + 1, np.int32)
        numbers = np.empty(len(ids), np.int32)
        with self._lock:
            u = to_local(ids, self._marker, self._local, vocab, numbers)
        return vocab[:u].copy(), numbers

    def block(self, grid: Grid, number: int, raw: Decoded) -> Block:
        """Cut block ``number`` of ``grid`` out of its storage block, copying the arrays."""
        first = int(grid.row_start[number])
        last = int(grid.row_stop[number])
        cells = slice(
            int(grid.cell_start[number]), int(grid.cell_start[number] + grid.cells[number])
        )
        vocab, words = self.local(raw.words[cells])
        indptr = np.zeros(last - first + 1, np.int64)
        np.cumsum(raw.lengths[first:last], out=indptr[1:])
        counts = raw.counts[cells].copy()  # the block outlives what it is cut from
        axes = {name: cut_axis(raw, name, first, last) for name in raw.axes}
        block = Block(
            number,
            int(grid.first_doc[number]),
            indptr,
            words,
            counts,
            vocab,
            float(grid.tokens[number]),
            axes,
        )
        weighted: Block = block if self._weights is None else self._weights.block(block)
        return weighted


def cut_grid(
    blocks: Iterable[Decoded],
    n_words: int,
    cells: int,
    docs: int,
    *,
    heldout: bool,
    axes: Sequence[str],
) -> Grid:
    """See ``Corpus.grid``.  blocks: the storage blocks of the part, in order, with the axes."""
    cutter = Cutter(n_words)
    columns = list[np.ndarray]()
    tokens = list[float]()
    first_doc = 0
    widest = 1
    longest = 0
    shapes = {name: AxisShape(0, 0, 0) for name in axes}
    for storage, raw in enumerate(blocks):
        starts = np.empty(len(raw.lengths) + 1, np.int64)
        n = cut_lengths(raw.lengths, cells, docs, starts)
        edges = np.append(starts[:n], len(raw.lengths))
        cell_edges = raw.indptr[edges]
        rows = (
            np.full(n, storage),
            edges[:-1],
            edges[1:],
            cell_edges[:-1],
            np.diff(cell_edges),
            first_doc + edges[:-1],
        )
        columns.append(np.stack(rows).astype(np.int64))
        for i in range(n):
            part = slice(cell_edges[i], cell_edges[i + 1])
            words = len(cutter.local(raw.words[part])[0])
            widest = max(widest, words)
            tokens.append(float(raw.counts[part].sum(dtype=np.float64)))
            for name in axes:
                shape = _axis_shape(raw, name, edges[i], edges[i + 1], words)
                shapes[name] = AxisShape(*map(max, shapes[name], shape))
        first_doc += len(raw.lengths)
        longest = max(longest, int(raw.lengths.max(initial=0)))
    storages, row_start, row_stop, cell_start, cell_counts, first_docs = np.concatenate(
        [np.zeros((6, 0), np.int64), *columns], axis=1
    )
    return Grid(
        heldout,
        storages,
        row_start,
        row_stop,
        cell_start,
        cell_counts,
        first_docs,
        np.array(tokens),
        widest,
        longest,
        shapes,
    )


def _axis_shape(raw: Decoded, name: str, first: int, last: int, words: int) -> AxisShape:
    """Measure the axis entries of documents ``first`` to ``last - 1``.

    words: number of their distinct words.
    """
    lengths = (
        raw.lengths[first:last] if name == "words" else np.diff(raw.axes[name][0][first : last + 1])
    )
    entries = int(lengths.sum(dtype=np.int64))
    longest = int(lengths.max(initial=0))
    return AxisShape(
        words if name == "words" else len(cut_axis(raw, name, first, last).ids), entries, longest
    )
