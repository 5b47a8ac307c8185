"""Vectors of 16 float32 inside numba kernels.

A row of ``padded(K)`` topics is a whole number of them. LLVM's own vectoriser cannot prove that the
rows of different arrays do not overlap and checks it again for every cell; with explicit ones there
is nothing to prove. LLVM splits a vector into what the machine has (one AVX-512, two AVX, four SSE
registers), so the same kernel runs on any CPU, with sums formed in the same order.

LLVM's own vectoriser may not change a sum (``kernel``: strict arithmetic), so a loop over an array
that adds up is one number after the other. Where that takes too long the sum is written with lanes,
here or in ``kernels.sums``: the order is part of what is computed, and no processor chooses it.

``load(array, i)``      array: C-contiguous float32, any rank; i: flat index of the first of 16
                        entries (not checked)
``store(array, i, v)``  the reverse
``splat(x)``            16 copies of a float
``a + b, a - b, a * b, a / b``  lane by lane
``fma(a, b, c)``        a * b + c, rounded once;  ``fma64(x, y, z)`` of float64s, and ``fma32`` of
                        float32s
``larger(a, b)``        lane by lane (neither may be NaN)
``total(v)``            sum of the lanes, as a tree
``get(array, i)``       one entry of a one-dimensional array, not checked (no wrap-around of
                        negative indices to look for)
``fetch(array, i)``     prefetch the cache line that holds flat index i

64 bytes at a time as an explicit SIMD value that LLVM splits into what the machine has: which of
them are of a kind, one bit each.

Each reads ``data[at : at + 64]`` (uint8, contiguous), which must lie within the array; bit k stands
for byte ``at + k``.

``letters``      A-Z and a-z                  ``digits``   0-9                ``beyond_ascii``  0x80
                 and above
``equal``        the byte given               ``blanks``   white space and control characters: up to
                 0x20, and 0x7F
``first_bit``    number of the lowest bit of a mask that is not 0      ``count_bits``  how many are
                 set

What the lanes of several SIMD values do together: eight sums at once, transposes, the largest of
each lane.

The sum of a vector's lanes is a chain of dependent steps; eight sums share one tree, and one
division serves them all. A *tile* is sixteen rows turned on their side, float32[count, 16]: entry
k of row r at [k, r]. Selecting the L largest of every row is then straight-line code for the
sixteen rows together: new entries are sorted by Batcher's network (1968) and merged into the best
so far.

``totals(v0, ..., v7)``       lane r < 8 is the sum of v_r's lanes (lanes 8 to 15 repeat them)
``quotient(x, z, least)``     x / z where z > least, else 0
``spread0(v)`` ... ``spread7(v)``   16 copies of a lane
``store_eight(array, i, v)``  array[i .. i + 8) = the first eight lanes
``transpose(p, v0, ..., v15)``      16 x 16 floats at address p: row k of the result is entry k of
                                    every v
``transpose_to(p, q, v0, ..., v15)``  row k goes to address p + q[k], int64s at address q: in order,
                                      so that a later row
                              overwrites an earlier one that has the same place
``keep_largest_8(p, v0, ..., v7)``  the eight largest of each lane, descending at address p, and
                                    eight more;
``keep_largest_16``           so for sixteen
``choose(a, b, x, y)``        x where a >= b, else y
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from topicstream.numeric.kernels import intrinsics as llvm
from topicstream.numeric.kernels.intrinsics import (
    ANY,
    ENTRY,
    F32,
    FLOATS,
    I1,
    I8,
    I32,
    I64,
    VECTOR,
    WIDTH,
    ZERO,
    Builder,
    Value,
    emit,
    extreme,
    shuffle,
    vector,
)
from topicstream.numeric.kernels.jit import kernel

__all__ = [
    "WIDTH",
    "fetch",
    "fma",
    "fma32",
    "fma64",
    "get",
    "larger",
    "load",
    "rows_ahead",
    "splat",
    "store",
    "total",
    "vector",
]

AHEAD_FLOATS = 512
LEAST_AHEAD = 3
MOST_AHEAD = 32


@emit(vector, FLOATS, "int64")
def load(b: Builder, data: Value, i: Value) -> Value:
    """Load a vector.

    array: float32, index: int64 -> vector.
    """
    return llvm.load(b, data, i, F32)


@emit("void", FLOATS, "int64", vector)
def store(b: Builder, data: Value, i: Value, v: Value) -> None:
    """Store a vector.

    array: float32, index: int64, value: vector.
    """
    llvm.store(b, data, i, v)


@emit(vector, "float32")
def splat(b: Builder, x: Value) -> Value:
    """Build a vector of 16 copies of a float, rounded to float32."""
    return llvm.spread(b, x)


@emit(vector, vector, vector, vector)
def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Compute x * y + z, rounded once."""
    return llvm.fuse(b, x, y, z)


