"""`train --sample`: a share of the training documents, by a hash of their ids, is as a store of
these alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from checkpoint_bits import content_hash

import topicstream
from tests import few_quick
from tests.listening import Listening
from tests.planted import store as weighted_store
from tests.retrain_tools import made, write
from tests.small_store import planted, store
from topicstream.base.errors import InputError, StoreError, TopicsError, UsageError
from topicstream.base.files.durable import read_json
from topicstream.cli.main import run
from topicstream.corpus.documents import hash_ids
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import SampledCorpus, select_sample
from topicstream.engines import engines
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.keys import document_keys
from topicstream.model.topic_model import TopicModel

QUIET = {"progress": False, "threads": 1, "tol": 0.0}
PLAIN = [name for name, kind in engines().items() if not kind.about.axes and not kind.about.dense]


def number(ids) -> list[int]:
    return [int(i.split("-")[1]) for i in ids]


def ids_of(corpus: Corpus, part: str = "train") -> list[str]:
    return [
        i for batch in corpus.documents([], parts=(part,)) for i in batch.column("id").to_pylist()
    ]


@pytest.fixture(scope="module")
def counts():
    matrix, _ = planted(seed=5, docs=400, words=90, topics=4)
    matrix[:300, 89] = 0
    matrix[7, 89] = 3  # a word of one document
    return matrix


@pytest.fixture(scope="module")
def whole(counts, tmp_path_factory):
    return store(tmp_path_factory.mktemp("whole") / "c.zarr", counts[:360], counts[360:], ids=True)


@pytest.fixture(scope="module")
def alone(counts, whole, tmp_path_factory):
    """A store of the sample's documents alone, with the same words."""
    kept = number(ids_of(SampledCorpus(whole, 0.4)))
    return store(
        tmp_path_factory.mktemp("alone") / "c.zarr", counts[:360][kept], counts[360:], ids=True
    )


def test_samples_are_within_each_other_and_with_the_rest_everything(whole):
    before: set[str] = set()
    for share in (0.1, 0.2, 0.4, 0.7):
        sample = SampledCorpus(whole, share)
        rest = SampledCorpus(whole, share, complement=True)
        here = ids_of(sample)
        others = ids_of(rest)
        assert before <= set(here) and abs(len(here) / whole.n_docs - share) < 0.1
        assert sorted(here + others) == sorted(ids_of(whole)) and len(here) == sample.n_docs
        assert (sample.word_counts() + rest.word_counts() == whole.word_counts()).all()
        assert (sample.document_counts() + rest.document_counts() == whole.document_counts()).all()
        assert (
            ids_of(sample, "heldout") == ids_of(whole, "heldout")
            and len(sample) == sample.n_docs + 40
        )
        before = set(here)


def test_the_second_half_of_the_hash_of_its_id_decides(whole):
    """The first half sets documents aside at ingest; a share of n is below n times 2^64."""
    ids = ids_of(whole)
    low = hash_ids(pa.array(ids, pa.large_string()))[1]
    for share in (0.3, 0.5):
        expected = [i for i, h in zip(ids, low.tolist(), strict=True) if h < share * 2.0**64]
        assert ids_of(SampledCorpus(whole, share)) == expected
        rest = ids_of(SampledCorpus(whole, share, complement=True))
        assert rest == [i for i in ids if i not in set(expected)]
    assert select_sample(whole, 1) is whole
    for wrong in (0, -0.1, 1.01):
        with pytest.raises(UsageError, match="--sample"):
            select_sample(whole, wrong)


def test_weights_of_a_sample_are_summed_as_numbers(counts, tmp_path):
    """Half counts: 0.5 of each token."""
    rows = counts[:60]
    documents, words = np.nonzero(rows)
    indptr = np.append(0, np.cumsum(np.bincount(documents, minlength=60)))
    weights = (rows[documents, words] / 2).astype(np.float32)
    path = weighted_store(
        tmp_path / "w.zarr", indptr, words.astype(np.int32), weights, 90, weighted=True
    )
    corpus = Corpus.open(path)
    sample = SampledCorpus(corpus, 0.5)
    chosen = [int(i[1:]) for i in ids_of(sample)]
    assert 15 < len(chosen) < 45
    assert sample.n_tokens == rows[chosen].sum() / 2
    np.testing.assert_allclose(sample.word_counts(), rows[chosen].sum(axis=0) / 2)
    np.testing.assert_array_equal(sample.document_counts(), (rows[chosen] > 0).sum(axis=0))


def test_removed_documents_are_those_held_out(whole, monkeypatch):
    """Removed documents of the training part are in no sample: its rows go on without them."""
    listed = np.array([[9, 0, 0, 3], [4, 1, 0, 3], [5, 1, 1, 2], [7, 0, 1, 1]])
    monkeypatch.setattr(type(whole), "removed", lambda self: listed)
    sample = SampledCorpus(whole, 0.4)
    assert sample.removed().tolist() == [[4, 1, 0, 3], [5, 1, 1, 2]]


