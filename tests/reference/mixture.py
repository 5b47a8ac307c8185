"""A mixture of multinomials, dense NumPy in float64 (Hughes & Sudderth 2016, sections 2 and 3,
appendix B.2).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import digamma, gammaln, logsumexp


def log_beta(a, axis=0):
    """log of the Dirichlet's normaliser."""
    return gammaln(a).sum(axis) - gammaln(a.sum(axis))


def top(weights, most):
    """Responsibilities [D, K]: softmax of the ``most`` largest of each row."""
    kept = np.full_like(weights, -np.inf)
    first = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    np.put_along_axis(kept, first, np.take_along_axis(weights, first, 1), 1)
    return np.exp(kept - logsumexp(kept, axis=1, keepdims=True))


def entropy(r):
    return -np.sum(r[r > 0] * np.log(r[r > 0]))


def scores(x, words, sizes, alpha, beta):
    """W [D, K]: E[log pi] + sum_w x E[log phi]; words: S [W, K]."""
    pi = digamma(sizes + alpha) - digamma((sizes + alpha).sum())
    return pi + x @ (digamma(words + beta) - digamma((words + beta).sum(0)))


def bound(words, sizes, r, alpha, beta):
    """L of clusters that are the sums of r."""
    w, k = words.shape
    data = (log_beta(words + beta) - log_beta(np.full((w, k), beta))).sum()
    return data + log_beta(sizes + alpha) - log_beta(np.full(k, alpha)) + entropy(r)


class Memoized:
    """Blocks of documents, in order, ``round_blocks`` of them under the same clusters."""

    def __init__(self, x, r, alpha, beta, most):
        self.x = x
        self.r = r
        self.alpha = alpha
        self.beta = beta
        self.most = most
        self.words = x.T @ r
        self.sizes = r.sum(0)

    def lap(self, edges, round_blocks):
        """One lap; returns the bound after it."""
        blocks = list(pairwise(edges))
        for at in range(0, len(blocks), round_blocks):
            a = blocks[at][0]
            b = blocks[min(at + round_blocks, len(blocks)) - 1][1]
            new = top(scores(self.x[a:b], self.words, self.sizes, self.alpha, self.beta), self.most)
            self.words = self.words + self.x[a:b].T @ (new - self.r[a:b])
            self.sizes = self.sizes + (new - self.r[a:b]).sum(0)
            self.r[a:b] = new
        return bound(self.words, self.sizes, self.r, self.alpha, self.beta)


def blended(words, sizes, x, alpha, beta, most, rho, docs):
    """(words, sizes) after one stochastic step on the documents x of ``docs`` in all."""
    r = top(scores(x, words, sizes, alpha, beta), most)
    scale = docs / len(x)
    return (1 - rho) * words + rho * scale * (x.T @ r), (1 - rho) * sizes + rho * scale * r.sum(0)
