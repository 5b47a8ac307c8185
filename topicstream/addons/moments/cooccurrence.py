"""Products of the word co-occurrence matrix with a matrix of few columns, block by block.

    M = sum over documents of two tokens or more of (c c^T - diag(c)) / (l - 1)

(Fisher, Kozdoba & Mannor, eq. 9 and 10): M[u, v] is proportional to p(u, v) of two tokens of a
document at different positions; a document weighs as much as it has tokens. For any X of a row a
word, M X sums c_d (c_d^T X) - diag(c_d) X over documents.

The sums are kernels of our own: a compiler may fuse the products of a library with its sums on one
processor and not on another, and the bits would differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.corpus.block import Block
from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import Array, Floats, Ints, Longs
from topicstream.numeric.kernels.jit import kernel

SIGNS = 100
"""Columns of the projection in which a word has one sign."""


class FewEntries(NamedTuple):
    """A matrix X of few entries a row.

    Attributes
    ----------
    column
        int32[U, m], the columns of a row's entries; -1: none.
    value
        float32 or float64 [U, m].
    """

    column: Ints
    value: Array


class Pairs(NamedTuple):
    """The pairs of tokens of a block.

    Attributes
    ----------
    indptr, words
        The block's cells by document.
    counts
        float64[cells], 0 in documents that take no part.
    weight
        float64[D], 1 / (l - 1), or 0.
    sums
        float64[U], the row of M of each word, summed: its tokens.
    excess
        float64[U], the excess of c c^T on the diagonal, x / (l - 1).
    documents
        float64[U], documents that have the word.
    """

    indptr: Longs
    words: Ints
    counts: Array
    weight: Array
    sums: Array
    excess: Array
    documents: Array

    def multiply(self, x: Array | FewEntries, row: Ints, product: Array) -> None:
        """Compute rows of the block's part of M times X.

        Parameters
        ----------
        x
            float[U, C], or its few entries.
        row
            int32[U], the row of ``product`` of each word; -1: not asked for.
        product
            float[rows, C], result; sums are of its type.
        """
        kind = product.dtype
        document_sums = np.empty(product.shape[1], kind)
        pairs = self._replace(
            counts=self.counts.astype(kind),
            weight=self.weight.astype(kind),
            excess=self.excess.astype(kind),
        )
        if isinstance(x, FewEntries):
            few = x._replace(value=x.value.astype(kind))
            _multiply_few(pairs, few, row, document_sums, product)
        else:
            _multiply_dense(pairs, np.ascontiguousarray(x, kind), row, document_sums, product)


def collect_pairs(block: Block, least: float) -> Pairs:
    """Collect the pairs of tokens of the documents of ``least`` tokens or more."""
    document = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
    length = np.bincount(document, block.counts, block.n_docs)
    taking_part = length >= least
    weight = np.divide(1.0, length - 1.0, out=np.zeros(block.n_docs), where=taking_part)
    x = np.where(taking_part[document], block.counts, 0).astype(np.float64)
    sums = np.bincount(block.words, x, block.n_words)
    excess = np.bincount(block.words, x * weight[document], block.n_words)
    documents = np.bincount(block.words, x > 0, block.n_words)
    return Pairs(block.indptr, block.words, x, weight, sums, excess, documents)


def draw_signs(seed: int, words: Array, columns: int) -> FewEntries:
    """Draw rows of the projection, float32.

    Each word has +1 or -1 in one of each ``SIGNS`` columns, by its global id.
    """
    shape = len(words), columns // SIGNS
    column = np.empty(shape, np.int32)
    sign = np.empty(shape, np.float32)
    _draw_signs(seed, words, column, sign)
    return FewEntries(column, sign)


@kernel
def _draw_signs(seed: int, ids: Ints, column: Ints, sign: Floats) -> None:
    """Draw the columns and signs of words by their global ids."""
    for u in range(len(ids)):
        state = rng.stream(seed, 0, ids[u])
        for j in range(column.shape[1]):
            state = rng.step(state)
            word = rng.bits(state)
            column[u, j] = j * SIGNS + rng.below(word, SIGNS)
            sign[u, j] = 1.0 if np.uint64(word) & np.uint64(1) else -1.0


@kernel
def _add_document(pairs: Pairs, d: int, sums: Array, row: Ints, product: Array) -> None:
    """Add c_d (c_d^T X) of one document, given its second factor."""
    (indptr, words, counts, _, _, _, _) = pairs
    for c in range(indptr[d], indptr[d + 1]):
        r = row[words[c]]
        if r >= 0:
            for k in range(product.shape[1]):
                product[r, k] += counts[c] * sums[k]


@kernel
def _multiply_few(pairs: Pairs, x: FewEntries, row: Ints, sums: Array, product: Array) -> None:
    """Compute the block's part of M X, see ``Pairs.multiply``."""
    (indptr, words, counts, weight, _, excess, _) = pairs
    (column, value) = x
    product[:] = 0
    for d in range(len(weight)):
        if weight[d] == 0:
            continue
        # c_d^T X / (l - 1)
        sums[:] = 0
        for c in range(indptr[d], indptr[d + 1]):
            share = weight[d] * counts[c]
            u = words[c]
            for j in range(column.shape[1]):
                if column[u, j] >= 0:
                    sums[column[u, j]] += share * value[u, j]
        _add_document(pairs, d, sums, row, product)
    # diag(c_d) X / (l - 1) of all documents
    for u in range(len(row)):
        if row[u] >= 0:
            for j in range(column.shape[1]):
                if column[u, j] >= 0:
                    product[row[u], column[u, j]] -= excess[u] * value[u, j]


@kernel
def _multiply_dense(pairs: Pairs, x: Array, row: Ints, sums: Array, product: Array) -> None:
    """Compute the block's part of M X, see ``Pairs.multiply``."""
    (indptr, words, counts, weight, _, excess, _) = pairs
    product[:] = 0
    for d in range(len(weight)):
        if weight[d] == 0:
            continue
        # c_d^T X / (l - 1)
        sums[:] = 0
        for c in range(indptr[d], indptr[d + 1]):
            share = weight[d] * counts[c]
            u = words[c]
            for k in range(x.shape[1]):
                sums[k] += share * x[u, k]
        _add_document(pairs, d, sums, row, product)
    # diag(c_d) X / (l - 1) of all documents
    for u in range(len(row)):
        if row[u] >= 0:
            for k in range(x.shape[1]):
                product[row[u], k] -= excess[u] * x[u, k]
