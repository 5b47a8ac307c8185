"""Packed rows (packed.py) as a table needs them: copied out, merged with a round's deltas, spread
out, summed up.

entries  uint32|uint64[...]   length  int32[n], of each row     start  int64[n], its first entry,
         or, where rows are tight,
                                                                ptr    int64[n+1], row i:
                                                                entries[ptr[i] .. ptr[i+1]]
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels import pointers
from topicstream.kernels.arrays import Array, Doubles, Int, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.packed import sort_by_count


@kernel
def copy_rows(source_start: Longs, length: Ints, source: Array, start: Longs, out: Array) -> None:
    """Copy row u, length[u] entries from source[source_start[u]], to out[start[u]..], for every u.
    Any of uint32 and uint64
    to any that holds the counts."""
    for u in range(len(length)):
        a, b = source_start[u], start[u]
        for i in range(length[u]):
            out[b + i] = source[a + i]


@kernel
def merge_packed(
    begin: Longs,
    length: Ints,
    entries: Array,
    m: int,
    deltas: Longs,
    wide: bool,
    long: bool,
    lo: Longs,
    hi: Longs,
    topics: int,
    change: Doubles,
) -> Int:
    """Add the deltas of a round's blocks to the rows that they change, where these are.

    begin: int64[W+1], row w may fill entries[begin[w] .. begin[w+1]].  deltas int64[R, 4]: the
    addresses of each block's ids
    (int32[U]), ptr (int64[U+1]), topics (int32 if ``wide``, else uint16) and values (int64 if
    ``long``, else int32), of which local
    rows lo[r]..hi[r]-1 enter.  topics: K.  change: float64[>=K], column sums, added to.

    Returns the largest count of these rows; -1 when one came out negative, -2 when one does not fit
    an entry, -3 when a row has more topics than room."""
    mask = (np.int64(1) << m) - 1
    limit = (np.int64(1) << min(np.int64(entries.itemsize) * 8 - m, np.int64(62))) - 1
    none = np.int64(1) << np.int64(62)
    count, present, order = (
        np.zeros(topics, np.int64),
        np.zeros(topics, np.uint8),
        np.empty(topics, np.int64),
    )
    cursor, largest = lo.copy(), np.int64(0)
    while True:
        row = none
        for r in range(len(deltas)):
            if cursor[r] < hi[r]:
                row = min(row, pointers.int_at(deltas[r, 0], cursor[r]))
        if row == none:
            return largest
        a, n = begin[row], np.int64(length[row])
        for i in range(n):
            e = np.int64(entries[a + i])
            t = e & mask
            count[t] = e >> m
            present[t] = 1
            order[i] = t
        for r in range(len(deltas)):
            u = cursor[r]
            if u >= hi[r] or pointers.int_at(deltas[r, 0], u) != row:
                continue
            cursor[r] = u + 1
            for j in range(
                pointers.long_at(deltas[r, 1], u), pointers.long_at(deltas[r, 1], u + 1)
            ):
                t = pointers.int_at(deltas[r, 2], j) if wide else pointers.short_at(deltas[r, 2], j)
                x = pointers.long_at(deltas[r, 3], j) if long else pointers.int_at(deltas[r, 3], j)
                if present[t] == 0:
                    present[t] = 1
                    order[n] = t
                    n += 1
                count[t] += x
                change[t] += x
        kept, low, high = np.int64(0), np.int64(0), np.int64(0)
        for i in range(n):
            t = order[i]
            low, high = min(low, count[t]), max(high, count[t])
            present[t] = 0
            order[kept] = t
            kept += count[t] != 0
        if low < 0:
            return np.int64(-1)
        if high > limit:
            return np.int64(-2)
        if kept > begin[row + 1] - a:
            return np.int64(-3)
        for i in range(kept):
            t = order[i]
            entries[a + i] = (count[t] << m) | t
            count[t] = 0
        sort_by_count(entries, a, a + kept, m)
        length[row] = kept
        largest = max(largest, high)


@kernel
def expand_packed(start: Longs, length: Ints, entries: Array, m: int, out: Array) -> None:
    """Row u, length[u] entries from entries[start[u]] on, as a dense one: out[n, >=K] (any number
    type), zeroed first.
    """
    mask = (np.int64(1) << m) - 1
    for u in range(len(start)):
        target = out[u]
        target[:] = 0
        for j in range(start[u], start[u] + length[u]):
            e = np.int64(entries[j])
            target[e & mask] = e >> m


@kernel
def sum_packed(
    ptr: Longs, entries: Array, m: int, n_w: Doubles, sums: Doubles, small: Longs, worst: Doubles
) -> None:
    """Sums of a range of rows: sums float64[>=K] += counts by topic; small: int64[S] histogram of
    counts below S; worst: float64[3] (largest |row sum / n_w - 1| where n_w, float64[rows], is
    given)."""
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
