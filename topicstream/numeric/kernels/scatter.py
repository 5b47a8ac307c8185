"""Addition of a round's deltas to the rows of a dense table.

Sums are float64, rounded once a row and round. Deltas are rounded to a quantum before they are
summed, so their order does not matter (numeric/tables/spec.py). Where the quantum is 0.0 they are
summed in block order.

    arena    float32[R, U, P]   the round's deltas, one slot a block
    vocabs   int32[R, U]        the words of each slot, ascending
    lo, hi   int64[R]           rows of each slot that fall into this range
    quantum  float64            unit that deltas are rounded to
    factor   float64            multiplies the sum (1.0 but for BLEND)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import (
    Array,
    Bool,
    DeltaAddresses,
    Doubles,
    Float,
    Floats,
    Int,
    Ints,
    Longs,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import fetch

LINE = 16  # float32 of a cache line


class RowRange(NamedTuple):
    """A range of rows of a dense table while it is changed.

    Attributes
    ----------
    first
        Number of the first row.
    rows
        [n, padded(columns)], float32, float64 or int32.
    mass
        float64[n], the words' counts: each touched row is held to this sum (negatives clipped).
        Length 0: rows are not held.
    change
        float64[padded(columns)], receives the change of the column sums.
    worst
        float64[3], receives max |row sum / mass - 1| before the rescale, the most negative entry /
        mass, True if NaN or inf was seen.
    """

    first: int
    rows: Array
    mass: Doubles
    change: Doubles
    worst: Doubles


@kernel(inline="always")
def rounded(value: float, magic: float) -> Float:
    """Round ``value`` to a multiple of the quantum.

    magic: 1.5 * 2^52 quanta (0.0: no rounding).

    A sum with it has no bits left below the quantum: the addition rounds, and the difference is
    exact.
    """
    return (value + magic) - magic


@kernel
def scatter_rows(
    part: RowRange,
    arena: Floats,
    vocabs: Ints,
    lo: Longs,
    hi: Longs,
    quantum: float,
    factor: float,
) -> None:
    """Add the deltas of all slots to their rows (symbols: the module's docstring)."""
    first_row, table, n_w, change, worst = part
    slots = arena.shape[0]
    width = table.shape[1]
    none = np.int64(1) << np.int64(62)
    # of each slot the row that comes next, and its word
    cursor = lo.copy()
    heads = np.empty(slots, np.int64)
    for r in range(slots):
        heads[r] = vocabs[r, lo[r]] if lo[r] < hi[r] else none
    acc = np.empty(width, np.float64)
    magic = 1.5 * 2.0**52 * quantum
    while True:
        # the next row that a slot changes
        row = none
        for r in range(slots):
            row = min(row, heads[r])
        if row == none:
            return
        # sum the rounded deltas in slot order
        old = table[row - first_row]
        acc[:] = 0.0
        for r in range(slots):
            if heads[r] == row:
                delta = arena[r, cursor[r]]
                for k in range(width):
                    acc[k] += rounded(np.float64(delta[k]), magic)
                cursor[r] += 1
                heads[r] = vocabs[r, cursor[r]] if cursor[r] < hi[r] else none
        # add them to the row in float64
        for k in range(width):
            acc[k] = np.float64(old[k]) + factor * acc[k]
        # hold the row to its mass
        if len(n_w):
            hold_row(acc, n_w[row - first_row], worst)
        # round once, and record the change as stored
        for k in range(width):
            new = table.dtype.type(acc[k])
            change[k] += np.float64(new) - np.float64(old[k])
            old[k] = new


@kernel(inline="always")
def row_sum(acc: Array) -> tuple[Float, Bool]:
    """Sum a padded float64 row and test for negatives.

    There are eight running sums, because a single one waits for itself: four times as long.
    """
    below = 0
    for k in range(len(acc)):
        below += acc[k] < 0.0
    a = b = c = d = e = f = g = h = 0.0
    for k in range(0, len(acc), 8):
        a += acc[k]
        b += acc[k + 1]
        c += acc[k + 2]
        d += acc[k + 3]
        e += acc[k + 4]
        f += acc[k + 5]
        g += acc[k + 6]
        h += acc[k + 7]
    return ((a + b) + (c + d)) + ((e + f) + (g + h)), below > 0


@kernel(
    inline="always"
)  # a call counts references to its arrays: a third of a round's sum at 16 columns
def hold_row(acc: Array, mass: float, worst: Doubles) -> None:
    """Clip negatives of a float64 row and scale it to sum to ``mass`` exactly.

    The correction is recorded in ``worst``.
    """
    total, negative = row_sum(acc)
    if not np.isfinite(total):
        worst[2] = 1.0
    elif mass > 0.0:
        worst[0] = max(worst[0], abs(total / mass - 1.0))
        if negative:
            low = 0.0
            for k in range(len(acc)):
                low = min(low, acc[k])
                if acc[k] < 0.0:
                    acc[k] = 0.0
            worst[1] = min(worst[1], low / mass)
            total, negative = row_sum(acc)
        if total > 0.0:
            scale = mass / total
            for k in range(len(acc)):
                acc[k] *= scale


@kernel(inline="always")
def topic_at(deltas: Longs, r: int, j: int, wide: bool) -> Int:
    """Read entry j of block r's topics (``DeltaAddresses``)."""
    k: Int = pointers.int_at(deltas[r, 2], j) if wide else pointers.short_at(deltas[r, 2], j)
    return k


@kernel
def scatter_sparse(
    part: RowRange,
    addresses: DeltaAddresses,
    lo: Longs,
    hi: Longs,
    quantum: float,
    factor: float,
) -> None:
    """Add ``factor`` times the sum of the blocks' SparseDeltas to their rows.

    Each entry is rounded once. Values are float32; local rows lo[r]..hi[r]-1 fall into this range.
    What rounding to the table's type took enters ``change`` too, so the column sums stay those of
    the table.
    """
    first_row, table, _, change, _ = part
    deltas, wide, _ = addresses
    blocks = len(deltas)
    width = table.shape[1]
    few = width // 4  # entries up to which a row's topics are gone through one by one
    cursor = lo.copy()
    acc = np.zeros(width)
    listed = np.empty(few + 1, np.int32)
    magic = 1.5 * 2.0**52 * quantum
    none = np.int64(1) << np.int64(62)
    while True:
        # the next row that a block changes: ids ascend in every block
        row = none
        for r in range(blocks):
            if cursor[r] < hi[r]:
                row = min(row, pointers.int_at(deltas[r, 0], cursor[r]))
        if row == none:
            return
        # acc_k: the sum of the rounded values of all blocks; their topics are listed while few
        n = 0
        for r in range(blocks):
            u = cursor[r]
            if u >= hi[r] or pointers.int_at(deltas[r, 0], u) != row:
                continue
            cursor[r] = u + 1
            begin = pointers.long_at(deltas[r, 1], u)
            end = pointers.long_at(deltas[r, 1], u + 1)
            listing = n + end - begin <= few
            for j in range(begin, end):
                k = topic_at(deltas, r, j, wide)
                acc[k] += rounded(np.float64(pointers.float_at(deltas[r, 3], j)), magic)
                if listing:
                    listed[n] = k
                    n += 1
            if not listing:
                n = few + 1
            # what the next word will touch: rows lie far apart, a third of the time was waiting
            if u + 1 < hi[r]:
                ahead = (pointers.int_at(deltas[r, 0], u + 1) - first_row) * width
                stop = pointers.long_at(deltas[r, 1], u + 2)
                if stop - end <= few:
                    for j in range(end, stop):
                        fetch(table, ahead + topic_at(deltas, r, j, wide))
                else:
                    for k in range(0, width, LINE):
                        fetch(table, ahead + k)
        # row_k += factor acc_k, rounded once; the change as stored goes to the column sums
        old = table[row - first_row]
        if n <= few:
            for i in range(n):  # of a topic that is listed twice the second is zero
                k = listed[i]
                was = np.float64(old[k])
                new = table.dtype.type(was + factor * acc[k])
                old[k] = new
                change[k] += np.float64(new) - was
                acc[k] = 0.0
        else:
            for k in range(width):
                was = np.float64(old[k])
                new = table.dtype.type(was + factor * acc[k])
                old[k] = new
                change[k] += np.float64(new) - was
                acc[k] = 0.0


@kernel
def hold_rows(table: Array, n_w: Doubles, worst: Doubles) -> None:
    """Clip and scale every row of ``table`` to n_w at the end of a pass.

    table: float32[n, P]; n_w: float64[n].
    """
    acc = np.empty(table.shape[1], np.float64)
    for w in range(table.shape[0]):
        for k in range(table.shape[1]):
            acc[k] = table[w, k]
        hold_row(acc, n_w[w], worst)
        for k in range(table.shape[1]):
            table[w, k] = table.dtype.type(acc[k])


def clip_rows(table: Floats, worst: Doubles) -> None:
    """Clip negative entries of ``table`` (float32[n, P]) to 0 at the end of a pass.

    The lowest is recorded as a share of its row's sum.
    """
    sums = table.sum(axis=1, dtype=np.float64)
    lows = table.min(axis=1, initial=0.0)
    if not np.isfinite(sums).all():
        worst[2] = 1.0
    worst[1] = min(worst[1], float((lows / np.maximum(sums, 1.0)).min(initial=0.0)))
    np.maximum(table, 0.0, out=table)


@kernel
def column_sums(table: Array, out: Doubles) -> None:
    """Add the column sums of table [n, P] to out float64[P], in row order."""
    for w in range(table.shape[0]):
        for k in range(table.shape[1]):
            out[k] += table[w, k]


def scale_rows(table: Array, factor: float) -> None:
    """Multiply table by factor in place (float64 arithmetic)."""
    np.multiply(table, factor, out=table, dtype=np.float64, casting="same_kind")


@kernel
def changed_entries(
    before: Array,
    table: Array,
    rows: Ints,
    width: int,
    lengths: Ints,
    columns: Array,
    values: Array,
) -> tuple[Int, Int]:
    """List the entries of rows whose bits have changed.

    before: unsigned [n, P], the bits of numbers; rows: int32[n] of table [., P]. Only the first
    ``width`` columns, K of them, are compared.

    lengths int32[n] receives how many entries of each row differ, ``columns`` and ``values`` which
    they are and what they are now, one row after the other; a row of more than half its entries
    goes whole, as K values without columns. Returns how many columns and values there are.
    """
    i = j = 0
    for u in range(len(rows)):
        old = before[u]
        new = table[rows[u]]
        # how many entries differ in their bits
        n = 0
        for k in range(width):
            n += 1 if old[k] != new[k] else 0
        # the whole row, or those entries with their columns
        if 2 * n > width:
            for k in range(width):
                values[j + k] = new[k]
            n = width
        else:
            m = j
            for k in range(width):
                if old[k] != new[k]:
                    columns[i] = k
                    values[m] = new[k]
                    i = i + 1
                    m = m + 1
        lengths[u] = n
        j += n
    return i, j


@kernel
def put_entries(
    table: Array, rows: Ints, width: int, lengths: Ints, columns: Array, values: Array
) -> None:
    """Write the entries that ``changed_entries`` listed.

    width: its K.
    """
    i = j = 0
    for u in range(len(rows)):
        new = table[rows[u]]
        n = lengths[u]
        if n == width:
            for k in range(width):
                new[k] = values[j + k]
        else:
            for e in range(n):
                new[columns[i + e]] = values[j + e]
            i += n
        j += n
