"""Checkpoints: the whole state of a run at the end of a pass, or between two rounds.

``checkpoints/P-R/`` (P passes done, R rounds of the next) holds ``state.json``, ``arrays.npz`` and
one raw file a table. It is written beside, brought to the disk and renamed, state last; only then
are older checkpoints removed. Writing them takes at most 5 % of the run's time.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import field

from topicstream.base.errors import NotOurs, StoreError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import file_problem, size_and_crc, sync
from topicstream.base.files.marker import list_paths
from topicstream.base.files.plain import load_arrays
from topicstream.base.records import Count, Crc, Record, read_record, write_record
from topicstream.numeric.tables.table import Table

_NAME = re.compile(r"\d{6}-\d{6}")
_OURS = re.compile(r"\d{6}-\d{6}|\.\d{6}-\d{6}\.(tmp|old)")
RESTART = "Start over with --force"
SHARE = 0.05  # of the run's time that writing checkpoints may take


class Facts(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Plain values of a run between two rounds.

    Attributes
    ----------
    needs_start
        True until the start is done.
    scales
        Scales of BLEND tables.
    perplexities
        Running perplexities of the latest passes.
    heldout
        Pairs of pass and held-out perplexity.
    pass_seconds
        Seconds spent on the current pass.
    memory
        Files of block memory in the work folder, ``old`` (of the last pass) and ``new``.
    memory_digest
        Digest of the content of the old one.
    """

    needs_start: bool
    scales: dict[str, float]
    perplexities: list[float]
    pass_seconds: float
    memory: dict[str, str]
    memory_digest: str
    heldout: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in self.memory.values():
            if name != os.path.basename(name) or name in ("", ".", "..") or "\0" in name:
                raise ValueError("memory: not names of files")


class Listing(Record, frozen=True, kw_only=True):
    """The contents of ``state.json``.

    Attributes
    ----------
    passes
        Passes done.
    rounds
        Rounds done of the next pass.
    files
        Size and crc32c of every other file, by name.
    facts
        Plain values of the run.
    """

    schema: Literal[1] = 1
    passes: Count
    rounds: Count
    files: dict[str, tuple[Count, Crc]]
    facts: Facts

    def __post_init__(self) -> None:
        outside = any("/" in name or "\0" in name for name in self.files)
        if outside or "arrays.npz" not in self.files:
            raise ValueError("files: not those of a checkpoint")


