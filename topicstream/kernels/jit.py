"""The one module that configures numba.

``kernel``       strict IEEE arithmetic, releases the GIL.
``fast_kernel``  may reassociate sums and contract to FMA (so reductions vectorise); NaN and inf keep their meaning.

Both compile the same code for every caller with the same argument types, so a result never depends on the number of
threads.  What is compiled is kept for the next process under NUMBA_CACHE_DIR, else in the user's cache (kernels/cache.py).
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from topicstream.kernels import cache, lazy
from topicstream.kernels.cache import folders


def kept() -> bool:
    """Whether what is compiled is there for the next process."""
    return folders()[0].writable()


def compiled_here() -> int:
    """Signatures that this process had to compile."""
    compiler = sys.modules.get("topicstream.kernels.compiler")
    return getattr(compiler, "missed", 0)


def compiling_seconds() -> float:
    """What this process has spent compiling."""
    compiler = sys.modules.get("topicstream.kernels.compiler")
    return getattr(compiler, "seconds", 0.0)


def say_before_compiling(say: Callable[[str], None] | None) -> None:
    """Have it said before this process waits for the compiler; None: nobody listens any more."""
    if say is None:
        lazy.before_compiling = None
        return
    lazy.before_compiling = lambda: say(
        "compiling for this machine, once (up to half a minute; `topics warm` does it ahead)"
    )


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_ARRAYS = (np.ndarray, np.memmap)
_LAYOUT = 1 | 2 | 1024  # flags of an array: in C's order, in Fortran's, writable
_INT64 = range(-(1 << 63), 1 << 63)
_lock = threading.RLock()


def _kind(value: Any) -> Any:
    """What tells apart the types of arguments that code is compiled for; None: numba has to say."""
    kind = type(value)
    if kind in _ARRAYS:
        return value.dtype, value.ndim, value.flags.num & _LAYOUT
    if kind is int:
        return int if value in _INT64 else None
    return kind


def _type(kind: Any) -> str | None:
    """numba's name of a kind."""
    if not isinstance(kind, tuple):
        return {int: "int64", float: "float64", bool: "bool", type(None): "none"}.get(kind) or _number(kind)
    dtype, ndim, flags = kind
    entry = _number(dtype.type) if dtype.isnative else None
    layout = "C" if flags & 1 else "F" if flags & 2 else "A"
    return None if entry is None else f"Array({entry}, {ndim}, {layout!r}, {not flags & 1024}, aligned=True)"


def _number(kind: type) -> str | None:
    if not issubclass(kind, (np.bool_, np.integer, np.floating)):
        return None
    return str(np.dtype(kind)) if np.dtype(kind).itemsize <= 8 and kind is not np.float16 else None


class Kernel:
    """A function that runs compiled: from the cache without numba, which is imported where there is something to compile."""

    def __init__(self, function: Any, flags: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.targetoptions = function, flags
        self._made: dict[tuple[Any, ...], Any] = {}
        self._dispatcher: Any = None
        self._called: Any = None

    def __call__(self, *args: Any) -> Any:
        kinds = tuple(map(_kind, args))
        made = self._made.get(kinds)
        return (self._find(kinds) if made is None else made)(*args)

    def _find(self, kinds: tuple[Any, ...]) -> Any:
        with _lock:
            if kinds in self._made:
                return self._made[kinds]
            types = [_type(kind) for kind in kinds]
            made = None
            if None not in types and self._dispatcher is None:
                shown = f"({', '.join(map(str, types))}{',' * (len(types) == 1)})"
                made = cache.code(self, shown)
                if made is None and lazy.when_missing is not None:
                    compile_elsewhere, lazy.when_missing = lazy.when_missing, None
                    compile_elsewhere()
                    made = cache.code(self, shown)
            if made is None:
                made = self.dispatcher
            if None not in kinds:
                self._made[kinds] = made
            return made

    @property
    def dispatcher(self) -> Any:
        """numba's own object for it."""
        with _lock:
            if self._dispatcher is None:
                from topicstream.kernels.compiler import dispatcher

                self._dispatcher = dispatcher(self)
            return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """numba's type of it as a global of another kernel."""
        with _lock:
            if self._called is None:
                from topicstream.kernels.compiler import dispatcher

                self._called = dispatcher(self, called=True)
            return self._called._numba_type_

    @property
    def signatures(self) -> list[Any]:
        """Kinds of arguments that it has run with in this process."""
        return list(self._made)


def _compiled(function: Any, flags: dict[str, Any]) -> Any:
    return function if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") else Kernel(function, flags)


@overload
def kernel(function: Callable[..., Any]) -> Any: ...
@overload
def kernel(**flags: Any) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with strict floating point.  ``@kernel`` or ``@kernel(inline="always")``."""
    every = {**_COMMON, **flags}
    return _compiled(function, every) if function is not None else lambda f: _compiled(f, every)


@overload
def fast_kernel(function: Callable[..., Any]) -> Any: ...
@overload
def fast_kernel(**flags: Any) -> Callable[[Callable[..., Any]], Any]: ...
def fast_kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with reassociation and contraction allowed: vectorised reductions, FMA.

    A loop may sum or store, not both.  Where LLVM cannot see that two arrays are apart it compiles the loop twice, with
    and without vectors, and looks at their addresses each time (arrays less than 256 bytes apart take the second).  With
    reassociation a sum differs in its last bits between the two, so the bits of a result would hang on where malloc had
    put its arrays.  (tests/test_structure.py looks for such loops.)
    """
    every = {**_COMMON, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, **flags}
    return _compiled(function, every) if function is not None else lambda f: _compiled(f, every)