def test_a_view_reads_as_a_store_of_its_documents(whole, alone):
    sample = SampledCorpus(whole, 0.4)
    assert (sample.n_docs, sample.n_cells, sample.n_tokens) == (
        alone.n_docs,
        alone.n_cells,
        alone.n_tokens,
    )
    assert (sample.to_scipy(parts=("train",)) != alone.to_scipy(parts=("train",))).nnz == 0
    assert [d.id for d in sample[3:5]] == [d.id for d in sample][3:5]
    for a, b in zip(
        sample.blocks(grid=sample.grid(900, 30)),
        alone.blocks(grid=alone.grid(900, 30)),
        strict=True,
    ):
        assert a.first_doc == b.first_doc and a.tokens == b.tokens
        for name in ("indptr", "words", "counts", "vocab"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("algo", few_quick(PLAIN, ["sparse-bp", "gs", "ovb", "anchors"]))
def test_every_engine_learns_what_it_would_of_these_documents_alone(whole, alone, tmp_path, algo):
    given = {"algo": algo, "topics": 4, "passes": 3, "block_cells": 900, **QUIET}
    topicstream.train(whole.path, tmp_path / "a", sample="40%", **given)
    topicstream.train(alone.path, tmp_path / "b", **given)
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    a = TopicModel.open(tmp_path / "a")
    b = TopicModel.open(tmp_path / "b")
    np.testing.assert_array_equal(a.vocabulary.counts, b.vocabulary.counts)
    np.testing.assert_array_equal(a.vocabulary.df, b.vocabulary.df)
    assert a.manifest.sample == 0.4 and a.manifest.corpus.docs == alone.n_docs


@pytest.mark.parametrize("weighting", ["tf", "tfidf"])
def test_weights_are_those_of_the_sample(whole, alone, tmp_path, weighting):
    given = {"algo": "sparse-bp", "topics": 4, "passes": 3, "weighting": weighting, **QUIET}
    topicstream.train(whole.path, tmp_path / "a", sample=0.4, **given)
    topicstream.train(alone.path, tmp_path / "b", **given)
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")


@pytest.mark.product
def test_threads_disk_and_resuming_do_not_matter(counts, tmp_path):
    blocks = store(tmp_path / "c.zarr", counts[:360], counts[360:], blocks=30, ids=True)
    assert min(b.docs for b in SampledCorpus(blocks, 0.05).part().blocks) == 0
    given = {
        "algo": "sparselda",
        "topics": 4,
        "block_cells": 300,
        "sample": 0.05,
        "tol": 0.0,
        "progress": False,
    }
    topicstream.train(blocks.path, tmp_path / "a", passes=4, threads=1, **given)
    topicstream.train(blocks.path, tmp_path / "b", passes=2, threads=2, **given)
    topicstream.train(blocks.path, tmp_path / "b", passes=4, threads=2, **given)
    assert content_hash(tmp_path / "a") == content_hash(tmp_path / "b")
    with pytest.raises(TopicsError, match=r"--sample 0\.05 -> 0\.1"):
        topicstream.train(blocks.path, tmp_path / "b", **{**given, "sample": "10%"})


@pytest.fixture(scope="module")
def model(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    topicstream.train(
        whole.path, folder, algo="sparselda", topics=4, passes=20, sample=0.4, **QUIET
    )
    return folder


def test_parts_of_a_sample_are_answered_as_in_company(whole, alone, model):
    def ask(*parts):
        table = topicstream.infer(model, whole, parts=parts, progress=False)
        return dict(zip(table["id"].to_pylist(), table["shares"].to_pylist()))

    train = ask("train")
    sample = ask("sample")
    rest = ask("rest")
    assert (
        sample | rest == train and not sample.keys() & rest.keys() and len(sample) == alone.n_docs
    )
    assert ask("rest", "heldout") == rest | ask("heldout") and ask("sample", "rest") == train


def test_what_asks_for_the_training_documents_gets_the_sample(whole, alone, model, tmp_path):
    def perplexity(store):
        return topicstream.evaluate(model, store, training=True, progress=False)["training"][
            "perplexity"
        ]

    assert perplexity(whole) == perplexity_of_all(model, alone) != perplexity_of_all(model, whole)
    assert topicstream.train_classifier(model, whole, progress=False)["documents"] <= alone.n_docs
    joint = topicstream.infer(
        model, whole, parts=("heldout",), method="gibbs1", trained_on=whole.path, progress=False
    )
    assert joint.num_rows == 40
    topicstream.export_model(model, tmp_path / "s.gz", format="mallet-state", corpus=whole.path)


def perplexity_of_all(model, store, split=None) -> float:
    return score_model(TopicModel.open(model), store, split=split, parts=("train",)).perplexity


def test_the_halves_of_a_document_are_by_its_id(whole, model):
    sample = SampledCorpus(whole, 0.4)
    keys = document_keys(whole, False)
    np.testing.assert_array_equal(document_keys(sample, False), keys[number(ids_of(sample))])
    np.testing.assert_array_equal(document_keys(sample, True), document_keys(whole, True))
    assert perplexity_of_all(model, sample, 0.8) > 1


def test_words_outside_of_the_sample_are_not_seen(counts, whole, model):
    opened = TopicModel.open(model)
    in_sample = 7 in number(ids_of(SampledCorpus(whole, 0.4)))
    assert (opened.vocabulary.counts[89] > 0) == (in_sample or counts[300:360, 89].any())
    period = topicstream.drift(model, whole.path, corpus=whole.path, progress=False)["periods"][0]
    met = (opened.vocabulary.counts > 0) & (counts.sum(0) > 0)
    assert period["seen_words"] == pytest.approx(met.sum() / (counts.sum(0) > 0).sum())


def test_an_update_keeps_the_sample(tmp_path):
    write(tmp_path / "a.jsonl", made(300, seed=1))
    topicstream.ingest(
        tmp_path / "a.jsonl",
        tmp_path / "c.zarr",
        stopwords="none",
        heldout="10%",
        min_df=2,
        progress=False,
    )
    topicstream.train(
        tmp_path / "c.zarr", tmp_path / "m", algo="atbp", topics=4, passes=5, sample=0.5, **QUIET
    )
    write(tmp_path / "b.jsonl", made(100, seed=2, prefix="e"))
    topicstream.ingest(
        tmp_path / "b.jsonl", tmp_path / "c.zarr", append=True, grow_vocab=True, progress=False
    )
    done = topicstream.update(tmp_path / "c.zarr", tmp_path / "m", passes=2, progress=False)
    manifest = read_json(tmp_path / "m" / "manifest.json")
    assert done.how == "warm" and manifest["sample"] == 0.5
    assert manifest["corpus"]["docs"] == SampledCorpus(Corpus.open(tmp_path / "c.zarr"), 0.5).n_docs


def test_a_store_without_a_table_of_documents_and_removed_ones(counts, tmp_path):
    plain = store(tmp_path / "c.zarr", counts[:360], counts[360:])
    assert 0.3 < SampledCorpus(plain, 0.4).n_docs / 360 < 0.5
    write(tmp_path / "a.jsonl", made(300, seed=1))
    topicstream.ingest(
        tmp_path / "a.jsonl",
        tmp_path / "d.zarr",
        stopwords="none",
        min_df=1,
        heldout=0,
        progress=False,
    )
    sample = ids_of(SampledCorpus(Corpus.open(tmp_path / "d.zarr"), 0.4))
    changed = [{"id": i, "text": "changed words"} for i in sample[:5]]
    write(tmp_path / "b.jsonl", changed)
    topicstream.ingest(
        tmp_path / "b.jsonl",
        tmp_path / "d.zarr",
        append=True,
        on_duplicate="replace",
        progress=False,
    )
    later = Corpus.open(tmp_path / "d.zarr")
    assert (
        ids_of(SampledCorpus(later, 0.4)) == sample[5:] + sample[:5] and len(later.removed()) == 5
    )
    assert sorted(
        ids_of(SampledCorpus(later, 0.4)) + ids_of(SampledCorpus(later, 0.4, complement=True))
    ) == sorted(ids_of(later))
    topicstream.compact(tmp_path / "d.zarr")
    assert sorted(ids_of(SampledCorpus(Corpus.open(tmp_path / "d.zarr"), 0.4))) == sorted(sample)


def test_refused_in_a_line(whole, model, tmp_path):
    given = {"topics": 4, "passes": 1, **QUIET}
    for algo in ("atm", "llda", "rtm"):
        with pytest.raises(UsageError, match="which cannot be sampled"):
            topicstream.train(whole.path, tmp_path / "x", algo=algo, sample=0.5, **given)
    for share in ("0", "150%", "some"):
        with pytest.raises(UsageError, match="share"):
            topicstream.train(whole.path, tmp_path / "x", sample=share, **given)
    with pytest.raises(InputError, match="none with a word"):
        topicstream.train(whole.path, tmp_path / "x", sample=1e-9, **given)
    topicstream.train(whole.path, tmp_path / "all", algo="atbp", sample="100%", **given)
    with pytest.raises(UsageError, match="was trained on all documents"):
        topicstream.infer(tmp_path / "all", whole, parts=("rest",), progress=False)
    path = model / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"sample": 0.4', '"sample": 4'))
    try:
        with pytest.raises(StoreError):
            topicstream.infer(model, whole, parts=("rest",), progress=False)
    finally:
        path.write_text(text)
    assert (
        run(
            [
                "infer",
                str(whole.path),
                "--model",
                str(model),
                "--part",
                "rest",
                "-o",
                str(tmp_path / "r.jsonl"),
            ]
        )
        == 0
    )
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"text": "w1 w2"}\n')
    assert (
        run(
            [
                "infer",
                str(raw),
                "--model",
                str(model),
                "--part",
                "rest",
                "-o",
                str(tmp_path / "q.jsonl"),
            ]
        )
        == 2
    )


def test_auto_reads_the_sample_once(whole, tmp_path):
    told = Listening()
    topicstream.train(
        whole.path, tmp_path / "m", topics=4, passes=1, sample=0.4, tol=0.0, progress=told
    )
    assert sum(line.startswith("sample: ") for line in told.said) == 1
