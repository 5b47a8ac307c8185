"""What a run records in its folder: what it is, how its passes did, and why it ended.

``training.json`` is written before the first pass, and only the same run may continue it;
``history.jsonl`` has a line a pass, the start's with ``pass`` 0; ``finished.json`` is for the same
command given again.

How far topics moved in a pass, for runs that stop when they move no more (``--tol-params``).

The topics after a pass lie in a file of the work folder, float32, and are read again some rows at
a time: no second table is held. A checkpoint within the next pass refers to the file as to block
state, so a run that was killed compares the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import read_sealed, sealed_line, write_bytes
from topicstream.base.files.ownership import refuse_strangers
from topicstream.base.memory import Array
from topicstream.base.options import flags
from topicstream.base.records import Count, Record, plain, read_record, write_record
from topicstream.engines import find
from topicstream.engines.base import option_fields
from topicstream.model.seeds import SeedEntry
from topicstream.model.store import as_pass
from topicstream.numeric.tables.table import Table
from topicstream.training.config import TrainConfig
from topicstream.training.stopping import Share, Stopping, tolerance

RUN = "training.json"
HISTORY = "history.jsonl"
FINISHED = "finished.json"
RUN_FILES = (RUN, HISTORY, FINISHED)
RUN_FOLDERS = ("checkpoints", "work")
RECORDED = {f.name: f for f in fields(TrainConfig) if f.metadata.get("recorded")}


class RunRecord(Record, frozen=True, kw_only=True):
    """``training.json``: everything that the result depends on.  ``versions`` are compared with a
    warning, the rest must be equal.

    The fields from ``aim`` to ``weighting`` are the settings of ``TrainConfig`` that are recorded,
    as they were resolved.
    """

    schema: Literal[1] = 1
    engine: str
    cites: str
    options: dict[str, Any]
    aim: str = "prediction"
    topics: int
    seed: int
    start: str
    warm: str | None = None
    seed_words: list[SeedEntry] | None = None
    sample: float | None = None
    weighting: str = "none"
    layout: dict[str, int]
    corpus: str
    versions: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> RunRecord | None:
        """That of the run in a folder, None where there is none or it has nothing yet to continue;
        StoreError for a damaged one.
        """
        exists = (folder / RUN).exists() and (
            (folder / "manifest.json").exists() or any(folder.glob("checkpoints/[0-9]*-[0-9]*"))
        )
        return (
            read_record(folder / RUN, cls, "Restore the file, or use --force to start over")
            if exists
            else None
        )

    def write(self, folder: Path) -> None:
        """Put it into the folder of the run."""
        write_record(folder / RUN, self)


def left_open(folder: Path, algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the corpus or other options decide and that ``given`` does not name, as the run
    in the folder has them, if it is one of ``algo`` (``auto``: any): it continues with what was
    decided when it began.
    """
    run = RunRecord.read(folder)
    if run is None or algo not in ("auto", run.engine):
        return {}
    try:
        known = option_fields(find(run.engine).Options)
    except TopicsError:  # of another version: the run is refused where it is compared
        return {}
    decided = [name for name, field in known.items() if field.metadata.get("decided")]
    return {k: run.options[k] for k in decided if k in run.options and given.get(k) is None}


def begun_from(folder: Path, engine: str) -> str | None:
    """The start of the run in the folder, if it is one of this engine: what a command means that
    names none, whatever the default is by now.
    """
    run = RunRecord.read(folder)
    return run.start if run is not None and run.engine == engine and run.start != "warm" else None


def same_or_refuse(
    folder: Path,
    record: RunRecord,
    compacted: Callable[[str], bool] = lambda fingerprint: False,
) -> list[str]:
    """Compare a run with the one in the folder.

    Parameters
    ----------
    compacted
        Whether a fingerprint is that of the present corpus before it was compacted.

    Returns
    -------
    Warnings where only versions differ; nothing where the folder holds no run.

    Raises
    ------
    TopicsError
        With every difference.
    """
    before = RunRecord.read(folder)
    if before is None:
        return []
    shown = {
        "engine": "--algo",
        **{name: flags(f)[0] for name, f in RECORDED.items()},
        "layout": "block layout",
    }
    old = plain(before)
    new = plain(record)
    differ: list[str] = []
    for name, flag in shown.items():
        if old[name] != new[name]:
            long = isinstance(old[name], list) or isinstance(new[name], list)
            differ.append(f"{flag} {'other ones' if long else f'{old[name]} -> {new[name]}'}")
    if before.engine == record.engine:
        had = old["options"]
        differ += [
            f"--{k.replace('_', '-')} {had.get(k, 'unknown')} -> {v}"
            for k, v in new["options"].items()
            if k not in had or had[k] != v
        ]
    if before.corpus != record.corpus:
        other = f" (`--start warm --warm {folder} --model OTHER` continues from its topics)"
        differ.append(
            "the corpus was compacted since, and this run's state is of the blocks that it had"
            + other * (folder / "manifest.json").exists()
            if compacted(before.corpus)
            else "the corpus has changed (another fingerprint)"
        )
    if differ:
        raise TopicsError(
            f"{folder} contains a run with other settings: {'; '.join(differ)}. Use --force to "
            f"start over, or another --model"
        )
    versions = [
        f"{k} {before.versions.get(k)} -> {v}"
        for k, v in record.versions.items()
        if before.versions.get(k) != v
    ]
    return (
        [
            f"resuming under other versions ({'; '.join(versions)}): the result may differ in "
            f"the last bits"
        ]
        if versions
        else []
    )


