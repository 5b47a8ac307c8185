"""Learned deviations of the coefficients of covariates (equations: engines/covariates.py)."""

from __future__ import annotations

import numpy as np

from topicstream.engines.shapes import PriorShape

LEAST_DEVIATION = 1e-3
MOST_DEVIATION = 3.0
FALL = 0.5
"""Bounds of learned deviations, and the least share of one that a step leaves."""


def _sum(values: np.ndarray) -> float:
    """Add numbers from the first to the last.

    ``np.sum`` adds in another order on each kind of processor.
    """
    return float(np.cumsum(values)[-1])


def excess_of_terms(prior: PriorShape, squares: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Compute J / I of each term, float64[terms].

    It is the variance of the documents' gradients as a multiple of the model's. It is 1 for the
    intercept, and where deviations are given.

    Parameters
    ----------
    squares, information
        float64[F, K], the sums J and I of each coefficient.
    """
    excess = np.ones(len(prior.norms))
    for term in range(1, len(excess) if prior.learns_sd else 0):
        excess[term] = excess_of(prior.term_of == term, squares, information)
    return excess


def excess_of(columns: np.ndarray, squares: np.ndarray, information: np.ndarray) -> float:
    """Compute J / I of the columns that ``columns``, bool[F], selects: from 0.1 to 100."""
    total = _sum(information[columns])
    if total <= 0.0:
        return 1.0
    return min(max(_sum(squares[columns]) / total, 0.1), 100.0)


def fit_deviations(
    prior: PriorShape, deviations: np.ndarray, ends: np.ndarray, evidence: np.ndarray
) -> np.ndarray:
    """Make a step of the standard deviations of the terms' priors.

    Parameters
    ----------
    deviations
        float64[terms]; that of the intercept stays.
    ends
        float64[F, K], where the coefficients would go without bounds of their steps.
    evidence
        float64[F, K], e: what the documents tell of each coefficient.
    """
    out = deviations.copy()
    for term in range(1, len(out)):
        columns = prior.term_of == term
        precision = np.maximum(evidence[columns], 0.0)
        learned = _sum(precision / (precision + 1.0 / deviations[term] ** 2))
        if learned > 0.0:
            least = max(FALL * deviations[term], LEAST_DEVIATION)
            fitted = np.sqrt(_sum(ends[columns] ** 2) / learned)
            out[term] = min(max(fitted, least), MOST_DEVIATION)
    return out
