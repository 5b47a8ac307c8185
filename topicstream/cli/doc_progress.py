"""How many documents are done: a bar on a terminal, else a line every 10 seconds, nothing with ``-q``."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from topicstream.cli.verbosity import verbosity

EVERY = 10.0


class DocProgress:
    """Called with (what is being done, documents done, documents in all or 0); ``close`` ends the bar."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._bar: Any = None
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        if verbosity() < 0:
            return
        if not sys.stderr.isatty():
            if time.monotonic() - self._said >= EVERY:
                self._said = time.monotonic()
                of = f" of {total:,}" if total else ""
                click.echo(f"{what}: {done:,}{of} documents", err=True)
            return
        if self._what != what:
            from tqdm import tqdm

            self.close()
            self._bar, self._what = (
                tqdm(desc=what, total=total or None, unit=" documents", unit_scale=True, leave=False),
                what,
            )
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
