"""Warnings at the end of training: worse than the words' frequencies, alpha at its bound, topics
that are alike.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests import few_quick
from tests.listening import Listening
from tests.planted import draw, store
from topicstream.engines import engines
from topicstream.engines.base import Shape
from topicstream.training.course import (
    topic_diversity,
    unigram_perplexity,
    warn_of_alpha_at_bound,
    warn_of_worse_than_unigram,
)
from topicstream.training.loop import train


def warnings_of(corpus, model, algo, **given):
    told = Listening()
    train(corpus, model, algo=algo, threads=1, seed=1, progress=told, **given)
    return [line for line in told.said if line.startswith("warning")]


@pytest.fixture
def same_words(tmp_path):
    """Documents that all draw from one distribution: there are no topics to find."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(400, 0.3))
    x = rng.multinomial(3000, p, 100)
    indptr = np.append(0, np.cumsum((x > 0).sum(1)))
    return store(tmp_path / "same.zarr", indptr, np.nonzero(x)[1].astype(np.int32), x[x > 0], 400)


def test_topics_that_are_alike_are_told(same_words, tmp_path):
    said = warnings_of(same_words, tmp_path / "m", "bp", topics=20, passes=1)
    assert any("topic diversity is 0." in line and "lower -K" in line for line in said)


def test_a_good_model_has_no_warning(tmp_path):
    _, *documents = draw(800, 400, 5, 60, 1)
    path = store(tmp_path / "c.zarr", *documents, 400)
    said = warnings_of(path, tmp_path / "m", "sparse-bp", topics=5, passes=30)
    assert not any("perplexity" in line or "diversity" in line for line in said)


@pytest.fixture(scope="module")
def few_topics(tmp_path_factory):
    """Documents of three topics, the last fifty set aside."""
    _, *documents = draw(400, 300, 3, 60, 1)
    return store(tmp_path_factory.mktemp("few") / "c.zarr", *documents, 300, heldout=50)


ON_WORDS = sorted(
    name
    for name, kind in engines().items()
    if kind.about.completion and not kind.about.dense and not kind.about.axes
)
FEW = ("sparse-bp", "gs", "ovb", "fdm")
"""One of each way to judge: messages, a sampler, a bound, moments."""


@pytest.mark.parametrize("name", few_quick(ON_WORDS, FEW))
def test_every_engine_tells_that_words_alone_predict_better(name, few_topics, tmp_path):
    """A prior of a hundred tokens a word drowns what the documents say: all topics are nearly
    uniform.
    """
    topics = (
        20 if name == "fdm" else 3
    )  # judged on documents set aside, beside frequencies that are smoothed as much
    # small blocks: a stochastic engine is judged after its first 200 steps and twenty passes
    stochastic = name in ("ovb", "svi")
    options = {"beta": 100.0} | ({"block_docs": 16} if stochastic else {})
    passes = 35 if stochastic else 25
    said = warnings_of(
        few_topics, tmp_path / "m", name, topics=topics, passes=passes, tol=0.0, options=options
    )
    assert any("is worse than that of the words' frequencies alone" in line for line in said), said


@pytest.mark.parametrize("name", few_quick(ON_WORDS, FEW))
def test_every_engine_tells_that_topics_are_alike(name, same_words, tmp_path):
    said = warnings_of(same_words, tmp_path / "m", name, topics=40, passes=1)
    assert any("topic diversity is 0." in line or "topics are dead" in line for line in said)


def test_perplexity_beside_the_words_frequencies():
    assert unigram_perplexity(np.array([2.0, 2.0, 0.0, 2.0, 2.0])) == pytest.approx(4.0)
    assert warn_of_worse_than_unigram("held-out", 90.0, 100.0) == []
    assert "the held-out perplexity, 110" in warn_of_worse_than_unigram("held-out", 110.0, 100.0)[0]


def test_alpha_at_its_bound():
    AnchorOptions = pytest.importorskip("topicstream.addons.moments.anchors").AnchorOptions
    Anchors = pytest.importorskip("topicstream.addons.moments.anchors").Anchors
    shape = Shape(1000, 500, 20_000, 30_000.0, 4)
    for alpha, warned in ((25.0, 1), (0.02, 1), (0.3, 0)):
        engine = Anchors(shape, AnchorOptions())
        assert len(warn_of_alpha_at_bound(engine, {"alpha": np.full(4, alpha)})) == warned
    assert (
        warn_of_alpha_at_bound(
            Anchors(shape, AnchorOptions(alpha=25.0)), {"alpha": np.full(4, 25.0)}
        )
        == []
    )


@pytest.mark.parametrize("topics", [20, 100, 500])
def test_alpha_of_a_healthy_corpus_is_at_no_bound_however_many_topics_there_are(topics):
    """Tokens of a document that are of one topic half of the time, as on 3,000 articles of
    Wikipedia at K = 20 to 100.
    """
    AnchorOptions = pytest.importorskip("topicstream.addons.moments.anchors").AnchorOptions
    Anchors = pytest.importorskip("topicstream.addons.moments.anchors").Anchors
    dirichlet_of = pytest.importorskip("topicstream.addons.moments.anchors").dirichlet_of
    alpha = dirichlet_of(0.49, np.full(topics, 1.0 / topics))
    assert 0.9 < alpha.sum() < 1.1
    assert (
        warn_of_alpha_at_bound(
            Anchors(Shape(1000, 5000, 20_000, 30_000.0, topics), AnchorOptions()), {"alpha": alpha}
        )
        == []
    )


def test_diversity_is_the_share_of_distinct_top_words():
    rows = np.zeros((40, 2), np.float32)
    rows[:10, 0] = 1.0
    rows[5:15, 1] = 1.0
    pieces = [(0, rows[:7]), (7, rows[7:])]
    assert topic_diversity(pieces, 2, 40) == pytest.approx(15 / 20)
    assert topic_diversity([(0, rows[:3] * 0 + 1)], 2, 3) == 1.0  # there are no more words
