"""Sixteen rows turned on their side: lane r of a vector belongs to row r, so that no step needs a sum across lanes.

A tile is sixteen rows of ``count`` entries turned: float32[count, 16], entry k of row r at [k, r].  Selecting the L largest
of every row is then straight-line code for the sixteen together: eight new entries of each row are sorted by a network
(19 comparisons, Batcher 1968) and merged into the eight best so far (8 + 12 comparisons): 9 instructions an entry and tile,
13 for the sixteen best.

``turn(p, v0, ..., v15)``    16 x 16 floats at address p: row k of the result is entry k of every v
``turn_to(p, q, v0, ..., v15)``    row k goes to address p + q[k], int64s at address q: in order, so that a later row overwrites
                             an earlier one that has the same place
``absorb(p, v0, ..., v7)``   the eight best of each lane, descending at address p, and eight more;  ``absorb_sixteen`` so for
                             sixteen
``choose(a, b, x, y)``       x where a >= b, else y
"""

from __future__ import annotations

from typing import Any

from topicstream.kernels.intrinsics import F32, I32, I64, VECTOR, WIDTH, Builder, Value, emit, extreme, shuffle, vector


def _odd_even_merge_sort(n: int) -> list[tuple[int, int]]:
    """Batcher's network of comparisons that sorts n = 2^m values."""
    out, p = [], 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        out.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return out


def _within_quarters(*places: tuple[int, int]) -> list[int]:
    """The same four (vector, lane) of every quarter of four lanes."""
    return [quarter + lane + WIDTH * second for quarter in range(0, WIDTH, 4) for second, lane in places]


def _quarters(*places: tuple[int, int]) -> list[int]:
    return [WIDTH * second + 4 * quarter + i for second, quarter in places for i in range(4)]


_SINGLES = [_within_quarters((0, i), (1, i), (0, i + 1), (1, i + 1)) for i in (0, 2)]
_PAIRS = [_within_quarters((0, i), (0, i + 1), (1, i), (1, i + 1)) for i in (0, 2)]
_HALVES = [_quarters((0, i), (0, i + 2), (1, i), (1, i + 2)) for i in (0, 1)]


def _turned(build: Any, rows: list[Any]) -> list[Any]:
    """The columns of 16 rows: single lanes, pairs, then quarters change places; 64 shuffles."""
    a = [shuffle(build, rows[i & ~1], rows[i | 1], _SINGLES[i & 1]) for i in range(16)]
    b = [shuffle(build, a[(i & ~3) + (i >> 1 & 1)], a[(i & ~3) + (i >> 1 & 1) + 2], _PAIRS[i & 1]) for i in range(16)]
    out: list[Any] = [None] * 16
    for c in range(4):  # b[4 q + c]: quarter l holds entry 4 l + c of rows 4 q .. 4 q + 3
        for odd in range(2):
            first = shuffle(build, b[c], b[4 + c], _HALVES[odd])
            second = shuffle(build, b[8 + c], b[12 + c], _HALVES[odd])
            for high in range(2):
                out[4 * (odd + 2 * high) + c] = shuffle(build, first, second, _HALVES[high])
    return out


def _row(b: Any, p: Any, i: int) -> Any:
    base = b.inttoptr(p, F32.as_pointer())
    return b.bitcast(b.gep(base, [I32(WIDTH * i)]), VECTOR.as_pointer())


def _exchange(b: Any, values: list[Any], i: int, j: int) -> None:
    x, y = values[i], values[j]
    values[i], values[j] = extreme(b, "umax", x, y), extreme(b, "umin", x, y)


@emit("void", "int64", *[vector] * 16)
def turn(b: Builder, p: Value, *rows: Value) -> None:
    """p: int64 address."""
    for i, value in enumerate(_turned(b, list(rows))):
        b.store(value, _row(b, p, i), align=4)


@emit("void", "int64", "int64", *[vector] * 16)
def turn_to(b: Builder, p: Value, q: Value, *rows: Value) -> None:
    """p, q: int64 addresses."""
    offsets = b.inttoptr(q, I64.as_pointer())
    for i, value in enumerate(_turned(b, list(rows))):
        offset = b.load(b.gep(offsets, [I32(i)]), align=8)
        b.store(value, b.inttoptr(b.add(p, offset), VECTOR.as_pointer()), align=4)


def _absorb(b: Any, p: Any, *given: Any) -> None:
    new, size = list(given), len(given)
    for i, j in _odd_even_merge_sort(size):
        _exchange(b, new, i, j)
    best = [b.load(_row(b, p, i), align=4) for i in range(size)]
    best = [extreme(b, "umax", best[i], new[size - 1 - i]) for i in range(size)]  # bitonic
    stride = size // 2
    while stride:
        for i in range(size):
            if not i & stride:
                _exchange(b, best, i, i + stride)
        stride //= 2
    for i, value in enumerate(best):
        b.store(value, _row(b, p, i), align=4)


absorb, absorb_sixteen = (emit("void", "int64", *[vector] * n)(_absorb) for n in (8, 16))


@emit(vector, vector, vector, vector, vector)
def choose(b: Builder, x: Value, y: Value, one: Value, other: Value) -> Value:
    """Vectors."""
    return b.select(b.fcmp_ordered(">=", x, y), one, other)
