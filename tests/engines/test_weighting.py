"""Weighted cells: tf and tf-idf as part of a model, against what they are by their definition, and
judged on counts.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from checkpoint_bits import content_hash

from tests.engines.test_seed_words import call
from tests.engines.test_seed_words_kept import jsonl, texts
from tests.planted import draw, sides, store
from topicstream import TopicModel
from topicstream.base.errors import InputError, StoreError
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.engines import engines
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.keys import document_keys, word_keys
from topicstream.training.loop import train
from topicstream.training.setup import weigh_cells

WORDS = 60
TOPICS = 4


def dense(corpus: Corpus, heldout: bool = False) -> np.ndarray:
    """Cells [D, W] of a part."""
    rows = []
    for block in corpus.blocks(heldout=heldout):
        x = np.zeros((block.n_docs, corpus.n_words))
        x[np.repeat(np.arange(block.n_docs), np.diff(block.indptr)), block.vocab[block.words]] = (
            block.counts
        )
        rows.append(x)
    return np.concatenate(rows)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store whose word 0 is in every document."""
    _, indptr, words, counts = draw(docs=260, words=WORDS, topics=TOPICS, length=50, seed=3)
    x = np.zeros((260, WORDS), np.int64)
    x[np.repeat(np.arange(260), np.diff(indptr)), words] = counts
    x[:, 0] += 1 + np.arange(260) % 3
    indptr = np.concatenate(([0], np.cumsum((x > 0).sum(1))))
    return store(
        tmp_path_factory.mktemp("weights") / "c.zarr",
        indptr,
        np.nonzero(x)[1].astype(np.int32),
        x[x > 0],
        WORDS,
        heldout=60,
    )


def by_definition(kind: str, x: np.ndarray, train_x: np.ndarray) -> np.ndarray:
    if kind == "tf":
        return x / np.maximum(x.sum(1, keepdims=True), 1) * (train_x.sum() / len(train_x))
    df = (train_x > 0).sum(0)
    idf = np.where(df > 0, np.log(len(train_x) / np.maximum(df, 1)), np.log(len(train_x)))
    return x * idf * (train_x.sum() / (train_x * idf).sum())


