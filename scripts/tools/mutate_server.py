"""Runs tests in forks of one process that has the libraries loaded (``mutate.py`` starts it).

Reads a request a line from stdin: the tests, the seconds of processor time that they may take, and
the file whose lines are traced, or "". Answers ``passed``, ``failed`` or ``time``, and the seconds.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LOADED = (
    "click duckdb hypothesis lxml.etree msgspec numba numcodecs numpy orjson pandas pyarrow.compute"
    " pyarrow.csv pyarrow.parquet scipy.optimize scipy.sparse scipy.special scipy.stats tqdm zarr"
)
"""Libraries that the tests use."""
WAITS = 60
"""Seconds in all for one of processor time: a busy machine, or tests that wait forever."""


class Lines:
    """Plug-in that notes which tests come past which lines of a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.test = ""
        self.tests_of: dict[int, set[str]] = defaultdict(set)

    def enter(self, frame: Any, event: str, argument: Any) -> Any:
        """Follow the frames of the file alone."""
        return self.note if frame.f_code.co_filename == self.path else None

    def note(self, frame: Any, event: str, argument: Any) -> Any:
        """Note a line that is run."""
        self.tests_of[frame.f_lineno].add(self.test)
        return self.note

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Say which test runs."""
        self.test = item.nodeid
        return (yield)


def run_tests(place: Path, tests: list[str], traced: str) -> int:
    """Run the tests in this process, which has not loaded the package yet."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.path.insert(0, str(place))
    tiers = "not slow or (product and not campaign)"
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", tiers, *tests]
    if not traced:
        return int(pytest.main(arguments))
    lines = Lines(place / "topicstream" / traced)
    threading.settrace(lines.enter)
    sys.settrace(lines.enter)
    code = int(pytest.main(arguments, [lines]))
    sys.settrace(None)
    found = {line: sorted(tests) for line, tests in lines.tests_of.items()}
    (place / "lines.json").write_text(json.dumps(found))
    return code


def answer(place: Path, request: dict[str, Any]) -> str:
    """Run the tests of a request in a child."""
    seconds = request["seconds"]
    child = os.fork()
    if child == 0:
        code = 70
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        try:
            code = run_tests(place, request["tests"], request["traced"])
        finally:
            os._exit(code)
    end = time.monotonic() + WAITS * seconds
    while time.monotonic() < end:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            name = "passed" if status == 0 else "failed"
            return f"{name} {used.ru_utime + used.ru_stime:.2f}"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"time {seconds}"


def main() -> None:
    """Answer one request after another."""
    place = Path(sys.argv[1])
    for name in LOADED.split():
        with suppress(ImportError):
            __import__(name)
    for line in sys.stdin:
        print(answer(place, json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
