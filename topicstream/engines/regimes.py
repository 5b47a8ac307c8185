"""Regimes: consecutive periods whose documents share coefficients, with learned bounds.

A left-to-right chain of states (Chib 1998), as keyATM has it for topics (Eshima, Imai & Sasaki
2024): each period t of a date is in one state s(t), which starts at the first one and rises by one
at each change point. All places of the change points are equally likely beforehand.

For a document d of period t, alpha_dk = exp(rest_d + lambda_s(t)k), where rest_d is what the other
columns of x_d say. Given a_dk and b_d of the bound (``engines/covariates.py``), the likelihood of
the rates r_k = exp(lambda_sk) of a state is that of Poisson counts, and depends on sums over the
documents of its periods only:

    n_tk = sum_d a_dk,    e_tk = sum_d b_d exp(rest_d) = sum_d b_d alpha_dk / exp(lambda_s(t)k)

With a gamma prior of r_k, of mean 1 (the corpus) and variance 1 / ``STRENGTH``, the coefficients of
any run of periods can be integrated out:

    gain = sum_k log Gamma(c + n_k) - log Gamma(c) + c log c - (c + n_k) log(c + e_k)

So a dynamic program over all runs of periods finds the best of all change points, wherever the
present ones are, and forward-backward sums weigh every place of each. Documents tell less than
independent counts would. So both sums are divided first by the term's excess, J / I of
``engines/deviations.py``.

References
----------
Chib (1998). Estimation and comparison of multiple change-point models. Journal of Econometrics 86.

Eshima, Imai & Sasaki (2024). Keyword-assisted topic models. American Journal of Political Science.
"""

from __future__ import annotations

import numpy as np

from topicstream.corpus.block import CovariateRows
from topicstream.engines.shapes import PriorShape, RegimeShape
from topicstream.numeric.kernels.arrays import Doubles
from topicstream.numeric.kernels.dirichlet import exp, lgamma, log
from topicstream.numeric.kernels.jit import kernel

STATES = "regimes"
WEIGHTS = "regime_weights"
"""Parameters of an engine: the state of each period, float64[T], and the posterior weight of each
change point before each period, float64[states - 1, T]."""
PERIODS = "prior_periods"
"""The statistic: n_tk (``counts`` below), then the sum of b_d alpha_dk, float64[2 T K]."""
STRENGTH = 1.0
"""c, the shape of the gamma prior of rates."""
HELD = 8
"""The first ``HELD`` steps of the coefficients leave those of regimes at 0. Topics that know
nothing of regimes tell best how sure the change points are: later, documents lean to their
regime."""
NEVER = -1e300
"""Logarithm of the weight of what cannot be: finite, so that sums of it are no NaN."""


def initial_states(regimes: RegimeShape) -> np.ndarray:
    """Divide the periods into states of about equally many documents, float64[T]."""
    periods = regimes.periods
    before = np.concatenate(([0], np.cumsum(regimes.documents)))
    states = np.zeros(periods)
    cut = 0
    for state in range(1, regimes.regimes):
        target = before[-1] * state / regimes.regimes
        nearest = int(np.argmin(np.abs(before - target)))
        # each state keeps at least one period
        cut = min(max(nearest, cut + 1), periods - regimes.regimes + state)
        states[cut:] = state
    return states


def regime_params(prior: PriorShape) -> dict[str, np.ndarray]:
    """Return the parameters that regimes add to an engine's."""
    regimes = prior.regimes
    if regimes is None:
        return {}
    weights = np.zeros((regimes.regimes - 1, regimes.periods))
    return {STATES: initial_states(regimes), WEIGHTS: weights}


def columns_of_rows(prior: PriorShape, states: np.ndarray) -> np.ndarray:
    """Map columns of documents' rows to columns of lambda, int64[F'].

    It is -1 for periods of the first state, the reference, which has no coefficients.
    """
    regimes = prior.regimes
    assert regimes is not None
    of_periods = states[1:].astype(np.int64) + regimes.first - 1
    of_periods[states[1:] == 0] = -1
    after = np.arange(regimes.first + regimes.regimes - 1, prior.columns)
    return np.concatenate((np.arange(regimes.first), of_periods, after))


