"""What two trainings are compared by that are to be the same, bit by bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from topicstream.base.errors import StoreError
from topicstream.training.state.checkpoint import list_checkpoints, read_checkpoint


def content_hash(model: Path) -> str:
    """sha256 of the latest checkpoint's tables, parameters and block memory: what bit-identical is
    judged on.  Times,
    hosts, threads and where things lie in files leave no trace in it."""
    folders = list_checkpoints(model / "checkpoints")
    if not folders:
        raise StoreError(f"{model}: no checkpoint")
    state = read_checkpoint(folders[-1])
    h = hashlib.sha256(f"{state.passes} {state.rounds} {state.facts.memory_digest}".encode())
    for name in sorted(state.arrays):
        if not name.startswith("memory."):
            h.update(name.encode() + np.ascontiguousarray(state.arrays[name]).tobytes())
    for path in sorted(folders[-1].glob("*.rows")):
        h.update(path.name.encode())
        with open(path, "rb", buffering=0) as f:
            while piece := f.read(1 << 22):
                h.update(piece)
    return h.hexdigest()
