"""Packed word rows of integer counts (Yao, Mimno & McCallum 2009, section 3.4): ``count << m |
topic``, descending.

m is the number of bits of a topic, ``topic_bits(K)``.  An entry is uint32, or uint64 where a count
does not fit 32 - m
bits.  Rows descend in count; the order of topics of equal count is free, so that one exchange past
       the entries of equal
count does what the paper's bubble step does in many.  A *tight* row (in a table) has no room behind
it; in a block's
*arena* it has.

    entries  uint32|uint64[...]   packed entries          ptr     int64[U+1]  row u: entries[ptr[u]
             .. ptr[u+1]]
    arena    the same             a block's working rows  start   int64[U]    first entry of row u
             in the arena
    length   int32[U]             entries of row u        tokens  int32[U]    the block's tokens of
             local word u
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Int, Ints, Longs
from topicstream.kernels.jit import kernel


def topic_bits(topics: int) -> int:
    """Smallest m with 2**m >= topics (at least 1)."""
    return max(int(topics - 1).bit_length(), 1)


def entry_bytes(largest: int, topics: int) -> int:
    """Bytes of an entry whose count is at most ``largest``: 4, or 8 where that leaves no room for
    the topic.
    """
    return 4 if largest < 1 << (32 - topic_bits(topics)) else 8


@kernel
def slack_starts(
    words: Ints, counts: Ints, length: Ints, topics: int, tokens: Ints, start: Longs
) -> Int:
    """tokens[u] of the block's cells (words, counts: int32[nnz]), and start[u] of every row, room
    for the most topics it can come to hold; returns the arena's length.

    A row gains at most one topic a token of the block and never holds more than K.  Rows that fit
    16 entries (a cache
    line of uint32) never straddle a line.
    """
    tokens[:] = 0
    for c in range(len(words)):
        tokens[words[c]] += counts[c]
    at = np.int64(0)
    for u in range(len(start)):
        room = min(np.int64(topics), np.int64(length[u]) + tokens[u])
        if room > 16 or (at & 15) + room > 16:
            at = (at + 15) & ~np.int64(15)
        start[u] = at
        at += room
    return at


@kernel(inline="always")
def sink(arena: Array, at: int, n: int, p: int, m: int) -> int:
    """Entry p has just lost one: put it behind the entries that now exceed it.

    Returns the position q whose entry took place p (p itself if none moved): what stood at q stands
    at p.  A row whose
    entry fell to zero gets shorter by one: the caller drops the last (the entry has been exchanged
    with it)."""
    e = np.int64(arena[at + p])
    above = (e >> m) + 1
    q = p
    if above == 1:
        q = n - 1
    else:
        while q + 1 < n and (np.int64(arena[at + q + 1]) >> m) == above:
            q += 1
    arena[at + p] = arena[at + q]
    arena[at + q] = e
    return q


@kernel(inline="always")
def rise(arena: Array, at: int, p: int, m: int) -> int:
    """Add one to entry p and put it before the entries of its old count; returns where it now
    stands.
    """
    e = np.int64(arena[at + p])
    count = e >> m
    q = p
    while q > 0 and (np.int64(arena[at + q - 1]) >> m) == count:
        q -= 1
    arena[at + p] = arena[at + q]
    arena[at + q] = e + (np.int64(1) << m)
    return q


@kernel
def sort_by_count(entries: Array, a: int, b: int, m: int) -> None:
    """entries[a:b] into descending order of count, equal counts staying as they stood: insertion,
    for rows nearly in order; one that is far from it is sorted as a whole (then equal counts stand
    in descending topics)."""
    budget = 16 * (b - a) + 64
    for i in range(a + 1, b):
        e = entries[i]
        count = np.int64(e) >> m
        j = i - 1
        while j >= a and (np.int64(entries[j]) >> m) < count:
            entries[j + 1] = entries[j]
            j -= 1
        entries[j + 1] = e
        budget -= i - j
        if budget < 0:
            row = entries[a:b]
            row.sort()
            entries[a:b] = row[::-1].copy()
            return
