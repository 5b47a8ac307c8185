"""Vectors of 16 float32 inside numba kernels.

A row of ``padded(K)`` topics is a whole number of them.  LLVM's own vectoriser cannot prove that
the rows of
different arrays do not overlap and checks it again for every cell; with explicit ones there is
nothing to prove. LLVM splits a vector into what the machine has (one AVX-512, two AVX, four SSE
registers), so the same kernel runs on any CPU, with sums formed in the same order.

``load(array, i)``      array: C-contiguous float32, any rank; i: flat index of the first of 16
                        entries (not checked)
``store(array, i, v)``  the reverse
``splat(x)``            16 copies of a float
``a + b, a - b, a * b, a / b``  lane by lane
``fma(a, b, c)``        a * b + c, rounded once
``larger(a, b)``        lane by lane (neither may be NaN)
``total(v)``            sum of the lanes, as a tree
``get(array, i)``       one entry of a one-dimensional array, not checked (no wrap-around of
                        negative indices to look for)
``fetch(array, i)``     prefetch the cache line that holds flat index i
"""

from __future__ import annotations

from topicstream.kernels import intrinsics as llvm
from topicstream.kernels.intrinsics import (
    ANY,
    ENTRY,
    F32,
    FLOATS,
    VECTOR,
    WIDTH,
    Builder,
    Value,
    emit,
    vector,
)
from topicstream.kernels.jit import kernel

__all__ = [
    "WIDTH",
    "fetch",
    "fma",
    "get",
    "larger",
    "load",
    "rows_ahead",
    "splat",
    "store",
    "total",
    "vector",
]

AHEAD_FLOATS, LEAST_AHEAD, MOST_AHEAD = 512, 3, 32


@emit(vector, FLOATS, "int64")
def load(b: Builder, data: Value, i: Value) -> Value:
    """array: float32, index: int64 -> vector."""
    return llvm.load(b, data, i, F32)


@emit("void", FLOATS, "int64", vector)
def store(b: Builder, data: Value, i: Value, v: Value) -> None:
    """array: float32, index: int64, value: vector."""
    llvm.store(b, data, i, v)


@emit(vector, "float32")
def splat(b: Builder, x: Value) -> Value:
    """float -> vector of 16 copies, rounded to float32."""
    return llvm.spread(b, x)


@emit(vector, vector, vector, vector)
def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """x * y + z, fused where the machine can."""
    return llvm.call(b, "llvm.fmuladd.v16f32", VECTOR, x, y, z)


@emit(vector, vector, vector)
def larger(b: Builder, x: Value, y: Value) -> Value:
    """max(x, y), lane by lane."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


@emit("float32", vector)
def total(b: Builder, v: Value) -> Value:
    """Sum of the lanes -> float32; lanes i and i + 8 first, then i and i + 4, and so on."""
    return llvm.fold(b, v, b.fadd)


@emit("void", ANY, "int64")
def fetch(b: Builder, data: Value, i: Value) -> None:
    """Ask for the cache line of one entry, to be written and read soon."""
    llvm.fetch(b, b.gep(data, [i]))


@emit(ENTRY, ANY, "int64")
def get(b: Builder, data: Value, i: Value) -> Value:
    """array: one-dimensional, index: int64 >= 0 -> the entry."""
    return b.load(b.gep(data, [i]))


@kernel(inline="always")
def rows_ahead(width: int) -> int:
    """How many cells before its use to fetch a row: far enough for memory to answer, not so far
    that rows on their way push the one in work out of the first cache."""
    return min(max(AHEAD_FLOATS // width, LEAST_AHEAD), MOST_AHEAD)
