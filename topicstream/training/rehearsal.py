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
"""Seconds for which the start and the passes are timed, but at least two rounds of each."""
PASSES = 3
"""Most passes that are timed."""


class PlanOnly(Progress):
    """Progress that shows the lines of the plan, and nothing of the passes."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._planned = False

    def say(self, line: str) -> None:
        if not self._planned:
            self._shown.say(line)

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
    parent = next(p for p in folder.parents if p.is_dir())
    quiet = PlanOnly(listener(config.progress, screen_listener))
    with tempfile.TemporaryDirectory(dir=parent, prefix="topics-dry-run-") as temporary:
        model = Path(temporary) / "model"
        yield replace(config, model=model, force=False, resume=False, progress=quiet)


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
        """Note the end of a round, and stop after some seconds."""
        ends.append(time.monotonic())
        return len(ends) < 2 or ends[-1] - ends[0] < SECONDS

    def time_work(work: Callable[[Callable[[int], bool]], object]) -> float:
        """Run a start or a pass for some seconds, and estimate the seconds of all its rounds."""
        ends.clear()
        began = time.monotonic()
        work(pause)
        if not 0 < len(ends) < rounds:
            return time.monotonic() - began
        # the first round also takes kernels and memory, and a start learns topics before it, on a
        # sample of bounded size
        round_seconds = (ends[-1] - ends[0]) / (len(ends) - 1)
        return ends[0] - began + round_seconds * (rounds - 1)

    start = time_work(session.run_pass)
    passes = list[float]()
    if session.needs_start:
        passes.append(time_work(partial(_visit_again, session)))
    else:
        while not passes or (len(passes) < PASSES and sum(passes) < SECONDS):
            passes.append(time_work(session.run_pass))
    expected = start + stopping.passes * passes[-1]
    if stopping.max_time is not None:
        expected = min(expected, stopping.max_time + passes[-1])
    effort = session.executor.effort().get("cluster", {})
    return {
        **{name: effort[name] for name in ("workers", "speedup") if effort},
        "memory_bytes": session.plan.memory.total,
        "disk_bytes": sum(session.plan.disk.values()),
        "passes": stopping.passes,
        "start_seconds": start,
        "pass_seconds": passes[-1],
        "expected_seconds": expected,
    }


def _visit_again(session: Session, pause: Callable[[int], bool]) -> None:
    """Visit the blocks of an unfinished start once more, as a pass does."""
    run = session.run
    runner = session.runner
    memories = session.memories
    order = run.grid.order(session.engine.phases[0].order, run.record.seed, 0)
    started = order[: session.rounds * runner.round_blocks]
    memories.end_pass()
    memories.begin_pass(1, set())
    runner.run(
        Pass(
            1,
            started,
            session.params,
            session.stats,
            old=memories.held.get("old"),
            new=memories.held.get("new"),
            after_round=lambda rounds, cells: pause(rounds),
        )
    )
