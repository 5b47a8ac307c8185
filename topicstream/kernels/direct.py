"""Machine code that was compiled before, run without the compiler.

To load a kernel through numba takes all of numba: half a second of imports and 60 MB.  What a kernel needs when it runs is
little: its object code, LLVM's linker, and three small C modules of numba's that hand over arrays and hold errors.  They are
loaded here by themselves; ``import numba`` later finds them where it would have put them.

    file   4 bytes: length n; n bytes JSON: wrapper, module, qualname, envs, needs; then the object code
           (empty for a kernel that needs numba)

Where anything is missing (a symbol, a version of numba laid out differently) the kernel goes through numba, as ever.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import pickle
import re
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.kernels.lazy import Later

llvmlite: Any = Later("llvmlite")
llvm: Any = Later("llvmlite.binding")

FORMAT = 2
_PARTS = ("numba._dynfunc", "numba._helperlib", "numba.core.runtime._nrt_python")
_MATH = frozenset(
    [
        "acos",
        "acosf",
        "acosh",
        "acoshf",
        "asin",
        "asinf",
        "asinh",
        "asinhf",
        "atan",
        "atan2",
        "atan2f",
        "atanf",
        "atanh",
        "atanhf",
        "ceil",
        "ceilf",
        "cos",
        "cosf",
        "cosh",
        "coshf",
        "exp",
        "expf",
        "expm1",
        "expm1f",
        "fabs",
        "fabsf",
        "floor",
        "floorf",
        "fmod",
        "fmodf",
        "log",
        "log10",
        "log10f",
        "log1p",
        "log1pf",
        "logf",
        "pow",
        "powf",
        "round",
        "roundf",
        "sin",
        "sinf",
        "sinh",
        "sinhf",
        "sqrt",
        "sqrtf",
        "tan",
        "tanf",
        "tanh",
        "tanhf",
        "trunc",
        "truncf",
    ]
)
_lock = threading.RLock()


@cache
def _numba() -> Path:
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba is not installed")
    return Path(spec.origin).parent


@cache
def numba_version() -> str:
    """numba's version, without importing it."""
    found = re.search(r'"version": "([^"]+)"', (_numba() / "_version.py").read_text())
    return found[1] if found else "unknown"


@cache
def processor() -> tuple[str, str, str]:
    """What code is compiled for: numba's ``magic_tuple``."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = "" if name.lower() == "generic" else llvm.get_host_cpu_features().flatten()
    return llvm.get_process_triple(), name, features


@cache
def settings() -> str:
    """What numba would take its switches from: environment variables and a file in the working folder."""
    harmless = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT")
    said = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in harmless)
    with suppress(OSError):
        said.append(Path(".numba_config.yaml").read_text())
    return repr((FORMAT, said, _svml()))


def _svml() -> bool:
    """Whether numba would call Intel's vector mathematics."""
    with suppress(RuntimeError, AttributeError):
        if llvm.targets.has_svml():
            llvm.load_library_permanently("libsvml.so")
            return True
    return False


@cache
def versions() -> str:
    """Of everything that compiles, and how it was told to."""
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    return repr((python, np.__version__, numba_version(), llvmlite.__version__, settings()))


def _part(name: str) -> Any:
    """A C module of numba's, without the package around it."""
    if name not in sys.modules:
        stem = _numba().joinpath(*name.split(".")[1:])
        path = next(p for p in (f"{stem}{suffix}" for suffix in EXTENSION_SUFFIXES) if os.path.exists(p))
        spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, path))
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


_constants: dict[int, Any] = {}


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _UNPICKLE(place: int, size: int, key: int) -> Any:
    """A constant of the code: the type of an array that it returns, an error that it raises."""
    if place not in _constants:
        _constants[place] = pickle.loads(ctypes.string_at(place, size))
    return _constants[place]


def _whole(code: bytes) -> bool:
    """Whether an object file has what its head and its sections say: LLVM ends the process over one that is cut."""
    if not sys.platform.startswith("linux"):
        return bool(code)
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < 64:
        return False
    table, each, sections = *struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HH", code, 58)
    if each != 64 or table + each * sections > len(code):
        return False
    for at in range(table, table + each * sections, each):
        kind, (offset, size) = struct.unpack_from("<I", code, at + 4)[0], struct.unpack_from("<QQ", code, at + 24)
        if kind != 8 and offset + size > len(code):  # 8: nothing of it stands in the file
            return False
    return True


class Loader:
    """LLVM's linker with what kernels call."""

    def __init__(self) -> None:
        processor()
        self._dynfunc, helpers, runtime = (_part(name) for name in _PARTS)
        llvm.add_symbol("_Py_NoneStruct", id(None))
        for name, address in [*helpers.c_helpers.items(), *self._dynfunc.c_helpers.items()]:
            llvm.add_symbol("numba_" + name, address)
            if name in _MATH:
                llvm.add_symbol(name, address)
        if "numba.core.serialize" not in sys.modules:  # else numba has given it
            llvm.add_symbol("numba_unpickle", ctypes.cast(_UNPICKLE, ctypes.c_void_p).value)
        for name, address in runtime.c_helpers.items():
            llvm.add_symbol(name if name.startswith("_") else "NRT_" + name, address)
        for one in vars(builtins).values():
            if isinstance(one, type) and issubclass(one, BaseException):
                llvm.add_symbol(f"PyExc_{one.__name__}", id(one))
        x86 = processor()[0].startswith("x86")
        machine = llvm.Target.from_triple(processor()[0]).create_target_machine(
            reloc="static" if x86 else "default", codemodel="jitdefault", jit=True
        )
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._kept: list[Any] = []

    def load(self, body: bytes) -> Callable[..., Any] | None:
        """The function in a file; None where a symbol that it calls is not here."""
        size = int.from_bytes(body[:4], "little")
        about = json.loads(body[4 : 4 + size])
        if not all(llvm.address_of_symbol(name) for name in about["needs"]):
            return None
        if not _whole(body[4 + size :]):
            raise ValueError("no whole object file")
        code = llvm.ObjectFileRef.from_data(body[4 + size :])
        self._engine.add_object_file(code)
        self._engine.finalize_object()
        main = None
        for name, module, dtypes in about["envs"]:
            env = self._dynfunc.Environment({"__name__": module})  # what only interpreted code looks into
            env.consts[:] = [np.dtype(d) for d in dtypes]
            (ctypes.c_void_p * 1).from_address(self._engine.get_global_value_address(name))[0] = id(env)
            self._kept.append(env)
            main = main or env
        address = self._engine.get_function_address(about["wrapper"])
        made: Callable[..., Any] = self._dynfunc.make_function(
            import_module(about["module"]), about["qualname"].split(".")[-1], "compiled", address, main, (self,)
        )
        return made


@cache
def _loader() -> Loader | None:
    try:
        return Loader()
    except (ImportError, OSError, RuntimeError, AttributeError, StopIteration):
        return None


def load(body: bytes) -> Callable[..., Any] | None:
    """The function in a file of object code; None where it has to go through numba."""
    with _lock:
        loader = _loader()
        return None if loader is None else loader.load(body)
