"""What makes a command start sooner in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType


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


def own_process() -> None:
    """Prepare a process that runs one command and nothing else."""
    sys.meta_path.insert(0, WithoutBlas())


def arrow_by_malloc() -> None:
    """Let Arrow take its memory from malloc, which gives back what is freed; its own mimalloc, which Parquet's reader and
    writer take whatever pool is set later, keeps 40 MB.  Before pyarrow is imported; the user's own choice stands."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
