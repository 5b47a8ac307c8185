"""64 bytes at a time as explicit vectors that LLVM splits into what the machine has: which of them are of a kind, one bit each.

Each reads ``data[at : at + 64]`` (uint8, contiguous), which must lie within the array; bit k stands for byte ``at + k``.

``letters``      A-Z and a-z                  ``digits``   0-9                ``beyond_ascii``  0x80 and above
``equal``        the byte given               ``string_stops``  what ends or escapes in a JSON string: " \\ and below 0x20
``blanks``       white space and control characters: up to 0x20, and 0x7F
``first_bit``    number of the lowest bit of a mask that is not 0      ``count_bits``  how many are set
``copy``         copy(data, at, out, to): the 64 bytes to ``out[to : to + 64]``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from topicstream.kernels.lazy import intrinsic, types

WIDE = 64
_I1, _I8, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(64)
_BYTES = ir.VectorType(_I8, WIDE)


def _all(value: int) -> Any:
    return ir.Constant(_BYTES, [value] * WIDE)


def _place(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _BYTES.as_pointer())


def _bytes(array: Any) -> bool:
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.uint8


def _within(builder: Any, x: Any, low: int, high: int) -> Any:
    return builder.icmp_unsigned("<=", builder.sub(x, _all(low)), _all(high - low))


def _mask(test: Callable[[Any, Any], Any]) -> Any:
    """An intrinsic (data, at) -> uint64 from ``test(builder, vector)``, which gives 64 truth values."""

    def typed(typing_context: Any, data: Any, at: Any) -> Any:
        if not _bytes(data):
            return None

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x = builder.load(_place(context, builder, sig.args[0], args[0], args[1]), align=1)
            return builder.bitcast(test(builder, x), _I64)

        return types.uint64(data, types.int64), generate

    return typed


def _letters(builder: Any, x: Any) -> Any:
    return _within(builder, builder.or_(x, _all(0x20)), 0x61, 0x7A)


def _string_stops(builder: Any, x: Any) -> Any:
    special = builder.or_(builder.icmp_unsigned("==", x, _all(0x22)), builder.icmp_unsigned("==", x, _all(0x5C)))
    return builder.or_(special, builder.icmp_unsigned("<", x, _all(0x20)))


def _blanks(builder: Any, x: Any) -> Any:
    return builder.or_(builder.icmp_unsigned("<=", x, _all(0x20)), builder.icmp_unsigned("==", x, _all(0x7F)))


letters = intrinsic(_mask(_letters))
digits = intrinsic(_mask(lambda builder, x: _within(builder, x, 0x30, 0x39)))
beyond_ascii = intrinsic(_mask(lambda builder, x: builder.icmp_signed("<", x, _all(0))))
string_stops = intrinsic(_mask(_string_stops))
blanks = intrinsic(_mask(_blanks))


@intrinsic
def equal(typing_context, data, at, byte):
    """See the module's head."""
    if not _bytes(data):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x = builder.load(_place(context, builder, sig.args[0], args[0], args[1]), align=1)
        undefined = ir.Constant(_BYTES, ir.Undefined)
        one = builder.insert_element(undefined, args[2], ir.IntType(32)(0))
        wanted = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE))
        return builder.bitcast(builder.icmp_unsigned("==", x, wanted), _I64)

    return types.uint64(data, types.int64, types.uint8), generate


@intrinsic
def first_bit(typing_context, mask):
    """See the module's head."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], _I1(1))

    return types.int64(types.uint64), generate


@intrinsic
def count_bits(typing_context, mask):
    """See the module's head."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@intrinsic
def copy(typing_context, data, at, out, to):
    """See the module's head."""
    if not (_bytes(data) and _bytes(out)):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x = builder.load(_place(context, builder, sig.args[0], args[0], args[1]), align=1)
        builder.store(x, _place(context, builder, sig.args[2], args[2], args[3]), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, out, types.int64), generate


__all__ = [
    "WIDE",
    "beyond_ascii",
    "blanks",
    "copy",
    "count_bits",
    "digits",
    "equal",
    "first_bit",
    "letters",
    "string_stops",
]
