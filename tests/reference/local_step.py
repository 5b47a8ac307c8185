"""The local step of a document, plainly, in float64: the twin of numeric/kernels/local_step.py."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma


def local_step(x, own, alpha, tol, inner, dirichlet=False, from_prior=False):
    """x: [m] counts; own: [m, K] topic weights of the words -> (theta [K], inner iterations)."""
    topics = own.shape[1]
    n = np.zeros(own.shape[1])
    t = _weights(n + alpha, dirichlet) if from_prior else np.ones(topics)
    made = 0
    change = np.inf
    while made < inner and change > tol * x.sum():
        made += 1
        z = own @ t
        said = z > 0
        new = t * ((x[said] / z[said]) @ own[said])
        change = np.abs(new - n).sum()
        n = new
        t = _weights(n + alpha, dirichlet)
    mass = n.sum() + alpha.sum()
    return ((n + alpha) / mass if mass > 0 else np.full(topics, 1 / topics)), made


def _weights(n, dirichlet):
    if not dirichlet:
        return n
    with np.errstate(divide="ignore"):
        e = digamma(n)
    return np.exp(e - e.max())
