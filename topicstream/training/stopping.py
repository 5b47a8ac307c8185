"""When a run stops: passes, tolerance, held-out perplexity, time, signals.

A tolerance that is a ``Share`` means the same on every corpus: running perplexity changed by less
than that share over ``SPAN`` passes. A plain number is a change of perplexity itself, pass to
pass, in two passes in a row: what that is worth depends on the corpus
(docs/internals/decisions/stopping.md).
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from topicstream.base.errors import Interrupted, UsageError
from topicstream.base.options import share


@dataclass(frozen=True)
class Stopping:
    """When to stop: after ``passes``, when running perplexity has settled within ``tol`` (0:
    never), when no probability of a
    word moved by more than ``tol_params`` in a pass (0: never), or after ``max_time`` seconds.
    ``eval_every`` passes the
    held-out perplexity is measured (0: never): then it decides in the place of the running one, and
    its lowest pass is what is
    kept.  Before ``least`` passes running perplexity does not decide.
    """

    passes: int
    tol: float
    max_time: float | None = None
    eval_every: int = 0
    tol_params: float = 0.0
    least: int = 0


class Share(float):
    """A tolerance that is a share of the perplexity."""

    def __str__(self) -> str:
        return f"{100 * self:g}%"


# Running perplexity of a small corpus lingers for ten passes and falls again (cora, 20 topics: held
# out 3.4 % above 200 passes at
# pass 41): as many passes are made as visit so many cells, some seconds' work, but no more than
# LONG (docs/internals/decisions/stopping.md)
CELLS = 20_000_000
LONG = 100
# passes: engines that look at a topic outside a document's own every few passes move in steps
SPAN = 10


def tolerance(text: float | str) -> float:
    """``0.1%`` -> Share(0.001); ``0.5`` -> 0.5; a number as it is; UsageError."""
    if not isinstance(text, str):
        return text
    number = text.strip()
    try:
        return Share(share(number)) if number.endswith("%") else float(number)
    except (ValueError, UsageError):
        raise UsageError(
            f"{text!r} is not a tolerance; write for example 0.1%, or 0 for none"
        ) from None


def converged(perplexities: Sequence[float], tol: float, passes: int, least: int) -> bool:
    """Running perplexity changed by less than ``tol``, after ``least`` passes at least: a share
    over the last SPAN passes, a plain number from pass to pass, in two passes in a row.
    """
    p = perplexities
    if tol <= 0 or passes < least:
        return False
    if isinstance(tol, Share):
        return len(p) > SPAN and abs(p[-1] - p[-1 - SPAN]) < tol * p[-1]
    return len(p) > 2 and abs(p[-1] - p[-2]) < tol and abs(p[-2] - p[-3]) < tol


def risen(measured: Sequence[tuple[int, float]], tol: float) -> bool:
    """Whether held-out perplexity, measured after some passes, has found no new low by ``tol`` in
    the last SPAN passes and the last two measurements.
    """
    if tol <= 0 or len(measured) < 3:
        return False
    since = min(measured[-1][0] - SPAN, measured[-3][0])
    before = [value for number, value in measured if number <= since]
    if not before:
        return False
    least = min(before)
    threshold = least - (tol * least if isinstance(tol, Share) else tol)
    return min(value for number, value in measured if number > since) > threshold


class Signals:
    """First SIGINT or SIGTERM: ``asked`` becomes its number.  Second: the process stops at once."""

    def __init__(self) -> None:
        self.asked = 0

    def _handle(self, signum: int, frame: object) -> None:
        if self.asked:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.asked = signum

    def heed(self) -> None:
        """Interrupted where a signal came in work that no checkpoint can hold."""
        if self.asked:
            raise Interrupted(
                "stopped by a signal; the same command resumes from the last checkpoint, or "
                "starts again where there is none",
                self.asked,
            )

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
