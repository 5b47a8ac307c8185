"""A block: a run of consecutive documents of a corpus, with its own local vocabulary.

Kernels on the cells of a storage block: gaps to word ids and back, local ids, where blocks are
cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Bytes, Cells, Int, Ints, Longs
from topicstream.numeric.kernels.jit import kernel

SHORT_TEXT = 25.0
"""Tokens of a mean document below which texts are short
(docs/internals/decisions/short-texts.md).
"""


class AxisRows(NamedTuple):
    """The rows of one axis that a block touches.

    ids     int32[U]    ascending: the row of the axis that each local number stands for
    indptr  int64[D+1]  entries of document d: indptr[d] .. indptr[d+1]
    local   int32[E]    local numbers 0..U-1, ascending and unique within a document
    """

    ids: np.ndarray
    indptr: np.ndarray
    local: np.ndarray


class AxisShape(NamedTuple):
    """Maxima over the blocks of a grid for one axis.

    They are the rows that a block touches, its entries, and the entries of one document.
    """

    rows: int
    entries: int
    longest: int


class CovariateRows(NamedTuple):
    """The covariates of a block's documents, as sparse rows of numbers (model/design.py).

    Many documents have the same row, so each is there once.

    pattern  int32[D]    the row of each document
    indptr   int64[U+1]  numbers of row u: indptr[u] .. indptr[u+1]
    columns  int32[n]    their columns, ascending within a row
    values   float32[n]
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
        What the prior of each document depends on, or None.

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

        ``words`` has an entry per cell, ``documents`` a row per document, ``LINKS`` the training
        documents linked with each. Raises KeyError if the reader was not asked for the axis.
        """
        if axis == "words":
            return AxisRows(self.vocab, self.indptr, self.words)
        if axis == "documents":
            each = np.arange(self.n_docs + 1)
            return AxisRows(
                (self.first_doc + each[:-1]).astype(np.int32), each, each[:-1].astype(np.int32)
            )
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

    words: int32[nnz], ascending within each document. Returns uint32[nnz].
    """
    gaps = np.empty(len(words), np.uint32)
    np.subtract(words[1:], words[:-1], out=gaps[1:], casting="unsafe")
    starts = indptr[:-1][indptr[1:] > indptr[:-1]]
    gaps[starts] = words[starts]
    return gaps


@kernel
def from_gaps(gaps: Array, lengths: Array, words: int) -> int:
    """Decode gaps to word ids in place, and check them.

    gaps: uint32[nnz] as written by ``to_gaps``. lengths: uint32[D], cells of each document. Returns
    the first document whose ids do not ascend within 0 to words - 1, or -1. Kernels index by these
    ids without a check of their own.
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

    ids: int32[nnz] global -> vocab: int32[U + 1] ascending, then scratch, out: int32[nnz] local
    numbers. marker: uint8[W], zeros before and after; local: int32[W], scratch. Returns U.
    """
    cells = ids.view(np.uint32)  # an index that may be negative is looked at twice
    for i in range(len(cells)):
        marker[cells[i]] = 1
    u = np.uint64(0)
    wide = marker[: len(marker) // 8 * 8].view(np.uint64)
    for j in range(len(wide)):
        if wide[j] != 0:
            for w in range(
                8 * j, 8 * j + 8
            ):  # also of words that are not there: a branch would be guessed wrong
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
    """Count the distinct words of each run of cells edges[i] .. edges[i+1] - 1 into out[i].

    ids: int32[nnz] global. last: int32[W], zeros: the run in which a word was seen last.
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
    """Write the first document of each engine block to ``starts``, and count the blocks.

    starts: int64[]. There are as few blocks as ``cells`` allows, give or take half a document, of
    equal size, because a round takes as long as its largest block.
    """
    total = 0
    for d in range(len(lengths)):
        total += int(lengths[d])
    total = max(total, 1)
    parts = -(-total // cells)
    n = cells_before = end = in_cells = in_docs = (
        0  # end: this block ends nearest to so many shares of the cells
    )
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
