"""The gate's arithmetic on made scores: the tolerance, the error, the topics."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.reference.completion import completion as twin
from tests.reference.completion import text_key
from tests.small_store import planted, store
from topicstream.base.errors import DoesNotFit
from topicstream.base.machine import PROCESS_BYTES
from topicstream.model.topic_kinds import EMPTY
from topicstream.model.topic_model import TopicModel
from topicstream.retraining import gate
from topicstream.retraining.config import Gate

TOKENS = 1000.0


def model_of(sizes, names=(), covariates=None):
    """A model of which the gate asks for sizes and warnings alone."""
    manifest = SimpleNamespace(covariates=covariates)
    return SimpleNamespace(sizes=np.array(sizes, float), names=list(names), manifest=manifest)


@pytest.fixture
def judge(monkeypatch):
    """Judge models whose held-out scores are given: perplexity and log-likelihood of documents."""
    scores = {}
    monkeypatch.setattr(gate, "dead_warning", lambda model: [])
    monkeypatch.setattr(gate, "_warn_of_same_topics", lambda model: model.names)

    def shared(models, corpus, threads):
        assert None not in models and 1 <= len(models) <= 2
        scores["models"] = models
        return [
            (SimpleNamespace(perplexity=p, tokens=TOKENS, oov_rate=0.25), np.array(logliks))
            for p, logliks in scores["given"]
        ]

    monkeypatch.setattr(gate, "shared_perplexity", shared)

    def run(new, old, given, **settings):
        scores["given"] = given
        judgement = gate.judge(new, old, None, Gate(**settings), 1)
        assert scores["models"] == ([new] if old is None else [new, old])
        return judgement

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


def test_nothing_to_score_is_no_verdict(judge):
    found = judge(FINE, FINE, [])
    assert not found.refused and found.tokens == 0 and found.perplexity is None


def test_models_are_scored_on_the_words_that_both_know(tmp_path):
    """Against the dense twin over these words alone; the first word of each model is one."""
    counts, phi = planted(3, 90, 50, 4)
    corpus = store(tmp_path / "c.zarr", counts[40:], counts[:40], ids=True)
    alpha = np.array([0.1, 0.3, 0.2, 0.1])
    known = (np.arange(40), np.append(np.arange(10, 50), 0))
    common = np.append(0, np.arange(10, 40))
    models = []
    tables = []
    for i, words in enumerate(known):
        table = (phi * 300 + i * np.roll(phi, 1, axis=1) * 100).astype(np.float32)
        tables.append(table)
        names = [f"word{w}" for w in words]
        models.append(TopicModel.from_arrays(table[words], names, alpha, 0.05))
    scored = gate.shared_perplexity(models, corpus, 1)
    documents = [text_key(f"heldout-{d}") for d in range(40)]
    keys = [text_key(f"word{w}") for w in common]
    for (score, logliks), table in zip(scored, tables, strict=True):
        loglik, tokens, docs, _ = twin(
            counts[:40][:, common], documents, keys, table[common].astype(float), alpha, 0.05, 0.8
        )
        assert (score.tokens, score.docs) == (tokens, docs)
        assert score.oov_tokens == counts[:40].sum() - counts[:40][:, common].sum()
        assert score.nats_per_token == pytest.approx(-loglik / tokens, rel=3e-5)
        assert logliks.sum() == pytest.approx(loglik, rel=3e-5) and len(logliks) == 40


def test_nothing_in_common_is_no_score(tmp_path):
    counts, phi = planted(3, 30, 20, 2)
    corpus = store(tmp_path / "c.zarr", counts, counts)
    models = [
        TopicModel.from_arrays(phi * 100, [f"{name}{i}" for i in range(20)], 0.1, 0.01)
        for name in ("word", "other")
    ]
    assert gate.shared_perplexity(models, corpus, 1) == []


def test_room_for_a_judgement_is_asked_for_before_the_training():
    """A thread: 12 MB, and 6 bytes for each of 2^15 cells and of 100 topics and 16 lanes."""
    words = 2_000_000
    fixed = 3 * 150 * words + 32 * 100**2 + (40 << 20)
    needed = PROCESS_BYTES + 1.06 * (fixed + (12 << 20) + 6 * (1 << 15) * 116)
    gate.check_room(math.ceil(needed), 100, words)
    with pytest.raises(DoesNotFit, match="judging the model"):
        gate.check_room(math.floor(needed) - 2, 100, words)


def test_models_are_opened_beside_their_pairs_and_the_words_of_the_corpus(monkeypatch):
    topics = {"new": 30, "old": 20}
    monkeypatch.setattr(gate, "read_manifest", lambda path: SimpleNamespace(topics=topics[path]))
    asked = {}

    def open_within(paths, limit, threads, *, beside):
        asked.update(paths=paths, limit=limit, threads=threads, beside=beside)
        return ["models"], 3

    monkeypatch.setattr(gate, "open_within", open_within)
    corpus = SimpleNamespace(n_words=1000)
    assert gate.open_models(["new", "old"], corpus, 5, 4) == (["models"], 3)
    # 150 bytes a word, 32 a pair of topics
    assert asked == {
        "paths": ["new", "old"],
        "limit": 5,
        "threads": 4,
        "beside": 150 * 1000 + 32 * 600,
    }
    gate.open_models(["new"], corpus, 5, 4)
    assert asked["beside"] == 150 * 1000 + 32 * 900


def test_with_covariates_the_prior_of_all_documents_is_named(judge):
    with_own = model_of([10, 10], covariates="party")
    given = [(100.0, SAME), (100.0, SAME)]
    assert judge(with_own, FINE, given).prior == "all documents with the mean prior"
    assert judge(FINE, FINE, given).prior == ""
