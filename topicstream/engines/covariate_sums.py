"""Sums over documents behind a step of the coefficients (symbols: ``engines/covariates.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Doubles, Floats, Int, Ints, Longs
from topicstream.numeric.kernels.dirichlet import digamma, trigamma
from topicstream.numeric.kernels.jit import kernel

LONGEST = 10.0
"""Mean documents that a longer one counts for in the quasi-likelihood."""
LARGEST = 1e3  # of a document's a, where it is squared


@kernel(inline="always")
def _rise(count: float, prior: float) -> float:
    """Compute E[psi(n + prior) - psi(prior)], n the whole numbers next to ``count``.

    See ``expected_rise`` (engines/message/priors.py).
    """
    whole = np.floor(count)
    rise = (count - whole) / (whole + prior)
    if whole > 0.0:
        rise += digamma(whole + prior) - digamma(prior)
    return rise  # type: ignore[no-any-return]


@kernel(inline="always")
def _fall(count: float, prior: float) -> float:
    """Compute E[psi'(prior) - psi'(n + prior)], n the whole numbers next to ``count``."""
    whole = np.floor(count)
    fall = (count - whole) / ((whole + prior) * (whole + prior))
    if whole > 0.0:
        fall += trigamma(prior) - trigamma(whole + prior)
    return fall  # type: ignore[no-any-return]


class TopicCounts(NamedTuple):
    """A block's documents, ordered by their row of covariates.

    Attributes
    ----------
    theta, active
        Counts of a document's topics, [D, L], and the topics, uint16[D, L]; ``active`` without
        columns: topic j is column j.
    order, ends
        int64[D], documents by their row x; int64[U], where those of each row end.
    """

    theta: Array
    active: Array
    order: Longs
    ends: Longs


class DistinctRows(NamedTuple):
    """The distinct rows x of a block (``CovariateRows``), and alpha of each, float32[U, >= K].

    periods: int64[U], the period of time that each is of (``engines/regimes.py``), -1: of none.
    """

    indptr: Longs
    columns: Ints
    values: Floats
    alphas: Floats
    periods: Longs


class StepSums(NamedTuple):
    """Sums over documents that a step of the coefficients needs; documents are added to them.

    Attributes
    ----------
    gradient, curvature
        float64[F, K], of x (a - b alpha) and of b alpha |x| sum |x|.
    slope, spread
        float64[F, K], of alpha x and of alpha |x| sum |x|.
    squares, information
        float64[F, K], of x^2 times a document's squared gradient, and of x^2 times its information.
    pooled
        float64[F, F], of b A x x'.
    totals
        float64[2 K + 2], of alpha and of a over the documents, their number, and the sum of b.
    periods
        float64[2, T, K], of a and of b alpha over the documents of each period.
    """

    gradient: Doubles
    curvature: Doubles
    slope: Doubles
    spread: Doubles
    squares: Doubles
    information: Doubles
    pooled: Doubles
    totals: Doubles
    periods: Doubles


class MeanWeight(NamedTuple):
    """``mean_weight`` of the quasi-likelihood, and the tokens of a mean document."""

    share: float
    length: float


class RowSums(NamedTuple):
    """Sums over the documents of one row, float64[K] each: a, squared gradients, information."""

    own: Doubles
    squared: Doubles
    known: Doubles


@kernel(inline="always")
def _sum_documents(
    first: Int, stop: Int, counts: TopicCounts, alpha_of: Floats, weights: MeanWeight, row: RowSums
) -> tuple[float, float, float, float, float]:
    """Sum a of each topic and b over the documents of a row, which has the prior ``alpha_of``.

    Returns
    -------
    The documents with tokens, and the sums of b, b^2, what b falls by, and the weights' part of b.
    """
    (theta, active, order, _) = counts
    (own, squared, known) = row
    topics = len(own)
    each = active.shape[1] == 0
    width = min(theta.shape[1], topics) if each else theta.shape[1]
    own[:] = 0.0
    squared[:] = 0.0
    known[:] = 0.0
    total = 0.0
    for k in range(topics):
        total += np.float64(alpha_of[k])
    below = 0.0
    below_squared = 0.0
    flat = 0.0
    multinomial = 0.0
    docs = 0.0
    for i in range(first, stop):
        d = order[i]
        length = 0.0
        for j in range(width):
            count = np.float64(theta[d, j])
            k = j if each else np.int64(active[d, j])  # type: ignore[assignment]
            if count > 0.0 and k < topics:
                length += count
        if length == 0.0:
            continue
        # w_d, in which a document counts for at most LONGEST mean ones
        weight = weights.share * (1.0 + total) / (weights.length + total)
        weight *= min(1.0, LONGEST * weights.length / length)
        # b_d
        rise = _rise(length, total) + weight * length / total
        docs += 1.0
        below += rise
        below_squared += rise * rise
        flat += _fall(length, total)
        multinomial += weight * length / total
        # a_dk, its squared gradient, and its information less what is missing (Louis 1982)
        for j in range(width):
            count = np.float64(theta[d, j])
            k = j if each else np.int64(active[d, j])  # type: ignore[assignment]
            if count > 0.0 and k < topics:
                alpha = np.float64(alpha_of[k])
                a = alpha * _rise(count, alpha) + weight * count
                own[k] += a
                a = min(a, LARGEST)
                squared[k] += a * (a - 2.0 * rise * alpha)
                known[k] += alpha * alpha * _fall(count, alpha)
                if count < 1.0:
                    known[k] -= (1.0 + weight) * count * (1.0 - count)
    return docs, below, below_squared, flat, multinomial


@kernel
def add_documents(
    counts: TopicCounts, rows: DistinctRows, sums: StepSums, weights: MeanWeight, held: bool
) -> None:
    """Add a block's documents to the sums behind g, h, J, I and M (symbols: see the module).

    held: whether ``slope`` and ``spread`` are needed.
    """
    (indptr, columns, values, alphas, periods) = rows
    (gradient, curvature, slope, spread, squares, information, pooled, totals, of_periods) = sums
    ends = counts.ends
    topics = gradient.shape[1]
    row = RowSums(np.empty(topics), np.empty(topics), np.empty(topics))
    (own, squared, known) = row
    first = np.int64(0)
    for u in range(len(ends)):
        if ends[u] == first:
            continue
        # own_k = sum_d a_dk and below = sum_d b_d over the documents that have the row x
        docs, below, below_squared, flat, multinomial = _sum_documents(
            first, ends[u], counts, alphas[u], weights, row
        )
        first = ends[u]
        if docs == 0.0:
            continue
        # A = sum_k alpha_k, and the sums of alpha_k, a_k and b, for the pull and by period
        total = 0.0
        for k in range(topics):
            total += np.float64(alphas[u, k])
        totals[2 * topics] += docs
        totals[2 * topics + 1] += below
        for k in range(topics):
            totals[k] += docs * np.float64(alphas[u, k])
            totals[topics + k] += own[k]
        if periods[u] >= 0:
            for k in range(topics):
                of_periods[0, periods[u], k] += own[k]
                of_periods[1, periods[u], k] += below * np.float64(alphas[u, k])
        # sum_e |x_e|
        norm = 0.0
        for j in range(indptr[u], indptr[u + 1]):
            norm += abs(np.float64(values[j]))
        for j in range(indptr[u], indptr[u + 1]):
            f = columns[j]
            x = np.float64(values[j])
            reach = abs(x) * norm
            # g_k, h_kf, J and I of the column
            for k in range(topics):
                alpha = np.float64(alphas[u, k])
                gradient[f, k] += x * (own[k] - below * alpha)
                curvature[f, k] += reach * below * alpha
                squares[f, k] += x * x * (squared[k] + alpha * alpha * below_squared)
                learned = known[k] + alpha * (multinomial - alpha * flat)
                information[f, k] += x * x * learned
                if held:
                    slope[f, k] += x * docs * alpha
                    spread[f, k] += reach * docs * alpha
            # M
            for i in range(indptr[u], indptr[u + 1]):
                pooled[f, columns[i]] += below * total * x * np.float64(values[i])
