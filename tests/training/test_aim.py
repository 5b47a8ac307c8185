"""``--aim reading``: a background topic that keeps its alpha and takes the words which all
documents share.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import topicstream
from tests import few_quick
from tests.planted import store
from tests.retrain_tools import folder, made, write
from tests.training.test_starts import made_documents, word_counts, write_store
from tests.visits import pass_end
from topicstream.base.errors import DoesNotFit, TopicsError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run
from topicstream.engines.base import Shape, new_stats, padded
from topicstream.engines.message.priors import count_documents
from topicstream.engines.message.sparse_bp import SparseBeliefPropagation, SparseOptions
from topicstream.model.topic_model import TopicModel
from topicstream.training import setup
from topicstream.training.auto import choose
from topicstream.training.loop import train
from topicstream.training.starts.documents import document_seeds
from topicstream.training.starts.seeded import BackgroundSeeds

QUIET = Progress(-1)
SHARED = 30
OWN = 60
TOPICS = 5


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents of one of five subjects each, 60 words a subject, two fifths of every one from 30
    words that all share.
    """
    rng = np.random.default_rng(0)
    words = SHARED + TOPICS * OWN
    indptr = [0]
    ids = []
    counts = []
    for d in range(400):
        own = SHARED + d % TOPICS * OWN + rng.integers(0, OWN, 60)
        n = np.bincount(np.append(own, rng.integers(0, SHARED, 40)), minlength=words)
        ids.append(np.flatnonzero(n))
        counts.append(n[n > 0])
        indptr.append(indptr[-1] + len(ids[-1]))
    place = tmp_path_factory.mktemp("aim") / "corpus.zarr"
    return store(
        place, np.array(indptr), np.concatenate(ids).astype(np.int32), np.concatenate(counts), words
    )


def test_the_others_are_learned_beside_an_alpha_that_stays():
    rng = np.random.default_rng(3)
    alpha = np.array([0.8, 0.4, 0.2, 0.1, 3.0])
    lengths = rng.integers(40, 200, 3000)
    theta = np.array([rng.multinomial(n, rng.dirichlet(alpha)) for n in lengths])
    wide = np.zeros((len(theta), padded(5)), np.float32)
    wide[:, :5] = theta
    options = SparseOptions(
        learn_priors=True, alpha=0.1, beta=0.01, prior_reach=100.0, background=3.0
    )
    engine = SparseBeliefPropagation(Shape(len(theta), 100, 1000, float(lengths.sum()), 5), options)
    stats = new_stats(engine)
    params = engine.initial_params()
    count_documents(wide, 5, None, stats["topic_bins"], stats["length_bins"])
    for _ in range(5):
        found = engine.end_pass(pass_end(params, stats, {"phi": np.ones(16)}))
    assert params["alpha"][-1] == 3.0 and found["priors_held"] == 0
    np.testing.assert_allclose(params["alpha"], alpha, rtol=0.15)
    # the gradient of the likelihood of the others, from the counts themselves
    below = sum(sum(1 / (params["alpha"].sum() + i) for i in range(n)) for n in lengths)
    for a, column in zip(params["alpha"][:-1], theta.T):
        assert sum(sum(1 / (a + i) for i in range(n)) for n in column) == pytest.approx(
            below, rel=0.05
        )


def test_the_last_seed_topic_is_the_mean(tmp_path):
    documents = made_documents()
    there = write_store(tmp_path / "corpus.zarr", documents)
    n_w = word_counts(documents)
    inner = document_seeds(there, there.grid(), 5, 0, n_w)
    words = np.arange(len(n_w))
    plain = inner.rows(words)
    table = BackgroundSeeds(inner, 5, n_w).rows(words)
    np.testing.assert_allclose(table[:, 4], inner.totals[4] * n_w / n_w.sum(), rtol=1e-6)
    np.testing.assert_array_equal(table[:, :4], plain[:, :4])


