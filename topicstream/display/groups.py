"""Mean shares of topics by group of documents, with intervals, from sums over one stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from topicstream.evaluation.visiting import BlockShares

PARTS_AT_ONCE = 1 << 12
"""Parts whose shares are added at a time."""
LEVEL = 0.95
LEAST = 10
"""Documents from which on a mean has an interval."""
LEAST_WORTH = 5
"""Documents' worth of a topic, and of all others, from which on a mean has an interval."""
LEAST_SLOPE = 30
"""Documents from which on a slope has a standard error."""
LIMITS = (
    f"no ±: fewer than {LEAST} documents, or the topic or all others together are worth fewer "
    f"than {LEAST_WORTH} of them (parts of one document count as one)",
    "± does not include the uncertainty of the topics themselves",
)
"""Lines about the intervals of means, for people."""


class Means(NamedTuple):
    """Mean shares of topics by group, float64[G, K] each.

    Attributes
    ----------
    share
        NaN for groups without documents.
    error
        Standard error; NaN where there are too few documents for an interval that holds.
    reach
        Half of the interval, likewise.
    """

    share: np.ndarray
    error: np.ndarray
    reach: np.ndarray


def freedom_of(documents: np.ndarray | float, worth: np.ndarray) -> np.ndarray:
    """Count the degrees of freedom of a mean's variance, NaN for an interval that cannot hold.

    Shares are mostly near 0 or 1, so that a variance is known as well as the rarer of the two lets
    it be: of shares 0 and 1 with mean M, it has the relative variance 1 / (n M), and
    Satterthwaite's degrees of freedom are 2 n M. docs/internals/decisions/means.md has the
    simulation.

    Parameters
    ----------
    documents, worth
        Equally large documents that the mean is worth, and those of them that the topic, or all
        others if these are fewer, would fill.
    """
    with np.errstate(invalid="ignore"):
        freedom = np.minimum(documents - 1.0, 2.0 * worth)
        return np.where((documents >= LEAST) & (worth >= LEAST_WORTH), freedom, np.nan)


