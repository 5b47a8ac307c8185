"""Inner iterations of the sparse local step on transposed tiles of sixteen cells.

own
    float32[tiles, count, 16]: own[., a, r] = e[u, active[a]] of cell r of the tile. The last tile
    repeats its last cell, whose counts there are zero.
kept
    The same, zero where topic a is not among the L chosen of the cell.
t
    float32[count + 16], zeros at the end.
x, z
    float32[cells + 32].
acc
    float32[(count + 8) * 16]: sum_j (x_j / z_j) kept_j, by lane.

Tiles lie one after the other whatever ``count`` is. Sixteen rows of zeros follow the last one, so
that rows can be read sixteen at a time. Functions that are called once an inner iteration or more
take addresses of these arrays (numeric/kernels/arrays.py), ``n`` and other float64 arrays included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from topicstream.engines.variational.statistics import LEAST_Z
from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels import simd
from topicstream.numeric.kernels import simd as lanes
from topicstream.numeric.kernels.arrays import Floats, Longs
from topicstream.numeric.kernels.gather import highest
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import SMALLEST, halfway, larger, mark, where

ROW = 64  # bytes of a tile's row
NETWORK = 16  # more than that many are found by bisection
HALVINGS = 31  # as many as a float has bits behind its sign


class TileTopics(NamedTuple):
    """The topics of ``take``: the address of picks, the number of sixteens, and that of rows."""

    picks: int
    sixteens: int
    rows: int


class Places(NamedTuple):
    """Addresses of a document's arrays (see the module's docstring).

    best float32[256], scratch;  n float64[count], N_da
    """

    own: int
    kept: int
    t: int
    x: int
    z: int
    acc: int
    best: int
    n: int


@kernel
def take(stays: Longs, count: int, picks: Longs) -> int:
    """Map topics to the rows of a tile and return its number of sixteens.

    stays: int64[P], the first ``count`` entries ascending. Only sixteens of a row with any topic
    count.

    picks: int64[P + P / 16]: the offset in bytes of every topic's row, which is the one of the next
    that stays where it does not itself; then the first topics of those sixteens.
    """
    n = 0
    a = 0
    width = len(stays)
    for k in range(width):
        picks[k] = ROW * a
        if a < count and stays[a] == k:
            a += 1
            if n == 0 or picks[width + n - 1] != k & ~15:
                picks[width + n] = k & ~15
                n += 1
    return n


@kernel(forceinline=True)
def _fill(rows: int, width: int, picks: int, sixteens: int, target: int) -> None:
    """Fill one tile over the topics of ``take``.

    rows: address of int64[16], the addresses of rows of ``width``.
    """
    # where the sixteen rows of e begin
    r0 = pointers.long_at(rows, 0)
    r1 = pointers.long_at(rows, 1)
    r2 = pointers.long_at(rows, 2)
    r3 = pointers.long_at(rows, 3)
    r4 = pointers.long_at(rows, 4)
    r5 = pointers.long_at(rows, 5)
    r6 = pointers.long_at(rows, 6)
    r7 = pointers.long_at(rows, 7)
    r8 = pointers.long_at(rows, 8)
    r9 = pointers.long_at(rows, 9)
    ra = pointers.long_at(rows, 10)
    rb = pointers.long_at(rows, 11)
    rc = pointers.long_at(rows, 12)
    rd = pointers.long_at(rows, 13)
    re = pointers.long_at(rows, 14)
    rf = pointers.long_at(rows, 15)
    # transpose 16 rows, sixteen topics at a time, each topic to its place in the tile
    for b in range(sixteens):
        k = pointers.long_at(picks, width + b)
        lanes.transpose_to(
            target,
            picks + 8 * k,
            pointers.load(r0, k),
            pointers.load(r1, k),
            pointers.load(r2, k),
            pointers.load(r3, k),
            pointers.load(r4, k),
            pointers.load(r5, k),
            pointers.load(r6, k),
            pointers.load(r7, k),
            pointers.load(r8, k),
            pointers.load(r9, k),
            pointers.load(ra, k),
            pointers.load(rb, k),
            pointers.load(rc, k),
            pointers.load(rd, k),
            pointers.load(re, k),
            pointers.load(rf, k),
        )


@kernel
def fill(
    e: int, width: int, words: int, cells: int, topics: TileTopics, own: int, rows: int
) -> None:
    """Fill the tiles of a document over the topics of ``take``.

    words: its int32; rows: int64[16], overwritten.
    """
    for j in range(0, cells, 16):
        for r in range(16):
            pointers.put_long(
                rows, r, e + 4 * width * pointers.int_at(words, min(j + r, cells - 1))
            )
        _fill(rows, width, topics.picks, topics.sixteens, own)
        own += ROW * topics.rows
    _end(own)


@kernel(forceinline=True)
def _end(target: int) -> None:
    """Zero the sixteen rows behind the last tile."""
    for k in range(0, 16 * 16, 16):
        pointers.store(target, k, simd.splat(np.float32(0)))


@kernel
def shrink(cells: int, count: int, stays: int, left: int, own: int) -> None:
    """Remove the rows of topics that have left, in place.

    stays: int64[left], the rows that stay, ascending.
    """
    source = target = own
    for _ in range(0, cells, 16):
        for a in range(left):
            i = 16 * pointers.long_at(stays, a)
            pointers.fetch(source + ROW * count, i)  # of the next tile
            pointers.store(target, 16 * a, pointers.load(source, i))
        source += ROW * count
        target += ROW * left
    _end(target)


@kernel(forceinline=True)
def _products(own: int, t: int, a: int) -> Any:
    """Compute own * t of topic a for the sixteen cells of a tile."""
    return pointers.load(own, 16 * a) * simd.splat(pointers.float_at(t, a))


@kernel(forceinline=True)
def _border_by_network(own: int, t: int, count: int, most: int, best: int) -> Any:
    """Find the ``most``-th largest own * t of each lane, for most <= 16."""
    # best[0] >= best[1] >= ..: the largest so far of each lane, none yet
    for i in range(0, (8 if most <= 8 else 16) * 16, 16):
        pointers.store(best, i, simd.splat(np.float32(0)))
    # sixteen topics at a time are sorted and merged into the sixteen largest
    for a in range(0, count if most > 8 else 0, 16):
        lanes.keep_largest_16(
            best,
            _products(own, t, a),
            _products(own, t, a + 1),
            _products(own, t, a + 2),
            _products(own, t, a + 3),
            _products(own, t, a + 4),
            _products(own, t, a + 5),
            _products(own, t, a + 6),
            _products(own, t, a + 7),
            _products(own, t, a + 8),
            _products(own, t, a + 9),
            _products(own, t, a + 10),
            _products(own, t, a + 11),
            _products(own, t, a + 12),
            _products(own, t, a + 13),
            _products(own, t, a + 14),
            _products(own, t, a + 15),
        )
    # or eight into the eight largest
    for a in range(0, count if most <= 8 else 0, 8):
        lanes.keep_largest_8(
            best,
            _products(own, t, a),
            _products(own, t, a + 1),
            _products(own, t, a + 2),
            _products(own, t, a + 3),
            _products(own, t, a + 4),
            _products(own, t, a + 5),
            _products(own, t, a + 6),
            _products(own, t, a + 7),
        )
    return larger(pointers.load(best, 16 * (most - 1)), simd.splat(SMALLEST))


@kernel(forceinline=True)
def _border_by_bisection(own: int, t: int, count: int, most: int) -> Any:
    """Find a border that exactly ``most`` of own * t reach in each lane.

    If several are equal, it is the ``most``-th largest.
    """
    wanted = simd.splat(np.float32(most))
    low = simd.splat(SMALLEST)
    high = low
    reached = simd.splat(np.float32(0))
    for a in range(count):
        v = _products(own, t, a)
        high = larger(high, v)
        reached = reached + mark(v, low)
    high = high * simd.splat(np.float32(1.0001))
    for _ in range(HALVINGS):
        if not highest(reached) > most:
            break
        middle = halfway(low, high)
        n = simd.splat(np.float32(0))
        for a in range(count):
            n = n + mark(_products(own, t, a), middle)
        low = lanes.choose(n, wanted, middle, low)
        reached = lanes.choose(n, wanted, n, reached)
        high = lanes.choose(n, wanted, high, middle)
    return low


@kernel
def _choose_first(
    own: int, t: int, kept: int, count: int, most: int, lane: int, border: float
) -> None:
    """Choose again for a lane where more than ``most`` reach the border.

    The first of those on the border stay.
    """
    left = most
    for a in range(count):
        left -= pointers.float_at(own, 16 * a + lane) * pointers.float_at(t, a) > border
    for a in range(count):
        v = pointers.float_at(own, 16 * a + lane)
        p = v * pointers.float_at(t, a)
        stays = p > border or (p == border and left > 0)
        left -= p == border
        pointers.put_float(kept, 16 * a + lane, v if stays else np.float32(0))


@kernel(forceinline=True)
def _select(own: int, t: int, kept: int, count: int, most: int, best: int) -> None:
    """Select the ``most`` largest topics of each cell of a tile into kept."""
    if most <= NETWORK:
        border = _border_by_network(own, t, count, most, best)
    else:
        border = _border_by_bisection(own, t, count, most)
    reached = simd.splat(np.float32(0))
    for a in range(count):
        q = pointers.load(own, 16 * a)
        v = q * simd.splat(pointers.float_at(t, a))
        reached = reached + mark(v, border)
        pointers.store(kept, 16 * a, where(v, border, q))
    if highest(reached) > most:
        pointers.store(best, 0, reached)
        pointers.store(best, 16, border)
        for r in range(16):
            if pointers.float_at(best, r) > most:
                _choose_first(own, t, kept, count, most, r, pointers.float_at(best, 16 + r))


@kernel(forceinline=True)
def _sums(acc: int, count: int, t: int, best: int, n: int) -> None:
    """Compute n[a] = t[a] * the sum of acc[a]."""
    for a in range(0, count, 8):
        s = lanes.totals(
            pointers.load(acc, 16 * a),
            pointers.load(acc, 16 * a + 16),
            pointers.load(acc, 16 * a + 32),
            pointers.load(acc, 16 * a + 48),
            pointers.load(acc, 16 * a + 64),
            pointers.load(acc, 16 * a + 80),
            pointers.load(acc, 16 * a + 96),
            pointers.load(acc, 16 * a + 112),
        )
        pointers.store(best, 0, s)
        for i in range(min(8, count - a)):
            pointers.put_double(
                n, a + i, np.float64(pointers.float_at(best, i)) * pointers.float_at(t, a + i)
            )


@kernel
def iterate(cells: int, count: int, most: int, selecting: bool, places: Places) -> bool:
    """Run one inner iteration: compute n[a] = N_da of the document's topics from t.

    Cells with z <= LEAST_Z are left out.

    ``selecting``: kept is chosen from own first. Returns whether there are such cells.
    """
    own, kept, t, x, z, acc, best, n = places
    nothing = simd.splat(np.float32(0))
    least = simd.splat(np.float32(LEAST_Z))
    hard = nothing
    size = ROW * count
    for a in range(count + 8):
        pointers.store(acc, 16 * a, nothing)
    for a in range(16):
        pointers.put_float(t, count + a, np.float32(0))
    for j in range(0, cells, 32):  # two tiles at a time share t and acc
        # a last one alone is taken twice, the second time without counts
        two = size if j + 16 < cells else 0
        # the L largest of e * t of each cell, before they are used
        if selecting:
            _select(own, t, kept, count, most, best)
            if two > 0:
                _select(own + size, t, kept + size, count, most, best)
            own += 2 * size
        # Z of the cells of both tiles, y and z: sum over topics of e * t
        y0 = nothing
        y1 = nothing
        z0 = nothing
        z1 = nothing
        other = kept + two
        last = count - count % 2
        for a in range(0, last, 2):
            u = simd.splat(pointers.float_at(t, a))
            v = simd.splat(pointers.float_at(t, a + 1))
            y0 = simd.fma(pointers.load(kept, 16 * a), u, y0)
            z0 = simd.fma(pointers.load(other, 16 * a), u, z0)
            y1 = simd.fma(pointers.load(kept, 16 * a + 16), v, y1)
            z1 = simd.fma(pointers.load(other, 16 * a + 16), v, z1)
        for a in range(last, count):
            u = simd.splat(pointers.float_at(t, a))
            y0 = simd.fma(pointers.load(kept, 16 * a), u, y0)
            z0 = simd.fma(pointers.load(other, 16 * a), u, z0)
        y0 = y0 + y1
        z0 = z0 + z1
        pointers.store(z, j, y0)
        pointers.store(z, j + 16, z0)
        hard = hard + (mark(least, y0) + mark(least, z0))
        # x / Z of each cell, 0 for hard ones, and their part of acc
        f = lanes.quotient(pointers.load(x, j), y0, least)
        g = lanes.quotient(pointers.load(x, j + 16), z0, least)
        for a in range(count):
            pointers.fetch(kept + 2 * size, 16 * a)  # the next two
            pointers.fetch(other + 2 * size, 16 * a)
            v = g * pointers.load(other, 16 * a)
            v = simd.fma(f, pointers.load(kept, 16 * a), v)
            pointers.store(acc, 16 * a, v + pointers.load(acc, 16 * a))
        kept += 2 * size
    _sums(acc, count, t, best, n)
    return simd.total(hard) > 0  # type: ignore[no-any-return]


@kernel
def shares(count: int, kept: Floats, t: Floats, x: Floats, z: Floats, tile: int, p: Floats) -> None:
    """Compute p[r * width + a] = x r_a of a tile's cells by row.

    width: count rounded up to 16; p: [16 * width + 512].
    """
    width = -(-count // 16) * 16
    kept_ = pointers.address_of(kept) + tile * ROW * count
    t_ = pointers.address_of(t)
    p_ = pointers.address_of(p)
    # x / Z of the sixteen cells
    g = lanes.quotient(
        simd.load(x, 16 * tile), simd.load(z, 16 * tile), simd.splat(np.float32(LEAST_Z))
    )
    nothing = simd.splat(np.float32(0))
    block = p_ + 64 * width  # a square of 16 rows, then the same turned
    # x r_a = (x / Z) kept_a t_a, sixteen topics at a time, turned so that a cell is a row
    for a in range(0, width, 16):
        for i in range(16):
            v = _products(kept_, t_, a + i) * g if a + i < count else nothing
            pointers.store(block, 16 * i, v)
        lanes.transpose(
            block + 1024,
            pointers.load(block, 0),
            pointers.load(block, 16),
            pointers.load(block, 32),
            pointers.load(block, 48),
            pointers.load(block, 64),
            pointers.load(block, 80),
            pointers.load(block, 96),
            pointers.load(block, 112),
            pointers.load(block, 128),
            pointers.load(block, 144),
            pointers.load(block, 160),
            pointers.load(block, 176),
            pointers.load(block, 192),
            pointers.load(block, 208),
            pointers.load(block, 224),
            pointers.load(block, 240),
        )
        for r in range(16):
            pointers.store(p_ + 4 * width * r, a, pointers.load(block + 1024, 16 * r))
