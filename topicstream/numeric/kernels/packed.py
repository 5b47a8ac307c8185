"""Packed word rows of whole counts, ``count << m | topic``, descending.

Yao, Mimno & McCallum (2009), section 3.4. m is the number of bits of a topic, ``topic_bits(K)``. An
entry is uint32, or uint64 where a count does not fit 32 - m bits. Rows descend in count. The order
of topics of equal count is free, so that one exchange past the entries of equal count does what the
paper's bubble step does in many. A *tight* row (in a table) has no room behind it. In a block's
*arena* it has.

    entries  uint32|uint64[...]   packed entries
    ptr      int64[U+1]           tight row u: entries[ptr[u] .. ptr[u+1]]
    arena    as entries           a block's working rows
    start    int64[U]             first entry of row u in the arena
    length   int32[U]             entries of row u
    tokens   int32[U]             the block's tokens of local word u

Tables use the same rows: copied out, merged with a round's deltas, spread out, summed up.

Two functions read 8 and 16 entries at a time, as explicit SIMD values that LLVM splits into what
the machine has. They read eights of entries, so the arena must hold 16 entries more than its rows:

- ``row_mass(arena, at, n, coef, m)``: sum of coef[topic] * count over arena[at .. at+n), float64.
- ``find(arena, at, n, topic, m)``: position of a topic in the row arena[at .. at+n), or -1.
- ``passing(arena, at, n, coef, m, x)``: (position, what is left of x) of the vector of 8 entries at
  which the running sum of coef[topic] * count passes x, or of the last vector if none does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels import intrinsics as llvm
from topicstream.numeric.kernels.arrays import (
    Array,
    DeltaAddresses,
    Doubles,
    Float,
    Int,
    Ints,
    Longs,
)
from topicstream.numeric.kernels.intrinsics import F64, I1, I16, I32, I64, Builder, Value, emit
from topicstream.numeric.kernels.jit import kernel


def topic_bits(topics: int) -> int:
    """Compute the smallest m with 2**m >= topics (at least 1)."""
    return max(int(topics - 1).bit_length(), 1)


def entry_bytes(largest: int, topics: int) -> int:
    """Compute the bytes of an entry with a count up to ``largest``: 4 or 8.

    It is 8 where 4 bytes leave no room for the topic.
    """
    return 4 if largest < 1 << (32 - topic_bits(topics)) else 8


@kernel
def slack_starts(
    words: Ints, counts: Ints, length: Ints, topics: int, tokens: Ints, start: Longs
) -> Int:
    """Place every row with room for the most topics it can come to have.

    tokens[u] are those of the block's cells (words, counts: int32[nnz]); start[u] is the place of
    each row. Returns the length of the arena.

    A row gains at most one topic a token of the block and never holds more than K. Rows that fit 16
    entries (a cache line of uint32) never straddle a line.
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
    """Move entry p, which has just lost one, behind the entries that exceed it.

    Returns the position q whose entry took place p (p itself if none moved): what stood at q stands
    at p. A row whose entry fell to zero gets shorter by one: the caller drops the last (the entry
    has been exchanged with it).
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
def rise(arena: Array, at: int, p: int, m: int) -> int:
    """Add one to entry p, move it before its equals and return its new place."""
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
    """Sort entries[a:b] in descending order of count, stably.

    It is an insertion sort for rows nearly in order. A row far from it is sorted as a whole (equal
    counts then have descending topics).
    """
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


@kernel
def copy_rows(source_start: Longs, length: Ints, source: Array, start: Longs, out: Array) -> None:
    """Copy every row u from source[source_start[u]] to out[start[u]..].

    A row has length[u] entries. Any of uint32 and uint64 to any that fits the counts.
    """
    for u in range(len(length)):
        a = source_start[u]
        b = start[u]
        for i in range(length[u]):
            out[b + i] = source[a + i]


class SlackRows(NamedTuple):
    """Packed rows with room behind them: row w may fill entries[begin[w] .. begin[w+1]].

    begin int64[W+1];  length int32[W];  entries uint32 or uint64;  m: bits of a topic;  topics: K
    """

    begin: Longs
    length: Ints
    entries: Array
    m: int
    topics: int


@kernel
def merge_packed(
    rows: SlackRows, addresses: DeltaAddresses, lo: Longs, hi: Longs, change: Doubles
) -> Int:
    """Add the deltas of a round's blocks to the rows that they change, in place.

    Values are int64 if ``long``, else int32. Local rows lo[r]..hi[r]-1 of each block enter. change:
    float64[>=K], column sums, added to.

    Returns the largest count of these rows; -1 when one came out negative, -2 when one does not fit
    an entry, -3 when a row has more topics than room.
    """
    begin, length, entries, m, topics = rows
    deltas, wide, long = addresses
    mask = (np.int64(1) << m) - 1
    limit = (np.int64(1) << min(np.int64(entries.itemsize) * 8 - m, np.int64(62))) - 1
    none = np.int64(1) << np.int64(62)
    count = np.zeros(topics, np.int64)
    present = np.zeros(topics, np.uint8)
    order = np.empty(topics, np.int64)
    cursor = lo.copy()
    largest = np.int64(0)
    while True:
        # the next row that a block changes: ids ascend in every block
        row = none
        for r in range(len(deltas)):
            if cursor[r] < hi[r]:
                row = min(row, pointers.int_at(deltas[r, 0], cursor[r]))
        if row == none:
            return largest
        # spread the row out to counts by topic
        a = begin[row]
        n = np.int64(length[row])
        for i in range(n):
            e = np.int64(entries[a + i])
            t = e & mask
            count[t] = e >> m
            present[t] = 1
            order[i] = t
        # add the changes of all blocks
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
        # drop topics without tokens and check the counts
        kept = np.int64(0)
        low = np.int64(0)
        high = np.int64(0)
        for i in range(n):
            t = order[i]
            low = min(low, count[t])
            high = max(high, count[t])
            present[t] = 0
            order[kept] = t
            kept += count[t] != 0
        if low < 0:
            return np.int64(-1)
        if high > limit:
            return np.int64(-2)
        if kept > begin[row + 1] - a:
            return np.int64(-3)
        # pack the row again, in descending order of counts
        for i in range(kept):
            t = order[i]
            entries[a + i] = (count[t] << m) | t
            count[t] = 0
        sort_by_count(entries, a, a + kept, m)
        length[row] = kept
        largest = max(largest, high)


@kernel
def expand_packed(start: Longs, length: Ints, entries: Array, m: int, out: Array) -> None:
    """Expand packed rows to dense ones, out[n, >= K] (any number type).

    Row u has length[u] entries from entries[start[u]] on. out is zeroed first.
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
    """Sum a range of rows.

    sums: float64[>= K] += counts by topic; small: int64[S], histogram of counts below S; worst:
    float64[3], the largest |row sum / n_w - 1| if n_w, float64[rows], is not empty.
    """
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


