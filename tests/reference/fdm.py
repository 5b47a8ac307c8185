"""The full dependence mixture on a whole co-occurrence matrix, from the paper's equations: the twin
of ``fdm``.
"""

from __future__ import annotations

import numpy as np


def em_step(m: np.ndarray, mu: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """One step of EM for M = mu^T a mu; mu [T, W], a [T, T].  Returns both anew, and the
    cross-entropy before.
    """
    p = mu.T @ a @ mu
    r = np.divide(m, p, out=np.zeros_like(m), where=m > 0)
    entropy = -float((m[m > 0] * np.log(p[m > 0])).sum())
    together = a * (mu @ r @ mu.T)
    topics = mu * (a @ mu @ r)
    return topics / topics.sum(1, keepdims=True), together / together.sum(), entropy
