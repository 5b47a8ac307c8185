"""Checkpoints: the whole state of a training run at the end of a pass, or between two rounds of one.

``checkpoints/P-R/`` (P passes done, R rounds of the next) holds ``state.json``, ``arrays.npz`` and one raw file a table.
It is written beside and renamed, state last; only then are older checkpoints and their block memory removed.  Without
fsync it survives a kill; the fsync that lets it survive a power cut is made as often as 5 % of the run's time allow.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from topicstream.errors import NotOurs, StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json, sync_file, sync_folder, write_json
from topicstream.files.ownership import claim
from topicstream.files.plain import load_arrays, open_plain, refuse_special

SCHEMA = 1
_NAME = re.compile(r"\d{6}-\d{6}")
_OURS = re.compile(r"\d{6}-\d{6}|\.\d{6}-\d{6}\.(tmp|old)")


@dataclass
class State:
    """What a checkpoint says beside the tables.

    passes   passes done (0: only the start); rounds: rounds done of the next one
    arrays   small named arrays: params, totals, statistics so far, memory indexes
    facts    plain values (stopping history, memory file names, digests)
    """

    passes: int
    rounds: int
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Folder name; sorts in the order of work done."""
        return f"{self.passes:06d}-{self.rounds:06d}"

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The parameters by name."""
        return {k[6:]: v.copy() for k, v in self.arrays.items() if k.startswith("param.")}

    def checked_params(self, path: Path, like: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``params``; StoreError naming ``path`` where they are not those of ``like``, in other values."""
        found = self.params
        for name, wanted in like.items():
            value = found.get(name)
            if value is not None and name in ("alpha", "beta") and not ((value >= 0) & (value < np.inf)).all():
                value = None
            if value is None or value.shape != wanted.shape or np.isnan(value).any():
                raise StoreError(f"{path}: parameter {name} is not what it must be; start anew with --force")
        return found


def _crc(path: Path) -> int:
    crc = 0
    with open(open_plain(path), "rb", buffering=0) as f:
        while piece := f.read(1 << 22):
            crc = google_crc32c.extend(crc, piece)
    return int(crc)


def write_checkpoint(
    folder: Path, state: State, save_tables: Mapping[str, Callable[[Path], None]], durable: bool, also_sync: list[Path]
) -> Path:
    """Write one checkpoint under ``folder`` and return its place.  ``also_sync``: block memory files it refers to."""
    claim(folder, "checkpoints")
    beside, final = folder / f".{state.name}.tmp", folder / state.name
    owned.remove_within(beside, "checkpoints")
    beside.mkdir()
    try:
        files: dict[str, list[int]] = {}
        for name, save in save_tables.items():
            save(beside / f"{name}.rows")
        buffer = io.BytesIO()
        np.savez(buffer, **state.arrays)  # type: ignore[arg-type]
        with owned.create(beside / "arrays.npz") as f:
            f.write(buffer.getbuffer())
        for path in sorted(beside.iterdir()):
            files[path.name] = [path.stat().st_size, _crc(path)]
            if durable:
                sync_file(path)
        value = {"schema": SCHEMA, "passes": state.passes, "rounds": state.rounds, "files": files, "facts": state.facts}
        write_json(beside / "state.json", value, durable=durable)
        if durable:
            for path in also_sync:
                sync_file(path)
        _discard(final)
        owned.move_folder(beside, final)
        if durable:
            sync_folder(folder)
    except BaseException:
        with contextlib.suppress(OSError, NotOurs):
            owned.remove_within(beside, "checkpoints")
        raise
    return final


def _discard(path: Path) -> None:
    """Remove a checkpoint; hidden first, so that one half removed is never taken for whole."""
    if not path.name.startswith(".") and path.exists():
        hidden = path.with_name(f".{path.name}.old")
        owned.remove_within(hidden, "checkpoints")
        owned.move_folder(path, hidden)
        path = hidden
    owned.remove_within(path, "checkpoints")


def checkpoints(folder: Path) -> list[Path]:
    """Finished checkpoints, the latest last."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir())


def remove_before(folder: Path, keep: set[str]) -> None:
    """Remove all checkpoints but those named, and what an interrupted write left."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in keep and _OURS.fullmatch(path.name) and not path.is_symlink():
                _discard(path)


def _incomplete(value: dict[str, Any]) -> str | None:
    """The member of a checkpoint's state that is missing or of another kind."""

    def count(v: Any) -> bool:
        return isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62

    files, facts = value.get("files"), value.get("facts")
    if not (count(value.get("passes")) and count(value.get("rounds"))):
        return "passes and rounds"
    if not isinstance(files, dict) or "arrays.npz" not in files:
        return "files"
    for name, pair in files.items():
        if "/" in name or "\0" in name or not (isinstance(pair, list) and len(pair) == 2 and all(map(count, pair))):
            return f"file {name!r}"
    kinds = {"needs_start": (bool,), "scales": (dict,), "perplexities": (list,), "pass_seconds": (int, float), "memory": (dict,),
             "memory_digest": (str,)}  # fmt: skip
    if not isinstance(facts, dict):
        return "facts"
    for name, kind in kinds.items():
        if not isinstance(facts.get(name), kind):
            return f"facts.{name}"
    for name, inner in (("scales", (int, float)), ("memory", (str,))):
        if not all(isinstance(v, inner) for v in facts[name].values()):
            return f"facts.{name}"
    if not all(
        v == os.path.basename(v) and v not in ("", ".", "..") and "\0" not in v for v in facts["memory"].values()
    ):
        return "facts.memory"
    return None if all(isinstance(v, (int, float)) for v in facts["perplexities"]) else "facts.perplexities"


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself: passes, rounds, files, facts; StoreError where it is no such thing."""
    value: dict[str, Any] = read_json(path / "state.json")
    if not isinstance(value, dict):
        raise StoreError(f"{path}/state.json: not the state of a run; start anew with --force")
    if value.get("schema") != SCHEMA:
        raise StoreError(
            f"{path}: checkpoint of schema {value.get('schema')}, this version reads {SCHEMA}; start anew with --force"
        )
    problem = _incomplete(value)
    if problem:
        raise StoreError(f"{path}/state.json: incomplete ({problem}); start anew with --force")
    return value


def read_checkpoint(path: Path) -> State:
    """Verify every file's size and checksum and read state and arrays; StoreError naming what is damaged."""
    value = read_state(path)
    for name, (size, crc) in value["files"].items():
        part = path / name
        refuse_special(part)
        if not part.exists() or part.stat().st_size != size or _crc(part) != crc:
            raise StoreError(
                f"{part}: missing or does not match its checksum; remove {path} to go back to the checkpoint before it"
            )
    return State(value["passes"], value["rounds"], load_arrays(path / "arrays.npz"), value["facts"])


def content_hash(model: Path) -> str:
    """sha256 of the latest checkpoint's tables, parameters and block memory: what bit-identical is judged on.  Times,
    hosts, threads and where things lie in files leave no trace in it."""
    found = checkpoints(model / "checkpoints")
    if not found:
        raise StoreError(f"{model}: no checkpoint")
    state = read_checkpoint(found[-1])
    h = hashlib.sha256(f"{state.passes} {state.rounds} {state.facts['memory_digest']}".encode())
    for name in sorted(state.arrays):
        if not name.startswith("memory."):
            h.update(name.encode() + np.ascontiguousarray(state.arrays[name]).tobytes())
    for path in sorted(found[-1].glob("*.rows")):
        h.update(path.name.encode())
        with open(path, "rb", buffering=0) as f:
            while piece := f.read(1 << 22):
                h.update(piece)
    return h.hexdigest()
