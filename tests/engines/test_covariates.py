"""Coefficients of covariates in the prior, against the dense reference and against SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import covariates as dense
from topicstream.engines.covariates import (
    DEVIATIONS,
    LAMBDA,
    block_priors,
    coefficient_means,
    count_prior,
    count_topics,
    initial_coefficients,
    initial_deviations,
    is_counted,
    prior_params,
    prior_stats,
    round_stats,
    solve_scaled,
    step_coefficients,
)
from topicstream.engines.deviations import excess_of_terms, fit_deviations
from topicstream.engines.message.priors import (
    BINS,
    count_documents,
    document_counts,
    expected_rise,
)
from topicstream.engines.shapes import PriorShape, Shape
from topicstream.model.design import group_rows, sparse_rows
from topicstream.numeric.kernels.dirichlet import FREE, Pull, fit_alpha


def shape_of(x, topics, tokens, **more):
    term_of = np.arange(x.shape[1])
    norms = np.maximum(np.abs(x).max(axis=0), 1.0)
    prior = PriorShape(tuple(map(str, term_of)), term_of, norms, **more)
    return Shape(len(x), 1000, 10 * len(x), tokens, topics, covariates=prior)


def problem(seed, docs=40, topics=5, columns=4, whole=False):
    rng = np.random.default_rng(seed)
    x = np.zeros((docs, columns))
    x[:, 0] = 1.0
    x[:, 1] = rng.integers(0, 2, docs)
    for f in range(2, columns):
        x[:, f] = np.round(rng.normal(size=docs), 1)
    x = x.astype(np.float32).astype(np.float64)
    counts = rng.gamma(0.4, 6.0, (docs, topics)).astype(np.float32)
    counts[rng.random((docs, topics)) < 0.3] = 0.0
    if whole:
        counts = np.floor(counts)
    counts[counts.sum(1) == 0, 0] = 1.0
    coefficients = rng.normal(-1.0, 0.3, (columns, topics))
    return x, counts.astype(np.float64), coefficients


def statistics(shape, x, counts, coefficients, active=None, held=True):
    rows = group_rows(sparse_rows(x))
    alphas = block_priors(rows, coefficients, np.empty((len(rows.indptr) - 1, shape.topics)))
    stats = {name: np.zeros(size) for name, size in prior_stats(shape).items()}
    count_prior(shape, rows, counts.astype(np.float32), active, alphas, stats, {}, held)
    return stats


def one_step(shape, x, counts, coefficients, alpha, fixed=0, pull=FREE):
    deviations = initial_deviations(shape.covariates)
    params = {LAMBDA: coefficients.copy(), "alpha": alpha.copy(), DEVIATIONS: deviations}
    stats = statistics(shape, x, counts, coefficients)
    figures = step_coefficients(shape, params, stats, alpha, fixed=fixed, pull=pull)
    return params, figures


@pytest.mark.parametrize("pull", [FREE, Pull(0.1, 3.0, 1.0)], ids=["free", "held"])
@pytest.mark.parametrize("seed", range(3))
def test_a_step_equals_that_of_the_reference(seed, pull):
    x, counts, coefficients = problem(seed)
    shape = shape_of(x, 5, counts.sum())
    alpha = np.full(5, 0.1)
    params, figures = one_step(shape, x, counts, coefficients, alpha, pull=pull)
    prior = shape.covariates
    means = coefficient_means(prior, alpha)
    deviations = initial_deviations(prior)[prior.term_of]
    terms = prior.norms, prior.term_of
    want = dense.step(x, counts, coefficients, means, deviations, *terms, pull)
    np.testing.assert_allclose(params[LAMBDA], want, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(params["alpha"], np.exp(x @ coefficients).mean(0), rtol=1e-12)
    moved = np.abs(params[LAMBDA] - coefficients).max()
    assert figures["covariates_moved"] == pytest.approx(moved)


def test_counts_of_active_topics_are_those_of_all():
    x, counts, coefficients = problem(1)
    shape = shape_of(x, 5, counts.sum())
    order = np.argsort(-counts, axis=1, kind="stable").astype(np.uint16)
    some = np.take_along_axis(counts, order.astype(int), 1)
    padding = np.full((len(x), 3), 9, np.uint16)  # topics that are not there
    active = np.hstack((order, padding))
    wide = np.hstack((some, np.full((len(x), 3), 7.0)))
    got = statistics(shape, x, wide, coefficients, active)
    for name, figures in statistics(shape, x, counts, coefficients).items():
        np.testing.assert_allclose(got[name], figures, rtol=1e-9, err_msg=name)


def test_an_intercept_alone_is_the_twin_to_twelve_digits():
    _, counts, _ = problem(2, docs=200)
    x = np.ones((200, 1))
    shape = shape_of(x, 5, counts.sum(), intercept_sd=1e3)
    alpha = np.full(5, 0.3)
    params, _ = one_step(shape, x, counts, np.log(alpha)[None], alpha)
    below = dense.rise(counts.sum(1), alpha.sum()).sum()
    own = alpha * dense.rise(counts, alpha).sum(0)
    mass = below * alpha
    change = (own - mass) / (mass + 1e-6)
    share = np.minimum(1 / 0.72, 1 / np.maximum(np.abs(change), 1.0)).clip(0, 1)
    np.testing.assert_allclose(params[LAMBDA][0], np.log(alpha) + share * change, rtol=1e-12)


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_an_intercept_alone_ends_where_learned_priors_end(strength):
    """The histograms of ``--learn-priors`` are off by up to 12 % a count, half of it up."""
    rng = np.random.default_rng(5)
    truth = np.array([0.1, 0.2, 0.3, 0.5])
    docs = 1500
    counts = rng.dirichlet(truth, docs) * np.exp(rng.uniform(2.5, 4.5, docs))[:, None]
    counts = counts.astype(np.float32).astype(np.float64)
    x = np.ones((docs, 1))
    shape = shape_of(x, 4, counts.sum(), intercept_sd=1e3)
    alpha = np.full(4, 0.3)
    coefficients = np.log(alpha)[None]
    pull = Pull(0.1, strength, strength)
    for _ in range(120):
        coefficients = one_step(shape, x, counts, coefficients, alpha, pull=pull)[0][LAMBDA]
    topic_bins = np.zeros(4 * BINS)
    length_bins = np.zeros(BINS)
    count_documents(counts.astype(np.float32), 4, None, topic_bins, length_bins)
    fitted = alpha
    for _ in range(20):
        histograms = document_counts(topic_bins, length_bins, 4)
        held = Pull(0.1, strength * docs, strength * docs)
        fitted = fit_alpha(fitted, *histograms, expected_rise, 1e-6, 1e6, held)
    np.testing.assert_allclose(np.exp(coefficients[0]), fitted, rtol=0.01)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 40),
    st.integers(1, 6),
    st.integers(2, 6),
    st.sampled_from([0.05, 1.0, 30.0]),
)
def test_a_step_never_lowers_the_bound(seed, docs, topics, columns, deviation):
    x, counts, coefficients = problem(seed, docs, topics, columns)
    shape = shape_of(x, topics, counts.sum(), slope_sd=deviation)
    alpha = np.full(topics, 0.2)
    params, _ = one_step(shape, x, counts, coefficients, alpha)
    means = coefficient_means(shape.covariates, alpha)
    deviations = initial_deviations(shape.covariates)[shape.covariates.term_of]
    before = dense.objective(x, counts, coefficients, coefficients, means, deviations)
    after = dense.objective(x, counts, params[LAMBDA], coefficients, means, deviations)
    assert (after >= before - 1e-6 * np.abs(before)).all()


def test_the_gradient_is_that_of_the_likelihood():
    x, counts, coefficients = problem(3, whole=True)
    shape = shape_of(x, 5, counts.sum())
    got = statistics(shape, x, counts, coefficients)["prior_gradient"].reshape(4, 5)
    want = np.empty((4, 5))
    for f in range(4):
        for k in range(5):
            ends = []
            for sign in (1, -1):
                moved = coefficients.copy()
                moved[f, k] += sign * 1e-5
                ends.append(dense.log_likelihood(counts, np.exp(x @ moved)))
            want[f, k] = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def test_a_category_alone_is_learned_as_in_its_groups():
    rng = np.random.default_rng(7)
    group = rng.integers(0, 3, 300)
    truth = np.array([[0.1, 0.2, 1.0, 0.5], [0.6, 0.1, 0.3, 0.2], [0.2, 0.9, 0.1, 0.1]])
    counts = np.array([rng.multinomial(40, rng.dirichlet(truth[g])) for g in group]).astype(float)
    x = np.eye(3)[group]
    x[:, 0] = 1.0
    shape = shape_of(x, 4, counts.sum(), slope_sd=1e3, intercept_sd=1e3)
    alpha = np.full(4, 0.1)
    coefficients = initial_coefficients(shape.covariates, alpha)
    for _ in range(250):
        coefficients = one_step(shape, x, counts, coefficients, alpha)[0][LAMBDA]
    for g in range(3):
        own = counts[group == g]
        exact = alpha
        for _ in range(1000):
            below = dense.rise(own.sum(1), exact.sum()).sum()
            exact = exact * dense.rise(own, exact).sum(0) / below
        row = np.zeros(3)
        row[0] = row[g] = 1.0
        np.testing.assert_allclose(np.exp(row @ coefficients), exact, rtol=2e-3)


def test_conjugate_gradients_solve_for_all_topics():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    pooled = root @ root.T
    scale = rng.uniform(0.1, 2.0, (12, 7))
    ridge = rng.uniform(0.5, 2.0, 12)
    right = rng.normal(size=(12, 7))
    right[:, 3] = 0.0
    got = np.empty((12, 7))
    solve_scaled(pooled, scale, ridge, right, got)
    for k in range(7):
        matrix = pooled * np.outer(scale[:, k], scale[:, k]) + np.diag(ridge)
        np.testing.assert_allclose(got[:, k], np.linalg.solve(matrix, right[:, k]), atol=1e-4)


def test_sums_of_blocks_do_not_depend_on_their_order():
    x, counts, coefficients = problem(9, docs=90)
    shape = shape_of(x, 5, counts.sum())
    blocks = []
    for first in range(0, 90, 30):
        stats = statistics(shape, x[first : first + 30], counts[first : first + 30], coefficients)
        round_stats(shape, stats)
        blocks.append(stats)
    for name in blocks[0]:
        one, two, three = (block[name] for block in blocks)
        assert np.array_equal((one + two) + three, one + (three + two)), name
        exact = statistics(shape, x, counts, coefficients)[name]
        quantum = 1e-4 if name == "prior_squares" else 1e-9
        np.testing.assert_allclose(one + two + three, exact, rtol=1e-9, atol=quantum)


def test_fixed_topics_keep_their_prior():
    x, counts, coefficients = problem(4)
    shape = shape_of(x, 5, counts.sum())
    alpha = np.array([0.1, 0.1, 0.1, 0.1, 7.0])
    params, _ = one_step(shape, x, counts, coefficients, alpha, fixed=1)
    assert np.array_equal(params[LAMBDA][:, -1], coefficients[:, -1])
    assert params["alpha"][-1] == 7.0 and (params["alpha"][:-1] != 0.1).all()


def test_topics_of_tokens_are_counted_by_document():
    theta = np.full((3, 4), 9.0, np.float32)
    count_topics(np.array([0, 2, 2, 5]), np.array([1, 1, 3, 0, 3], np.uint8), theta)
    assert theta.tolist() == [[0, 2, 0, 0], [0, 0, 0, 0], [1, 0, 0, 2]]


def test_a_step_waits_until_priors_are_learned():
    assert not any(is_counted(number, 20) for number in range(21))
    assert all(is_counted(number, 20) for number in range(21, 41))
    assert sum(is_counted(number, 20) for number in range(41, 71)) == 10
    assert not is_counted(1, 0)


def dense_sums(x, counts, coefficients, weight):
    """Return the sums of squared gradients and of information, [F, K], of a design."""
    n = counts.sum(1, keepdims=True)
    alpha = np.exp(x @ coefficients)
    total = alpha.sum(1, keepdims=True)
    mean = n.mean()
    w = weight * (1 + total) / (mean + total) * np.minimum(1, 10 * mean / n)
    a = alpha * dense.rise(counts, alpha) + w * counts
    b = dense.rise(n, total) + w * n / total
    missing = np.where(counts < 1, (1 + w) * counts * (1 - counts), 0)
    told = alpha**2 * (dense.fall(counts, alpha) - dense.fall(n, total)) + alpha * w * n / total
    return (x**2).T @ (a - b * alpha) ** 2, (x**2).T @ (told - missing), x.T @ (a - b * alpha)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_sums_for_deviations_are_those_of_the_documents(weight):
    x, counts, coefficients = problem(11)
    counts[::7] *= 40.0  # longer than ten mean documents
    shape = shape_of(x, 5, counts.sum(), mean_weight=weight)
    got = statistics(shape, x, counts, coefficients)
    squares, information, gradient = dense_sums(x, counts, coefficients, weight)
    for name, want in (
        ("squares", squares),
        ("information", information),
        ("gradient", gradient),
    ):
        figures = got[f"prior_{name}"].reshape(4, 5)
        np.testing.assert_allclose(figures, want, rtol=1e-5, atol=1e-5, err_msg=name)


def test_shares_that_are_all_there_is_are_learned_exactly():
    """With documents of one length, the quasi-likelihood alone has its maximum at the mean."""
    rng = np.random.default_rng(3)
    counts = rng.multinomial(50, rng.dirichlet([0.05, 0.1, 0.4], 400)).astype(float)
    counts = np.array([rng.permutation(row) if d % 2 else row for d, row in enumerate(counts)])
    x = np.ones((400, 1))
    shape = shape_of(x, 3, counts.sum(), mean_weight=1e4, intercept_sd=1e3)
    alpha = np.full(3, 0.2)
    coefficients = np.log(alpha)[None]
    for _ in range(100):
        coefficients = one_step(shape, x, counts, coefficients, alpha)[0][LAMBDA]
    shares = np.exp(coefficients[0])
    np.testing.assert_allclose(shares / shares.sum(), counts.sum(0) / counts.sum(), rtol=1e-3)


@pytest.mark.parametrize(("planted", "low", "high"), [(0.0, 0.0, 0.05), (0.5, 0.35, 0.7)])
def test_the_deviation_of_a_term_is_learned(planted, low, high):
    rng = np.random.default_rng(4)
    group = rng.integers(0, 12, 3000)
    truth = rng.normal(0.0, planted, (12, 6)) - 1.5
    counts = np.array([rng.multinomial(60, rng.dirichlet(np.exp(truth[g]))) for g in group])
    x = np.eye(12)[group]
    x[:, 0] = 1.0
    norms = np.ones(2)
    term_of = np.minimum(np.arange(12), 1)
    names = tuple(map(str, range(12)))
    prior = PriorShape(names, term_of, norms, learns_sd=True, mean_weight=1.0)
    shape = Shape(3000, 1000, 30_000, counts.sum(), 6, covariates=prior)
    alpha = np.full(6, 0.2)
    params = {"alpha": alpha.copy(), **prior_params(prior, alpha)}
    for _ in range(40):
        stats = statistics(shape, x, counts.astype(float), params[LAMBDA])
        step_coefficients(shape, params, stats, alpha)
    assert low <= params[DEVIATIONS][1] <= high
    assert params[DEVIATIONS][0] == prior.intercept_sd


def test_a_step_of_the_deviations_by_hand():
    """sd^2 = sum of squares / sum of told / (told + 1 / sd^2), at least half of what it was."""
    term_of = np.array([0, 1, 1, 2, 3])
    prior = PriorShape(tuple("abcde"), term_of, np.ones(4), learns_sd=True)
    ends = np.array([[9.0], [0.3], [0.4], [0.1], [8.0]])
    told = np.array([[1.0], [4.0], [-2.0], [100.0], [1e9]])
    fitted = fit_deviations(prior, np.array([7.0, 0.5, 2.0, 1.0]), ends, told)
    # 0.3^2 + 0.4^2 over 4 / (4 + 4); 0.1 is less than half of 2; 8 is more than 3
    np.testing.assert_allclose(fitted, [7.0, 0.5**0.5, 1.0, 3.0])
    nothing = fit_deviations(prior, np.array([7.0, 0.5, 2.0, 1.0]), ends, -told)
    np.testing.assert_allclose(nothing[[0, 2, 3]], [7.0, 2.0, 1.0])


def test_the_excess_of_gradients_by_hand():
    """Squares over information of each term, between 0.1 and 100; 1 of the intercept."""
    prior = PriorShape(tuple("abcd"), np.array([0, 1, 1, 2]), np.ones(3), learns_sd=True)
    squares = np.array([[5.0], [2.0], [4.0], [0.01]])
    information = np.array([[1.0], [1.0], [3.0], [1.0]])
    np.testing.assert_allclose(excess_of_terms(prior, squares, information), [1, 1.5, 0.1])
