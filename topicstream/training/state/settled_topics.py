"""How far topics moved in a pass, for runs that stop when they move no more (``--tol-params``).

The topics after a pass lie in a file of the work folder, float32, and are read again some rows at a
time: no second table is
held.  A checkpoint within the next pass refers to the file as to block state, so a run that was
       killed compares the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from topicstream.files import owned
from topicstream.memory import Array
from topicstream.tables.table import Table

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
    not there; keeps those of this pass."""
    (words, topics), before, largest = (
        (table.n_rows, table.columns),
        topics_file(work, number - 1),
        0.0,
    )
    known = before.exists() and before.stat().st_size == Array((words, topics), np.float32).nbytes
    totals, step = np.maximum(table.totals[:topics] + words * beta, 1e-300), max(1, STEP // topics)
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
