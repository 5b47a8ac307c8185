"""Starts: seed tables made of documents, the same for any grid, bigger than memory, and worth
having.
"""

from __future__ import annotations

import signal
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests import few_quick
from tests.planted import store
from tests.small_store import commit
from topicstream.base.errors import InputError, Interrupted, TopicsError
from topicstream.base.files.durable import read_json
from topicstream.base.files.ownership import claim
from topicstream.base.progress import Silent
from topicstream.corpus.reader import Corpus
from topicstream.corpus.writer import BlockWriter
from topicstream.engines.base import padded
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.starts import documents as starts
from topicstream.training.starts.sample import FEW_WORDS, Sample, draw_documents, sample_size
from topicstream.training.starts.seeds import id_ranges
from topicstream.training.starts.warm import ModelSeeds

WORDS = 300
TOPICS = 5


def write_store(path, documents, words=WORDS):
    """A corpus store of documents given as {word: count}; nothing held out."""
    claim(path, "corpus")
    writer = BlockWriter(path, "train", 0, False)
    indptr = np.concatenate(([0], np.cumsum([len(d) for d in documents]))).astype(np.int64)
    ids = np.array([w for d in documents for w in sorted(d)], np.int32)
    counts = np.array([d[w] for d in documents for w in sorted(d)], np.int64)
    writer.add(indptr, ids, counts)
    writer.close()
    n_w = word_counts(documents, words).astype(np.int64)
    table = {
        "word": pa.array([f"w{i}" for i in range(words)], pa.large_string()),
        "count": n_w,
        "df": n_w,
    }
    return commit(
        path, {"train": writer.entries}, table, [str(d) for d in range(len(documents))], "made"
    )


def word_counts(documents, words=WORDS):
    n_w = np.zeros(words)
    for d in documents:
        for w, x in d.items():
            n_w[w] += x
    return n_w


def made_documents(docs=200, seed=0):
    """Each document mostly from the 50 words of one of TOPICS topics; some are short, one
    is empty.
    """
    rng = np.random.default_rng(seed)
    out = []
    for d in range(docs):
        own = (d % TOPICS) * 50 + rng.integers(0, 50, 40)
        tokens = np.concatenate([own, rng.integers(250, WORDS, 10)])
        if d % 20 == 7:
            tokens = tokens[:3]
        if d == 11:
            tokens = tokens[:0]
        ids, x = np.unique(tokens, return_counts=True)
        out.append({int(w): int(c) for w, c in zip(ids, x)})
    return out


def seeds_of(corpus, grid, how, topics, seed, n_w):
    return starts.document_seeds(corpus, grid, topics, seed, n_w, far=how == "kmeans")