_WIDE = 8
READ_PAST = 16  # entries behind the last row that are read, and ignored
_PACKED = ("uint32", "uint64")
_COEF = ("float64",)


def _terms(b: Builder, entries: Value, coef: Value, at: Value, left: Value, m: Value) -> Value:
    """Compute coef[topic] * count of eight entries as a vector of doubles.

    They are those at ``at``, zero in lanes >= left.
    """
    lane = entries.type.pointee
    longs = ir.VectorType(I64, _WIDE)
    e = llvm.load(b, entries, at, lane, _WIDE)
    e = b.zext(e, longs) if lane.width < 64 else e
    numbers = ir.Constant(longs, list(range(_WIDE)))
    alive = b.icmp_signed("<", numbers, llvm.spread(b, left, _WIDE))
    mask = b.sub(b.shl(I64(1), m), I64(1))
    topic = b.and_(e, llvm.spread(b, mask, _WIDE))
    count = b.sitofp(b.lshr(e, llvm.spread(b, m, _WIDE)), ir.VectorType(F64, _WIDE))
    zero = ir.Constant(ir.VectorType(F64, _WIDE), [0.0] * _WIDE)
    base = llvm.spread(b, b.ptrtoint(coef, I64), _WIDE)
    eight = ir.Constant(longs, [3] * _WIDE)
    where = b.inttoptr(b.add(base, b.shl(topic, eight)), ir.VectorType(F64.as_pointer(), _WIDE))
    values = llvm.call(b, "llvm.masked.gather.v8f64.v8p0", zero.type, where, I32(8), alive, zero)
    return b.select(alive, b.fmul(values, count), zero)


