"""The start ``best``: its kernel against a plain twin, any number of threads, and what it
is for.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import topicstream
from tests.small_store import store
from topicstream.engines.base import About, Shape, padded
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import Cells
from topicstream.training.starts import best as tries
from topicstream.training.starts import sample as samples
from topicstream.training.starts.best import short_training
from topicstream.training.starts.sample import Sample, draw_documents

TOPICS = 6
WORDS = 300


def planted(seed: int, documents: int = 500) -> tuple[list[dict[int, int]], np.ndarray]:
    """Documents of one to three of six topics that share their frequent words, and the topics [K,
    W].
    """
    rng = np.random.default_rng(seed)
    base = 1 / (np.arange(WORDS) + 3.0)
    phi = base * rng.gamma(0.15, 1.0, (TOPICS, WORDS))
    phi /= phi.sum(axis=1, keepdims=True)
    out = []
    for _ in range(documents):
        theta = np.zeros(TOPICS)
        theta[rng.choice(TOPICS, rng.integers(1, 4), replace=False)] = 1
        ids, x = np.unique(rng.choice(WORDS, 60, p=theta @ phi / theta.sum()), return_counts=True)
        out.append({int(w): int(c) for w, c in zip(ids, x)})
    return out, phi


def write_store(path, documents):
    """A corpus store of these documents, none held out."""
    counts = np.zeros((len(documents), WORDS), np.int64)
    for d, document in enumerate(documents):
        counts[d, list(document)] = list(document.values())
    return store(path, counts, counts[:0])


def make_sample(documents):
    indptr = np.cumsum([0, *(len(d) for d in documents)]).astype(np.int64)
    words = np.array([w for d in documents for w in d], np.int32)
    return Sample(indptr, words, np.array([c for d in documents for c in d.values()], np.float64))


def twin(documents, phi, alpha, beta, sweeps):
    """Smoothed PLSA, document by document: phi [W, K] counts and the perplexity of the last
    sweep.
    """
    phi = phi.astype(np.float64)
    words, topics = phi.shape
    theta = np.array([np.full(topics, sum(d.values()) / topics) for d in documents])
    perplexity = 0.0
    for _ in range(sweeps):
        p = (phi + beta) / (phi.sum(0) + words * beta)
        after = np.zeros_like(phi)
        loglik = 0.0
        tokens = 0
        for d, document in enumerate(documents):
            w = np.array(list(document))
            x = np.array(list(document.values()))
            for visit in range(2):
                mu = (theta[d] + alpha) * p[w]
                shares = mu / mu.sum(1, keepdims=True) * x[:, None]
                if visit:
                    loglik += x @ np.log(mu.sum(1) / (x.sum() + topics * alpha))
                    tokens += x.sum()
                    after[w] += shares
                theta[d] = shares.sum(0)
        phi = after
        perplexity = np.exp(-loglik / tokens)
    return phi, perplexity


def test_a_short_training_equals_its_plain_twin():
    documents, _ = planted(0, 40)
    rng = np.random.default_rng(1)
    start = np.zeros((WORDS, padded(TOPICS)), np.float32)
    start[:, :TOPICS] = rng.gamma(1.0, 1.0, (WORDS, TOPICS))
    sample = make_sample(documents)
    phi = start.copy()
    totals = phi.sum(0, dtype=np.float64)
    work = np.empty((40, padded(TOPICS)), np.float32), np.empty(padded(TOPICS), np.float32)
    work[0][:] = (sample.lengths / TOPICS)[:, None]
    cells = Cells(sample.indptr, sample.words, sample.counts)
    tables = tries.TryTables(phi, np.empty_like(phi), totals, *work)
    got = short_training(cells, tables, TOPICS, 0.1, 0.01, 4)
    want, perplexity = twin(documents, start[:, :TOPICS], 0.1, 0.01, 4)
    np.testing.assert_allclose(phi[:, :TOPICS], want, atol=2e-4)
    np.testing.assert_allclose(totals[:TOPICS], want.sum(0), rtol=1e-5)
    assert got == pytest.approx(perplexity, rel=1e-5) and not phi[:, TOPICS:].any()


def best_seeds(corpus, grid, topics, seed, n_w, threads):
    shape = SimpleNamespace(topics=topics)
    workers = SimpleNamespace(threads=threads)
    ground = SimpleNamespace(
        corpus=corpus,
        grid=grid,
        engine=SimpleNamespace(shape=shape, about=About()),
        seed=seed,
        n_w=n_w,
        workers=workers,
    )
    return tries.BestStart().seeds(ground)


def test_seed_rows_are_positive_and_sum_to_the_totals_whatever_the_threads(tmp_path):
    documents, _ = planted(2)
    corpus = write_store(tmp_path / "c.zarr", documents)
    n_w = np.zeros(WORDS)
    for d in documents:
        for w, c in d.items():
            n_w[w] += c
    tables = []
    for threads in (1, 3):
        seeds = best_seeds(corpus, corpus.grid(200 * threads), TOPICS, 5, n_w, threads)
        tables.append(seeds.rows(np.arange(WORDS, dtype=np.int32)))
        np.testing.assert_allclose(tables[-1].sum(0, dtype=np.float64), seeds.totals, rtol=1e-4)
    np.testing.assert_array_equal(*tables)
    assert (tables[0][n_w > 0, :TOPICS] > 0).all() and not tables[0][:, TOPICS:].any()
    few = best_seeds(corpus, corpus.grid(), 600, 5, n_w, 2)  # more topics than documents
    assert few.rows(np.arange(3, dtype=np.int32)).shape == (3, padded(600))


def test_a_word_that_the_sample_does_not_have_gets_the_corpus_mean(monkeypatch, tmp_path):
    documents, _ = planted(3)
    corpus = write_store(tmp_path / "c.zarr", documents)
    monkeypatch.setattr(samples, "DOCUMENTS", 20)
    n_w = np.ones(WORDS)
    seeds = best_seeds(corpus, corpus.grid(), TOPICS, 0, n_w, 1)
    rows = seeds.rows(np.arange(WORDS, dtype=np.int32))[:, :TOPICS]
    chosen = draw_documents(corpus, 20, 0)
    unseen = np.setdiff1d(np.arange(WORDS), [w for d in chosen for w in documents[d]])
    assert len(unseen)
    np.testing.assert_allclose(
        rows[unseen],
        np.tile((1 - tries.SHARE) / WORDS * seeds.totals[:TOPICS], (len(unseen), 1)),
        rtol=1e-5,
    )


def lost(model, phi):
    """Planted topics that no topic of the model is near."""
    found = TopicModel.open(model).probabilities(np.arange(WORDS)).T
    cost = np.array([np.abs(found - p).sum(1) for p in phi])
    return int((cost[linear_sum_assignment(cost)] > 0.6).sum())


@pytest.mark.product
def test_best_finds_planted_topics_that_single_seeds_lose(tmp_path):
    missed = {"kmeans": 0, "best": 0}
    for number in range(4):
        documents, phi = planted(10 + number)
        corpus = write_store(tmp_path / f"{number}.zarr", documents)
        for how in missed:
            model = tmp_path / f"{how}-{number}"
            topicstream.train(
                corpus.path,
                model,
                algo="atbp",
                topics=TOPICS,
                passes=25,
                tol=0,
                start=how,
                options={"alpha": 0.1},
            )
            missed[how] += lost(model, phi)
    assert missed["best"] < missed["kmeans"], missed
    assert missed["best"] <= 1, missed


def test_topics_that_recur_are_those_that_each_try_would_have_without_its_mistake():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), 400).T
    tried = []
    for _ in range(8):
        order = rng.permutation(TOPICS)
        mixed = shares[rng.permutation(TOPICS)] + rng.uniform(0, 0.05, (TOPICS, 400))
        one, two = order[:2]
        mixed[one] += mixed[
            two
        ]  # two topics in one, and a topic of noise in the place of the other
        mixed[two] = rng.uniform(0, 0.2, 400)
        tried.append(mixed / mixed.sum(axis=0))
    chosen = tries.choose_recurring(np.array(tried, np.float32))
    np.testing.assert_allclose(chosen.sum(axis=1), 1.0, rtol=1e-5)
    near = np.corrcoef(shares, chosen.T)[:TOPICS, TOPICS:]
    assert near[linear_sum_assignment(-near)].min() > 0.9


def test_of_long_documents_the_sample_has_some_words_each(tmp_path):
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.5, (60, 2000))
    corpus = store(tmp_path / "long.zarr", counts, counts[:0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "CELLS", 5000)
        patch.setattr(samples, "FEWEST", 40)
        size = samples.sample_size(corpus.n_docs, corpus.n_cells, corpus.n_words)
        sample = Sample.draw(corpus, corpus.grid(), 0)
    assert len(sample) == size.documents == 40
    words, held = np.unique(sample.words, return_counts=True)
    assert size.share * 1000 < len(words) <= size.words and len(sample.words) <= size.cells
    every = Sample.read(corpus, corpus.grid(), draw_documents(corpus, 40, 0))
    np.testing.assert_array_equal(
        held, np.bincount(every.words)[words]
    )  # a word is there in all documents or in none


def test_best_is_the_default_only_where_it_pays():
    def shape(cells, topics):
        return Shape(
            docs=10**7, words=1000, cells=cells, tokens=float(cells), topics=topics, weighted=False
        )

    plain = About()
    assert tries.pays(shape(tries.LEAST_CELLS, tries.MOST_TOPICS), plain)
    wide = Shape(
        docs=10**7,
        words=141_043,
        cells=5 * 10**8,
        tokens=6e8,
        topics=tries.MOST_TOPICS,
        weighted=False,
    )
    assert not tries.pays(
        wide, plain
    )  # 200 MB for one try: a limit of 300 MB would refuse what it holds without
    assert tries.pays(replace(wide, topics=10), plain)
    assert not tries.pays(shape(tries.LEAST_CELLS - 1, 10), plain)
    assert not tries.pays(shape(10**9, tries.MOST_TOPICS + 1), plain)
    assert sum(tries.memory_of_tries(shape(10**9, 64), plain.tries)) < 200 << 20


def test_what_tries_hold_by_hand():
    """500 documents of 40 different words, of 900; 20 topics in 32 columns, three tries."""
    shape = Shape(500, 900, 20_000, 3e4, 20)
    cells = 30_000
    one = 2 * 900 * 32 * 4 + 500 * 32 * 4
    shared = 4 * cells * 8 + 3 * 20 * 500 * 4
    assert tries.memory_of_tries(shape, 3) == (shared + one, one)
    # from LEAST_CELLS on, or where documents have the tokens that the engine asks for
    for tokens, pays in ((57 * 500, True), (57 * 500 - 1, False)):
        about = About(best_from=57)
        assert tries.pays(replace(shape, tokens=float(tokens)), about) == pays


@pytest.mark.parametrize(("recurring", "chosen"), [(98.9, "recurring"), (99.1, "second")])
def test_recurring_topics_win_by_one_per_cent(recurring, chosen, monkeypatch):
    """Three tries of perplexities 120, 100 and 110, and the topics that recur in them."""
    perplexities = {0: 120.0, 1: 100.0, 2: 110.0}
    begun = []

    def short_training(cells, tables, *_, sweeps):
        phi = tables.phi
        if sweeps == 10:
            phi[:] = -1.0
            return recurring
        number = len(begun)
        begun.append(sweeps)
        phi[:] = number
        return perplexities[number]

    def with_sweeps(*given):
        return short_training(*given[:-1], sweeps=given[-1])

    monkeypatch.setattr(tries, "short_training", with_sweeps)
    made = {}
    monkeypatch.setattr(tries, "LearnedSeeds", lambda words, phi, *_: made.update(phi=phi))
    rng = np.random.default_rng(1)
    lengths = rng.integers(3, 9, 30)
    indptr = np.append(0, np.cumsum(lengths))
    words = np.concatenate([rng.choice(25, n, replace=False) for n in lengths]).astype(np.int32)
    documents = Sample(indptr, words, rng.integers(1, 4, len(words)).astype(float))
    n_w = np.bincount(words, minlength=25).astype(float)
    tries.learn_best_topics(documents, n_w, 4, 1, 1, 3)
    assert begun == [30, 30, 30]
    assert (made["phi"] == (-1.0 if chosen == "recurring" else 1.0)).all()
