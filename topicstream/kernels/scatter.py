"""Deltas of a round into the rows of a dense table, in block order, float64 arithmetic, one rounding a row and round.

table    [n, P]        rows first_row .. first_row + n - 1 of the table (float32, float64 or int32)
arena    float32[R, U, P]   the round's deltas, one slot a block;  vocabs int32[R, U] the words of each slot, ascending
lo, hi   int64[R]      rows of each slot that fall into this range
factor   float64       multiplies every delta (1.0 but for BLEND)
n_w      float64[n]    the words' counts, or length 0: hold each touched row to this sum (negatives clipped)
change   float64[P]    receives the change of the column sums
worst    float64[3]    max |row sum / n_w - 1| before the rescale, most negative entry / n_w, NaN or inf seen
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Bool, Bytes, Doubles, Float, Floats, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.simd import fetch


@kernel
def scatter_rows(
    table: Array,
    first_row: int,
    arena: Floats,
    vocabs: Ints,
    lo: Longs,
    hi: Longs,
    factor: float,
    n_w: Doubles,
    change: Doubles,
    worst: Doubles,
) -> None:
    """Add the deltas of all slots to their rows; see the module's legend."""
    slots, width = arena.shape[0], table.shape[1]
    cursor = lo.copy()
    acc = np.empty(width, np.float64)
    while True:
        row = np.int64(1) << np.int64(62)
        for r in range(slots):
            if cursor[r] < hi[r] and vocabs[r, cursor[r]] < row:
                row = np.int64(vocabs[r, cursor[r]])
        if row == np.int64(1) << np.int64(62):
            return
        old = table[row - first_row]
        for k in range(width):
            acc[k] = old[k]
        for r in range(slots):
            if cursor[r] < hi[r] and vocabs[r, cursor[r]] == row:
                delta = arena[r, cursor[r]]
                for k in range(width):
                    acc[k] += factor * delta[k]
                cursor[r] += 1
        if len(n_w):
            hold_row(acc, n_w[row - first_row], worst)
        for k in range(width):
            new = table.dtype.type(acc[k])
            change[k] += np.float64(new) - np.float64(old[k])
            old[k] = new


@kernel
def row_sum(acc: Array) -> tuple[Float, Bool]:
    """Sum of a float64 row in eight running sums (one waits for itself: four times as long), and whether a sign is set."""
    signs = np.int64(0)
    bits = acc.view(np.int64)
    for k in range(len(acc)):
        signs |= bits[k]
    even = len(acc) - len(acc) % 8
    a = b = c = d = e = f = g = h = 0.0
    for k in range(0, even, 8):
        a += acc[k]
        b += acc[k + 1]
        c += acc[k + 2]
        d += acc[k + 3]
        e += acc[k + 4]
        f += acc[k + 5]
        g += acc[k + 6]
        h += acc[k + 7]
    for k in range(even, len(acc)):
        a += acc[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h)), signs < 0


@kernel
def hold_row(acc: Array, mass: float, worst: Doubles) -> None:
    """Clip negatives of one float64 row and scale it to sum to ``mass`` exactly; record what had to be corrected."""
    total, negative = row_sum(acc)
    if not np.isfinite(total):
        worst[2] = 1.0
        return
    if mass <= 0.0:
        return
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


@kernel
def scatter_sparse(
    table: Array,
    first_row: int,
    ptr: Longs,
    topic: Array,
    value: Floats,
    vocab: Ints,
    lo: int,
    hi: int,
    change: Doubles,
    factor: float,
) -> None:
    """Add ``factor`` times one block's SparseDelta to rows lo..hi-1 of its vocabulary.

    ptr: int64[U+1]; topic, value: [E]; vocab: int32[U].  Each entry is added in float64 and rounded once; what rounding
    took enters ``change`` too, so the column sums stay those of the table.
    """
    for u in range(lo, hi):
        row = table[vocab[u] - first_row]
        if u + 1 < hi:  # what the next word will touch: rows lie far apart, a third of the time was waiting
            ahead = np.int64(vocab[u + 1] - first_row) * table.shape[1]
            for j in range(ptr[u + 1], ptr[u + 2]):
                fetch(table, ahead + np.int64(topic[j]))
        if factor == 1.0:
            for j in range(ptr[u], ptr[u + 1]):
                k = topic[j]
                old = row[k]
                new = table.dtype.type(old + value[j])
                row[k] = new
                change[k] += np.float64(new) - np.float64(old)
            continue
        for j in range(ptr[u], ptr[u + 1]):
            k = topic[j]
            was = np.float64(row[k])
            new = table.dtype.type(was + factor * value[j])
            row[k] = new
            change[k] += np.float64(new) - was


