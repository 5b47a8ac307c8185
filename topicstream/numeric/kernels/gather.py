"""Vectors of 16 float32 at scattered places and in small integers.

More of ``kernels.simd``.

numba does not vectorise indexed loads and stores. ``llvm.masked.gather`` and
``llvm.masked.scatter`` become one AVX-512 instruction each. AMD's processors take it apart again
and run nothing else beside it, so there, and where there is no AVX-512, they are 16 single loads
and stores, from and into the lanes of a register. The bits are the same either way. A cell of the
sweep of ``engines.message.sparse_messages`` took, with instructions and with single ones: Intel,
Sapphire Rapids, 67 and 76 ns (K = 100), 78 and 92 (500), 100 and 120 (2000); AMD, Zen 5, 70 and 59
(K = 100).

- ``gather(array, i, topics, at)``: array[i + topics[at]], ..., array[i + topics[at + 15]], topics
  uint16.
- ``scatter(array, i, topics, at, v)``: the reverse. Of equal topics the last lane stays.
- ``widen(array, i)``: 16 uint8, uint16 or float32 as floats.
- ``narrow(array, i, v)``: store floats as the nearest uint8 or uint16 (v >= 0 and in range; float32
  as they are), and return the stored values as floats.
- ``root(v)``: square root, lane by lane.
- ``highest(v)``: the largest lane.
- ``squeeze(topics, values, i, first, v)``: append the lanes of v that are not zero, with their
  numbers first, first + 1, ..., to topics (uint16) and values (float32) at i. It writes 16 entries,
  the rest zeros, and returns how many count.
- ``append(topics, values, i, numbers, at, v)``: the same with numbers[at], ..., numbers[at + 15].
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.numeric.kernels import intrinsics as llvm
from topicstream.numeric.kernels.intrinsics import (
    F32,
    FLOATS,
    I1,
    I16,
    I32,
    I64,
    INTS,
    TOPICS,
    VECTOR,
    WIDTH,
    ZERO,
    Builder,
    Value,
    call,
    emit,
    vector,
)

_ALL = ir.Constant(ir.VectorType(I1, WIDTH), [True] * WIDTH)
_SMALL = ("uint8", "uint16", "float32")
_SPREAD = (FLOATS, "int64", TOPICS, "int64")


class _Addresses(ir.instructions.Instruction):  # type: ignore[misc]
    """The LLVM vector of addresses pointer[lanes[j]] of floats.

    llvmlite's builder has no method for it.
    """

    def __init__(self, parent: Any, pointer: Any, lanes: Any) -> None:
        super().__init__(
            parent,
            ir.VectorType(ir.PointerType(), WIDTH),
            "getelementptr",
            [pointer, lanes],
            name="",
        )

    def descr(self, buf: list[str]) -> None:
        pointer, lanes = (f"{o.type} {o.get_reference()}" for o in self.operands)
        buf.append(f"getelementptr float, {pointer}, {lanes}\n")


def one_instruction(processor: str, features: str) -> bool:
    """Test whether a gather and a scatter are one fast instruction each.

    processor: LLVM's name; features: "+avx512f,...".
    """
    return "+avx512f" in features.split(",") and not processor.startswith("znver")


def _fast() -> bool:
    from numba.core.registry import cpu_target

    # what compiled kernels are kept by, too
    _, processor, features = cpu_target.target_context.codegen().magic_tuple()
    return one_instruction(processor, features)


def _places(b: Builder, data: Value, i: Value, topics: Value, at: Value) -> Value:
    """Return the addresses of ``_lanes`` as a vector."""
    numbers = b.zext(llvm.load(b, topics, at, I16), INTS)
    addresses = _Addresses(b.block, b.gep(data, [i]), numbers)
    b._insert(addresses)
    return addresses


def _lanes(b: Builder, data: Value, i: Value, topics: Value, at: Value) -> list[Value]:
    """Return the addresses of data[i + topics[at + lane]] for the 16 lanes."""
    start = b.gep(data, [i])
    numbers = b.gep(topics, [at])
    loaded = (b.load(b.gep(numbers, [I64(lane)]), align=2) for lane in range(WIDTH))
    return [b.gep(start, [b.zext(number, I64)]) for number in loaded]


@emit(vector, *_SPREAD)
def gather(b: Builder, data: Value, i: Value, topics: Value, at: Value) -> Value:
    """Load data[i + topics[at + lane]] of the 16 lanes.

    array: float32, i: int64, topics: uint16, at: int64 -> vector.
    """
    v = ir.Constant(VECTOR, ir.Undefined)
    if _fast():
        return call(
            b,
            "llvm.masked.gather.v16f32.v16p0",
            VECTOR,
            _places(b, data, i, topics, at),
            I32(4),
            _ALL,
            v,
        )
    for lane, place in enumerate(_lanes(b, data, i, topics, at)):
        v = b.insert_element(v, b.load(place, align=4), I32(lane))
    return v


@emit("void", *_SPREAD, vector)
def scatter(b: Builder, data: Value, i: Value, topics: Value, at: Value, v: Value) -> None:
    """Store the 16 lanes to data[i + topics[at + lane]].

    array: float32, i: int64, topics: uint16, at: int64, value: vector.
    """
    if _fast():
        where = _places(b, data, i, topics, at)
        call(b, "llvm.masked.scatter.v16f32.v16p0", ir.VoidType(), v, where, I32(4), _ALL)
        return
    for lane, place in enumerate(_lanes(b, data, i, topics, at)):
        b.store(b.extract_element(v, I32(lane)), place, align=4)


@emit(vector, _SMALL, "int64")
def widen(b: Builder, data: Value, i: Value) -> Value:
    """Load 16 entries as float32.

    array: uint8, uint16 or float32 -> vector.
    """
    raw = llvm.load(b, data, i, data.type.pointee)
    return raw if data.type.pointee == F32 else b.sitofp(b.zext(raw, INTS), VECTOR)


@emit(vector, _SMALL, "int64", vector)
def narrow(b: Builder, data: Value, i: Value, v: Value) -> Value:
    """Store 16 values in the array's type and return the stored values.

    array: uint8, uint16 or float32; value: vector -> vector.
    """
    lane = data.type.pointee
    if lane == F32:
        llvm.store(b, data, i, v)
        return v
    whole = b.fptosi(b.fadd(v, ir.Constant(VECTOR, [0.5] * WIDTH)), INTS)
    llvm.store(b, data, i, b.trunc(whole, ir.VectorType(lane, WIDTH)))
    return b.sitofp(whole, VECTOR)


@emit(vector, vector)
def root(b: Builder, v: Value) -> Value:
    """Compute the square root of each lane."""
    return call(b, "llvm.sqrt.v16f32", VECTOR, v)


@emit("float32", vector)
def highest(b: Builder, v: Value) -> Value:
    """Find the largest lane -> float32."""
    return llvm.fold(b, v, lambda x, y: b.select(b.fcmp_ordered(">", x, y), x, y))


def _append(b: Builder, topics: Value, values: Value, i: Value, numbers: Value, v: Value) -> Value:
    """Store the non-zero lanes of v and their numbers and count them.

    They go to i of values and topics.
    """
    kept = b.fcmp_unordered("!=", v, ZERO)
    llvm.store(b, values, i, b.bitcast(llvm.compress(b, b.bitcast(v, INTS), kept), VECTOR))
    llvm.store(b, topics, i, b.trunc(llvm.compress(b, numbers, kept), ir.VectorType(I16, WIDTH)))
    return llvm.count(b, kept)


@emit("int64", TOPICS, FLOATS, "int64", "int64", vector)
def squeeze(b: Builder, topics: Value, values: Value, i: Value, first: Value, v: Value) -> Value:
    """Append the non-zero lanes of v with topics first, first + 1, ...

    topics: uint16, values: float32, i: int64, first: int64, v: vector -> int64 entries appended.
    """
    same = llvm.spread(b, b.trunc(first, I32))
    return _append(b, topics, values, i, b.add(same, ir.Constant(INTS, list(range(WIDTH)))), v)


@emit("int64", TOPICS, FLOATS, "int64", TOPICS, "int64", vector)
def append(
    b: Builder, topics: Value, values: Value, i: Value, numbers: Value, at: Value, v: Value
) -> Value:
    """Append the non-zero lanes of v with topics numbers[at + lane].

    topics: uint16, values: float32, i: int64, numbers: uint16, at: int64, v: vector -> int64
    entries appended.
    """
    return _append(b, topics, values, i, b.zext(llvm.load(b, numbers, at, I16), INTS), v)
