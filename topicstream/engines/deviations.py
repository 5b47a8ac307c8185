"""Learned deviations of the coefficients of covariates (equations: engines/covariates.py)."""

from __future__ import annotations

import numpy as np

from topicstream.engines.shapes import PriorShape

LEAST_DEVIATION = 1e-3
MOST_DEVIATION = 3.0
FALL = 0.5
"""Learned deviations: their bounds, and what a step leaves of one at least."""


def _sum(values: np.ndarray) -> float:
    """Add numbers from the first to the last, as on every processor."""
    return float(np.cumsum(values)[-1])


def excess_of_terms(prior: PriorShape, squares: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Compute J / I of each term: the variance of gradients as a multiple of the model's.

    It is 1 for the intercept, and where deviations are given.
    """
    excess = np.ones(len(prior.norms))
    for term in range(1, len(excess) if prior.learns_sd else 0):
        excess[term] = excess_of(prior.term_of == term, squares, information)
    return excess


def excess_of(own: np.ndarray, squares: np.ndarray, information: np.ndarray) -> float:
    """Compute J / I of some columns, bool[F]."""
    told = _sum(information[own])
    return min(max(_sum(squares[own]) / told, 0.1), 100.0) if told > 0.0 else 1.0


def fit_deviations(
    prior: PriorShape, deviations: np.ndarray, ends: np.ndarray, told: np.ndarray
) -> np.ndarray:
    """Make a step of the standard deviations of the terms' priors.

    Parameters
    ----------
    deviations
        float64[terms]; that of the intercept stays.
    ends
        float64[F, K], where the coefficients would go without bounds of their steps.
    told
        float64[F, K], what the documents tell of each coefficient.
    """
    out = deviations.copy()
    for term in range(1, len(out)):
        own = prior.term_of == term
        precision = np.maximum(told[own], 0.0)
        known = _sum(precision / (precision + 1.0 / deviations[term] ** 2))
        if known > 0.0:
            least = max(FALL * deviations[term], LEAST_DEVIATION)
            fitted = np.sqrt(_sum(ends[own] ** 2) / known)
            out[term] = min(max(fitted, least), MOST_DEVIATION)
    return out
