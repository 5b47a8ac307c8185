"""Eight rows at a time: sums of eight vectors in one, and what the kernels over a document's rows need beside them.

The sum of a vector's lanes is a chain of eight dependent steps; eight sums share one tree of 23 (each level adds two
vectors after interleaving them), and one division serves them all.

``totals(v0, ..., v7)``       lane r < 8 is the sum of v_r's lanes (lanes 8 to 15 repeat them)
``quotient(x, z, least)``     x / z where z > least, else 0
``spread0(v)`` ... ``spread7(v)``   16 copies of a lane
``store_eight(array, i, v)``  array[i .. i + 8) = the first eight lanes
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from topicstream.kernels.lazy import intrinsic, types, vectors
from topicstream.kernels.simd import WIDTH

_F32, _I32 = ir.FloatType(), ir.IntType(32)
_VECTOR = ir.VectorType(_F32, WIDTH)
_ZERO = ir.Constant(_VECTOR, [0.0] * WIDTH)


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _interleaved(shift: int, size: int, second: int) -> list[int]:
    """Within each quarter of four lanes: ``size`` lanes of a from ``second`` on, then of b (``shift`` = log2 size)."""
    out = []
    for quarter in range(0, WIDTH, 4):
        for i in range(4):
            of_b = (i >> shift) & 1
            out.append(quarter + second + (i % size if size > 1 else i // 2) + WIDTH * of_b)
    return out


def _quarters(*which: tuple[int, int]) -> list[int]:
    return [WIDTH * vector_ + 4 * quarter + i for vector_, quarter in which for i in range(4)]


# single lanes of a and b alternate; then pairs; then quarters: each is an unpack or a quarter shuffle of the machine
_LEVELS = (
    (_interleaved(0, 1, 0), _interleaved(0, 1, 2)),
    (_interleaved(1, 2, 0), _interleaved(1, 2, 2)),
    (_quarters((0, 0), (0, 2), (1, 0), (1, 2)), _quarters((0, 1), (0, 3), (1, 1), (1, 3))),
)


def _add_level(builder: Any, a: Any, b: Any, level: int) -> Any:
    low, high = _LEVELS[level]
    return builder.fadd(_shuffle(builder, a, b, low), _shuffle(builder, a, b, high))


@intrinsic
def totals(typing_context, v0, v1, v2, v3, v4, v5, v6, v7):
    """Sums of the lanes of eight vectors."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = list(args)
        for level in range(3):
            values = [_add_level(builder, values[i], values[i + 1], level) for i in range(0, len(values), 2)]
        return _add_level(builder, values[0], values[0], 2)

    return vectors.vector(*[vectors.vector] * 8), generate


@intrinsic
def quotient(typing_context, x, z, least):
    """x / z where z > least, else 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        large = builder.fcmp_ordered(">", args[1], args[2])
        return builder.select(large, builder.fdiv(args[0], args[1]), _ZERO)

    return vectors.vector(vectors.vector, vectors.vector, vectors.vector), generate


def _spread(lane: int) -> Any:
    def spread(typing_context, v):
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return _shuffle(builder, args[0], args[0], [lane] * WIDTH)

        return vectors.vector(vectors.vector), generate

    spread.__name__ = spread.__qualname__ = f"spread{lane}"
    spread.__doc__ = f"16 copies of lane {lane}."
    return intrinsic(spread)


spread0, spread1, spread2, spread3 = (_spread(lane) for lane in range(4))
spread4, spread5, spread6, spread7 = (_spread(lane) for lane in range(4, 8))


@intrinsic
def store_eight(typing_context, array, index, value):
    """array: float32, index: int64, value: vector."""
    if not (isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float32):
        return None

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        half = _shuffle(builder, args[2], args[2], list(range(8)))
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        pointer = builder.gep(data, [args[1]])
        builder.store(half, builder.bitcast(pointer, half.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, vectors.vector), generate
