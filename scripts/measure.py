"""What the measuring scripts share: machine and versions, Markdown tables, children inside a memory cgroup."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topicstream import __version__, machine


def full() -> bool:
    """Whether FULL=1 asks for the full sizes."""
    return os.environ.get("FULL", "") not in ("", "0")


def processor() -> str:
    """The processor's name, and how many this process may use."""
    name = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{name}, {machine.default_threads()} cores, {machine.memory_allowed() / 2**30:.0f} GiB"


def heading(title: str, what: str) -> None:
    """A section's head: what was measured, by which command, where, when, with which versions and load."""
    import numba
    import numpy

    size = "full sizes (FULL=1)" if full() else "quick sizes"
    command = " ".join(["python", *map(shlex.quote, sys.argv)])
    load = os.getloadavg()[0]
    print(f"\n### {title}\n\n{what}\n")
    print(f"`{command}`, {size}; {datetime.date.today().isoformat()}; {processor()}; load {load:.1f}; topicstream {__version__}, "
          f"Python {platform.python_version()}, numpy {numpy.__version__}, numba {numba.__version__}\n")  # fmt: skip


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A Markdown table."""
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(v) for v in row) + " |")
    print(flush=True)


def in_cgroup(command: Sequence[str], limit: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a memory cgroup of its own (version 1 or 2) of that limit; without the right to make one, run it
    bare and say so on stderr."""
    size = machine.parse_bytes(limit)
    for base, name in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = base / f"topics-{uuid.uuid4().hex[:8]}"
        if not (base / "cgroup.procs").exists():
            continue
        try:
            group.mkdir()
            (group / name).write_text(str(size))
        except OSError:
            continue
        try:
            enter = f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))} && exec {shlex.join(command)}"
            return subprocess.run(["sh", "-c", enter], capture_output=True, text=True, check=False)
        finally:
            for _ in range(50):
                try:
                    group.rmdir()
                    break
                except OSError:
                    import time

                    time.sleep(0.1)
    print("no memory cgroup could be made: running without", file=sys.stderr)
    return subprocess.run(list(command), capture_output=True, text=True, check=False)
