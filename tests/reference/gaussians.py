"""A mixture of Gaussians under a normal-Wishart prior, point by point in float64 (Hughes & Sudderth
2016, B.1; Bishop 2006, 10.2).
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, multigammaln

from tests.reference.mixture import entropy, log_beta


class Prior:
    def __init__(self, mean, covariance, kappa):
        self.mean = mean
        self.kappa = kappa
        self.diagonal = covariance.ndim == 1
        self.n = len(mean)
        # B = E[Sigma] (nu - n - 1)
        self.nu = 3.0 if self.diagonal else self.n + 2.0
        self.scale = covariance


def posterior(x, r, prior):
    """(nu, kappa, mean, B) of one component, of points x with responsibilities r."""
    n_k = r.sum()
    s = r @ x
    kappa = prior.kappa + n_k
    mean = (prior.kappa * prior.mean + s) / kappa if prior.kappa else np.zeros(prior.n)
    scale = np.array(prior.scale, float)
    for point, weight in zip(x, r):
        scale += weight * (point**2 if prior.diagonal else np.outer(point, point))
    if prior.kappa:
        scale += prior.kappa * (
            prior.mean**2 if prior.diagonal else np.outer(prior.mean, prior.mean)
        )
        scale -= kappa * (mean**2 if prior.diagonal else np.outer(mean, mean))
    return prior.nu + n_k, kappa, mean, scale


def expected(x, post, prior):
    """E[log F(x)], float64[D]."""
    nu, kappa, mean, scale = post
    n = prior.n
    d = x - mean
    if prior.diagonal:
        logdet = sum(digamma(nu / 2) + np.log(2) - np.log(b) for b in scale)
        square = nu * (d**2 / scale).sum(1)
    else:
        logdet = (
            sum(digamma((nu + 1 - i) / 2) for i in range(1, n + 1))
            + n * np.log(2)
            - np.linalg.slogdet(scale)[1]
        )
        square = nu * np.einsum("ij,jk,ik->i", d, np.linalg.inv(scale), d)
    return 0.5 * (logdet - square - (n / kappa if prior.kappa else 0.0) - n * np.log(2 * np.pi))


def normaliser(nu, scale, diagonal):
    """c(nu, B)."""
    if diagonal:
        return sum(-nu / 2 * np.log(2) - gammaln(nu / 2) + nu / 2 * np.log(b) for b in scale)
    n = len(scale)
    return -nu * n / 2 * np.log(2) - multigammaln(nu / 2, n) + nu / 2 * np.linalg.slogdet(scale)[1]


def scores(x, posts, sizes, alpha, prior):
    """W [D, K]."""
    pi = digamma(sizes + alpha) - digamma((sizes + alpha).sum())
    return pi + np.stack([expected(x, post, prior) for post in posts], 1)


def bound(x, r, alpha, prior):
    """L of components that are the sums of r."""
    value = -len(x) * prior.n / 2 * np.log(2 * np.pi)
    k = r.shape[1]
    for column in r.T:
        nu, kappa, _, scale = posterior(x, column, prior)
        value += normaliser(prior.nu, prior.scale, prior.diagonal) - normaliser(
            nu, scale, prior.diagonal
        )
        if prior.kappa:
            value += prior.n / 2 * np.log(prior.kappa / kappa)
    return value + log_beta(r.sum(0) + alpha) - log_beta(np.full(k, alpha)) + entropy(r)
