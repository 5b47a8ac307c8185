"""The records of a run in its folder: its settings, the figures of its passes, its end.

``training.json`` is written before the first pass, and only the same run may continue it.
``history.jsonl`` has a line a pass, the start's with ``pass`` 0. ``finished.json`` is read when the
same command is given again.

Also here: how far topics moved in a pass, for runs that stop when they move no more
(``--tol-params``). The topics after a pass lie in a file of the work folder, float32, and are read
again some rows at a time, so that no second table is in memory. A checkpoint within the next pass
refers to the file as to block state, so a run that was killed compares the same.
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
from topicstream.base.files.inventory import refuse_unlisted
from topicstream.base.memory import Array
from topicstream.base.options import flags
from topicstream.base.records import Count, Record, plain, read_record, write_record
from topicstream.engines import find
from topicstream.engines.base import option_fields
from topicstream.model.seeds import SeedEntry
from topicstream.model.store import check_history_line
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
    """The contents of ``training.json``: everything that the result depends on.

    A difference in ``versions`` is a warning, the rest must be equal. The fields from ``aim`` to
    ``weighting`` are the recorded settings of ``TrainConfig``, as they were resolved.
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
    covariates: str | None = None
    covariate_sd: float | None = None
    covariate_means: float = 1.0
    intercept_sd: float = 10.0
    layout: dict[str, int]
    corpus: str
    versions: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> RunRecord | None:
        """Read the record of the run in a folder, None without one to continue.

        Raises
        ------
        StoreError
            If the record is damaged.
        """
        path = folder / RUN
        if not path.exists():
            return None
        has_model = (folder / "manifest.json").exists()
        if not has_model and not any(folder.glob("checkpoints/[0-9]*-[0-9]*")):
            return None
        return read_record(path, cls, "Restore the file, or use --force to start over")

    def write(self, folder: Path) -> None:
        """Write ``training.json`` into the folder of the run."""
        write_record(folder / RUN, self)


