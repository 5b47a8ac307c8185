"""Selection of the L largest of a row of weights without sorting.

Hughes & Sudderth (2016), Alg. 1 SelectTopL; Blum et al. (1973); Musser (1997).

``keep_top(p, o, width, most, work)`` sets every entry of p[o .. o + width) that is not among the
``most`` largest to zero and returns the sum of what is left. Weights are >= 0; zeros are never
counted as kept. Among equal weights at the border the first ones stay, so exactly min(most, number
of positive weights) remain.

For at most 16, in two steps, 16 lanes at a time. The largest of every lane (or the two largest) are
``most`` entries or more, so the ``most``-th of them, by a sorting network, is no more than the
border; what reaches it, a dozen entries as a rule, is written side by side, and the ``most``-th of
these is the border. Beyond 16, bisection.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels import simd
from topicstream.numeric.kernels.arrays import Float, Floats, Ints
from topicstream.numeric.kernels.intrinsics import (
    I32,
    INTS,
    VECTOR,
    ZERO,
    Builder,
    Value,
    emit,
    extreme,
    shuffle,
    vector,
)
from topicstream.numeric.kernels.jit import kernel

SMALLEST = np.float32(1e-37)  # what is below counts as zero
NETWORK_MOST = 16
LANES_MOST = 8  # beyond that many the largest of each lane tell too little: take two

_ONE = ir.Constant(VECTOR, [1.0] * simd.WIDTH)


def _lane_by_lane(arguments: int, build: Any) -> Any:
    """Build an intrinsic of that many SIMD values."""
    return emit(vector, *[vector] * arguments)(build)


# the larger and the smaller of each lane, both >= 0; a where a >= b, else 0;  1 so;  c so
larger = _lane_by_lane(2, lambda b, x, y: extreme(b, "umax", x, y))
smaller = _lane_by_lane(2, lambda b, x, y: extreme(b, "umin", x, y))
keep = _lane_by_lane(2, lambda b, x, y: b.select(b.fcmp_ordered(">=", x, y), x, ZERO))
mark = _lane_by_lane(2, lambda b, x, y: b.select(b.fcmp_ordered(">=", x, y), _ONE, ZERO))
where = _lane_by_lane(3, lambda b, x, y, z: b.select(b.fcmp_ordered(">=", x, y), z, ZERO))


def _compare_exchange(b: Builder, v: Value, partner: list[int], takes_larger: list[bool]) -> Value:
    other = shuffle(b, v, None, partner)
    high = extreme(b, "umax", v, other)
    low = extreme(b, "umin", v, other)
    return shuffle(
        b, high, low, [i if takes_larger[i] else i + simd.WIDTH for i in range(simd.WIDTH)]
    )


def _descend(b: Builder, v: Value, size: int) -> Value:
    """Merge bitonic runs of ``size`` lanes, alternating down and up.

    All are descending when size is 16.
    """
    stride = size // 2
    while stride:
        takes = [
            ((i & size) == 0 or size == simd.WIDTH) == ((i & stride) == 0)
            for i in range(simd.WIDTH)
        ]
        v = _compare_exchange(b, v, [i ^ stride for i in range(simd.WIDTH)], takes)
        stride //= 2
    return v


@emit(vector, vector)
def descending(b: Builder, v: Value) -> Value:
    """Sort the lanes, largest first (bitonic network, Batcher 1968)."""
    for size in (2, 4, 8, 16):
        v = _descend(b, v, size)
    return v


@emit(vector, vector, vector)
def merged(b: Builder, x: Value, y: Value) -> Value:
    """Merge two descending SIMD values into their 16 largest, descending."""
    back = shuffle(b, y, None, list(range(simd.WIDTH))[::-1])
    return _descend(b, extreme(b, "umax", x, back), simd.WIDTH)


@emit(vector, vector, vector)
def halfway(b: Builder, x: Value, y: Value) -> Value:
    """Compute the floats half-way between those of x and y by their bits.

    All are >= 0, so their bits have the same order.
    """
    both = b.add(b.bitcast(x, INTS), b.bitcast(y, INTS))
    return b.bitcast(b.lshr(both, ir.Constant(INTS, [1] * simd.WIDTH)), VECTOR)


@emit("float32", vector, "int64")
def lane(b: Builder, v: Value, i: Value) -> Value:
    """Read lane i (0 .. 15, not checked) -> float32."""
    return b.extract_element(v, b.trunc(i, I32))


@kernel(forceinline=True)
def low_border(p: int, width: int, most: int) -> float:
    """Find a border that at least ``most`` floats reach, or SMALLEST.

    most <= 16. The floats are the ``width`` ones at address p.
    """
    first = simd.splat(np.float32(0))
    second = simd.splat(np.float32(0))
    if most <= LANES_MOST:
        for k in range(0, width, 16):
            first = larger(first, pointers.load(p, k))
        top = descending(first)
    else:
        for k in range(0, width, 16):
            v = pointers.load(p, k)
            second = larger(second, smaller(first, v))
            first = larger(first, v)
        top = merged(descending(first), descending(second))
    return max(lane(top, most - 1), SMALLEST)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def reaching(p: int, width: int, least: float, work: int) -> int:
    """Copy the floats that reach ``least``, then 16 zeros, and count them.

    From address p to address work.
    """
    n = 0
    b = simd.splat(least)
    for k in range(0, width, 16):
        v = pointers.load(p, k)
        n += pointers.append(work, n, v, v, b)
    pointers.store(work, n, simd.splat(np.float32(0)))
    return n


@kernel(forceinline=True)
def best_of(work: int, n: int) -> Any:
    """Sort the 16 largest of the n floats at address work, descending.

    Zeros follow them.
    """
    top = descending(pointers.load(work, 0))
    for k in range(16, n, 16):
        top = merged(top, descending(pointers.load(work, k)))
    return top


@kernel(forceinline=True)
def tied(work: int, n: int, top: Any, most: int, border: float) -> bool:
    """Test whether more than ``most`` of n floats reach the border (address work)."""
    if n <= most:
        return False
    if most < 16:
        return lane(top, most) >= border  # type: ignore[no-any-return]
    count = simd.splat(np.float32(0))
    b = simd.splat(border)
    for k in range(0, n, 16):
        count = count + mark(pointers.load(work, k), b)
    return simd.total(count) > most  # type: ignore[no-any-return]


@kernel
def keep_above(p: Floats, o: int, width: int, most: int, border: float) -> Float:
    """Zero all but the ``most`` first floats on or above the border.

    Those above come before those on it. Returns the sum of those that remain.
    """
    above = 0
    for k in range(width):
        if p[o + k] > border:
            above += 1
    equal = most - above
    total = np.float32(0)
    for k in range(width):
        v = p[o + k]
        if v > border:
            total += v
        elif v == border and equal > 0:
            equal -= 1
            total += v
        else:
            p[o + k] = 0
    return total


@kernel
def nth_largest(x: Floats, n: int, rank: int) -> Float:
    """Find the ``rank``-th largest of x[:n] by bisection.

    None is below zero, so their bits, as integers, have the same order.

    (numba's ``np.partition`` imports ``scipy.linalg``, .13 s of every command.)
    """
    bits = x.view(np.int32)
    low = 0
    high = 0x7F800000
    while low < high:
        middle = (low + high + 1) // 2
        reached = 0
        for i in range(n):
            reached += bits[i] >= middle
        low, high = (middle, high) if reached >= rank else (low, middle - 1)
    i = 0
    while bits[i] != low:
        i += 1
    return x[i]  # type: ignore[no-any-return]


@kernel
def keep_by_bisection(p: Floats, o: int, width: int, most: int, work: Floats) -> float:
    """Do the work of ``keep_top`` for any number."""
    n = 0
    for k in range(width):
        if p[o + k] >= SMALLEST:
            work[n] = p[o + k]
            n += 1
        else:
            p[o + k] = 0
    border = nth_largest(work, n, most) if n > most else SMALLEST
    return keep_above(p, o, width, most, border)  # type: ignore[no-any-return]


@kernel
def keep_top(p: Floats, o: int, width: int, most: int, work: Floats) -> float:
    """Zero all but the L largest entries of a row.

    See the module's docstring.

    p: flat float32 array; o: first entry; width: a multiple of 16; work: float32[width + 16].
    """
    if most > NETWORK_MOST:
        return keep_by_bisection(p, o, width, most, work)  # type: ignore[no-any-return]
    row = pointers.address_of(p) + 4 * o
    candidates = pointers.address_of(work)
    n = reaching(row, width, low_border(row, width, most), candidates)
    top = best_of(candidates, n)
    border = max(lane(top, most - 1), SMALLEST)
    if tied(candidates, n, top, most, border):
        return keep_above(p, o, width, most, border)  # type: ignore[no-any-return]
    b = simd.splat(border)
    for k in range(0, width, 16):
        simd.store(p, o + k, keep(simd.load(p, o + k), b))
    return simd.total(keep(top, b))  # type: ignore[no-any-return]


@kernel
def largest_numbers(value: Floats, n: int, count: int, out: Ints) -> None:
    """List the ascending numbers of the ``count`` largest of value[:n].

    They go to out[:count]. Of equal ones the first are chosen.
    """
    cut = nth_largest(value, n, count)
    above = 0
    for q in range(n):
        above += value[q] > cut
    level = count - above
    at = 0
    for q in range(n):
        if value[q] > cut:
            out[at] = q
            at += 1
        elif value[q] == cut and level > 0:
            out[at] = q
            at += 1
            level -= 1
