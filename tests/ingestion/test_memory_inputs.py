"""Documents in memory: the same store as from a file, whatever they come in; streamed; what cannot
be meant is said.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import topicstream
from tests.ingest_tools import cells_by_id
from topicstream.base.errors import InputError, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.documents import read_documents
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.open.memory import as_inputs

ALL = {"min_df": 1, "max_df": 1.0, "heldout": 0, "stopwords": "none"}
WORDS = ["river", "stream", "delta", "theta", "topic", "corpus", "block", "model"]


def texts(n=200):
    rng = np.random.default_rng(1)
    return [" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), 12)) for _ in range(n)]


def counts(n=40):
    matrix = np.random.default_rng(2).poisson(0.8, (n, len(WORDS)))
    matrix[3] = 0
    return matrix


class Dataset:
    """What a Hugging Face dataset can do, as far as it is used."""

    def __init__(self, table, arrow=False, **classes):
        self.table = table
        self.arrow = arrow
        self.column_names = table.column_names
        self.features = {
            name: SimpleNamespace(**({"names": classes[name]} if name in classes else {}))
            for name in self.column_names
        }

    def with_format(self, name):
        return Dataset(self.table, name == "arrow")

    def __len__(self):
        return len(self.table)

    def __getitem__(self, rows):
        assert self.arrow
        return self.table.slice(rows.start, rows.stop - rows.start)

    def __iter__(self):
        raise AssertionError("a dataset is cut, not walked")


def forms(given):
    ids = [f"d{i}" for i in range(len(given))]
    dicts = [{"text": t, "id": i, "year": 2000 + n} for n, (t, i) in enumerate(zip(given, ids))]
    table = pa.Table.from_pylist(dicts)
    yield "dicts", dicts
    yield "generator", (d for d in dicts)
    yield "table", table
    yield "batch", table.to_batches()[0]
    yield "reader", table.to_reader(max_chunksize=7)
    yield "dataset", Dataset(table)
    yield "relation", duckdb.connect().from_arrow(table)
    for name in ("pandas", "polars"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        yield name, module.DataFrame(dicts)


def test_every_form_gives_the_store_of_the_file(tmp_path):
    given = texts()
    dicts = [{"text": t, "id": f"d{i}", "year": 2000 + i} for i, t in enumerate(given)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(d) + "\n" for d in dicts))
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "file.zarr", meta={"date": "year"}, **ALL)
    wanted = cells_by_id(tmp_path / "file.zarr")
    for name, documents in forms(given):
        store = tmp_path / f"{name}.zarr"
        summary = topicstream.ingest(
            documents, store, meta={"date": "year"}, piece_bytes=4096, **ALL
        )
        assert summary["documents"] == len(given), name
        assert cells_by_id(store) == wanted, name
        batches = list(read_documents(store, Corpus.open(store).manifest.docs, ["date"]))
        assert [d for _, b in batches for d in b.column("date").to_pylist()] == [
            str(2000 + i) for i in range(len(given))
        ]


def test_strings_are_numbered_and_an_append_numbers_on(tmp_path):
    topicstream.ingest(texts(30), tmp_path / "c.zarr", **ALL)
    summary = topicstream.ingest(iter(texts(20)), tmp_path / "c.zarr", append=True)
    assert summary["documents"] == 50 and summary["dropped_duplicates"] == 0
    assert set(cells_by_id(tmp_path / "c.zarr")) == {str(i) for i in range(50)}


def test_values_that_are_missing_and_ids_that_are_objects(tmp_path):
    ids = [uuid.uuid4(), Path("a/b"), np.int64(7)]
    given = [
        {"text": "ships", "id": name, "x": x}
        for name, x in zip(ids, (float("nan"), 1.5, datetime.date(2001, 2, 3)))
    ]
    topicstream.ingest(given, tmp_path / "c.zarr", meta=["x"], **ALL)
    found = [
        (document.id, document.metadata.get("x")) for document in Corpus.open(tmp_path / "c.zarr")
    ]
    assert found == list(zip(map(str, ids), (None, "1.5", "2001-02-03")))


@pytest.mark.quick("list-*", "iter-None")
@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan")])
@pytest.mark.parametrize("form", [list, tuple, iter, lambda given: np.array(given, object)])
def test_a_missing_text_is_a_document_without_words(tmp_path, missing, form):
    """A number among the documents is no option that is out of bounds."""
    summary = topicstream.ingest(form(["ships sail", missing]), tmp_path / "c.zarr", **ALL)
    assert summary["documents"] == 2
    assert cells_by_id(tmp_path / "c.zarr").keys() >= {"0"}
    (document, empty) = Corpus.open(tmp_path / "c.zarr")
    assert (document.id, empty.id, len(empty.words)) == ("0", "1", 0)
    with pytest.raises(InputError, match=r"documents\[1\]: is int, not a string or a dict"):
        topicstream.ingest(form(["ships sail", -3]), tmp_path / "d.zarr", **ALL)


def test_a_generator_is_not_read_ahead_of_the_pieces(tmp_path):
    made = 0

    def endless():
        nonlocal made
        for text in texts(3000):
            made += 1
            yield {"text": text, "id": "same"} if made == 2500 else text
            if made == 2600:
                yield 7

    with pytest.raises(InputError, match=r"documents\[2600\]: is int"):
        topicstream.ingest(endless(), tmp_path / "c.zarr", piece_bytes=2048, workers=2, **ALL)
    assert made < 2700


def test_an_interrupted_ingest_of_other_documents_is_forgotten(tmp_path):
    def broken():
        yield from texts(50)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            topicstream.ingest(
                broken(), tmp_path / "c.zarr", checkpoint_bytes=1, piece_bytes=512, **ALL
            )
    assert topicstream.ingest(texts(60), tmp_path / "c.zarr", **ALL)["documents"] == 60


def test_matrices_of_counts(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = counts()
    wanted = {
        str(d): {WORDS[w]: float(c) for w, c in enumerate(row) if c} for d, row in enumerate(matrix)
    }
    numbers = {w: i for i, w in enumerate(WORDS)}
    for i, (given, words) in enumerate(
        [
            (matrix, WORDS),
            (matrix.astype(float), np.array(WORDS)),
            (sparse.csr_matrix(matrix), numbers),
            (sparse.coo_array(matrix), pa.array(WORDS)),
            (sparse.csc_matrix(matrix.astype(np.float32)), dict(reversed(numbers.items()))),
            (matrix, pa.chunked_array([WORDS[:3], WORDS[3:]])),
        ]
    ):
        topicstream.ingest(given, tmp_path / f"{i}.zarr", vocabulary=words, piece_bytes=600, **ALL)
        assert {d: cells for d, (_, cells) in cells_by_id(tmp_path / f"{i}.zarr").items()} == wanted
    topicstream.ingest(
        sparse.csr_matrix(matrix.T), tmp_path / "t.zarr", vocabulary=WORDS, transpose=True, **ALL
    )
    assert {d: cells for d, (_, cells) in cells_by_id(tmp_path / "t.zarr").items()} == wanted
    topicstream.ingest(matrix > 0, tmp_path / "b.zarr", **{**ALL, "heldout": 0.0})
    assert Corpus.open(tmp_path / "b.zarr").to_scipy().sum() == (matrix > 0).sum()
    topicstream.ingest(
        matrix / 2, tmp_path / "w.zarr", vocabulary=WORDS, weighted=True, ids=range(100, 140), **ALL
    )
    assert Corpus.open(tmp_path / "w.zarr").weighted
    assert "139" in cells_by_id(tmp_path / "w.zarr")


@pytest.mark.parametrize(
    ("documents", "more", "match"),
    [
        ([1], {}, r"documents\[0\]: is int"),
        ({"text": "x"}, {}, "a list of dicts"),
        (b"x", {}, "cannot be bytes"),
        (7, {}, "cannot be int"),
        (SimpleNamespace(collect=None), {}, r"call .collect\(\) first"),
        ([], {}, "nothing to ingest"),
        ([Path("x"), "y"], {}, "not both"),
        (["x"], {"meta": np.array(["a", "b"])}, "id_field= and meta= need dicts"),
        ([{"body": "x"}], {}, r"no field 'text'"),
        ([{"text": 3}], {}, "is a number, not a string"),
        (["x"], {"vocabulary": ["x"]}, "requires a matrix"),
        ([["a", None]], {}, "None in a list of words"),
        ([("17", "a text")], {}, "a row of fields; give dicts"),
        ([["a"], "b"], {}, r"documents\[1\]: is str, not a list of words"),
        (pa.table({"body": ["x"]}), {}, "no column 'text'; choose one of body"),
        (
            pa.table({"text": ["x"], "y": pa.array([b"0123456789abcdef"], pa.uuid())}),
            {"meta": ["y"]},
            "as y; make it a string",
        ),
        (np.array([[-1]]), {}, "negative or not finite"),
        (np.array([[np.nan]]), {}, "negative or not finite"),
        (np.array([[0.5]]), {}, "or --weighted .of vectors: vectors=True"),
        (np.ones((2, 3)), {"vocabulary": ["a", "b"]}, "2 words for 3 columns"),
        (np.ones((2, 2)), {"vocabulary": ["a", "a"]}, "a word of its own"),
        (np.ones((2, 2)), {"vocabulary": {"a": 0, "b": 2}}, "one by one"),
        (np.ones((2, 2)), {"words": ["a", "b"]}, "given as vocabulary="),
        (np.ones((2, 2)), {"ids": [1]}, "1 for 2 documents"),
    ],
)
def test_what_cannot_be_meant_is_said(tmp_path, documents, more, match):
    with pytest.raises((InputError, UsageError), match=match):
        topicstream.ingest(documents, tmp_path / "c.zarr", **ALL, **more)
    assert not (tmp_path / "c.zarr").exists()


BATCH = pa.record_batch({"text": ["ships sail", "bread"], "by": ["a", "b"]})


@pytest.mark.parametrize(
    "documents",
    [
        [BATCH, pa.table(BATCH).slice(0, 0)],
        iter([BATCH.slice(0, 1), pa.table(BATCH.slice(1))]),
        (text.split() for text in ("ships sail", "bread")),
        np.array([["ships", "sail"], ["bread"]], object),
    ],
)
def test_batches_and_lists_of_words_one_after_the_other(tmp_path, documents):
    topicstream.ingest(documents, tmp_path / "c.zarr", **ALL)
    assert [words for _, words in cells_by_id(tmp_path / "c.zarr").values()] == [
        {"ships": 1, "sail": 1},
        {"bread": 1},
    ]


def test_a_name_of_a_file_in_a_list_is_pointed_out(tmp_path):
    (tmp_path / "a.txt").write_text("river")
    with pytest.raises(InputError, match="is a file, and a str in a list a document: give Path"):
        topicstream.ingest([str(tmp_path / "a.txt")], tmp_path / "c.zarr", **ALL)


def test_a_name_of_a_file_that_would_be_read_as_text_is_pointed_out(tmp_path):
    (tmp_path / "a.txt").write_text("river")
    with pytest.raises(InputError, match="is a file, and a str a document: give Path"):
        as_inputs(str(tmp_path / "a.txt"), path=False)
    assert as_inputs(str(tmp_path / "b.txt"), path=False).documents == [str(tmp_path / "b.txt")]


def test_bad_documents_are_skipped_on_request(tmp_path):
    given = [*texts(20), {"text": 3}, 4, *texts(5)]
    assert topicstream.ingest(given, tmp_path / "c.zarr", on_error="skip", **ALL)["rejected"] == 2


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    topicstream.ingest(texts(), folder / "c.zarr", **ALL)
    topicstream.train(
        folder / "c.zarr", folder / "model", topics=4, passes=3, progress=Progress(-1)
    )
    return folder


def test_infer_answers_in_arrow_what_it_writes_to_files(model, tmp_path):
    import pyarrow.parquet as pq

    given = texts(50)
    table = topicstream.infer(model / "model", given)
    assert (
        table.column_names == ["id", "topics", "shares", "tokens", "oov_rate", "flag"]
        and len(table) == 50
    )
    topicstream.infer(model / "model", iter(given), out=tmp_path / "t.parquet")
    written = pq.read_table(tmp_path / "t.parquet")
    assert table.to_pylist() == written.to_pylist()
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in given))
    assert topicstream.infer(model / "model", tmp_path / "a.jsonl")["shares"].equals(
        table["shares"]
    )
    store = topicstream.infer(model / "model", Corpus.open(model / "c.zarr"))
    assert store.slice(0, 50)["shares"].to_pylist() == table["shares"].to_pylist()


def test_a_string_is_a_document_whatever_file_it_names(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("river").write_text("delta delta delta")
    (one,) = topicstream.infer(model / "model", "river", top=1).to_pylist()
    assert one["tokens"] == 1 and one["id"] == "0"
    with pytest.raises(InputError, match="no documents"):
        topicstream.infer(model / "model", [])


def test_infer_takes_matrices(model):
    matrix = counts()
    table = topicstream.infer(model / "model", matrix, vocabulary=WORDS)
    text = [" ".join(w for w, c in zip(WORDS, row) for _ in range(c)) for row in matrix]
    assert table["shares"].equals(topicstream.infer(model / "model", text)["shares"])
    assert table["flag"][3].as_py() == "empty"


def test_a_matrix_without_names_of_its_columns_is_no_answer_from_the_prior(model):
    """Its words would be numbers, which a model of words does not know."""
    opened = topicstream.TopicModel.open(model / "model")
    with pytest.raises(InputError, match=r"knows none of its words \(0, .*vocabulary="):
        opened.transform(counts())
    assert opened.transform(counts(), vocabulary=WORDS).std() > 0.01


class Streaming:
    """An object with Arrow's PyCapsule stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_an_arrow_stream_is_enough(tmp_path):
    table = pa.table({"id": ["x", "y", "z"], "text": ["a big dog", "a cat", "two dogs"]})
    for name, documents in {
        "whole": Streaming(table),
        "parts": [Streaming(table[:1]), Streaming(table[1:])],
    }.items():
        out = tmp_path / f"{name}.zarr"
        topicstream.ingest(documents, out, min_df=1, heldout=0, progress=False)
        assert [document.id for document in Corpus.open(out)] == ["x", "y", "z"]


