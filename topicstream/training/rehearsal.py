"""``train --dry-run``: the plan of memory and disk, and the expected time.

The time is measured on the first seconds of the real training, in a temporary folder.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from topicstream.base.progress import Progress, listener, screen_listener
from topicstream.base.records import Json
from topicstream.training.config import TrainConfig
from topicstream.training.passes import Pass
from topicstream.training.session import Session

SECONDS = 5.0
"""Seconds for which blocks of the start and of the passes are timed, at least two rounds each."""
PASSES = 3
"""Passes after which it is known."""


class PlanOnly(Progress):
    """Tells the lines of the plan, nothing of the passes."""

    def __init__(self, to: Progress) -> None:
        self._to = to
        self._planned = False

    def say(self, line: str) -> None:
        if not self._planned:
            self._to.say(line)

    def step(
        self,
        phase: str,
        done: int = 0,
        total: int | None = None,
        unit: str = "",
        documents: int = 0,
    ) -> None:
        self._planned |= unit == "cell"  # the first pass begins


@contextlib.contextmanager
def rehearsal_config(config: TrainConfig) -> Iterator[TrainConfig]:
    """Yield the configuration with a temporary model folder beside that of the run."""
    folder = Path(config.model).absolute()
    near = next(p for p in folder.parents if p.is_dir())
    quiet = PlanOnly(listener(config.progress, screen_listener))
    with tempfile.TemporaryDirectory(dir=near, prefix="topics-dry-run-") as place:
        yield replace(
            config, model=Path(place) / "model", force=False, resume=False, progress=quiet
        )


def rehearse(session: Session) -> dict[str, Json]:
    """Train for a few seconds and estimate the cost of the whole run.

    The first passes are slower than the later ones, so the estimate is high.

    Returns
    -------
    dict
        ``memory_bytes`` and ``disk_bytes`` of the plan, ``passes`` (at most), ``start_seconds``,
        ``pass_seconds`` and ``expected_seconds`` of the whole run. On a cluster also ``workers``,
        and ``speedup`` over one worker.
    """
    stopping = session.run.stopping
    ends = list[float]()
    rounds = -(-len(session.run.grid) // session.runner.round_blocks)

    def pause(_: int) -> bool:
        ends.append(time.monotonic())
        return len(ends) < 2 or ends[-1] - ends[0] < SECONDS

    def seconds_of(work: Callable[[Callable[[int], bool]], object]) -> float:
        ends.clear()
        began = time.monotonic()
        work(pause)
        if not 0 < len(ends) < rounds:
            return time.monotonic() - began
        # the first round brings kernels and memory, and the start learns topics before it: on a
        # sample of bounded size
        a_round = (ends[-1] - ends[0]) / (len(ends) - 1)
        return ends[0] - began + a_round * (rounds - 1)

    start = seconds_of(session.run_pass)
    passes = list[float]()
    a_pass = partial(_visit_again, session) if session.needs_start else session.run_pass
    while not passes or (
        len(passes) < PASSES and sum(passes) < SECONDS and not session.needs_start
    ):
        passes.append(seconds_of(a_pass))
    expected = start + stopping.passes * passes[-1]
    effort = session.executor.effort().get("cluster", {})
    return {
        **{name: effort[name] for name in ("workers", "speedup") if effort},
        "memory_bytes": session.plan.memory.total,
        "disk_bytes": sum(session.plan.disk.values()),
        "passes": stopping.passes,
        "start_seconds": start,
        "pass_seconds": passes[-1],
        "expected_seconds": expected
        if stopping.max_time is None
        else min(expected, stopping.max_time + passes[-1]),
    }


def _visit_again(session: Session, pause: Callable[[int], bool]) -> None:
    """Visit the blocks of a start that is not finished as a pass does."""
    run = session.run
    runner = session.runner
    memories = session.memories
    order = run.grid.order(session.engine.phases[0].order, run.record.seed, 0)[
        : session.rounds * runner.round_blocks
    ]
    memories.end_pass()
    memories.begin(1, set())
    again = Pass(
        1,
        order,
        session.params,
        session.stats,
        old=memories.held.get("old"),
        new=memories.held.get("new"),
    )
    again.after_round = lambda done, _: pause(done)
    runner.run(again)
