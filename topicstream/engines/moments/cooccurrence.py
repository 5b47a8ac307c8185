"""Products of the word co-occurrence matrix with a thin matrix, block by block; the matrix itself is never formed.

    M = mean over documents of two tokens or more of (c c^T - diag(c)) / (l (l - 1))

(Fisher, Kozdoba & Mannor, eq. 9 and 10): p(u, v) of two tokens of a document at different positions.  For any matrix X of
a row a word, M X sums c_d (c_d^T X) - diag(c_d) X over documents: first a row a document, then a row a word.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels import rng
from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs
from topicstream.kernels.jit import fast_kernel, kernel

TILE = 64  # columns of the documents' rows that are worked on at a time: they stay in the processor's cache
SIGNS = 100  # a word has one sign in every so many columns of the projection


@kernel
def by_word(indptr: Longs, words: Ints, counts: Ints, ptr: Longs, doc: Ints, value: Floats) -> None:
    """The block's cells word by word, documents ascending: ptr int64[U+1], doc int32[nnz], value float32[nnz]."""
    ptr[:] = 0
    for i in range(len(words)):
        ptr[words[i] + 1] += 1
    for u in range(len(ptr) - 1):
        ptr[u + 1] += ptr[u]
    at = ptr[:-1].copy()
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            j = at[words[i]]
            at[words[i]] = j + 1
            doc[j] = d
            value[j] = counts[i]


@kernel
def pair_weights(indptr: Longs, counts: Ints, least: float, weight: Doubles, length: Doubles) -> int:
    """length[d] = l, the document's tokens, and weight[d] = 1 / (l - 1), what each of its l (l - 1) ordered pairs of tokens
    weighs: so a document weighs as much as it has tokens.  Both are 0 for one of fewer than ``least`` tokens; returns how
    many are longer."""
    n = 0
    for d in range(len(indptr) - 1):
        total = 0.0
        for i in range(indptr[d], indptr[d + 1]):
            total += counts[i]
        weight[d] = 0.0
        length[d] = 0.0
        if total >= least:
            weight[d], length[d] = 1.0 / (total - 1.0), total
            n += 1
    return n


@kernel
def word_sums(ptr: Longs, doc: Ints, weight: Doubles, length: Doubles, value: Floats, sums: Doubles) -> None:
    """sums float64[U, 3] of each word: its row of M, summed (its tokens); what its diagonal holds too much (x / (l - 1));
    documents."""
    for u in range(len(ptr) - 1):
        row, much, docs = 0.0, 0.0, 0.0
        for j in range(ptr[u], ptr[u + 1]):
            if length[doc[j]] > 0:
                row += value[j]
                much += value[j] * weight[doc[j]]
                docs += 1.0
        sums[u, 0], sums[u, 1], sums[u, 2] = row, much, docs


@kernel
def signs(seed: int, ids: Ints, column: Ints, sign: Floats) -> None:
    """The rows of the projection: word w has +-1 in one of each SIGNS columns; column int32, sign float32, both [U, n]."""
    for u in range(len(ids)):
        state = rng.stream(seed, 0, ids[u])
        for j in range(column.shape[1]):
            state = rng.step(state)
            word = rng.bits(state)
            column[u, j] = j * SIGNS + rng.below(word, SIGNS)
            sign[u, j] = 1.0 if np.uint64(word) & np.uint64(1) else -1.0


@kernel
def sparse_sums(
    indptr: Longs, words: Ints, counts: Ints, weight: Doubles, column: Ints, sign: Floats, sums: Array
) -> None:
    """sums[d] = weight_d sum of x X[w], the rows of X given by their few entries (column -1: none)."""
    sums[:] = 0.0
    for d in range(len(indptr) - 1):
        if weight[d] > 0.0:
            for i in range(indptr[d], indptr[d + 1]):
                x, u = weight[d] * counts[i], words[i]
                for j in range(column.shape[1]):
                    if column[u, j] >= 0:
                        sums[d, column[u, j]] += x * sign[u, j]


@fast_kernel
def dense_sums(
    indptr: Longs, words: Ints, counts: Ints, weight: Doubles, base: Doubles, index: Longs, sums: Doubles
) -> None:
    """sums[d] = weight_d sum of x X[w], X[w] = base[index[w]]."""
    sums[:] = 0.0
    for d in range(len(indptr) - 1):
        if weight[d] > 0.0:
            for i in range(indptr[d], indptr[d + 1]):
                x, row = weight[d] * counts[i], base[index[words[i]]]
                for k in range(sums.shape[1]):
                    sums[d, k] += x * row[k]


@fast_kernel
def spread(ptr: Longs, doc: Ints, value: Floats, sums: Array, which: Longs, out: Floats) -> None:
    """out[r] = sum of x sums[d] over the documents of word which[r], TILE columns at a time, in the precision of ``sums``."""
    acc = np.empty(TILE, sums.dtype)
    for first in range(0, sums.shape[1], TILE):
        n = min(TILE, sums.shape[1] - first)
        for r in range(len(which)):
            acc[:] = 0.0
            for j in range(ptr[which[r]], ptr[which[r] + 1]):
                x, row = value[j], sums[doc[j], first : first + n]
                for t in range(n):
                    acc[t] += x * row[t]
            for t in range(n):
                out[r, first + t] = acc[t]


@kernel
def take_diagonal(much: Doubles, column: Ints, sign: Floats, which: Longs, out: Floats) -> None:
    """out[r] -= much[u] X[u], u = which[r], the rows of X given by their few entries."""
    for r in range(len(which)):
        u = which[r]
        for j in range(column.shape[1]):
            if column[u, j] >= 0:
                out[r, column[u, j]] -= much[u] * sign[u, j]


@kernel
def matrix_rows(
    ptr: Longs,
    doc: Ints,
    value: Floats,
    indptr: Longs,
    words: Ints,
    counts: Ints,
    weight: Doubles,
    vocab: Ints,
    acc: Doubles,
    seen: Ints,
    topic: Ints,
    out: Floats,
    ends: Longs,
) -> int:
    """The block's part of M itself, row by row: ends int64[U+1], topic int32 (columns: global ids) and out float32, both of a length
    that holds them.  acc float64[U] zeros, seen int32[U] scratch.  Returns the entries."""
    at = 0
    ends[0] = 0
    for u in range(len(ptr) - 1):
        n = 0
        for j in range(ptr[u], ptr[u + 1]):
            d = doc[j]
            if weight[d] > 0.0:
                for i in range(indptr[d], indptr[d + 1]):
                    v = words[i]
                    x = float(counts[i]) - 1.0 if v == u else float(counts[i])
                    if x > 0.0:
                        if acc[v] == 0.0:
                            seen[n] = v
                            n += 1
                        acc[v] += weight[d] * value[j] * x
        for m in range(n):
            topic[at] = vocab[seen[m]]
            out[at] = acc[seen[m]]
            acc[seen[m]] = 0.0
            at += 1
        ends[u + 1] = at
    return at
