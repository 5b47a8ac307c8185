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
    """The rules by which a run ends.

    Attributes
    ----------
    passes
        Most passes.
    tol
        Tolerance of perplexity. 0: never stop by it.
    tol_params
        Stop when no probability of a word moves by more in a pass. 0: never.
    max_time
        Seconds after which no pass begins.
    eval_every
        Passes between measurements of held-out perplexity, which then decides instead of the
        running one, and whose best pass is kept. 0: never.
    least
        Passes before running perplexity may decide.
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
# out 3.4 % above 200 passes at pass 41). So a run makes as many passes first as visit CELLS cells,
# some seconds' work, but no more than LONG (docs/internals/decisions/stopping.md)
CELLS = 20_000_000
LONG = 100
# passes over which changes are judged: engines that consider inactive topics every few passes
# improve in steps
SPAN = 10


def tolerance(text: float | str) -> float:
    """Parse a tolerance: "0.1%" is Share(0.001), "0.5" is 0.5.

    Numbers are returned as they are.

    Raises
    ------
    UsageError
        The text is neither a number nor a percentage.
    """
    if not isinstance(text, str):
        return text
    number = text.strip()
    try:
        return Share(share(number)) if number.endswith("%") else float(number)
    except (ValueError, UsageError):
        raise UsageError(
            f"{text!r} is not a tolerance; write for example 0.1%, or 0 for none"
        ) from None


def converged(
    perplexities: Sequence[float], tol: float, passes: int, least: int, window: int = 1
) -> bool:
    """Tell whether running perplexity changed by less than ``tol``.

    A share counts over SPAN passes, a plain number from pass to pass, two passes in a row.

    Parameters
    ----------
    passes, least
        Passes done, and those before which the answer is False.
    window
        Passes whose mean a share compares, because the perplexity of a stochastic pass varies by
        the order of its documents.
    """
    p = perplexities
    if tol <= 0 or passes < least:
        return False
    if isinstance(tol, Share):
        if len(p) < SPAN + window:
            return False
        latest = sum(p[-window:]) / window
        earlier = sum(p[len(p) - SPAN - window : len(p) - SPAN]) / window
        return abs(latest - earlier) < tol * latest
    return len(p) > 2 and abs(p[-1] - p[-2]) < tol and abs(p[-2] - p[-3]) < tol


def has_stalled(measured: Sequence[tuple[int, float]], tol: float) -> bool:
    """Tell whether held-out perplexity has no new low by ``tol``.

    Both the last SPAN passes and the last two measurements count.

    Parameters
    ----------
    measured
        Pairs of a pass and its held-out perplexity.
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
    """A watch for SIGINT and SIGTERM.

    The first one is recorded. The second one ends the process at once.

    Attributes
    ----------
    received
        Number of the first signal, 0 before.
    """

    def __init__(self) -> None:
        self.received = 0

    def _handle(self, signum: int, frame: object) -> None:
        """Record the first signal, and let the second one end the process."""
        if self.received:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
        self.received = signum

    def check(self) -> None:
        """Interrupt work that no checkpoint can hold.

        Raises
        ------
        Interrupted
            A signal has come.
        """
        if self.received:
            raise Interrupted(
                "stopped by a signal; the same command resumes from the last checkpoint, or "
                "starts again where there is none",
                self.received,
            )

    @contextlib.contextmanager
    def watch(self) -> Iterator[Signals]:
        """Watch for signals while the block runs, if it runs in the main thread."""
        before: dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            for number in (signal.SIGINT, signal.SIGTERM):
                before[int(number)] = signal.signal(number, self._handle)
        try:
            yield self
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
