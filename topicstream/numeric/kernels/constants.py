"""Constants beside a table, such as pseudo-counts of seed words.

They are part of the topic-word prior: beta + s_wk in the place of beta for a few words and topics.
They are added when rows are read, and never stored as counts, so no update, rescaling or blending
of the table changes them.
"""

from __future__ import annotations

import math

import numpy as np

LANES = 16


def _log_gamma_rise(x: np.ndarray, y: np.ndarray) -> float:
    """Sum lgamma(x[i]) - lgamma(y[i]) over i."""
    # kernels, which commands that only read a model need not load
    from topicstream.numeric.kernels.dirichlet import log_gamma

    return math.fsum((log_gamma(x) - log_gamma(y)).tolist())


class Constants:
    """A sparse table of constants.

    Row ``ids[i]`` has ``weight[j]`` in column ``topic[j]`` for j in ptr[i] .. ptr[i + 1] - 1.

    Parameters
    ----------
    words, topics, weights
        Triples in any order, each pair of a word and a topic once.
    columns
        Number of topics.

    Attributes
    ----------
    ids
        int32[S], ascending, the rows that have constants.
    ptr
        int64[S + 1].
    topic
        int32[n], ascending in a row.
    weight
        float64[n], above 0.
    totals
        float64[padded(columns)], column sums.
    """

    def __init__(
        self, words: np.ndarray, topics: np.ndarray, weights: np.ndarray, columns: int
    ) -> None:
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
    def are_integers(self) -> bool:
        """Tell whether all weights are whole numbers."""
        return bool((self.weight == np.floor(self.weight)).all())

    def find(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the ids that have constants.

        Parameters
        ----------
        ids
            Ids in any order.

        Returns
        -------
        positions, rows
            Indices into ``ids``, and the row of each in this table, both int64[m].
        """
        if not len(self.ids):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        positions = np.flatnonzero(self.ids[rows] == ids)
        return positions, rows[positions].astype(np.int64)

    def add(
        self, rows: np.ndarray, places: np.ndarray, which: np.ndarray, scale: float = 1.0
    ) -> None:
        """Add row which[i] / scale to rows[places[i]], in place.

        Parameters
        ----------
        rows
            [R, >= columns], the rows that are changed.
        places
            Rows of ``rows``, each once.
        which
            Rows of this table.
        scale
            Divisor of the constants.
        """
        counts = np.diff(self.ptr)[which]
        before = np.cumsum(counts) - counts  # entries of the rows before each
        entry = np.repeat(self.ptr[which] - before, counts) + np.arange(counts.sum())
        added = (self.weight[entry] / scale).astype(rows.dtype)
        rows[np.repeat(places, counts), self.topic[entry]] += added

    def added(self, first: int, rows: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """Add the constants, divided by ``scale``, to rows ``first``, ``first + 1``, ...

        Returns
        -------
        ndarray
            A copy with the constants, or ``rows`` if they have none.
        """
        a, b = np.searchsorted(self.ids, (first, first + len(rows)))
        if a == b:
            return rows
        rows = rows.copy()
        self.add(rows, self.ids[a:b].astype(np.int64) - first, np.arange(a, b), scale)
        return rows

    def evidence(self, counts: np.ndarray, totals: np.ndarray, beta: float, width: float) -> float:
        """Compute the change of the topics' log B terms by the constants.

        The terms are sum_k [log B(beta-hat_k) - log B(beta_k)], with log B(b) =
        sum_w lgamma(b_w) - lgamma(sum_w b_w).

        Parameters
        ----------
        counts
            float64[n], the table's counts in the entries of the constants.
        totals
            float64[>= columns], column sums of all counts.
        beta
            The prior of all other words.
        width
            W beta.
        """
        rise = _log_gamma_rise
        prior = self.weight + beta
        without = np.full(len(counts), beta)
        entries = rise(counts + prior, prior) - rise(counts + without, without)
        topics = np.flatnonzero(self.totals[: self.columns])
        constants = self.totals[topics]
        sums = np.asarray(totals, np.float64)[topics] + width
        widths = np.full(len(topics), width)
        return entries - rise(sums + constants, widths + constants) + rise(sums, widths)

    def take(self, first: int, rows: np.ndarray, counts: np.ndarray) -> None:
        """Copy a table's counts in the entries of the constants.

        Parameters
        ----------
        first
            Number of the first row.
        rows
            [R, >= columns], rows ``first``, ``first + 1``, ... of the table.
        counts
            float64[n], receives the counts of the entries that lie in these rows.
        """
        a, b = np.searchsorted(self.ids, (first, first + len(rows)))
        entries = slice(int(self.ptr[a]), int(self.ptr[b]))
        counts[entries] = rows[self.words[entries] - first, self.topic[entries]]

    @property
    def nbytes(self) -> int:
        """Count the bytes of the arrays and of their rows at full width as float32."""
        return self.weight.nbytes * 2 + self.ids.nbytes * 3 + 4 * len(self.ids) * len(self.totals)