@pytest.mark.parametrize("start", few_quick(["documents", "random", "best"], ["best"]))
def test_it_takes_the_words_that_all_documents_share(corpus, tmp_path, start):
    done = train(
        corpus,
        tmp_path / "m",
        aim="reading",
        topics=12,
        start=start,
        passes=40,
        tol=0.0,
        progress=QUIET,
    )
    model = TopicModel.open(done.model)
    shared = model.probabilities(np.arange(model.n_words))[:SHARED].sum(0)
    assert shared[-1] > 0.9 and model.sizes[-1] > 0.1 * model.sizes.sum()
    assert model.alpha[-1] == 5.0 and max(model.alpha[:-1]) < model.alpha[-1]


def test_what_is_chosen():
    long = Shape(1000, 5000, 100_000, 2e5, 100)
    notes = Shape(1000, 5000, 50_000, 6e4, 100)
    plain = choose(long, {})
    found = choose(long, {}, "reading")
    assert "background" not in plain.options and "a background topic (alpha 10)" in found.reason
    assert {**found.options, "background": None, "sparsity": 32} == {
        **plain.options,
        "background": None,
    }
    assert found.options["sparsity"] == 48
    # not most of a document of sixty words
    assert choose(notes, {}, "reading").options["background"] == 3.0
    own = {"background": 2.0, "sparsity": 16}
    assert own.items() <= choose(long, own, "reading").options.items()
    with pytest.raises(UsageError, match="two topics"):
        choose(Shape(10, 9, 50, 60, 1), {}, "reading")


def test_it_is_the_runs_own_and_needs_its_engine(corpus, tmp_path, capsys, monkeypatch):
    line = [
        "train",
        "--corpus",
        str(corpus),
        "--model",
        str(tmp_path / "m"),
        "-K",
        "6",
        "--tol",
        "0",
        "--passes",
    ]
    assert run([*line, "1", "--aim", "reading"]) == 0 == run([*line, "2", "--aim", "reading"])
    record = json.loads((tmp_path / "m/training.json").read_text())
    assert record["aim"] == "reading" and record["options"]["background"] == 5.0
    assert run([*line, "3"]) == 1 and "--aim reading -> prediction" in capsys.readouterr().err
    for algo in ("sparse-bp", "gs"):
        assert (
            run([*line, "1", "--aim", "reading", "--algo", algo]) == 2
            and "--background" in capsys.readouterr().err
        )
    with pytest.raises(UsageError, match="two topics"):
        train(
            corpus,
            tmp_path / "one",
            algo="sparse-bp",
            topics=1,
            options={"background": 1.0},
            progress=QUIET,
        )

    def plan(*args, **named):
        raise DoesNotFit("too large")

    monkeypatch.setattr(setup, "make_plan", plan)  # no other engine has one
    with pytest.raises(TopicsError, match="too large"):
        train(corpus, tmp_path / "n", aim="reading", topics=6, mem_limit="2G", progress=QUIET)


def long(n, **named):
    """Return documents that messages learn from, twice as long as those that are sampled."""
    return [{**d, "text": f"{d['text']} {d['text']}"} for d in made(n, **named)]


@pytest.mark.slow
def test_a_cycle_trains_for_it_and_an_update_keeps_it(tmp_path):
    config = folder(tmp_path)
    config.write_text(config.read_text().replace("[train]\n", '[train]\naim = "reading"\n'))
    write(tmp_path / "raw" / "a.jsonl", long(300, seed=1))
    kept = []
    for name, seed in (("a2", 2), ("a3", 3)):
        done = topicstream.retrain(config, stream=io.StringIO())
        model = TopicModel.open(tmp_path / "current")
        kept.append(
            (done["training"], model.manifest.options["background"], float(model.alpha[-1]))
        )
        write(tmp_path / "raw" / f"{name}.jsonl", long(80, seed=seed, prefix=name))
    assert (
        [k[0] for k in kept] == ["fresh", "warm"]
        and kept[0][1:] == kept[1][1:]
        and kept[0][1] == kept[0][2] > 0
    )
