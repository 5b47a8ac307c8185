"""Vectors of 16 float32 inside numba kernels.

A row of ``padded(K)`` topics is a whole number of such vectors.  LLVM's own vectoriser cannot prove that the rows of
different arrays do not overlap and checks it anew for every cell; with explicit vectors there is nothing to prove.
LLVM splits a vector into what the machine has (one AVX-512, two AVX, four SSE registers), so the same kernel runs on
any CPU, with sums formed in the same order.

``load(array, i)``      array: C-contiguous float32, any rank; i: flat index of the first of 16 entries (not checked)
``store(array, i, v)``  the reverse
``splat(x)``            16 copies of a float
``a + b, a - b, a * b, a / b``  lane by lane
``fma(a, b, c)``        a * b + c, rounded once
``larger(a, b)``        lane by lane (neither may be NaN)
``total(v)``            sum of the lanes, as a tree
``get(array, i)``       one entry of a one-dimensional array, not checked (no wrap-around of negative indices to look for)
``fetch(array, i)``     prefetch the cache line that holds flat index i
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.kernels.jit import kernel
from topicstream.kernels.lazy import cgutils, intrinsic, types, vectors

WIDTH = 16
AHEAD_FLOATS, LEAST_AHEAD, MOST_AHEAD = 512, 3, 32
_F32 = ir.FloatType()
_VECTOR = ir.VectorType(_F32, WIDTH)
_I32 = ir.IntType(32)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _is_float32(array: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float32


@intrinsic
def load(typing_context, array, index):
    """array: float32, index: int64 -> vector."""
    if not _is_float32(array):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[0], args[0], args[1])
        return builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    return vectors.vector(array, types.int64), generate


@intrinsic
def store(typing_context, array, index, value):
    """array: float32, index: int64, value: vector."""
    if not _is_float32(array) or not isinstance(value, vectors.Float32x16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _address(context, builder, sig.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, vectors.vector), generate


@intrinsic
def splat(typing_context, x):
    """float -> vector of 16 copies, rounded to float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[0], _I32(0))
        mask = ir.Constant(ir.VectorType(_I32, WIDTH), [0] * WIDTH)
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), mask)

    return vectors.vector(types.float32), generate


@intrinsic
def fma(typing_context, a, b, c):
    """a * b + c, fused where the machine can."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32")
        return builder.call(function, args)

    return vectors.vector(vectors.vector, vectors.vector, vectors.vector), generate


@intrinsic
def larger(typing_context, a, b):
    """max(a, b), lane by lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return vectors.vector(vectors.vector, vectors.vector), generate


@intrinsic
def total(typing_context, v):
    """Sum of the lanes -> float32; lanes i and i + 8 first, then i and i + 4, and so on."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, width = args[0], WIDTH
        while width > 1:
            half = width // 2
            kind = ir.VectorType(_I32, half)
            undefined = ir.Constant(value.type, ir.Undefined)
            low = builder.shuffle_vector(value, undefined, ir.Constant(kind, list(range(half))))
            high = builder.shuffle_vector(value, undefined, ir.Constant(kind, list(range(half, width))))
            value, width = builder.fadd(low, high), half
        return builder.extract_element(value, _I32(0))

    return types.float32(vectors.vector), generate


@intrinsic
def fetch(typing_context, array, index):
    """Ask for the cache line of one entry, to be written and read soon."""
    if not isinstance(array, types.Array):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, sig.args[0], args[0], args[1]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer, _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def get(typing_context, array, index):
    """array: one-dimensional, index: int64 >= 0 -> the entry."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, sig.args[0], args[0], args[1]))

    return array.dtype(array, types.int64), generate


@kernel(inline="always")
def rows_ahead(width):
    """How many cells before its use to fetch a row: far enough for memory to answer, not so far that rows on their way
    push the one in work out of the first cache."""
    return min(max(AHEAD_FLOATS // width, LEAST_AHEAD), MOST_AHEAD)
