"""Plain log lines, each with a timestamp: what a cron mail or a journal shows."""

from __future__ import annotations

import io
import sys
from datetime import datetime
from typing import TextIO, cast


class Log:
    """``log("text")`` writes a line; ``stream`` is a text stream whose every line gets a timestamp, for those who print."""

    def __init__(self, target: TextIO | None = None, quiet: bool = False) -> None:
        self.verbosity = -1 if quiet else 0
        self.stream = cast(TextIO, Timestamped(target or sys.stderr, quiet))

    def __call__(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class Timestamped(io.TextIOBase):
    """Passes whole lines on with a timestamp before each; never a terminal, so nobody draws bars into it."""

    def __init__(self, target: TextIO, quiet: bool = False) -> None:
        self._target, self._quiet, self._held = target, quiet, ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        *lines, self._held = (self._held + text).split("\n")
        if lines and not self._quiet:
            stamp = datetime.now().astimezone().isoformat(timespec="seconds")
            self._target.write("".join(f"{stamp} {line}\n" for line in lines))
            self._target.flush()
        return len(text)

    def flush(self) -> None:
        self._target.flush()
