"""The decorator ``kernel``, the only way in which this package uses numba.

Kernels have strict IEEE arithmetic and release the GIL. LLVM may then not reorder a sum, nor fuse a
product with an addition, so the bits of a result do not depend on how many lanes the processor has
or if it has FMA. Code that needs a fused product calls ``simd.fma``, and long sums have lanes of
their own (``sums``). The same code is compiled for every caller with the same argument types, so a
result does not depend on the number of threads either. Compiled kernels are kept under
``$NUMBA_CACHE_DIR``, or else in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import sys
import types
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

PACKAGE = __name__.partition(".")[0]
MAGIC = b"topics6\n"
MOST_PER_KERNEL = 64
"""Files that are kept for one kernel (versions of its source and types of its arguments); the
oldest go.
"""

compiled_kernels = 0
"""Kernels that this process had to compile."""
_notify: Callable[[str], None] | None = None
_noted: set[str] = set()


def notify_compiling(notify: Callable[[str], None] | None) -> None:
    """Call ``notify`` with one line before the process compiles its first kernel.

    Parameters
    ----------
    notify
        The function, called once; None: nothing is called.
    """
    global _notify
    _notify = notify


def cache_folder() -> Path:
    """Return the folder of this user's compiled kernels."""
    base = (
        os.environ.get("NUMBA_CACHE_DIR")
        or os.environ.get("XDG_CACHE_HOME")
        or os.path.expanduser("~/.cache")
    )
    return Path(base).absolute() / PACKAGE / "kernels"


def content_of(value: Any) -> str:
    """Describe everything that a kernel's compiled code depends on as text.

    Parameters
    ----------
    value
        A kernel, a function, an intrinsic, or a value that one of them refers to: a constant, a
        type, a module.

    Returns
    -------
    str
        For a function its name and a digest of its byte code, constants, and all that it refers to,
        kernels of other files included; for a value the value.
    """
    function = getattr(value, "py_func", None) or getattr(value, "_defn", None) or value
    if isinstance(function, types.FunctionType):
        return content_of(sorted(getattr(value, "targetoptions", {}).items())) + _digest(function)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, tuple | list):
        return f"{type(value).__qualname__}({','.join(map(content_of, value))})"
    if isinstance(value, types.CodeType):
        return _code(value, {})
    if isinstance(value, frozenset | set):
        return str(sorted(map(content_of, value)))
    if isinstance(value, type | types.ModuleType):
        return f"{value.__name__}{getattr(value, '_fields', '')}"
    is_plain = isinstance(
        value, int | float | complex | str | bytes | np.generic | np.dtype | None | type(Ellipsis)
    )
    return repr(value) if is_plain else type(value).__qualname__


_ROOTS = {PACKAGE}
"""Top-level packages whose functions are looked into: ours, and those with kernels of their own."""
_digests: dict[types.FunctionType, str] = {}


def _digest(function: types.FunctionType) -> str:
    """Digest a function and all that it refers to.

    A function of a package other than ours and its caller's counts by name.
    """
    if function not in _digests:
        name = f"{function.__module__}.{function.__qualname__}"
        _digests[function] = name  # a function that refers to itself finds its name
        if function.__module__.partition(".")[0] in _ROOTS:
            captured = [cell.cell_contents for cell in function.__closure__ or ()]
            cells = dict(zip(function.__code__.co_freevars, captured))
            names = {**function.__globals__, **cells}
            text = _code(function.__code__, names) + content_of(function.__defaults__ or ())
            _digests[function] = name + hashlib.sha256(text.encode()).hexdigest()
    return _digests[function]


def _code(code: types.CodeType, names: Mapping[str, Any]) -> str:
    """Describe byte code whose names have these values."""
    parts = [code.co_code.hex(), str(code.co_names), str(code.co_varnames)]
    parts += [
        _code(c, names) if isinstance(c, types.CodeType) else content_of(c) for c in code.co_consts
    ]
    for name in (*code.co_names, *code.co_freevars):
        if name in names:
            value = names[name]
            parts.append(f"{name}={content_of(value)}")
            if isinstance(value, types.ModuleType):  # the code may use its attributes
                attributes = [n for n in code.co_names if hasattr(value, n)]
                parts += [content_of(getattr(value, n)) for n in attributes]
    return "\n".join(parts)


