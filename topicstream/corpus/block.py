"""A block: a run of consecutive documents of a corpus, with its own local vocabulary.

The kernels encode and decode word ids, assign local ids, and cut storage blocks into blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from topicstream.base.errors import StoreError
from topicstream.numeric.kernels.arrays import Array, Bytes, Cells, Int, Ints, Longs
from topicstream.numeric.kernels.jit import kernel

SHORT_TEXT = 25.0
"""Tokens of a mean document below which texts are short
(docs/internals/decisions/short-texts.md).
"""


class AxisRows(NamedTuple):
    """The rows of one axis that a block touches.

    Attributes
    ----------
    ids
        int32[U], ascending: the row of the axis that each local number stands for.
    indptr
        int64[D + 1]. Document d has the entries indptr[d] to indptr[d + 1] - 1.
    local
        int32[E], local numbers 0 to U - 1, ascending and unique within a document.
    """

    ids: np.ndarray
    indptr: np.ndarray
    local: np.ndarray


class AxisShape(NamedTuple):
    """Sizes of one axis in the blocks of a grid, each the largest of all blocks.

    Attributes
    ----------
    rows
        Rows of the axis that a block touches.
    entries
        Entries of a block.
    longest
        Entries of a document.
    """

    rows: int
    entries: int
    longest: int


class CovariateRows(NamedTuple):
    """The covariates of a block's documents, as sparse rows of numbers (model/design.py).

    Many documents have the same row, which is stored once.

    Attributes
    ----------
    pattern
        int32[D], the row of each document.
    indptr
        int64[U + 1]. Row u has the numbers indptr[u] to indptr[u + 1] - 1.
    columns
        int32[n], their columns, ascending within a row.
    values
        float32[n], the numbers.
    """

    pattern: np.ndarray
    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Block:
    """A run of documents of a part of a corpus, as cells over U local words.

    Attributes
    ----------
    index
        Number of the block in its grid (the order of a sequential pass).
    first_doc
        Number of row 0 within the part. Empty and removed documents keep their row.
    indptr
        int64[D + 1]. Row d has the cells indptr[d] to indptr[d + 1] - 1.
    words
        int32[nnz], local word ids 0 to U - 1, ascending and unique within a document.
    counts
        int32[nnz] > 0, or float32[nnz] in a weighted corpus.
    vocab
        int32[U], global id of each local word, ascending.
    tokens
        Sum of counts.
    axes
        The other axes of the corpus that the block was cut with.
    covariates
        Numbers on which the prior of each document depends, or None.

    Notes
    -----
    A block owns its arrays.
    """

    index: int
    first_doc: int
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    vocab: np.ndarray
    tokens: float
    axes: Mapping[str, AxisRows] = field(default_factory=dict)
    covariates: CovariateRows | None = None

    def rows(self, axis: str) -> AxisRows:
        """Return the block's rows on an axis.

        Parameters
        ----------
        axis
            ``words``, with an entry per cell; ``documents``, with a row per document; or an axis
            for which the reader was asked.

        Raises
        ------
        KeyError
            If the reader was not asked for the axis.
        """
        if axis == "words":
            return AxisRows(self.vocab, self.indptr, self.words)
        if axis == "documents":
            indptr = np.arange(self.n_docs + 1)  # one entry a document: itself
            numbers = indptr[:-1]
            ids = (self.first_doc + numbers).astype(np.int32)
            return AxisRows(ids, indptr, numbers.astype(np.int32))
        return self.axes[axis]

    @property
    def cells(self) -> Cells:
        """Return the arrays that kernels take."""
        return Cells(self.indptr, self.words, self.counts)

    @property
    def n_docs(self) -> int:
        """Count the documents, D."""
        return len(self.indptr) - 1

    @property
    def n_cells(self) -> int:
        """Count the cells, nnz."""
        return len(self.words)

    @property
    def n_words(self) -> int:
        """Count the local words, U."""
        return len(self.vocab)


def to_gaps(indptr: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Encode word ids as the first id of each document and gaps to the next.

    Parameters
    ----------
    indptr
        int64[D + 1], the cells of each document.
    words
        int32[nnz], ascending within each document.

    Returns
    -------
    ndarray
        uint32[nnz].
    """
    gaps = np.empty(len(words), np.uint32)
    np.subtract(words[1:], words[:-1], out=gaps[1:], casting="unsafe")
    starts = indptr[:-1][indptr[1:] > indptr[:-1]]
    gaps[starts] = words[starts]
    return gaps


