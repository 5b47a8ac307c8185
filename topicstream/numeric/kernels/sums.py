"""Sums over arrays in an order that is the same on every processor.

Lane j of W adds up the entries j, j + W, j + 2 W, ...; then a tree adds lanes i and i + W/2, and so
on. W is 16 for float32 and 8 for float64. What a row lacks to whole vectors counts as zeros.

``sum_floats(a, n)``     a[0] + ... + a[n - 1] of float32
``sum_doubles(a, n)``    of float64
``dot_doubles(a, b, n)``  a[0] b[0] + ..., each product fused with the addition
``sum_row(p, n)``, ``dot_rows(p, q, n)``  of n float32 at addresses (``kernels.arrays``)

``load_doubles(a, i, n)``  eight entries of float64, float32 or int32 from flat index i on, as
                           float64; zeros from entry n on, which are not read
``load_eight(a, i)``       where all eight are there
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.numeric.kernels import intrinsics as llvm
from topicstream.numeric.kernels.arrays import Doubles, Float, Floats, address_of, load_row
from topicstream.numeric.kernels.intrinsics import (
    I32,
    VECTOR64,
    WIDTH,
    WIDTH64,
    Builder,
    Value,
    doubles,
    emit,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import fma, splat, total

_NUMBERS = ("float64", "float32", "int32")


def _as_doubles(b: Builder, v: Value) -> Value:
    lane = v.type.element
    if lane == I32:
        return b.sitofp(v, VECTOR64)
    return v if v.type == VECTOR64 else b.fpext(v, VECTOR64)


@emit(doubles, _NUMBERS, "int64")
def load_eight(b: Builder, data: Value, i: Value) -> Value:
    """Load eight entries as float64."""
    return _as_doubles(b, llvm.load(b, data, i, data.type.pointee, WIDTH64))


@emit(doubles, _NUMBERS, "int64", "int64")
def _load_fewer(b: Builder, data: Value, i: Value, n: Value) -> Value:
    kind = ir.VectorType(data.type.pointee, WIDTH64)
    pointer = b.bitcast(b.gep(data, [i]), kind.as_pointer())
    return _as_doubles(b, llvm.load_first(b, pointer, n))


@kernel(forceinline=True)
def load_doubles(a: Any, i: int, n: int) -> Any:
    """Load eight of n entries from i on as float64, with zeros past the end."""
    return load_eight(a, i) if i + WIDTH64 <= n else _load_fewer(a, i, n - i)


@emit(doubles, "float64")
def splat_doubles(b: Builder, x: Value) -> Value:
    """Build a vector of eight copies of a float64."""
    return llvm.spread(b, x, WIDTH64)


fma_doubles = emit(doubles, doubles, doubles, doubles)(llvm.fuse)


@emit("float64", doubles)
def total_doubles(b: Builder, v: Value) -> Value:
    """Sum eight lanes: lanes i and i + 4 first, and so on."""
    return llvm.fold(b, v, b.fadd)


@kernel(forceinline=True)
def sum_row(p: int, n: int) -> Float:
    """Sum n float32 at address p."""
    lanes = splat(0.0)
    for i in range(0, n, WIDTH):
        lanes = lanes + load_row(p, i, n)
    return total(lanes)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def dot_rows(p: int, q: int, n: int) -> Float:
    """Sum the products of n float32 at addresses p and q."""
    lanes = splat(0.0)
    for i in range(0, n, WIDTH):
        lanes = fma(load_row(p, i, n), load_row(q, i, n), lanes)
    return total(lanes)  # type: ignore[no-any-return]


@kernel
def sum_floats(a: Floats, n: int) -> Float:
    """Sum the first n entries of float32."""
    return sum_row(address_of(a), n)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def sum_doubles(a: Doubles, n: int) -> float:
    """Sum the first n entries of float64."""
    lanes = splat_doubles(0.0)
    whole = n - n % WIDTH64
    for i in range(0, whole, WIDTH64):
        lanes = lanes + load_eight(a, i)
    if whole < n:
        lanes = lanes + _load_fewer(a, whole, n - whole)
    return total_doubles(lanes)  # type: ignore[no-any-return]


@kernel(forceinline=True)
def dot_doubles(a: Doubles, b: Doubles, n: int) -> float:
    """Sum the products of the first n entries of two arrays of float64."""
    lanes = splat_doubles(0.0)
    whole = n - n % WIDTH64
    for i in range(0, whole, WIDTH64):
        lanes = fma_doubles(load_eight(a, i), load_eight(b, i), lanes)
    if whole < n:
        rest = n - whole
        lanes = fma_doubles(_load_fewer(a, whole, rest), _load_fewer(b, whole, rest), lanes)
    return total_doubles(lanes)  # type: ignore[no-any-return]
