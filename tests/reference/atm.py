"""The author-topic model by belief propagation, dense, float64, straight from Zeng, Cheung & Liu
2013, eq. 24-27.

x: [D, W] counts; authors: [D, A] of bool; mu: [D, W, A, K], zero where x is 0 or the author did not
write the document.  kept: [D, A, K], the pairs that may have a share.
"""

import numpy as np


def sums(x, mu):
    """T [A, K], phi [W, K], lam [K]: the sums of x mu."""
    c = x[:, :, None, None] * mu
    return c.sum((0, 1)), c.sum((0, 2)), c.sum((0, 1, 2))


def message(table, phi, lam, own, wrote, alpha, beta, words):
    """Eq. 24-26 for one cell: table, own [A, K]; phi, lam [K]; wrote: bool [A], or [A, K] where
    only some pairs may have a share. Returns (mu [A, K], its normaliser).
    """
    rest = table - own
    author = (rest + alpha) / (rest.sum(1, keepdims=True) + table.shape[1] * alpha)
    shared = own.sum(0)
    word = (phi - shared + beta) / (lam - shared + words * beta)
    p = author * word * (wrote if wrote.ndim == 2 else wrote[:, None])
    return p / p.sum(), p.sum()


def synchronous(x, authors, mu, alpha, beta, kept=None):
    """Every message from the sums of the old ones; returns (messages, sum of x log p under a
    uniform author).
    """
    table, phi, lam = sums(x, mu)
    new = np.zeros_like(mu)
    loglik = 0.0
    for d, w in zip(*np.nonzero(x)):
        new[d, w], s = message(
            table,
            phi[w],
            lam,
            x[d, w] * mu[d, w],
            (authors if kept is None else kept)[d],
            alpha,
            beta,
            x.shape[1],
        )
        loglik += x[d, w] * np.log(s / authors[d].sum())
    return new, loglik


def asynchronous(x, authors, mu, alpha, beta, kept=None):
    """Messages in turn, document by document, sums moving at once."""
    mu = mu.copy()
    loglik = 0.0
    table, phi, lam = sums(x, mu)
    for d, w in zip(*np.nonzero(x)):
        own = x[d, w] * mu[d, w]
        new, s = message(
            table, phi[w], lam, own, (authors if kept is None else kept)[d], alpha, beta, x.shape[1]
        )
        loglik += x[d, w] * np.log(s / authors[d].sum())
        change = x[d, w] * new - own
        table = table + change
        phi[w] += change.sum(0)
        lam = lam + change.sum(0)
        mu[d, w] = new
    return mu, loglik
