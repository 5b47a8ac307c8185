"""Compiled kernels kept between processes: a cache with a key, a file format and a trust of its own.

A kernel's key is what its machine code follows from, and nothing of where it lies: its module and name, the byte code of it
and of every function that it calls, the constants that they read, the compiler's switches, the types of the arguments, the
processor, and the versions of Python, NumPy, numba and llvmlite.  So two checkouts of one source share a cache, a cache may
be moved, baked into an image or mounted read-only, and a change in a kernel recompiles whatever calls it, in other files too
(numba's own cache looks at a function's own file only).

A signature is two files: what numba needs to call it from another kernel (a pickle, the one that topicstream reads), and its
object code alone, which runs without numba (kernels/direct.py).  Either is code, so the folder is one that nobody but the
user and root can write (kernels/cache_folder.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from topicstream.kernels import direct
from topicstream.kernels.cache_folder import SUFFIX, KernelFolder
from topicstream.kernels.lazy import Later

PACKAGE = __name__.partition(".")[0]
_NEUTRAL = {f"{PACKAGE}.kernels.{name}" for name in ("jit", "lazy", "direct", "compiler", "cache", "cache_folder")}


def own_folder() -> Path:
    """Where this user's compiled kernels are kept."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / PACKAGE / "kernels"


@cache
def folders() -> tuple[KernelFolder, ...]:
    """Where compiled kernels are looked for: the user's own folder, what TOPICS_KERNELS names, what came with the package."""
    named = os.environ.get("TOPICS_KERNELS")
    shared = [Path(named).absolute()] if named else []
    shared += [p for p in [Path(__file__).with_name("compiled")] if p.is_dir()]
    return KernelFolder(own_folder()), *(KernelFolder(p, read_only=True) for p in shared)


class _Content:
    """sha256 of all that the machine code of a function follows from."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._seen: set[int] = set()
        self._modules: set[str] = set()

    def add(self, value: Any) -> None:
        """Take a value that the function names."""
        if hasattr(value, "targetoptions"):
            if self._new(value):
                self._say("kernel", repr(sorted((k, _plain(v)) for k, v in value.targetoptions.items())))
                self._function(value.py_func)
        elif isinstance(value, FunctionType) and _ours(value.__module__):
            if self._new(value):
                self._function(value)
        elif isinstance(value, (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)):
            self._say(type(value).__name__, repr(value))
        elif isinstance(value, np.dtype):
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
        if not _ours(name) or name in self._modules or name in _NEUTRAL:
            return
        self._modules.add(name)
        module = sys.modules[name]
        self._say("module", name)
        self.hash.update(_source(str(module.__file__)))
        for _, value in sorted(vars(module).items(), key=lambda item: item[0]):
            if isinstance(value, Later) and _ours(value.named):  # perhaps not imported
                self.hash.update(_source(str(Path(__file__).parents[2] / f"{value.named.replace('.', '/')}.py")))
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


@cache
def _content(kernel: Any) -> str:
    content = _Content()
    content.add(kernel)
    return content.hash.hexdigest()


def file_name(kernel: Any, types: str) -> str | None:
    """The file of a signature; None for types that only this process can name (functions as arguments)."""
    if " at 0x" in types:
        return None
    function = kernel.py_func
    key = repr((types, direct.processor(), direct.versions(), _content(kernel)))
    shown = re.sub(r"[^A-Za-z0-9_.]", "", f"{function.__module__}.{function.__qualname__}")[-100:].lstrip(".")
    return f"{shown}-{hashlib.sha256(key.encode()).hexdigest()[:32]}{SUFFIX}"


def code_name(name: str) -> str:
    """The file beside that has the object code alone."""
    function, _, key = name.rpartition("-")
    return f"{function}.code-{key}"


def code(kernel: Any, types: str) -> Callable[..., Any] | None:
    """A compiled signature out of the cache, ready to run without the compiler."""
    name = file_name(kernel, types)
    for folder in folders() if name else ():
        body = folder.read(code_name(str(name)))
        if not body:
            continue
        try:
            return direct.load(body)
        except Exception as e:  # whatever is in it, a cache must not end a command
            folder.drop(code_name(str(name)), type(e).__name__)
    return None
