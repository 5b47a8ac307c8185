"""From the hashes of all ids (corpus/id_hash.py): which documents count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from mmap import MADV_RANDOM, mmap
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.runs import RunFile
from topicstream.errors import InputError
from topicstream.files import owned
from topicstream.kernels.arrays import Bools, Bytes, Int, Longs, Words
from topicstream.kernels.jit import kernel

EVENT = np.dtype([("high", "<u8"), ("low", "<u8"), ("order", "<i8")])
"""One event of an id: both halves of its hash and the order, which is the document's number, or ``-1 - number`` for its
withdrawal just before document ``number``."""

MOST_IN_MEMORY = 1 << 26
"""Documents whose reasons are held in memory; of more than these they lie in a file that the system may page out."""

DUPLICATE, REPLACED, DELETED = 1, 2, 3


@dataclass
class Verdict:
    """Which documents count.

    reason    uint8[N]  0 kept, DUPLICATE, REPLACED or DELETED, by document number
    kept      number of documents kept
    smallest  uint64[]  the smallest high hashes of kept documents, ascending, as many as were asked for
    """

    reason: np.ndarray
    kept: int
    smallest: np.ndarray


@kernel
def _resolve(
    high: Words, low: Words, order: Longs, replace: int, reason: Bytes, kept: Bools, alive: Any
) -> tuple[Int, Int, Int]:
    """Events sorted by (high, low, time) -> reason by document.

    kept: bool[n], set at the last event of each id of which a document is kept; alive: the document of the first id that
    is kept so far (-1: none), as the call before left it.  Returns (document of the last id kept so far, position of
    the first clash under replace = 2 or -1, the document that it clashes with).
    """
    n = len(high)
    clash, earlier = np.int64(-1), np.int64(-1)
    for i in range(n):
        if i > 0 and (high[i] != high[i - 1] or low[i] != low[i - 1]):
            kept[i - 1] = alive >= 0
            alive = np.int64(-1)
        o = order[i]
        if o < 0:
            if alive >= 0:
                reason[alive] = 3
                alive = np.int64(-1)
        elif alive < 0:
            alive = o
        elif replace == 0:
            reason[o] = 1
        else:
            if replace == 2 and clash < 0:
                clash, earlier = np.int64(i), alive
            reason[alive] = 2
            alive = o
    if n > 0:
        kept[n - 1] = alive >= 0
    return alive, clash, earlier


_Run = tuple[np.ndarray, np.ndarray, np.ndarray]
"""high and low uint64, order int64, of the same length, sorted by (high, low, time)."""
_Spans = list[tuple[int, int]]
"""From where to where in each run."""


class Events:
    """Events of ids, sorted on disk in runs of at most ``most`` events, and resolved a range of ids at a time.  They are
    added in the order of time, so that of two runs the earlier one's events of an id come first."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, max(most, 1 << 16)
        self._waiting: list[_Run] = []
        self._held = 0
        self._runs = RunFile(folder / "ids.spool", EVENT, "high")
        self.documents = 0

    def add(self, high: np.ndarray, low: np.ndarray, order: np.ndarray) -> None:
        """Add events.  Document numbers are >= 0 and unique."""
        self.documents = max(self.documents, int(order.max(initial=-1)) + 1)
        for at in range(0, len(high), self._most):
            part = slice(at, at + self._most)
            self._waiting.append((high[part].copy(), low[part].copy(), order[part].copy()))
            self._held += len(self._waiting[-1][0])
            if self._held >= self._most:
                self._spill()

    def _sorted(self) -> _Run:
        high, low, order = (
            np.concatenate([w[i] for w in self._waiting] or [np.empty(0, kind)])
            for i, kind in enumerate((np.uint64, np.uint64, np.int64))
        )
        self._waiting, self._held = [], 0
        by_hash = np.argsort(high)
        ordered = high[by_hash]
        if (ordered[1:] == ordered[:-1]).any():  # else no id twice: nothing else decides
            # a withdrawal before document n comes after document n-1: times 2n-1 and 2n
            time = np.where(order < 0, 2 * (-1 - order) - 1, 2 * order)
            by_hash = np.lexsort((time, low, high))
            ordered = high[by_hash]
        return ordered, low[by_hash], order[by_hash]

    def _spill(self) -> None:
        records = np.empty(self._held, EVENT)
        records["high"], records["low"], records["order"] = self._sorted()
        self._runs.append(records)

    def _ranges(self) -> Iterator[tuple[bool, _Run]]:
        """All events sorted by (high, low, time), at most ``most`` at a time, and whether a range begins with the id that
        the one before ended with (which is so of an id of more events than that)."""
        if not self._runs.lengths:
            yield False, self._sorted()
            return
        if self._held:
            self._spill()
        lengths = self._runs.lengths
        parts = max(1, -(-2 * sum(lengths) // self._most))
        edges, at = [(p << 64) // parts for p in range(parts + 1)], [0] * len(lengths)
        for first, last in pairwise(edges):
            ends = self._places(last, list(zip(at, lengths)))
            yield from self._between(list(zip(at, ends)), "high", first, last)
            at = ends

    def _places(self, edge: int, spans: _Spans, field: str | None = None) -> list[int]:
        return [self._runs.place(run, edge, a, b, field) for run, (a, b) in enumerate(spans)]

    def _between(self, spans: _Spans, half: str, first: int, last: int) -> Iterator[tuple[bool, _Run]]:
        """The events in ``spans`` of the runs, whose ``half`` (high or low) of the hash lies in [first, last)."""
        count = sum(b - a for a, b in spans)
        if count > self._most:
            if last - first > 1:
                middle = (first + last) // 2
                cut = self._places(middle, spans, "low" if half == "low" else None)
                yield from self._between([(a, c) for (a, _), c in zip(spans, cut)], half, first, middle)
                yield from self._between([(c, b) for (_, b), c in zip(spans, cut)], half, middle, last)
            elif half == "high":
                yield from self._between(spans, "low", 0, 1 << 64)
            else:
                yield from self._one_id(spans)
        elif count:
            self._waiting = [_fields(self._runs.read(run, a, b)) for run, (a, b) in enumerate(spans) if b > a]
            yield False, self._sorted()

    def _one_id(self, spans: _Spans) -> Iterator[tuple[bool, _Run]]:
        """The events of one id, in the order of time: run after run."""
        more = False
        for run, (a, b) in enumerate(spans):
            for at in range(a, b, self._most):
                high, low, order = map(np.ascontiguousarray, _fields(self._runs.read(run, at, min(b, at + self._most))))
                yield more, (high, low, order)
                more = True

    def resolve(self, on_duplicate: str, smallest: int, name: object = None) -> Verdict:
        """Which documents count: ``skip`` keeps the first of an id, ``replace`` the last, ``fail`` raises InputError
        (``name(document number)`` says what it is called).  A withdrawal removes what came before it under any rule."""
        reason = self._reasons()
        rule = {"skip": 0, "replace": 1, "fail": 2}[on_duplicate]
        found: list[np.ndarray] = []
        wanted, kept = smallest, 0
        alive, open_id = -1, np.empty(0, np.uint64)  # of the last id: it may go on in the next range

        def take(ids: np.ndarray) -> None:
            nonlocal kept, wanted
            kept += len(ids)
            if wanted > 0:
                found.append(ids[:wanted])
                wanted -= len(found[-1])

        for more, (high, low, order) in self._ranges():
            if not more:
                take(open_id)
                alive = -1
            last = np.zeros(len(high), np.bool_)
            alive, clash, earlier = _resolve(high, low, order, rule, reason, last, alive)
            if clash >= 0:
                a, b = (name(int(k)) if callable(name) else int(k) for k in (earlier, order[clash]))
                raise InputError(
                    f"{b}: the same id as {a} (--on-duplicate skip or replace takes the first or the last)"
                )
            open_id = high[len(high) - 1 :][last[len(high) - 1 :]]
            take(high[:-1][last[:-1]])
        take(open_id)
        return Verdict(reason, kept, np.concatenate(found) if found else np.empty(0, np.uint64))

    def _reasons(self) -> np.ndarray:
        if self.documents <= MOST_IN_MEMORY:
            return np.zeros(self.documents, np.uint8)
        fd = owned.create_fd(self._folder / "reasons.spool")
        os.ftruncate(fd, self.documents)
        space = mmap(fd, self.documents)
        os.close(fd)
        space.madvise(MADV_RANDOM)  # written by hash: what is read around an entry is thrown away again
        return np.frombuffer(space, np.uint8)

    def close(self) -> None:
        """Remove the runs."""
        self._runs.close()


def _fields(records: np.ndarray) -> _Run:
    return records["high"], records["low"], records["order"]


def deletion_orders(number: int, count: int) -> np.ndarray:
    """Orders of ``count`` withdrawals that stand just before document ``number``."""
    return np.full(count, -1 - number, np.int64)
