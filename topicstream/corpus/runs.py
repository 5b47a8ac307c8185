"""Records sorted outside memory: runs on disk, read back by ranges of their key."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from topicstream.files import owned

SAMPLE = 1024


class SortedRuns:
    """Records of one structured dtype, in runs of at most ``most`` records sorted by the unsigned field ``key``.

    ``add`` takes records; ``edges`` gives key values that cut all records into ranges of about ``most`` records (more only
    where that many have one key); ``between`` yields the records of a range in arrays of at most ``most``.
    """

    def __init__(self, folder: Path, name: str, dtype: np.dtype, key: str, most: int) -> None:
        self._folder, self._name, self._dtype, self._key, self._most = folder, name, dtype, key, most
        self._waiting: list[np.ndarray] = []
        self._held = 0
        self._runs: list[np.ndarray] = []
        self._samples: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs) + self._held

    def add(self, records: np.ndarray) -> None:
        """Append records, in any order."""
        if len(records):
            self._waiting.append(records)
            self._held += len(records)
            while self._held >= self._most:
                self._spill()

    def _spill(self) -> None:
        joined = np.concatenate(self._waiting)
        records, rest = joined[: self._most], joined[self._most :]
        self._waiting, self._held = ([rest.copy()] if len(rest) else []), len(rest)
        records = records[np.argsort(records[self._key], kind="stable")]
        path = self._folder / f"{self._name}-{len(self._runs)}.npy"
        with owned.create(path) as f:
            np.save(f, records)
        self._samples.append(np.array(records[self._key][::SAMPLE]))
        self._runs.append(np.load(path, mmap_mode="r"))

    def seal(self) -> None:
        """No more records: the rest becomes the last run."""
        if self._held:
            self._spill()

    def edges(self, share: float = 1.0) -> np.ndarray:
        """uint64[]: ascending keys that cut all records into ranges of about ``share * most`` records."""
        keys = np.sort(np.concatenate(self._samples)) if self._samples else np.zeros(0, np.uint64)
        step = max(1, int(share * self._most) // SAMPLE - len(self._runs))
        return np.unique(keys[step::step]).astype(np.uint64)

    def between(self, low: int | None, high: int | None) -> Iterator[np.ndarray]:
        """The records with low <= key < high (None: no bound), run by run, each array sorted by the key."""
        for run in self._runs:
            keys = run[self._key]
            start = 0 if low is None else bisect_left(keys, low)
            stop = len(run) if high is None else bisect_left(keys, high)
            if stop > start:
                yield np.array(run[start:stop])

    def close(self) -> None:
        """Remove the runs."""
        self._runs = []
        owned.sweep(self._folder, f"{self._name}-*.npy")


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct values, ascending; ``values`` (whole numbers) is sorted in place.  (np.unique takes a hash table.)"""
    values.sort()
    return np.asarray(values[np.concatenate((np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]))])


def ranges(edges: Sequence[int] | np.ndarray) -> Iterator[tuple[int | None, int | None]]:
    """The ranges that ascending edges cut: (None, e0), (e0, e1), ..., (last, None)."""
    bounds = [None, *(int(e) for e in edges), None]
    yield from pairwise(bounds)