class History:
    """``history.jsonl`` and its latest record, ``last`` (empty before the first)."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / HISTORY
        self.last: dict[str, Any] = {}

    def rewind(self, passes: int, needs_start: bool) -> list[str]:
        """Keep the lines of the first ``passes`` passes (and of the start, unless it is to be made
        again).

        What was written after the checkpoint that a run resumes from is lost.  Returns what to say
        of lines that are damaged, which are left out, and of passes that have no line.
        """
        records, damaged = read_sealed(self._path)
        kept = []
        for record in records:
            named = as_pass(record, self._path.parent)
            if named["pass"] <= passes and (named["pass"] > 0 or not needs_start):
                kept.append(record)
                self.last = named
        write_bytes(self._path, "".join(map(sealed_line, kept)).encode(), durable=False)
        last = self.last.get("pass", 0)
        if last < passes:
            damaged.append(f"{self._path}: ends with pass {last} of {passes}; the others are lost")
        return damaged

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a pass."""
        self.last = dict(record)
        with open(owned.reserve(self._path, keep=True), "ab") as f:
            f.write(sealed_line(self.last).encode())


class Outcome(Record, frozen=True, kw_only=True, omit_defaults=True):
    """``finished.json``: how a run ended.

    passes: of the model; made: where the model is that of the best pass, those behind it counted
    too; tol, tol_params: 0 where no change stopped it.
    """

    passes: Count
    reason: str
    tol: float | str = 0.0
    made: Count = 0
    tol_params: float = 0.0

    @classmethod
    def of(cls, passes: int, reason: str, made: int, stopping: Stopping) -> Outcome:
        """The outcome of a run under ``stopping``."""
        tol = str(stopping.tol) if isinstance(stopping.tol, Share) else stopping.tol
        return cls(
            passes=passes,
            reason=reason,
            tol=tol,
            made=made if made > passes else 0,
            tol_params=stopping.tol_params,
        )

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """What the run in ``folder`` left when it ended; None: it has not."""
        path = folder / FINISHED
        return read_record(path, cls, "Start over with --force") if path.exists() else None

    def write(self, folder: Path) -> None:
        """Leave it."""
        write_record(folder / FINISHED, self)

    def covers(self, stopping: Stopping) -> bool:
        """Whether a run that converged so had converged under these tolerances too."""
        tol = tolerance(self.tol)
        same = isinstance(stopping.tol, Share) == isinstance(tol, Share) and stopping.tol >= tol > 0
        return same or stopping.tol_params >= self.tol_params > 0


def free_disk(folder: Path) -> int:
    """Bytes that a run may take: those that are free where the folder lies, and those that it takes
    there already.
    """
    free = shutil.disk_usage(
        next(p for p in (folder, *folder.absolute().parents) if p.exists())
    ).free
    return free + sum(
        512 * p.stat().st_blocks
        for name in RUN_FOLDERS
        for p in (folder / name).rglob("*")
        if p.is_file()
    )


def forget_runs(folder: Path) -> None:
    """Remove what a run left in a model folder, but not the model itself (the new one replaces it
    when it is done).
    """
    refuse_strangers(folder)
    for name in RUN_FOLDERS:
        owned.remove_within(folder / name)
    for name in RUN_FILES:
        owned.remove_file(folder / name, missing_ok=True)


STEP = 1 << 18  # probabilities at a time
FILES = 3  # of this pass, of the one before, and of a checkpoint's


def settled_bytes(words: int, topics: int) -> int:
    """Of disk."""
    return FILES * Array((words, topics), np.float32).nbytes


def topics_file(work: Path, number: int) -> Path:
    """Of the topics after that pass."""
    return work / f"topics-{number:06d}.bin"


def topics_moved(work: Path, number: int, table: Table, beta: float) -> float | None:
    """The largest change of any p(word | topic) since the pass before, None where its topics are
    not there; keeps those of this pass.
    """
    (words, topics) = (table.n_rows, table.columns)
    before = topics_file(work, number - 1)
    largest = 0.0
    known = before.exists() and before.stat().st_size == Array((words, topics), np.float32).nbytes
    totals = np.maximum(table.totals[:topics] + words * beta, 1e-300)
    step = max(1, STEP // topics)
    with (
        owned.create(topics_file(work, number)) as new,
        open(before if known else os.devnull, "rb") as old,
    ):
        for _, rows in table.pieces():
            for i in range(0, len(rows), step):
                p = ((rows[i : i + step, :topics] + beta) / totals).astype(np.float32)
                p.tofile(new)
                if known:
                    largest = max(
                        largest,
                        float(
                            np.abs(p - np.fromfile(old, np.float32, p.size).reshape(p.shape)).max()
                        ),
                    )
    return largest if known else None


def forget_topics(work: Path, needed: set[str]) -> None:
    """Remove the files but those that are needed."""
    for path in work.glob("topics-*.bin"):
        if path.name not in needed:
            owned.remove_file(path)
