"""Stars and reasons beside the effects of covariates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from topicstream.addons.covariates.effects import PREDICTED, Effects
from topicstream.addons.covariates.regression import (
    Coefficients,
)


def made_effects(estimates, errors, reasons=None):
    """Effects of one topic on an intercept, a number and a curve of two columns, 100 documents."""
    names = ["(intercept)", "year", "s(age).1", "s(age).2"]
    covariance = np.diag(np.square(errors))[None]
    coefficients = Coefficients(
        names,
        np.arange(4),
        np.array(estimates)[:, None],
        covariance,
        covariance,
        np.full(4, 96.0),
        np.zeros(4, bool),
        100,
        100,
    )
    return Effects(
        formula="year + s(age)",
        documents=100,
        left_out=0,
        topics=np.array([7]),
        labels=["ships"],
        coefficients=coefficients,
        reasons=reasons or [None] * 4,
        references={"year": "1990"},
        kinds={"year": "date", "age": "number"},
        predictions=PREDICTED.empty_table(),
    )


def test_a_star_means_that_the_interval_excludes_zero():
    """With 96 degrees of freedom an interval reaches 1.985 standard errors."""
    reach = scipy.stats.t.ppf(0.975, 96)
    for estimate, star in ((0.0199, True), (-0.0199, True), (0.0198, False), (-0.0198, False)):
        effects = made_effects([0.5, estimate, 0.0, 0.0], [0.01, 0.01, 1.0, 1.0])
        assert effects.coefficients.errors[1, 0] * reach == pytest.approx(0.01985, abs=1e-5)
        line = next(line for line in effects.lines() if line.startswith("     year"))
        assert ("*" in line) == star
        row = effects.table().to_pylist()[1]
        assert row["low"] == pytest.approx(estimate - 0.01 * reach)
        assert row["high"] == pytest.approx(estimate + 0.01 * reach)
        assert row["z"] == pytest.approx(100 * estimate) and row["df"] == 96
    intercept = next(line for line in effects.lines() if "(intercept)" in line)
    assert "*" not in intercept and "+50.00" in intercept
    assert f"[+{50 - reach:.2f}, +{50 + reach:.2f}]" in intercept


def test_a_curve_has_a_star_below_one_in_twenty():
    for size, star in ((1.7, False), (1.8, True)):
        effects = made_effects([0.5, 0.0, 0.01 * size, 0.01 * size], [0.01, 0.01, 0.01, 0.01])
        [row] = effects.tests().to_pylist()
        # the robust variance is the pooled one: F with 2 and 96 degrees of freedom
        f = (2 * size**2) / 2
        assert row["f"] == pytest.approx(f) and (row["df1"], row["df2"]) == (2, 96)
        assert row["p"] == pytest.approx(scipy.stats.f.sf(f, 2, 96))
        line = next(line for line in effects.lines() if " F(2, 96)" in line)
        assert ("*" in line) == star == (row["p"] < 0.05)


def test_an_effect_without_an_interval_has_a_reason_and_no_star():
    reasons = [None, "too few documents: 3 (year)", "few", "few"]
    effects = made_effects([0.5, 0.2, 0.1, 0.1], [0.01] * 4, reasons)
    line = next(line for line in effects.lines() if line.startswith("     year"))
    assert "+20.00   too few documents: 3 (year)" in line and "*" not in line
    row = effects.table().to_pylist()[1]
    assert row["estimate"] == 0.2 and np.isnan([row["se"], row["low"], row["high"]]).all()
    assert np.isnan(effects.tests().to_pylist()[0]["p"])
