"""Cutting a corpus into engine blocks: decoded storage blocks, the grid, the cutter."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
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
    heldout
        True for the held-out part.
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
        """Return block numbers in visiting order.

        Parameters
        ----------
        how
            ``sequential``, or ``shuffled``: the storage blocks in random order, and the blocks
            within each, so that a pass still reads every chunk once.
        seed, pass_number
            Numbers that a shuffled order depends on.
        """
        if how == "sequential" or not len(self):
            return np.arange(len(self))
        if how != "shuffled":
            raise ValueError(f"order must be 'sequential' or 'shuffled', not {how!r}")
        rng = np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), pass_number]))
        storages = rng.permutation(np.unique(self.storage))
        groups = [np.flatnonzero(self.storage == storage) for storage in storages]
        return np.concatenate([rng.permutation(group) for group in groups])


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
        The lists of other axes by name: indptr int64[docs + 1] and ids int32[entries].
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
    edges = indptr[first : last + 1]
    unique, local = np.unique(ids[edges[0] : edges[-1]], return_inverse=True)
    return AxisRows(
        unique.astype(np.int32, copy=False), edges - edges[0], local.astype(np.int32).reshape(-1)
    )


class Cutter:
    """A cutter of decoded storage blocks into blocks with local ids.

    It marks words in arrays of the vocabulary's size (5 bytes per word) and never sorts.

    Parameters
    ----------
    n_words
        Words of the vocabulary.
    weights, covariates
        As in ``Corpus``.
    """

    def __init__(self, n_words: int, weights: Any = None, covariates: Any = None) -> None:
        self._marker = np.zeros(n_words, np.uint8)
        self._local = np.empty(n_words, np.int32)
        self._weights = weights
        self._covariates = covariates
        self._lock = threading.Lock()

    def local(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Assign local ids to the distinct words of cells.

        Parameters
        ----------
        ids
            int32[nnz], global ids.

        Returns
        -------
        vocab, numbers
            int32[U], ascending, the global id of each local one; int32[nnz], local ids.
        """
        vocab = np.empty(min(len(ids), len(self._marker)) + 1, np.int32)
        numbers = np.empty(len(ids), np.int32)
        with self._lock:
            u = to_local(ids, self._marker, self._local, vocab, numbers)
        return vocab[:u].copy(), numbers

    def block(self, grid: Grid, number: int, raw: Decoded) -> Block:
        """Cut block ``number`` of ``grid`` out of its storage block, copying the arrays.

        Raises
        ------
        StoreError
            If the cells are not those that the grid was made from.
        """
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
        has_cells = last <= len(raw.lengths) and indptr[-1] == len(words)
        longest = int(raw.lengths[first:last].max(initial=0))
        within_maxima = len(vocab) <= grid.max_words and longest <= grid.longest
        has_tokens = math.isclose(total, grid.tokens[number], rel_tol=1e-9, abs_tol=1e-6)
        if not (has_cells and within_maxima and has_tokens):
            # engines index by these numbers without a check of their own
            raise StoreError(
                f"storage block {grid.storage[number]}: is not cut as the manifest says; restore "
                f"manifest.json or ingest again"
            )
        axes = {name: cut_axis(raw, name, first, last) for name in raw.axes}
        block = Block(
            index=number,
            first_doc=int(grid.first_doc[number]),
            indptr=indptr,
            words=words,
            counts=counts,
            vocab=vocab,
            tokens=float(grid.tokens[number]),
            axes=axes,
            covariates=None if self._covariates is None else self._covariates.read(number),
        )
        weighted: Block = block if self._weights is None else self._weights.weigh_block(block)
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
    words
        Distinct words of the engine block that has most.
    longest
        Cells of the longest document.
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
    """Find in the manifest how a storage block is cut.

    Returns
    -------
    BlockCut or None
        None if the manifest does not say so, and ``cut_block`` must read the cells.
    """
    if entry.changed is not None:  # documents were removed since it was written
        return None
    for cut in entry.cuts:
        if (cut.cells, cut.docs) == (cells, docs):
            return BlockCut(
                docs=np.array([block[0] for block in cut.blocks], np.int64),
                cells=np.array([block[1] for block in cut.blocks], np.int64),
                tokens=np.array([block[2] for block in cut.blocks], np.float64),
                words=cut.words,
                longest=entry.longest,
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
    tokens = []
    for start, stop in pairwise(cell_edges):
        tokens.append(float(raw.counts[start:stop].sum(dtype=np.float64)))
    shapes = {name: AxisShape(0, 0, 0) for name in axes}
    for name in axes:
        for i in range(n):
            shape = _axis_shape(raw, name, edges[i], edges[i + 1], int(words[i]))
            shapes[name] = AxisShape(*map(max, shapes[name], shape))
    return BlockCut(
        docs=np.diff(edges),
        cells=np.diff(cell_edges),
        tokens=np.array(tokens),
        words=int(words.max(initial=0)),
        longest=int(raw.lengths.max(initial=0)),
        axes=shapes,
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
    joined = np.concatenate(columns, axis=1)
    return Grid(
        heldout=heldout,
        storage=joined[0],
        row_start=joined[1],
        row_stop=joined[2],
        cell_start=joined[3],
        cells=joined[4],
        first_doc=joined[5],
        tokens=np.concatenate(tokens),
        max_words=widest,
        longest=longest,
        axes=shapes,
    )


def _axis_shape(raw: Decoded, name: str, first: int, last: int, words: int) -> AxisShape:
    """Measure the axis entries of documents ``first`` to ``last - 1``.

    Parameters
    ----------
    raw
        The storage block.
    name
        The axis.
    first, last
        The first document, and the one past the last.
    words
        Number of their distinct words.
    """
    if name == "words":
        rows = words
        lengths = raw.lengths[first:last]
    else:
        cut = cut_axis(raw, name, first, last)
        rows = len(cut.ids)
        lengths = np.diff(cut.indptr)
    entries = int(lengths.sum(dtype=np.int64))
    return AxisShape(rows=rows, entries=entries, longest=int(lengths.max(initial=0)))
