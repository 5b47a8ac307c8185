"""Vectors of 16 float32 from and to scattered places, and to and from small integers (more of ``kernels.simd``).

numba does not vectorise indexed loads and stores; ``llvm.masked.gather`` and ``llvm.masked.scatter`` become one AVX-512
instruction where the machine has it and 16 loads or stores where it has not: the same code, the same bits.

``index(array, i)``           16 uint16 topics -> 16 int32
``gather(array, i, at)``      array[i + at[0]], ..., array[i + at[15]]
``scatter(array, i, at, v)``  the reverse; equal indices: the last lane stays
``widen(array, i)``           16 uint8, uint16 or float32 -> floats
``narrow(array, i, v)``       floats -> nearest uint8 or uint16 (v >= 0 and in range; float32: as they are), returns what
                              was stored, as floats
``root(v)``                    square root, lane by lane;   ``highest(v)`` the largest lane
``squeeze(topics, values, i, first, v)``  append the lanes of v that are not zero, with their numbers first, first + 1,
                              ..., to topics (uint16) and values (float32) at i; writes 16 entries, the rest zeros; returns
                              how many count
``append(topics, values, i, at, v)``      the same with the numbers ``at``
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.extending import intrinsic, register_model

from topicstream.kernels.simd import WIDTH, Float32x16, vector

_F32, _I32, _I16, _I8, _I1 = ir.FloatType(), ir.IntType(32), ir.IntType(16), ir.IntType(8), ir.IntType(1)
_FLOATS = ir.VectorType(_F32, WIDTH)
_INTS = ir.VectorType(_I32, WIDTH)
_MASK = ir.VectorType(_I1, WIDTH)


_intrinsic: Any = intrinsic  # its own annotations hide that numba passes the first argument


class Int32x16(types.Type):
    """The numba type of 16 indices."""

    def __init__(self) -> None:
        super().__init__(name="int32x16")


indices = Int32x16()


@register_model(Int32x16)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _INTS)


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


def _is(array: Any, *dtypes: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype in dtypes


def _call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _all_lanes() -> Any:
    return ir.Constant(_MASK, [True] * WIDTH)


def _load(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lane: Any, align: int) -> Any:
    pointer = _address(context, builder, array_type, array, at)
    return builder.load(builder.bitcast(pointer, ir.VectorType(lane, WIDTH).as_pointer()), align=align)


def _store(context: Any, builder: Any, array_type: Any, array: Any, at: Any, value: Any, align: int) -> None:
    pointer = _address(context, builder, array_type, array, at)
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


class _VectorGep(ir.instructions.Instruction):
    """Addresses of float32 pointer[lanes[j]], which llvmlite's own builder has no word for."""

    def __init__(self, parent: Any, pointer: Any, lanes: Any) -> None:
        kind = ir.VectorType(ir.PointerType(), WIDTH)
        super().__init__(parent, kind, "getelementptr", [pointer, lanes], name="")

    def descr(self, buf: list[str]) -> None:
        pointer, lanes = self.operands
        buf.append(
            f"getelementptr float, {pointer.type} {pointer.get_reference()}, {lanes.type} {lanes.get_reference()}\n"
        )


def _addresses(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lanes: Any) -> Any:
    pointer = _address(context, builder, array_type, array, at)
    instruction = _VectorGep(builder.block, pointer, lanes)
    builder._insert(instruction)
    return instruction


