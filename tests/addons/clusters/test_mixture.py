"""``--algo mixture``: against its dense twin, the bound, planted clusters, and what the commands
say of such a model.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import few_quick
from tests.planted import store
from tests.reference import mixture as twin
from topicstream.addons.clusters.clusters import respond
from topicstream.base.errors import TopicsError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.cli.main import run as command
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.evaluate import evaluate
from topicstream.inference.infer import infer
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.starts.documents import document_seeds

# tests of what the core and an add-on do together
measure_agreement = pytest.importorskip("topicstream.addons.labels.agreement").measure_agreement

QUIET = Progress(-1)
WORDS = 90
CLUSTERS = 4


def documents(seed, docs=300, length=30, words=WORDS, clusters=CLUSTERS):
    """(counts [D, W], the cluster of each), one document of one token among them."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.2), clusters)
    z = rng.choice(clusters, docs, p=np.arange(1, clusters + 1) / (clusters * (clusters + 1) / 2))
    x = np.stack(
        [rng.multinomial(1 if d == 3 else rng.poisson(length) + 1, phi[k]) for d, k in enumerate(z)]
    )
    return x, z


def stored(path, x, labels=None, heldout=0):
    d, w = np.nonzero(x)
    indptr = np.searchsorted(d, np.arange(len(x) + 1))
    lists = {"labels": [[f"c{k}"] for k in labels]} if labels is not None else None
    return store(
        path, indptr, w.astype(np.int32), x[d, w], x.shape[1], heldout=heldout, lists=lists
    )


def run(corpus, model, clusters=CLUSTERS, passes=5, **options):
    given = {
        "block_cells": 1200,
        "round_blocks": 2,
        "threads": 1,
        "tol": 0,
        "seed": 1,
        "progress": QUIET,
    }
    own = {k: options.pop(k) for k in list(options) if k in given or k == "start"}
    train(
        corpus,
        model,
        algo="mixture",
        topics=clusters,
        passes=passes,
        options=options,
        **{**given, **own},
    )
    history = [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()]
    opened = TopicModel.open(model)
    return (
        opened,
        opened.probabilities(np.arange(opened.n_words)),
        [h for h in history if h["pass"]],
    )


@pytest.mark.parametrize("most", few_quick([1, 2, 4], [2]))
def test_a_memoized_run_is_its_twin(most, tmp_path):
    x, _ = documents(0, length=60)
    path = stored(tmp_path / "c", x)
    corpus = Corpus.open(path)
    grid = corpus.grid(1200, 1 << 16)
    edges = [*grid.first_doc.tolist(), len(x)]
    assert len(edges) > 5
    opened, phi, history = run(path, tmp_path / "m", passes=6, sparsity=most, tries=1)
    n_w = x.sum(0).astype(float)
    table = (
        document_seeds(corpus, grid, CLUSTERS, 1, n_w, far=True)
        .rows(np.arange(WORDS))[:, :CLUSTERS]
        .astype(float)
    )
    table += 0.01 * table.sum() / (CLUSTERS * WORDS)
    model = twin.Memoized(
        x.astype(float), twin.top(x @ np.log(table / table.sum(0)), most), 10 / CLUSTERS, 0.1, most
    )
    bounds = [model.lap(edges, 2) for _ in range(6)]
    np.testing.assert_allclose([h["bound"] for h in history], bounds, rtol=1e-7)
    expected = (model.words + 0.1) / (model.words + 0.1).sum(0)
    np.testing.assert_allclose(phi, expected, rtol=2e-4, atol=1e-7)
    np.testing.assert_allclose(opened.cluster_sizes, model.sizes, rtol=1e-5)


@pytest.mark.parametrize("most", few_quick([1, 3, 8], [3]))
def test_the_bound_never_falls_and_sizes_sum_to_the_documents(most, tmp_path):
    x, _ = documents(5, docs=600, words=300, clusters=6)
    path = stored(tmp_path / "c", x)
    opened, _, history = run(path, tmp_path / "m", clusters=8, passes=25, sparsity=most)
    bounds = np.array([h["bound"] for h in history])
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert opened.cluster_sizes.sum() == pytest.approx(600, rel=1e-6)


def test_a_stochastic_step_is_its_twin(tmp_path):
    x, _ = documents(2, docs=8)  # one step a pass: all documents
    path = stored(tmp_path / "c", x)
    opened, phi, _ = run(
        path,
        tmp_path / "m",
        passes=1,
        tries=1,
        schedule="stochastic",
        block_docs=8,
        sparsity=4,
        round_blocks=8,
    )
    corpus = Corpus.open(path)
    n_w = x.sum(0).astype(float)
    seeds = document_seeds(corpus, corpus.grid(1200, 1), CLUSTERS, 1, n_w, far=True)
    table = seeds.rows(np.arange(WORDS))[:, :CLUSTERS]
    table = table.astype(float) * (x.sum() / table.sum())
    words, sizes = twin.blended(
        table, np.zeros(CLUSTERS), x.astype(float), 10 / CLUSTERS, 0.1, 4, 10.0**-0.55, len(x)
    )
    np.testing.assert_allclose(phi, (words + 0.1) / (words + 0.1).sum(0), rtol=1e-4)
    np.testing.assert_allclose(opened.cluster_sizes, sizes, rtol=1e-5)


