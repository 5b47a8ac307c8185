"""Constants beside a table, such as pseudo-counts of seed words.

They are added where rows are read.

They are part of the topic-word prior (beta + s_wk in the place of beta for a few words and topics),
so no rule changes them: nothing is taken out of them, no rescaling or blending wears them off, and
they are never stored as counts.
"""

from __future__ import annotations

import math

import numpy as np

LANES = 16


def _rise(x: np.ndarray, y: np.ndarray) -> float:
    """Sum lgamma(x[i]) - lgamma(y[i]) over i."""
    # kernels, which commands that only read a model need not load
    from topicstream.numeric.kernels.dirichlet import log_gamma

    return math.fsum((log_gamma(x) - log_gamma(y)).tolist())


class Constants:
    """A sparse table of constants.

    Row ``ids[i]`` has ``weight[j]`` in column ``topic[j]`` for j in ptr[i] .. ptr[i + 1] - 1.

    ids       int32[S] ascending;  ptr int64[S + 1];  topic int32[n], ascending in a row;  weight
              float64[n], above 0
    totals    float64[padded(columns)], column sums
    """

    def __init__(
        self, words: np.ndarray, topics: np.ndarray, weights: np.ndarray, columns: int
    ) -> None:
        """Build the table from triples in any order, each word-topic pair once."""
        order = np.lexsort((topics, words))
        self.columns = columns
        self.ids, counts = np.unique(np.asarray(words, np.int32), return_counts=True)
        self.ptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.topic = np.asarray(topics, np.int32)[order]
        self.weight = np.asarray(weights, np.float64)[order]
        self.totals = np.zeros(-(-columns // LANES) * LANES)
        np.add.at(self.totals, self.topic, self.weight)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def words(self) -> np.ndarray:
        """Return the row of every entry, int64[n]."""
        return np.repeat(self.ids.astype(np.int64), np.diff(self.ptr))

    @property
    def whole(self) -> bool:
        """Test whether all weights are whole numbers."""
        return bool((self.weight == np.floor(self.weight)).all())

    def find(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find which of ``ids`` have constants, and which rows of ours they are.

        Returns (places in ``ids``, our row numbers), both int64[m]. ids may be in any order.
        """
        at = np.minimum(np.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        hits = np.flatnonzero(self.ids[at] == ids) if len(self.ids) else np.zeros(0, np.int64)
        return hits, at[hits].astype(np.int64)

    def add(
        self, rows: np.ndarray, places: np.ndarray, which: np.ndarray, scale: float = 1.0
    ) -> None:
        """Add row which[i] / scale to rows[places[i]], in place.

        rows: [R, >= columns]; each place occurs once.
        """
        counts = np.diff(self.ptr)[which]
        entry = np.repeat(self.ptr[which] - np.cumsum(counts) + counts, counts) + np.arange(
            counts.sum()
        )
        rows[np.repeat(places, counts), self.topic[entry]] += (self.weight[entry] / scale).astype(
            rows.dtype
        )

    def added(self, first: int, rows: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """Add the constants (/ scale) to rows ``first``, ``first + 1``, ... of a table.

        The result is a copy if there are any.
        """
        a, b = np.searchsorted(self.ids, (first, first + len(rows)))
        if a == b:
            return rows
        rows = rows.copy()
        self.add(rows, self.ids[a:b].astype(np.int64) - first, np.arange(a, b), scale)
        return rows

    def evidence(self, counts: np.ndarray, totals: np.ndarray, beta: float, width: float) -> float:
        """Compute what the constants change of the topics' log B terms, float64.

        The terms are sum_k [log B(beta-hat_k) - log B(beta_k)].

        counts: float64[n] of our entries; totals: float64[>= columns] of all counts; width: W beta.
        """
        k = self.totals[: self.columns]
        used = np.flatnonzero(k)
        more = self.weight + beta
        sums = np.asarray(totals, np.float64)[used] + width
        most = k[used]
        own = _rise(counts + more, more) - _rise(counts + beta, np.full(len(counts), beta))
        whole = np.full(len(used), width)
        return own - _rise(sums + most, whole + most) + _rise(sums, whole)

    def take(self, first: int, rows: np.ndarray, counts: np.ndarray) -> None:
        """Copy our entries of rows ``first``, ``first + 1``, ... into ``counts``.

        rows: [n, >= columns] of a table; counts: float64[n].
        """
        a, b = np.searchsorted(self.ids, (first, first + len(rows)))
        mine = slice(int(self.ptr[a]), int(self.ptr[b]))
        counts[mine] = rows[self.words[mine] - first, self.topic[mine]]

    @property
    def nbytes(self) -> int:
        """Count the bytes of the arrays and of their rows at full width as float32."""
        return self.weight.nbytes * 2 + self.ids.nbytes * 3 + 4 * len(self.ids) * len(self.totals)
