"""Shares of topics by group of documents, with standard errors, from sums over one stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

AT_ONCE = 1 << 12
"""Parts whose shares are looked at together."""


class Clusters(NamedTuple):
    """What lies together in groups, each cluster c with n[c, g] documents, whose shares add up to
    S[c, g].

    squares float64[K], sum of S^2;  weighted float64[G, K], sum of n S;  n2, n3 float64[G], sums of
                                     n^2 and n^3;
    number: of all clusters
    """

    squares: np.ndarray
    weighted: np.ndarray
    n2: np.ndarray
    n3: np.ndarray
    number: float


class Groups:
    """Shares of topics by group of documents, with standard errors.

    The share of topic k in group g is the mean of p(k|d) over its documents: the coefficients of
    the regression of document
    shares on the groups.  Roberts, Stewart & Tingley (2019, ``estimateEffect``) draw theta of every
                           document from its
    posterior, fit by least squares for each draw, and pool: the variance of a coefficient is its
    mean within a draw plus its
    variance between draws.  With the posterior a Dirichlet both have closed forms.  With m[d], v[d]
                             the mean and variance of
    p(k|d), n[g] the documents of g and N - G the degrees of freedom,

        within   E[sigma^2] / n[g],   E[sigma^2] = (sum_d (m^2 + v) - sum_g (n[g] M[g]^2 + sum_{d in
                 g} v[d] / n[g])) / (N - G)
        between  sum_{d in g} v[d] / n[g]^2

    and for a line over time, with X = [1, x], the same with (X'X)^-1.

    Parts of one document are not independent.  Of these sigma^2 is the variance of the documents'
    means around their group,
    pooled over the groups: the expectation of sum_cg (S - n M)^2, over sum_g (n2 - 2 n3 / n + n2^2
    / n^2), and it enters
    with n2 / n^2 in the place of 1 / n (``Clusters``; for whole documents n2 = n3 = n, and both are
    the same).  Where every
    group is a single document its parts are what varies.

    Attributes
    ----------
    docs
        float64[G].
    mean, var
        float64[G, K], sums of m and of v.
    squares
        float64[K], sum of m^2 over all entries.
    """

    def __init__(self, groups: int, topics: int, parts: bool = False) -> None:
        self.docs = np.zeros(groups)
        self.mean, self.var = np.zeros((groups, topics)), np.zeros((groups, topics))
        self.squares = np.zeros(topics)
        self._of_parts = (
            Clusters(
                np.zeros(topics),
                np.zeros((groups, topics)),
                np.zeros(groups),
                np.zeros(groups),
                0.0,
            )
            if parts
            else None
        )
        self._clusters = np.zeros(groups)
        self._waiting: list[np.ndarray] = [
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros((0, topics), np.float32),
        ]

    def add(
        self,
        docs: np.ndarray,
        codes: np.ndarray,
        m: np.ndarray,
        square: np.ndarray,
        concentration: np.ndarray,
        wholes: np.ndarray | None = None,
    ) -> None:
        """Entries: document docs[i] (a row of m, float[D, K]) is in group codes[i], in each at most
        once.

        square  m * m; the Dirichlet's variance is v = (m - m^2) / (concentration + 1), so its sums
                need no array of their own
        wholes  int64[D], ascending from call to call: which document each is a part of
        """
        groups, place = np.unique(codes, return_inverse=True)
        g = len(groups)
        rows = np.zeros(
            (2 * g + 1, len(m)), m.dtype
        )  # members, their weights in v, entries of each document
        rows[place, docs] = 1
        np.divide(rows[:g], concentration + 1.0, out=rows[g : 2 * g], casting="same_kind")
        rows[2 * g] = np.bincount(docs, minlength=len(m))
        first, second = rows[: 2 * g] @ m, rows[g:] @ square
        self.docs[groups] += np.bincount(place)
        self.mean[groups] += first[:g]
        self.var[groups] += first[g:] - second[:g]
        self.squares += second[g]
        for begin in range(0, len(docs) if wholes is not None else 0, AT_ONCE):
            some = docs[begin : begin + AT_ONCE]
            entries = wholes[some], codes[begin : begin + AT_ONCE], m[some]  # type: ignore[index]
            owners, own, shares = map(np.concatenate, zip(self._waiting, entries))
            ended = int(np.searchsorted(owners, owners[-1]))  # more of the last document may come
            self._count(owners[:ended], own[:ended], shares[:ended])
            self._waiting = [owners[ended:], own[ended:], shares[ended:]]

    def _count(self, owners: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> None:
        """Parts of whole documents."""
        assert self._of_parts is not None
        if not len(owners):
            return
        squares, weighted, n2, n3, number = self._of_parts
        keys, place, counts = np.unique(
            owners * len(self.docs) + codes, return_inverse=True, return_counts=True
        )
        group, n = keys % len(self.docs), counts.astype(np.float64)
        sums = np.add.reduceat(
            shares[np.argsort(place, kind="stable")],
            np.cumsum(counts) - counts,
            axis=0,
            dtype=np.float64,
        )
        squares += (sums**2).sum(axis=0)
        np.add.at(weighted, group, n[:, None] * sums)
        np.add.at(n2, group, n**2)
        np.add.at(n3, group, n**3)
        np.add.at(self._clusters, group, 1.0)
        self._of_parts = self._of_parts._replace(number=number + len(np.unique(owners)))

    def clusters(self) -> Clusters:
        """Documents, or those that parts were cut from; none that has been added waits for more of
        its parts any longer.
        """
        documents = Clusters(self.squares, self.mean, self.docs, self.docs, float(self.docs.sum()))
        if self._of_parts is None:
            return documents
        self._count(*self._waiting)
        self._waiting = [array[:0] for array in self._waiting]
        return self._of_parts if self._clusters.max(initial=0) > 1 else documents

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(share float64[G, K], standard error float64[G, K]); NaN for groups without documents."""
        squares, weighted, n2, n3, _ = self.clusters()
        n, filled = self.docs, self.docs > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            share, alike = self.mean / n[:, None], n2 / n**2
            left = (
                n2[:, None] * share**2 - 2.0 * share * weighted + self.var * (1.0 - alike)[:, None]
            )
            free = max(1.0, float((n2 - 2.0 * n3 / n + n2 * alike)[filled].sum()))
            sigma2 = np.maximum(0.0, squares + left[filled].sum(axis=0)) / free
            error = np.sqrt(sigma2 * alike[:, None] + self.var / n[:, None] ** 2)
        return share, error

    def slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(slope of the share per unit of x, its standard error), float64[K], where all of group g
        lie at x[g]: float64[G]
        (time); the same pooling of draws.  NaN without two different x."""
        squares, weighted, n2, _, number = self.clusters()
        design = np.stack([np.ones_like(x), x])
        xx = (design * self.docs) @ design.T
        n = xx[0, 0]
        if number < 3 or np.linalg.det(xx) <= 1e-9 * max(1.0, xx[1, 1] * n):
            return np.full(self.mean.shape[1], np.nan), np.full(self.mean.shape[1], np.nan)
        inverse = np.linalg.inv(xx)
        b = inverse @ (design @ self.mean)
        # X' diag(v) X of each topic, [K, 2, 2]
        middle = np.einsum("ig,jg,gk->kij", design, design, self.var)
        between = inverse @ middle @ inverse
        line = design.T @ b
        left = (
            (n2[:, None] * line**2 - 2.0 * line * weighted).sum(axis=0)
            + middle[:, 0, 0]
            - np.einsum("ij,kij->k", xx, between)
        )
        sigma2 = np.maximum(0.0, squares + left) / (n2.sum() * (1.0 - 2.0 / number))
        within = inverse @ ((design * n2) @ design.T) @ inverse
        return b[1], np.sqrt(sigma2 * within[1, 1] + between[:, 1, 1])
