"""The L largest of a row of weights, without a sort (Hughes & Sudderth 2016, Alg. 1 SelectTopL; Blum et al. 1973; Musser 1997).

``keep_top(p, o, width, most, work)`` sets every entry of p[o .. o + width) that is not among the ``most`` largest to zero
and returns the sum of what is left.  Weights are >= 0; zeros are never counted as kept.  Among equal weights at the border
the first ones stay, so exactly min(most, number of positive weights) remain.

For at most 16, in two steps over vectors of 16 lanes.  The largest of every lane (or the two largest) are ``most`` entries
or more, so the ``most``-th of them, by a sorting network, is no more than the border; what reaches it, a dozen entries as a
rule, is written side by side, and the ``most``-th of these is the border.  Beyond 16, quickselect with the median of three.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from topicstream.kernels import places, simd
from topicstream.kernels.jit import kernel
from topicstream.kernels.lazy import cgutils, intrinsic, types, vectors

SMALLEST = np.float32(1e-37)  # what is below counts as zero
NETWORK_MOST = 16
LANES_MOST = 8  # beyond that many the largest of each lane tell too little: take two

_VECTOR = ir.VectorType(ir.FloatType(), simd.WIDTH)
_ZERO = ir.Constant(_VECTOR, [0.0] * simd.WIDTH)
_ONE = ir.Constant(_VECTOR, [1.0] * simd.WIDTH)


def _lane_by_lane(name: str, doc: str, arguments: int, build: Any) -> Any:
    """An intrinsic of that many vectors: build(builder, values) -> value."""

    def two(typing_context, a, b):
        return vectors.vector(a, b), lambda context, builder, sig, args: build(builder, args)

    def three(typing_context, a, b, c):
        return vectors.vector(a, b, c), lambda context, builder, sig, args: build(builder, args)

    chosen = two if arguments == 2 else three
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = doc
    return intrinsic(chosen)


def _extreme(builder: Any, name: str, a: Any, b: Any) -> Any:
    """The larger or smaller of each lane.  Floats >= 0 are in the order of their bits, and integers have more ports."""
    whole = ir.VectorType(ir.IntType(32), simd.WIDTH)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(whole, [whole] * 2), f"llvm.{name}.v16i32"
    )
    return builder.bitcast(builder.call(function, [builder.bitcast(a, whole), builder.bitcast(b, whole)]), _VECTOR)


def _choose(sign: str, left: Any, right: Any) -> Any:
    return lambda builder, a: builder.select(builder.fcmp_ordered(sign, a[0], a[1]), left(a), right(a))


larger = _lane_by_lane(
    "larger", "The larger of each lane, both >= 0.", 2, lambda builder, a: _extreme(builder, "umax", *a)
)
smaller = _lane_by_lane(
    "smaller", "The smaller of each lane, both >= 0.", 2, lambda builder, a: _extreme(builder, "umin", *a)
)
keep = _lane_by_lane("keep", "a where a >= b, else 0.", 2, _choose(">=", lambda a: a[0], lambda a: _ZERO))
mark = _lane_by_lane("mark", "1 where a >= b, else 0.", 2, _choose(">=", lambda a: _ONE, lambda a: _ZERO))
where = _lane_by_lane("where", "c where a >= b, else 0.", 3, _choose(">=", lambda a: a[2], lambda a: _ZERO))


def _compare_exchange(builder: Any, v: Any, partner: list[int], takes_larger: list[bool]) -> Any:
    index = ir.Constant(ir.VectorType(ir.IntType(32), simd.WIDTH), partner)
    other = builder.shuffle_vector(v, ir.Constant(_VECTOR, ir.Undefined), index)
    high, low = _extreme(builder, "umax", v, other), _extreme(builder, "umin", v, other)
    chosen = [i if takes_larger[i] else i + simd.WIDTH for i in range(simd.WIDTH)]
    return builder.shuffle_vector(high, low, ir.Constant(ir.VectorType(ir.IntType(32), simd.WIDTH), chosen))


def _descend(builder: Any, v: Any, size: int) -> Any:
    """Bitonic merge of runs of ``size`` lanes, alternating down and up (all down when size is 16)."""
    stride = size // 2
    while stride:
        takes = [((i & size) == 0 or size == simd.WIDTH) == ((i & stride) == 0) for i in range(simd.WIDTH)]
        v = _compare_exchange(builder, v, [i ^ stride for i in range(simd.WIDTH)], takes)
        stride //= 2
    return v


@intrinsic
def descending(typing_context, v):
    """The lanes sorted, largest first (bitonic network, Batcher 1968)."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = args[0]
        for size in (2, 4, 8, 16):
            value = _descend(builder, value, size)
        return value

    return vectors.vector(vectors.vector), generate


