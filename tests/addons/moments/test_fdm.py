"""The full dependence mixture: EM against the paper's equations, symmetry, monotone, planted
topics.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import linear_sum_assignment

from tests.addons.moments.test_anchors import dense
from tests.planted import draw, store
from tests.reference.dense_anchors import cooccurrence
from tests.reference.fdm import em_step
from topicstream import ingest
from topicstream.addons.moments.scorer import pair_entropy, second_moment
from topicstream.addons.moments.view import PairsView
from topicstream.base.errors import InputError
from topicstream.base.memory import MemoryLimit
from topicstream.cli.main import topics
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train

TOPICS = 5
WORDS = 120


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Documents from known topics, one without words and one of a single word among them."""
    phi, indptr, words, counts = draw(docs=500, words=WORDS, topics=TOPICS, length=60, seed=3)
    indptr = np.concatenate((indptr, indptr[-1:], indptr[-1:] + 1))
    words = np.append(words, np.int32(7))
    counts = np.append(counts, 1)
    return phi, store(tmp_path_factory.mktemp("fdm") / "c.zarr", indptr, words, counts, WORDS)


def run(path, folder, **given):
    settings = {
        "topics": TOPICS,
        "passes": 10,
        "tol": 0.0,
        "threads": 1,
        "block_cells": 3000,
        "progress": False,
    }
    done = train(path, folder, algo="fdm", **{**settings, **given})
    return TopicModel.open(folder), done


def parts(model):
    phi = model.rows(np.arange(model.n_words)).astype(float)
    a = model.table("pairs").gather(np.arange(model.n_topics)).astype(float)
    return (phi / phi.sum(0)).T, a / a.sum()


def distance(model, phi):
    cost = np.abs(phi[:, None] - parts(model)[0][None]).sum(2)
    return cost[linear_sum_assignment(cost)]


def entropies(folder):
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [r["objective"]["cross-entropy"] for r in history if r["pass"]]


@pytest.mark.parametrize("start", ["random", "documents"])
def test_em_is_that_of_the_whole_matrix(start, planted, tmp_path):
    m = cooccurrence(dense(planted[1]))
    given = {"start": start, "options": {"pairs": 0}}
    before = parts(run(planted[1], tmp_path / "m", passes=3, **given)[0])
    model, done = run(planted[1], tmp_path / "m", passes=4, **given)
    mu, a, entropy = em_step(m, *before)
    np.testing.assert_allclose(parts(model)[0], mu, atol=2e-6)
    np.testing.assert_allclose(parts(model)[1], a, atol=2e-6)
    assert done.last["objective"]["cross-entropy"] == pytest.approx(entropy, abs=1e-5)
    assert model.totals.sum() == pytest.approx(dense(planted[1]).sum(), rel=1e-5)


def test_a_is_symmetric_and_the_cross_entropy_never_rises(planted, tmp_path):
    for limit in (0, 300):  # all pairs, and a sample that stays the same
        folder = tmp_path / f"m{limit}"
        model, _ = run(planted[1], folder, passes=40, start="random", options={"pairs": limit})
        a = parts(model)[1]
        assert (a == a.T).all()
        found = np.array(entropies(folder))
        assert (np.diff(found) <= 1e-6).all() and found[-1] < found[0] - 0.2


def test_planted_topics_are_found_from_anchors(planted, tmp_path):
    found = []
    for seed in range(2):
        model, _ = run(planted[1], tmp_path / f"m{seed}", seed=seed, passes=5)
        found.append(distance(model, planted[0]))
    assert np.max(found) < 0.5, found


def test_topics_from_documents(planted, tmp_path):
    found = []
    for seed in range(4):  # a start may merge two topics
        model, _ = run(planted[1], tmp_path / f"m{seed}", seed=seed, passes=60, start="random")
        found.append(distance(model, planted[0]).mean())
        if found[-1] < 0.4:
            break
    assert min(found) < 0.4, found


def test_more_topics_than_the_rank(planted, tmp_path):
    model, _ = run(planted[1], tmp_path / "m", topics=20, passes=5, start="random")
    assert np.isfinite(model.totals).all() and np.isfinite(model.alpha).all()


def test_documents_of_one_word_are_refused(tmp_path):
    short = store(
        tmp_path / "s.zarr", np.arange(6), np.arange(5, dtype=np.int32), np.ones(5, np.int64), 5
    )
    with pytest.raises(InputError, match="no document has two or more words"):
        run(short, tmp_path / "s", topics=2, start="random")


