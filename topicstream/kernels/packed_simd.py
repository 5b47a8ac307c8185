"""Packed rows (packed.py) 8 and 16 entries at a time, as explicit SIMD values that LLVM splits into
what the machine has.

Both read eights of entries: the arena must hold 16 entries more than its rows.

``row_mass(arena, at, n, coef, m)``         sum of coef[topic] * count over arena[at .. at+n),
                                            float64
``find(arena, at, n, topic, m)``            position of a topic in the row arena[at .. at+n), or -1
``passing(arena, at, n, coef, m, x)``       (position, what is left of x) of the vector of 8 entries
                                            at which the running sum
                                            of coef[topic] * count passes x; the last vector when
                                            none does
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from topicstream.kernels import intrinsics as llvm
from topicstream.kernels.arrays import Array, Float, Int
from topicstream.kernels.intrinsics import F64, I1, I16, I32, I64, Builder, Value, emit
from topicstream.kernels.jit import kernel

_WIDE = 8
READ_PAST = 16  # entries behind the last row that are read, and ignored
_PACKED, _COEF = ("uint32", "uint64"), ("float64",)


def _terms(b: Builder, entries: Value, coef: Value, at: Value, left: Value, m: Value) -> Value:
    """<8 x double> coef[topic] * count of the entries at ``at``; zero in lanes >= left."""
    lane, longs = entries.type.pointee, ir.VectorType(I64, _WIDE)
    e = llvm.load(b, entries, at, lane, _WIDE)
    e = b.zext(e, longs) if lane.width < 64 else e
    numbers = ir.Constant(longs, list(range(_WIDE)))
    alive = b.icmp_signed("<", numbers, llvm.spread(b, left, _WIDE))
    mask = b.sub(b.shl(I64(1), m), I64(1))
    topic = b.and_(e, llvm.spread(b, mask, _WIDE))
    count = b.sitofp(b.lshr(e, llvm.spread(b, m, _WIDE)), ir.VectorType(F64, _WIDE))
    zero = ir.Constant(ir.VectorType(F64, _WIDE), [0.0] * _WIDE)
    base = llvm.spread(b, b.ptrtoint(coef, I64), _WIDE)
    eight = ir.Constant(longs, [3] * _WIDE)
    where = b.inttoptr(b.add(base, b.shl(topic, eight)), ir.VectorType(F64.as_pointer(), _WIDE))
    values = llvm.call(b, "llvm.masked.gather.v8f64.v8p0", zero.type, where, I32(8), alive, zero)
    return b.select(alive, b.fmul(values, count), zero)


@emit("float64", _PACKED, "int64", "int64", _COEF, "int64")
def row_mass(b: Builder, arena: Value, at: Value, n: Value, coef: Value, m: Value) -> Value:
    """See the module's head."""
    acc = cgutils.alloca_once_value(b, ir.Constant(ir.VectorType(F64, _WIDE), [0.0] * _WIDE))
    eights = b.ashr(b.add(n, I64(_WIDE - 1)), I64(3))
    with cgutils.for_range(b, eights) as loop:
        done = b.shl(loop.index, I64(3))
        term = _terms(b, arena, coef, b.add(at, done), b.sub(n, done), m)
        b.store(b.fadd(b.load(acc), term), acc)
    return llvm.fold(b, b.load(acc), b.fadd)


@emit("float64", _PACKED, "int64", "int64", _COEF, "int64")
def _mass8(b: Builder, arena: Value, at: Value, left: Value, coef: Value, m: Value) -> Value:
    """Sum of coef[topic] * count over the 8 entries at ``at`` (the first ``left`` of them)."""
    return llvm.fold(b, _terms(b, arena, coef, at, left, m), b.fadd)


@emit("int64", _PACKED, "int64", "int64", "int64", "int64")
def _match16(b: Builder, arena: Value, at: Value, left: Value, topic: Value, m: Value) -> Value:
    """Place of the topic among the 16 entries at ``at`` (the first ``left`` of them), or 16."""
    lane = arena.type.pointee

    def narrow(v: Value) -> Value:
        return b.trunc(v, lane) if lane.width < 64 else v

    mask = b.sub(b.shl(I64(1), m), I64(1))
    topics = b.and_(llvm.load(b, arena, at, lane, 16), llvm.spread(b, narrow(mask)))
    same = b.icmp_unsigned("==", topics, llvm.spread(b, narrow(topic)))
    found = b.zext(b.bitcast(same, I16), I32)
    # a bit behind the last entry: what is not found stands there
    room = b.select(b.icmp_signed("<", left, I64(16)), left, I64(16))
    stop = b.shl(I32(1), b.trunc(room, I32))
    found = b.or_(b.and_(found, b.sub(stop, I32(1))), stop)
    place = b.zext(llvm.call(b, "llvm.cttz.i32", I32, found, I1(1)), I64)
    return b.select(b.icmp_signed("<", place, room), place, I64(16))


@kernel(inline="always")
def find_lane(arena: Array, at: int, n: int, topic: int, m: int) -> Int:
    """See the module's head."""
    i = np.int64(0)
    lane = np.int64(-1)
    while i < n:
        j = _match16(arena, at + i, n - i, topic, m)
        if j < 16:
            lane = i + j
            break
        i += 16
    return lane


@kernel(inline="always")
def passing(arena: Array, at: int, n: int, coef: Array, m: int, x: float) -> tuple[Int, Float]:
    """See the module's head."""
    i = np.int64(0)
    while i + 8 < n:
        part = _mass8(arena, at + i, np.int64(8), coef, m)
        if x < part:
            break
        x -= part
        i += 8
    return i, x
