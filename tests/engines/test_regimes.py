"""Change points of regimes, against all divisions, and their sums against a dense twin."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.special import gammaln

from tests.reference import covariates as dense
from topicstream.engines.covariates import (
    DEVIATIONS,
    LAMBDA,
    block_priors,
    count_prior,
    initial_deviations,
    prior_stats,
    round_stats,
    row_coefficients,
    step_coefficients,
)
from topicstream.engines.regimes import (
    HELD,
    NEVER,
    PERIODS,
    STATES,
    WEIGHTS,
    best_states,
    fill_gains,
    find_regimes,
    initial_states,
    join_periods,
    move_regimes,
    weigh_changes,
)
from topicstream.engines.shapes import PriorShape, RegimeShape, Shape
from topicstream.model.design import group_rows, sparse_rows

PERIODS_OF = 7
TOPICS = 4


def divisions(periods, regimes):
    """All divisions of the periods into runs, as states."""
    for cuts in combinations(range(1, periods), regimes - 1):
        yield cuts, np.searchsorted(cuts, np.arange(periods), side="right")


def shape_of(documents, regimes=3, absent=False, docs=0, tokens=0.0):
    """A factor of two levels, the regimes, and, maybe, a category of documents without a date."""
    names = ["(intercept)", "other", *(f"r{i}" for i in range(1, regimes)), *["none"] * absent]
    names.append("last")
    term_of = np.array([0, 1, *[2] * (regimes - 1 + absent), 3])
    prior = PriorShape(
        tuple(names),
        term_of,
        np.ones(4),
        regimes=RegimeShape(2, regimes, np.asarray(documents)),
    )
    return Shape(docs, 100, docs * 5, tokens, TOPICS, covariates=prior)


def problem(seed, absent=True, docs=120):
    """Rows with columns of periods, counts, coefficients of the columns of regimes."""
    rng = np.random.default_rng(seed)
    period = rng.integers(0, PERIODS_OF, docs)
    dated = rng.random(docs) < 0.9 if absent else np.ones(docs, bool)
    x = np.zeros((docs, 2 + PERIODS_OF - 1 + absent + 1))
    x[:, 0] = 1.0
    x[:, 1] = rng.integers(0, 2, docs)
    x[:, -1] = rng.integers(0, 2, docs)
    later = dated & (period > 0)
    x[later, 1 + period[later]] = 1.0
    if absent:
        x[~dated, 1 + PERIODS_OF] = 1.0
    counts = np.floor(rng.gamma(0.5, 6.0, (docs, TOPICS)))
    counts[:, 0] += counts.sum(1) == 0
    documents = np.bincount(period[dated], minlength=PERIODS_OF)
    shape = shape_of(documents, absent=absent, docs=docs, tokens=float(counts.sum()))
    coefficients = rng.normal(-1.0, 0.4, (shape.covariates.columns, TOPICS))
    states = np.array([0, 0, 1, 1, 1, 2, 2.0])
    return x, np.where(dated, period, -1), counts, shape, coefficients, states


def dense_rows(x, states, absent):
    """The rows with columns of regimes instead of periods."""
    of_periods = x[:, 2 : 1 + PERIODS_OF]
    of_regimes = np.stack([of_periods[:, states[1:] == s].sum(1) for s in (1, 2)], axis=1)
    return np.hstack((x[:, :2], of_regimes, x[:, 1 + PERIODS_OF :]))


def counted(x, counts, shape, params):
    rows = group_rows(sparse_rows(x))
    coefficients = row_coefficients(shape.covariates, params)
    alphas = block_priors(rows, coefficients, np.empty((len(rows.indptr) - 1, TOPICS)))
    stats = {name: np.zeros(size) for name, size in prior_stats(shape).items()}
    count_prior(shape, rows, counts.astype(np.float32), None, alphas, stats, params)
    return stats


@pytest.mark.parametrize("absent", [False, True])
def test_sums_of_periods_are_those_of_their_documents(absent):
    x, period, counts, shape, coefficients, states = problem(1, absent)
    params = {LAMBDA: coefficients, STATES: states}
    stats = counted(x, counts, shape, params)
    alpha, a, b = dense.bounds(dense_rows(x, states, absent), counts, coefficients)
    own, due = stats[PERIODS].reshape(2, PERIODS_OF, TOPICS)
    for t in range(PERIODS_OF):
        of_period = period == t
        np.testing.assert_allclose(own[t], a[of_period].sum(0), rtol=1e-6)
        np.testing.assert_allclose(due[t], (b[:, None] * alpha)[of_period].sum(0), rtol=1e-6)


def test_columns_of_periods_count_for_their_regimes():
    x, _, counts, shape, coefficients, states = problem(2)
    params = {LAMBDA: coefficients, STATES: states}
    stats = counted(x, counts, shape, params)
    joined = dense_rows(x, states, True)
    alpha, a, b = dense.bounds(joined, counts, coefficients)
    gradient = joined.T @ (a - b[:, None] * alpha)
    got = stats["prior_gradient"].reshape(gradient.shape)
    np.testing.assert_allclose(got, gradient, rtol=1e-5, atol=1e-5)
    pooled = joined.T @ (joined * (b * alpha.sum(1))[:, None])
    got = stats["prior_pooled"].reshape(pooled.shape)
    np.testing.assert_allclose(got, pooled, rtol=1e-6)


def test_rows_know_their_period():
    x, period, _, shape, _, states = problem(3)
    rows = group_rows(sparse_rows(x))
    joined, periods = join_periods(shape.covariates, rows, states)
    assert periods[rows.pattern].tolist() == period.tolist()
    width = shape.covariates.columns
    out = np.zeros((len(periods), width))
    owner = np.repeat(np.arange(len(periods)), np.diff(joined.indptr))
    out[owner, joined.columns] = joined.values
    np.testing.assert_array_equal(out[rows.pattern], dense_rows(x, states, True))


def gains_of(seed, periods=PERIODS_OF, scale=8.0):
    rng = np.random.default_rng(seed)
    own = rng.gamma(1.0, scale, (periods, TOPICS))
    due = rng.gamma(3.0, scale / 3.0, (periods, TOPICS))
    gains = np.full((periods, periods + 1), NEVER)
    fill_gains(own, due, gains)
    return own, due, gains


def test_a_gain_integrates_the_rates_of_a_run():
    own, due, gains = gains_of(0)
    a = 1.0 + own[2:5].sum(0)
    want = (gammaln(a) - a * np.log(1.0 + due[2:5].sum(0))).sum()
    assert gains[2, 5] == pytest.approx(want, rel=1e-12)
    rates = np.linspace(1e-6, 60.0, 600_001)
    k_own, k_due = own[2:5, 0].sum(), due[2:5, 0].sum()
    density = np.exp(k_own * np.log(rates) - k_due * rates - rates)
    integral = np.log(np.trapezoid(density, rates))
    of_topic = np.full((PERIODS_OF, PERIODS_OF + 1), NEVER)
    fill_gains(own[:, :1].copy(), due[:, :1].copy(), of_topic)
    assert of_topic[2, 5] == pytest.approx(integral, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("regimes", [2, 3, 5, 7])
def test_the_best_division_is_the_best_of_all(seed, regimes):
    _, _, gains = gains_of(seed)
    totals = {}
    for cuts, states in divisions(PERIODS_OF, regimes):
        ends = [0, *cuts, PERIODS_OF]
        totals[cuts] = sum(gains[a, b] for a, b in pairwise(ends))
        assert len(set(states.tolist())) == regimes
    best = max(totals, key=totals.get)
    states = best_states(gains, regimes)
    assert tuple((np.flatnonzero(np.diff(states)) + 1).tolist()) == best
    assert set(np.diff(states).tolist()) <= {0.0, 1.0} and states[0] == 0.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("regimes", [2, 4, 7])
def test_weights_are_those_of_all_divisions(seed, regimes):
    _, _, gains = gains_of(seed, scale=1.0)
    weights = np.zeros((regimes - 1, PERIODS_OF))
    logs = []
    listed = []
    for cuts, _ in divisions(PERIODS_OF, regimes):
        ends = [0, *cuts, PERIODS_OF]
        logs.append(sum(gains[a, b] for a, b in pairwise(ends)))
        listed.append(cuts)
    chances = np.exp(np.array(logs) - max(logs))
    for cuts, chance in zip(listed, chances / chances.sum()):
        for change, cut in enumerate(cuts):
            weights[change, cut] += chance
    np.testing.assert_allclose(weigh_changes(gains, regimes), weights, atol=1e-12)


@pytest.mark.parametrize(
    ("documents", "regimes", "starts"),
    [
        ([1] * 6, 3, [0, 2, 4]),
        ([100, 1, 1, 1], 3, [0, 1, 2]),
        ([1, 1, 1, 100], 3, [0, 2, 3]),
        ([5, 5], 2, [0, 1]),
    ],
)
def test_regimes_begin_with_equal_parts_none_of_them_empty(documents, regimes, starts):
    states = initial_states(RegimeShape(1, regimes, np.array(documents)))
    assert np.searchsorted(states, np.arange(regimes)).tolist() == starts
    assert set(states.tolist()) == set(range(regimes))


def test_the_present_regimes_do_not_sway_what_is_found():
    """The sums are relative to the regimes' coefficients, which do not matter then."""
    _, _, _, shape, coefficients, states = problem(4)
    prior = shape.covariates
    found = []
    for number in range(2):
        other = coefficients.copy()
        other[prior.regimes.columns] *= number
        rng = np.random.default_rng(0)
        own = rng.gamma(2.0, 5.0, (PERIODS_OF, TOPICS))
        due = rng.gamma(2.0, 5.0, (PERIODS_OF, TOPICS))
        rates = np.exp(np.vstack((np.zeros((1, TOPICS)), other[prior.regimes.columns])))
        sums = np.stack((own, due * rates[states.astype(int)]))
        found.append(find_regimes(prior, other, states, sums.ravel(), 1.3))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-9)


