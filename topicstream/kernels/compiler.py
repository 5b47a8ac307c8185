"""numba's side of a kernel: compiled where the cache has nothing, and kept as numba needs it and as ``direct`` runs it.

A kernel that is called by another one (``called``) is kept for that alone: typed, lowered and optimised, which is what its
caller takes over, but without machine code of its own and the wrappers around it, which take a third of a compilation.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types
from numba.core.caching import _Cache
from numba.core.compiler import CR_FIELDS, CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from topicstream.kernels import cache, lazy
from topicstream.kernels.lazy import make_intrinsics

after_save: Callable[[str], None] | None = None
"""Called when a kernel was compiled and kept, with its name."""
claim: Callable[[str], bool] | None = None
"""Called before a kernel is compiled, with its name; True: by another process meanwhile."""
missed = 0
"""Signatures that this process had to compile."""
seconds = 0.0
"""What that took."""
_begun: list[float] = []  # of those that are being compiled, one within the other


class KernelCache(_Cache):
    """What a dispatcher asks for compiled signatures and gives new ones to."""

    def __init__(self, kernel: Any, called: bool = False) -> None:
        self._kernel, self._called = kernel, called
        self._on = True

    @property
    def cache_path(self) -> str:
        """The folder that is written."""
        return str(cache.folders()[0].path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled signature, or None where there is none that can be used."""
        global missed
        target_context.refresh()
        name = self._name(sig) if self._on else None
        found = self._kept(name, target_context)
        if found is None and name and claim is not None and claim(name):  # another has compiled it meanwhile
            found = self._kept(name, target_context)
        if found is not None:
            return found
        missed += 1
        if lazy.before_compiling is not None:
            with suppress(OSError, ValueError):  # said to somebody who has gone
                lazy.before_compiling()
            lazy.before_compiling = None
        _begun.append(time.perf_counter())
        return None

    def _name(self, sig: Any) -> str | None:
        return cache.file_name(self._kernel, f"{sig}{' called' * self._called}")

    def _kept(self, name: str | None, target_context: Any) -> Any:
        for folder in cache.folders() if name else ():
            body = folder.read(str(name))
            whole = self._called or folder.has(cache.code_name(str(name)))
            if body is None or not whole:  # its object code is lost: both are made anew
                continue
            try:
                parts = pickle.loads(body)
                return _called_again(target_context, *parts) if self._called else CompileResult._rebuild(target_context, *parts)
            except Exception as e:  # whatever is in it, a cache must not end a command
                folder.drop(str(name), type(e).__name__)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled signature."""
        global seconds
        took = time.perf_counter() - _begun.pop() if _begun else 0.0
        seconds += took if not _begun else 0.0
        lifted = any(not x.can_cache for x in data.lifted)
        if not self._on or lifted or data.library.has_dynamic_globals:
            return
        name = self._name(sig)
        if name is not None:
            if self._called:
                module = data.library._get_module_for_linking().as_bitcode()
                data.fndesc.typemap = data.fndesc.calltypes = None  # as numba's own, which are not pickled
                parts = data.library.name, module, data.fndesc, data.environment, data.signature, data._find_referenced_environments()
                cache.folders()[0].write(name, dumps(parts))
            else:
                parts = data._reduce()
                cache.folders()[0].write(name, dumps(parts))
                cache.folders()[0].write(cache.code_name(name), object_code(data, parts))
            if after_save is not None:
                after_save(name)

    def enable(self) -> None:
        """Use it."""
        self._on = True

    def disable(self) -> None:
        """Compile, and keep nothing."""
        self._on = False

    def flush(self) -> None:
        """Nothing to do: a key stands for one content."""


def object_code(data: Any, parts: tuple[Any, ...]) -> bytes:
    """What ``direct`` runs; nothing for what needs more of numba than it has."""
    (_, _, (code, _)), fndesc, env, _, objectmode, _, _, reload, more = parts
    module = data.library._final_module
    needs = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    needs += [v.name for v in module.global_variables if v.is_declaration]
    envs = [env, *(e for e in more if e is not env)]
    plain = all(isinstance(c, np.dtype) and c.kind in "biufc" for e in envs for c in e.consts)
    if reload or objectmode or not plain or any(name.startswith(".numba.unresolved") for name in needs):
        return b""
    about = {
        "wrapper": fndesc.llvm_cpython_wrapper_name,
        "module": fndesc.modname,
        "qualname": fndesc.qualname,
        "envs": [(e.env_name, e.globals["__name__"], [c.str for c in e.consts]) for e in envs],
        "needs": needs,
    }
    head = json.dumps(about).encode()
    return len(head).to_bytes(4, "little") + head + bytes(code)


def _finished(library: Any) -> Any:
    """A library that others are linked with, and that is never run itself: no machine code is made of it."""

    def finish() -> None:
        library._finalize_dynamic_globals()
        library._finalized = True

    library._finalize_final_module = finish
    return library


def _known(target_context: Any, result: Any) -> Any:
    """A kernel that others call, made known to them.  numba knows it by a function of Python's, which nobody calls."""
    name = result.fndesc.qualname.split(".")[-1]
    token = _dynfunc.make_function(result.fndesc.lookup_module(), name, "called", 0, result.environment, ())
    target_context.insert_user_function(token, result.fndesc, [result.library])
    return result._replace(entry_point=token)


def _called_again(context: Any, name: str, module: bytes, fndesc: Any, env: Any, signature: Any, envs: Sequence[Any]) -> Any:
    """A kernel that others call, out of the cache."""
    library = _finished(context.codegen().create_library(name))
    library._final_module = library._shared_module = llvm.parse_bitcode(module)
    library._finalized = True
    given = {"target_context": context, "typing_context": context.typing_context, "library": library, "environment": env}
    about = {"fndesc": fndesc, "signature": signature, "lifted": (), "reload_init": (), "referenced_envs": envs}
    return _known(context, CompileResult(**{**dict.fromkeys(CR_FIELDS), "objectmode": False, **given, **about}))


def dispatcher(kernel: Any, called: bool = False) -> Any:
    """numba's dispatcher of a kernel; ``called``: as other kernels call it."""
    make_intrinsics()
    made: Any = numba.njit(**kernel.targetoptions)(kernel.py_func)
    if issubclass(type(made), Dispatcher):  # not under NUMBA_DISABLE_JIT
        find, made_by = made.get_call_template, made._compiler

        def flags(given: Any) -> Any:
            given.no_cfunc_wrapper = True  # for code in C, which calls none of ours
            given.no_compile = given.no_cpython_wrapper = called
            return given

        def compile(args: Any, return_type: Any) -> Any:
            result = type(made_by).compile(made_by, args, return_type)
            if called:
                _finished(result.library)
                return _known(cpu_target.target_context, result)
            for env in result._find_referenced_environments():
                result.library.codegen.set_env(env.env_name, env)
            return result

        made_by._customize_flags, made_by.compile = flags, compile
        # numba would compile a kernel that others call once for every number that they write down in the call
        made.get_call_template = lambda args, kws: find([types.unliteral(a) for a in args], kws)
        made._cache = KernelCache(kernel, called)
    return made
