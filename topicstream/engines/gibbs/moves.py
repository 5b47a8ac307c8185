"""What a sweep did to the counts by word and topic, from the topics of its tokens alone.

A counting sort by word, then a tally a word in an array of all topics; the topics of a word come in
the order in which its tokens name them first.

    words, counts  int32[nnz]   local word and tokens of each cell       topic, value
                   int32[changes]  what comes out
    z              uint[tokens] topics, cell after cell                   ptr           int64[U+1]
                   word u: ptr[u] .. ptr[u+1]
    first          int64[U]     scratch                                   work          int32[K]
                   zeros, zero again on return
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Int, Ints, Longs
from topicstream.kernels.jit import kernel


@kernel
def _tally(first: Longs, work: Ints, ptr: Longs, topic: Ints, value: Ints) -> Int:
    """topic[..first[u]]: the word's topics up to the next word's, t for one more and ~t for one
    less.  They are replaced by
    the topics whose count changes; what is written is never ahead of what is read."""
    begin = np.int64(0)
    w = np.int64(0)
    ptr[0] = 0
    for u in range(len(first)):
        end = first[u]
        for j in range(begin, end):
            t = topic[j]
            if t >= 0:
                work[t] += 1
            else:
                work[~t] -= 1
        for j in range(begin, end):
            t = topic[j]
            if t < 0:
                t = ~t
            topic[w] = t
            value[w] = work[t]
            w += work[t] != 0
            work[t] = 0
        begin = end
        ptr[u + 1] = w
    return w


@kernel
def count_moves(
    words: Ints,
    counts: Ints,
    before: Array,
    after: Array,
    work: Ints,
    first: Longs,
    ptr: Longs,
    topic: Ints,
    value: Ints,
) -> int:
    """Change of the counts by word and topic when the tokens' topics go from ``before`` (length 0:
    none had one) to ``after``;
    topic, value: int32[2 * tokens that moved + 2].  Returns the entries written."""
    fresh = len(before) == 0
    n = 0
    i = 0
    for c in range(len(words)):
        u = words[c]
        for _ in range(
            counts[c]
        ):  # word and number of each token that moved, written without a branch
            value[n] = u
            value[n + 1] = i
            n += 2 * (fresh or before[i] != after[i])
            i += 1
    each = 1 if fresh else 2
    first[:] = 0
    for j in range(0, n, 2):
        first[value[j]] += each
    at = 0
    for u in range(len(first)):
        at, first[u] = at + first[u], at
    for j in range(0, n, 2):
        u, i = value[j], value[j + 1]
        at = first[u]
        if not fresh:
            topic[at] = ~np.int32(before[i])
        topic[at + each - 1] = after[i]
        first[u] = at + each
    return _tally(first, work, ptr, topic, value)  # type: ignore[no-any-return]
