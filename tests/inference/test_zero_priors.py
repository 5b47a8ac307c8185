"""Models without a prior of topics (alpha 0) or of words (beta 0): right answers, or one line."""

from __future__ import annotations

import itertools
import json
from math import lgamma

import numpy as np
import pytest

import topicstream
from topicstream import TopicModel
from topicstream.base.errors import InputError
from topicstream.cli.main import run

WORDS = ["a", "b", "c", "d", "e", "none"]
PHI = np.array(
    [
        [30, 0, 0, 0],
        [10, 5, 0, 0],
        [0, 40, 0, 0],
        [0, 5, 50, 0],
        [5, 5, 5, 0],
        [0, 0, 0, 0],
    ],
    float,
)
"""Three topics, an empty one, and a word that none of them has."""
DOCUMENTS = [["a", "a", "b"], ["c", "d", "d", "d"], ["a", "d", "d"], ["b", "c", "e"]]
SAMPLERS = [{}, {"own_counts": True}, {"joint": True}]


def model_of(alpha, beta=0.0, topics=4):
    return TopicModel.from_arrays(PHI[:, :topics], WORDS, alpha, beta)


def shares_of(model, documents=DOCUMENTS, **options):
    return np.array(topicstream.infer(model, documents, **options)["shares"].to_pylist())


def most_likely(words, alpha, beta):
    """Theta by EM, n_k = sum of responsibilities, theta ~ n + alpha, in float64."""
    phi = PHI[[WORDS.index(word) for word in words], :3]
    p = (phi + beta) / (PHI[:, :3].sum(axis=0) + len(WORDS) * beta)
    theta = np.ones(3)
    for _ in range(20_000):
        weight = p * theta
        theta = (weight / weight.sum(axis=1, keepdims=True)).sum(axis=0) + alpha
    return theta / theta.sum()


def posterior(words, alpha, adding):
    """The mean of (n + alpha) / (N + sum alpha) over all assignments of a document's tokens."""
    ids = [WORDS.index(word) for word in words]
    alphas = np.full(3, alpha)
    total = 0.0
    mean = np.zeros(3)
    for z in itertools.product(range(3), repeat=len(ids)):
        counts = PHI[:, :3].copy()
        sums = PHI[:, :3].sum(axis=0)
        weight = 1.0
        n = np.bincount(z, minlength=3)
        for w, k in zip(ids, z, strict=True):
            weight *= counts[w, k] / sums[k]
            if adding:
                counts[w, k] += 1
                sums[k] += 1
        weight *= np.exp(sum(lgamma(n[k] + alpha) for k in range(3)))
        total += weight
        mean += weight * (n + alphas) / (len(ids) + alphas.sum())
    return mean / total


@pytest.mark.parametrize("options", SAMPLERS)
@pytest.mark.parametrize("alpha", [0.0, [0.5, 0, 0, 0]])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_samplers_refuse_a_prior_that_leaves_no_choice(alpha, beta, options):
    with pytest.raises(InputError, match=r"alpha is 0 for [34] of the 4 topics") as refused:
        shares_of(model_of(alpha, beta), method="gibbs", **options)
    assert "\n" not in str(refused.value) and "--method bp" in str(refused.value)


def test_samplers_take_some_zeros_where_every_word_can_go_elsewhere():
    alpha = [0.5, 0.5, 0, 0]
    assert shares_of(model_of(alpha, 0.1), method="gibbs")[:, 2:].max() == 0
    with pytest.raises(InputError, match="and beta is 0"):
        shares_of(model_of(alpha), method="gibbs")
    assert shares_of(model_of(0.0, topics=1), [["a"]], method="gibbs").tolist() == [[1.0]]


def test_the_start_from_the_prior_refuses_it_too():
    with pytest.raises(InputError, match="--begin prior: alpha is 0 for 4 of the 4 topics"):
        shares_of(model_of(0.0, 0.1), method="vb", begin="prior")


@pytest.mark.quick("0.0-*")
@pytest.mark.parametrize("alpha", [0.0, [0.5, 0, 0]])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_belief_propagation_needs_no_prior(alpha, beta):
    model = model_of(alpha, beta, topics=3)
    wanted = [most_likely(words, np.broadcast_to(alpha, 3), beta) for words in DOCUMENTS]
    assert np.allclose(shares_of(model, method="bp", tol=0, inner=5000), wanted, atol=2e-4)


@pytest.mark.parametrize("options", SAMPLERS)
def test_samplers_without_a_prior_of_words_beside_an_empty_topic(options):
    model = model_of([0.4, 0.4, 0.4, 1e-9])
    for words in DOCUMENTS:
        (shares,) = shares_of(model, [words], method="gibbs", burn=50, sweeps=6000, **options)
        assert np.allclose(shares[:3], posterior(words, 0.4, bool(options)), atol=0.02), words
        assert shares[3] < 1e-6


@pytest.mark.parametrize("method", ["bp", "vb", "gibbs", "naive-bayes"])
def test_a_word_that_no_topic_has_is_unknown(method):
    answers = topicstream.infer(model_of(0.4), [["none"], ["none", "a"], ["a"]], method=method)
    assert answers["flag"].to_pylist() == ["unknown", None, None]
    assert answers["oov_rate"].to_pylist() == [1.0, 0.5, 0.0]
    assert np.allclose(answers["shares"][0].as_py(), 0.25)
    assert answers["shares"][1].as_py()[0] > 0.4
    smoothed = topicstream.infer(model_of(0.4, 0.1), [["none"]], method=method)
    assert smoothed["flag"].to_pylist() == [None]


def test_the_command_says_so_in_one_line(tmp_path, capsys):
    model_of(0.0, 0.1).save(tmp_path / "m")
    (tmp_path / "d.jsonl").write_text(json.dumps({"id": "1", "text": "a a b"}) + "\n")
    line = ["infer", str(tmp_path / "d.jsonl"), "--model", str(tmp_path / "m")]
    assert run([*line, "--method", "gibbs", "--joint"]) == 3
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "--method gibbs: alpha is 0 for 4 of the 4 topics" in said[0]
