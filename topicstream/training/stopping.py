"""When a run stops: passes, tolerance, time, signals."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stopping:
    """When to stop: after ``passes``, when running perplexity changes by less than ``tol`` twice running (0: never), or
    after ``max_time`` seconds.  ``eval_every`` passes the held-out perplexity is measured (0: never)."""

    passes: int
    tol: float
    max_time: float | None = None
    eval_every: int = 0


def converged(perplexities: Sequence[float], tol: float, passes: int, least: int) -> bool:
    """Running perplexity changed by less than ``tol`` twice running, after ``least`` passes at least."""
    p = perplexities
    if tol <= 0 or passes < least or len(p) < 3:
        return False
    return abs(p[-1] - p[-2]) < tol and abs(p[-2] - p[-3]) < tol


class Signals:
    """First SIGINT or SIGTERM: ``asked`` becomes its number.  Second: the process stops at once."""

    def __init__(self) -> None:
        self.asked = 0

    def _handle(self, signum: int, frame: Any) -> None:
        if self.asked:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.asked = signum

    @contextlib.contextmanager
    def watched(self) -> Iterator[Signals]:
        """Watch while the block runs (in the main thread; elsewhere signals are left alone)."""
        before: dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before[int(number)] = signal.signal(number, self._handle)
        try:
            yield self
        finally:
            for signum, old in before.items():
                signal.signal(signum, old)
