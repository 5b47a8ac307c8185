"""The one module that configures numba.

``kernel``       strict IEEE arithmetic, releases the GIL.
``fast_kernel``  may reassociate sums and contract to FMA (so reductions vectorise); NaN and inf keep their meaning.

Both compile the same code for every caller with the same argument types, so a result never depends on the number of
threads.  Compiled kernels are kept under ``$NUMBA_CACHE_DIR``, or else in the user's cache folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import re
import secrets
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import numba
import numpy as np
from numba.core import types
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

PACKAGE = __name__.partition(".")[0]
MAGIC = b"topics5\n"
MOST_PER_KERNEL = 64
"""Files that are kept for one kernel (versions of its source and types of its arguments); the oldest go."""

compiled_kernels = 0
"""Kernels that this process had to compile."""
_notify: Callable[[str], None] | None = None
_noted: set[str] = set()


def notify_compiling(notify: Callable[[str], None] | None) -> None:
    """Call ``notify`` with one line before this process compiles its first kernel; None: no longer."""
    global _notify
    _notify = notify


def cache_folder() -> Path:
    """Where this user's compiled kernels are kept."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / PACKAGE / "kernels"


_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([\w., ]+))", re.MULTILINE)


@functools.cache
def _source(module: str) -> bytes | None:
    """Source of a module, whether it is imported yet or not; None where there is none."""
    root, *rest = module.split(".")
    home = getattr(sys.modules.get(root), "__file__", None) or ""
    path = Path(home).parent.joinpath(*rest)
    if not rest or path.is_dir():
        path = Path(home) if not rest else path / "__init__.py"
    else:
        path = path.with_suffix(".py")
    return path.read_bytes() if home.endswith(".py") and path.is_file() else None


@functools.cache
def _imports(module: str) -> frozenset[str]:
    """Modules that a module imports, of this package and of its own."""
    names: set[str] = set()
    for origin, members, plain in _IMPORT.findall((_source(module) or b"").decode("utf-8", "replace")):
        names |= {origin, *(f"{origin}.{member}" for member in re.findall(r"\w+", members))} if origin else set()
        names |= set(re.findall(r"[\w.]+", plain))
    roots = {PACKAGE, module.partition(".")[0]}
    return frozenset(n for n in names if n.partition(".")[0] in roots and _source(n) is not None)


@functools.cache
def _stamp(module: str) -> bytes:
    """Hash of the source of a module and of all that it imports of its package: whatever a kernel of it may be made of."""
    seen, waiting = {module}, [module]
    while waiting:
        new = _imports(waiting.pop()) - seen
        seen |= new
        waiting += new
    content = hashlib.sha256()
    for name in sorted(seen):
        content.update(f"{name}\n".encode() + hashlib.sha256(_source(name) or b"").digest())
    return content.digest()


class KernelCache:
    """Compiled signatures of one kernel on disk, as numba's dispatchers ask for them.

    numba's own cache notices changes only in the file that holds a kernel.  Ours is keyed by the source of everything that
    the file imports, so an edit never leaves stale code behind, and by nothing of where the files lie: checkouts share it.
    """

    def __init__(self, function: Callable[..., Any], flags: dict[str, Any]) -> None:
        self._function, self._flags = function, repr(sorted(flags.items()))
        self._on = _source(function.__module__) is not None

    @property
    def cache_path(self) -> str:
        """The folder."""
        return str(cache_folder())

    def enable(self) -> None:
        """Use it."""
        self._on = True

    def disable(self) -> None:
        """Compile, and keep nothing."""
        self._on = False

    def flush(self) -> None:
        """Nothing to do: a file stands for one content."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled signature; None where it has to be compiled."""
        global compiled_kernels, _notify
        target_context.refresh()
        path = self._path(sig, target_context)
        try:
            data = path.read_bytes() if self._on else None
            if data is not None:
                body = data[len(MAGIC) + 4 :]
                if data[: len(MAGIC) + 4] != _head(body):
                    raise ValueError("does not match its checksum")
                return CompileResult._rebuild(target_context, *pickle.loads(body))
        except OSError:  # not there, or not to be read
            pass
        except Exception as e:  # whatever a cache holds, it must not end a command
            with suppress(OSError):
                path.unlink()
            _note(f"kernel cache: {path} is damaged ({type(e).__name__}) and was dropped; its kernel is compiled again")
        compiled_kernels += 1
        if _notify is not None:
            notify, _notify = _notify, None
            with suppress(OSError, ValueError):  # to a stream that is closed meanwhile
                notify("compiling for this machine, once (up to a minute; `topics warm` does it ahead)")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled signature, by one rename."""
        if not self._on or any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return
        path = self._path(sig, data.target_context)
        body = dumps(data._reduce())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f"{secrets.token_hex(8)}.tmp")
            beside.write_bytes(_head(body) + body)
            os.replace(beside, path)
            alike = sorted(path.parent.glob(f"{path.name.rpartition('-')[0]}-*.nbc"), key=lambda p: p.stat().st_mtime)
            for old in alike[:-MOST_PER_KERNEL]:
                old.unlink()
        except OSError as e:
            _note(
                f"compiled kernels cannot be kept in {path.parent} ({e.strerror}), so every command compiles its own; "
                "set NUMBA_CACHE_DIR to a folder that you can write"
            )

    def _path(self, sig: Any, target_context: Any) -> Path:
        function = self._function
        key = hashlib.sha256(_stamp(function.__module__) + function.__code__.co_code)
        cells = [getattr(c.cell_contents, "__qualname__", c.cell_contents) for c in function.__closure__ or ()]
        versions = (sys.version_info[:2], np.__version__, numba.__version__)
        key.update(repr((str(sig), self._flags, cells, versions, target_context.codegen().magic_tuple())).encode())
        return cache_folder() / f"{function.__module__}.{function.__name__}-{key.hexdigest()[:32]}.nbc"


def _head(body: bytes) -> bytes:
    return MAGIC + zlib.crc32(body).to_bytes(4, "little")


def _note(text: str) -> None:
    """One line on stderr, once for its first words."""
    if (kind := text[:12]) not in _noted:
        _noted.add(kind)
        with suppress(OSError, ValueError, AttributeError):
            print(f"topics: note: {text}", file=sys.stderr, flush=True)


def _compiled(function: Any, flags: dict[str, Any]) -> Any:
    made: Any = numba.njit(**flags)(function)
    if hasattr(made, "py_func"):  # not under NUMBA_DISABLE_JIT
        made._cache = KernelCache(function, flags)
        resolve = made.get_call_template
        # numba would compile a kernel that others call once for every number written in such a call
        made.get_call_template = lambda args, kws: resolve([types.unliteral(a) for a in args], kws)
    return made


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


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
