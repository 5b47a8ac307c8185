"""The one module that configures numba.

``kernel``       strict IEEE arithmetic, releases the GIL.
``fast_kernel``  may reassociate sums and contract to FMA (so reductions vectorise); NaN and inf keep their meaning.

Both compile the same code for every caller with the same argument types, so a result never depends on the number of
threads.  The cache folder is NUMBA_CACHE_DIR, else a user cache, else none (a read-only home under cron).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numba
from numba.core import config


def _cache_folder() -> str | None:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = chosen or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "topicstream")
    try:
        Path(base).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base
    except OSError:
        return None


_FOLDER = _cache_folder()
if _FOLDER is not None:
    config.CACHE_DIR = _FOLDER  # type: ignore[attr-defined]


def kept() -> bool:
    """Whether what is compiled is there for the next process."""
    return _FOLDER is not None


_COMMON: dict[str, Any] = {"nogil": True, "cache": _FOLDER is not None, "error_model": "numpy"}


def kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with strict floating point.  ``@kernel`` or ``@kernel(inline="always")``."""
    decorate = numba.njit(**{**_COMMON, **flags})
    return decorate if function is None else decorate(function)


def fast_kernel(function: Any = None, **flags: Any) -> Any:
    """Compile with reassociation and contraction allowed: vectorised reductions, FMA.

    A loop may sum or store, not both.  Where LLVM cannot see that two arrays are apart it compiles the loop twice, with
    and without vectors, and looks at their addresses each time (arrays less than 256 bytes apart take the second).  With
    reassociation a sum differs in its last bits between the two, so the bits of a result would hang on where malloc had
    put its arrays.  (tests/test_structure.py looks for such loops.)
    """
    decorate = numba.njit(**{**_COMMON, "fastmath": {"reassoc", "contract", "nsz", "arcp"}, **flags})
    return decorate if function is None else decorate(function)
