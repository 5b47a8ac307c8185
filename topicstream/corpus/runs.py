"""Records sorted outside memory: runs on disk, read back by ranges of their key."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from topicstream.files import owned
from topicstream.files.whole import read_all, write_all

SAMPLE = 1024


class RunFile:
    """Runs of records of one structured dtype, each sorted by the unsigned field ``key``, one behind the other in a file.

    They are read by position.  A map reads megabytes around every record that is looked at, which a limit of memory throws
    away again: 33 M ids at 512M took 127 GB of reading.
    """

    def __init__(self, path: Path, dtype: np.dtype, key: str) -> None:
        self._path, self._dtype, self._key = path, dtype, key
        self._fd = -1
        self._starts = [0]
        self.samples: list[np.ndarray] = []

    @property
    def lengths(self) -> list[int]:
        """Records of each run."""
        return [b - a for a, b in pairwise(self._starts)]

    def append(self, records: np.ndarray) -> None:
        """One more run, sorted."""
        if self._fd < 0:
            self._fd = owned.create_fd(self._path)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        write_all(self._fd, records, self._starts[-1] * self._dtype.itemsize)
        self._starts.append(self._starts[-1] + len(records))
        self.samples.append(np.array(records[self._key][::SAMPLE]))

    def read(self, run: int, a: int, b: int) -> np.ndarray:
        """The records a .. b of a run."""
        records = np.empty(b - a, self._dtype)
        read_all(self._fd, records, (self._starts[run] + a) * self._dtype.itemsize, str(self._path))
        return records

    def place(self, run: int, edge: int, a: int, b: int, field: str | None = None) -> int:
        """The first position from ``a`` on with ``field`` (the key, or one that ascends within a .. b) of ``edge`` or more,
        at most ``b``."""
        if edge >> 64:
            return b
        low, high = a, b
        if field is None:
            at = int(np.searchsorted(self.samples[run], np.uint64(edge)))
            low, high = max(a, (at - 1) * SAMPLE), min(b, at * SAMPLE)
        field = field or self._key
        while high - low > SAMPLE:
            middle = (low + high) // 2
            if int(self.read(run, middle, middle + 1)[field][0]) < edge:
                low = middle + 1
            else:
                high = middle
        if high <= low:
            return min(low, b)
        return low + int(np.searchsorted(self.read(run, low, high)[field], np.uint64(edge)))

    def close(self) -> None:
        """Remove the file."""
        if self._fd >= 0:
            os.close(self._fd)
            owned.remove_file(self._path)
            self._fd = -1


class SortedRuns:
    """Records of one structured dtype, in runs of at most ``most`` records sorted by the unsigned field ``key``.

    ``add`` takes records; ``edges`` gives key values that cut all records into ranges of about ``most`` records (more only
    where that many have one key); ``between`` yields the records of a range in arrays of at most ``most``.
    """

    def __init__(self, folder: Path, name: str, dtype: np.dtype, key: str, most: int) -> None:
        self._key, self._most = key, most
        self._waiting: list[np.ndarray] = []
        self._held = 0
        self._runs = RunFile(folder / f"{name}.runs", dtype, key)

    def __len__(self) -> int:
        return sum(self._runs.lengths) + self._held

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
        self._runs.append(records[np.argsort(records[self._key], kind="stable")])

    def seal(self) -> None:
        """No more records: the rest becomes the last run."""
        if self._held:
            self._spill()

    def edges(self, share: float = 1.0) -> np.ndarray:
        """uint64[]: ascending keys that cut all records into ranges of about ``share * most`` records."""
        samples = self._runs.samples
        keys = np.sort(np.concatenate(samples)) if samples else np.zeros(0, np.uint64)
        step = max(1, int(share * self._most) // SAMPLE - len(samples))
        return np.unique(keys[step::step]).astype(np.uint64)

    def between(self, low: int | None, high: int | None) -> Iterator[np.ndarray]:
        """The records with low <= key < high (None: no bound), run by run, each array sorted by the key."""
        for run, length in enumerate(self._runs.lengths):
            start = 0 if low is None else self._runs.place(run, low, 0, length)
            stop = length if high is None else self._runs.place(run, high, start, length)
            if stop > start:
                yield self._runs.read(run, start, stop)

    def close(self) -> None:
        """Remove the runs."""
        self._runs.close()


def distinct(values: np.ndarray) -> np.ndarray:
    """The distinct values, ascending; ``values`` (whole numbers) is sorted in place.  (np.unique takes a hash table.)"""
    values.sort()
    return np.asarray(values[np.concatenate((np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]))])


def ranges(edges: Sequence[int] | np.ndarray) -> Iterator[tuple[int | None, int | None]]:
    """The ranges that ascending edges cut: (None, e0), (e0, e1), ..., (last, None)."""
    bounds = [None, *(int(e) for e in edges), None]
    yield from pairwise(bounds)
