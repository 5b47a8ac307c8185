"""The assignment of least total cost against SciPy's, which is there for the tests alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from topicstream.evaluation.assignment import least_cost

SHAPES = [(1, 1), (1, 7), (7, 1), (2, 2), (5, 5), (12, 30), (30, 12), (60, 60), (40, 41)]
KINDS = {
    "uniform": lambda rng, shape: rng.random(shape),
    "ties": lambda rng, shape: rng.integers(0, 4, shape).astype(float),
    "negative": lambda rng, shape: rng.normal(size=shape) * 1e6,
    "low rank": lambda rng, shape: rng.random((shape[0], 2)) @ rng.random((2, shape[1])),
    "product": lambda rng, shape: np.outer(np.arange(1.0, shape[0] + 1), np.arange(1.0, shape[1] + 1)),
    "equal": lambda rng, shape: np.full(shape, 2.0),
    "float32 distances": lambda rng, shape: np.minimum(2, rng.gamma(3.0, size=shape)).astype(np.float32),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_total_is_scipys(kind):
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        for _ in range(20):
            cost = KINDS[kind](rng, shape)
            rows, columns = least_cost(cost)
            assert rows.dtype == columns.dtype == np.int64 and len(rows) == min(shape)
            assert (np.diff(rows) > 0).all() and len(set(columns.tolist())) == len(columns)
            total = cost[linear_sum_assignment(cost)].sum(dtype=np.float64)
            found = cost[rows, columns].sum(dtype=np.float64)
            assert found == pytest.approx(total, rel=1e-12, abs=1e-9)


def test_a_single_best_assignment_is_found_and_the_same_one_among_many():
    rng = np.random.default_rng(1)
    cost = rng.random((50, 80))
    assert np.array_equal(least_cost(cost)[1], linear_sum_assignment(cost)[1])
    tied = rng.integers(0, 3, (50, 50)).astype(float)
    assert np.array_equal(least_cost(tied)[1], least_cost(tied.copy(order="F"))[1])


def test_a_thousand_topics():
    """Integer ties, and topics that are alike in pairs."""
    rng = np.random.default_rng(3)
    for cost in (rng.integers(0, 50, (1000, 1000)).astype(float), rng.random((1000, 1000))):
        rows, columns = least_cost(cost)
        assert cost[rows, columns].sum() == pytest.approx(cost[linear_sum_assignment(cost)].sum(), rel=1e-12)


def test_nothing_and_what_is_no_number():
    for shape in ((0, 0), (0, 3), (3, 0)):
        assert [len(a) for a in least_cost(np.zeros(shape))] == [0, 0]
    for bad in (np.nan, np.inf, -np.inf, 1e308):
        with pytest.raises(ValueError, match="finite"):
            least_cost(np.array([[0.0, bad], [1.0, 2.0]]))


def test_nothing_of_the_package_asks_for_scipy():
    code = """
import sys
class None_:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "scipy":
            raise ImportError(name)
sys.meta_path.insert(0, None_())
import topicstream.evaluation.matching, topicstream.retraining.retrain
from topicstream.model.topic_model import TopicModel
import numpy as np
from topicstream.evaluation.matching import compare
m = TopicModel.from_arrays(np.eye(3, dtype=np.float32) * 9, ["a", "b", "c"], 0.1, 0.01)
print(len(compare(m, m)["matched"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "3", done.stderr
