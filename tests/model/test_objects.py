"""Corpus and TopicModel as people look at them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import topicstream
from tests.ingest_tools import cells_by_id
from tests.ingestion.test_memory_inputs import ALL, WORDS, counts, texts
from topicstream import TopicModel
from topicstream.base.errors import InputError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    docs = [
        {"id": f"d{i}", "text": t, "who": ["a", "b"][: i % 3], "year": i}
        for i, t in enumerate(texts(300))
    ]
    given = {**ALL, "heldout": "10%", "meta": {"authors": "who", "date": "year"}}
    topicstream.ingest(docs, folder / "c.zarr", **given)
    new = [{**d, "text": "river river delta"} for d in docs[10:20]]
    topicstream.ingest(
        new, folder / "c.zarr", append=True, on_duplicate="replace", meta=given["meta"]
    )
    topicstream.train(
        folder / "c.zarr", folder / "model", topics=5, passes=3, progress=Progress(-1)
    )
    return folder, docs


def test_a_corpus_is_a_sequence_of_its_documents(made):
    folder, docs = made
    corpus = Corpus.open(folder / "c.zarr")
    assert len(corpus) == 300 and corpus.ids.to_pylist() == [
        *(d["id"] for d in docs[:10] + docs[20:] + docs[10:20])
    ]
    assert sorted(corpus.words.to_pylist()) == sorted(WORDS)
    assert (
        repr(corpus).startswith("Corpus(")
        and "300 documents" in repr(corpus)
        and "held out" in repr(corpus)
    )
    page = corpus._repr_html_()
    assert "<td>heldout</td>" in page and page.count("<tr>") == 3 and "metadata: " in page
    wanted = cells_by_id(folder / "c.zarr")
    by_id = {d["id"]: d for d in docs}
    for document in corpus:
        part, cells = wanted[document.id]
        assert document.part == part
        assert dict(zip(document.words, document.counts.tolist())) == cells
        assert document.metadata["authors"] == by_id[document.id]["who"]
        assert document.metadata["date"] == str(by_id[document.id]["year"])
    listed = [d.id for d in corpus]
    assert [d.id for d in corpus[3:9:2]] == listed[3:9:2] and [
        d.id for d in corpus[::-1]
    ] == listed[::-1]
    assert corpus[-1].id == listed[-1] and corpus[0].words == next(iter(corpus)).words
    assert (
        corpus[5:5] == []
        and corpus[7] in corpus
        and corpus.index(corpus[7]) == 7
        and len({corpus[1], *corpus[:3]}) == 3
    )
    with pytest.raises(IndexError):
        corpus[300]


def test_documents_come_as_arrow_and_as_a_matrix(made):
    folder, _ = made
    corpus = Corpus.open(folder / "c.zarr")
    batches = list(corpus.documents(["authors"]))
    assert batches[0].schema.names == ["id", "authors", "part", "words", "counts"]
    assert isinstance(batches[0], pa.RecordBatch) and sum(map(len, batches)) == 300
    sparse = pytest.importorskip("scipy.sparse")
    matrix = corpus.to_scipy()
    assert isinstance(matrix, sparse.csr_array) and matrix.shape == (300, len(WORDS))
    assert matrix.sum() == corpus.n_tokens + corpus.part(True).tokens
    held = corpus.to_scipy(parts=("heldout",))
    assert held.shape[0] == sum(b.num_rows for b in corpus.documents(parts="heldout")) > 0
    with pytest.raises(UsageError, match="parts must be of train, heldout, not test"):
        corpus.to_scipy(parts="test")


def test_replaced_documents_are_not_inferred_twice(made):
    folder, docs = made
    corpus = Corpus.open(folder / "c.zarr")
    model = TopicModel.open(folder / "model")
    assert len(topicstream.infer(model, corpus, progress=False)) == len(docs)


def test_a_store_without_a_table_of_documents(tmp_path):
    from tests.small_store import store

    corpus = store(tmp_path / "c.zarr", counts(40), counts(7), WORDS)
    assert len(corpus) == 47 and corpus[41].id == "41" and corpus[41].part == "heldout"
    assert [d.id for d in corpus[38:43]] == ["38", "39", "40", "41", "42"]
    assert corpus[3].words == []


def test_a_model_shows_its_words(made):
    folder, _ = made
    model = TopicModel.open(folder / "model")
    assert (
        repr(model)
        == f"TopicModel({str(folder / 'model')!r}: 5 topics, 8 words, {model.manifest.engine})"
    )
    table = model.top_words(3, relevance=0.6)
    assert table.column_names == ["topic", "share", "words", "p", "kind"] and len(table) == 5
    p = model.topic_word
    assert p.shape == (5, 8) and np.allclose(p.sum(axis=1), 1, atol=1e-5)
    plain = model.top_words(2)
    best = np.argmax(p, axis=1)
    assert [w[0] for w in plain["words"].to_pylist()] == [model.words[int(i)] for i in best]
    assert np.allclose([v[0] for v in plain["p"].to_pylist()], p.max(axis=1))
    assert np.isclose(sum(table["share"].to_pylist()), 1)
    assert model.labels == {}
    best = model.typical_documents(
        p[:, 0].argmax(), 2, corpus=folder / "c.zarr"
    )  # a number of NumPy's
    assert best.column_names == ["id", "share"] and len(best) == 2


def test_the_html_of_a_model_is_escaped():
    model = TopicModel.from_arrays(
        np.eye(3), ["<script>", "b&b", "c"], 0.1, 0.01, labels={"1": "<i>"}
    )
    page = model._repr_html_()
    assert (
        "<script>" not in page
        and "&lt;script&gt;" in page
        and "b&amp;b" in page
        and "<b>&lt;i&gt;</b>" in page
    )


def test_a_model_answers(made):
    folder, docs = made
    model = TopicModel.open(folder / "model")
    given = [d["text"] for d in docs[:30]] + [""]
    theta = model.transform(given)
    assert (
        theta.shape == (31, 5)
        and theta.dtype == np.float32
        and np.allclose(theta.sum(axis=1), 1, atol=1e-5)
    )
    assert np.array_equal(np.array(model.infer(given)["shares"].to_pylist(), np.float32), theta)
    batches = list(model.theta(iter(given), top=2))
    assert all(isinstance(b, pa.RecordBatch) for b in batches) and sum(map(len, batches)) == 31
    assert max(len(t) for b in batches for t in b.column("topics").to_pylist()) == 2
    whole = model.transform(Corpus.open(folder / "c.zarr"))
    assert whole.shape == (300, 5)


def test_words_are_strings_and_documents_may_be_lists_of_words(made, tmp_path):
    folder, _ = made
    model = TopicModel.open(folder / "model")
    number = {word: i for i, word in enumerate(model.vocabulary)}
    assert (
        model.words[0] == model.vocabulary[0]
        and number[model.words[3]] == 3
        and set(model.words) <= set(WORDS)
    )
    lists = [list(model.words[:3]) * 5, ["unknown"], []]
    shares = model.transform(lists)
    np.testing.assert_allclose(shares[0], model.transform([" ".join(lists[0])])[0], atol=1e-6)
    np.testing.assert_allclose(
        shares[1:], np.tile(model.alpha / model.alpha.sum(), (2, 1)), atol=1e-6
    )
    topicstream.ingest(
        [["lost", "bag", "bag"], ["late", "bag"]], tmp_path / "c.zarr", heldout=0, progress=False
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert {d.id: dict(zip(d.words, d.counts.tolist())) for d in corpus} == {
        "0": {"lost": 1, "bag": 2},
        "1": {"late": 1, "bag": 1},
    }
    with pytest.raises(InputError, match="only strings"):
        model.transform([["lost", 3]])
