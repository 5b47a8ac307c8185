"""What a training run is, written before its first pass: a run may only be resumed by the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from topicstream.durable import read_json, write_json
from topicstream.errors import StoreError, TopicsError

SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """Everything the result depends on.  ``versions`` is compared with a warning, the rest must be equal."""

    engine: str
    cites: str
    options: dict[str, Any]
    topics: int
    seed: int
    start: str
    warm: str | None
    layout: dict[str, int]
    corpus: str
    versions: dict[str, str]


_FLAGS = {
    "engine": "--algo",
    "topics": "-K",
    "seed": "--seed",
    "start": "--start",
    "warm": "--warm",
    "layout": "block layout",
}


def remember(folder: Path, record: Record) -> None:
    """Write the record."""
    write_json(folder / "training.json", {"schema": SCHEMA, **asdict(record)})


def left_open(folder: Path, algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are decided by the corpus or by other options and that ``given`` does not say, as the run in the folder
    has them, if it is one of ``algo`` (``auto``: any): it goes on with what was decided when it began."""
    file = folder / "training.json"
    run = read_json(file) if file.exists() else {}
    options = run.get("options") if isinstance(run, dict) else None
    if not isinstance(options, dict) or algo not in ("auto", run.get("engine")):
        return {}
    return {k: options[k] for k in ("learn_priors", "sparsity") if k in options and given.get(k) is None}


def same_or_refuse(folder: Path, record: Record, fields: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """Nothing when the folder holds no run or the same one (warnings where only versions differ); else TopicsError with
    every difference; StoreError for another schema.  ``fields`` of the engine's options say what an option that the run did
    not know yet is to be taken for (``was``)."""
    if not (folder / "training.json").exists():
        return []
    before, now = read_json(folder / "training.json"), asdict(record)
    if not isinstance(before, dict) or not all(isinstance(before.get(k, {}), dict) for k in ("options", "versions")):
        raise StoreError(f"{folder}/training.json: incomplete; the file is damaged, restore it or use --force")
    if before.get("schema") != SCHEMA:
        raise StoreError(
            f"{folder}/training.json: a run of schema {before.get('schema')}, this version reads {SCHEMA}; "
            "use --force to start anew, or another --model"
        )
    differ: list[str] = []
    for name in ("engine", "topics", "seed", "start", "warm", "layout"):
        if before.get(name) != now[name]:
            differ.append(f"{_FLAGS[name]} {before.get(name)} -> {now[name]}")
    if before.get("engine") == now["engine"]:
        were = {name: field.metadata["was"] for name, field in fields.items() if "was" in field.metadata}
        old = were | before.get("options", {})
        differ += [f"--{k.replace('_', '-')} {old.get(k)} -> {v}" for k, v in now["options"].items() if old.get(k) != v]
    if before.get("corpus") != now["corpus"]:
        differ.append("the corpus has changed (another fingerprint)")
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