class KernelCache:
    """The compiled signatures of one kernel on disk, as numba's dispatchers expect.

    numba's own cache notices changes only in the file that contains a kernel. Ours is keyed by the
    content of the kernel and of everything that it refers to (``content_of``), so an edit never
    leaves stale code behind, and an edit elsewhere compiles nothing. The key has no paths, so
    several checkouts share the cache.
    """

    def __init__(self, function: Callable[..., Any], flags: dict[str, Any]) -> None:
        self._function = function
        self._flags = content_of(sorted(flags.items()))
        _ROOTS.add(function.__module__.partition(".")[0])

    @property
    def cache_path(self) -> str:
        """Return the folder."""
        return str(cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled signature, or None if it has to be compiled."""
        global compiled_kernels, _notify
        # compiled code calls numba's runtime, which only compiling would start otherwise
        rtsys.initialize(target_context)
        path = self._path(sig, target_context)
        try:
            data = path.read_bytes()
            body = data[len(MAGIC) + 4 :]
            if data[: len(MAGIC) + 4] != _head(body):
                raise ValueError("does not match its checksum")
            return CompileResult._rebuild(target_context, *pickle.loads(body))
        except OSError:  # not there, or not to be read
            pass
        except Exception as e:  # whatever a cache holds, it must not end a command
            with suppress(OSError):
                path.unlink()
            _note(
                f"kernel cache: {path} is damaged ({type(e).__name__}) and was dropped; its "
                f"kernel is compiled again"
            )
        compiled_kernels += 1
        if _notify is not None:
            notify = _notify
            _notify = None
            with suppress(OSError, ValueError):  # to a stream that is closed meanwhile
                notify(
                    "compiling for this machine, once (up to a minute; `topics warm` does it ahead)"
                )
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled signature by one rename."""
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return
        path = self._path(sig, data.target_context)
        body = dumps(data._reduce())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_name(f"{secrets.token_hex(8)}.tmp")
            beside.write_bytes(_head(body) + body)
            os.replace(beside, path)
            of_kernel = list(path.parent.glob(f"{path.name.rpartition('-')[0]}-*.nbc"))
            of_kernel.sort(key=lambda file: file.stat().st_mtime)
            for oldest in of_kernel[:-MOST_PER_KERNEL]:
                oldest.unlink()
        except OSError as e:
            _note(
                f"compiled kernels cannot be kept in {path.parent} ({e.strerror}), so every "
                f"command compiles its own; "
                "set NUMBA_CACHE_DIR to a folder that you can write"
            )

    def _path(self, sig: Any, target_context: Any) -> Path:
        """Return the file of a signature, named by a digest of all that its code depends on."""
        function = self._function
        # how intrinsics are lowered is registered with numba's types, where ``content_of`` does
        # not get: their file counts as a whole
        lowering = zlib.crc32(Path(__file__).with_name("intrinsics.py").read_bytes())
        versions = (sys.version_info[:2], np.__version__, numba.__version__, lowering)
        about = (
            content_of(function),
            str(sig),
            self._flags,
            versions,
            target_context.codegen().magic_tuple(),
        )
        key = hashlib.sha256(repr(about).encode())
        return (
            cache_folder() / f"{function.__module__}.{function.__name__}-{key.hexdigest()[:32]}.nbc"
        )


def _head(body: bytes) -> bytes:
    """Return the first bytes of a file with this content."""
    return MAGIC + zlib.crc32(body).to_bytes(4, "little")


def _note(text: str) -> None:
    """Print one line on stderr, once for its first words."""
    first_words = text[:12]
    if first_words not in _noted:
        _noted.add(first_words)
        with suppress(OSError, ValueError, AttributeError):
            print(f"topics: note: {text}", file=sys.stderr, flush=True)


def _compile(function: Any, flags: dict[str, Any]) -> Any:
    """Make a dispatcher that compiles a function once for each signature, and caches on disk."""
    compiled: Any = numba.njit(**flags)(function)
    if hasattr(compiled, "py_func"):  # not under NUMBA_DISABLE_JIT
        compiled._cache = KernelCache(function, flags)
        resolve = compiled.get_call_template

        def resolve_types(args: Any, keywords: Any) -> Any:
            """Resolve a call from another kernel, whose constants count by their type alone."""
            # numba would compile the callee anew for each number that such calls contain
            return resolve([numba.types.unliteral(arg) for arg in args], keywords)

        compiled.get_call_template = resolve_types
    return compiled


_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def kernel(function: Any = None, **flags: Any) -> Callable[..., Any]:
    """Compile a function with strict floating point: ``@kernel`` or ``@kernel(inline="always")``.

    Parameters
    ----------
    function
        The function; None: a decorator is returned.
    flags
        Flags of ``numba.njit``.
    """
    all_flags = {**_COMMON, **flags}
    compile_with_flags: Callable[..., Any] = partial(_compile, flags=all_flags)
    if function is None:
        return compile_with_flags
    compiled: Callable[..., Any] = compile_with_flags(function)
    return compiled
