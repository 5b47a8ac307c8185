"""Float32 memory by address: what ``kernels.simd`` does on arrays, for helpers that are called once a cell.

numba counts the references of every array that is passed to a function, atomically, even when the function is inlined: a
helper of six arrays pays a hundred nanoseconds.  An address is an integer.  Whoever takes one keeps the array alive.

``place(array)``        address of a C-contiguous array's first entry
``load(p, i)``          16 floats from entry i on;  ``store(p, i, v)`` the reverse
``get(p, i)``           one float;  ``put(p, i, x)`` the reverse;  ``double``, ``put_double``
                        of float64;  ``whole(p, i)``, ``put_whole`` of int64;  ``half(p, i)`` one int32 and
                        ``small(p, i)`` one uint16, as int64
``fetch(p, i)``         ask for the cache line of float i, into the first cache;  ``fetch_far`` into the second
``append(p, i, v, a, b)``   the lanes of v where a >= b to entry i and on, in order, then zeros (16 entries are written);
                        returns how many there are
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.kernels.lazy import cgutils, intrinsic, types, vectors
from topicstream.kernels.simd import WIDTH

_F32, _I16, _I32, _I64 = ir.FloatType(), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_F32, WIDTH)


def _pointer(builder: Any, p: Any, i: Any, kind: Any, unit: Any = _F32) -> Any:
    return builder.bitcast(builder.gep(builder.inttoptr(p, unit.as_pointer()), [i]), kind.as_pointer())


@intrinsic
def place(typing_context, array):
    """array: C-contiguous -> int64."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ptrtoint(context.make_array(sig.args[0])(context, builder, args[0]).data, _I64)

    return types.int64(array), generate


@intrinsic
def load(typing_context, p, i):
    """-> vector."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], args[1], _VECTOR), align=4)

    return vectors.vector(types.int64, types.int64), generate


@intrinsic
def store(typing_context, p, i, v):
    """v: vector."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(builder, args[0], args[1], _VECTOR), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, vectors.vector), generate


@intrinsic
def get(typing_context, p, i):
    """-> float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], args[1], _F32), align=4)

    return types.float32(types.int64, types.int64), generate


@intrinsic
def put(typing_context, p, i, x):
    """x: float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(builder, args[0], args[1], _F32), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@intrinsic
def put_double(typing_context, p, i, x):
    """x: float64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.DoubleType()
        builder.store(args[2], _pointer(builder, args[0], args[1], kind, kind), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), generate


@intrinsic
def double(typing_context, p, i):
    """-> float64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.DoubleType()
        return builder.load(_pointer(builder, args[0], args[1], kind, kind), align=8)

    return types.float64(types.int64, types.int64), generate


@intrinsic
def put_whole(typing_context, p, i, x):
    """x: int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(builder, args[0], args[1], _I64, _I64), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def half(typing_context, p, i):
    """-> int64."""
    kind = ir.IntType(32)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.sext(builder.load(_pointer(builder, args[0], args[1], kind, kind), align=4), _I64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def small(typing_context, p, i):
    """-> int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, args[0], args[1], _I16, _I16), align=2), _I64)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def whole(typing_context, p, i):
    """-> int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(builder, args[0], args[1], _I64, _I64), align=8)

    return types.int64(types.int64, types.int64), generate


def _fetch(nearness: int) -> Any:
    def fetch(typing_context, p, i):
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer = _pointer(builder, args[0], args[1], ir.IntType(8))
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [pointer, number(0), number(nearness), number(1)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return fetch


fetch = intrinsic(_fetch(3))
fetch_far = intrinsic(_fetch(2))


@intrinsic
def append(typing_context, p, i, v, a, b):
    """v, a, b: vectors -> int64."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        mask = builder.fcmp_ordered(">=", args[3], args[4])
        name = "llvm.experimental.vector.compress.v16i32"
        whole = ir.VectorType(_I32, WIDTH)  # as integers: without AVX-512 LLVM dies over a constant of floats here
        kind = ir.FunctionType(whole, [whole, mask.type, whole])
        compress = cgutils.get_or_insert_function(builder.module, kind, name)
        packed = builder.call(compress, [builder.bitcast(args[2], whole), mask, ir.Constant(whole, [0] * WIDTH)])
        packed = builder.bitcast(packed, _VECTOR)
        builder.store(packed, _pointer(builder, args[0], args[1], _VECTOR), align=4)
        count = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I16, [_I16]), "llvm.ctpop.i16")
        return builder.zext(builder.call(count, [builder.bitcast(mask, _I16)]), _I64)

    return types.int64(types.int64, types.int64, vectors.vector, vectors.vector, vectors.vector), generate