def test_coefficients_move_with_their_periods():
    shape = shape_of([1, 1, 1, 1, 1, 1, 1])
    prior = shape.covariates
    rng = np.random.default_rng(5)
    coefficients = rng.normal(size=(prior.columns, TOPICS))
    states = np.array([0, 0, 1, 1, 1, 2, 2.0])
    before = row_coefficients(prior, {LAMBDA: coefficients, STATES: states})
    same = coefficients.copy()
    move_regimes(prior, same, states.copy(), states)
    np.testing.assert_array_equal(same, coefficients)
    new = np.array([0, 0, 0, 1, 1, 2, 2.0])
    move_regimes(prior, coefficients, states, new)
    np.testing.assert_array_equal(states, new)
    after = row_coefficients(prior, {LAMBDA: coefficients, STATES: states})

    def of_period(rows, t):
        return rows[0] + (rows[1 + t] if t else 0.0)

    joined = np.mean([of_period(before, t) for t in range(3)], axis=0)
    np.testing.assert_allclose(of_period(after, 1), joined, rtol=1e-12)
    np.testing.assert_allclose(of_period(after, 4), of_period(before, 4), rtol=1e-12)
    np.testing.assert_allclose(of_period(after, 6), of_period(before, 6), rtol=1e-12)


@pytest.mark.parametrize("since", [HELD, HELD + 1])
def test_regimes_have_no_say_before_they_are_found(since):
    x, _, counts, shape, coefficients, states = problem(6)
    prior = shape.covariates
    coefficients[prior.regimes.columns] = 0.0
    params = {
        LAMBDA: coefficients,
        STATES: states,
        WEIGHTS: np.zeros((2, PERIODS_OF)),
        DEVIATIONS: initial_deviations(prior),
        "alpha": np.full(TOPICS, 0.3),
    }
    stats = counted(x, counts, shape, params)
    round_stats(shape, stats)
    step_coefficients(shape, params, stats, params["alpha"].copy(), since)
    held = since == HELD
    assert (params[LAMBDA][prior.regimes.columns] == 0).all() == held
    assert (params[WEIGHTS].sum(1) > 0.999).all() == held
