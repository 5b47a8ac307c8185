"""Anchor words: streamed products against the dense matrix, the word problems against another
solver, planted anchors.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from checkpoint_bits import content_hash
from scipy.optimize import linear_sum_assignment

from tests import DATA, few_quick
from tests.listening import Listening
from tests.planted import store
from tests.reference.dense_anchors import anchors_of, cooccurrence, topics_of
from topicstream.addons.moments import cooccurrence as co
from topicstream.addons.moments import geometry as picking
from topicstream.addons.moments.anchors import (
    PROJECTION,
    AnchorOptions,
    Anchors,
    estimate_apart,
    fit_dirichlet,
)
from topicstream.addons.moments.geometry import simplex_weights
from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.display.show import show, topic_lines
from topicstream.engines.base import Shape
from topicstream.evaluation.evaluate import evaluate
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.update import train_on
from topicstream.training.loop import train
from topicstream.training.state.checkpoint import list_checkpoints

KOS = DATA / "kos/docword.txt.gz"


def dense(path):
    """Counts float64[D, W] of the training documents."""
    corpus = Corpus.open(path)
    x = np.zeros((sum(b.docs for b in corpus.part().blocks), corpus.n_words))
    for block in corpus.blocks():
        doc = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        x[block.first_doc + doc, block.vocab[block.words]] = block.counts
    return x


def least_tokens(x):
    """Tokens of a document that takes part, by default."""
    return min(20.0, x.sum() / len(x) / 2)


def weighed(x):
    """The co-occurrences as ``anchors`` weighs documents by default."""
    return cooccurrence(x, by_length=True, least=least_tokens(x))


def planted(path, seed, words=150, topics=6, docs=800):
    """Topics each with a word of its own; documents of 0 and 1 words among them, and a word that
    stands twice.
    """
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(words, 0.1), topics)
    phi[:, :topics] = 0.0
    phi[np.arange(topics), np.arange(topics)] = 0.1
    phi[:, -1] = phi[:, -2]  # the same word under two names
    phi /= phi.sum(1, keepdims=True)
    indptr = [0]
    ids = []
    counts = []
    for d in range(docs):
        length = d if d < 3 else rng.poisson(40)
        drawn = rng.multinomial(length, rng.dirichlet(np.full(topics, 0.3)) @ phi)
        ids.append(np.flatnonzero(drawn))
        counts.append(drawn[ids[-1]])
        indptr.append(indptr[-1] + len(ids[-1]))
    every = np.concatenate(ids).astype(np.int32), np.concatenate(counts)
    return phi, store(path, np.array(indptr), *every, words)


def run(corpus, model, topics, options=None, **given):
    told = Listening()
    settings = {
        "topics": topics,
        "threads": 1,
        "seed": 1,
        "progress": told,
        "options": {"refine": 0} | (options or {}),
    }
    train(corpus, model, algo="anchors", **{**settings, **given})
    return TopicModel.open(model), told.said


def shown_param(model, name):
    return model.table(name).gather(np.arange(1))[0]


def table_of(folder, name, columns, dtype):
    raw = np.fromfile(list_checkpoints(folder / "checkpoints")[-1] / f"{name}.rows", dtype)
    return raw.reshape(-1, -(-columns // 16) * 16)[:, :columns]


def check_against_dense(path, folder, topics, every=1, **given):
    """Streamed sums are the dense products, the anchors those of the same rows, the topics those of
    another solver.
    """
    model, _ = run(path, folder, topics, **given)
    x = dense(path)
    m = weighed(x)
    words = x.shape[1]
    part = x.sum(1) >= least_tokens(x)
    n = int(part.sum())
    drawn = co.draw_signs(1, np.arange(words, dtype=np.int32), PROJECTION)
    signs = np.zeros((words, PROJECTION))
    signs[np.arange(words)[:, None], drawn.column] = drawn.value
    assert (np.abs(signs).sum(1) == PROJECTION // co.SIGNS).all()
    counted = table_of(folder, "counted", 3, np.float64)
    np.testing.assert_allclose(counted[:, 0] / n, m.sum(1), rtol=1e-5)
    assert (counted[:, 1] == (x[part] > 0).sum(0)).all()
    docs = len(x)
    candidates = np.flatnonzero(counted[:, 1] >= int(max(2, docs * min(1 / topics, 0.05))))
    assert counted[candidates, 2].tolist() == list(range(len(candidates))) and (
        counted[:, 2] >= 0
    ).sum() == len(candidates)
    got = table_of(folder, "projected", PROJECTION, np.float32)
    expected = (m @ signs)[candidates]
    np.testing.assert_allclose(
        got[: len(candidates)] / n, expected, atol=1e-5 * np.abs(expected).max()
    )
    assert not got[len(candidates) :].any()

    anchors = shown_param(model, "anchors").astype(int)
    rows = got[: len(candidates)] / counted[candidates, :1]
    assert (
        anchors.tolist()
        == candidates[anchors_of(rows, np.arange(len(candidates)), topics)].tolist()
    )

    some = np.unique(np.append(np.arange(0, words, every), anchors))
    mine = model.rows(np.arange(words)).astype(float)
    theirs = topics_of(m, anchors, some)
    joint = np.where(theirs.sum(1, keepdims=True) > 0, m.sum(1)[some, None] * theirs, 0.0)
    sizes = mine.sum(0) / mine.sum()
    np.testing.assert_allclose(mine[some] / mine.sum(0), joint / sizes / m.sum(), atol=1e-6)


def test_streamed_sums_and_topics_are_those_of_the_dense_matrix(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    check_against_dense(path, tmp_path / "m", 6, block_cells=2000, round_blocks=2)


@pytest.mark.campaign
@pytest.mark.skipif(not KOS.exists(), reason="data not there")
def test_the_same_on_kos(tmp_path):
    import topicstream

    topicstream.ingest(str(KOS), tmp_path / "c.zarr", stopwords="none", workers=1)
    check_against_dense(tmp_path / "c.zarr", tmp_path / "m", 30, every=200)


@pytest.mark.parametrize("seed", few_quick(range(3), [0]))
def test_planted_anchors_are_found(seed, tmp_path):
    phi, path = planted(tmp_path / "c.zarr", seed, docs=3000)
    model, said = run(path, tmp_path / "m", 6)
    owner = phi[:, shown_param(model, "anchors").astype(int)]
    owner = owner / owner.sum(0)
    assert owner.max(0).min() > 0.85 and sorted(owner.argmax(0)) == list(
        range(6)
    )  # each of another topic, nearly its own
    learned = model.rows(np.arange(model.n_words)).astype(float)
    learned = (learned / learned.sum(0)).T
    cost = np.abs(phi[:, None] - learned[None]).sum(2)
    assert cost[linear_sum_assignment(cost)].max() < 0.25
    assert 0.6 < model.alpha.sum() / (6 * 0.3) < 1.6  # the documents' own Dirichlet
    assert any("each chosen at a distance of" in line for line in said)
    assert not any("warning" in line for line in said)


def em_pass(x, phi, alpha, beta=0.01, sweeps=20, tol=0.01):
    """Topics [W, K] after one pass of EM over counts [D, W], each document's topics folded in from
    the even spread.
    """
    weights = (phi + beta) / (phi.sum(0) + len(phi) * beta)
    lengths = x.sum(1)
    new = np.zeros_like(phi)
    for cells, length in zip(x[lengths > 0], lengths[lengths > 0], strict=True):
        theta = np.full(phi.shape[1], length / phi.shape[1])
        for _ in range(sweeps):
            eta = weights * (theta + alpha)
            before = theta
            theta = (cells / eta.sum(1)) @ eta
            if np.abs(theta - before).sum() <= tol * length:
                break
        eta = weights * (theta + alpha)
        new += (cells / eta.sum(1))[:, None] * eta
    return new


def test_refining_is_em_over_the_documents(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    plain, _ = run(path, tmp_path / "plain", 6)
    words = np.arange(150)
    x = dense(path)
    alpha = np.asarray(plain.alpha, float)
    expected = plain.rows(words).astype(float)
    for passes, folder in ((1, tmp_path / "one"), (2, tmp_path / "two")):
        model, _ = run(path, folder, 6, options={"refine": passes})
        expected = em_pass(x, expected, alpha)
        np.testing.assert_allclose(
            model.rows(words), expected, atol=0.02 * expected.max(0).min(), rtol=0.02
        )
        assert model.totals.sum() == pytest.approx(x.sum(), rel=1e-5)


def test_refining_by_default_predicts_better_and_tells_its_perplexity(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    scores = []
    for folder, options in (
        (tmp_path / "plain", {}),
        (tmp_path / "fine", {"refine": AnchorOptions().refine}),
    ):
        run(path, folder, 6, options=options)
        scores.append(
            evaluate(folder, path, training=True, progress=False)["training"]["perplexity"]
        )
    assert AnchorOptions().refine == 3 and scores[1] < scores[0]
    history = [
        json.loads(line) for line in (tmp_path / "fine" / "history.jsonl").read_text().splitlines()
    ]
    assert [row["running_perplexity"] is not None for row in history[-7:]] == [False] * 4 + [
        True
    ] * 3


def test_many_distances_are_told_by_their_ends():
    said = picking.describe_picks(picking.Picked(np.arange(100), np.linspace(1, 0.2, 100)), 500)[0]
    assert (
        said.startswith("100 anchor words of 500 candidates")
        and said.endswith("0.208 0.2")
        and said.count(" 0.") == 29
        and " ... " in said
    )


def test_more_topics_than_the_rank_are_told(tmp_path):
    rng = np.random.default_rng(1)
    phi = rng.dirichlet(np.full(60, 0.2), 2)
    x = np.array([rng.multinomial(4000, phi[d % 2]) for d in range(120)])
    indptr = np.append(0, np.cumsum((x > 0).sum(1)))
    path = store(tmp_path / "c.zarr", indptr, np.nonzero(x)[1].astype(np.int32), x[x > 0], 60)
    model, said = run(path, tmp_path / "m", 8)
    assert any("they are noise" in line for line in said)
    assert model.totals.sum() == pytest.approx(x.sum(), rel=1e-5)


def test_identical_rows_leave_the_weights_sound():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(30), 5)
    rows[4] = rows[3]
    target = rng.dirichlet(np.ones(30), 50)
    c = np.empty((50, 5))
    none = np.full(50, -1)
    assert simplex_weights(rows @ rows.T, target @ rows.T, none, c) == 0
    assert c.min() >= 0 and np.allclose(c.sum(1), 1)
    best = np.empty((50, 4))
    simplex_weights(rows[:4] @ rows[:4].T, target @ rows[:4].T, none, best)
    assert np.allclose(c @ rows, best @ rows[:4])


def test_a_word_of_many_anchors_lies_at_the_minimum():
    """Anchors enter one by one and some leave again: at the end no weight can be moved to a better
    anchor.
    """
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(900, 0.05), 150)
    gram = rows @ rows.T
    target = 0.8 * rng.dirichlet(np.full(150, 0.4), 20) @ rows + 0.2 * rng.dirichlet(
        np.full(900, 0.05), 20
    )
    c = np.empty((20, 150))
    assert simplex_weights(gram, target @ rows.T, np.full(20, -1), c) == 0
    assert (c > 0).sum(1).min() > 40 and c.min() >= 0 and np.allclose(c.sum(1), 1)
    gradient = c @ gram - target @ rows.T
    level = (c * gradient).sum(1, keepdims=True)
    scale = np.diag(gram).mean()
    assert (gradient - level).min() > -1e-9 * scale
    assert np.abs((gradient - level)[c > 0]).max() < 1e-9 * scale


def test_alpha_of_exact_moments():
    alpha = np.array([0.2, 0.5, 0.1])
    total = alpha.sum()
    second = (np.outer(alpha, alpha) + np.diag(alpha)) / (total * (total + 1))
    sizes = alpha / total
    np.testing.assert_allclose(
        fit_dirichlet(estimate_apart(second / np.outer(sizes, sizes), sizes, 1.0), sizes), alpha
    )


def test_an_anchor_is_in_enough_documents_and_in_no_more_than_a_topic_has():
    def least(docs, topics):
        return Anchors(
            Shape(docs, 10_000, 30 * docs, 30.0 * docs, topics), AnchorOptions()
        ).least_docs

    assert [least(20, 3), least(400, 3), least(3_000, 20), least(50_000, 100)] == [2, 20, 150, 500]
    assert [least(100_000, 500), least(100_000, 5_000)] == [200, 20]


def test_too_few_candidates_and_too_short_documents(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    with pytest.raises(InputError, match="only 0 words are in 10,000 documents or more"):
        run(path, tmp_path / "m", 6, options={"min_docs": 10_000})
    short = store(
        tmp_path / "s.zarr", np.arange(6), np.arange(5, dtype=np.int32), np.ones(5, np.int64), 5
    )
    with pytest.raises(InputError, match="no document has two or more words"):
        run(short, tmp_path / "s", 2)


def test_out_of_time_is_no_model(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    with pytest.raises(TopicsError, match="Run the same command again"):
        run(path, tmp_path / "m", 6, max_time=0.0)
    assert not (tmp_path / "m" / "manifest.json").exists()
    model, _ = run(path, tmp_path / "m", 6)
    assert model.totals.sum() > 0


def test_show_names_the_anchors_and_update_says_what_to_do(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    model, _ = run(path, tmp_path / "m", 6)
    result = show(tmp_path / "m", path, words=3)
    assert {w for e in result["topics"] for w in e["anchors"]} == {
        model.words[int(w)] for w in shown_param(model, "anchors")
    }
    assert all(
        f"[{e['anchors'][0]}]" in line
        for e, line in zip(result["topics"], topic_lines(result["topics"], None), strict=True)
    )
    with pytest.raises(TopicsError, match="cannot start from a model; train again"):
        train_on(path, tmp_path / "m", tmp_path / "new", progress=Progress(-1))


def test_picks_read_rows_from_pieces():
    rows = np.random.default_rng(2).dirichlet(np.full(8, 0.3), 40)

    def pieces():
        for at in range(0, 40, 7):
            yield at, rows[at : at + 7]

    got = picking.pick_anchors(pieces, 8, np.ones(30), 30, 6)
    assert got.anchors.tolist() == anchors_of(rows, np.arange(30), 6).tolist()
    assert (np.diff(got.distances[1:]) <= 1e-12).all()


@pytest.mark.parametrize("algo", few_quick(["sparse-bp", "gs", "vb"], ["sparse-bp"]))
def test_other_engines_start_from_anchors(algo, tmp_path):
    phi, path = planted(tmp_path / "c.zarr", 0)
    hashes = []
    for threads in (1, 3):
        settings = {
            "topics": 6,
            "passes": 2,
            "tol": 0.0,
            "threads": threads,
            "start": "anchors",
            "block_cells": 3000,
        }
        told = Listening()
        train(path, tmp_path / f"m{threads}", algo=algo, progress=told, **settings)
        hashes.append(content_hash(tmp_path / f"m{threads}"))
        assert any("start: 6 anchor words" in line for line in told.said)
    assert hashes[0] == hashes[1]
    learned = TopicModel.open(tmp_path / "m1").probabilities(np.arange(150)).T
    cost = np.abs(phi[:, None] - learned[None]).sum(2)
    assert cost[linear_sum_assignment(cost)].max() < 0.8  # two passes; another topic lies 1.5 away


def test_start_anchors_refuses_real_valued_cells(tmp_path):
    path = store(
        tmp_path / "w.zarr",
        np.array([0, 2, 4]),
        np.tile(np.arange(2, dtype=np.int32), 2),
        np.ones(4),
        2,
        weighted=True,
    )
    with pytest.raises(InputError, match="--start anchors needs whole counts"):
        train(path, tmp_path / "m", algo="atbp", topics=2, start="anchors", progress=Progress(-1))


def test_the_mean_topic_is_judged_and_whole_documents_are_scored(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    run(path, tmp_path / "m", 6)
    found = evaluate(tmp_path / "m", path, coherent=True, top=5, progress=False)["coherence"]
    one = evaluate(tmp_path / "m", path, coherent="umass", top=5, progress=False)["coherence"]
    assert one == {
        name: value for name, value in found.items() if not name.startswith(("npmi", "c_v"))
    }
    with pytest.raises(UsageError, match="one of umass, npmi, c_v"):
        evaluate(tmp_path / "m", path, coherent="both", progress=False)
    there = dense(path) > 0
    first = np.argsort(-there.sum(0), kind="stable")[:5]
    both = there[:, first].T.astype(int) @ there[:, first].astype(int)
    wanted = np.mean([np.log((both[i, j] + 1) / both[j, j]) for i in range(5) for j in range(i)])
    assert found["umass_mean_topic"] == pytest.approx(wanted)
    assert len(found["umass_by_topic"]) == 6
    with pytest.raises(InputError, match="set aside"):
        evaluate(tmp_path / "m", path, whole=True, progress=False)


def test_the_matrix_is_unbiased_whatever_the_lengths():
    """Of documents of two to six words the mean of M is mu^T E[theta theta^T] mu (Fisher, Kozdoba &
    Mannor, eq. 9 and 10).
    """
    rng = np.random.default_rng(4)
    mu = rng.dirichlet(np.ones(5), 2)
    alpha = np.array([0.3, 0.7])
    docs = 120_000
    theta = rng.dirichlet(alpha, docs)
    lengths = rng.integers(0, 7, docs)
    x = np.stack([rng.multinomial(n, p) for n, p in zip(lengths, theta @ mu, strict=True)])
    second = (np.outer(alpha, alpha) + np.diag(alpha)) / (alpha.sum() * (alpha.sum() + 1))
    m = cooccurrence(x)
    assert m.sum() == pytest.approx(1)
    np.testing.assert_allclose(m, mu.T @ second @ mu, atol=4 * 0.5 / np.sqrt(docs))


def test_the_order_of_documents_moves_last_digits_only(tmp_path):
    _, path = planted(tmp_path / "c.zarr", 0)
    x = dense(path)[np.random.default_rng(0).permutation(800)].astype(np.int64)
    indptr = np.append(0, np.cumsum((x > 0).sum(1)))
    other = store(tmp_path / "p.zarr", indptr, np.nonzero(x)[1].astype(np.int32), x[x > 0], 150)
    one, two = (
        run(p, tmp_path / f"m{i}", 6, block_cells=4000)[0] for i, p in enumerate((path, other))
    )
    assert shown_param(one, "anchors").tolist() == shown_param(two, "anchors").tolist()
    np.testing.assert_allclose(*(m.probabilities(np.arange(150)) for m in (one, two)), atol=1e-6)