@pytest.mark.parametrize("kind", ["tf", "tfidf"])
class TestCells:
    def test_are_what_the_definition_says(self, kind, place):
        corpus = Corpus.open(place)
        weighted = Corpus.open(place)
        weigh_cells(weighted, kind)
        x = dense(corpus)
        want = by_definition(kind, x, x)
        np.testing.assert_allclose(dense(weighted), want, rtol=1e-5)
        np.testing.assert_allclose(weighted.weights.n_w, want.sum(0), rtol=1e-5)
        assert want.sum() == pytest.approx(x.sum())
        for block in weighted.blocks():
            assert (block.counts > 0).all()
            assert len(np.unique(block.words)) == len(block.vocab)
            assert block.tokens == pytest.approx(block.counts.sum())

    def test_document_frequencies_are_of_training_documents_alone(self, kind, place):
        df = Vocabulary.read(Corpus.open(place).file("vocab")).df
        assert df[0] == 200  # of 260

    def test_documents_to_infer_weigh_as_those_of_training(self, kind, place, tmp_path):
        train(
            place,
            tmp_path / "m",
            algo="bp",
            topics=TOPICS,
            passes=3,
            tol=0,
            weighting=kind,
            progress=False,
        )
        model = TopicModel.open(tmp_path / "m")
        corpus = Corpus.open(place)
        held = dense(corpus, heldout=True)
        x = dense(corpus)
        indptr = np.concatenate(([0], np.cumsum((held > 0).sum(1))))
        cells = model.weights.weigh_cells(indptr, np.nonzero(held)[1], held[held > 0])
        np.testing.assert_allclose(cells, by_definition(kind, held, x)[held > 0], rtol=1e-5)

    def test_any_threads_disk_and_resume_give_the_same_bits(self, kind, place, tmp_path):
        given = {
            "algo": "sparse-bp",
            "topics": TOPICS,
            "tol": 0,
            "weighting": kind,
            "block_cells": 1000,
            "progress": False,
        }
        train(place, tmp_path / "a", passes=4, threads=1, **given)
        train(place, tmp_path / "b", passes=2, threads=3, tables="disk", **given)
        train(place, tmp_path / "b", passes=4, threads=2, **given)
        assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
        assert TopicModel.open(tmp_path / "a").sizes.sum() == pytest.approx(
            Corpus.open(place).n_tokens, rel=1e-5
        )

    @pytest.mark.quick("tf")
    def test_judged_on_counts(self, kind, place, tmp_path):
        """The evaluator against the definition: theta of weighted observed cells, p(w|k) of
        counts.
        """
        train(
            place,
            tmp_path / "m",
            algo="bp",
            topics=TOPICS,
            passes=8,
            tol=0,
            weighting=kind,
            progress=False,
            eval_every=8,
        )
        model = TopicModel.open(tmp_path / "m")
        corpus = Corpus.open(place)
        score = score_model(model, corpus)
        assert model.history[-1]["heldout_perplexity"] == pytest.approx(score.perplexity, rel=1e-6)
        streamed = score_model(TopicModel.open(tmp_path / "m", memory_limit=0), corpus)
        assert streamed.perplexity == score.perplexity
        from tests.reference.completion import split_of

        held = dense(corpus, heldout=True)
        x = dense(corpus)
        phi = model.phi.astype(float)
        beta = model.beta
        alpha = model.alpha
        n_w = x.sum(0)
        count = phi * np.divide(n_w, phi.sum(1), out=np.zeros(WORDS), where=phi.sum(1) > 0)[:, None]
        bare = phi.sum(1) == 0
        assert bare[0] == (kind == "tfidf")
        count[bare] = n_w[bare][:, None] * count.sum(0) / count.sum()
        p_w, p_c = ((t + beta) / (t.sum(0) + WORDS * beta) for t in (phi, count))
        keys = document_keys(corpus, True)
        words = word_keys(corpus)
        loglik = tokens = 0.0
        for d in range(len(held)):
            here = np.flatnonzero(held[d])
            seen = np.array([split_of(int(keys[d]), int(words[w])) < 0.8 for w in here])
            if not seen.any() or seen.all():
                continue
            observed = np.zeros(WORDS)
            observed[here[seen]] = held[d, here[seen]]
            weights = by_definition(kind, observed[None], x)[0]
            theta = np.full(TOPICS, 1.0)
            n = weights @ (p_w / p_w.sum(1, keepdims=True))
            for _ in range(3000):
                share = p_w * (n + alpha)
                n = (weights[:, None] * share / share.sum(1, keepdims=True)).sum(0)
            theta = (n + alpha) / (n + alpha).sum()
            rest = here[~seen]
            loglik += held[d, rest] @ np.log(p_c[rest] @ theta)
            tokens += held[d, rest].sum()
        assert score.tokens == tokens
        assert score.perplexity == pytest.approx(
            np.exp(-loglik / tokens), rel=5e-3
        )  # it stops its iterations earlier


def test_counts_of_tf_idf_topics_are_their_messages_sums(place, tmp_path):
    """phi_count = sum_d x mu, from the stored messages of bp."""
    corpus = Corpus.open(place)
    weigh_cells(corpus, "tfidf")
    messages = np.random.default_rng(0).dirichlet(np.ones(TOPICS), (200, WORDS))
    x = dense(Corpus.open(place))
    weighted = dense(corpus)
    from topicstream.model.weighting import CountedWords

    phi = (weighted[:, :, None] * messages).sum(0).astype(np.float32)
    counted = CountedWords(
        corpus.weights, [(0, phi[:20]), (20, phi[20:])], corpus.weights.counts, TOPICS
    )
    some = np.arange(1, WORDS)
    want = (x[:, :, None] * messages).sum(0)[1:]
    np.testing.assert_allclose(counted.rows(some, phi[1:]), want, rtol=1e-5)
    assert counted.totals.sum() == pytest.approx(x.sum())


def test_engines_that_count_tokens_refuse_and_a_store_of_weights_too(place, tmp_path):
    for name, kind in engines().items():
        if not kind.about.real_cells and not kind.about.axes:
            with pytest.raises(InputError, match="needs whole counts"):
                train(
                    place, tmp_path / name, algo=name, topics=TOPICS, weighting="tf", progress=False
                )
    corpus = Corpus.open(place)
    corpus.weighted = True
    with pytest.raises(InputError, match="real-valued cells"):
        weigh_cells(corpus, "tf")


