"""First words by relevance, against the formula on all words."""

from __future__ import annotations

import numpy as np
import pytest

from topicstream.model.top import Best, top_words, words_by_relevance
from topicstream.model.topic_model import TopicModel

W = 40
K = 3
BETA = 0.05


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(6)
    phi = rng.gamma(0.3, size=(W, K)) * np.array([10.0, 30.0, 80.0])
    model = TopicModel.from_arrays(phi, [f"w{i}" for i in range(W)], 0.1, BETA)
    phi = np.asarray(model.phi, float)
    p = (phi + BETA) / (phi.sum(axis=0) + W * BETA)
    marginal = (phi.sum(axis=1) + K * BETA) / (phi.sum() + W * K * BETA)
    return model, np.log(p), np.log(marginal)


@pytest.mark.parametrize("relevance", [0.0, 0.3, 1.0])
def test_scores_are_those_of_the_formula(dense, relevance):
    model, log_p, marginal = dense
    scores = relevance * log_p + (1 - relevance) * (log_p - marginal[:, None])
    ids, found = top_words(model, 6, relevance)
    for k in range(K):
        order = np.argsort(-scores[:, k], kind="stable")[:6]
        assert ids[:, k].tolist() == order.tolist()
        assert found[:, k] == pytest.approx(scores[order, k], rel=1e-6)


def test_words_of_all_eleven_lambdas_are_there(dense):
    model, log_p, marginal = dense
    offsets, ids, logs, of_words = words_by_relevance(model, 4)
    assert of_words == pytest.approx(marginal, rel=1e-6)
    for k in range(K):
        mine = ids[offsets[k] : offsets[k + 1]]
        expected = set()
        for step in range(11):
            scores = log_p[:, k] - (1 - step / 10) * marginal
            expected |= set(np.argsort(-scores, kind="stable")[:4].tolist())
        assert mine.tolist() == sorted(expected)
        assert logs[offsets[k] : offsets[k + 1]] == pytest.approx(log_p[mine, k], rel=1e-6)


def test_a_word_that_a_topic_lacks_has_a_finite_logarithm():
    model = TopicModel.from_arrays(np.array([[1.0, 0], [0, 1]]), ["a", "b"], 0.1, 0.0)
    offsets, ids, logs, _ = words_by_relevance(model, 2)
    assert ids.tolist() == [0, 1, 0, 1] and offsets.tolist() == [0, 2, 4]
    assert logs == pytest.approx([0, -690, -690, 0])


def test_the_best_of_pieces_go_to_the_lower_row_where_equal():
    best = Best(2, 2)
    best.add(0, np.array([[1.0, 5.0], [3.0, 5.0]]))
    best.add(2, np.array([[3.0, 5.0], [2.0, 9.0]]))
    assert best.ids.T.tolist() == [[1, 2], [3, 0]]
    assert best.scores.T.tolist() == [[3, 3], [9, 5]]
    few = Best(3, 1)
    few.add(4, np.array([[-np.inf], [2.0]]))
    assert few.ids[0, 0] == 5 and few.scores[:, 0].tolist() == [2, -np.inf, -np.inf]
    many = Best(2, 1)
    many.add(0, np.arange(100.0)[:, None] % 50)
    assert many.ids[:, 0].tolist() == [49, 99]
