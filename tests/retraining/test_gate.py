"""The gate's arithmetic on made scores: the tolerance, the error, the topics."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.model.topic_kinds import EMPTY
from topicstream.retraining import gate
from topicstream.retraining.config import Gate

TOKENS = 1000.0


def model_of(sizes, names=()):
    """A model of which the gate asks for sizes and warnings alone."""
    return SimpleNamespace(sizes=np.array(sizes, float), names=list(names))


@pytest.fixture
def judge(monkeypatch):
    """Judge models whose held-out scores are given: perplexity and log-likelihood of documents."""
    scores = {}
    monkeypatch.setattr(gate, "dead_warning", lambda model: [])
    monkeypatch.setattr(gate, "_same_topics", lambda model: model.names)

    def shared(models, corpus, threads):
        return [
            (SimpleNamespace(perplexity=p, tokens=TOKENS, oov_rate=0.25), np.array(logliks))
            for p, logliks in scores["given"]
        ]

    monkeypatch.setattr(gate, "shared_perplexity", shared)

    def run(new, old, given, **settings):
        scores["given"] = given
        return gate.judge(new, old, None, Gate(**settings), 1)

    return run


FINE = model_of([10, 10])
SAME = [-5.0, -6.0, -7.0]


def test_the_tolerance_itself_passes_and_more_does_not(judge):
    for new, refused in ((100.0, False), (125.0, False), (125.1, True), (float("nan"), True)):
        found = judge(FINE, FINE, [(new, SAME), (100.0, SAME)], tolerance=0.25)
        assert bool(found.refused) == refused
        assert found.perplexity_before == 100.0 and found.oov_rate == 0.25
        assert found.tokens == TOKENS and found.error == 0.0
    [why] = judge(FINE, FINE, [(130.0, SAME), (100.0, SAME)], tolerance=0.25).refused
    assert "130.0" in why and "100.0" in why and "25 %" in why


def test_the_error_is_that_of_a_sum_over_documents(judge):
    new = [-50.0, -61.0, -70.0, -82.0]
    old = [-53.0, -60.0, -77.0, -80.0]
    found = judge(FINE, FINE, [(100.0, new), (100.0, old)], tolerance=0.1)
    differences = [-3.0, 1.0, -7.0, 2.0]
    mean = sum(differences) / 4
    variance = sum((d - mean) ** 2 for d in differences) / 4
    error = math.sqrt(4 * variance) / TOKENS
    assert found.error == pytest.approx(error, rel=1e-12)
    assert not found.warnings
    # twice the error beside the tolerance: equal is no warning, more is
    assert not judge(FINE, FINE, [(100.0, new), (100.0, old)], tolerance=2 * found.error).warnings
    [line] = judge(FINE, FINE, [(100.0, new), (100.0, old)], tolerance=1.9 * found.error).warnings
    assert f"{200 * error:.1f} %" in line and "1,000 held-out tokens" in line


def test_no_more_empty_or_identical_topics_than_before(judge):
    alike = ["1 pair of identical topics"]
    scores = [(100.0, SAME), (100.0, SAME)]
    empty = model_of([10, EMPTY / 2], ["0 pairs"])
    assert judge(empty, FINE, scores).refused == ["0 pairs"]
    assert not judge(empty, empty, scores).refused
    assert not judge(model_of([10, EMPTY], ["0 pairs"]), FINE, scores).refused
    assert judge(model_of([10, 10], alike), FINE, scores).refused == alike
    assert not judge(model_of([10, 10], alike), empty, scores).refused
    assert judge(model_of([10, EMPTY / 2], alike), empty, scores).refused == alike
    assert not judge(model_of([10, 10], alike), FINE, scores, topics=False).refused


def test_a_first_model_is_only_warned_of(judge):
    found = judge(model_of([0, 10], ["2 pairs"]), None, [(100.0, SAME)])
    assert not found.refused and found.warnings == ["2 pairs"]
    assert found.perplexity == 100.0 and found.perplexity_before is None and found.error is None