def test_a_model_says_its_weights_and_cannot_be_damaged(place, tmp_path):
    train(
        place, tmp_path / "m", algo="vb", topics=TOPICS, passes=2, weighting="tfidf", progress=False
    )
    model = TopicModel.open(tmp_path / "m")
    assert model.manifest.weighting.kind == "tfidf"
    assert model.manifest.weighting.docs == 200
    model.save(tmp_path / "copy")
    path = tmp_path / "copy" / "manifest.json"
    value = json.loads(path.read_text())
    value.pop("checksum", None)
    value["weighting"]["mean"] = -1
    path.write_text(json.dumps(value))
    with pytest.raises(StoreError, match="weighting"):
        TopicModel.open(tmp_path / "copy")


def test_commands_keep_the_weights(tmp_path):
    corpus = tmp_path / "c.zarr"
    model = tmp_path / "m"
    call(
        "ingest",
        jsonl(tmp_path / "a.jsonl", texts(0, 120)),
        "--out",
        corpus,
        "--min-df",
        1,
        "--max-df",
        "100%",
        "--heldout",
        "10%",
    )
    settings = ("train", "--corpus", corpus, "--model", model, "-K", 2, "--passes", 6)
    call(*settings, "--weighting", "tfidf", "--seed", 1)
    assert "--weighting" in call(*settings, "--seed", 1, code=1).stderr
    assert (
        "needs whole counts"
        in call(
            "train",
            "--corpus",
            corpus,
            "--model",
            tmp_path / "g",
            "--algo",
            "gs",
            "--weighting",
            "tf",
            code=3,
        ).stderr
    )
    shares = TopicModel.open(model).transform(["orbit nasa rocket moon", "puck goalie rink skate"])
    assert set(shares.argmax(1)) == {0, 1}
    with pytest.raises(InputError, match="choose bp or mixture or vb"):
        TopicModel.open(model).transform(["orbit"], method="gibbs")
    call(
        "ingest",
        jsonl(tmp_path / "b.jsonl", texts(120, 60)),
        "--out",
        corpus,
        "--append",
        "--grow-vocab",
    )
    done = json.loads(
        call("update", "--corpus", corpus, "--model", model, "--passes", 3, "--json").stdout
    )
    assert done["how"] == "warm"
    assert TopicModel.open(model).weights.about.docs > 120
    assert (
        float(
            json.loads(
                call("eval", "--corpus", corpus, "--model", model, "--heldout", "--json").stdout
            )["heldout"]["perplexity"]
        )
        < 30
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n, kind in engines().items() if kind.about.real_cells and not kind.about.dense]
)
def test_every_engine_that_takes_weights_trains_on_them(name, tmp_path):
    phi, indptr, words, counts = draw(docs=200, words=WORDS, topics=TOPICS, length=40, seed=5)
    path = store(
        tmp_path / "c.zarr",
        indptr,
        words,
        counts,
        WORDS,
        lists=sides(phi, indptr, words, counts, seed=6),
    )
    topics = None if engines()[name].about.topics_axis else TOPICS
    for weighting in ("tf", "tfidf"):
        train(
            path,
            tmp_path / weighting,
            algo=name,
            topics=topics,
            passes=3,
            tol=0,
            weighting=weighting,
            progress=False,
        )
        model = TopicModel.open(tmp_path / weighting)
        assert np.isfinite(model.sizes).all()
        if name not in ("ovb", "svi", "llda"):  # estimates; documents without a label are left out
            assert model.sizes.sum() == pytest.approx(Corpus.open(path).n_tokens, rel=1e-4)


def test_seed_words_weigh_as_their_words_do(place, tmp_path):
    train(
        place,
        tmp_path / "m",
        algo="sparse-bp",
        topics=TOPICS,
        passes=3,
        weighting="tfidf",
        seed_words={"a": ["word5", "word9"]},
        progress=False,
        eval_every=1,
    )
    model = TopicModel.open(tmp_path / "m")
    corpus = Corpus.open(place)
    weigh_cells(corpus, "tfidf")
    np.testing.assert_allclose(model.manifest.seed_words[0].weights, corpus.weights.n_w[[5, 9]])
    assert model.history[-1]["heldout_perplexity"] == pytest.approx(
        score_model(model, Corpus.open(place)).perplexity, rel=1e-6
    )
