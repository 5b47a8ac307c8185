"""Priors of whole counts: likelihoods against SciPy, learning against the priors that made the
counts.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from topicstream.numeric.kernels.dirichlet import (
    BINS,
    EXACT,
    Histogram,
    bin_values,
    close_document,
    count_bin,
    digamma_rise,
    fit_alpha,
    fit_beta,
    length_counts,
    topic_counts,
    words_loglik,
)
from topicstream.numeric.kernels.jit import kernel


@kernel
def _bins(values, out):
    for i in range(len(values)):
        out[i] = count_bin(values[i])


def bins_of(values: np.ndarray) -> np.ndarray:
    out = np.empty(len(values), np.int64)
    _bins(values.astype(np.int64), out)
    return out


def close(
    counts: np.ndarray, alpha: np.ndarray, topic_bins: np.ndarray, lengths: np.ndarray
) -> float:
    topics = np.flatnonzero(counts)
    return close_document(
        topics,
        len(topics),
        counts.astype(np.int64),
        int(counts.sum()),
        alpha,
        alpha.sum(),
        topic_bins,
        lengths,
    )


def test_bins_hold_their_values():
    values = bin_values()
    assert len(values) == BINS
    small = np.arange(1, EXACT)
    np.testing.assert_array_equal(values[bins_of(small)], small)
    large = np.unique(np.geomspace(EXACT, 1 << 23, 5000).astype(np.int64))
    b = bins_of(large)
    assert (np.diff(b) >= 0).all() and b.max() < BINS
    assert np.abs(values[b] / large - 1).max() < 0.13
    assert bins_of(np.array([1 << 40]))[0] == BINS - 1


def test_a_bin_stands_for_the_middle_of_its_counts():
    """Quarter octaves from 16 on: each bin's value is the mean of all whole counts in it."""
    counts = np.arange(1, 1 << 14)
    bins = bins_of(counts)
    held = np.bincount(bins, minlength=BINS)
    means = np.bincount(bins, counts, minlength=BINS) / np.maximum(held, 1)
    used = np.flatnonzero(held)
    np.testing.assert_array_equal(bin_values()[used], means[used])
    edges = [16 << octave for octave in range(10)]
    assert [int(bins_of(np.array([edge]))[0]) for edge in edges] == [*range(EXACT, EXACT + 40, 4)]
    np.testing.assert_array_equal(
        bins_of(np.array([16, 19, 20, 23, 24, 28, 31, 32, 39, 40])) - EXACT,
        [0, 0, 1, 1, 2, 3, 3, 4, 4, 5],
    )


def test_lengths_stand_at_the_mean_of_their_bin():
    lengths = np.zeros(2 * BINS)
    for n in (5, 5, 33, 39, 36):
        close(np.array([n]), np.ones(1), np.zeros(BINS), lengths)
    histogram = length_counts(lengths)
    np.testing.assert_array_equal(histogram.times, [2, 3])
    np.testing.assert_array_equal(histogram.values, [5, 36])


def test_likelihood_of_documents_and_words():
    rng = np.random.default_rng(0)
    alpha = rng.uniform(0.001, 3.0, 40)
    for scale in (1, 10, 5000):
        counts = rng.poisson(rng.gamma(0.3, scale, 40))
        counts[0] += 1
        expected = gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum())
        expected += (gammaln(alpha + counts) - gammaln(alpha)).sum()
        assert close(counts, alpha, np.zeros(40 * BINS), np.zeros(2 * BINS)) == pytest.approx(
            expected, rel=1e-11
        )
    n_wt = rng.poisson(rng.gamma(0.1, 20, (300, 7)))
    values, times = np.unique(n_wt[n_wt > 0], return_counts=True)
    expected = (gammaln(300 * 0.02) - gammaln(300 * 0.02 + n_wt.sum(0))).sum() + (
        gammaln(0.02 + n_wt) - gammaln(0.02)
    ).sum()
    got = words_loglik(
        0.02, values.astype(float), times.astype(float), n_wt.sum(0).astype(float), 300
    )
    assert got == pytest.approx(expected, rel=1e-12)


def test_alpha_that_made_the_documents_is_learned():
    rng = np.random.default_rng(1)
    truth = np.array([0.05, 0.1, 0.2, 0.4, 1.5])
    topic_bins = np.zeros(5 * BINS)
    lengths = np.zeros(2 * BINS)
    for _ in range(6000):
        close(
            rng.multinomial(rng.integers(20, 300), rng.dirichlet(truth)), truth, topic_bins, lengths
        )
    alpha = np.full(5, 1.0)
    documents = (topic_counts(topic_bins, 5), length_counts(lengths))
    for _ in range(8):
        alpha = fit_alpha(alpha, *documents, digamma_rise, 1e-5, 100.0)
    np.testing.assert_allclose(alpha, truth, rtol=0.1)
    assert (fit_alpha(np.full(5, 1.0), *documents, digamma_rise, 0.3, 0.9) <= 0.9).all()


def test_beta_that_made_the_topics_is_learned():
    rng = np.random.default_rng(2)
    n_wt = np.stack(
        [rng.multinomial(20000, rng.dirichlet(np.full(800, 0.05))) for _ in range(6)], 1
    )
    values, times = np.unique(n_wt[n_wt > 0], return_counts=True)
    beta = 0.5
    rows = Histogram(times.astype(float), values.astype(float))
    for _ in range(10):
        beta = fit_beta(beta, rows, 1.0, n_wt.sum(0).astype(float), 800, digamma_rise, 1e-5, 100.0)
    assert beta == pytest.approx(0.05, rel=0.1)
