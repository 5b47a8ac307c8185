"""64 bytes at a time as an explicit SIMD value that LLVM splits into what the machine has: which of
them are of a kind, one bit each.

Each reads ``data[at : at + 64]`` (uint8, contiguous), which must lie within the array; bit k stands
for byte ``at + k``.

``letters``      A-Z and a-z                  ``digits``   0-9                ``beyond_ascii``  0x80
                 and above
``equal``        the byte given               ``blanks``   white space and control characters: up to
                 0x20, and 0x7F
``first_bit``    number of the lowest bit of a mask that is not 0      ``count_bits``  how many are
                 set
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from topicstream.kernels import intrinsics as llvm
from topicstream.kernels.intrinsics import I1, I8, I64, Builder, Value, emit

WIDE = 64
_BYTES = ("uint8",)


def _all(value: int) -> Any:
    return ir.Constant(ir.VectorType(I8, WIDE), [value] * WIDE)


def _within(builder: Builder, x: Value, low: int, high: int) -> Value:
    return builder.icmp_unsigned("<=", builder.sub(x, _all(low)), _all(high - low))


def _mask(test: Callable[[Value, Value], Value]) -> Value:
    """An intrinsic (data, at) -> uint64 from ``test(builder, vector)``, which gives 64 truth
    values.
    """

    def masked(b: Builder, data: Value, at: Value) -> Value:
        return b.bitcast(test(b, llvm.load(b, data, at, I8, WIDE)), I64)

    return emit("uint64", _BYTES, "int64")(masked)


letters = _mask(lambda b, x: _within(b, b.or_(x, _all(0x20)), 0x61, 0x7A))
blanks = _mask(
    lambda b, x: b.or_(b.icmp_unsigned("<=", x, _all(0x20)), b.icmp_unsigned("==", x, _all(0x7F)))
)
digits = _mask(lambda b, x: _within(b, x, 0x30, 0x39))
beyond_ascii = _mask(lambda b, x: b.icmp_signed("<", x, _all(0)))


@emit("uint64", _BYTES, "int64", "uint8")
def equal(b: Builder, data: Value, at: Value, byte: Value) -> Value:
    """See the module's head."""
    return b.bitcast(
        b.icmp_unsigned("==", llvm.load(b, data, at, I8, WIDE), llvm.spread(b, byte, WIDE)), I64
    )


@emit("int64", "uint64")
def first_bit(b: Builder, mask: Value) -> Value:
    """See the module's head."""
    return b.cttz(mask, I1(1))


@emit("int64", "uint64")
def count_bits(b: Builder, mask: Value) -> Value:
    """See the module's head."""
    return b.ctpop(mask)
