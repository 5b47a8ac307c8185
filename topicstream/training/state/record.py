"""``training.json``: what a run is, written before its first pass.  Only the same run may continue it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from topicstream.engines import find
from topicstream.engines.base import option_fields
from topicstream.errors import TopicsError
from topicstream.model.seeds import SeedEntry
from topicstream.options import flags
from topicstream.records import Record, plain, read_record, write_record
from topicstream.training.config import TrainConfig

NAME = "training.json"
RECORDED = {f.name: f for f in fields(TrainConfig) if f.metadata.get("recorded")}


class RunRecord(Record, frozen=True, kw_only=True):
    """Everything that the result depends on.  ``versions`` are compared with a warning, the rest must be equal.

    The fields from ``aim`` to ``weighting`` are the settings of ``TrainConfig`` that are recorded, as they were resolved;
    their defaults are what a run did before there was the setting.
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
        """That of the run in a folder, None where there is none; StoreError for a damaged one."""
        path = folder / NAME
        return read_record(path, cls, "Restore the file, or use --force to start over") if path.exists() else None

    def write(self, folder: Path) -> None:
        """Put it into the folder of the run."""
        write_record(folder / NAME, self)


def left_open(folder: Path, algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options that the corpus or other options decide and that ``given`` does not name, as the run in the folder has them,
    if it is one of ``algo`` (``auto``: any): it continues with what was decided when it began."""
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
    """The start of the run in the folder, if it is one of this engine: what a command means that names none, whatever the
    default is by now."""
    run = RunRecord.read(folder)
    return run.start if run is not None and run.engine == engine and run.start != "warm" else None


def same_or_refuse(
    folder: Path,
    record: RunRecord,
    options: Mapping[str, Any] = MappingProxyType({}),
    compacted: Callable[[str], bool] = lambda fingerprint: False,
) -> list[str]:
    """Compare a run with the one in the folder.

    Parameters
    ----------
    options
        Fields of the engine's options: ``was`` says what a run did that did not know the option yet.
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
    shown = {"engine": "--algo", **{name: flags(f)[0] for name, f in RECORDED.items()}, "layout": "block layout"}
    old, new = plain(before), plain(record)
    differ: list[str] = []
    for name, flag in shown.items():
        if old[name] != new[name]:
            long = isinstance(old[name], list) or isinstance(new[name], list)
            differ.append(f"{flag} {'other ones' if long else f'{old[name]} -> {new[name]}'}")
    if before.engine == record.engine:
        had = {name: f.metadata["was"] for name, f in options.items() if "was" in f.metadata} | old["options"]
        differ += [f"--{k.replace('_', '-')} {had.get(k)} -> {v}" for k, v in new["options"].items() if had.get(k) != v]
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
            f"{folder} contains a run with other settings: {'; '.join(differ)}. Use --force to start over, or another --model"
        )
    versions = [f"{k} {before.versions.get(k)} -> {v}" for k, v in record.versions.items() if before.versions.get(k) != v]
    return [f"resuming under other versions ({'; '.join(versions)}): the result may differ in the last bits"] if versions else []
