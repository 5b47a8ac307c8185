"""What a start gives: a seed table, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np


class Seeds(Protocol):
    """A seed table, row by row.  totals: float64[padded(K)], its column sums."""

    totals: np.ndarray

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """float32[U, padded(K)] rows of these words: positive, unnormalised.  Safe from several threads."""


def id_ranges(n: int, step: int = 8192) -> Iterator[np.ndarray]:
    """0, 1, ... n - 1 in pieces."""
    for at in range(0, n, step):
        yield np.arange(at, min(at + step, n))
