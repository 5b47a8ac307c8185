"""Vectors of 16 float32 from and to scattered places, and to and from small integers (more of ``kernels.simd``).

numba does not vectorise indexed loads and stores.  ``llvm.masked.gather`` and ``llvm.masked.scatter`` become one AVX-512
instruction each.  AMD's processors take it apart again and run nothing else beside it, so there, and where there is no
AVX-512, they are 16 single loads and stores, from and into the lanes of a register.  The same bits either way.  A cell of the
sweep of ``engines.message.sparse_messages`` took, with instructions and with single ones: Intel, Sapphire Rapids, 67 and 76 ns (K =
100), 78 and 92 (500), 100 and 120 (2000); AMD, Zen 5, 70 and 59 (K = 100).

``gather(array, i, topics, at)``      array[i + topics[at]], ..., array[i + topics[at + 15]];  topics: uint16
``scatter(array, i, topics, at, v)``  the reverse; equal topics: the last lane stays
``widen(array, i)``           16 uint8, uint16 or float32 -> floats
``narrow(array, i, v)``       floats -> nearest uint8 or uint16 (v >= 0 and in range; float32: as they are), returns what
                              was stored, as floats
``root(v)``                    square root, lane by lane;   ``highest(v)`` the largest lane
``squeeze(topics, values, i, first, v)``  append the lanes of v that are not zero, with their numbers first, first + 1,
                              ..., to topics (uint16) and values (float32) at i; writes 16 entries, the rest zeros; returns
                              how many count
``append(topics, values, i, numbers, at, v)``  the same with numbers[at], ..., numbers[at + 15]
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.kernels.lazy import cgutils, intrinsic, types, vectors
from topicstream.kernels.simd import WIDTH

_F32, _I64, _I32, _I16 = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(16)
_FLOATS = ir.VectorType(_F32, WIDTH)
_INTS = ir.VectorType(_I32, WIDTH)
_MASK = ir.VectorType(ir.IntType(1), WIDTH)


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


def _is(array: Any, *dtypes: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype in dtypes


def _call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _load(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lane: Any, align: int) -> Any:
    pointer = _address(context, builder, array_type, array, at)
    return builder.load(builder.bitcast(pointer, ir.VectorType(lane, WIDTH).as_pointer()), align=align)


def _store(context: Any, builder: Any, array_type: Any, array: Any, at: Any, value: Any, align: int) -> None:
    pointer = _address(context, builder, array_type, array, at)
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


class _Addresses(ir.instructions.Instruction):
    """Vector of the addresses pointer[lanes[j]] of floats, which llvmlite's own builder has no word for."""

    def __init__(self, parent: Any, pointer: Any, lanes: Any) -> None:
        super().__init__(parent, ir.VectorType(ir.PointerType(), WIDTH), "getelementptr", [pointer, lanes], name="")

    def descr(self, buf: list[str]) -> None:
        pointer, lanes = (f"{o.type} {o.get_reference()}" for o in self.operands)
        buf.append(f"getelementptr float, {pointer}, {lanes}\n")


def one_instruction(processor: str, features: str) -> bool:
    """Whether a gather and a scatter are one instruction each on LLVM's ``processor`` with ``features`` ("+avx512f,..."),
    and a fast one."""
    return "+avx512f" in features.split(",") and not processor.startswith("znver")


def _fast(context: Any) -> bool:
    _, processor, features = context.codegen().magic_tuple()  # what the cache of compiled kernels is kept by, too
    return one_instruction(processor, features)


def _places(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The addresses of ``_lanes`` as a vector."""
    numbers = builder.zext(_load(context, builder, sig.args[2], args[2], args[3], _I16, 2), _INTS)
    start = _address(context, builder, sig.args[0], args[0], args[1])
    found = _Addresses(builder.block, start, numbers)
    builder._insert(found)
    return found


def _lanes(context: Any, builder: Any, sig: Any, args: Any) -> list[Any]:
    """Addresses of args[0][args[1] + args[2][args[3] + lane]] for the 16 lanes."""
    start = _address(context, builder, sig.args[0], args[0], args[1])
    numbers = _address(context, builder, sig.args[2], args[2], args[3])
    found = []
    for lane in range(WIDTH):
        number = builder.load(builder.gep(numbers, [_I64(lane)]), align=2)
        found.append(builder.gep(start, [builder.zext(number, _I64)]))
    return found


@intrinsic
def gather(typing_context, array, i, topics, at):
    """array: float32, i: int64, topics: uint16, at: int64 -> vector."""
    if not _is(array, types.float32) or not _is(topics, types.uint16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if _fast(context):
            rest = [_I32(4), ir.Constant(_MASK, [True] * WIDTH), ir.Constant(_FLOATS, ir.Undefined)]
            where = _places(context, builder, sig, args)
            return _call(builder, "llvm.masked.gather.v16f32.v16p0", _FLOATS, [where, *rest])
        v = ir.Constant(_FLOATS, ir.Undefined)
        for lane, place in enumerate(_lanes(context, builder, sig, args)):
            v = builder.insert_element(v, builder.load(place, align=4), _I32(lane))
        return v

    return vectors.vector(array, types.int64, topics, types.int64), generate


@intrinsic
def scatter(typing_context, array, i, topics, at, value):
    """array: float32, i: int64, topics: uint16, at: int64, value: vector."""
    if not _is(array, types.float32) or not _is(topics, types.uint16) or not isinstance(value, vectors.Float32x16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if _fast(context):
            rest = [_places(context, builder, sig, args), _I32(4), ir.Constant(_MASK, [True] * WIDTH)]
            _call(builder, "llvm.masked.scatter.v16f32.v16p0", ir.VoidType(), [args[4], *rest])
            return context.get_dummy_value()
        for lane, place in enumerate(_lanes(context, builder, sig, args)):
            builder.store(builder.extract_element(args[4], _I32(lane)), place, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, topics, types.int64, vectors.vector), generate


@intrinsic
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

    return vectors.vector(array, types.int64), generate


@intrinsic
def narrow(typing_context, array, i, value):
    """array: uint8, uint16 or float32; value: vector -> what was stored, as a vector."""
    if not _is(array, types.uint8, types.uint16, types.float32) or not isinstance(value, vectors.Float32x16):
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

    return vectors.vector(array, types.int64, vectors.vector), generate


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


@intrinsic
def root(typing_context, v):
    """Square root of each lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _call(builder, "llvm.sqrt.v16f32", _FLOATS, [args[0]])

    return vectors.vector(vectors.vector), generate


@intrinsic
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

    return types.float32(vectors.vector), generate


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


@intrinsic
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

    return types.int64(topics, values, types.int64, types.int64, vectors.vector), generate


@intrinsic
def append(typing_context, topics, values, i, numbers, at, v):
    """topics: uint16, values: float32, i: int64, numbers: uint16, at: int64, v: vector -> int64 entries appended."""
    if not _is(topics, types.uint16) or not _is(values, types.float32) or not _is(numbers, types.uint16):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        these = builder.zext(_load(context, builder, sig.args[3], args[3], args[4], _I16, 2), _INTS)
        return _append(context, builder, sig, args, these, args[5])

    return types.int64(topics, values, types.int64, numbers, types.int64, vectors.vector), generate