@_intrinsic
def index(typing_context, array, i):
    """array: uint16 -> indices."""
    if not _is(array, types.uint16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.zext(_load(context, builder, sig.args[0], args[0], args[1], _I16, 2), _INTS)

    return indices(array, types.int64), generate


@_intrinsic
def gather(typing_context, array, i, at):
    """array: float32, i: int64, at: indices -> vector."""
    if not _is(array, types.float32) or not isinstance(at, Int32x16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = _addresses(context, builder, sig.args[0], *args)
        rest = ir.Constant(_FLOATS, ir.Undefined)
        return _gather_call(builder, pointers, rest)

    return vector(array, types.int64, indices), generate


def _gather_call(builder: Any, pointers: Any, rest: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [pointers.type, _I32, _MASK, _FLOATS])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.gather.v16f32.v16p0")
    return builder.call(function, [pointers, _I32(4), _all_lanes(), rest])


@_intrinsic
def scatter(typing_context, array, i, at, value):
    """array: float32, i: int64, at: indices, value: vector."""
    if not _is(array, types.float32) or not isinstance(at, Int32x16) or not isinstance(value, Float32x16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers = _addresses(context, builder, sig.args[0], *args[:3])
        kind = ir.FunctionType(ir.VoidType(), [_FLOATS, pointers.type, _I32, _MASK])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.scatter.v16f32.v16p0")
        builder.call(function, [args[3], pointers, _I32(4), _all_lanes()])
        return context.get_dummy_value()

    return types.void(array, types.int64, indices, vector), generate


@_intrinsic
def widen(typing_context, array, i):
    """array: uint8, uint16 or float32 -> vector."""
    if not _is(array, types.uint8, types.uint16, types.float32):
        return None
    bits = array.dtype.bitwidth

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if bits == 32:
            return _load(context, builder, sig.args[0], args[0], args[1], _F32, 4)
        raw = _load(context, builder, sig.args[0], args[0], args[1], ir.IntType(bits), bits // 8)
        return builder.sitofp(builder.zext(raw, _INTS), _FLOATS)

    return vector(array, types.int64), generate


@_intrinsic
def narrow(typing_context, array, i, value):
    """array: uint8, uint16 or float32; value: vector -> what was stored, as a vector."""
    if not _is(array, types.uint8, types.uint16, types.float32) or not isinstance(value, Float32x16):
        return None
    bits = array.dtype.bitwidth

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if bits == 32:
            _store(context, builder, sig.args[0], args[0], args[1], args[2], 4)
            return args[2]
        half = ir.Constant(_FLOATS, [0.5] * WIDTH)
        whole = builder.fptosi(builder.fadd(args[2], half), _INTS)
        small = builder.trunc(whole, ir.VectorType(ir.IntType(bits), WIDTH))
        _store(context, builder, sig.args[0], args[0], args[1], small, bits // 8)
        return builder.sitofp(whole, _FLOATS)

    return vector(array, types.int64, vector), generate


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@_intrinsic
def root(typing_context, v):
    """Square root of each lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(builder, "llvm.sqrt.v16f32", _FLOATS, [args[0]])

    return vector(vector), generate


@_intrinsic
def highest(typing_context, v):
    """The largest lane -> float32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value, width = args[0], WIDTH
        while width > 1:
            half = width // 2
            kind, none = ir.VectorType(_I32, half), ir.Constant(value.type, ir.Undefined)
            low = builder.shuffle_vector(value, none, ir.Constant(kind, list(range(half))))
            high = builder.shuffle_vector(value, none, ir.Constant(kind, list(range(half, width))))
            value, width = _larger(builder, low, high), half
        return builder.extract_element(value, _I32(0))

    return types.float32(vector), generate


def _append(context: Any, builder: Any, sig: Any, args: Any, numbers: Any, v: Any) -> Any:
    """Store the lanes of v that are not zero, and their numbers, at args[2] of args[1] and args[0]; their number."""
    kept = builder.fcmp_unordered("!=", v, ir.Constant(_FLOATS, [0.0] * WIDTH))
    rest = ir.Constant(_INTS, [0] * WIDTH)
    for array, lanes in ((1, builder.bitcast(v, _INTS)), (0, numbers)):
        # floats as integers: without AVX-512 LLVM dies over a constant of floats here
        packed = _call(builder, "llvm.experimental.vector.compress.v16i32", _INTS, [lanes, kept, rest])
        packed = builder.trunc(packed, ir.VectorType(_I16, WIDTH)) if array == 0 else builder.bitcast(packed, _FLOATS)
        _store(context, builder, sig.args[array], args[array], args[2], packed, 4 if array else 2)
    return builder.zext(_call(builder, "llvm.ctpop.i16", _I16, [builder.bitcast(kept, _I16)]), ir.IntType(64))


@_intrinsic
def squeeze(typing_context, topics, values, i, first, v):
    """topics: uint16, values: float32, i: int64, first: int64, v: vector -> int64 entries appended."""
    if not _is(topics, types.uint16) or not _is(values, types.float32):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        none = ir.Constant(_INTS, ir.Undefined)
        one = builder.insert_element(none, builder.trunc(args[3], _I32), _I32(0))
        same = builder.shuffle_vector(one, none, ir.Constant(_INTS, [0] * WIDTH))
        numbers = builder.add(same, ir.Constant(_INTS, list(range(WIDTH))))
        return _append(context, builder, sig, args, numbers, args[4])

    return types.int64(topics, values, types.int64, types.int64, vector), generate


@_intrinsic
def append(typing_context, topics, values, i, at, v):
    """topics: uint16, values: float32, i: int64, at: indices, v: vector -> int64 entries appended."""
    if not _is(topics, types.uint16) or not _is(values, types.float32) or not isinstance(at, Int32x16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _append(context, builder, sig, args, args[3], args[4])

    return types.int64(topics, values, types.int64, indices, vector), generate
