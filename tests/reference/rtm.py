"""The relational topic model by belief propagation, straight from Zeng, Cheung & Liu 2013, section
4: dense, float64.

x: [D, W] counts; mu: [D, W, K]; linked: for each document the documents that it is linked with
(both directions, no self-links).
"""

import numpy as np

from tests.reference.bp import sums


def eta_of(theta, linked):
    """Eq. (28): [K, K], rows sum to one over k'."""
    pairs = np.zeros((theta.shape[1],) * 2)
    for d, others in enumerate(linked):
        for e in others:
            pairs += np.outer(theta[d], theta[e])
    ends = pairs.sum(1, keepdims=True)
    return np.divide(pairs, ends, out=np.zeros_like(pairs), where=ends > 0)


def link_message(theta, linked, eta, renormalise=False):
    """Eq. (29) as the mean over linked documents that have words: [D, K], zero where there
    is none.
    """
    out = np.zeros_like(theta)
    for d, others in enumerate(linked):
        shares = [theta[e] / theta[e].sum() for e in others if theta[e].sum() > 0]
        if shares:
            out[d] = eta @ np.mean(shares, 0)
            if renormalise and out[d].sum() > 0:
                out[d] /= out[d].sum()
    return out


def message(theta, n, phi, lam, own, x, link, alpha, beta, words, xi):
    """Eq. (30) for one cell: (message, p(w)); theta, phi, lam, own, link are [K], n the document's
    tokens.
    """
    from_words = (theta - own + alpha) / (n - x + len(theta) * alpha)
    from_topics = (phi - own + beta) / (lam - own + words * beta)
    if not link.any():
        xi = 0.0
    mixed = (1 - xi) * from_words + xi * link
    p = mixed * from_topics
    return p / p.sum(), p.sum() / mixed.sum(), xi * (link * from_topics).sum() / p.sum()


def one_pass(x, mu, linked, eta, alpha, beta, xi, asynchronous, renormalise=False):
    """(new messages, sum of x log p(w), share of the linked documents' tokens that links explain).
    Links see the theta of the old messages.
    """
    theta, phi, lam = sums(x, mu)
    link = link_message(theta, linked, eta, renormalise)
    new = mu.copy()
    loglik = 0.0
    told = np.zeros(2)
    for d, w in zip(*np.nonzero(x)):
        c = x[d, w]
        m, p, share = message(
            theta[d], x[d].sum(), phi[w], lam, c * mu[d, w], c, link[d], alpha, beta, x.shape[1], xi
        )
        loglik += c * np.log(p)
        told += (c * link[d].any(), c * share)
        new[d, w] = m
        if asynchronous:
            change = c * (m - mu[d, w])
            theta[d] += change
            phi[w] += change
            lam = lam + change
    return new, loglik, told[1] / max(told[0], 1)


def passes(x, mu, linked, n, alpha, beta, xi, asynchronous, eta_form="rows", renormalise=False):
    """n passes from mu, as the engine makes them: eta is of the theta that the pass before began
    with, none in the first. Returns messages, eta, log-likelihood of the last pass.
    """
    topics = mu.shape[2]
    eta = np.zeros((topics, topics))
    loglik = 0.0
    for _ in range(n):
        used = {"rows": eta, "columns": eta.T, "identity": np.eye(topics) * eta.any()}[eta_form]
        seen = sums(x, mu)[0]
        mu, loglik, _ = one_pass(x, mu, linked, used, alpha, beta, xi, asynchronous, renormalise)
        eta = eta_of(seen, linked)
    return mu, eta, loglik