def test_one_responsibility_is_a_hard_assignment_and_all_are_the_softmax():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, (50, 7))
    there = np.ones(50, bool)
    for most in (1, 3, 7):
        cluster = np.empty((50, most), np.uint16)
        share = np.empty((50, most), np.float32)
        respond(scores, there, 7, most, cluster, share)
        r = np.zeros((50, 7))
        np.put_along_axis(r, cluster.astype(int), share, 1)
        np.testing.assert_allclose(r, twin.top(scores, most), atol=1e-7)


@pytest.mark.product
def test_planted_clusters_are_found_over_seeds(tmp_path):
    found = []
    for seed in range(3):
        x, z = documents(10 + seed, docs=400, length=40)
        path = stored(tmp_path / f"c{seed}", x, z)
        run(path, tmp_path / f"m{seed}", passes=15, sparsity=2, seed=seed)
        result = evaluate(tmp_path / f"m{seed}", path, labels=True, progress=QUIET)["labels"]
        assert result["docs"] == 400
        found.append(result["nmi"])
    assert min(found) > 0.9, found


def test_more_clusters_than_documents_and_documents_that_are_alike(tmp_path):
    x = np.tile(documents(1, docs=1)[0], (3, 1))
    opened, _, history = run(stored(tmp_path / "c", x), tmp_path / "m", clusters=9, passes=3)
    assert opened.cluster_sizes.sum() == pytest.approx(3, rel=1e-5)
    assert history[-1]["empty"] >= 6


def test_what_the_commands_say(tmp_path, capsys):
    x, z = documents(4, docs=320)
    path = stored(tmp_path / "c", x, z, heldout=40)
    opened, phi, _ = run(path, tmp_path / "m", passes=10)
    answers = infer(tmp_path / "m", Corpus.open(path), top=1, progress=False).to_pydict()
    pi = opened.cluster_sizes + opened.alpha
    logs = np.log(pi / pi.sum()) + x @ np.log(phi)
    assert [t[0] for t in answers["topics"]] == logs.argmax(1).tolist()
    result = evaluate(tmp_path / "m", path, heldout=True, labels=True, progress=QUIET)
    expected = -np.logaddexp.reduce(logs[280:], axis=1).mean()
    assert result["heldout"]["nats_per_point"] == pytest.approx(expected, rel=1e-6)
    assert result["labels"]["docs"] == 40
    with pytest.raises(UsageError, match="model of clusters"):
        evaluate(tmp_path / "m", path, links=True, progress=QUIET)
    assert command(["show", "--model", str(tmp_path / "m"), "--corpus", str(path)]) == 0
    assert "documents" in capsys.readouterr().out.splitlines()[0]
    with pytest.raises(TopicsError, match="does not learn its priors"):
        run(path, tmp_path / "n", learn_priors=True)


def test_agreement_of_partitions():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 500)
    b = rng.integers(0, 5, 500)
    b[:250] = a[:250]
    table = np.zeros((4, 5))
    np.add.at(table, (a, b), 1)
    metrics = pytest.importorskip("sklearn.metrics")
    expected = metrics.normalized_mutual_info_score(a, b), metrics.adjusted_rand_score(a, b)
    np.testing.assert_allclose(measure_agreement(table), expected, rtol=1e-10)


def test_documents_set_aside_are_judged_while_it_trains(tmp_path):
    x, z = documents(6, docs=320)
    path = stored(tmp_path / "c", x, z, heldout=40)
    for options in ({}, {"schedule": "stochastic", "block_docs": 64}):
        given = {
            "topics": 3,
            "passes": 2,
            "seed": 1,
            "eval_every": 2,
            "tol": 0,
            "threads": 1,
            "force": True,
        }
        train(path, tmp_path / "m", algo="mixture", options=options, progress=QUIET, **given)
        last = json.loads((tmp_path / "m" / "history.jsonl").read_text().splitlines()[-1])
        whole = evaluate(tmp_path / "m", path, heldout=True, progress=QUIET)["heldout"]
        assert last["heldout_perplexity"] == pytest.approx(whole["perplexity"], rel=1e-4)
        assert last["heldout"]["nats a point"] == pytest.approx(-whole["nats_per_point"], rel=1e-4)