@kernel
def from_gaps(gaps: Array, lengths: Array, words: int) -> int:
    """Decode gaps to word ids in place, and check them.

    Kernels index by these ids without a check of their own.

    Parameters
    ----------
    gaps
        uint32[nnz], as written by ``to_gaps``.
    lengths
        uint32[D], cells of each document.
    words
        Number of words.

    Returns
    -------
    int
        The first document whose ids do not ascend within 0 to words - 1, or -1.
    """
    i = np.int64(0)
    for d in range(len(lengths)):
        last = np.int64(-1)
        for j in range(i, i + np.int64(lengths[d])):
            gap = np.int64(gaps[j])
            if gap == 0 and j > i:
                return d
            last = gap if j == i else last + gap
            if last >= words:
                return d
            gaps[j] = last
        i += np.int64(lengths[d])
    return -1


@kernel
def to_local(ids: Ints, marker: Bytes, local: Ints, vocab: Ints, out: Ints) -> Int:
    """Assign local ids to the distinct words of some cells, in ascending order.

    Parameters
    ----------
    ids
        int32[nnz], global ids.
    marker
        uint8[W], zeros before and after.
    local
        int32[W], scratch.
    vocab
        int32[U + 1], receives the global id of each local one; its last entry is scratch.
    out
        int32[nnz], receives the local ids.

    Returns
    -------
    int
        U, the number of distinct words.
    """
    cells = ids.view(np.uint32)  # an index that may be negative is looked at twice
    for i in range(len(cells)):
        marker[cells[i]] = 1
    u = np.uint64(0)
    wide = marker[: len(marker) // 8 * 8].view(np.uint64)
    for j in range(len(wide)):
        if wide[j] != 0:
            # words that are not there are written, too: the processor would guess a branch wrong
            for w in range(8 * j, 8 * j + 8):
                vocab[u] = w
                local[w] = u
                u += np.uint64(marker[w])
            wide[j] = 0
    for w in range(8 * len(wide), len(marker)):
        vocab[u] = w
        local[w] = u
        u += np.uint64(marker[w])
        marker[w] = 0
    for i in range(len(cells)):
        out[i] = local[cells[i]]
    return np.int64(u)


@kernel
def count_words(ids: Ints, edges: Longs, last: Ints, out: Longs) -> None:
    """Count the distinct words of each run of cells.

    Parameters
    ----------
    ids
        int32[nnz], global ids.
    edges
        int64[R + 1]. Run i has the cells edges[i] to edges[i + 1] - 1.
    last
        int32[W], zeros; holds the run, from 1, in which a word was seen last.
    out
        int64[R], receives the counts.
    """
    cells = ids.view(np.uint32)
    for run in range(len(edges) - 1):
        words = np.int64(0)
        for i in range(edges[run], edges[run + 1]):
            words += np.int64(last[cells[i]] != run + 1)
            last[cells[i]] = run + 1
        out[run] = words


@kernel
def cut_lengths(lengths: Array, cells: int, docs: int, starts: Longs) -> int:
    """Cut a storage block into engine blocks.

    There are as few blocks as ``cells`` allows, give or take half a document, and of equal size,
    because a round takes as long as its largest block.

    Parameters
    ----------
    lengths
        uint32[D], cells of each document.
    cells, docs
        Cells and documents of an engine block, at most.
    starts
        int64[D + 1], receives the first document of each engine block.

    Returns
    -------
    int
        Number of engine blocks.
    """
    total = 0
    for d in range(len(lengths)):
        total += int(lengths[d])
    total = max(total, 1)
    parts = -(-total // cells)
    n = cells_before = in_cells = in_docs = 0
    end = 0  # the block ends as near as it can to ``end`` shares, of ``parts``, of all cells
    for d in range(len(lengths)):
        length = int(lengths[d])
        if (
            d == 0
            or (in_cells > 0 and (2 * cells_before + length) * parts > 2 * end * total)
            or in_docs >= docs
        ):
            starts[n] = d
            n += 1
            end = (2 * cells_before * parts + total) // (2 * total) + 1
            in_cells = in_docs = 0
        cells_before += length
        in_cells += length
        in_docs += 1
    return n


def check_rows(numbers: np.ndarray, lengths: np.ndarray, width: int, where: str) -> None:
    """Raise StoreError unless dense rows are complete and finite."""
    if not np.isfinite(numbers).all() or (lengths % width).any():
        raise StoreError(f"{where}: a vector is truncated or not finite; ingest again")


def check_counts(counts: np.ndarray, tokens: float, where: str) -> None:
    """Raise StoreError unless counts are positive, finite and sum up to ``tokens``.

    Sums of weights (floats) may differ by rounding.
    """
    weighted = counts.dtype.kind == "f"
    total = counts.sum(dtype=np.float64 if weighted else np.int64)
    are_positive = counts.min(initial=1) > 0  # False of NaN, too
    if not are_positive or not np.isclose(total, tokens, rtol=1e-9 * weighted, atol=0.0):
        raise StoreError(
            f"{where}: counts that are not above 0 or do not add up to the manifest's; ingest again"
        )
