"""Memory and processors that this process may use, and the versions that it runs."""

from __future__ import annotations

import os
import platform
import re
import warnings
from contextlib import suppress
from pathlib import Path

from topicstream.base import system
from topicstream.base.errors import UsageError
from topicstream.base.system import peak_bytes as peak_bytes

__version__ = "0.2.0"
"""Version of this package, the same as in ``pyproject.toml``."""
PROCESS_BYTES = 304 << 20
"""Bytes of a process without data: the interpreter, its libraries (numba and LLVM, SciPy, Arrow,
zarr) and the kernels of a command, loaded from the cache."""
LATER_BYTES = 32 << 20
"""Bytes of the kernels and libraries that a training loads after it was planned."""
STEP_BYTES = 16 << 20
"""Steps of a measured process, so that the same command plans the same."""
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str | int | float) -> int:
    """Read an amount of memory: ``2G``, ``512M``, ``300MiB``, ``1.5g`` or a number of bytes.

    Units are powers of two.

    Raises
    ------
    UsageError
        If the text is no amount of memory.
    """
    if isinstance(text, (int, float)):
        if not 0 < text < 1 << 62:  # true of NaN, too
            raise UsageError(f"{text}: is not an amount of memory; write for example 2G")
        return int(text)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise UsageError(
            f"{text!r} is not an amount of memory; write for example 2G, 512M or a number of bytes"
        )
    size = float(match[1]) * _UNITS[match[2]]
    if not 1 <= size < 1 << 62:
        raise UsageError(f"{text}: is out of range; write for example 2G")
    return int(size)


def format_bytes(n: float) -> str:
    """Format an amount of memory: ``512 MB``, ``2.0 GB`` (powers of two)."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if abs(n) >= size:
            value = n / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{int(n)} B"


def _cgroup_limits() -> list[int]:
    """Read the memory limits of the cgroups of this process, of both versions."""
    limits = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2
                root = Path("/sys/fs/cgroup")
                name = "memory.max"
            elif "memory" in controllers.split(","):
                root = Path("/sys/fs/cgroup/memory")
                name = "memory.limit_in_bytes"
            else:
                continue
            folder = root / path.lstrip("/")
            for parent in (folder, *folder.parents):
                with suppress(OSError, ValueError):  # no such limit, or "max"
                    limits.append(int((parent / name).read_text()))
    return limits


def process_bytes() -> int:
    """Estimate what this process holds before it holds data, from what it holds now.

    It is never more than ``PROCESS_BYTES``, which is what a process is allowed that holds data of
    others (a notebook).
    """
    system.return_free_memory()
    expected = system.resident_bytes() + LATER_BYTES
    return min(PROCESS_BYTES, -(-expected // STEP_BYTES) * STEP_BYTES)


def memory_allowed() -> int:
    """Return the machine's memory in bytes, or the tightest limit of a cgroup."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_cgroup_limits()])


def default_threads() -> int:
    """Count the processors that this process may run on."""
    return system.processors()


def versions() -> dict[str, str]:
    """Return the versions and the processor that a bit-identical rerun depends on."""
    import numba  # with LLVM a quarter of a second: most commands never need it
    import numpy
    from llvmlite import binding

    return {
        "topicstream": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba.__version__,
        "cpu": f"{platform.machine()} {binding.get_host_cpu_name()}",
    }


def return_freed_memory() -> None:
    """Let freed memory go back to the system.

    malloc gets few arenas and trims early, and Arrow allocates by malloc. Without it an ingest of
    a million names at --mem-limit 512M peaks at 630 MB, with it at 401 MB: glibc keeps memory that
    each thread's arena has freed, and Arrow's own allocator keeps more.
    """
    import pyarrow as pa  # most commands that ask for memory never load it

    pa.set_memory_pool(pa.system_memory_pool())
    system.trim_freed_memory()


def ignore_false_alarms() -> None:
    """Silence what NumPy says of matrix products on processors other than x86-64.

    BLAS for ARM raises the flags of overflow and of division by zero where it computes padding,
    and NumPy warns, though every product is right.
    """
    if platform.machine() != "x86_64":
        warnings.filterwarnings("ignore", ".* encountered in matmul", RuntimeWarning)


def one_blas_thread() -> None:
    """Run NumPy's matrix products in the calling thread from now on.

    How a BLAS library splits a product over threads decides the last bits of a sum.
    """
    from threadpoolctl import threadpool_limits  # few engines have such products

    threadpool_limits(1, user_api="blas")
