"""When and how a run's state reaches the disk: in the background, one checkpoint in flight, at most 5 % of the time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from topicstream.files import owned
from topicstream.files.durable import read_json
from topicstream.training.state.checkpoint import State, checkpoints, remove_before, write_checkpoint

SPARE = "memory.scratch"  # swept like every *.scratch when a run that was killed goes on
SHARE = 0.05  # of the run's time that writing checkpoints may take, and again that fsync may take


class Saver:
    """Writes checkpoints of one run and removes those, and the block memory, that they make needless.

    held   called for the names of memory files in use, which are never removed
    spare  keep one needless memory file for the next pass to write over: its pages are there, and new ones cost ten times
           the copying into them.  Not where the system has long written them out and taken them back
    """

    def __init__(self, folder: Path, work: Path, held: Callable[[], set[str]], spare: bool = False) -> None:
        self._folder, self._work, self._held, self._spare = folder, work, held, spare
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._saving: Future[None] | None = None
        self._tables_written = threading.Event()
        self._tables_written.set()
        self._sync_cost, self._synced_at = 0.0, 0.0
        self._write_cost, self._written_at = 0.0, 0.0
        self._durable_name = ""
        self._durable_memory: set[str] = set()
        self._in_flight: set[str] = set()  # memory of the checkpoint being written, or of the last one
        self._kept: set[str] = set()  # memory of all that have been written
        self._pinned, self._pinned_memory = "", set[str]()  # a checkpoint that stays until another is pinned
        self.last = time.monotonic()

    def tables_free(self) -> None:
        """Wait until no checkpoint is reading the tables: they may be changed again."""
        self._tables_written.wait()

    def soon(self, state: Callable[[], State], tables: Mapping[str, Any], final: bool, pin: bool = False) -> None:
        """A checkpoint at the end of a pass, in the background; left out when the last one still runs, or cost more than
        5 % of the time since (passes that short are cheaper to repeat than to save).  ``final``: made, and waited for;
        ``pin``: made, and kept until another is pinned."""
        now = time.monotonic()
        if not (final or pin):
            if self._saving is not None and not self._saving.done():
                return
            if now - self._written_at < self._write_cost / SHARE:
                return
        self.wait()
        self._tables_written.clear()
        durable = final or now - self._synced_at > self._sync_cost / SHARE
        made = state()
        self._in_flight = set(made.facts["memory"].values())
        if pin:
            self.pin(made.name, self._in_flight)
        self._saving = self._pool.submit(self._save, made, dict(tables), {}, durable)
        if final:
            self.wait()

    def pin(self, name: str, memory: set[str]) -> None:
        """Keep this checkpoint, with its block memory, and not the one that was pinned before."""
        self._pinned, self._pinned_memory = name, set(memory)

    def now(self, state: State, tables: Mapping[str, Any], nexts: Mapping[str, Any]) -> None:
        """A durable checkpoint, written before this returns."""
        self.wait()
        self._tables_written.clear()
        self._in_flight = set(state.facts["memory"].values())
        self._save(state, tables, nexts, True)

    def is_durable(self, state_name: str) -> bool:
        """Whether the checkpoint of that name is on disk to stay."""
        return self._durable_name == state_name

    def _save(self, state: State, tables: Mapping[str, Any], nexts: Mapping[str, Any], durable: bool) -> None:
        began = time.monotonic()
        try:
            left = len(tables) + len(nexts)

            def writer(table: Any) -> Callable[[Path], None]:
                def save(path: Path) -> None:
                    nonlocal left
                    table.save(path)
                    left -= 1
                    if left == 0:
                        self._tables_written.set()

                return save

            writers = {name: writer(t) for name, t in tables.items()}
            writers |= {f"{name}.next": writer(t) for name, t in nexts.items()}
            files = set(state.facts["memory"].values())
            write_checkpoint(self._folder, state, writers, durable, [self._work / name for name in files])
            keep = {state.name, self._pinned}
            if durable:
                self._durable_name, self._durable_memory = state.name, files
                self._sync_cost, self._synced_at = time.monotonic() - began, time.monotonic()
            else:
                keep.add(self._durable_name)
                files = files | self._durable_memory
            remove_before(self._folder, keep)
            self.drop_memory(files | self._pinned_memory)
        finally:
            self._tables_written.set()
            self.last = self._written_at = time.monotonic()
            self._write_cost = self._written_at - began

    def drop_memory(self, keep: set[str] | None = None) -> None:
        """Remove block memory that neither a checkpoint nor the run refers to."""
        if keep is None:
            keep = set(self._durable_memory)
            for path in checkpoints(self._folder):
                keep |= set(read_json(path / "state.json")["facts"]["memory"].values())
        self._kept = set(keep)
        found = list(self._work.glob("memory-*.bin"))
        keep = keep | self._held()  # asked after the look: a file made in between is not in the list, or is held
        for path in found:
            if path.name not in keep:
                self._drop(path)

    def let_go(self, path: Path) -> None:
        """The run needs a memory file no more: removed at once when no checkpoint refers to it."""
        if path.name not in self._in_flight | self._kept:
            self._drop(path)

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._spare:
                owned.replace(path, self._work / SPARE)
            else:
                owned.remove_file(path)

    def take_spare(self, path: Path) -> bool:
        """Put a file that nothing refers to at ``path``, to be written over; False when there is none."""
        with contextlib.suppress(FileNotFoundError):
            if owned.shared(self._work / SPARE):  # in a backup made by links, which is not to change
                owned.remove_file(self._work / SPARE)
            else:
                owned.replace(self._work / SPARE, path)
                return True
        return False

    def wait(self) -> None:
        """Until the checkpoint in flight is written; raises what went wrong."""
        if self._saving is not None:
            saving, self._saving = self._saving, None
            saving.result()

    def close(self) -> None:
        """Wait and end the thread."""
        try:
            self.wait()
        finally:
            self._pool.shutdown(wait=True)
            owned.remove_file(self._work / SPARE, missing_ok=True)
