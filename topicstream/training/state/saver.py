"""When and how a run's state reaches the disk: between passes, for at most 5 % of the run's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from topicstream.tables.table import Table
from topicstream.training.state.checkpoint import State, checkpoints, read_listing, remove_before, write_checkpoint

SHARE = 0.05  # of the run's time that writing checkpoints may take


class Saver:
    """Writes the checkpoints of one run, each durable before it counts, and removes those that it makes needless.

    latest   name of the last checkpoint that is on disk
    last     when it was, by the monotonic clock
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder, self._work = folder, work
        self._pinned = ""
        self._memory: dict[str, set[str]] = {}  # files of block state that each checkpoint refers to
        self.latest, self.last, self._cost = "", time.monotonic(), 0.0

    def adopt(self) -> None:
        """The checkpoints that an earlier command left count."""
        self._memory = {place.name: set(read_listing(place).facts.memory.values()) for place in checkpoints(self._folder)}
        self.latest = max(self._memory, default="")

    @property
    def needed(self) -> set[str]:
        """Files of block state that a checkpoint refers to."""
        return set().union(*self._memory.values())

    def end_pass(self, state: Callable[[], State], tables: Mapping[str, Table], final: bool, pin: bool = False) -> None:
        """A checkpoint at the end of a pass; left out when the last one cost more than 5 % of the time since (passes that short
        are cheaper to repeat than to save).  ``final``: written in any case;  ``pin``: written, and kept until another is pinned."""
        if not (final or pin) and time.monotonic() - self.last < self._cost / SHARE:
            return
        began = time.monotonic()
        present = state()  # members of a cluster bring block state to the disk
        if pin:
            self.pin(present.name)
        self.save(present, tables, {}, began)

    def pin(self, name: str) -> None:
        """Keep this checkpoint, and not the one that was pinned before."""
        self._pinned = name

    def save(
        self, state: State, tables: Mapping[str, Table], successors: Mapping[str, Table], began: float | None = None
    ) -> None:
        """Write a checkpoint; began: when that began, by the monotonic clock, if not now."""
        began = time.monotonic() if began is None else began
        every = {**tables, **{f"{name}.next": table for name, table in successors.items()}}
        files = set(state.facts.memory.values())
        try:
            writers = {name: table.save for name, table in every.items()}
            write_checkpoint(self._folder, state, writers, [self._work / name for name in files])
            remove_before(self._folder, {state.name, self._pinned})
            self._memory = {name: held for name, held in self._memory.items() if name == self._pinned} | {state.name: files}
            self.latest = state.name
        finally:
            self.last = time.monotonic()
            self._cost = self.last - began
