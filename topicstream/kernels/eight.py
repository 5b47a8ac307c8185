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

from topicstream.kernels import intrinsics as llvm
from topicstream.kernels.intrinsics import FLOATS, WIDTH, ZERO, Builder, Value, emit, shuffle, vector


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


def _add_level(b: Any, x: Any, y: Any, level: int) -> Any:
    low, high = _LEVELS[level]
    return b.fadd(shuffle(b, x, y, low), shuffle(b, x, y, high))


@emit(vector, *[vector] * 8)
def totals(b: Builder, *given: Value) -> Value:
    """Sums of the lanes of eight vectors."""
    values = list(given)
    for level in range(3):
        values = [_add_level(b, values[i], values[i + 1], level) for i in range(0, len(values), 2)]
    return _add_level(b, values[0], values[0], 2)


@emit(vector, vector, vector, vector)
def quotient(b: Builder, x: Value, z: Value, least: Value) -> Value:
    """x / z where z > least, else 0."""
    return b.select(b.fcmp_ordered(">", z, least), b.fdiv(x, z), ZERO)


def _spread(lane: int) -> Any:
    return emit(vector, vector)(lambda b, v: shuffle(b, v, v, [lane] * WIDTH))


spread0, spread1, spread2, spread3 = (_spread(lane) for lane in range(4))
spread4, spread5, spread6, spread7 = (_spread(lane) for lane in range(4, 8))


@emit("void", FLOATS, "int64", vector)
def store_eight(b: Builder, data: Value, i: Value, v: Value) -> None:
    """array: float32, index: int64, value: vector."""
    llvm.store(b, data, i, shuffle(b, v, v, list(range(8))))
