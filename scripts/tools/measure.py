"""What the measuring scripts share: machine and versions, Markdown tables, children inside a memory
cgroup.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from topicstream import __version__
from topicstream.base import machine


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
    """A section's head: what was measured, by which command, where, when, with which versions and
    load.
    """
    import numba
    import numpy

    size = "full sizes (FULL=1)" if full() else "quick sizes"
    command = " ".join(["python", *map(shlex.quote, sys.argv)])
    load = os.getloadavg()[0]
    print(f"\n### {title}\n\n{what}\n")
    print(
        f"`{command}`, {size}; {datetime.date.today().isoformat()}; {processor()}; load "
        f"{load:.1f}; topicstream {__version__}, "
        f"Python {platform.python_version()}, numpy {numpy.__version__}, numba "
        f"{numba.__version__}\n"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A Markdown table."""
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(v) for v in row) + " |")
    print(flush=True)


class Figures:
    """Figures kept in a file of JSON lines as soon as they are there, and not made again: long
    tables may be cut anywhere.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        # a line that was cut short by a kill has no end
        self.kept: list[dict[str, Any]] = [
            json.loads(line) for line in lines if line.endswith("\n")
        ]
        if lines and not lines[-1].endswith("\n"):
            file.write_text("".join(lines[:-1]))

    def find(self, key: dict[str, Any]) -> list[dict[str, Any]]:
        """The records that have all of ``key``."""
        key = json.loads(json.dumps(key))
        return [
            r
            for r in self.kept
            if all(name in r and r[name] == value for name, value in key.items())
        ]

    def get(self, key: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The record that has all of ``key``; made, and written with the key, where there
        is none.
        """
        for record in self.find(key):
            return record
        record = {**key, **make()}
        with self.file.open("a") as out:
            out.write(json.dumps(record) + "\n")
        self.kept.append(json.loads(json.dumps(record)))
        return record


class MemoryGroup:
    """A memory cgroup (version 1 or 2) of its own; ``folder`` is None where none may be made.

    Use it as a context.
    """

    def __init__(self, limit: str) -> None:
        self.folder: Path | None = None
        self._peak = ""
        size = machine.parse_bytes(limit)
        for base, name, peak in (
            (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            (Path("/sys/fs/cgroup"), "memory.max", "memory.peak"),
        ):
            group = base / f"topics-{uuid.uuid4().hex[:8]}"
            if not (base / "cgroup.procs").exists():
                continue
            try:
                group.mkdir()
                (group / name).write_text(str(size))
            except OSError:
                with contextlib.suppress(OSError):
                    group.rmdir()
                continue
            self.folder = group
            self._peak = peak
            return
        print("no memory cgroup could be made: running without", file=sys.stderr)

    def command(self, command: Sequence[str]) -> list[str]:
        """The command line that enters the group first."""
        if self.folder is None:
            return list(command)
        enter = (
            f"echo $$ > {shlex.quote(str(self.folder / 'cgroup.procs'))} && exec "
            f"{shlex.join(command)}"
        )
        return ["sh", "-c", enter]

    def peak(self) -> int:
        """Most bytes charged to the group so far, page cache included; 0 where it is not known."""
        try:
            return int((self.folder / self._peak).read_text()) if self.folder is not None else 0
        except OSError:
            return 0

    def __enter__(self) -> MemoryGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for _attempt in range(50 if self.folder is not None else 0):
            try:
                self.folder.rmdir()  # type: ignore[union-attr]
                return
            except OSError:
                time.sleep(0.1)


def in_cgroup(command: Sequence[str], limit: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a memory cgroup of its own (version 1 or 2) of that limit; without the right
    to make one, run it bare and say so on stderr."""
    with MemoryGroup(limit) as group:
        return subprocess.run(group.command(command), capture_output=True, text=True, check=False)
