"""What makes a command start sooner in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from topicstream import machine
from topicstream.errors import Stopped


class WithoutBlas:
    """numba looks for SciPy's linear algebra when it loads its first kernel, for products of matrices.  No kernel of ours
    makes one, and to import it takes a fifth of a second and 25 MB: while numba looks, it is not there.  Whatever else asks for
    SciPy gets it.  Not for a process of others, whose kernels may well multiply matrices."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """The import system's question for a module; None: ask the next finder."""
        if name != "scipy.linalg":
            return
        looking = getattr(sys.modules.get("numba.np.arraymath"), "__spec__", None)
        if getattr(looking, "_initializing", False):
            raise ImportError(f"{name} is left out: no kernel needs it")


class WithoutDocstrings:
    """Arrow reads the docstrings of its options to write those of its five hundred functions, which takes half of the time
    that importing them takes: nobody asks a command for them."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The import system's question for a module; None: ask the next finder."""
        return ModuleSpec(name, self) if name == "pyarrow.vendored.docscrape" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty one."""

    def exec_module(self, module: ModuleType) -> None:
        """With the one name that Arrow takes from it."""
        vars(module)["NumpyDocString"] = lambda text: {"Parameters": ()}


def hold_streams() -> None:
    """Take the descriptors 0 to 2 where the caller closed them, so that no file of ours gets such a number: input and
    output fail when they are used, what goes to stderr is lost."""
    for fd, name, mode in ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_RDWR)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
            setattr(sys, name, open(fd, "w" if fd else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def stopping(said: str) -> Callable[[int, object], None]:
    """A handler of signals that ends the command, so that temporary files go; another signal does not cut that short."""

    def handle(signum: int, frame: object) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        raise Stopped(said, signum)

    return handle


def own_process() -> None:
    """Prepare a process that runs one command and nothing else."""
    hold_streams()
    sys.meta_path[:0] = [WithoutBlas(), WithoutDocstrings()]
    # products run in the thread that asks for them (machine.one_blas_thread): others would begin by waiting busily
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    machine.run_alone()


def arrow_by_malloc() -> None:
    """Let Arrow take its memory from malloc, which gives back what is freed; its own mimalloc, which Parquet's reader and
    writer take whatever pool is set later, keeps 40 MB.  Before pyarrow is imported; the user's own choice stands."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