@dataclass
class State:
    """The contents of a checkpoint beside the tables.

    Attributes
    ----------
    passes
        Passes done (0: only the start).
    rounds
        Rounds done of the next pass.
    arrays
        Small arrays by name: params, totals, statistics so far, memory indexes.
    facts
        Plain values of the run.
    """

    passes: int
    rounds: int
    arrays: dict[str, np.ndarray]
    facts: Facts

    @property
    def name(self) -> str:
        """Return the folder's name, which sorts in the order of work done."""
        return checkpoint_name(self.passes, self.rounds)

    def checked_params(
        self, path: Path, expected: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the parameters by name, checked against those of the engine.

        Parameters
        ----------
        path
            Folder of the checkpoint, for the message.
        expected
            Parameters of the shapes that the engine has.

        Raises
        ------
        StoreError
            If a parameter is missing, of another shape or not a number.
        """
        params = {
            name.removeprefix("param."): array.copy()
            for name, array in self.arrays.items()
            if name.startswith("param.")
        }
        for name, value in expected.items():
            least = 0.0 if name in ("alpha", "beta") else -np.inf
            param = params.get(name)
            # NaN is not >= anything
            if param is None or param.shape != value.shape or not (param >= least).all():
                raise StoreError(
                    f"{path}: parameter {name} is missing, of another shape or not a number. "
                    f"{RESTART}"
                )
        return params


def checkpoint_name(passes: int, rounds: int = 0) -> str:
    """Name the folder of a checkpoint."""
    return f"{passes:06d}-{rounds:06d}"


def write_checkpoint(
    folder: Path, state: State, tables: Mapping[str, Table], memory: Sequence[Path]
) -> Path:
    """Write one durable checkpoint under ``folder`` and return its path.

    Parameters
    ----------
    tables
        Tables by role.
    memory
        Files of block state that it refers to.
    """
    beside = folder / f".{state.name}.tmp"
    final = folder / state.name
    owned.remove_within(beside)
    beside.mkdir(parents=True)
    try:
        files: dict[str, tuple[int, int]] = {}
        for role, table in tables.items():
            list_paths(beside / f"{role}.rows")
            table.save(beside / f"{role}.rows")
        buffer = io.BytesIO()
        np.savez(buffer, **state.arrays)  # type: ignore[arg-type]
        with owned.create(beside / "arrays.npz") as f:
            f.write(buffer.getbuffer())
        for path in sorted(beside.iterdir()):
            files[path.name] = size_and_crc(path)
            sync(path)
        listing = Listing(passes=state.passes, rounds=state.rounds, files=files, facts=state.facts)
        write_record(beside / "state.json", listing)
        for path in memory:
            sync(path)
        _discard(final)
        owned.move_folder(beside, final)
        sync(folder)
    except BaseException:
        with contextlib.suppress(OSError, NotOurs):
            owned.remove_within(beside)
        raise
    return final


def _discard(path: Path) -> None:
    """Remove a checkpoint, hidden first so that a partial one never looks whole."""
    if not path.name.startswith(".") and path.exists():
        hidden = path.with_name(f".{path.name}.old")
        owned.remove_within(hidden)
        owned.move_folder(path, hidden)
        path = hidden
    owned.remove_within(path)


def list_checkpoints(folder: Path) -> list[Path]:
    """List the finished checkpoints, the latest last."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir())


def remove_others(folder: Path, keep: set[str]) -> None:
    """Remove all checkpoints but those named, and what an interrupted write left."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in keep and _OURS.fullmatch(path.name) and not path.is_symlink():
                _discard(path)


def read_listing(path: Path) -> Listing:
    """Read the contents list of a checkpoint.

    Raises
    ------
    StoreError
        If it is missing or damaged.
    """
    return read_record(path / "state.json", Listing, RESTART)


def read_checkpoint(path: Path) -> State:
    """Read state and arrays, verifying the size and checksum of every file.

    Raises
    ------
    StoreError
        Naming what is damaged.
    """
    listing = read_listing(path)
    for name, (size, crc) in listing.files.items():
        advice = f"remove {path} to go back to the checkpoint before it"
        problem = file_problem(path / name, size, crc, advice)
        if problem is not None:
            raise StoreError(problem)
    return State(listing.passes, listing.rounds, load_arrays(path / "arrays.npz"), listing.facts)


class Saver:
    """Writer of the checkpoints of one run, each durable before it counts.

    It removes the checkpoints that a new one makes obsolete.

    Attributes
    ----------
    latest
        Name of the last checkpoint on disk.
    pinned
        Name of one that is kept whatever follows, or "".
    last
        Time of the last checkpoint, by the monotonic clock.
    """

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder = folder
        self._work = work
        self.pinned = ""
        # files of block state, by the checkpoint that refers to them
        self._memory: dict[str, set[str]] = {}
        self.latest = ""
        self.last = time.monotonic()
        self._cost = 0.0

    def adopt(self) -> None:
        """Adopt the checkpoints of an earlier command and remove its unfinished ones."""
        self._memory = {
            path.name: set(read_listing(path).facts.memory.values())
            for path in list_checkpoints(self._folder)
        }
        self.latest = max(self._memory, default="")
        remove_others(self._folder, set(self._memory))

    @property
    def needed(self) -> set[str]:
        """Return the files of block state that a checkpoint refers to."""
        return set().union(*self._memory.values())

    def end_pass(
        self,
        state: Callable[[], State],
        tables: Mapping[str, Table],
        final: bool,
        pin: bool = False,
    ) -> None:
        """Write a checkpoint at the end of a pass, unless that would cost too much.

        It is skipped if the last one cost more than 5 % of the time since: passes that short are
        cheaper to repeat than to save.

        Parameters
        ----------
        state
            Makes the state to write; called only if a checkpoint is written.
        tables
            Tables by role.
        final
            Write it in any case.
        pin
            Write it in any case, and keep it until another is pinned.
        """
        if not (final or pin) and time.monotonic() - self.last < self._cost / SHARE:
            return
        began = time.monotonic()
        present = state()  # members of a cluster bring block state to the disk
        if pin:
            self.pinned = present.name
        self.save(present, tables, began)

    def save(self, state: State, tables: Mapping[str, Table], began: float | None = None) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        tables
            See ``write_checkpoint``.
        began
            Start of the work by the monotonic clock. None: now.
        """
        began = time.monotonic() if began is None else began
        files = set(state.facts.memory.values())
        try:
            write_checkpoint(self._folder, state, tables, [self._work / name for name in files])
            remove_others(self._folder, {state.name, self.pinned})
            pinned = {name: old for name, old in self._memory.items() if name == self.pinned}
            self._memory = pinned | {state.name: files}
            self.latest = state.name
        finally:
            self.last = time.monotonic()
            self._cost = self.last - began