def test_categories_of_polars(tmp_path):
    """They are dictionaries of string views, which Arrow does not decode."""
    kinds = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 1]), pa.array(["x", "y"], pa.string_view())
    )
    table = pa.table({"text": pa.chunked_array([["a big dog"] * 4]), "kind": kinds})
    topicstream.ingest(table, tmp_path / "c.zarr", meta="kind", min_df=1, heldout=0, progress=False)
    assert [d.metadata.get("kind") for d in Corpus.open(tmp_path / "c.zarr")] == [
        "x",
        "y",
        None,
        "y",
    ]


NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
import topicstream
print(topicstream.ingest(["ships sail", "bread"], sys.argv[1], min_df=1, heldout=0)["documents"])
"""


@pytest.mark.product
def test_a_notebook_without_widgets(tmp_path):
    """DuckDB draws its bars with ipywidgets there; without them it refuses even to turn
    them off.
    """
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, str(tmp_path / "c.zarr")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_classes_of_a_dataset_are_named(tmp_path):
    dataset = Dataset(
        pa.table({"text": ["ships", "bread", "sail"], "label": [1, 0, -1]}), label=["food", "sea"]
    )
    topicstream.ingest(dataset, tmp_path / "c.zarr", meta={"labels": "label"}, **ALL)
    assert [document.metadata.get("labels") for document in Corpus.open(tmp_path / "c.zarr")] == [
        ["sea"],
        ["food"],
        [],
    ]


def test_a_matrix_in_dictionary_form(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(counts())
    topicstream.ingest(matrix.todok(), tmp_path / "c.zarr", heldout=0, progress=False)
    assert Corpus.open(tmp_path / "c.zarr").to_scipy().sum() == matrix.sum()
