"""In how many documents the top words of a topic stand together, counted in one stream over the corpus.

Per 4096 documents each top word has a bit set (512 bytes); a pair's count is the population count of the two sets'
intersection.  Only pairs within a topic are counted, so memory is (distinct top words) x 512 bytes and K n^2 integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.kernels.arrays import Int, Ints, Longs, Words
from topicstream.kernels.jit import kernel
from topicstream.parallel.order import in_order

SPAN = 4096
_A, _B, _C = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_D = np.uint64(0x0101010101010101)


@kernel(inline="always")
def _ones(x: Any) -> Int:
    x = x - ((x >> np.uint64(1)) & _A)
    x = (x & _B) + ((x >> np.uint64(2)) & _B)
    x = (x + (x >> np.uint64(4))) & _C
    return np.int64((x * _D) >> np.uint64(56))


@kernel
def count_pairs(indptr: Longs, words: Ints, slot: Ints, tops: Ints, bits: Words, pairs: Longs) -> int:
    """One block.  words: int32[nnz] local; slot: int32[U], the bit set of a local word or -1; tops: int32[K, n] sets of each
    topic's words; bits: uint64[sets, SPAN / 64] scratch -> pairs: int64[K, n, n] += documents with both (the diagonal:
    with the word).  Returns the documents that have any cell."""
    docs = 0
    topics, n = tops.shape
    for first in range(0, len(indptr) - 1, SPAN):
        last = min(first + SPAN, len(indptr) - 1)
        bits[:] = 0
        for d in range(first, last):
            if indptr[d + 1] > indptr[d]:
                docs += 1
            at, bit = (d - first) >> 6, np.uint64(1) << np.uint64((d - first) & 63)
            for c in range(indptr[d], indptr[d + 1]):
                s = slot[words[c]]
                if s >= 0:
                    bits[s, at] |= bit
        used = (last - first + 63) >> 6
        for k in range(topics):
            for i in range(n):
                if tops[k, i] < 0:
                    continue
                for j in range(i + 1):
                    if tops[k, j] < 0:
                        continue
                    a, b = bits[tops[k, i]], bits[tops[k, j]]
                    both = 0
                    for w in range(used):
                        both += _ones(a[w] & b[w])
                    pairs[k, i, j] += both
    return docs


def cooccurrence(corpus: Any, tops: np.ndarray, threads: int = 1) -> tuple[np.ndarray, int]:
    """tops: int64[K, n] word ids of the corpus, -1 unknown to it -> (int64[K, n, n] lower triangle: documents of the
    training part with both words, on the diagonal with the word; number of documents that are not empty)."""
    known = np.unique(tops[tops >= 0])
    slots = np.full(corpus.n_words, -1, np.int32)
    slots[known] = np.arange(len(known), dtype=np.int32)
    sets = np.where(tops >= 0, slots[np.maximum(tops, 0)], -1).astype(np.int32)
    topics, n = tops.shape

    def visit(block: Block) -> tuple[np.ndarray, int]:
        pairs = np.zeros((topics, n, n), np.int64)
        bits = np.empty((max(1, len(known)), SPAN // 64), np.uint64)
        return pairs, count_pairs(block.indptr, block.words, slots[block.vocab], sets, bits, pairs)

    total, docs = np.zeros((topics, n, n), np.int64), 0
    for pairs, of_block in in_order(visit, corpus.blocks(), threads):
        total += pairs
        docs += of_block
    return total, docs
