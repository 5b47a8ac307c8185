"""Cutting a corpus into engine blocks: decoded storage blocks, the grid, the cutter."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.base.errors import StoreError
from topicstream.corpus.block import (
    AxisRows,
    AxisShape,
    Block,
    count_words,
    cut_lengths,
    to_local,
)
from topicstream.corpus.manifest import BlockEntry, CutEntry

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
    at a time may use it. weights, covariates: as in ``Corpus``.
    """

    def __init__(self, n_words: int, weights: Any = None, covariates: Any = None) -> None:
        self._marker = np.zeros(n_words, np.uint8)
        self._local = np.empty(n_words, np.int32)
        self._weights = weights
        self._covariates = covariates
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
        total = float(counts.sum(dtype=np.float64))
        if (
            last > len(raw.lengths)
            or indptr[-1] != len(words)
            or len(vocab) > grid.max_words
            or int(raw.lengths[first:last].max(initial=0)) > grid.longest
            or not math.isclose(total, grid.tokens[number], rel_tol=1e-9, abs_tol=1e-6)
        ):
            raise StoreError(
                f"storage block {grid.storage[number]}: is not cut as the manifest says; restore "
                f"manifest.json or ingest again"
            )
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
            None if self._covariates is None else self._covariates.read(number),
        )
        weighted: Block = block if self._weights is None else self._weights.block(block)
        return weighted


@dataclass(frozen=True)
class BlockCut:
    """A storage block cut into engine blocks.

    Attributes
    ----------
    docs, cells
        int64[blocks], documents and cells of each engine block.
    tokens
        float64[blocks], sum of its counts.
    words, longest
        Distinct words of the engine block that has most, cells of the longest document.
    axes
        Sizes of the requested axes.
    """

    docs: np.ndarray
    cells: np.ndarray
    tokens: np.ndarray
    words: int
    longest: int
    axes: Mapping[str, AxisShape] = field(default_factory=dict)

    def entry(self, cells: int, docs: int) -> CutEntry:
        """Make the manifest's entry of blocks of at most ``cells`` cells and ``docs`` documents."""
        numbers = (self.docs.tolist(), self.cells.tolist(), self.tokens.tolist())
        return CutEntry(
            cells=cells, docs=docs, blocks=list(zip(*numbers, strict=True)), words=self.words
        )


def find_cut(entry: BlockEntry, cells: int, docs: int) -> BlockCut | None:
    """Find how a storage block is cut in the manifest.

    None: its cells must be read.
    """
    if entry.changed is not None:
        return None
    for cut in entry.cuts:
        if (cut.cells, cut.docs) == (cells, docs):
            columns = [np.array([of_block[i] for of_block in cut.blocks]) for i in range(3)]
            return BlockCut(
                columns[0].astype(np.int64),
                columns[1].astype(np.int64),
                columns[2].astype(np.float64),
                cut.words,
                entry.longest,
            )
    return None


def cut_block(raw: Decoded, cells: int, docs: int, axes: Sequence[str] = ()) -> BlockCut:
    """Cut a storage block into engine blocks of at most ``cells`` cells and ``docs`` documents."""
    starts = np.empty(len(raw.lengths) + 1, np.int64)
    n = cut_lengths(raw.lengths, cells, docs, starts)
    edges = np.append(starts[:n], len(raw.lengths))
    cell_edges = raw.indptr[edges]
    words = np.zeros(n, np.int64)
    last = np.zeros(int(raw.words.max(initial=-1)) + 1, np.int32)
    count_words(raw.words, cell_edges, last, words)
    tokens = [
        float(raw.counts[cell_edges[i] : cell_edges[i + 1]].sum(dtype=np.float64)) for i in range(n)
    ]
    shapes = {name: AxisShape(0, 0, 0) for name in axes}
    for name in axes:
        for i in range(n):
            shape = _axis_shape(raw, name, edges[i], edges[i + 1], int(words[i]))
            shapes[name] = AxisShape(*map(max, shapes[name], shape))
    return BlockCut(
        np.diff(edges),
        np.diff(cell_edges),
        np.array(tokens),
        int(words.max(initial=0)),
        int(raw.lengths.max(initial=0)),
        shapes,
    )


def join_cuts(cuts: Iterable[BlockCut], *, heldout: bool, axes: Sequence[str]) -> Grid:
    """Make the grid of a part from the cuts of its storage blocks, in order."""
    columns = [np.zeros((6, 0), np.int64)]
    tokens = [np.zeros(0)]
    first_doc = 0
    widest = 1
    longest = 0
    shapes = {name: AxisShape(0, 0, 0) for name in axes}
    for storage, cut in enumerate(cuts):
        row_stop = np.cumsum(cut.docs)
        row_start = row_stop - cut.docs
        rows = (
            np.full(len(cut.docs), storage),
            row_start,
            row_stop,
            np.cumsum(cut.cells) - cut.cells,
            cut.cells,
            first_doc + row_start,
        )
        columns.append(np.stack(rows).astype(np.int64))
        tokens.append(cut.tokens)
        first_doc += int(cut.docs.sum())
        widest = max(widest, cut.words)
        longest = max(longest, cut.longest)
        for name in axes:
            shapes[name] = AxisShape(*map(max, shapes[name], cut.axes[name]))
    storages, row_start, row_stop, cell_start, cell_counts, first_docs = np.concatenate(
        columns, axis=1
    )
    return Grid(
        heldout,
        storages,
        row_start,
        row_stop,
        cell_start,
        cell_counts,
        first_docs,
        np.concatenate(tokens),
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
