"""numba intrinsics from LLVM builder functions, and the vectors of 16 float32 and of 8 float64.

    @emit("float32", FLOATS, "int64") def get(b, data, i):
        return b.load(b.gep(data, [i]))

``emit(result, *kinds)``: what a kernel passes (the name of a numba type, or those of the dtypes of
a C-contiguous array, of which the function gets the address of the first entry) and what comes back
(``ENTRY``: one entry of the first array).
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

WIDTH = 16
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
F64 = ir.DoubleType()
VECTOR = ir.VectorType(F32, WIDTH)
INTS = ir.VectorType(I32, WIDTH)
Builder: TypeAlias = ir.IRBuilder
Value: TypeAlias = ir.Value
ZERO = ir.Constant(VECTOR, [0.0] * WIDTH)
vector = "float32x16"
WIDTH64 = 8
VECTOR64 = ir.VectorType(F64, WIDTH64)
doubles = "float64x8"
ENTRY = "entry"
ANY: tuple[str, ...] = ()  # an array of any dtype
FLOATS = ("float32",)
TOPICS = ("uint16",)


class Lanes(types.Type):
    """The numba type of a SIMD value: 16 float32 or 8 float64."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)


_LANES: dict[str, tuple[Lanes, ir.VectorType]] = {
    vector: (Lanes(vector), VECTOR),
    doubles: (Lanes(doubles), VECTOR64),
}


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _LANES[fe_type.name][1])  # type: ignore[no-untyped-call]


def _operator(function: Any, instruction: str) -> None:
    @type_callable(function)
    def typed(context: Any) -> Any:
        return lambda x, y: x if isinstance(x, Lanes) and x == y else None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    lower_builtin(function, Lanes, Lanes)(lower)


for _function, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operator(_function, _name)


def _fits(kind: Any, kind_given: Any) -> bool:
    if isinstance(kind, tuple):
        return (
            isinstance(kind_given, types.Array)
            and kind_given.layout == "C"
            and (not kind or kind_given.dtype.name in kind)
        )
    return kind not in _LANES or kind_given == _LANES[kind][0]


def _type(name: str) -> Any:
    return _LANES[name][0] if name in _LANES else getattr(types, name)


def emit(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function that builds LLVM code into a numba intrinsic."""

    def make_intrinsic(build: Callable[..., Any]) -> Any:
        @functools.wraps(build)
        def typed(typing_context: Any, *given: Any) -> Any:
            if not all(map(_fits, kinds, given)):
                return None

            def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                values = [
                    context.make_array(kind)(context, builder, arg).data
                    if isinstance(kind, types.Array)
                    else arg
                    for kind, arg in zip(sig.args, args)
                ]
                value = build(builder, *values)
                return context.get_dummy_value() if sig.return_type == types.void else value

            returns = given[0].dtype if result == ENTRY else _type(result)
            return returns(
                *(g if isinstance(k, tuple) else _type(k) for k, g in zip(kinds, given))
            ), generate

        named = [
            inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for i in range(len(kinds) + 1)
        ]
        # numba counts the arguments by it
        setattr(typed, "__signature__", inspect.Signature(named))  # noqa: B010
        return intrinsic(typed)

    return make_intrinsic


def polynomial(kind: str, *coefficients: float) -> Any:
    """Build an intrinsic that evaluates a polynomial by Horner's rule.

    Coefficients come in order of falling powers. Every multiplication is fused with the addition
    that follows.
    """

    def value(b: Builder, x: Value) -> Value:
        sum_ = ir.Constant(x.type, coefficients[0])
        for c in coefficients[1:]:
            sum_ = fuse(b, sum_, x, ir.Constant(x.type, c))
        return sum_

    return emit(kind, kind)(value)


def call(b: Builder, name: str, result: ir.Type, *args: Value) -> Value:
    """Call LLVM's (or the system's) function of that name."""
    kind = ir.FunctionType(result, [a.type for a in args])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), args)


def fuse(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Compute x * y + z, rounded once on every processor.

    Where it has no such instruction, the C library's ``fma`` does it.
    """
    kind = x.type
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    lane = kind.element if lanes else kind
    return call(b, f"llvm.fma.{lanes}f{bits(lane)}", kind, x, y, z)


