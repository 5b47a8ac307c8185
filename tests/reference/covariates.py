"""The step of the coefficients of covariates, dense, with SciPy: for engines/covariates.py."""

import numpy as np
from scipy.special import digamma, gammaln, polygamma


def rise(counts, prior):
    """E[psi(n + prior) - psi(prior)], n the whole numbers next to each count."""
    whole = np.floor(counts)
    return (counts - whole) / (whole + prior) + digamma(whole + prior) - digamma(prior)


def fall(counts, prior):
    """E[psi'(prior) - psi'(n + prior)], n the whole numbers next to each count."""
    whole = np.floor(counts)
    return (
        (counts - whole) / (whole + prior) ** 2 + polygamma(1, prior) - polygamma(1, whole + prior)
    )


def bounds(x, counts, coefficients):
    """alpha, a and b of the bound of each document: [D, K], [D, K], [D]."""
    alpha = np.exp(x @ coefficients)
    total = alpha.sum(1)
    b = rise(counts.sum(1), total)
    return alpha, alpha * rise(counts, alpha), b


def objective(x, counts, coefficients, at, means, deviations):
    """Q of each topic, [K], with the bounds made at the coefficients ``at``."""
    _, a, b = bounds(x, counts, at)
    eta = x @ coefficients
    fit = (a * eta - b[:, None] * np.exp(eta)).sum(0)
    return fit - ((coefficients - means) ** 2 / (2 * deviations[:, None] ** 2)).sum(0)


def step(x, counts, coefficients, means, deviations, norms, term_of, held=(0.0, 0.0, 0.0)):
    """The coefficients after a step.

    held: the value that the mean of alpha is held to, and the rates above and below it.
    """
    alpha, a, b = bounds(x, counts, coefficients)
    ridge = 1 / deviations**2
    gradient = x.T @ (a - b[:, None] * alpha) - (coefficients - means) * ridge[:, None]
    sizes = np.abs(x) * np.abs(x).sum(1, keepdims=True)
    curvature = sizes.T @ (b[:, None] * alpha)
    pooled = x.T @ (x * (b * alpha.sum(1))[:, None])
    whole = curvature.sum(1, keepdims=True)
    mean = alpha.mean(0)
    rate = np.where(a.sum(0) < b.sum() * held[0], held[2], held[1])
    gradient += x.T @ (alpha * rate * (held[0] / mean - 1))
    curvature = curvature + sizes.T @ (alpha * rate)
    scale = np.sqrt(np.divide(curvature, whole, out=np.zeros_like(curvature), where=whole > 0))
    out = np.empty_like(coefficients)
    for k in range(coefficients.shape[1]):
        matrix = pooled * np.outer(scale[:, k], scale[:, k]) + np.diag(ridge)
        change = np.linalg.solve(matrix, gradient[:, k])
        reach = sum(n * np.abs(change[term_of == t]).max() for t, n in enumerate(norms))
        fall = 0.72 * ((curvature[:, k] + ridge) * change**2).sum()
        share = (gradient[:, k] * change).sum() / fall if fall > 0 else 0.0
        out[:, k] = coefficients[:, k] + change * np.clip(min(share, 1 / max(reach, 1)), 0, 1)
    return out


def log_likelihood(counts, alpha):
    """log of the Dirichlet-multinomial of all documents."""
    total = alpha.sum(1)
    of_topics = (gammaln(counts + alpha) - gammaln(alpha)).sum()
    return of_topics + (gammaln(total) - gammaln(total + counts.sum(1))).sum()
