"""The memoized bound: what a pass tracks against sums from scratch, and falls reported with their size."""

import itertools
import json

import numpy as np
import pytest
from scipy.special import gammaln

from tests.small_store import planted, store
from topicstream.engines.variational import check
from topicstream.engines.variational.mvi import Memoized
from topicstream.errors import TopicsError
from topicstream.progress import Shown as Progress
from topicstream.training.loop import train


class Heard(Progress):
    """Remembers what is said."""

    def __init__(self):
        super().__init__(verbose=-1)
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    matrix, _ = planted(3, 240, 150, 6)
    path = tmp_path_factory.mktemp("bound") / "corpus"
    store(path, matrix[:220], matrix[220:], blocks=2)
    return path


@pytest.mark.parametrize("most", [1, 4])
def test_bound_and_table_agree_with_sums_from_scratch_and_falls_are_said(corpus, tmp_path, most):
    heard = Heard()
    options = {"sparsity": most, "verify_bound": True, "restarts": 1}
    settings = {"topics": 12, "passes": 7, "tol": 0.0, "block_cells": 600, "threads": 1}
    train(corpus, tmp_path / "m", algo="mvi", options=options, progress=heard, **settings)
    records = [json.loads(line) for line in (tmp_path / "m" / "history.jsonl").read_text().splitlines()][1:]
    assert len(records) == 7
    assert all(0 <= r["bound_error"] < check.TOLERANCE and 0 <= r["table_error"] < check.TOLERANCE for r in records)
    bounds = [r["bound"] for r in records]
    assert bounds[-1] > bounds[0]
    warned = [line for line in heard.lines if line.startswith("warning: the bound fell by")]
    falls = [(i + 2, a - b) for i, (a, b) in enumerate(itertools.pairwise(bounds)) if a > b]
    assert warned == [f"warning: the bound fell by {fall:.3g} in pass {number}" for number, fall in falls]
    assert [r.get("bound_fall", 0.0) for r in records[1:]] == pytest.approx(
        [max(a - b, 0.0) for a, b in itertools.pairwise(bounds)]
    )
    assert all(fall < 0.01 * abs(bounds[0]) for _, fall in falls)


def test_documents_terms_equal_their_definition():
    rng = np.random.default_rng(0)
    indptr, most, topics = np.array([0, 3, 3, 8], np.int64), 3, 9
    counts = rng.integers(1, 5, 8).astype(np.int32)
    topic, value = np.zeros(8 * most + 16, np.uint16), np.zeros(8 * most + 16, np.float32)
    alpha = rng.random(topics) + 0.1
    want = 0.0
    for d in (0, 2):
        n = np.zeros(topics)
        for i in range(indptr[d], indptr[d + 1]):
            many = rng.integers(1, most + 1)
            r = rng.dirichlet(np.ones(many))
            k = rng.choice(topics, many, replace=False)
            topic[i * most : i * most + many], value[i * most : i * most + many] = k, counts[i] * r
            n[k] += counts[i] * r
            want -= counts[i] * (r * np.log(r)).sum()
        want += gammaln(n + alpha).sum() - gammaln(alpha).sum() + gammaln(alpha.sum()) - gammaln((n + alpha).sum())
    assert check.documents(indptr, counts, most, topic, value, alpha, topics) == pytest.approx(want, rel=1e-6)


def test_a_table_that_is_not_the_sum_of_the_statistics_is_told():
    rng = np.random.default_rng(1)
    words, topics = 40, 16
    table = (rng.random((words, topics)) * (rng.random((words, topics)) < 0.3)).astype(np.float32)
    ptr = np.concatenate(([0], np.cumsum((table > 0).sum(1)))).astype(np.int32)
    topic, value = np.nonzero(table)[1].astype(np.uint16), table[table > 0]
    vocab = np.arange(words, dtype=np.int32)
    seal = check.seal_of_statistic(vocab, ptr, topic, value)
    apart = check.seal_of_rows(0, table[:25], topics) + check.seal_of_rows(25, table[25:], topics)
    assert seal == pytest.approx(apart, abs=1e-6)
    value[7] += 0.5
    assert abs(check.seal_of_statistic(vocab, ptr, topic, value) - apart) == pytest.approx(0.5, abs=1e-6)


def test_dense_statistics_are_refused():
    from topicstream.engines.base import Shape

    with pytest.raises(TopicsError, match="--sparsity below"):
        Memoized(Shape(10, 20, 100, 200.0, 5), Memoized.Options(sparsity=5, verify_bound=True))
