"""``train --dry-run``: the plan of memory and disk, and the time, measured on the first seconds of the real training in a
folder that goes away again."""

from __future__ import annotations

import time
from typing import Any

from topicstream.progress import Progress
from topicstream.training.session import Session
from topicstream.training.stopping import Stopping

SECONDS = 5.0
"""How long is trained to know how fast it is; the first round is always finished."""
PASSES = 3
"""Passes after which it is known."""


class PlanOnly(Progress):
    """Tells the lines of the plan, nothing of the passes."""

    def __init__(self, to: Progress) -> None:
        self._to, self._planned = to, False

    def say(self, line: str) -> None:
        if not self._planned:
            self._to.say(line)

    def step(self, what: str, done: int = 0, total: int | None = None, unit: str = "", documents: int = 0) -> None:
        self._planned |= unit == "cell"  # the first pass begins


def rehearse(session: Session, stopping: Stopping) -> dict[str, Any]:
    """Train for a few seconds: ``memory_bytes``, ``disk_bytes`` (of the plan), ``passes`` (at most), ``start_seconds``,
    ``pass_seconds`` and ``expected_seconds`` of the whole run.  The first passes are slower than the later ones."""
    began, blocks = time.monotonic(), max(1, len(session.grid))
    whole: list[float] = []
    part = None
    while len(whole) <= PASSES and (not whole or time.monotonic() - began < SECONDS):
        at = time.monotonic()
        if session.run_pass(stopping, lambda rounds: time.monotonic() - began < SECONDS):
            whole.append(time.monotonic() - at)
            continue
        share = min(1.0, session.rounds * session.runner.round_blocks / blocks)
        part = (time.monotonic() - at) / max(share, 1e-9)
        break
    start = whole[0] if whole else part or 0.0
    each = part if part is not None and len(whole) < 2 else whole[-1]
    expected = start + stopping.passes * each
    return {
        "memory_bytes": session.plan.total,
        "disk_bytes": sum(session.plan.disk.values()),
        "passes": stopping.passes,
        "start_seconds": start,
        "pass_seconds": each,
        "expected_seconds": expected if stopping.max_time is None else min(expected, stopping.max_time + each),
    }
