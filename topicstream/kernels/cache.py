"""Compiled kernels kept between processes: numba's cache with a key, a file format and a trust of its own.

A kernel's key is what its machine code follows from, and nothing of where it lies: its module and name, the byte code of it
and of every function that it calls, the constants that they read, the compiler's switches, the types of the arguments, the
processor, and the versions of Python, NumPy, numba and llvmlite.  So two checkouts of one source share a cache, a cache may
be moved, baked into an image or mounted read-only, and a change in a kernel recompiles whatever calls it, in other files too
(numba's own cache looks at a function's own file only).

numba's machine code comes as a pickle.  It is the one pickle that topicstream reads, and only out of a folder that nobody
but the user and root can write (kernels/cache_folder.py).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.types import Type

from topicstream.kernels.cache_folder import SUFFIX, KernelFolder

PACKAGE = __name__.partition(".")[0]
after_save: Callable[[], None] | None = None
"""Called when a kernel was compiled and kept."""
SWITCHES = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX", "USING_SVML")


def own_folder() -> Path:
    """Where this user's compiled kernels are kept."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / PACKAGE / "kernels"


@cache
def folders() -> tuple[KernelFolder, ...]:
    """Where compiled kernels are looked for: the user's own folder, then what came with the package, if it has any."""
    shipped = Path(__file__).with_name("compiled")
    own = KernelFolder(own_folder())
    return (own, KernelFolder(shipped, read_only=True)) if shipped.is_dir() else (own,)


@cache
def versions() -> str:
    """Of everything that compiles, and how it was told to."""
    switches = [getattr(config, name, None) for name in SWITCHES]
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    return repr((python, np.__version__, numba.__version__, llvmlite.__version__, switches))


class _Content:
    """sha256 of all that the machine code of a function follows from."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: set[int] = set()
        self._modules: set[str] = set()

    def add(self, value: Any) -> None:
        """Take a value that the function names."""
        if isinstance(value, Dispatcher):
            if self._new(value):
                self._say("kernel", repr(sorted((k, _plain(v)) for k, v in value.targetoptions.items())))
                self._function(value.py_func)
        elif isinstance(value, FunctionType) and _ours(value.__module__):
            if self._new(value):
                self._function(value)
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)):
            self._say(type(value).__name__, repr(value))
        elif isinstance(value, (np.dtype, Type)):
            self._say("type", str(value))
        elif isinstance(value, (tuple, list)):
            self._say("sequence", str(len(value)))
            for one in value:
                self.add(one)
        elif isinstance(value, (set, frozenset)):
            self._say("set", repr(sorted(map(repr, value))))
        elif isinstance(value, np.ndarray):
            self._say("array", repr((value.dtype.str, value.shape)))
            self.hash.update(np.ascontiguousarray(value).data if value.size else b"")
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, ModuleType):
            self._module(value.__name__)
        else:  # a class, a builtin, an intrinsic: of a library its name, of ours all its module
            owner = getattr(value, "__module__", None) or type(value).__module__
            self._say("other", f"{owner}.{getattr(value, '__qualname__', type(value).__qualname__)}")
            self._module(owner)

    def _say(self, kind: str, text: str) -> None:
        self.hash.update(f"{kind} {len(text)}\n{text}\n".encode("utf-8", "surrogatepass"))

    def _new(self, value: Any) -> bool:
        known = id(value) in self._seen
        self._seen.add(id(value))
        if known:
            self._say("again", getattr(value, "__qualname__", ""))
        return not known

    def _function(self, function: Any) -> None:
        self._say("function", f"{function.__module__}.{function.__qualname__}")
        self._code(function.__code__)
        self.add(function.__defaults__ or ())
        for cell in function.__closure__ or ():
            self.add(cell.cell_contents)
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self._say("global", name)
                self.add(function.__globals__[name])

    def _code(self, code: CodeType) -> None:
        shape = (code.co_argcount, code.co_flags, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._say("code", repr((shape, code.co_code, getattr(code, "co_exceptiontable", b""))))
        for constant in code.co_consts:
            self.add(constant)

    def _module(self, name: str) -> None:
        """A module of ours with all of its source, and those of ours whose members it holds."""
        if not _ours(name) or name in self._modules or name == f"{PACKAGE}.kernels.jit":
            return
        self._modules.add(name)
        module = sys.modules[name]
        self._say("module", name)
        self.hash.update(_source(str(module.__file__)))
        for _, value in sorted(vars(module).items(), key=lambda item: item[0]):
            owner = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(owner, str):
                self._module(owner)


@cache
def _source(path: str) -> bytes:
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


def _ours(module: str | None) -> bool:
    return module is not None and (module == PACKAGE or module.startswith(PACKAGE + "."))


def _plain(value: Any) -> str:
    return repr(sorted(map(str, value))) if isinstance(value, (set, frozenset)) else repr(value)


def _names(code: CodeType) -> set[str]:
    inner = (_names(c) for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*inner)


class KernelCache(_Cache):
    """What a dispatcher asks for compiled signatures and gives new ones to."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._content = ""
        self._on = True

    @property
    def cache_path(self) -> str:
        """The folder that is written."""
        return str(folders()[0].path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled signature, or None where there is none that can be used."""
        target_context.refresh()
        name = self._name(sig, target_context.codegen()) if self._on else None
        if name is None:
            return None
        for folder in folders():
            body = folder.read(name)
            if body is None:
                continue
            try:
                return CompileResult._rebuild(target_context, *pickle.loads(body))
            except Exception as e:  # whatever is in it, a cache must not end a command
                folder.drop(name, type(e).__name__)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled signature."""
        lifted = any(not x.can_cache for x in data.lifted)
        if not self._on or lifted or data.library.has_dynamic_globals:
            return
        name = self._name(sig, data.codegen)
        if name is not None:
            folders()[0].write(name, dumps(data._reduce()))
            if after_save is not None:
                after_save()

    def enable(self) -> None:
        """Use it."""
        self._on = True

    def disable(self) -> None:
        """Compile, and keep nothing."""
        self._on = False

    def flush(self) -> None:
        """Nothing to do: a key stands for one content."""

    def _name(self, sig: Any, codegen: Any) -> str | None:
        """The file of a signature; None for types that only this process can name (functions as arguments)."""
        types = str(sig)
        if " at 0x" in types:
            return None
        function = self._dispatcher.py_func
        if not self._content:
            content = _Content()
            content.add(self._dispatcher)
            self._content = content.hash.hexdigest()
        key = repr((types, codegen.magic_tuple(), versions(), self._content))
        shown = re.sub(r"[^A-Za-z0-9_.]", "", f"{function.__module__}.{function.__qualname__}")[-100:].lstrip(".")
        return f"{shown}-{hashlib.sha256(key.encode()).hexdigest()[:32]}{SUFFIX}"
