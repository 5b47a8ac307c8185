"""Packed rows (packed.py) 8 and 16 entries at a time, as explicit vectors that LLVM splits into what the machine has.

Both read whole vectors: the arena must hold 16 entries more than its rows.

``row_mass(arena, at, n, coef, m)``         sum of coef[topic] * count over arena[at .. at+n), float64
``find(arena, at, n, topic, m)``            position of a topic in the row arena[at .. at+n), or -1
``passing(arena, at, n, coef, m, x)``       (position, what is left of x) of the vector of 8 entries at which the running sum
                                            of coef[topic] * count passes x; the last vector when none does
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from topicstream.kernels.jit import kernel
from topicstream.kernels.lazy import cgutils, intrinsic, types

_I1, _I16, _I32, _I64, _F64 = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.DoubleType()
_WIDE = 8
READ_PAST = 16  # entries behind the last row that are read, and ignored


def _splat(builder: Any, value: Any, n: int) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, n), ir.Undefined)
    one = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, n), [0] * n))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _load(builder: Any, data: Any, at: Any, lane: Any, n: int, align: int) -> Any:
    place = builder.bitcast(builder.gep(data, [at]), ir.VectorType(lane, n).as_pointer())
    return builder.load(place, align=align)


def _call(builder: Any, name: str, result: Any, args: list[Any]) -> Any:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _terms(builder: Any, entries: Any, coef: Any, at: Any, left: Any, m: Any, lane: Any, align: int) -> Any:
    """<8 x double> coef[topic] * count of the entries at ``at``; zero in lanes >= left."""
    longs = ir.VectorType(_I64, _WIDE)
    e = _load(builder, entries, at, lane, _WIDE, align)
    e = builder.zext(e, longs) if lane.width < 64 else e
    numbers = ir.Constant(longs, list(range(_WIDE)))
    alive = builder.icmp_signed("<", numbers, _splat(builder, left, _WIDE))
    mask = builder.sub(builder.shl(_I64(1), m), _I64(1))
    topic = builder.and_(e, _splat(builder, mask, _WIDE))
    count = builder.sitofp(builder.lshr(e, _splat(builder, m, _WIDE)), ir.VectorType(_F64, _WIDE))
    zero = ir.Constant(ir.VectorType(_F64, _WIDE), [0.0] * _WIDE)
    base = _splat(builder, builder.ptrtoint(coef, _I64), _WIDE)
    eight = ir.Constant(longs, [3] * _WIDE)
    where = builder.inttoptr(builder.add(base, builder.shl(topic, eight)), ir.VectorType(_F64.as_pointer(), _WIDE))
    rest = [_I32(8), alive, zero]
    values = _call(builder, "llvm.masked.gather.v8f64.v8p0", ir.VectorType(_F64, _WIDE), [where, *rest])
    return builder.select(alive, builder.fmul(values, count), zero)


def _total(builder: Any, value: Any) -> Any:
    width = _WIDE
    while width > 1:
        half = width // 2
        undefined = ir.Constant(value.type, ir.Undefined)
        kind = ir.VectorType(_I32, half)
        low = builder.shuffle_vector(value, undefined, ir.Constant(kind, list(range(half))))
        high = builder.shuffle_vector(value, undefined, ir.Constant(kind, list(range(half, width))))
        value, width = builder.fadd(low, high), half
    return builder.extract_element(value, _I32(0))


def _packed(array: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype in (types.uint32, types.uint64)


@intrinsic
def row_mass(typing_context, arena, at, n, coef, m):
    """See the module's head."""
    if not _packed(arena) or coef.dtype != types.float64:
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lane = ir.IntType(sig.args[0].dtype.bitwidth)
        entries = _pointer(context, builder, sig.args[0], args[0])
        values = _pointer(context, builder, sig.args[3], args[3])
        vector = ir.VectorType(_F64, _WIDE)
        acc = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * _WIDE))
        vectors = builder.ashr(builder.add(args[2], _I64(_WIDE - 1)), _I64(3))
        with cgutils.for_range(builder, vectors) as loop:
            done = builder.shl(loop.index, _I64(3))
            left = builder.sub(args[2], done)
            term = _terms(builder, entries, values, builder.add(args[1], done), left, args[4], lane, lane.width // 8)
            builder.store(builder.fadd(builder.load(acc), term), acc)
        return _total(builder, builder.load(acc))

    return types.float64(arena, types.int64, types.int64, coef, types.int64), generate


@intrinsic
def _mass8(typing_context, arena, at, left, coef, m):
    """Sum of coef[topic] * count over the 8 entries at ``at`` (the first ``left`` of them)."""
    if not _packed(arena):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lane = ir.IntType(sig.args[0].dtype.bitwidth)
        entries = _pointer(context, builder, sig.args[0], args[0])
        values = _pointer(context, builder, sig.args[3], args[3])
        return _total(builder, _terms(builder, entries, values, args[1], args[2], args[4], lane, lane.width // 8))

    return types.float64(arena, types.int64, types.int64, coef, types.int64), generate


@intrinsic
def _match16(typing_context, arena, at, left, topic, m):
    """Place of the topic among the 16 entries at ``at`` (the first ``left`` of them), or 16."""
    if not _packed(arena):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lane = ir.IntType(sig.args[0].dtype.bitwidth)
        entries = _pointer(context, builder, sig.args[0], args[0])
        e = _load(builder, entries, args[1], lane, 16, lane.width // 8)

        def narrow(v: Any) -> Any:
            return builder.trunc(v, lane) if lane.width < 64 else v

        mask = builder.sub(builder.shl(_I64(1), args[4]), _I64(1))
        topics = builder.and_(e, _splat(builder, narrow(mask), 16))
        same = builder.icmp_unsigned("==", topics, _splat(builder, narrow(args[3]), 16))
        found = builder.zext(builder.bitcast(same, _I16), _I32)
        # a bit behind the last entry: what is not found stands there
        room = builder.select(builder.icmp_signed("<", args[2], _I64(16)), args[2], _I64(16))
        stop = builder.shl(_I32(1), builder.trunc(room, _I32))
        found = builder.or_(builder.and_(found, builder.sub(stop, _I32(1))), stop)
        place = builder.zext(_call(builder, "llvm.cttz.i32", _I32, [found, _I1(1)]), _I64)
        return builder.select(builder.icmp_signed("<", place, room), place, _I64(16))

    return types.int64(arena, types.int64, types.int64, types.int64, types.int64), generate


@kernel(inline="always")
def find(arena, at, n, topic, m):
    """See the module's head."""
    i = np.int64(0)
    found = np.int64(-1)
    while i < n:
        j = _match16(arena, at + i, n - i, topic, m)
        if j < 16:
            found = i + j
            break
        i += 16
    return found


@kernel(inline="always")
def passing(arena, at, n, coef, m, x):
    """See the module's head."""
    i = np.int64(0)
    while i + 8 < n:
        part = _mass8(arena, at + i, np.int64(8), coef, m)
        if x < part:
            break
        x -= part
        i += 8
    return i, x