@emit("float64", _PACKED, "int64", "int64", _COEF, "int64")
def row_mass(b: Builder, arena: Value, at: Value, n: Value, coef: Value, m: Value) -> Value:
    """Sum coef[topic] * count over a row.

    See the module's docstring.
    """
    acc = cgutils.alloca_once_value(b, ir.Constant(ir.VectorType(F64, _WIDE), [0.0] * _WIDE))
    eights = b.ashr(b.add(n, I64(_WIDE - 1)), I64(3))
    with cgutils.for_range(b, eights) as loop:
        done = b.shl(loop.index, I64(3))
        term = _terms(b, arena, coef, b.add(at, done), b.sub(n, done), m)
        b.store(b.fadd(b.load(acc), term), acc)
    return llvm.fold(b, b.load(acc), b.fadd)


@emit("float64", _PACKED, "int64", "int64", _COEF, "int64")
def _mass8(b: Builder, arena: Value, at: Value, left: Value, coef: Value, m: Value) -> Value:
    """Sum coef[topic] * count over the first ``left`` of 8 entries at ``at``."""
    return llvm.fold(b, _terms(b, arena, coef, at, left, m), b.fadd)


@emit("int64", _PACKED, "int64", "int64", "int64", "int64")
def _match16(b: Builder, arena: Value, at: Value, left: Value, topic: Value, m: Value) -> Value:
    """Find the topic among the first ``left`` of 16 entries at ``at``, or 16."""
    lane = arena.type.pointee

    def narrow(v: Value) -> Value:
        return b.trunc(v, lane) if lane.width < 64 else v

    mask = b.sub(b.shl(I64(1), m), I64(1))
    topics = b.and_(llvm.load(b, arena, at, lane, 16), llvm.spread(b, narrow(mask)))
    same = b.icmp_unsigned("==", topics, llvm.spread(b, narrow(topic)))
    found = b.zext(b.bitcast(same, I16), I32)
    # a bit behind the last entry: what is not found stands there
    room = b.select(b.icmp_signed("<", left, I64(16)), left, I64(16))
    stop = b.shl(I32(1), b.trunc(room, I32))
    found = b.or_(b.and_(found, b.sub(stop, I32(1))), stop)
    place = b.zext(llvm.call(b, "llvm.cttz.i32", I32, found, I1(1)), I64)
    return b.select(b.icmp_signed("<", place, room), place, I64(16))


@kernel(inline="always")
def find_lane(arena: Array, at: int, n: int, topic: int, m: int) -> Int:
    """Find the topic's place in a row.

    See the module's docstring.
    """
    i = np.int64(0)
    lane = np.int64(-1)
    while i < n:
        j = _match16(arena, at + i, n - i, topic, m)
        if j < 16:
            lane = i + j
            break
        i += 16
    return lane


@kernel(inline="always")
def passing(arena: Array, at: int, n: int, coef: Array, m: int, x: float) -> tuple[Int, Float]:
    """Find the entry where the running sum of weights passes x.

    See the module's docstring.
    """
    i = np.int64(0)
    while i + 8 < n:
        part = _mass8(arena, at + i, np.int64(8), coef, m)
        if x < part:
            break
        x -= part
        i += 8
    return i, x
