"""Run a child in a memory cgroup of its own, where this machine allows one to be made."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

PLACES = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    ("/sys/fs/cgroup", "memory.max", "memory.peak"),
)


@contextlib.contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """A cgroup limited to ``limit`` bytes; skips the test where none can be made."""
    for base, name, _ in PLACES:
        group = Path(base) / f"topics-test-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
            (group / name).write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        try:
            yield group
        finally:
            for _ in range(100):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)
        return
    pytest.skip("no memory cgroup can be made here")


def run_in(group: Path, command: list[str], timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run ``command`` inside the group."""
    enter = f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))} && exec {shlex.join(command)}"
    return subprocess.run(["sh", "-c", enter], capture_output=True, text=True, timeout=timeout, check=False)
