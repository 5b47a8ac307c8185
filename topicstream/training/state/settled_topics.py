"""How far topics moved in a pass, for runs that stop when they move no more (``--tol-params``).

The topics of the pass before lie in a file of the work folder, float32, and are compared and replaced some rows at a time:
no second table is held.  What each pass moved is kept beside them, for a run that was killed may make a pass again whose
topics, or those of a later one, are there already.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.memory import Array
from topicstream.records import Record, read_record, write_record
from topicstream.tables.table import Table

NONE = -2  # no pass: half of the file may be of one, half of another
STEP = 1 << 18  # probabilities at a time


class Moves(Record, frozen=True, kw_only=True, rename={"number": "pass"}):
    """The pass whose topics the file has, and what passes moved, by their numbers."""

    number: int
    moved: dict[str, float]


def settled_bytes(words: int, topics: int) -> int:
    """Of disk."""
    return Array((words, topics), np.float32).nbytes


class SettledTopics:
    """``moved`` at the end of every pass, the start's included."""

    def __init__(self, work: Path, words: int, topics: int) -> None:
        self._rows, self._about, self._shape = work / "topics-before.bin", work / "topics-before.json", (words, topics)
        self._moves = Moves(number=NONE, moved={})
        if self._about.exists() and self._rows.exists() and self._rows.stat().st_size == settled_bytes(words, topics):
            with contextlib.suppress(StoreError):  # cut short by a kill: the pass before is not known
                self._moves = read_record(self._about, Moves)

    def resumed(self, number: int, table: Table, beta: float) -> None:
        """A run continues behind that pass."""
        if self._moves.number != number:
            self.moved(number, table, beta)

    def moved(self, number: int, table: Table, beta: float) -> float | None:
        """The largest change of any p(word | topic) since the pass before, None where that is not known; from now on the
        topics of this pass are the ones before."""
        known, (words, topics) = self._moves.moved.get(str(number)), self._shape
        compare, largest = known is None and self._moves.number == number - 1, 0.0
        totals = np.maximum(table.totals[:topics] + words * beta, 1e-300)
        step = max(1, STEP // topics)
        self._note(NONE)
        with open(owned.reserve(self._rows, keep=True), "r+b") as f:
            for first, rows in table.pieces():
                for i in range(0, len(rows), step):
                    p = ((rows[i : i + step, :topics] + beta) / totals).astype(np.float32)
                    if compare:
                        before = np.fromfile(f, np.float32, p.size).reshape(p.shape)
                        largest = max(largest, float(np.abs(p - before).max()))
                        f.seek(4 * (first + i) * topics)
                    p.tofile(f)
                    f.flush()
        if compare:
            known = largest
            self._moves.moved[str(number)] = largest
        self._note(number)
        return known

    def remove(self) -> None:
        """The run is done."""
        for path in (self._about, self._rows):
            owned.remove_file(path, missing_ok=True)

    def _note(self, number: int) -> None:
        self._moves = Moves(number=number, moved=self._moves.moved)
        write_record(self._about, self._moves, durable=False)
