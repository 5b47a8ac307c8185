"""Plain NumPy twins of Hughes & Sudderth 2016's Alg.

2, in float64: one document at a time, logarithms everywhere.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, logsumexp


def expected_log(phi: np.ndarray, beta: float, point: bool = False) -> np.ndarray:
    """E[log phi] [W, K] of counts phi [W, K]."""
    hat = phi.astype(np.float64) + beta
    return np.log(hat / hat.sum(0)) if point else digamma(hat) - digamma(hat.sum(0))


def resp(weights: np.ndarray, most: int) -> np.ndarray:
    """r [n, K] from log weights: softmax over the ``most`` largest of each row (Alg. 1)."""
    cut = weights.copy()
    if most < weights.shape[1]:
        order = np.argsort(-weights, axis=1, kind="stable")
        np.put_along_axis(cut, order[:, most:], -np.inf, axis=1)
    return np.exp(cut - logsumexp(cut, axis=1, keepdims=True))


def dense_document(
    log_phi: np.ndarray, x: np.ndarray, alpha: np.ndarray, inner: int
) -> tuple[np.ndarray, np.ndarray]:
    """(r, N_dk) after ``inner`` inner iterations; log_phi [n, K]: the document's words."""
    r = resp(log_phi, log_phi.shape[1])
    n = x @ r
    for _ in range(inner - 1):
        r = resp(log_phi + digamma(n + alpha), log_phi.shape[1])
        n = x @ r
    return r, n


def least_weight(log_largest: float, leave: float) -> float:
    """N_dk + alpha_k below which a topic leaves: psi of it is ``leave`` of the largest, by the two
    branches of Minka 2000.
    """
    if leave == 0:
        return 0.0
    y = min(log_largest + np.log(leave), 0.5)
    return float(np.exp(y) + 0.5 if y > -2.22 else -1 / (y + 0.5772))


def sparse_document(
    log_phi: np.ndarray, x: np.ndarray, alpha: np.ndarray, most: int, inner: int, leave: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same with L topics a word, chosen in inner iterations 1-5 and every 10th, and active
    topics that only leave: by ``leave`` (engines/variational/sparse.py), where it is not zero also
    those with less than two tokens and than an even share at first.
    """
    r = resp(log_phi, most)
    n = x @ r
    if leave > 0:
        n[n < min(1.9, n.sum() / len(n))] = 0
    chosen = r > 0
    for i in range(2, inner + 1):
        psi = digamma(n + alpha)
        largest = (n + alpha)[n > 0].max()
        alive = (n > 1e-10) & (n + alpha >= min(least_weight(np.log(largest), leave), largest))
        w = log_phi + np.where(alive, psi, -np.inf)
        if i <= 5 or i % 10 == 0:
            r = resp(w, most)
            chosen = r > 0
        else:
            w[~chosen] = -np.inf
            r = np.exp(w - logsumexp(w, axis=1, keepdims=True))
        n = x @ r
    return r, n


def bound(log_phi: np.ndarray, x: np.ndarray, alpha: np.ndarray, r: np.ndarray) -> float:
    """bound_d by its definition, at theta-hat = N + alpha."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(r > 0, r * (log_phi - np.log(r)), 0.0)
    theta = x @ r + alpha
    constants = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return float(x @ inside.sum(1) + gammaln(theta).sum() - gammaln(theta.sum()) + constants)


def evidence(
    phi: np.ndarray,
    beta: float,
    docs: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    alpha: np.ndarray,
) -> float:
    """The evidence lower bound by eq.

    42-49: docs are (words, x, r); phi [W, K] counts of q(phi).
    """
    log_phi = expected_log(phi, beta)
    hat = phi + beta
    total = sum(bound(log_phi[w], x, alpha, r) for w, x, r in docs)
    prior = np.broadcast_to(beta, phi.shape)  # a number, or [W, K]: seed words' own
    log_b = (gammaln(hat).sum(0) - gammaln(hat.sum(0))).sum()
    prior_b = (gammaln(prior).sum(0) - gammaln(prior.sum(0))).sum()
    return float(total + log_b - prior_b + ((beta - hat) * log_phi).sum())