def seed_table(seeds, words):
    return np.concatenate([seeds.rows(ids) for ids in id_ranges(words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    documents = made_documents()
    return write_store(tmp_path_factory.mktemp("starts") / "corpus.zarr", documents), documents


@pytest.mark.parametrize("how", ["documents", "kmeans"])
def test_the_seed_table_does_not_depend_on_the_grid(made, how):
    corpus, documents = made
    n_w = word_counts(documents)
    tables = []
    for cells in (100, 1000, 1 << 20):
        seeds = seeds_of(corpus, corpus.grid(cells), how, TOPICS, 3, n_w)
        tables.append(seed_table(seeds, WORDS))
        np.testing.assert_allclose(tables[-1].sum(0, dtype=np.float64), seeds.totals, rtol=1e-5)
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])
    other = seed_table(seeds_of(corpus, corpus.grid(), how, TOPICS, 4, n_w), WORDS)
    assert np.abs(other - tables[0]).max() > 0.01 * tables[0].max()


def test_a_seed_topic_is_half_the_mean_and_half_its_document(made):
    corpus, documents = made
    n_w = word_counts(documents)
    seeds = seeds_of(corpus, corpus.grid(), "documents", TOPICS, 0, n_w)
    chosen = draw_documents(corpus, TOPICS, 0)
    table = seed_table(seeds, WORDS)
    assert table.dtype == np.float32 and table.shape == (WORDS, padded(TOPICS))
    for t, d in enumerate(chosen):
        own = word_counts([documents[d]])
        want = n_w.sum() / TOPICS * (0.5 * n_w / n_w.sum() + 0.5 * own / own.sum())
        np.testing.assert_allclose(table[:, t], want, rtol=1e-5)
    assert not table[:, TOPICS:].any() and (table[n_w > 0, :TOPICS] > 0).all()
    some = np.array([250, 3, 77], np.int32)
    np.testing.assert_array_equal(seeds.rows(some), table[some])


def test_of_short_documents_the_mean_is_split_over_the_topics(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    documents = [
        {0: 1, **{int(w): 1 for w in rng.integers(1, WORDS, 3)}} for _ in range(400)
    ]  # one word is in all
    corpus = write_store(tmp_path / "short.zarr", documents)
    n_w = word_counts(documents)
    seeds = seeds_of(corpus, corpus.grid(), "documents", TOPICS, 0, n_w)
    table = seed_table(seeds, WORDS)
    np.testing.assert_allclose(table.sum(0, dtype=np.float64), seeds.totals, rtol=1e-5)
    monkeypatch.setattr(starts, "FEW_TOKENS", 0)
    even = seed_table(seeds_of(corpus, corpus.grid(), "documents", TOPICS, 0, n_w), WORDS)
    np.testing.assert_allclose(table.sum(1), even.sum(1), rtol=1e-5)
    unseen = (
        even[:, :TOPICS].std(1) < 1e-6 * even[:, 0]
    )  # words of no seed document: all topics were equal
    assert (
        unseen.sum() > 200
        and (table[unseen, :TOPICS].std(1) > 0.1 * table[unseen, :TOPICS].mean(1)).all()
    )
    some = np.array([250, 3, 77], np.int32)
    np.testing.assert_array_equal(seeds.rows(some), table[some])
    monkeypatch.undo()
    monkeypatch.setattr(starts, "FREQUENT", 50)
    near = seeds_of(corpus, corpus.grid(), "documents", TOPICS, 0, n_w)
    np.testing.assert_allclose(near.totals[:TOPICS], seeds.totals[:TOPICS], rtol=0.1)


def test_draws_prefer_long_documents_and_never_take_empty_ones(made):
    corpus, documents = made
    sizes = np.array([len(d) for d in documents])
    chosen = draw_documents(corpus, 150, 0)
    assert len(set(chosen.tolist())) == 150 and sizes[chosen].min() >= FEW_WORDS
    every = draw_documents(corpus, 1000, 0)
    assert sorted(every.tolist()) == [d for d in range(200) if sizes[d]]
    assert (sizes[every[-10:]] < FEW_WORDS).all()
    hits = np.zeros(200)
    for seed in range(200):
        hits[draw_documents(corpus, 20, seed)] += 1
    long = hits[sizes >= FEW_WORDS]
    assert abs(long.mean() - 20 * 200 / len(long)) < 1e-9 and long.min() > 5 and long.max() < 45


def test_documents_of_ten_words_are_drawn_before_those_of_nine(tmp_path):
    sizes = np.array([10, 9] * 30)
    indptr = np.append(0, np.cumsum(sizes))
    words = np.concatenate([np.arange(n, dtype=np.int32) for n in sizes])
    path = store(tmp_path / "c.zarr", indptr, words, np.ones(len(words), np.int32), 12)
    assert FEW_WORDS == 10
    chosen = draw_documents(Corpus.open(path), 30, 3)
    assert sorted(chosen.tolist()) == list(range(0, 60, 2))
    assert (np.sort(draw_documents(Corpus.open(path), 40, 3)[30:]) % 2 == 1).all()


@pytest.mark.parametrize(
    ("docs", "cells", "words", "expected"),
    [
        # all documents, half as many cells and words again, but no more than there are words
        (500, 20_000, 3_000, (500, 1.0, 30_000, 3_000)),
        (500, 500, 3_000, (500, 1.0, 750, 750)),
        # ten thousand, of 50 words
        (40_000, 2_000_000, 9_000, (10_000, 1.0, 750_000, 9_000)),
        # a million cells: 5,000 documents of 200
        (40_000, 8_000_000, 9_000, (5_000, 1.0, 1_500_000, 9_000)),
        # a thousand of 4,000, of a quarter of the words each, and a tenth more
        (40_000, 160_000_000, 90_000, (1_000, 0.25, 1_100_000, 24_751)),
    ],
)
def test_the_size_of_a_sample(docs, cells, words, expected):
    assert sample_size(docs, cells, words) == expected


def test_kmeans_meets_more_planted_topics_than_plain_draws_do(made):
    corpus, documents = made
    n_w = word_counts(documents)
    grid = corpus.grid()
    found = {}
    for how in ("documents", "kmeans"):
        met = []
        for seed in range(40):
            table = seed_table(seeds_of(corpus, grid, how, TOPICS, seed, n_w), WORDS)
            mass = (table[:250, :TOPICS] / n_w[:250, None]).reshape(TOPICS, 50, TOPICS).sum(1)
            met.append(len(set(mass.argmax(0).tolist())))
        found[how] = np.mean(met)
    assert 3.0 < found["documents"] < 3.8  # five independent draws meet 3.4 of five topics
    assert found["kmeans"] > found["documents"] + 0.3


def test_divergences_are_those_of_the_dense_formula(made):
    corpus, documents = made
    n_w = word_counts(documents)
    chosen = draw_documents(corpus, 30, 1)
    sample = Sample.read(corpus, corpus.grid(500), chosen)
    mean = np.maximum(n_w / n_w.sum(), 1e-300)
    ground = np.log(0.6 * mean)
    before = ground.copy()
    out = sample.divergences(mean, ground, 0.4, 7)
    dense = np.array([word_counts([documents[d]]) for d in chosen])
    dense /= dense.sum(1, keepdims=True)
    centre = 0.6 * mean + 0.4 * dense[7]
    with np.errstate(divide="ignore", invalid="ignore"):
        want = np.nansum(dense * np.log(dense / centre), 1)
    np.testing.assert_allclose(out, want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ground, before, rtol=1e-14)


def test_more_topics_than_documents_still_gives_different_topics(tmp_path):
    documents = [{0: 3, 1: 2, 2: 2}, {3: 1, 4: 4, 5: 1}]
    corpus = write_store(tmp_path / "corpus.zarr", documents, 6)
    seeds = seeds_of(corpus, corpus.grid(), "documents", 7, 0, word_counts(documents, 6))
    table = seed_table(seeds, 6)
    assert len(np.unique(table[:, :7].round(3), axis=1).T) == 7
    np.testing.assert_allclose(table.sum(0), seeds.totals, rtol=1e-5)


def test_warm_start_maps_by_word(made, tmp_path):
    _, documents = made
    n_w = word_counts(documents)
    rng = np.random.default_rng(0)
    theirs = [f"w{i}" for i in range(WORDS - 1, 99, -1)] + [
        "elsewhere"
    ]  # other order, 100 words missing, one more
    phi = rng.random((len(theirs), TOPICS)).astype(np.float32) * 100
    model = TopicModel.from_arrays(phi, theirs, np.full(TOPICS, 0.1), 0.5)
    model.save(tmp_path / "model")
    model = TopicModel.open(tmp_path / "model")
    words = pa.array([f"w{i}" for i in range(WORDS)], pa.large_string())
    seeds = ModelSeeds(model, words, n_w, TOPICS)
    table = seed_table(seeds, WORDS)
    p = (phi + 0.5) / (phi.sum(0, dtype=np.float64) + len(theirs) * 0.5)
    for word in (100, 177, 299):
        np.testing.assert_allclose(
            table[word, :TOPICS], 1e6 * p[theirs.index(f"w{word}")], rtol=1e-4
        )
    np.testing.assert_allclose(table[5, :TOPICS], 1e6 * n_w[5] / n_w.sum(), rtol=1e-5)
    np.testing.assert_allclose(table.sum(0, dtype=np.float64), seeds.totals, rtol=1e-5)
    assert seeds.unknown == pytest.approx(n_w[:100].sum() / n_w.sum())
    with pytest.raises(InputError, match="-K 5"):
        ModelSeeds(model, words, n_w, TOPICS + 1)


def test_a_run_goes_on_from_the_start_that_it_has(tmp_path):
    """An unsaid start is the run's, not a default that another version may have changed."""
    write_store(tmp_path / "c", [{0: 2, 1: 1}, {2: 3, 3: 1}, {0: 1, 1: 2}, {2: 1, 3: 2}], words=4)
    given = {"algo": "vb", "topics": 2, "tol": 0.0, "progress": False}
    train(tmp_path / "c", tmp_path / "m", passes=1, start="random", **given)
    assert train(tmp_path / "c", tmp_path / "m", passes=2, **given).passes == 2
    with pytest.raises(TopicsError, match="--start random -> documents"):
        train(tmp_path / "c", tmp_path / "m", passes=3, start="documents", **given)
    train(tmp_path / "c", tmp_path / "m", passes=1, force=True, **given)
    assert read_json(tmp_path / "m" / "training.json")["start"] != "random"


@pytest.mark.parametrize(
    ("algo", "where"),
    few_quick(
        [("fdm", "choosing anchors"), ("fdm", "anchor weights"), ("anchors", "anchor weights")],
        [("fdm", "anchor weights")],
    ),
)
def test_a_signal_stops_long_work_at_once(algo, where, tmp_path):
    """The first Ctrl-C, inside a start and at the end of a phase: not after what may take
    minutes.
    """
    rng = np.random.default_rng(1)
    texts = [Counter(rng.integers(0, WORDS, 80).tolist()) for _ in range(100)]
    corpus = write_store(tmp_path / "c.zarr", texts).path

    class Pressed(Silent):
        def step(self, what, done=0, total=None, unit="", documents=0):
            if what == where:
                self.done.append(done)
                signal.raise_signal(signal.SIGINT)

    told = Pressed()
    told.done = []
    with pytest.raises(Interrupted) as stopped:
        train(corpus, tmp_path / "m", algo=algo, topics=4, passes=9, threads=1, progress=told)
    assert stopped.value.exit_code == 130 and len(told.done) == 1 and told.done[0] < WORDS
    assert train(
        corpus, tmp_path / "m", algo=algo, topics=4, passes=9, threads=1, progress=Silent()
    ).passes
