"""Who a document is: a 128-bit hash of its id, and from all hashes which documents count.

The hash never changes between versions: the held-out split of a store rests on it.  It mixes 8 bytes at a time into two
64-bit lanes and finishes both with SplitMix64 (kernels/rng.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import bits

_A, _B = np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127)
_R29, _R35, _R31, _R33 = np.uint64(29), np.uint64(35), np.uint64(31), np.uint64(33)
_EIGHT = np.uint64(8)

EVENT = np.dtype([("high", "<u8"), ("low", "<u8"), ("order", "<i8")])
"""One event of an id: order is the document's number, or ``-1 - number`` for its withdrawal just before document
``number``."""

DUPLICATE, REPLACED, DELETED = 1, 2, 3


@kernel
def _hash(data, offsets, high, low):
    """data: uint8[], offsets: int64[D+1] -> high, low: uint64[D]."""
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        a, b = _A ^ np.uint64(stop - start), _B
        i = start
        while i < stop:
            word = np.uint64(0)
            end = min(i + 8, stop)
            for j in range(end - 1, i - 1, -1):
                word = (word << _EIGHT) | np.uint64(data[j])
            a = (a ^ word) * _B
            a = (a << _R29) | (a >> _R35)
            b = (b + word) * _A
            b = ((b << _R31) | (b >> _R33)) ^ a
            i = end
        high[d] = bits(a + bits(b))
        low[d] = bits(b ^ bits(a ^ _A))


def hash_ids(ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """large_string[D] -> (high, low), uint64[D] each."""
    ids = ids.cast(pa.large_string())
    high, low = np.empty(len(ids), np.uint64), np.empty(len(ids), np.uint64)
    _, raw_offsets, raw = ids.buffers()
    if len(ids):
        offsets = np.frombuffer(raw_offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        data = np.frombuffer(raw, np.uint8) if raw is not None and raw.size else np.zeros(1, np.uint8)
        _hash(data, offsets, high, low)
    return high, low


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
def _resolve(high, low, order, replace, reason):
    """Events sorted by (high, low, time) -> reason by document; returns the first clash (position) under replace = 2."""
    n = len(high)
    clash = -1
    i = 0
    while i < n:
        alive = np.int64(-1)
        j = i
        while j < n and high[j] == high[i] and low[j] == low[i]:
            o = order[j]
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
                    clash = j
                reason[alive] = 2
                alive = o
            j += 1
        i = j
    return clash


class Events:
    """Events of ids, sorted on disk in runs of at most ``most`` events, and resolved range by range."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, max(most, 1 << 16)
        self._waiting: list[np.ndarray] = []
        self._held = 0
        self._runs: list[np.ndarray] = []
        self.documents = 0

    def add(self, high: np.ndarray, low: np.ndarray, order: np.ndarray) -> None:
        """Add events.  Document numbers are >= 0 and unique."""
        events = np.empty(len(high), EVENT)
        events["high"], events["low"], events["order"] = high, low, order
        self.documents = max(self.documents, int(order.max(initial=-1)) + 1)
        self._waiting.append(events)
        self._held += len(events)
        if self._held >= self._most:
            self._spill()

    def _sorted(self) -> np.ndarray:
        events = np.concatenate(self._waiting) if self._waiting else np.empty(0, EVENT)
        self._waiting, self._held = [], 0
        high = np.ascontiguousarray(events["high"])
        by_hash = np.argsort(high)
        high = high[by_hash]
        if not (high[1:] == high[:-1]).any():  # no id twice: nothing else decides
            return events[by_hash]
        # a withdrawal before document n comes after document n-1: times 2n-1 and 2n
        order = events["order"]
        time = np.where(order < 0, 2 * (-1 - order) - 1, 2 * order)
        return events[np.lexsort((time, events["low"], events["high"]))]

    def _spill(self) -> None:
        path = self._folder / f"ids-{len(self._runs)}.npy"
        np.save(path, self._sorted())
        self._runs.append(np.load(path, mmap_mode="r"))

    def _ranges(self) -> Iterator[np.ndarray]:
        if not self._runs:
            yield self._sorted()
            return
        if self._held:
            self._spill()
        total = sum(len(r) for r in self._runs)
        parts = max(1, -(-2 * total // self._most))
        starts = [0] * len(self._runs)
        for p in range(1, parts + 1):
            edge = (p << 64) // parts
            stops = [
                len(r) if p == parts else int(np.searchsorted(r["high"], np.uint64(edge), "left")) for r in self._runs
            ]
            self._waiting = [np.array(r[a:b]) for r, a, b in zip(self._runs, starts, stops)]
            starts = stops
            yield self._sorted()

    def resolve(self, on_duplicate: str, smallest: int, name: object = None) -> Verdict:
        """Which documents count: ``skip`` keeps the first of an id, ``replace`` the last, ``fail`` raises InputError
        (``name(document number)`` says what it is called).  A withdrawal removes what came before it under any rule."""
        reason = np.zeros(self.documents, np.uint8)
        rule = {"skip": 0, "replace": 1, "fail": 2}[on_duplicate]
        found: list[np.ndarray] = []
        wanted, kept = smallest, 0
        for events in self._ranges():
            order = np.ascontiguousarray(events["order"])
            high = np.ascontiguousarray(events["high"])
            clash = _resolve(high, np.ascontiguousarray(events["low"]), order, rule, reason)
            if clash >= 0:
                earlier = clash - 1
                while order[earlier] < 0:
                    earlier -= 1
                a, b = (name(int(order[k])) if callable(name) else int(order[k]) for k in (earlier, clash))
                raise InputError(
                    f"{b}: the same id as {a} (--on-duplicate skip or replace takes the first or the last)"
                )
            documents = order >= 0
            alive = high[documents][reason[order[documents]] == 0]
            kept += len(alive)
            if wanted > 0:
                found.append(alive[:wanted])
                wanted -= len(found[-1])
        return Verdict(reason, kept, np.concatenate(found) if found else np.empty(0, np.uint64))

    def close(self) -> None:
        """Remove the runs."""
        for i in range(len(self._runs)):
            (self._folder / f"ids-{i}.npy").unlink(missing_ok=True)
        self._runs = []


def deletion_orders(number: int, count: int) -> np.ndarray:
    """Orders of ``count`` withdrawals that stand just before document ``number``."""
    return np.full(count, -1 - number, np.int64)
