"""A block: a run of consecutive documents of a corpus, with its own local vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """Documents ``first_doc .. first_doc + D - 1`` of one part of a corpus as cells over U local words.

    index      number of the block in its grid (the order of a sequential pass)
    first_doc  global number of row 0 within the part (empty and removed documents keep their row)
    indptr     int64[D+1]   cells of row d: indptr[d] .. indptr[d+1]
    words      int32[nnz]   local word ids 0..U-1, ascending and unique within a document
    counts     int32[nnz] > 0, or float32[nnz] in a weighted corpus
    vocab      int32[U]     global id of each local word, ascending
    tokens     sum of counts

    The arrays may be views of buffers that their owner reuses: valid until the block is given back.
    """

    index: int
    first_doc: int
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    vocab: np.ndarray
    tokens: float

    @property
    def n_docs(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_cells(self) -> int:
        return len(self.words)

    @property
    def n_words(self) -> int:
        return len(self.vocab)
