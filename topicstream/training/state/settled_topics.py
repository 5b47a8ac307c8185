"""How far topics moved in a pass, for runs that stop when they move no more (``--tol-params``).

The topics of the pass before lie in a file of the work folder, float32, and are compared and replaced some rows at a time:
no second table is held.  What each pass moved is kept beside them, for a run that was killed may make a pass again whose
topics, or those of a later one, are there already.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.errors import StoreError
from topicstream.files import owned
from topicstream.files.durable import read_json, write_json
from topicstream.files.whole import read_all, write_all
from topicstream.tables.table import Table

NONE = -2  # no pass: half of the file may be of one, half of another
STEP = 1 << 18  # probabilities at a time


def settled_bytes(words: int, topics: int) -> int:
    """Of disk."""
    return 4 * words * topics


class SettledTopics:
    """``moved`` at the end of every pass, the start's included."""

    def __init__(self, work: Path, words: int, topics: int) -> None:
        self._rows, self._about = work / "topics-before.bin", work / "topics-before.json"
        self._topics, self._size = topics, settled_bytes(words, topics)
        self._at, self._moved = NONE, {}  # type: int, dict[str, float]
        with contextlib.suppress(StoreError, OSError, KeyError, ValueError, TypeError):
            if self._rows.stat().st_size == self._size:
                about: Any = read_json(self._about)
                self._at, self._moved = int(about["pass"]), {str(n): float(x) for n, x in about["moved"].items()}

    def resumed(self, number: int, table: Table, beta: float) -> None:
        """A run goes on behind that pass."""
        if self._at != number:
            self.moved(number, table, beta)

    def moved(self, number: int, table: Table, beta: float) -> float | None:
        """The largest change of any p(word | topic) since the pass before, None where that is not known; from now on the
        topics of this pass are the ones before."""
        known = self._moved.get(str(number))
        compare, largest = known is None and self._at == number - 1, 0.0
        totals = np.maximum(table.totals[: self._topics] + table.n_rows * beta, 1e-300)
        step = max(1, STEP // self._topics)
        fd = owned.open_fd(self._rows)
        try:
            self._note(NONE)
            for first, rows in table.pieces():
                for i in range(0, len(rows), step):
                    p = ((rows[i : i + step, : self._topics] + beta) / totals).astype(np.float32)
                    at = 4 * (first + i) * self._topics
                    if compare:
                        before = np.empty_like(p)
                        read_all(fd, before, at, str(self._rows))
                        largest = max(largest, float(np.abs(p - before).max()))
                    write_all(fd, p, at)
        finally:
            os.close(fd)
        if compare:
            self._moved[str(number)] = known = largest
        self._note(number)
        return known

    def remove(self) -> None:
        """The run is done."""
        for path in (self._about, self._rows):
            owned.remove_file(path, missing_ok=True)

    def _note(self, number: int) -> None:
        self._at = number
        write_json(self._about, {"pass": number, "moved": self._moved}, durable=False)
