"""The numba type of 16 float32 (kernels/simd.py) and its operators; imported where a kernel is compiled."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.extending import lower_builtin, register_model
from numba.core.typing.templates import AbstractTemplate, infer_global, signature

_VECTOR = ir.VectorType(ir.FloatType(), 16)


class Float32x16(types.Type):
    """The numba type of a vector."""

    def __init__(self) -> None:
        super().__init__(name="float32x16")


vector = Float32x16()


@register_model(Float32x16)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _VECTOR)  # type: ignore[no-untyped-call]


def _operator(function: Any, instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) == 2 and all(isinstance(a, Float32x16) for a in args):
                return signature(vector, vector, vector)
            return None

    infer_global(function)(Template)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    lower_builtin(function, Float32x16, Float32x16)(lower)


for _function, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operator(_function, _name)
