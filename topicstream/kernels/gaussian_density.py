"""Densities of many Gaussians at many points, by triangular factors and NumPy's products."""

from __future__ import annotations

import numpy as np

LOG_2PI = float(np.log(2 * np.pi))


def log_density(
    x: np.ndarray, means: np.ndarray, scale: np.ndarray, factor: np.ndarray, plus: np.ndarray
) -> np.ndarray:
    """plus_k - factor_k / 2 (x - m_k)' scale_k^-1 (x - m_k), float64[D, K]; x: float64[D, n]."""
    out = np.empty((len(x), len(means)))
    if scale.ndim == 2:
        inverse = 1.0 / scale
        for k in range(len(means)):
            centred = x - means[k]
            out[:, k] = plus[k] - 0.5 * factor[k] * ((centred * centred) @ inverse[k])
        return out
    turn = np.linalg.inv(np.linalg.cholesky(scale)).transpose(0, 2, 1)
    for k in range(len(means)):
        y = x @ turn[k]
        y -= means[k] @ turn[k]
        out[:, k] = plus[k] - 0.5 * factor[k] * np.einsum("ij,ij->i", y, y)
    return out


def point_scores(x: np.ndarray, means: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """log N(x | mean_k, Sigma_k), float64[D, K]."""
    if covariance.ndim == 2:
        logdet = np.log(covariance).sum(axis=1)
    else:
        logdet = 2.0 * np.log(np.diagonal(np.linalg.cholesky(covariance), axis1=1, axis2=2)).sum(axis=1)
    plus = -0.5 * (logdet + x.shape[1] * LOG_2PI)
    return log_density(x, means, covariance, np.ones(len(means)), plus)
