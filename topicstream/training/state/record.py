"""What a training run is, written before its first pass: a run may only be resumed by the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topicstream.engines import find
from topicstream.engines.base import option_fields
from topicstream.errors import StoreError, TopicsError
from topicstream.files.durable import read_json, write_json
from topicstream.options import flags
from topicstream.training.config import TrainConfig

SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """Everything the result depends on.  ``versions`` is compared with a warning, the rest must be equal.  settings: the
    recorded fields of TrainConfig, as they were resolved."""

    engine: str
    cites: str
    options: dict[str, Any]
    settings: dict[str, Any]
    layout: dict[str, int]
    corpus: str
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """As the file has it: the settings beside the rest."""
        flat = {"engine": self.engine, "cites": self.cites, "options": self.options} | self.settings
        return flat | {"layout": self.layout, "corpus": self.corpus, "versions": self.versions}


RECORDED = {f.name: f for f in fields(TrainConfig) if f.metadata.get("recorded")}
_FLAGS = {"engine": "--algo", **{name: flags(f)[0] for name, f in RECORDED.items()}, "layout": "block layout"}


def read_record(config: TrainConfig, **resolved: Any) -> dict[str, Any]:
    """The settings that the result depends on, some as they were resolved."""
    return {name: getattr(config, name) for name in RECORDED} | resolved


def remember(folder: Path, record: Record) -> None:
    """Write the record."""
    write_json(folder / "training.json", {"schema": SCHEMA, **record.to_json()})


def left_open(folder: Path, algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are decided by the corpus or by other options and that ``given`` does not say, as the run in the folder
    has them, if it is one of ``algo`` (``auto``: any): it goes on with what was decided when it began."""
    file = folder / "training.json"
    run = read_json(file) if file.exists() else {}
    options = run.get("options") if isinstance(run, dict) else None
    if not isinstance(options, dict) or algo not in ("auto", run.get("engine")):
        return {}
    try:
        known = option_fields(find(str(run.get("engine"))).Options)
    except TopicsError:  # of another version: the run is refused where it is compared
        return {}
    decided = [name for name, field in known.items() if field.metadata.get("decided")]
    return {k: options[k] for k in decided if k in options and given.get(k) is None}


def begun_from(folder: Path, engine: str) -> str | None:
    """The start of the run in the folder, if it is one of this engine: what a command means that names none, whatever the
    default is by now."""
    file = folder / "training.json"
    run = read_json(file) if file.exists() else {}
    start = run.get("start") if isinstance(run, dict) and run.get("engine") == engine else None
    return start if isinstance(start, str) and start != "warm" else None


def same_or_refuse(
    folder: Path,
    record: Record,
    options: Mapping[str, Any] = MappingProxyType({}),
    compacted: Callable[[str], bool] = lambda fingerprint: False,
) -> list[str]:
    """Nothing when the folder holds no run or the same one (warnings where only versions differ); else TopicsError with
    every difference; StoreError for another schema.  ``options`` of the engine's options say what an option that the run did
    not know yet is to be taken for (``was``); ``compacted``: whether a fingerprint is the present corpus' before it was compacted."""
    if not (folder / "training.json").exists():
        return []
    before, now = read_json(folder / "training.json"), record.to_json()
    if not isinstance(before, dict) or not all(isinstance(before.get(k, {}), dict) for k in ("options", "versions")):
        raise StoreError(f"{folder}/training.json: incomplete; the file is damaged, restore it or use --force")
    if before.get("schema") != SCHEMA:
        raise StoreError(
            f"{folder}/training.json: a run of schema {before.get('schema')}, this version reads {SCHEMA}; "
            "use --force to start anew, or another --model"
        )
    differ: list[str] = []
    was = {name: f.metadata["was"] for name, f in RECORDED.items() if "was" in f.metadata} | before
    for name, flag in _FLAGS.items():
        if was.get(name) != now[name]:
            long = isinstance(was.get(name), list) or isinstance(now[name], list)
            differ.append(f"{flag} {'other ones' if long else f'{was.get(name)} -> {now[name]}'}")
    if before.get("engine") == now["engine"]:
        were = {name: field.metadata["was"] for name, field in options.items() if "was" in field.metadata}
        old = were | before.get("options", {})
        differ += [f"--{k.replace('_', '-')} {old.get(k)} -> {v}" for k, v in now["options"].items() if old.get(k) != v]
    if before.get("corpus") != now["corpus"]:
        differ.append(
            "the corpus was compacted since, and this run's state is of the blocks that it had"
            + f" (`--start warm --warm {folder} --model OTHER` goes on from its topics)" * (folder / "manifest.json").exists()
            if compacted(str(before.get("corpus")))
            else "the corpus has changed (another fingerprint)"
        )
    if differ:
        raise TopicsError(
            f"{folder} holds a run with other settings: {'; '.join(differ)}. Use --force to start anew, or another --model"
        )
    changed = [
        f"{k} {old.get(k)} -> {v}"
        for old in [before.get("versions", {})]
        for k, v in now["versions"].items()
        if old.get(k) != v
    ]
    return (
        [f"resuming under other versions ({'; '.join(changed)}): the result may differ in the last bits"]
        if changed
        else []
    )