def shuffle(b: Builder, v: Value, other: Value, lanes: list[int]) -> Value:
    """Choose lanes of two SIMD values.

    Those of the second are numbered from the width on. None: of one value.
    """
    other = ir.Constant(v.type, ir.Undefined) if other is None else other
    return b.shuffle_vector(v, other, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def spread(b: Builder, x: Value, width: int = WIDTH) -> Value:
    """Build a vector of copies of x."""
    none = ir.Constant(ir.VectorType(x.type, width), ir.Undefined)
    return shuffle(b, b.insert_element(none, x, I32(0)), None, [0] * width)


def fold(b: Builder, v: Value, pair: Callable[[Value, Value], Value]) -> Value:
    """Reduce all lanes to one: lanes i and i + half first, and so on."""
    while v.type.count > 1:
        lanes = list(range(v.type.count))
        half = len(lanes) // 2
        v = pair(shuffle(b, v, None, lanes[:half]), shuffle(b, v, None, lanes[half:]))
    return b.extract_element(v, I32(0))


def load(b: Builder, data: Value, i: Value, lane: ir.Type, width: int = WIDTH) -> Value:
    """Load ``width`` entries from i on."""
    kind = ir.VectorType(lane, width)
    return b.load(b.bitcast(b.gep(data, [i]), kind.as_pointer()), align=max(1, bits(lane) // 8))


def store(b: Builder, data: Value, i: Value, v: Value) -> None:
    """Store the vector to entries i and on."""
    b.store(
        v, b.bitcast(b.gep(data, [i]), v.type.as_pointer()), align=max(1, bits(v.type.element) // 8)
    )


def _first_lanes(b: Builder, n: Value, width: int) -> Value:
    """Mark the lanes below n."""
    numbers = ir.Constant(ir.VectorType(I32, width), list(range(width)))
    return b.icmp_signed("<", numbers, spread(b, b.trunc(n, I32), width))


def load_first(b: Builder, pointer: Value, n: Value) -> Value:
    """Load the first n lanes of a vector, and zeros for the rest, which are not read."""
    kind = pointer.type.pointee
    lane = kind.element
    name = f"llvm.masked.load.v{kind.count}{_letter(lane)}{bits(lane)}.p0"
    rest = ir.Constant(kind, [0] * kind.count)
    return call(b, name, kind, pointer, I32(bits(lane) // 8), _first_lanes(b, n, kind.count), rest)


def store_first(b: Builder, pointer: Value, n: Value, v: Value) -> None:
    """Store the first n lanes of a vector, and leave what stands after them."""
    lane = v.type.element
    name = f"llvm.masked.store.v{v.type.count}{_letter(lane)}{bits(lane)}.p0"
    size = I32(bits(lane) // 8)
    call(b, name, ir.VoidType(), v, pointer, size, _first_lanes(b, n, v.type.count))


def _letter(lane: Any) -> str:
    return "f" if lane in (F32, F64) else "i"


def bits(lane: Any) -> int:
    """Return the bits of an entry."""
    return {F32: 32, F64: 64}.get(lane) or int(lane.width)


def fetch(b: Any, pointer: Any) -> None:
    """Prefetch the cache line of an address into the first cache."""
    pointer = b.bitcast(pointer, I8.as_pointer())
    call(b, "llvm.prefetch.p0", ir.VoidType(), pointer, I32(0), I32(3), I32(1))


def extreme(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Compute the larger (umax) or smaller (umin) of each lane.

    Floats >= 0 are ordered like their bits, and integer instructions have more ports.
    """
    return b.bitcast(
        call(b, f"llvm.{name}.v16i32", INTS, b.bitcast(x, INTS), b.bitcast(y, INTS)), VECTOR
    )


def compress(b: Builder, lanes: Value, kept: Value) -> Value:
    """Move the kept lanes of 16 integers side by side, followed by zeros.

    (Floats as integers: without AVX-512 LLVM crashes on a constant of floats here.)
    """
    return call(
        b,
        "llvm.experimental.vector.compress.v16i32",
        INTS,
        lanes,
        kept,
        ir.Constant(INTS, [0] * WIDTH),
    )


def count(b: Builder, kept: Value) -> Value:
    """Count the true values among 16, as int64."""
    return b.zext(call(b, "llvm.ctpop.i16", I16, b.bitcast(kept, I16)), I64)
