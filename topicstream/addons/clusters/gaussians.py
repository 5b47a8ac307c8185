"""Gaussian components under normal-Wishart priors.

Posteriors, scores, statistics and the bound of Hughes & Sudderth (2016), B.1:

    Lambda_k ~ Wishart(nu, B),  mu_k ~ N(m, (kappa Lambda_k)^-1)  or 0
    nu_k     = nu + N_k,        kappa_k = kappa + N_k
    m_k      = (kappa m + s_k) / kappa_k
    B_k      = B + S_k + kappa m m' - kappa_k m_k m_k'      (zero mean: B + S_k)
    E[log F(x)] = (E[log |Lambda_k|] - nu_k (x - m_k)' B_k^-1 (x - m_k)
                   - n / kappa_k - n log 2 pi) / 2

with s_k = sum r x, S_k = sum r x x'. Diagonal components are the same in one dimension, n times
over. Products are those of NumPy's BLAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topicstream.addons.clusters.gaussian_density import LOG_2PI, Densities, densities, near_parts
from topicstream.numeric.kernels.dirichlet import log_gamma, psi


class Statistics(NamedTuple):
    """Sufficient statistics of K components.

    Attributes
    ----------
    sizes
        float64[K].
    sums
        float64[K, n].
    squares
        float64[K, n, n], or [K, n] of diagonal ones.
    """

    sizes: np.ndarray
    sums: np.ndarray
    squares: np.ndarray


@dataclass(frozen=True)
class Prior:
    """The prior of a component.

    Attributes
    ----------
    covariance
        E[Sigma], [n, n] or [n], and also B, which is (nu - n - 1) E[Sigma] with nu = n + 2
        (diagonal: nu = 3, and n is 1).
    mean, kappa
        float64[n] and a number. kappa = 0: means are zero.
    """

    mean: np.ndarray
    covariance: np.ndarray
    kappa: float

    @property
    def diagonal(self) -> bool:
        """Tell whether covariances are diagonal."""
        return self.covariance.ndim == 1

    @property
    def n(self) -> int:
        """Return the numbers of a point."""
        return len(self.mean)

    @property
    def nu(self) -> float:
        """Return the degrees of freedom of the inverse Wishart prior."""
        return 3.0 if self.diagonal else self.n + 2.0


class Posterior(NamedTuple):
    """The posterior of every component.

    Attributes
    ----------
    nu, kappa
        float64[K].
    means
        float64[K, n].
    scale
        B_k, float64[K, n, n] or [K, n].
    logdet
        float64[K], log |B_k|.
    """

    nu: np.ndarray
    kappa: np.ndarray
    means: np.ndarray
    scale: np.ndarray
    logdet: np.ndarray


def posterior(stats: Statistics, prior: Prior) -> Posterior:
    """Compute the posterior of every component."""
    sizes = np.maximum(stats.sizes, 0.0)
    kappa = prior.kappa + sizes
    if prior.kappa > 0:
        means = (prior.kappa * prior.mean + stats.sums) / kappa[:, None]
        ground = prior.kappa * outer(prior.mean[None], prior.diagonal) - kappa.reshape(
            -1, *[1] * (stats.squares.ndim - 1)
        ) * outer(means, prior.diagonal)
    else:
        means = np.zeros_like(stats.sums)
        ground = np.zeros(1)
    scale = prior.covariance + stats.squares + ground
    if prior.diagonal:
        scale = np.maximum(scale, 1e-300)
        logdet = np.log(scale).sum(axis=1)
    else:
        logdet = 2.0 * np.log(np.diagonal(np.linalg.cholesky(scale), axis1=1, axis2=2)).sum(axis=1)
    return Posterior(prior.nu + sizes, kappa, means, scale, logdet)


def outer(x: np.ndarray, diagonal: bool) -> np.ndarray:
    """Compute x x' of every row, or the squares of diagonal components."""
    return np.asarray(x * x if diagonal else x[:, :, None] * x[:, None, :])


def log_determinants(post: Posterior, n: int, diagonal: bool) -> np.ndarray:
    """Compute E[log |Lambda_k|], float64[K]."""
    if diagonal:
        return np.asarray(n * (psi(post.nu / 2) + np.log(2.0)) - post.logdet)
    expected = n * np.log(2.0) - post.logdet
    for i in range(n):
        expected += psi((post.nu - i) / 2)
    return np.asarray(expected)


def covariances(post: Posterior, prior: Prior, estimate: str) -> np.ndarray:
    """Estimate Sigma_k by the posterior's ``mean`` or its mode (``map``)."""
    n = 1 if prior.diagonal else prior.n
    divisor = post.nu - n - 1 if estimate == "mean" else post.nu + n + 1
    return np.asarray(post.scale / divisor.reshape(-1, *[1] * (post.scale.ndim - 1)))