fma64 = emit("float64", "float64", "float64", "float64")(llvm.fuse)
fma32 = emit("float32", "float32", "float32", "float32")(llvm.fuse)


@emit(vector, vector, vector)
def larger(b: Builder, x: Value, y: Value) -> Value:
    """Compute max(x, y), lane by lane."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


@emit("float32", vector)
def total(b: Builder, v: Value) -> Value:
    """Sum the lanes -> float32.

    Lanes i and i + 8 first, then i and i + 4, and so on.
    """
    return llvm.fold(b, v, b.fadd)


@emit("void", ANY, "int64")
def fetch(b: Builder, data: Value, i: Value) -> None:
    """Prefetch the cache line of an entry that is written and read soon."""
    llvm.fetch(b, b.gep(data, [i]))


@emit(ENTRY, ANY, "int64")
def get(b: Builder, data: Value, i: Value) -> Value:
    """Read an entry of a one-dimensional array.

    index: int64 >= 0.
    """
    return b.load(b.gep(data, [i]))


@kernel(inline="always")
def rows_ahead(width: int) -> int:
    """Choose how many cells before its use to fetch a row.

    It is far enough for memory to answer, and near enough that arriving rows do not push the
    current one out of the first cache.
    """
    return min(max(AHEAD_FLOATS // width, LEAST_AHEAD), MOST_AHEAD)


WIDE = 64
_BYTES = ("uint8",)


def _all(value: int) -> Any:
    return ir.Constant(ir.VectorType(I8, WIDE), [value] * WIDE)


def _within(builder: Builder, x: Value, low: int, high: int) -> Value:
    return builder.icmp_unsigned("<=", builder.sub(x, _all(low)), _all(high - low))


def _mask(test: Callable[[Value, Value], Value]) -> Value:
    """Build an intrinsic (data, at) -> uint64 from ``test(builder, vector)``.

    The test yields 64 truth values.
    """

    def masked(b: Builder, data: Value, at: Value) -> Value:
        return b.bitcast(test(b, llvm.load(b, data, at, I8, WIDE)), I64)

    return emit("uint64", _BYTES, "int64")(masked)


letters = _mask(lambda b, x: _within(b, b.or_(x, _all(0x20)), 0x61, 0x7A))
blanks = _mask(
    lambda b, x: b.or_(b.icmp_unsigned("<=", x, _all(0x20)), b.icmp_unsigned("==", x, _all(0x7F)))
)
digits = _mask(lambda b, x: _within(b, x, 0x30, 0x39))
beyond_ascii = _mask(lambda b, x: b.icmp_signed("<", x, _all(0)))


@emit("uint64", _BYTES, "int64", "uint8")
def equal(b: Builder, data: Value, at: Value, byte: Value) -> Value:
    """Mark which of 64 bytes equal one byte.

    See the module's docstring.
    """
    return b.bitcast(
        b.icmp_unsigned("==", llvm.load(b, data, at, I8, WIDE), llvm.spread(b, byte, WIDE)), I64
    )


@emit("int64", "uint64")
def first_bit(b: Builder, mask: Value) -> Value:
    """Find the first set bit of a mask.

    See the module's docstring.
    """
    return b.cttz(mask, I1(1))


@emit("int64", "uint64")
def count_bits(b: Builder, mask: Value) -> Value:
    """Count the set bits of a mask.

    See the module's docstring.
    """
    return b.ctpop(mask)


def _within_quarters(*places: tuple[int, int]) -> list[int]:
    """Choose the same four (vector, lane) of every quarter of four lanes."""
    return [
        quarter + lane + WIDTH * second for quarter in range(0, WIDTH, 4) for second, lane in places
    ]


def _quarters(*places: tuple[int, int]) -> list[int]:
    return [WIDTH * second + 4 * quarter + i for second, quarter in places for i in range(4)]


_SINGLES = [_within_quarters((0, i), (1, i), (0, i + 1), (1, i + 1)) for i in (0, 2)]
_PAIRS = [_within_quarters((0, i), (0, i + 1), (1, i), (1, i + 1)) for i in (0, 2)]
_HALVES = [_quarters((0, i), (0, i + 2), (1, i), (1, i + 2)) for i in (0, 1)]
# single lanes of two values alternate, then pairs, then quarters: an unpack or a quarter shuffle of
# the machine each
_LEVELS = (_SINGLES, _PAIRS, _HALVES)


def _add_level(b: Builder, x: Value, y: Value, level: int) -> Value:
    low, high = _LEVELS[level]
    return b.fadd(shuffle(b, x, y, low), shuffle(b, x, y, high))


@emit(vector, *[vector] * 8)
def totals(b: Builder, *given: Value) -> Value:
    """Sum the lanes of eight SIMD values."""
    values = list(given)
    for level in range(3):
        values = [_add_level(b, values[i], values[i + 1], level) for i in range(0, len(values), 2)]
    return _add_level(b, values[0], values[0], 2)


@emit(vector, vector, vector, vector)
def quotient(b: Builder, x: Value, z: Value, least: Value) -> Value:
    """Compute x / z where z > least, else 0."""
    return b.select(b.fcmp_ordered(">", z, least), b.fdiv(x, z), ZERO)


def _spread(lane: int) -> Any:
    return emit(vector, vector)(lambda b, v: shuffle(b, v, v, [lane] * WIDTH))


spread0, spread1, spread2, spread3 = (_spread(lane) for lane in range(4))
spread4, spread5, spread6, spread7 = (_spread(lane) for lane in range(4, 8))


@emit("void", FLOATS, "int64", vector)
def store_eight(b: Builder, data: Value, i: Value, v: Value) -> None:
    """Store a vector of eight.

    array: float32, index: int64, value: vector.
    """
    llvm.store(b, data, i, shuffle(b, v, v, list(range(8))))


def _odd_even_merge_sort(n: int) -> list[tuple[int, int]]:
    """List the comparisons of Batcher's network that sorts n = 2^m values."""
    out = []
    p = 1
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