class Groups:
    """Mean shares of topics by group of documents, with standard errors.

    The share of topic k in group g is the mean of p(k|d) over its documents that count. Each
    group has a variance for each topic: shares of a topic that fills a group vary far more than
    those of a topic that the group hardly has. With C[g] clusters c in the group (documents, or
    the documents that parts were cut from), n[c] documents in each, whose shares sum to S[c], the
    mean is M = sum S / sum n and its variance

        C / (C - 1)  sum_c (S[c] - n[c] M)^2 / (sum n)^2

    which is s^2 / n for whole documents. As many equally large clusters would be worth as much as
    (sum n)^2 / sum n^2, which Student's degrees of freedom start from. The variance includes what a
    document's topics are uncertain by, because this makes the shares of documents differ. It does
    not include how uncertain the topics themselves are.

    Attributes
    ----------
    docs
        Documents that count, float64[G].
    left_out
        Documents of the group that do not count, float64[G].
    clusters
        float64[G].
    mean
        Sums of shares, float64[G, K].
    squares, weighted
        Sums of S^2 and of n S over clusters, float64[G, K].
    n2
        Sums of n^2 over clusters, float64[G].
    """

    def __init__(self, groups: int, topics: int) -> None:
        self.docs = np.zeros(groups)
        self.left_out = np.zeros(groups)
        self.clusters = np.zeros(groups)
        self.mean = np.zeros((groups, topics))
        self.squares = np.zeros((groups, topics))
        self._weighted = np.zeros((groups, topics))
        self._n2 = np.zeros(groups)
        self._waiting: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def add(
        self,
        docs: np.ndarray,
        codes: np.ndarray,
        block: BlockShares,
        parents: np.ndarray | None = None,
    ) -> None:
        """Add the documents of a block to groups.

        Parameters
        ----------
        docs, codes
            Entries: document docs[i] of the block is in group codes[i], in each at most once.
        block
            Shares of the topics in the documents of the block.
        parents
            int64[D], ascending from call to call: the document that each is a part of. None:
            documents are whole.
        """
        counted = block.counted[docs]
        self.left_out += np.bincount(codes[~counted], minlength=len(self.docs))
        docs = docs[counted]
        codes = codes[counted]
        self.docs += np.bincount(codes, minlength=len(self.docs))
        if parents is None:
            self._add_documents(docs, codes, block.shares)
            return
        for begin in range(0, len(docs), PARTS_AT_ONCE):
            some = slice(begin, begin + PARTS_AT_ONCE)
            self._add_parts(parents[docs[some]], codes[some], block.shares[docs[some]])

    def _add_documents(self, docs: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> None:
        """Add whole documents, each a cluster."""
        groups, place, sizes = np.unique(codes, return_inverse=True, return_counts=True)
        members = np.zeros((len(groups), len(shares)), shares.dtype)
        members[place, docs] = 1
        self.mean[groups] += members @ shares
        self.squares[groups] += members @ (shares * shares)
        self._weighted = self.mean
        self._n2[groups] += sizes
        self.clusters[groups] += sizes

    def _add_parts(self, owners: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> None:
        """Add parts of documents, but for those of the last one, which may have more."""
        if self._waiting is not None:
            waiting = self._waiting
            owners = np.concatenate([waiting[0], owners])
            codes = np.concatenate([waiting[1], codes])
            shares = np.concatenate([waiting[2], shares])
        ended = int(np.searchsorted(owners, owners[-1]))
        self._add_clusters(owners[:ended], codes[:ended], shares[:ended])
        self._waiting = owners[ended:], codes[ended:], shares[ended:]

    def _add_clusters(self, owners: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> None:
        """Add all parts of some documents."""
        if not len(owners):
            return
        groups = len(self.docs)
        keys, place, sizes = np.unique(
            owners * groups + codes, return_inverse=True, return_counts=True
        )
        group = keys % groups
        in_order = shares[np.argsort(place, kind="stable")]
        sums = np.add.reduceat(in_order, np.cumsum(sizes) - sizes, axis=0, dtype=np.float64)
        n = sizes.astype(np.float64)
        np.add.at(self.mean, group, sums)
        np.add.at(self.squares, group, sums**2)
        np.add.at(self._weighted, group, n[:, None] * sums)
        np.add.at(self._n2, group, n**2)
        np.add.at(self.clusters, group, 1.0)

    def _end_parts(self) -> None:
        """Add the parts that still wait when no more can come."""
        if self._waiting is not None:
            self._add_clusters(*self._waiting)
            self._waiting = None

    def means(self) -> Means:
        """Average the shares of each group."""
        self._end_parts()
        n = self.docs[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self.mean / n
            effective = self.docs**2 / self._n2
            correction = (self.clusters / (self.clusters - 1.0))[:, None]
            error = np.sqrt(correction * self._around(share)) / n
            worth = self._worth(effective[:, None], share)
        freedom = freedom_of(effective[:, None], worth)
        error = np.where(np.isnan(freedom), np.nan, error)
        return Means(share, error, error * stdtrit(freedom, 0.5 + LEVEL / 2))

    def _worth(self, documents: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Count the documents that the topic, or all others, would fill, float64[G, K].

        No more than those that have it: a topic of a few long documents is worth few.
        """
        n = self.docs[:, None]
        of_others = self._n2[:, None] - 2.0 * self._weighted + self.squares
        have_topic = self.mean**2 / self.squares
        have_others = (n - self.mean) ** 2 / of_others
        filled = documents * np.minimum(share, 1.0 - share)
        return np.asarray(np.minimum(filled, np.minimum(have_topic, have_others)))

    def _around(self, share: np.ndarray) -> np.ndarray:
        """Sum (S - n share)^2 over the clusters of each group, float64[G, K]."""
        squares = self.squares - 2.0 * share * self._weighted + self._n2[:, None] * share**2
        return np.asarray(np.maximum(0.0, squares))

    def slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fit a line through the shares of documents over time.

        The variance is the larger of two: with one variance for all groups, and with each group's
        own around the line. It does not include events that move all documents of a period.

        Parameters
        ----------
        x
            Time of each group, float64[G].

        Returns
        -------
        Slope of the share per unit of x, and its standard error, float64[K] each. NaN where the
        slope has less evidence than ``LEAST_SLOPE`` documents, or the topic too little.
        """
        self._end_parts()
        nothing = np.full(self.mean.shape[1], np.nan)
        docs = float(self.docs.sum())
        clusters = float(self.clusters.sum())
        if clusters < LEAST_SLOPE:
            return nothing, nothing
        centred = x - self.docs @ x / docs
        spread = float(self.docs @ centred**2)
        weight = self._n2 * centred**2
        fourth = np.divide(weight**2, self.clusters, out=np.zeros(len(x)), where=self.clusters > 0)
        if not fourth.any() or weight.sum() ** 2 / fourth.sum() < LEAST_SLOPE:
            return nothing, nothing
        share = self.mean.sum(axis=0) / docs
        slope = centred @ self.mean / spread
        around = self._around(share + centred[:, None] * slope)
        pooled = around.sum(axis=0) / self._n2.sum() * weight.sum()
        by_group = centred**2 @ around
        correction = clusters / (clusters - 2.0)
        error = np.sqrt(correction * np.maximum(pooled, by_group)) / spread
        documents = docs**2 / float(self._n2.sum())
        worth = documents * np.minimum(share, 1.0 - share)
        shown = np.isfinite(freedom_of(documents, worth))
        return np.where(shown, slope, np.nan), np.where(shown, error, np.nan)
