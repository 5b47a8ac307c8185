"""Packed word rows of integer counts (Yao, Mimno & McCallum 2009, section 3.4): ``count << m | topic``, descending.

m is the number of bits of a topic, ``topic_bits(K)``.  An entry is uint32, or uint64 where a count does not fit 32 - m
bits.  Rows descend in count; the order of topics of equal count is free, so that one exchange past the entries of equal
count does what the paper's bubble step does in many.  A *tight* row (in a table) has no room behind it; in a block's
*arena* it has.

    entries  uint32|uint64[...]   packed entries          ptr     int64[U+1]  row u: entries[ptr[u] .. ptr[u+1]]
    arena    the same             a block's working rows  start   int64[U]    first entry of row u in the arena
    length   int32[U]             entries of row u        tokens  int32[U]    the block's tokens of local word u
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.jit import kernel


def topic_bits(topics: int) -> int:
    """Smallest m with 2**m >= topics (at least 1)."""
    return max(int(topics - 1).bit_length(), 1)


@kernel(inline="always")
def pack(count, topic, m):
    """int64 entry of a count and a topic."""
    return (np.int64(count) << np.int64(m)) | np.int64(topic)


@kernel
def count_tokens(words, counts, tokens):
    """Tokens of each local word: tokens[u] = sum of the counts of its cells."""
    tokens[:] = 0
    for c in range(len(words)):
        tokens[words[c]] += counts[c]


@kernel
def slack_starts(ptr, tokens, topics, start):
    """start[u] of every row, room for the most topics it can come to hold; returns the arena's length.

    A row gains at most one topic a token of the block and never holds more than K.  Rows that fit 16 entries (a cache
    line of uint32) never straddle a line.
    """
    at = np.int64(0)
    for u in range(len(start)):
        room = min(np.int64(topics), ptr[u + 1] - ptr[u] + tokens[u])
        if room > 16 or (at & 15) + room > 16:
            at = (at + 15) & ~np.int64(15)
        start[u] = at
        at += room
    return at


@kernel
def most(ptr, entries, tokens, m):
    """The largest count that any row can come to hold: its first entry's, plus the block's tokens of the word."""
    largest = np.int64(0)
    for u in range(len(tokens)):
        if ptr[u + 1] > ptr[u]:
            largest = max(largest, (np.int64(entries[ptr[u]]) >> m) + tokens[u])
    return largest


@kernel
def lay_out(ptr, entries, start, length, arena):
    """Copy tight rows into the arena (any of uint32 and uint64 to any that holds them)."""
    for u in range(len(start)):
        a, b, at = ptr[u], ptr[u + 1], start[u]
        length[u] = b - a
        for i in range(b - a):
            arena[at + i] = entries[a + i]


@kernel(inline="always")
def sink(arena, at, n, p, m):
    """Entry p has just lost one: put it behind the entries that now exceed it.

    Returns the position q whose entry took place p (p itself if none moved): what stood at q stands at p.  A row whose
    entry fell to zero gets shorter by one: the caller drops the last (the entry has been exchanged with it).
    """
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
def rise(arena, at, p, m):
    """Add one to entry p and put it before the entries of its old count; returns where it now stands."""
    e = np.int64(arena[at + p])
    count = e >> m
    q = p
    while q > 0 and (np.int64(arena[at + q - 1]) >> m) == count:
        q -= 1
    arena[at + p] = arena[at + q]
    arena[at + q] = e + (np.int64(1) << m)
    return q


@kernel
def differences(ptr, entries, start, length, arena, m, work, seen, out_ptr, out_topic, out_value):
    """What the block changed: arena rows less tight rows, as (topic, value) of every entry that differs.

    An arena row began as a copy of its tight row, so places that still agree are passed over.
    work: int32[K], zero on entry and on exit; seen: int64[2 K].  Returns the entries written; out_ptr: int64[U+1].
    """
    mask = (np.int64(1) << m) - 1
    w = np.int64(0)
    out_ptr[0] = 0
    for u in range(len(start)):
        a, n, at, k = ptr[u], ptr[u + 1] - ptr[u], start[u], np.int64(length[u])
        both, found = min(n, k), 0
        for i in range(both):
            e, f = np.int64(entries[a + i]), np.int64(arena[at + i])
            if e != f:
                seen[found] = e & mask
                seen[found + 1] = f & mask
                found += 2
                work[e & mask] -= e >> m
                work[f & mask] += f >> m
        for i in range(both, n):
            e = np.int64(entries[a + i])
            seen[found] = e & mask
            found += 1
            work[e & mask] -= e >> m
        for i in range(both, k):
            f = np.int64(arena[at + i])
            seen[found] = f & mask
            found += 1
            work[f & mask] += f >> m
        for j in range(found):
            t = seen[j]
            if work[t] != 0:
                out_topic[w] = t
                out_value[w] = work[t]
                work[t] = 0
                w += 1
        out_ptr[u + 1] = w
    return w


@kernel
def sort_by_count(entries, a, b, m):
    """entries[a:b] into descending order of count, equal counts staying as they stood: insertion, for rows nearly in
    order; a row that is far from it goes through a heap first (then equal counts stand in descending topics)."""
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
            _heap_sort(entries, a, b)
            return


@kernel
def _heap_sort(entries, a, b):
    """entries[a:b] descending by the whole entry: a heap with the least on top."""
    n = b - a
    for first in range(n // 2 - 1, -1, -1):
        _sift(entries, a, first, n)
    for last in range(n - 1, 0, -1):
        entries[a], entries[a + last] = entries[a + last], entries[a]
        _sift(entries, a, 0, last)


@kernel
def _sift(entries, a, i, n):
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and entries[a + child + 1] < entries[a + child]:
            child += 1
        if entries[a + i] <= entries[a + child]:
            return
        entries[a + i], entries[a + child] = entries[a + child], entries[a + i]
        i = child


@kernel
def row_lengths(ptr, first, vocab, lo, hi, out_ptr):
    """out_ptr[u+1] = out_ptr[u] + entries of row vocab[u], for u in lo..hi-1; ptr is that of rows first, first+1, ..."""
    for u in range(lo, hi):
        w = vocab[u] - first
        out_ptr[u + 1] = out_ptr[u] + (ptr[w + 1] - ptr[w])


@kernel
def gather_packed(ptr, entries, first, vocab, lo, hi, out_ptr, out):
    """Copy rows vocab[lo..hi) to out[out_ptr[u]..]."""
    for u in range(lo, hi):
        a = ptr[vocab[u] - first]
        at = out_ptr[u]
        for i in range(out_ptr[u + 1] - at):
            out[at + i] = entries[a + i]


@kernel
def merge_packed(ptr, entries, first, m, vocabs, froms, topics, values, edges, count, here, out_ptr, out, change):
    """New rows of a range: the old ones plus the deltas of a round's blocks.

    vocabs, froms: int32, int64[E + blocks]: changed rows of all blocks, one block after the other (edges: int64[blocks+1]
    says where each begins); row vocabs[i] changes by values[froms[i] .. froms[i+1]) of topics[...].  A block has one more
    ``froms`` than rows, so its positions are shifted by its number.
    count: int64[K] zeros, here: uint8[K] zeros, both zero again on return.  change: float64[>=K], column sums, added to.
    Returns the entries written to ``out``, -1 when a count came out negative, -2 when one does not fit ``out``.
    """
    mask = (np.int64(1) << m) - 1
    bits = np.int64(out.itemsize) * 8
    limit = (np.int64(1) << min(bits - m, np.int64(62))) - 1
    blocks = len(edges) - 1
    at = edges[:-1].copy()
    order = np.empty(len(count), np.int64)
    w = np.int64(0)
    out_ptr[0] = 0
    status = np.int64(0)
    for row in range(len(ptr) - 1):
        a, b = ptr[row], ptr[row + 1]
        touched = False
        for r in range(blocks):
            if at[r] < edges[r + 1] and vocabs[at[r]] - first == row:
                touched = True
        if not touched:
            for i in range(a, b):
                out[w] = entries[i]
                w += 1
            out_ptr[row + 1] = w
            continue
        n = np.int64(0)
        for i in range(a, b):
            e = np.int64(entries[i])
            t = e & mask
            count[t] = e >> m
            here[t] = 1
            order[n] = t
            n += 1
        for r in range(blocks):
            i = at[r]
            if i < edges[r + 1] and vocabs[i] - first == row:
                for j in range(froms[i + r], froms[i + r + 1]):
                    t = np.int64(topics[j])
                    if here[t] == 0:
                        here[t] = 1
                        order[n] = t
                        n += 1
                    count[t] += values[j]
                    change[t] += values[j]
                at[r] = i + 1
        begin = w
        for i in range(n):
            t = order[i]
            c = count[t]
            if c > 0:
                out[w] = (c << m) | t
                w += 1
                if c > limit:
                    status = min(status, np.int64(-2))
            elif c < 0:
                status = np.int64(-1) if status == 0 else status
            count[t] = 0
            here[t] = 0
        sort_by_count(out, begin, w, m)
        out_ptr[row + 1] = w
    return w if status == 0 else status


@kernel
def expand_packed(ptr, entries, rows, m, out):
    """Rows (int64[n], their places in ptr) as dense rows: out[n, >=K] (any number type), zeroed first."""
    mask = (np.int64(1) << m) - 1
    for i in range(len(rows)):
        target = out[i]
        target[:] = 0
        for j in range(ptr[rows[i]], ptr[rows[i] + 1]):
            e = np.int64(entries[j])
            target[e & mask] = e >> m


@kernel
def sum_packed(ptr, entries, m, n_w, sums, small, worst):
    """Sums of a range of rows: sums float64[>=K] += counts by topic; small: int64[S] histogram of counts below S;
    worst: float64[3] (largest |row sum / n_w - 1| where n_w, float64[rows], is given).  Returns entries of count >= S."""
    mask = (np.int64(1) << m) - 1
    large = 0
    for row in range(len(ptr) - 1):
        total = np.int64(0)
        for i in range(ptr[row], ptr[row + 1]):
            e = np.int64(entries[i])
            c = e >> m
            sums[e & mask] += c
            total += c
            if c < len(small):
                small[c] += 1
            else:
                large += 1
        if len(n_w) > 0:
            worst[0] = max(worst[0], abs(total - n_w[row]) / max(n_w[row], 1.0))
    return large


@kernel
def large_counts(entries, m, least, out):
    """Counts of at least ``least``, in order -> out."""
    n = 0
    for i in range(len(entries)):
        c = np.int64(entries[i]) >> m
        if c >= least:
            out[n] = c
            n += 1


@kernel
def count_assigned(words, counts, z, work, first, order, ptr, topic, value):
    """Counts by word and topic of a block's tokens: a counting sort of z by word, then a tally a word.

    work: int32[K] zeros (zero again on return); first: int64[U+1], order: int32[tokens] scratch; ptr: int64[U+1],
    topic, value: int32[tokens].  Returns the entries written.
    """
    words_here = len(ptr) - 1
    first[:] = 0
    for c in range(len(words)):
        first[words[c] + 1] += counts[c]
    for u in range(words_here):
        first[u + 1] += first[u]
    i = 0
    for c in range(len(words)):
        u = words[c]
        for _ in range(counts[c]):
            order[first[u]] = z[i]
            first[u] += 1
            i += 1
    begin = np.int64(0)
    w = np.int64(0)
    ptr[0] = 0
    for u in range(words_here):
        end = first[u]
        for j in range(begin, end):
            work[order[j]] += 1
        for j in range(begin, end):
            t = order[j]
            if work[t] != 0:
                topic[w] = t
                value[w] = work[t]
                work[t] = 0
                w += 1
        begin = end
        ptr[u + 1] = w
    return w


@kernel
def dense_differences(ptr, entries, rows, m, topics, out_ptr, out_topic, out_value):
    """Like ``differences`` for a block's dense rows int32[U, >= topics], which are changed on the way."""
    mask = (np.int64(1) << m) - 1
    w = np.int64(0)
    out_ptr[0] = 0
    for u in range(len(ptr) - 1):
        row = rows[u]
        for i in range(ptr[u], ptr[u + 1]):
            e = np.int64(entries[i])
            row[e & mask] -= e >> m
        for t in range(topics):
            if row[t] != 0:
                out_topic[w] = t
                out_value[w] = row[t]
                w += 1
        out_ptr[u + 1] = w
    return w