@kernel
def hold_rows(table: Array, n_w: Doubles, worst: Doubles) -> None:
    """End of a pass: every row of ``table`` (float32[n, P]) clipped and scaled to n_w (float64[n])."""
    acc = np.empty(table.shape[1], np.float64)
    for w in range(table.shape[0]):
        for k in range(table.shape[1]):
            acc[k] = table[w, k]
        hold_row(acc, n_w[w], worst)
        for k in range(table.shape[1]):
            table[w, k] = table.dtype.type(acc[k])


@kernel
def clip_rows(table: Floats, worst: Doubles) -> None:
    """End of a pass: negative entries of ``table`` (float32[n, P]) become 0, the lowest recorded as a share of its row's sum."""
    for w in range(table.shape[0]):
        total, low = 0.0, 0.0
        for k in range(table.shape[1]):
            total += table[w, k]
            low = min(low, np.float64(table[w, k]))
        if not np.isfinite(total):
            worst[2] = 1.0
        elif low < 0.0:
            worst[1] = min(worst[1], low / max(total, 1.0))
            for k in range(table.shape[1]):
                table[w, k] = max(table[w, k], table.dtype.type(0.0))


@kernel
def column_sums(table: Array, out: Doubles) -> None:
    """out float64[P] += column sums of table [n, P], in row order."""
    for w in range(table.shape[0]):
        for k in range(table.shape[1]):
            out[k] += table[w, k]


@kernel
def scale_rows(table: Array, factor: float) -> None:
    """table *= factor, in place (float64 arithmetic)."""
    for w in range(table.shape[0]):
        for k in range(table.shape[1]):
            table[w, k] = table.dtype.type(np.float64(table[w, k]) * factor)


@kernel
def fold_rows(
    shadow: Doubles, touched: Bytes, table: Floats, first_row: int, ids: Ints, delta: Floats, lo: int, hi: int
) -> None:
    """Add rows lo..hi-1 of one block's dense delta to ``shadow`` (float64[n, P]), which begins as the rows of ``table``.

    touched uint8[n]: rows of the shadow that are filled; ids int32[U]; delta float32[U, P].
    """
    for u in range(lo, hi):
        r = np.int64(ids[u] - first_row)
        if not touched[r]:
            touched[r] = 1
            for k in range(table.shape[1]):
                shadow[r, k] = table[r, k]
        for k in range(table.shape[1]):
            shadow[r, k] += delta[u, k]


@kernel
def copy_touched(shadow: Floats, touched: Bytes, table: Floats, first_row: int, ids: Ints, lo: int, hi: int) -> None:
    """Fill the rows of ``shadow`` that one block changes and none has changed before, from ``table``."""
    for u in range(lo, hi):
        r = np.int64(ids[u] - first_row)
        if not touched[r]:
            touched[r] = 1
            for k in range(table.shape[1]):
                shadow[r, k] = table[r, k]


@kernel
def take_shadow(table: Floats, shadow: Array, touched: Bytes, n_w: Doubles, change: Doubles, worst: Doubles) -> None:
    """Put the touched rows of ``shadow`` in the place of the table's, held to n_w (length 0: as they are); the change of the
    column sums goes to change (length 0: it is known already)."""
    for r in range(table.shape[0]):
        if not touched[r]:
            continue
        touched[r] = 0
        acc = shadow[r]
        if len(n_w):
            hold_row(acc, n_w[r], worst)
        for k in range(table.shape[1]):
            new = table.dtype.type(acc[k])
            if len(change):
                change[k] += np.float64(new) - np.float64(table[r, k])
            table[r, k] = new
