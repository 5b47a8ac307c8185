"""exp, log, digamma and log-gamma against SciPy, over the range the engines use and beyond."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from topicstream.numeric.kernels import dirichlet as dg

X = np.concatenate(
    [np.logspace(-8, 15, 40001), np.linspace(0.5, 3, 20001), np.arange(1, 400) / 2.0]
)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "reference"), [(dg.psi, special.digamma), (dg.log_gamma, special.gammaln)]
)
def test_float64_equals_scipy_to_1e_12(kernel, reference):
    close(kernel(X), reference(X))


@given(st.floats(1e-8, 1e15))
def test_recurrences_hold(x):
    assert dg.digamma(x + 1.0) - dg.digamma(x) == pytest.approx(
        1.0 / x, rel=1e-12, abs=1e-12 * abs(dg.digamma(x)) + 1e-13
    )
    assert dg.lgamma(x + 1.0) - dg.lgamma(x) == pytest.approx(
        np.log(x), abs=1e-12 * abs(dg.lgamma(x)) + 1e-12
    )


def test_exp_digamma_has_no_logarithm_and_the_same_value():
    out = np.array([dg.exp_digamma(x) for x in X])
    far = X > 0.0015  # psi(0.0015) = -667: below, float64 holds nothing
    np.testing.assert_allclose(out[far], np.exp(special.digamma(X[far])), rtol=1e-12)
    assert (out[X < 0.0013] == 0.0).all()


def test_exp_and_log_equal_numpy():
    y = np.linspace(-700, 700, 20001)
    np.testing.assert_allclose([dg.exp(v) for v in y], np.exp(y), rtol=5e-14)
    assert dg.exp(-1e300) == 0.0 and dg.exp(0.0) == 1.0
    x = np.logspace(-300, 300, 20001)
    np.testing.assert_allclose([dg.log(v) for v in x], np.log(x), rtol=1e-15, atol=1e-15)
    assert dg.log(1.0) == 0.0


def test_float32_keeps_the_stated_error():
    x = np.logspace(-3, 9, 60001).astype(np.float32)
    out = np.array([dg.exp_digamma32(v) for v in x], np.float32)
    want = np.exp(special.digamma(x.astype(np.float64)))
    seen = want > 1e-36
    error = np.abs(out - want)[seen] / want[seen]
    assert (error <= 4e-6 * (1 + 0.1 / x[seen])).all()
    assert out[~seen].max() < 2e-36 and np.isfinite(out).all()


def test_exponentials_and_logarithms_at_their_ends():
    from topicstream.numeric.kernels.dirichlet import exponential, logs

    assert exponential(0.0) == 1.0 and exponential(1.0) == pytest.approx(np.e, rel=1e-15)
    assert exponential(np.inf) == np.inf and exponential(800.0) == np.inf
    assert exponential(-np.inf) == 0.0 and np.isnan(exponential(np.nan))
    np.testing.assert_allclose(logs(np.array([1.0, 2.0, 1e300])), np.log([1, 2, 1e300]), rtol=1e-15)
    assert logs(np.array([0.0]))[0] == -np.inf
