"""Dense NumPy twins of tiny belief propagation, float64, in document order, straight from the
paper's figures.
"""

from __future__ import annotations

import numpy as np


def atbp_pass(indptr, words, counts, phi, theta, lam, alpha, beta):
    """Paper 000, Fig. 3, lines 12-21, in place on phi[W, K], theta[D, K], lam[K].

    Returns sum x log p, p = sum_k (phi + beta)(theta + alpha) / (lam + W beta) / (n_d - x + sum
    alpha) after the shrink.
    """
    n_w = np.bincount(words, counts, len(phi))
    n = counts.sum()
    beta = np.broadcast_to(beta, phi.shape)  # a number, or [W, K]: seed words' own
    loglik = 0.0
    for d in range(len(indptr) - 1):
        n_d = counts[indptr[d] : indptr[d + 1]].sum()
        for i in range(indptr[d], indptr[d + 1]):
            w = words[i]
            x = counts[i]
            phi[w] *= 1 - x / n_w[w]
            theta[d] *= 1 - x / n_d
            lam *= 1 - x / n
            eta = (phi[w] + beta[w]) * (theta[d] + alpha) / (lam + beta.sum(0))
            loglik += x * np.log(eta.sum() / (n_d - x + alpha.sum()))
            eta /= eta.sum()
            phi[w] += x * eta
            theta[d] += x * eta
            lam += x * eta
    return loglik


def stbp_pass(indptr, words, counts, phi, theta, alpha, beta):
    """Paper 000, Fig. 2, lines 12-20 -> (phi', theta', sum x log p)."""
    new_phi = np.zeros_like(phi)
    new_theta = np.zeros_like(theta)
    lam = phi.sum(0)
    loglik = 0.0
    for d in range(len(indptr) - 1):
        n_d = counts[indptr[d] : indptr[d + 1]].sum()
        for i in range(indptr[d], indptr[d + 1]):
            w = words[i]
            x = counts[i]
            eta = (phi[w] + beta) * (theta[d] + alpha) / (lam + len(phi) * beta)
            loglik += x * np.log(eta.sum() / (n_d + alpha.sum()))
            eta /= eta.sum()
            new_phi[w] += x * eta
            new_theta[d] += x * eta
    return new_phi, new_theta, loglik


def fold_in(words, counts, phi, alpha, beta, inner, tol=0.0):
    """theta of one document against topics that stand still, from the even spread, at most
    ``inner`` sweeps.
    """
    p = (phi + beta) / (phi.sum(0) + len(phi) * beta)
    theta = np.full(phi.shape[1], counts.sum() / phi.shape[1])
    for _ in range(inner):
        u = p[words] * (theta + alpha)
        new = (counts[:, None] * u / u.sum(1, keepdims=True)).sum(0)
        change = np.abs(new - theta).sum()
        theta = new
        if change <= tol * counts.sum():
            break
    return theta
