"""Tight packed rows (packed.py) as a table needs them: copied out, merged with a round's deltas, spread out, summed up.

ptr      int64[n+1]  row i: entries[ptr[i] .. ptr[i+1]]     entries  uint32|uint64[...]
numbers  int64[n]    the words that the rows are of, ascending
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Bytes, Doubles, Int, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.packed import sort_by_count


@kernel
def copy_rows(source_start: Longs, length: Ints, source: Array, start: Longs, out: Array) -> None:
    """Copy row u, length[u] entries from source[source_start[u]], to out[start[u]..], for every u.  Any of uint32 and uint64
    to any that holds the counts."""
    for u in range(len(length)):
        a, b = source_start[u], start[u]
        for i in range(length[u]):
            out[b + i] = source[a + i]


@kernel
def merge_packed(
    ptr: Longs,
    entries: Array,
    numbers: Ints,
    m: int,
    vocabs: Ints,
    froms: Longs,
    topics: Ints,
    values: Array,
    edges: Longs,
    count: Longs,
    here: Bytes,
    out_ptr: Longs,
    out: Array,
    change: Doubles,
) -> Int:
    """New rows of the words ``numbers``: the old ones plus the deltas of a round's blocks, which change none but these.

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
            if at[r] < edges[r + 1] and vocabs[at[r]] == numbers[row]:
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
            if i < edges[r + 1] and vocabs[i] == numbers[row]:
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
def expand_packed(ptr: Longs, entries: Array, rows: Longs, m: int, out: Array) -> None:
    """Rows (int64[n], their places in ptr) as dense rows: out[n, >=K] (any number type), zeroed first."""
    mask = (np.int64(1) << m) - 1
    for i in range(len(rows)):
        target = out[i]
        target[:] = 0
        for j in range(ptr[rows[i]], ptr[rows[i] + 1]):
            e = np.int64(entries[j])
            target[e & mask] = e >> m


@kernel
def sum_packed(ptr: Longs, entries: Array, m: int, n_w: Doubles, sums: Doubles, small: Longs, worst: Doubles) -> None:
    """Sums of a range of rows: sums float64[>=K] += counts by topic; small: int64[S] histogram of counts below S;
    worst: float64[3] (largest |row sum / n_w - 1| where n_w, float64[rows], is given)."""
    mask = (np.int64(1) << m) - 1
    for row in range(len(ptr) - 1):
        total = np.int64(0)
        for i in range(ptr[row], ptr[row + 1]):
            e = np.int64(entries[i])
            c = e >> m
            sums[e & mask] += c
            total += c
            if c < len(small):
                small[c] += 1
        if len(n_w) > 0:
            worst[0] = max(worst[0], abs(total - n_w[row]) / max(n_w[row], 1.0))