def make_storable(covariance: np.ndarray) -> np.ndarray:
    """Raise variances until the covariances are positive definite in float32, too.

    A model stores float32. If rounding would take an eigenvalue below zero (data without full
    rank), variances grow by what it may take, n 2^-24 of the largest, twice.
    """
    for matrix in covariance if covariance.ndim == 3 else ():
        try:
            np.linalg.cholesky(matrix.astype(np.float32).astype(np.float64))
        except np.linalg.LinAlgError:
            n = len(matrix)
            matrix[np.arange(n), np.arange(n)] += n * 2.0**-23 * np.diagonal(matrix).max()
    return covariance


def most_likely(stats: Statistics, prior: Prior, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Estimate means and covariances by maximum likelihood.

    ``floor`` times the prior's mean variance is added to every variance.
    """
    sizes = np.maximum(stats.sizes, 1e-10)
    means = stats.sums / sizes[:, None] if prior.kappa > 0 else np.zeros_like(stats.sums)
    shape = (-1, *[1] * (stats.squares.ndim - 1))
    scatter = stats.squares / sizes.reshape(shape) - (
        outer(means, prior.diagonal) if prior.kappa > 0 else 0.0
    )
    variance = prior.covariance if prior.diagonal else np.diagonal(prior.covariance)
    least = floor * float(variance.mean())
    if prior.diagonal:
        return means, np.maximum(scatter, 0.0) + least
    # a component of fewer points than dimensions has directions of no variance, and rounding may
    # take them below 0
    values, axes = np.linalg.eigh(scatter)
    return means, (axes * (np.maximum(values, 0.0) + least)[:, None, :]) @ axes.transpose(0, 2, 1)


def expected_densities(post: Posterior, prior: Prior) -> Densities:
    """Prepare E[log F(x | component k)]."""
    plus = 0.5 * (log_determinants(post, prior.n, prior.diagonal) - prior.n * LOG_2PI)
    if prior.kappa > 0:
        plus = plus - 0.5 * prior.n / post.kappa
    return densities(post.means, post.scale, post.nu, plus)


def log_normaliser(nu: np.ndarray, logdet: np.ndarray, n: int, diagonal: bool) -> np.ndarray:
    """Compute c(nu, B) of one Wishart in n dimensions, or of n in one.

    -(nu n / 2) log 2 - log Gamma_n(nu / 2) + nu / 2 log |B|.
    """
    if diagonal:
        gamma = n * log_gamma(nu / 2)
    else:
        gamma = np.full(len(nu), n * (n - 1) / 4 * np.log(np.pi))
        for i in range(n):
            gamma += log_gamma((nu - i) / 2)
    return np.asarray(-0.5 * nu * n * np.log(2.0) - gamma + 0.5 * nu * logdet)


def data_bound(post: Posterior, prior: Prior, points: float) -> float:
    """Compute the data term of the bound.

    sum_k [c(nu, B) - c(nu_k, B_k) + n / 2 log(kappa / kappa_k)] - N n / 2 log 2 pi.
    """
    n = prior.n
    k = len(post.nu)
    prior_logdet = (
        np.log(prior.covariance).sum() if prior.diagonal else np.linalg.slogdet(prior.covariance)[1]
    )
    prior_term = log_normaliser(np.array([prior.nu]), np.array([prior_logdet]), n, prior.diagonal)[
        0
    ]
    value = (
        k * prior_term
        - log_normaliser(post.nu, post.logdet, n, prior.diagonal).sum()
        - 0.5 * points * n * LOG_2PI
    )
    if prior.kappa > 0:
        value += 0.5 * n * (k * np.log(prior.kappa) - np.log(post.kappa).sum())
    return float(value)


def sum_statistics(
    x: np.ndarray,
    count: np.ndarray,
    cluster: np.ndarray,
    change: np.ndarray,
    topics: int,
    diagonal: bool,
) -> Statistics:
    """Sum the statistics of changes.

    Point d gives change[d, j] to component cluster[d, j], j < count[d]. Points are gathered by
    component, one product each: N L n^2 operations, most of which are left out once few
    responsibilities move.
    """
    n = x.shape[1]
    squares = np.zeros((topics, n) if diagonal else (topics, n, n))
    sums = np.zeros((topics, n))
    sizes = np.zeros(topics)
    present = np.arange(cluster.shape[1])[None, :] < count[:, None]
    point, slot = np.nonzero(present)
    # 16 bits are sorted by their digits
    component = cluster[point, slot]
    share = change[point, slot].astype(np.float64)
    order = np.argsort(component, kind="stable")
    point = point[order]
    component = component[order]
    share = share[order]
    edges = np.searchsorted(component, np.arange(topics + 1))
    for k in np.flatnonzero(np.diff(edges)).tolist():
        members = point[edges[k] : edges[k + 1]]
        weights = share[edges[k] : edges[k + 1]]
        sizes[k] = weights.sum()
        for part in near_parts(len(weights), n) if diagonal else (slice(None),):
            points = x[members[part]]
            weight = weights[part]
            sums[k] += weight @ points
            squares[k] += (
                weight @ (points * points) if diagonal else (points * weight[:, None]).T @ points
            )
    return Statistics(sizes, sums, squares)
