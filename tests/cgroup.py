"""Run a child in a memory cgroup of its own (``scripts/tools/measure.py`` makes it), where this
machine allows one to be made.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest
from measure import MemoryGroup


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Iterator[MemoryGroup]:
    """A cgroup limited to ``limit`` bytes; skips the test where none can be made."""
    with MemoryGroup(str(limit)) as group:
        if group.folder is None:
            pytest.skip("no memory cgroup can be made here")
        yield group


def run_in(
    group: MemoryGroup, command: list[str], timeout: float = 1800
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` inside the group."""
    return subprocess.run(
        group.command(command), capture_output=True, text=True, timeout=timeout, check=False
    )
