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

from llvmlite import ir

from topicstream.kernels.lazy import cgutils, intrinsic, types, vectors
from topicstream.kernels.simd import WIDTH

_F32, _I32 = ir.FloatType(), ir.IntType(32)
_VECTOR = ir.VectorType(_F32, WIDTH)


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


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, WIDTH), lanes))


def _within_quarters(*places: tuple[int, int]) -> list[int]:
    """The same four (vector, lane) of every quarter of four lanes."""
    return [quarter + lane + WIDTH * second for quarter in range(0, WIDTH, 4) for second, lane in places]


def _quarters(*places: tuple[int, int]) -> list[int]:
    return [WIDTH * second + 4 * quarter + i for second, quarter in places for i in range(4)]


_SINGLES = [_within_quarters((0, i), (1, i), (0, i + 1), (1, i + 1)) for i in (0, 2)]
_PAIRS = [_within_quarters((0, i), (0, i + 1), (1, i), (1, i + 1)) for i in (0, 2)]
_HALVES = [_quarters((0, i), (0, i + 2), (1, i), (1, i + 2)) for i in (0, 1)]


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """The columns of 16 rows: single lanes, pairs, then quarters change places; 64 shuffles."""
    a = [_shuffle(builder, rows[i & ~1], rows[i | 1], _SINGLES[i & 1]) for i in range(16)]
    b = [
        _shuffle(builder, a[(i & ~3) + (i >> 1 & 1)], a[(i & ~3) + (i >> 1 & 1) + 2], _PAIRS[i & 1]) for i in range(16)
    ]
    out: list[Any] = [None] * 16
    for c in range(4):  # b[4 q + c]: quarter l holds entry 4 l + c of rows 4 q .. 4 q + 3
        for odd in range(2):
            first = _shuffle(builder, b[c], b[4 + c], _HALVES[odd])
            second = _shuffle(builder, b[8 + c], b[12 + c], _HALVES[odd])
            for high in range(2):
                out[4 * (odd + 2 * high) + c] = _shuffle(builder, first, second, _HALVES[high])
    return out


def _row(builder: Any, p: Any, i: int) -> Any:
    base = builder.inttoptr(p, _F32.as_pointer())
    return builder.bitcast(builder.gep(base, [_I32(WIDTH * i)]), _VECTOR.as_pointer())


def _extreme(builder: Any, name: str, a: Any, b: Any) -> Any:
    """The larger or smaller of each lane.  Floats >= 0 are in the order of their bits, and integers have more ports."""
    whole = ir.VectorType(_I32, WIDTH)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(whole, [whole] * 2), f"llvm.{name}.v16i32"
    )
    return builder.bitcast(builder.call(function, [builder.bitcast(a, whole), builder.bitcast(b, whole)]), _VECTOR)


def _exchange(builder: Any, values: list[Any], i: int, j: int) -> None:
    a, b = values[i], values[j]
    values[i], values[j] = _extreme(builder, "umax", a, b), _extreme(builder, "umin", a, b)


@intrinsic
def turn(typing_context, p, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15):
    """p: int64 address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        for i, value in enumerate(_turned(builder, list(args[1:]))):
            builder.store(value, _row(builder, args[0], i), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, *[vectors.vector] * 16), generate


@intrinsic
def turn_to(typing_context, p, q, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15):
    """p, q: int64 addresses."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = ir.IntType(64)
        offsets = builder.inttoptr(args[1], whole.as_pointer())
        for i, value in enumerate(_turned(builder, list(args[2:]))):
            offset = builder.load(builder.gep(offsets, [_I32(i)]), align=8)
            place = builder.inttoptr(builder.add(args[0], offset), _VECTOR.as_pointer())
            builder.store(value, place, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, *[vectors.vector] * 16), generate


def _absorb(builder: Any, args: list[Any]) -> None:
    new = list(args[1:])
    size = len(new)
    for i, j in _odd_even_merge_sort(size):
        _exchange(builder, new, i, j)
    best = [builder.load(_row(builder, args[0], i), align=4) for i in range(size)]
    best = [_extreme(builder, "umax", best[i], new[size - 1 - i]) for i in range(size)]  # bitonic
    stride = size // 2
    while stride:
        for i in range(size):
            if not i & stride:
                _exchange(builder, best, i, i + stride)
        stride //= 2
    for i, value in enumerate(best):
        builder.store(value, _row(builder, args[0], i), align=4)


@intrinsic
def absorb(typing_context, p, v0, v1, v2, v3, v4, v5, v6, v7):
    """p: int64 address of eight vectors."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _absorb(builder, list(args))
        return context.get_dummy_value()

    return types.void(types.int64, *[vectors.vector] * 8), generate


@intrinsic
def absorb_sixteen(typing_context, p, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15):
    """p: int64 address of sixteen vectors."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _absorb(builder, list(args))
        return context.get_dummy_value()

    return types.void(types.int64, *[vectors.vector] * 16), generate


@intrinsic
def choose(typing_context, a, b, x, y):
    """Vectors."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">=", args[0], args[1]), args[2], args[3])

    return vectors.vector(vectors.vector, vectors.vector, vectors.vector, vectors.vector), generate
