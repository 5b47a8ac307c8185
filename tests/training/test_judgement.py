"""Warnings at the end of training: worse than the words' frequencies, alpha at its bound, topics
that are alike.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests import few_quick
from tests.listening import Listening
from tests.planted import draw, store
from topicstream.engines import engines, find
from topicstream.engines.base import Shape
from topicstream.training.course import (
    Course,
    topic_diversity,
    unigram_perplexity,
    warn_of_alpha_at_bound,
    warn_of_duplicate_topics,
    warn_of_low_diversity,
    warn_of_topics,
    warn_of_worse_than_unigram,
)
from topicstream.training.loop import train
from topicstream.training.stopping import Share


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
FEW = ("sparse-bp", "gs", "fdm")
"""Three ways to judge: messages, a sampler, moments."""


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
    fit_dirichlet = pytest.importorskip("topicstream.addons.moments.anchors").fit_dirichlet
    alpha = fit_dirichlet(0.49, np.full(topics, 1.0 / topics))
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


def test_three_tenths_of_diversity_are_enough():
    assert warn_of_low_diversity(0.3) == [] and len(warn_of_low_diversity(0.2999)) == 1
    assert warn_of_worse_than_unigram("running", 100.0, 100.0) == []
    assert len(warn_of_worse_than_unigram("running", float("inf"), 100.0)) == 1


@pytest.mark.parametrize(
    ("total", "warned"),
    [(0.1001, True), (0.1002, False), (49.94, False), (49.96, True), (50.0, True)],
)
def test_alpha_within_a_thousandth_of_a_bound_is_at_it(total, warned):
    about = SimpleNamespace(alpha_sum_bounds=(0.1, 50.0))
    engine = SimpleNamespace(about=about, options=SimpleNamespace(alpha=None))
    said = warn_of_alpha_at_bound(engine, {"alpha": np.full(5, total / 5)})
    assert bool(said) == warned
    if warned:
        assert f"its bound, {0.1 if total < 1 else 50:g} over" in said[0]


def test_identical_topics_are_counted_by_hand():
    """Distances 0.018 and 0.022; an empty topic is like none."""
    base = np.array([0.25, 0.25, 0.25, 0.25])
    near = base + 0.0045 * np.array([1, -1, 1, -1])
    far = base + 0.0055 * np.array([1, -1, -1, 1])
    other = np.array([0.7, 0.1, 0.1, 0.1])
    table = np.stack([base, near, other, far, base], axis=1).astype(np.float32)
    sizes = np.array([100.0, 50.0, 70.0, 20.0, 0.49])
    pieces = [(0, (table * sizes)[:1]), (1, (table * sizes)[1:])]
    [line] = warn_of_duplicate_topics(pieces, sizes, 5)
    assert line.startswith("1 pair of topics is the same")
    sizes[4] = 0.5
    pieces = [(0, table * sizes)]
    [line] = warn_of_duplicate_topics(pieces, sizes, 5)
    assert line.startswith("3 pairs of topics are the same")  # 0-1, 0-4, 1-4
    assert warn_of_duplicate_topics([(0, table[:, [0, 2]])], np.ones(2), 2) == []


def test_components_that_are_empty_or_tiny_are_counted():
    """Of 3 dimensions a component of 4 points has a shape of its own."""
    engine = SimpleNamespace(
        about=SimpleNamespace(topics_axis=None), shape=SimpleNamespace(words=3)
    )
    sizes = np.array([0.49, 0.5, 3.99, 4.0, 100.0])
    empty, tiny = warn_of_topics(engine, {}, {"sizes": sizes})
    assert empty.startswith("1 of 5 components are empty")
    assert tiny.startswith("2 of 5 components hold fewer than 4 points")
    assert warn_of_topics(engine, {}, {"sizes": sizes[3:]}) == []


def course_of(start="documents", algo="bp"):
    kind = find(algo)
    return Course(kind(Shape(100, 50, 900, 1e3, 4), kind.Options()), None, 1, start)


def test_a_random_start_has_twenty_passes():
    assert course_of("random").least == 20 and course_of().least == 5


def test_a_window_begins_behind_what_is_learned_late():
    course = course_of(algo="ovb")
    after = course._engine.phases[-1].settles_after
    assert after > 0
    # ten passes behind the last change of the objective, and ten to compare them with
    assert course.least == after + 20


def test_as_many_perplexities_stay_as_convergence_compares():
    course = course_of()
    for number in range(1, 30):
        course.add_perplexity(float(number))
    assert course.running == [float(n) for n in range(19, 30)]
    for number in range(30, 41):
        assert not course.converged(Share(0.001), number)
        course.add_perplexity(40.0)
    assert course.converged(Share(0.001), 41)
    course.clear()
    assert course.running == course.measured == []


def test_the_best_pass_is_the_first_of_the_lowest():
    course = course_of()
    assert course.best == 0
    course.measured = [(5, 90.0), (10, 80.0), (15, 80.0), (20, 85.0)]
    assert course.best == 10
    # twenty passes, none of which is ten behind the lowest: nothing decides before a measurement
    assert not course.converged(Share(0.01), 21)
    course.measured += [(25, 85.0)]
    assert course.converged(Share(0.01), 25)
    course.least = 26
    assert not course.converged(Share(0.01), 25)
