"""What this machine allows: memory (cgroup included), processors, and what this process uses of them."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from contextlib import suppress
from pathlib import Path

from topicstream.errors import UsageError

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str | int | float) -> int:
    """``2G``, ``512M``, ``300MiB``, ``1.5g`` or a number of bytes -> bytes (powers of two)."""
    if isinstance(text, (int, float)):
        if not 0 < text < 1 << 62:  # not so of NaN either
            raise UsageError(f"{text}: is no amount of memory")
        return int(text)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise UsageError(f"{text!r} is not an amount of memory; write for example 2G, 512M or a number of bytes")
    size = float(match[1]) * _UNITS[match[2]]
    if not 1 <= size < 1 << 62:
        raise UsageError(f"{text}: is no amount of memory that can be meant; write for example 2G")
    return int(size)


def format_bytes(n: float) -> str:
    """Bytes for people: ``512 MB``, ``2.0 GB`` (powers of two)."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if abs(n) >= size:
            value = n / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{int(n)} B"


def _status(field: str) -> int:
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def resident_bytes() -> int:
    """Resident memory of this process now (VmRSS)."""
    return _status("VmRSS")


def file_bytes() -> int:
    """Resident pages of files mapped by this process (RssFile): code and constants of libraries."""
    return _status("RssFile")


def peak_bytes() -> int:
    """Highest resident memory of this process so far (VmHWM)."""
    return _status("VmHWM")


_alone = False


def run_alone() -> None:
    """Say that this process runs one command of ours and nothing else: all that it ever held was ours."""
    global _alone
    _alone = True


def alone() -> bool:
    """Whether this process runs one command of ours and nothing else."""
    return _alone


def peak_of_ours() -> int:
    """Highest resident memory of this process where it is ours alone, else 0: a caller's own is not counted."""
    return peak_bytes() if _alone else 0


def _cgroup_limits() -> list[int]:
    limits = []
    try:
        lines = Path("/proc/self/cgroup").read_text().split("\n")
    except OSError:
        return []
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[1] == "":
            base, name = Path("/sys/fs/cgroup"), "memory.max"
        elif "memory" in parts[1].split(","):
            base, name = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        folder = base / parts[2].lstrip("/")
        for candidate in [folder, *folder.parents]:
            if not candidate.is_relative_to(base):
                break
            try:
                text = (candidate / name).read_text().strip()
            except OSError:
                continue
            if text.isdecimal():
                limits.append(int(text))
    return limits


def memory_allowed() -> int:
    """Bytes this process tree may use: the machine's memory or the tightest cgroup limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_cgroup_limits()])


def memory_limit(given: str | int | None) -> int:
    """Bytes of a ``mem_limit``: as given, or the default."""
    return parse_bytes(given) if given is not None else default_memory_limit()


def default_memory_limit() -> int:
    """70 % of what the machine or the cgroup allows."""
    return int(memory_allowed() * 0.7)


def default_threads() -> int:
    """Processors this process may run on."""
    return len(os.sched_getaffinity(0))


def calm_malloc(*, mapped: int = 4 << 20, kept: int = 16 << 20) -> None:
    """Few malloc arenas and early trimming, so that freed memory goes back and the limit can be kept.

    mapped: arrays of so many bytes (at most 32 MB) get pages of their own, fresh and given back each time; kept: free bytes
    at the end of an arena before they are given back."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-8, 2)  # M_ARENA_MAX
        libc.mallopt(-1, kept)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, mapped)  # M_MMAP_THRESHOLD
    except (OSError, AttributeError):
        pass


def trim() -> None:
    """Give the free pages of malloc's arenas back; those between what is in use too, which malloc itself keeps."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


_UNCHANGED = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) .[^w].p \S+ \S+ [1-9]\d* .*\n(?:(?!Anonymous:).*\n)*?Anonymous: +0 kB$", re.MULTILINE
)
"""Private mappings of files in ``/proc/self/smaps`` that may not be written and have no changed page."""


def give_back(limit: int = 0) -> None:
    """Free memory that malloc keeps, and the resident pages of libraries' code and constants: what is touched again comes
    back from the page cache.  Not where a fourth of ``limit`` would hold all there is: to look takes a hundredth of a second.

    Of the 200 MB after imports and compiled kernels, 110 MB are such pages (LLVM's alone 75 MB, never needed again once the
    kernels are there).  Only mappings of files without one changed page are named to the kernel, so nothing can be lost."""
    if resident_bytes() < limit // 4:
        return
    trim()
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        with open("/proc/self/smaps", "rb") as f:
            found = _UNCHANGED.findall(f.read())
        for begin, end in ((int(a, 16), int(b, 16)) for a, b in found):
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 4)  # MADV_DONTNEED


def versions() -> dict[str, str]:
    """Versions and processor that a bit-identical rerun depends on."""
    import numpy
    from llvmlite import binding

    import topicstream
    from topicstream.kernels.direct import numba_version

    return {
        "topicstream": topicstream.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba_version(),
        "cpu": f"{platform.machine()} {binding.get_host_cpu_name()}",
    }


def one_blas_thread() -> None:
    """Let NumPy's products run in the thread that asks for them, from now on: how OpenBLAS parts a product over threads
    decides the last bits of a sum.  Where its library has no such call, OPENBLAS_NUM_THREADS has to say it."""
    import ctypes

    try:
        with open("/proc/self/maps") as f:
            libraries = {line.split()[-1] for line in f if "openblas" in line}
    except OSError:
        return
    for path in sorted(libraries):
        loaded = ctypes.CDLL(path)
        for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads"):
            if hasattr(loaded, name):
                getattr(loaded, name)(1)
                break