def _transposed(build: Builder, rows: list[Value]) -> list[Value]:
    """Transpose 16 rows in 64 shuffles: single lanes, pairs, then quarters."""
    a = [shuffle(build, rows[i & ~1], rows[i | 1], _SINGLES[i & 1]) for i in range(16)]
    b = [
        shuffle(build, a[(i & ~3) + (i >> 1 & 1)], a[(i & ~3) + (i >> 1 & 1) + 2], _PAIRS[i & 1])
        for i in range(16)
    ]
    out: list[Any] = [None] * 16
    for c in range(4):  # b[4 q + c]: quarter l holds entry 4 l + c of rows 4 q .. 4 q + 3
        for odd in range(2):
            first = shuffle(build, b[c], b[4 + c], _HALVES[odd])
            second = shuffle(build, b[8 + c], b[12 + c], _HALVES[odd])
            for high in range(2):
                out[4 * (odd + 2 * high) + c] = shuffle(build, first, second, _HALVES[high])
    return out


def _row(b: Builder, p: Value, i: int) -> Value:
    base = b.inttoptr(p, F32.as_pointer())
    return b.bitcast(b.gep(base, [I32(WIDTH * i)]), VECTOR.as_pointer())


def _exchange(b: Builder, values: list[Value], i: int, j: int) -> None:
    x = values[i]
    y = values[j]
    values[i] = extreme(b, "umax", x, y)
    values[j] = extreme(b, "umin", x, y)


@emit("void", "int64", *[vector] * 16)
def transpose(b: Builder, p: Value, *rows: Value) -> None:
    """Store the transpose of 16 rows at address p (int64)."""
    for i, value in enumerate(_transposed(b, list(rows))):
        b.store(value, _row(b, p, i), align=4)


@emit("void", "int64", "int64", *[vector] * 16)
def transpose_to(b: Builder, p: Value, q: Value, *rows: Value) -> None:
    """Store the transpose of 16 rows at addresses p + offsets (int64[16] at q)."""
    offsets = b.inttoptr(q, I64.as_pointer())
    for i, value in enumerate(_transposed(b, list(rows))):
        offset = b.load(b.gep(offsets, [I32(i)]), align=8)
        b.store(value, b.inttoptr(b.add(p, offset), VECTOR.as_pointer()), align=4)


def _keep_largest(b: Builder, p: Value, *given: Value) -> None:
    new = list(given)
    size = len(given)
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


keep_largest_8, keep_largest_16 = (
    emit("void", "int64", *[vector] * n)(_keep_largest) for n in (8, 16)
)


@emit(vector, vector, vector, vector, vector)
def choose(b: Builder, x: Value, y: Value, one: Value, other: Value) -> Value:
    """Choose ``one`` where x >= y, else ``other``, lane by lane."""
    return b.select(b.fcmp_ordered(">=", x, y), one, other)
