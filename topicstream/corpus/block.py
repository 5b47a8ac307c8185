"""A block: a run of consecutive documents of a corpus, with its own local vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from topicstream.kernels.arrays import Cells


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
    """The largest of each over the blocks of a grid, of one axis: rows that a block touches, its
    entries, the entries of one document."""

    rows: int
    entries: int
    longest: int


@dataclass(frozen=True)
class Block:
    """Documents ``first_doc .. first_doc + D - 1`` of one part of a corpus as cells over U local
    words.

    index      number of the block in its grid (the order of a sequential pass)
    first_doc  global number of row 0 within the part (empty and removed documents keep their row)
    indptr     int64[D+1]   cells of row d: indptr[d] .. indptr[d+1]
    words      int32[nnz]   local word ids 0..U-1, ascending and unique within a document
    counts     int32[nnz] > 0, or float32[nnz] in a weighted corpus
    vocab      int32[U]     global id of each local word, ascending
    tokens     sum of counts
    axes       the other axes of the corpus that the block was cut with

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

    def rows(self, axis: str) -> AxisRows:
        """The block's rows on ``words`` (an entry a cell), ``documents`` (each its own) or another
        axis (of ``LINKS``: training documents linked with each); KeyError: the reader was not asked
        for that one."""
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
        """What kernels take."""
        return Cells(self.indptr, self.words, self.counts)

    @property
    def n_docs(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_cells(self) -> int:
        return len(self.words)

    @property
    def n_words(self) -> int:
        return len(self.vocab)
