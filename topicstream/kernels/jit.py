"""The one module that configures numba.

``kernel``       strict IEEE arithmetic, releases the GIL.
``fast_kernel``  may reassociate sums and contract to FMA (so reductions vectorise); NaN and inf keep their meaning.

Both compile the same code for every caller with the same argument types, so a result never depends on the number of
threads.  What is compiled is kept for the next process under NUMBA_CACHE_DIR, else in the user's cache (kernels/cache.py).
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.dispatcher import Dispatcher

from topicstream.kernels.cache import KernelCache, folders


def kept() -> bool:
    """Whether what is compiled is there for the next process."""
    return folders()[0].writable()


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def _compiled(function: Any, flags: dict[str, Any]) -> Any:
    made = numba.njit(**flags)(function)
    if isinstance(made, Dispatcher):  # not under NUMBA_DISABLE_JIT
        setattr(made, "_cache", KernelCache(made))  # noqa: B010  (numba's stubs do not know it)
    return made


def kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with strict floating point.  ``@kernel`` or ``@kernel(inline="always")``."""
    every = {**_COMMON, **flags}
    return _compiled(function, every) if function is not None else lambda f: _compiled(f, every)


def fast_kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with reassociation and contraction allowed: vectorised reductions, FMA.

    A loop may sum or store, not both.  Where LLVM cannot see that two arrays are apart it compiles the loop twice, with
    and without vectors, and looks at their addresses each time (arrays less than 256 bytes apart take the second).  With
    reassociation a sum differs in its last bits between the two, so the bits of a result would hang on where malloc had
    put its arrays.  (tests/test_structure.py looks for such loops.)
    """
    every = {**_COMMON, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, **flags}
    return _compiled(function, every) if function is not None else lambda f: _compiled(f, every)