@intrinsic
def merged(typing_context, a, b):
    """The 16 largest of two descending vectors, descending."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        back = ir.Constant(ir.VectorType(ir.IntType(32), simd.WIDTH), list(range(simd.WIDTH))[::-1])
        other = builder.shuffle_vector(args[1], ir.Constant(_VECTOR, ir.Undefined), back)
        value = _extreme(builder, "umax", args[0], other)
        return _descend(builder, value, simd.WIDTH)

    return vectors.vector(vectors.vector, vectors.vector), generate


@intrinsic
def lane(typing_context, v, i):
    """Lane i (0 .. 15, not checked) -> float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], ir.IntType(32)))

    return types.float32(vectors.vector, types.int64), generate


@kernel(forceinline=True)
def low_border(p, width, most):
    """What at least ``most`` of the ``width`` floats at address p reach, or SMALLEST; most <= 16."""
    first, second = simd.splat(np.float32(0)), simd.splat(np.float32(0))
    if most <= LANES_MOST:
        for k in range(0, width, 16):
            first = larger(first, places.load(p, k))
        top = descending(first)
    else:
        for k in range(0, width, 16):
            v = places.load(p, k)
            second = larger(second, smaller(first, v))
            first = larger(first, v)
        top = merged(descending(first), descending(second))
    return max(lane(top, most - 1), SMALLEST)


@kernel(forceinline=True)
def reaching(p, width, least, work):
    """The floats at address p that reach ``least`` to address work, then 16 zeros; returns their number."""
    n, b = 0, simd.splat(least)
    for k in range(0, width, 16):
        v = places.load(p, k)
        n += places.append(work, n, v, v, b)
    places.store(work, n, simd.splat(np.float32(0)))
    return n


@kernel(forceinline=True)
def best_of(work, n):
    """The 16 largest of the n floats at address work, descending; zeros follow them."""
    top = descending(places.load(work, 0))
    for k in range(16, n, 16):
        top = merged(top, descending(places.load(work, k)))
    return top


@kernel(forceinline=True)
def tied(work, n, top, most, border):
    """More than ``most`` of the n floats at address work reach the border."""
    if n <= most:
        return False
    if most < 16:
        return lane(top, most) >= border
    count, b = simd.splat(np.float32(0)), simd.splat(border)
    for k in range(0, n, 16):
        count = count + mark(places.load(work, k), b)
    return simd.total(count) > most


@kernel
def nth_largest(x, n, rank):
    """The ``rank``-th largest (1 is the largest) of x[0 .. n), which is reordered: quickselect, median of three."""
    low, high, want = 0, n - 1, rank - 1
    while low < high:
        middle = (low + high) // 2
        a, b, c = x[low], x[middle], x[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if want <= j:
            high = j
        elif want >= i:
            low = i
        else:
            break
    return x[want]


@kernel
def keep_above(p, o, width, most, border):
    """Keep what is above the border and the first of those on it, ``most`` in all; returns the sum."""
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
def keep_by_quickselect(p, o, width, most, work):
    """``keep_top`` for any number."""
    n = 0
    for k in range(width):
        if p[o + k] >= SMALLEST:
            work[n] = p[o + k]
            n += 1
        else:
            p[o + k] = 0
    border = nth_largest(work, n, most) if n > most else SMALLEST
    return keep_above(p, o, width, most, border)


@kernel
def keep_top(p, o, width, most, work):
    """See the module's head.  p: flat float32 array; o: first entry; width: a multiple of 16; work: float32[width + 16]."""
    if most > NETWORK_MOST:
        return keep_by_quickselect(p, o, width, most, work)
    here, there = places.place(p) + 4 * o, places.place(work)
    n = reaching(here, width, low_border(here, width, most), there)
    top = best_of(there, n)
    border = max(lane(top, most - 1), SMALLEST)
    if tied(there, n, top, most, border):
        return keep_above(p, o, width, most, border)
    b = simd.splat(border)
    for k in range(0, width, 16):
        simd.store(p, o + k, keep(simd.load(p, o + k), b))
    return simd.total(keep(top, b))
