"""Shares of topics by group of documents, with standard errors; streamed.

The share of topic k in group g is the mean of p(k|d) over its documents: the coefficients of the regression of document
shares on the groups.  Roberts, Stewart & Tingley (2019, ``estimateEffect``) draw theta of every document from its
posterior, fit by least squares for each draw, and pool: the variance of a coefficient is its mean within a draw plus its
variance between draws.  With the posterior a Dirichlet both have closed forms.  With m[d], v[d] the mean and variance of
p(k|d), n[g] the documents of g and N - G the degrees of freedom,

    within   E[sigma^2] / n[g],   E[sigma^2] = (sum_d (m^2 + v) - sum_g (n[g] M[g]^2 + sum_{d in g} v[d] / n[g])) / (N - G)
    between  sum_{d in g} v[d] / n[g]^2

and for a line over time, with X = [1, x], the same with (X'X)^-1.
"""

from __future__ import annotations

import numpy as np


class Groups:
    """Sums by group.  docs: float64[G]; mean, var: float64[G, K], sums of m and of v; squares: float64[K], sum of m^2 over
    all entries."""

    def __init__(self, groups: int, topics: int) -> None:
        self.docs = np.zeros(groups)
        self.mean, self.var = np.zeros((groups, topics)), np.zeros((groups, topics))
        self.squares = np.zeros(topics)

    def add(
        self, docs: np.ndarray, codes: np.ndarray, m: np.ndarray, square: np.ndarray, concentration: np.ndarray
    ) -> None:
        """Entries: document docs[i] (a row of m, float[D, K]) is in group codes[i], in each at most once.

        square  m * m; the Dirichlet's variance is v = (m - m^2) / (concentration + 1), so its sums need no array of their own
        """
        if not len(docs):
            return
        groups, place = np.unique(codes, return_inverse=True)
        g = len(groups)
        rows = np.zeros((2 * g + 1, len(m)), m.dtype)  # members, their weights in v, entries of each document
        rows[place, docs] = 1
        np.divide(rows[:g], concentration + 1.0, out=rows[g : 2 * g], casting="same_kind")
        rows[2 * g] = np.bincount(docs, minlength=len(m))
        first, second = rows[: 2 * g] @ m, rows[g:] @ square
        self.docs[groups] += np.bincount(place)
        self.mean[groups] += first[:g]
        self.var[groups] += first[g:] - second[:g]
        self.squares += second[g]

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """(share float64[G, K], standard error float64[G, K]); NaN for groups without documents."""
        n = self.docs[:, None]
        filled = self.docs > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            share = self.mean / n
            between = self.var / n**2
            spread = self.squares + self.var.sum(axis=0)
            fitted = (self.mean[filled] ** 2 / n[filled] + self.var[filled] / n[filled]).sum(axis=0)
            free = max(1.0, float(self.docs.sum()) - int(filled.sum()))
            sigma2 = np.maximum(0.0, spread - fitted) / free
            error = np.sqrt(sigma2 / n + between)
        return share, error

    def slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(slope of the share per unit of x, its standard error), float64[K], where all of group g lie at x[g]: float64[G]
        (time); the same pooling of draws.  NaN without two different x."""
        design = np.stack([np.ones_like(x), x])
        xx = (design * self.docs) @ design.T
        n = xx[0, 0]
        if n < 3 or np.linalg.det(xx) <= 1e-9 * max(1.0, xx[1, 1] * n):
            return np.full(self.mean.shape[1], np.nan), np.full(self.mean.shape[1], np.nan)
        inverse = np.linalg.inv(xx)
        b = inverse @ (design @ self.mean)
        # X' diag(v) X of each topic, [K, 2, 2]
        middle = np.einsum("ig,jg,gk->kij", design, design, self.var)
        between = inverse @ middle @ inverse
        fitted = np.einsum("ik,ij,jk->k", b, xx, b) + np.einsum("ij,kij->k", xx, between)
        sigma2 = np.maximum(0.0, self.squares + middle[:, 0, 0] - fitted) / (n - 2)
        return b[1], np.sqrt(sigma2 * inverse[1, 1] + between[:, 1, 1])
