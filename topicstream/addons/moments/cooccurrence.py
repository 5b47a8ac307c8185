"""Products of the word co-occurrence matrix with a matrix of few columns, block by block.

    M = sum over documents of two tokens or more of (c c^T - diag(c)) / (l - 1)

(Fisher, Kozdoba & Mannor, eq. 9 and 10): M[u, v] is proportional to p(u, v) of two tokens of a
document at different positions; a document weighs as much as it has tokens. For any X of a row a
word, M X sums c_d (c_d^T X) - diag(c_d) X over documents.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from topicstream.corpus.block import Block
from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import Floats, Ints
from topicstream.numeric.kernels.jit import kernel

SIGNS = 100  # a word has one sign in every so many columns of the projection


class Pairs(NamedTuple):
    """The pairs of tokens of a block.

    Attributes
    ----------
    counts
        [D, U] sparse, float64: the documents that take part, the others empty.
    weight
        float64[D], 1 / (l - 1), or 0.
    sums
        float64[U], the row of M of each word, summed: its tokens.
    excess
        float64[U], the excess of c c^T on the diagonal, x / (l - 1).
    documents
        float64[U], documents that have the word.
    """

    counts: Any
    weight: np.ndarray
    sums: np.ndarray
    excess: np.ndarray
    documents: np.ndarray

    def times(self, x: Any, rows: np.ndarray) -> Any:
        """Multiply rows of the block's part of M by x, [len(rows), columns], dense.

        ``x`` is [U, columns], dense or sparse.
        """
        weighed = sparse.diags_array(self.weight).astype(x.dtype) @ self.counts.astype(x.dtype)
        by_document = weighed @ x
        if sparse.issparse(by_document):
            by_document = by_document.toarray()
        product = self.counts.T.tocsr()[rows].astype(x.dtype) @ by_document
        return product - sparse.diags_array(self.excess[rows]).astype(x.dtype) @ x[rows]


def pairs_of(block: Block, least: float) -> Pairs:
    """Collect the pairs of tokens of the documents of ``least`` tokens or more."""
    document = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
    length = np.bincount(document, block.counts, block.n_docs)
    taking_part = length >= least
    weight = np.divide(1.0, length - 1.0, out=np.zeros(block.n_docs), where=taking_part)
    x = np.where(taking_part[document], block.counts, 0).astype(np.float64)
    counts = sparse.csr_array((x, block.words, block.indptr), (block.n_docs, block.n_words))
    sums, excess, documents = (
        np.bincount(block.words, of, block.n_words) for of in (x, x * weight[document], x > 0)
    )
    return Pairs(counts, weight, sums, excess, documents)


def signs(seed: int, words: np.ndarray, columns: int) -> Any:
    """Draw rows of the projection, float32 [U, columns], sparse.

    Each word has +1 or -1 in one of each ``SIGNS`` columns, by its global id.
    """
    shape = len(words), columns // SIGNS
    column = np.empty(shape, np.int32)
    sign = np.empty(shape, np.float32)
    _draw_signs(seed, words, column, sign)
    ends = np.arange(len(words) + 1) * shape[1]
    return sparse.csr_array((sign.ravel(), column.ravel(), ends), (len(words), columns))


@kernel
def _draw_signs(seed: int, ids: Ints, column: Ints, sign: Floats) -> None:
    for u in range(len(ids)):
        state = rng.stream(seed, 0, ids[u])
        for j in range(column.shape[1]):
            state = rng.step(state)
            word = rng.bits(state)
            column[u, j] = j * SIGNS + rng.below(word, SIGNS)
            sign[u, j] = 1.0 if np.uint64(word) & np.uint64(1) else -1.0
