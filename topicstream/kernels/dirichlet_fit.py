"""Dirichlet priors fitted to histograms of counts: Minka's fixed point for the
Dirichlet-multinomial (Estimating a Dirichlet distribution, 2000, eq. 55).

    alpha_k <- alpha_k * sum_d [psi(n_dk + alpha_k) - psi(alpha_k)] / sum_d [psi(n_d + A) - psi(A)],
    A = sum alpha
    beta    <- beta * sum_w,k [psi(n_wk + beta) - psi(beta)] / (W sum_k [psi(n_k + W beta) - psi(W
            beta)])

The brackets are a function of values and prior: exact for whole counts (here), an expectation for
the means that messages give (engines/message/priors.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from topicstream.kernels.digamma import psi

STEPS = 20
Rise = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Histogram(NamedTuple):
    """``times`` (float64[n], or [K, n] of each topic) that counts of ``values`` (float64[n]) were
    met.
    """

    times: np.ndarray
    values: np.ndarray


class Pull(NamedTuple):
    """A gamma prior on every alpha_k with this ``mean``, and the rates of those that ask for more
    and for less.
    """

    mean: float = 0.0
    above: float = 0.0
    below: float = 0.0


FREE = Pull()


def digamma_rise(values: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """psi(values + prior) - psi(prior)."""
    return np.asarray(psi(values + prior) - psi(prior))


def fit_alpha(
    alpha: np.ndarray,
    topics: Histogram,
    lengths: Histogram,
    rise: Rise,
    low: float | np.ndarray,
    high: float | np.ndarray,
    pull: Pull = FREE,
) -> np.ndarray:
    """alpha: float64[K] -> its value after up to 20 steps, each entry held within [low, high].

    topics, lengths: documents by n_dk and by n_d.  pull: the maximum of the posterior adds rate *
    mean above and rate below.
    """
    alpha = alpha.copy()
    for _ in range(STEPS):
        below = float(lengths.times @ rise(lengths.values, np.array([alpha.sum()])))
        if below <= 0:
            break
        own = alpha * (topics.times * rise(topics.values, alpha[:, None])).sum(1)
        rate = np.where(own < below * pull.mean, pull.below, pull.above)
        new = np.clip((own + rate * pull.mean) / (below + rate), low, high)
        done = bool(np.abs(new - alpha).max() <= 1e-4 * alpha.max())
        alpha = new
        if done:
            break
    return alpha


def fit_beta(
    beta: float,
    counts: Histogram,
    scale: float,
    n_k: np.ndarray,
    words: int,
    rise: Rise,
    low: float,
    high: float,
) -> float:
    """beta after up to 20 steps, held within [low, high].  counts: words by n_wk, ``scale`` times
    as many in all;
    n_k: float64[K]."""
    for _ in range(STEPS):
        above = float(counts.times @ rise(counts.values, np.array([beta]))) * scale
        mass = np.array([words * beta])
        below = words * float((psi(n_k + mass) - psi(mass)).sum())
        if below <= 0:
            break
        new = float(np.clip(beta * above / below, low, high))
        done = abs(new - beta) <= 1e-4 * beta
        beta = new
        if done:
            break
    return beta
