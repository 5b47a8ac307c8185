"""``train --dry-run``: the plan of memory and disk, and the time, measured on the first seconds of the real training in a
folder that goes away again."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from topicstream.progress import Progress, Shown, listener
from topicstream.records import Json
from topicstream.training.config import TrainConfig
from topicstream.training.session import Session

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


@contextlib.contextmanager
def beside(config: TrainConfig) -> Iterator[TrainConfig]:
    """The configuration with a model folder beside that of the run, which goes away again."""
    folder = Path(config.model).absolute()
    near = next(p for p in folder.parents if p.is_dir())
    quiet = PlanOnly(listener(config.progress, Shown))
    with tempfile.TemporaryDirectory(dir=near, prefix="topics-dry-run-") as place:
        yield replace(config, model=Path(place) / "model", force=False, resume=False, progress=quiet)


def rehearse(session: Session) -> dict[str, Json]:
    """Train for a few seconds: ``memory_bytes``, ``disk_bytes`` (of the plan), ``passes`` (at most), ``start_seconds``,
    ``pass_seconds`` and ``expected_seconds`` of the whole run; of a cluster also ``workers``, and ``speedup`` over one of them.  The first passes are slower than the later ones."""
    began, blocks, stopping = time.monotonic(), max(1, len(session.run.grid)), session.run.stopping
    whole: list[float] = []
    part = None
    while len(whole) <= PASSES and (not whole or time.monotonic() - began < SECONDS):
        at = time.monotonic()
        if session.run_pass(lambda rounds: time.monotonic() - began < SECONDS):
            whole.append(time.monotonic() - at)
            continue
        share = min(1.0, session.rounds * session.runner.round_blocks / blocks)
        part = (time.monotonic() - at) / max(share, 1e-9)
        break
    start = whole[0] if whole else part or 0.0
    each = part if part is not None and len(whole) < 2 else whole[-1]
    expected = start + stopping.passes * each
    effort = session.executor.effort().get("cluster", {})
    return {
        **{name: effort[name] for name in ("workers", "speedup") if effort},
        "memory_bytes": session.plan.memory.total,
        "disk_bytes": sum(session.plan.disk.values()),
        "passes": stopping.passes,
        "start_seconds": start,
        "pass_seconds": each,
        "expected_seconds": expected if stopping.max_time is None else min(expected, stopping.max_time + each),
    }
