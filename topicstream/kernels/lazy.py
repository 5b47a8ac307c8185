"""numba's parts that intrinsics are written with, imported when a kernel is compiled and not before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any


class Later:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self.named = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.named), name)


types: Any = Later("numba.core.types")
cgutils: Any = Later("numba.core.cgutils")

vectors: Any = Later("topicstream.kernels.vector_type")

before_compiling: Callable[[], None] | None = None
"""Called once, before this process compiles its first kernel: who shows progress says that there is a wait."""

when_missing: Callable[[], object] | None = None
"""Called once, before this process compiles its first kernel: may have another leave it in the cache."""

_waiting: list[Intrinsic] = []


class Intrinsic:
    """An intrinsic of numba that is made when the first kernel is compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)  # type: ignore[arg-type]
        _waiting.append(self)
        self._numba_type_: Any = None  # what numba asks a global of a kernel for


intrinsic: Any = Intrinsic


def make_intrinsics() -> None:
    """Give numba those that it does not have yet."""
    from numba.core.extending import intrinsic as of_numba
    from numba.core.registry import cpu_target

    if not _waiting:
        return
    import_module("topicstream.kernels.vector_type")
    made = [(one, of_numba(one.__wrapped__)) for one in _waiting]  # type: ignore[attr-defined]
    _waiting.clear()
    cpu_target.typing_context.refresh()
    for one, real in made:
        one._numba_type_ = cpu_target.typing_context.resolve_value_type(real)
