"""Means and slopes of groups by hand, at the edges of what has an interval."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from topicstream.display import groups as module
from topicstream.display.groups import Groups, freedom_of
from topicstream.display.over_time import bars, curves
from topicstream.evaluation.visiting import BlockShares


def added(theta, codes, groups, tokens=None, parents=None):
    """Groups of documents that come in blocks of three."""
    by = Groups(groups, theta.shape[1])
    tokens = np.ones(len(theta)) if tokens is None else tokens
    for first in range(0, len(theta), 3):
        piece = slice(first, first + 3)
        block = BlockShares(first, theta[piece], tokens[piece])
        here = np.arange(len(block.shares))
        by.add(here, codes[piece], block, None if parents is None else parents[piece])
    return by


def test_ten_documents_and_five_of_a_topic_have_an_interval():
    assert (module.LEAST, module.LEAST_WORTH, module.LEAST_SLOPE) == (10, 5, 30)
    assert module.LEVEL == 0.95
    for documents, worth, freedom in (
        (10, 5, 9),
        (10, 4.99, None),
        (9.99, 5, None),
        (11, 5, 10),
        (12, 5, 10),
        (100, 8, 16),
    ):
        found = freedom_of(np.array(float(documents)), np.array(float(worth)))
        assert np.isnan(found) if freedom is None else found == freedom


def test_ten_documents_by_hand():
    """Shares 0.4 and 0.6 by turns: s^2 = 0.1 / 9, of which a tenth is the squared error."""
    theta = np.tile([[0.4, 0.6], [0.6, 0.4]], (5, 1))
    means = added(theta, np.zeros(10, int), 1).means()
    assert means.share[0] == pytest.approx([0.5, 0.5])
    error = np.sqrt(0.1 / 9 / 10)
    assert means.error[0] == pytest.approx([error, error])
    assert means.reach[0] == pytest.approx(2 * [scipy.stats.t.ppf(0.975, 9) * error])
    assert np.isnan(added(theta[:9], np.zeros(9, int), 1).means().error).all()


def test_documents_of_parts_by_hand():
    """C / (C - 1) sum (S - n M)^2 / (sum n)^2 over twelve documents of one to three parts."""
    rng = np.random.default_rng(2)
    sizes = np.array([1, 2, 3, 3, 2, 1, 2, 2, 3, 1, 2, 3])
    parents = np.repeat(np.arange(12), sizes)
    theta = rng.dirichlet([3.0, 3.0], len(parents))
    codes = np.zeros(len(parents), int)
    means = added(theta, codes, 1, parents=parents).means()
    sums = np.array([theta[parents == p].sum(axis=0) for p in range(12)])
    mean = sums.sum(axis=0) / sizes.sum()
    squares = ((sums - sizes[:, None] * mean) ** 2).sum(axis=0)
    error = np.sqrt(12 / 11 * squares) / sizes.sum()
    assert means.share[0] == pytest.approx(mean)
    assert means.error[0] == pytest.approx(error)
    documents = sizes.sum() ** 2 / (sizes**2).sum()
    others = sizes[:, None] - sums
    worth = np.minimum(documents * np.minimum(mean, 1 - mean), sums.sum(0) ** 2 / (sums**2).sum(0))
    worth = np.minimum(worth, others.sum(0) ** 2 / (others**2).sum(0))
    freedom = np.minimum(documents - 1, 2 * worth)
    assert means.reach[0] == pytest.approx(scipy.stats.t.ppf(0.975, freedom) * error)


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_the_error_of_a_slope_is_the_larger_of_two(spread):
    """N / (N - 2) of squared residuals, pooled or weighted by their own distance in time."""
    rng = np.random.default_rng(3)
    at = np.array([0.0, 1.0, 5.0])
    codes = np.arange(60) % 3
    noise = rng.normal(0, np.where(codes == 2, spread, 0.05))
    first = 0.4 + 0.02 * at[codes] + noise
    theta = np.stack([first, 1 - first], axis=1)
    slope, error = added(theta, codes, 3).slope(at)
    x = at[codes]
    fitted = np.polyfit(x, first, 1)
    assert slope == pytest.approx([fitted[0], -fitted[0]])
    squares = (first - np.polyval(fitted, x)) ** 2
    away = x - x.mean()
    pooled = squares.mean() * (away**2).sum()
    own = (away**2 * squares).sum()
    assert (own > pooled) == (spread > 0.1)
    expected = np.sqrt(60 / 58 * max(pooled, own)) / (away**2).sum()
    assert error == pytest.approx([expected, expected])


def test_thirty_documents_of_two_periods_have_a_slope():
    at = np.array([0.0, 1.0])
    for n, shown in ((30, True), (29, False)):
        codes = np.arange(n) % 2
        first = np.where(codes, 0.5, 0.4) + 0.01 * (np.arange(n) % 3)
        theta = np.stack([first, 1 - first], axis=1)
        for unit in (1.0, 0.01, 100.0):  # of time
            slope, error = added(theta, codes, 2).slope(unit * at)
            assert np.isfinite([slope, error]).all() == shown
    # of 40 documents nearly all evidence lies in one, far away in time
    codes = np.append(np.zeros(39, int), 1)
    slope, _ = added(np.full((40, 2), 0.5), codes, 2).slope(at)
    assert np.isnan(slope).all()
    # a topic that is worth fewer than five documents has none
    first = np.where(np.arange(40) % 2, 0.12, 0.11)
    slope, _ = added(np.stack([first, 1 - first], axis=1), np.arange(40) % 2, 2).slope(at)
    assert np.isnan(slope).all()


def row_of(**given):
    """A row of the table."""
    about = {"topic": 3, "label": "ships", "group": None, "period": "2001", "share": 0.1}
    return {**about, "slope": 0.2, "slope_se": 0.1, **given}


@pytest.mark.parametrize(
    ("slope", "said"), [(0.2, ""), (0.21, "rising"), (-0.2, ""), (-0.21, "falling")]
)
def test_a_line_rises_or_falls_beyond_two_standard_errors(slope, said):
    rows = [row_of(slope=slope), row_of(slope=slope, period="2002", share=0.3)]
    [line] = curves(rows, ["2001", "2002"], 80)
    assert line.endswith(f"30.0 % {said}".rstrip())
    assert "10.0 %" in line
    assert "ing" not in curves([row_of(slope_se=None), row_of(period="2002")], ["2001"], 80)[0]


def test_bars_go_from_the_largest_share_down_with_half_an_interval():
    about = {"se": 0.01, "documents": 40, "low": 0.0, "high": 0.13}
    rows = [row_of(group="red", **about)]
    rows.append(row_of(group="blue", **{**about, "share": 0.95, "low": 0.9, "high": 1.0}))
    rows.append(row_of(group="lone", **{**about, "share": 0.5, "se": None}))
    head, *lines = bars(rows)
    assert head == "   3 ships"
    assert [line.split()[0] for line in lines] == ["blue", "lone", "red"]
    assert "95.00 % ± 5.00" in lines[0] and "10.00 % ± 10.00" in lines[2]
    assert "±" not in lines[1]
