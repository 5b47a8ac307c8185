"""Belief propagation, siBP and CVB0 straight from Zeng, Cheung & Liu 2013, dense, float64, one
message an entry of x.

x: [D, W] counts; mu: [D, W, K], zero rows where x is 0. ``exclude`` (x, i) -> how much of mu a
cell leaves out. beta: a number, or [W, K] where words have priors of their own in some topics
(seed words).
"""

import numpy as np


def sums(x, mu):
    """theta [D, K], phi [W, K], lam [K]: the sums of x mu."""
    c = x[:, :, None] * mu
    return c.sum(1), c.sum(0), c.sum((0, 1))


def own_share(rule, x):
    return {"cell": x, "token": 1.0, "nothing": 0.0}[rule]


def message(theta, phi, lam, own, alpha, beta, words):
    """Eq. (7) for one cell: theta, phi, lam, own are [K]; beta: a number, or (the word's [K], sums
    over all words [K]).
    """
    row, total = beta if isinstance(beta, tuple) else (beta, words * beta)
    p = (theta - own + alpha) * (phi - own + row) / (lam - own + total)
    return p / p.sum()


def prior_of(beta, w):
    return beta if np.ndim(beta) == 0 else (beta[w], beta.sum(0))


def synchronous(x, mu, alpha, beta, rule):
    """Every message from the sums of the old ones."""
    theta, phi, lam = sums(x, mu)
    new = np.zeros_like(mu)
    for d, w in zip(*np.nonzero(x)):
        own = own_share(rule, x[d, w]) * mu[d, w]
        new[d, w] = message(theta[d], phi[w], lam, own, alpha, prior_of(beta, w), x.shape[1])
    return new


def asynchronous(x, mu, alpha, beta, rule, order="documents", lam_by="cell"):
    """Messages in turn, sums moving at once.  order ``documents``: cell after cell of a document;
    ``words``: the cells of word 0 over the documents, then word 1 ...; lam_by: lam moves after
    each ``cell``, after each ``word`` or after the ``pass``.
    """
    mu = mu.copy()
    theta, phi, lam = sums(x, mu)
    cells = (
        list(zip(*np.nonzero(x)))
        if order == "documents"
        else [(d, w) for w, d in zip(*np.nonzero(x.T))]
    )
    waiting = np.zeros_like(lam)
    last = None
    for d, w in cells:
        if lam_by == "cell" or (lam_by == "word" and w != last):
            lam, waiting, last = lam + waiting, np.zeros_like(lam), w
        own = own_share(rule, x[d, w]) * mu[d, w]
        new = message(theta[d], phi[w], lam, own, alpha, prior_of(beta, w), x.shape[1])
        change = x[d, w] * (new - mu[d, w])
        theta[d] += change
        phi[w] += change
        waiting = waiting + change
        mu[d, w] = new
    return mu


def figure4(x, mu, alpha, beta, passes):
    """The paper's siBP listing: x is [W, D] there; returns mu [D, W, K] after that many turns of
    its loop.
    """

    def normalise(a, axis):
        return a / a.sum(axis=axis, keepdims=True)

    wi, di = np.nonzero(x.T)
    xi = x.T[wi, di]
    m = mu[di, wi].T
    for _ in range(passes):
        md = np.array([np.bincount(di, xi * row, x.shape[0]) for row in m])
        mw = np.array([np.bincount(wi, xi * row, x.shape[1]) for row in m])
        theta = normalise(md + alpha, 0)
        phi = normalise(mw + beta, 1)
        m = normalise(theta[:, di] * phi[:, wi], 0)
    out = np.zeros_like(mu)
    out[di, wi] = m.T
    return out