def read_decided_options(
    folder: Path, algo: str, options_given: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the options that the run in the folder decided and ``options_given`` leaves open.

    Such options depend on the corpus or on other options. A run continues with the values of its
    beginning, provided that its engine is ``algo`` (``auto``: any).
    """
    run = RunRecord.read(folder)
    if run is None or algo not in ("auto", run.engine):
        return {}
    try:
        declared = option_fields(find(run.engine).Options)
    except TopicsError:  # of another version: the run is refused where it is compared
        return {}
    decided = [name for name, field in declared.items() if field.metadata.get("decided")]
    return {
        name: run.options[name]
        for name in decided
        if name in run.options and options_given.get(name) is None
    }


def read_recorded_start(folder: Path, engine: str) -> str | None:
    """Read the start of the run in the folder, if its engine is ``engine``.

    A command without ``--start`` means that start, whatever the default is by now.
    """
    run = RunRecord.read(folder)
    if run is None or run.engine != engine or run.start == "warm":
        return None
    return run.start


def compare_runs(
    folder: Path,
    record: RunRecord,
    is_before_compaction: Callable[[str], bool] = lambda fingerprint: False,
) -> list[str]:
    """Compare a run with the one in the folder, and refuse to continue another run.

    Parameters
    ----------
    is_before_compaction
        Whether a fingerprint is that of the present corpus before it was compacted.

    Returns
    -------
    list of str
        Warnings where only versions differ; empty where the folder holds no run.

    Raises
    ------
    TopicsError
        Naming every difference.
    """
    before = RunRecord.read(folder)
    if before is None:
        return []
    differ = _list_differences(before, record)
    if before.corpus != record.corpus:
        if is_before_compaction(before.corpus):
            advice = ""
            if (folder / "manifest.json").exists():
                advice = (
                    f" (`--start warm --warm {folder} --model OTHER` continues from its topics)"
                )
            differ.append(
                f"the corpus was compacted since, and this run's state is of the blocks that it "
                f"had{advice}"
            )
        else:
            differ.append("the corpus has changed (another fingerprint)")
    if differ:
        raise TopicsError(
            f"{folder} contains a run with other settings: {'; '.join(differ)}. Use --force to "
            f"start over, or another --model"
        )
    versions = [
        f"{name} {before.versions.get(name)} -> {version}"
        for name, version in record.versions.items()
        if before.versions.get(name) != version
    ]
    if not versions:
        return []
    return [
        f"resuming under other versions ({'; '.join(versions)}): the result may differ in the last "
        f"bits"
    ]


def _list_differences(before: RunRecord, record: RunRecord) -> list[str]:
    """List the settings in which two runs differ, with their flags."""
    flag_of = {
        "engine": "--algo",
        **{name: flags(f)[0] for name, f in RECORDED.items()},
        "layout": "block layout",
    }
    old = plain(before)
    new = plain(record)
    differences = list[str]()
    for name, flag in flag_of.items():
        if old[name] != new[name]:
            long = isinstance(old[name], list) or isinstance(new[name], list)
            change = "other ones" if long else f"{old[name]} -> {new[name]}"
            differences.append(f"{flag} {change}")
    if before.engine == record.engine:
        old_options = old["options"]
        differences += [
            f"--{name.replace('_', '-')} {old_options.get(name, 'unknown')} -> {value}"
            for name, value in new["options"].items()
            if name not in old_options or old_options[name] != value
        ]
    return differences


class History:
    """The file ``history.jsonl``.

    Attributes
    ----------
    last
        Its latest record; empty before the first.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / HISTORY
        self.last: dict[str, Any] = {}

    def rewind(self, passes: int, needs_start: bool) -> list[str]:
        """Keep the lines of the first ``passes`` passes, and of the start unless ``needs_start``.

        Lines after the checkpoint that a run resumes from are lost.

        Returns
        -------
        list of str
            Warnings about damaged lines, which are left out, and about passes without a line.
        """
        records, damaged = read_sealed(self._path)
        lines = list[str]()
        for record in records:
            checked = check_history_line(record, self._path.parent)
            if checked["pass"] <= passes and (checked["pass"] > 0 or not needs_start):
                lines.append(sealed_line(record))
                self.last = checked
        write_bytes(self._path, "".join(lines).encode(), durable=False)
        last = self.last.get("pass", 0)
        if last < passes:
            damaged.append(f"{self._path}: ends with pass {last} of {passes}; the others are lost")
        return damaged

    def append(self, record: Mapping[str, Any]) -> None:
        """Append the record of a pass."""
        self.last = dict(record)
        with open(owned.reserve(self._path, keep=True), "ab") as f:
            f.write(sealed_line(self.last).encode())


class Outcome(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a run, in ``finished.json``.

    Attributes
    ----------
    passes
        Passes of the model.
    reason
        Why training ended.
    made
        All passes, including those after the best, if the model is that of the best pass. Else 0.
    tol, tol_params
        Tolerances. 0: no change could stop the run.
    """

    passes: Count
    reason: str
    tol: float | str = 0.0
    made: Count = 0
    tol_params: float = 0.0

    @classmethod
    def under(cls, stopping: Stopping, passes: int, reason: str, passes_run: int) -> Outcome:
        """Make the outcome of a run under ``stopping``."""
        tol = str(stopping.tol) if isinstance(stopping.tol, Share) else stopping.tol
        return cls(
            passes=passes,
            reason=reason,
            tol=tol,
            made=passes_run if passes_run > passes else 0,
            tol_params=stopping.tol_params,
        )

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """Read the outcome of the run in ``folder``, None if it has not ended."""
        path = folder / FINISHED
        return read_record(path, cls, "Start over with --force") if path.exists() else None

    def write(self, folder: Path) -> None:
        """Write ``finished.json`` into the folder of the run."""
        write_record(folder / FINISHED, self)

    def covers(self, stopping: Stopping) -> bool:
        """Return True if a run that converged so had converged under these tolerances too."""
        tol = tolerance(self.tol)
        same_kind = isinstance(stopping.tol, Share) == isinstance(tol, Share)
        covers_tol = same_kind and stopping.tol >= tol > 0
        return covers_tol or stopping.tol_params >= self.tol_params > 0


def free_disk(folder: Path) -> int:
    """Count the bytes of disk that a run may take.

    They are free where the folder lies, or taken by this run already.
    """
    present = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    size = shutil.disk_usage(present).free
    for name in RUN_FOLDERS:
        for path in (folder / name).rglob("*"):
            if path.is_file():
                size += 512 * path.stat().st_blocks
    return size


def forget_runs(folder: Path) -> None:
    """Remove the files of a run from a model folder, but not the model itself.

    The new model replaces the old one when it is done.
    """
    refuse_unlisted(folder)
    for name in RUN_FOLDERS:
        owned.remove_within(folder / name)
    for name in RUN_FILES:
        owned.remove_file(folder / name, missing_ok=True)


PROBABILITIES_AT_A_TIME = 1 << 18
TOPICS_FILES = 3
"""Files of topics at a time: of this pass, of the one before, and of a checkpoint's."""


def topics_bytes(words: int, topics: int) -> int:
    """Count the bytes of disk that the files of topics take."""
    return TOPICS_FILES * Array((words, topics), np.float32).nbytes


def topics_file(work: Path, number: int) -> Path:
    """Return the file of the topics after this pass."""
    return work / f"topics-{number:06d}.bin"


def measure_moves(work: Path, number: int, table: Table, beta: float) -> float | None:
    """Compute the largest change of any p(word | topic) since the pass before.

    The topics of this pass are stored for the next one.

    Returns
    -------
    float or None
        None if the topics of the pass before are not there.
    """
    words = table.n_rows
    topics = table.columns
    before = topics_file(work, number - 1)
    size = Array((words, topics), np.float32).nbytes
    comparable = before.exists() and before.stat().st_size == size
    largest = 0.0
    totals = np.maximum(table.totals[:topics] + words * beta, 1e-300)
    step = max(1, PROBABILITIES_AT_A_TIME // topics)
    with (
        owned.create(topics_file(work, number)) as new_file,
        open(before if comparable else os.devnull, "rb") as old_file,
    ):
        for _, rows in table.pieces():
            for i in range(0, len(rows), step):
                new = ((rows[i : i + step, :topics] + beta) / totals).astype(np.float32)
                new.tofile(new_file)
                if comparable:
                    old = np.fromfile(old_file, np.float32, new.size).reshape(new.shape)
                    largest = max(largest, float(np.abs(new - old).max()))
    return largest if comparable else None


def forget_topics(work: Path, needed: set[str]) -> None:
    """Remove the files of topics whose names are not ``needed``."""
    for path in work.glob("topics-*.bin"):
        if path.name not in needed:
            owned.remove_file(path)
