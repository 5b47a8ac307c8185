"""What an ingest tells while it runs: a bar on a terminal, else a plain line at least every 10 s; on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from topicstream.machine import format_bytes

EVERY_SECONDS = 10.0


class Progress:
    """Says nothing; the library's default."""

    def say(self, line: str) -> None:
        """One line, at once."""

    def update(self, consumed: int, total: int | None, documents: int) -> None:
        """So many bytes of the input are read, so many documents taken."""

    def step(self, what: str, done: int, of: int) -> None:
        """A later step is so far."""

    def say_step(self, what: str) -> None:
        """A step begins that tells nothing on the way."""

    def close(self) -> None:
        """No more to say."""


class Shown(Progress):
    """Tells on a stream (default stderr)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._bar: Any = None
        self._what = ""
        self._began = self._last = time.monotonic()

    def say(self, line: str) -> None:
        self.close()
        print(line, file=self._stream, flush=True)
        self._last = time.monotonic()

    def update(self, consumed: int, total: int | None, documents: int) -> None:
        if self._terminal:
            bar = self._bar_for("reading", total, "B")
            bar.set_postfix_str(f"{documents:,} documents", refresh=False)
            bar.update(consumed - bar.n)
        elif time.monotonic() - self._last >= EVERY_SECONDS:
            seconds = max(time.monotonic() - self._began, 1e-9)
            rate = consumed / seconds
            left = f", {(total - consumed) / max(rate, 1):.0f} s left" if total else ""
            of = f" of {format_bytes(total)}" if total else ""
            self._line(
                f"read {format_bytes(consumed)}{of}, {documents:,} documents, {documents / seconds:,.0f}/s{left}"
            )

    def step(self, what: str, done: int, of: int) -> None:
        if self._terminal:
            bar = self._bar_for(what, of, "piece")
            bar.update(done - bar.n)
        elif time.monotonic() - self._last >= EVERY_SECONDS:
            self._line(f"{what}: {100 * done / max(of, 1):.0f} %")

    def say_step(self, what: str) -> None:
        self.close()
        if self._terminal or time.monotonic() - self._last >= EVERY_SECONDS:
            self._line(what)

    def _line(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
        self._last = time.monotonic()

    def _bar_for(self, what: str, total: int | None, unit: str) -> Any:
        if self._bar is None or what != self._what:
            from tqdm import tqdm

            self.close()
            self._what = what
            scaled = unit == "B"
            self._bar = tqdm(
                total=total, desc=what, unit=unit, unit_scale=scaled, leave=False, file=self._stream, delay=0.5
            )
        return self._bar

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