def test_eval_scores_pairs_of_any_model(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = np.stack(
        [
            rng.multinomial(30, p)
            for p in rng.dirichlet(np.full(4, 0.3), 200) @ rng.dirichlet(np.full(25, 0.3), 4)
        ]
    )
    ingest(
        x, tmp_path / "c.zarr", vocabulary=[f"w{v}" for v in range(25)], heldout=50, progress=False
    )
    for algo, by in (("fdm", "as learned"), ("sparse-bp", "of a Dirichlet of its alpha")):
        train(tmp_path / "c.zarr", tmp_path / algo, algo=algo, topics=4, passes=3, progress=False)
        found = evaluate(tmp_path / algo, tmp_path / "c.zarr", pairs=True, progress=False)["pairs"]
        model = TopicModel.open(tmp_path / algo)
        mu = model.probabilities(np.arange(model.n_words)).astype(float)
        a = parts(model)[1] if algo == "fdm" else second_moment(model.alpha)
        assert a.sum() == pytest.approx(1)
        loss = 0.0
        n = 0
        whole = 0.0
        for block in Corpus.open(tmp_path / "c.zarr").blocks(heldout=True):
            for d in range(block.n_docs):
                c = np.zeros(model.n_words)
                at = slice(block.indptr[d], block.indptr[d + 1])
                c[block.vocab[block.words[at]]] = block.counts[at]
                m = (np.outer(c, c) - np.diag(c)) / (c.sum() * (c.sum() - 1))
                loss -= (m * np.log(mu @ a @ mu.T)).sum()
                whole = whole + m
                n = n + 1
        assert (found["documents"], n) == (50, 50) and found["cross_entropy"] == pytest.approx(
            loss / n, abs=1e-5
        )
        m = whole[whole > 0] / n
        assert found["kl"] == pytest.approx(loss / n + (m * np.log(m)).sum(), abs=1e-5)
        monkeypatch.setattr(
            "topicstream.addons.moments.scorer.STRIPE", 8 * 25 * 7
        )  # stripes of 7 rows
        assert pair_entropy(
            model, Corpus.open(tmp_path / "c.zarr"), smooth=True
        ).kl == pytest.approx(found["kl"], abs=1e-9)
        limit = MemoryLimit(8 * model.n_words**2 - 1)
        monkeypatch.setattr(MemoryLimit, "parse", lambda given, limit=limit: limit)
        assert pair_entropy(model, Corpus.open(tmp_path / "c.zarr")).kl is None
        monkeypatch.undo()
        given = [
            "eval",
            "--model",
            str(tmp_path / algo),
            "--corpus",
            str(tmp_path / "c.zarr"),
            "--pairs",
        ]
        done = CliRunner().invoke(topics, given)
        assert done.exit_code == 0 and by in done.output and "nats a pair" in done.output


def test_pairs_are_shown_and_scored(planted, tmp_path):
    model, _ = run(planted[1], tmp_path / "m", passes=5, options={"pairs": 0})
    found = PairsView(tmp_path / "m", words=3).result()
    mu, a = parts(model)
    assert found["apart"] == pytest.approx(1 - np.trace(a), abs=1e-6)
    q = a - np.diag(np.diag(a))
    q /= q.sum()
    chance = np.outer(q.sum(0), q.sum(0)) * (1 - np.eye(len(q)))
    chance /= chance.sum()
    for pair in found["pairs"]:
        k, j = (t["topic"] for t in pair["topics"])
        assert pair["share"] == pytest.approx(2 * a[k, j], rel=1e-4)
        assert pair["lift"] == pytest.approx(q[k, j] / chance[k, j], rel=1e-4)
    assert len(PairsView().lines(found, None)) == 4
    done = CliRunner().invoke(
        topics, ["show", "--model", str(tmp_path / "m"), "--pairs", "-n", "2"]
    )
    assert done.exit_code == 0 and len(done.output.splitlines()) == 3
    scored = pair_entropy(TopicModel.open(tmp_path / "m"), Corpus.open(planted[1]), heldout=False)
    assert scored.cross_entropy == pytest.approx(
        em_step(cooccurrence(dense(planted[1])), mu, a)[2], abs=1e-4
    )
    train(planted[1], tmp_path / "other", algo="anchors", topics=TOPICS, progress=False)
    with pytest.raises(InputError, match="no matrix of topic pairs"):
        PairsView(tmp_path / "other").result()