def spread_coefficients(
    prior: PriorShape, coefficients: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """Return the coefficients of the columns of documents' rows, float64[F', K]."""
    reference = np.zeros((1, coefficients.shape[1]))
    padded = np.concatenate((coefficients, reference))  # column -1 is the last row
    return np.asarray(padded[columns_of_rows(prior, states)])


def join_periods(
    prior: PriorShape, rows: CovariateRows, states: np.ndarray
) -> tuple[CovariateRows, np.ndarray]:
    """Replace the columns of periods in documents' rows by those of their states.

    Returns
    -------
    tuple
        The rows, and the period of each distinct one, int64[U]; -1: no date.
    """
    regimes = prior.regimes
    assert regimes is not None
    last = regimes.first + regimes.periods - 1
    owner = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    timed = (rows.columns >= regimes.first) & (rows.columns < last)
    periods = np.zeros(len(rows.indptr) - 1, np.int64)
    periods[owner[timed]] = rows.columns[timed] - regimes.first + 1
    if _has_own_column(prior, regimes):
        periods[owner[rows.columns == last]] = -1
    columns = columns_of_rows(prior, states)[rows.columns]
    has_column = columns >= 0
    before = np.concatenate(([0], np.cumsum(has_column)))
    joined = rows._replace(
        indptr=before[rows.indptr],
        columns=columns[has_column].astype(np.int32),
        values=rows.values[has_column],
    )
    return joined, periods


def _has_own_column(prior: PriorShape, regimes: RegimeShape) -> bool:
    """Tell whether documents without a date have a column, the last of the term's."""
    term = prior.term_of[regimes.first]
    return int((prior.term_of == term).sum()) == regimes.regimes


@kernel
def fill_gains(counts: Doubles, exposure: Doubles, gains: Doubles) -> None:
    """Compute the gain of each run of periods: gains[t, u] of those from t to before u.

    counts, exposure: float64[T, K], n_tk and e_tk; gains: float64[T, T + 1].
    """
    periods, topics = counts.shape
    has = np.empty(topics)
    expects = np.empty(topics)
    constant = STRENGTH * log(STRENGTH) - lgamma(STRENGTH)
    for begin in range(periods):
        has[:] = STRENGTH
        expects[:] = STRENGTH
        for end in range(begin, periods):
            gain = 0.0
            for k in range(topics):
                has[k] += counts[end, k]
                expects[k] += exposure[end, k]
                gain += lgamma(has[k]) + constant - has[k] * log(expects[k])
            gains[begin, end + 1] = gain


def best_states(gains: np.ndarray, regimes: int) -> np.ndarray:
    """Divide the periods into the runs whose gains add up to most, float64[T].

    The dynamic program: best[s, u] is the largest sum of gains of s + 1 runs that cover the periods
    before u, and before[s, u] is where the last of these runs begins.

    gains: float64[T, T + 1] of ``fill_gains``.
    """
    periods = len(gains)
    best = np.full((regimes, periods + 1), NEVER)
    before = np.zeros((regimes, periods + 1), np.int64)
    best[0, 1:] = gains[0, 1:]
    for state in range(1, regimes):
        for end in range(state + 1, periods + 1):
            totals = best[state - 1, state:end] + gains[state:end, end]
            place = int(np.argmax(totals))
            best[state, end] = totals[place]
            before[state, end] = state + place
    # from the last run back to the first
    states = np.zeros(periods)
    end = periods
    for state in range(regimes - 1, 0, -1):
        begin = int(before[state, end])
        states[begin:end] = state
        end = begin
    return states


@kernel
def fill_sums(gains: Doubles, ahead: Doubles) -> None:
    """Sum over the divisions of the first periods into runs, as logarithms.

    ahead: float64[S, T + 1]; ahead[s, u] of the divisions of the periods before u into s + 1 runs.
    """
    states, ends = ahead.shape
    for state in range(states):
        for end in range(ends):
            most = NEVER
            if state == 0:
                ahead[0, end] = gains[0, end] if end > 0 else NEVER
                continue
            for begin in range(state, end):
                most = max(most, ahead[state - 1, begin] + gains[begin, end])
            total = 0.0
            for begin in range(state, end):
                total += exp(ahead[state - 1, begin] + gains[begin, end] - most)
            ahead[state, end] = most + log(total) if end > state else NEVER


@kernel
def fill_weights(ahead: Doubles, behind: Doubles, weights: Doubles) -> None:
    """Compute the posterior weight of each change point before each period.

    ahead, behind: as of ``fill_sums``, ``behind`` of the periods in reverse.
    """
    changes, periods = weights.shape
    whole = ahead[changes, periods]
    for change in range(changes):
        for place in range(periods):
            rest = behind[changes - change - 1, periods - place]
            weights[change, place] = exp(ahead[change, place] + rest - whole)


def weigh_changes(gains: np.ndarray, regimes: int) -> np.ndarray:
    """Compute the posterior weight of each change point, float64[regimes - 1, T]."""
    periods = len(gains)
    backward = np.full(gains.shape, NEVER)
    # the gains of the same runs with time reversed
    for begin in range(periods):
        backward[begin, begin + 1 :] = gains[: periods - begin, periods - begin][::-1]
    ahead = np.empty((regimes, periods + 1))
    behind = np.empty((regimes, periods + 1))
    fill_sums(gains, ahead)
    fill_sums(backward, behind)
    weights = np.empty((regimes - 1, periods))
    fill_weights(ahead, behind, weights)
    return weights


def find_regimes(
    prior: PriorShape,
    coefficients: np.ndarray,
    states: np.ndarray,
    sums: np.ndarray,
    excess: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the best states of the periods and the weights of their change points.

    Parameters
    ----------
    coefficients, states
        As they were while documents were counted.
    sums
        float64[2 T K], the statistic ``PERIODS``.
    excess
        J / I of the regimes' term.

    Returns
    -------
    States, float64[T], and weights, float64[regimes - 1, T].
    """
    regimes = prior.regimes
    assert regimes is not None
    topics = coefficients.shape[1]
    counts, exposure = sums.reshape(2, regimes.periods, topics)
    changes = np.zeros((regimes.regimes, topics))
    changes[1:] = coefficients[regimes.columns]
    exposure = exposure * exponentials(-changes)[states.astype(np.int64)]
    total_exposure = np.cumsum(exposure, axis=0)[-1]
    total_counts = np.cumsum(counts, axis=0)[-1]
    # the prior of rates has the mean 1: the rate of the corpus
    rate = np.divide(total_counts, total_exposure, out=np.zeros(topics), where=total_exposure > 0)
    gains = np.full((regimes.periods, regimes.periods + 1), NEVER)
    fill_gains(counts / excess, exposure * rate / excess, gains)
    return best_states(gains, regimes.regimes), weigh_changes(gains, regimes.regimes)


@kernel
def _exponentials(x: Doubles, out: Doubles) -> None:
    for i in range(len(x)):
        out[i] = exp(x[i])


def exponentials(x: np.ndarray) -> np.ndarray:
    """Compute e**x of each entry, with the same bits on every processor."""
    flat = np.ascontiguousarray(x).ravel()
    out = np.empty_like(flat)
    _exponentials(flat, out)
    return out.reshape(x.shape)


def move_regimes(
    prior: PriorShape, coefficients: np.ndarray, states: np.ndarray, new: np.ndarray
) -> None:
    """Move the periods to new states, with the means of their periods' coefficients.

    The first state is the reference, so the mean of its periods is added to the intercept.

    Parameters
    ----------
    coefficients, states
        They change in place.
    new
        float64[T], the new states.
    """
    regimes = prior.regimes
    assert regimes is not None
    if (new == states).all():
        return
    of_states = np.concatenate(
        (np.zeros((1, coefficients.shape[1])), coefficients[regimes.columns])
    )
    of_periods = of_states[states.astype(np.int64)] * regimes.documents[:, None]
    for state in range(regimes.regimes):
        places = new == state
        total = np.cumsum(of_periods[places], axis=0)[-1]
        of_states[state] = total / float(regimes.documents[places].sum())
    coefficients[0] += of_states[0]
    coefficients[regimes.columns] = of_states[1:] - of_states[0]
    states[:] = new
