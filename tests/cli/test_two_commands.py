"""A command beside another that replaces what it reads; and what replacing leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import topicstream
from topicstream import Corpus, TopicModel, ingest
from topicstream.base.errors import StoreError, TopicsError
from topicstream.cli.main import run


def texts(path: Path, seed: int, docs: int = 60) -> Path:
    rng = np.random.default_rng(seed)
    lines = [
        json.dumps({"text": " ".join(f"w{n}" for n in rng.integers(0, 50, 40))})
        for _ in range(docs)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ingest(texts(tmp_path / "a.jsonl", 1), tmp_path / "corpus.zarr", min_df=1, progress=False)
    topicstream.train("corpus.zarr", "model", topics=3, passes=5, progress=False)
    assert run(["export", "--out", "other.parquet", "-q"]) == 0
    return tmp_path


def test_an_import_over_a_trained_model_leaves_nothing_of_it(folder, capsys):
    assert run(["import", "other.parquet"]) == 1  # without --force
    assert run(["import", "other.parquet", "--force", "-q"]) == 0
    assert not {"history.jsonl", "training.json", "finished.json", "checkpoints", "work"} & set(
        os.listdir("model")
    )
    assert not (folder / "model.import").exists()
    capsys.readouterr()
    for command in ("show", "info model --verify", "eval --heldout"):
        assert run(command.split()) == 0, command


def test_an_import_over_a_model_stops_at_what_is_not_ours(folder):
    (folder / "model" / "mine.txt").write_text("mine")
    assert run(["import", "other.parquet", "--force"]) == 3
    assert (folder / "model" / "mine.txt").read_text() == "mine"
    assert TopicModel.open("model").manifest.engine != "imported"


def test_an_imported_model_is_not_updated(folder, capsys):
    assert run(["import", "other.parquet", "--model", "foreign", "-q"]) == 0
    assert run(["update", "--model", "foreign"]) == 2
    said = capsys.readouterr().err
    assert "was imported" in said and "--start warm" in said and said.count("\n") == 1


def test_a_reader_of_a_store_that_was_replaced_says_so(folder):
    """With blocks of its own decoded before, and others after another ingest took the place."""
    corpus = Corpus.open("corpus.zarr")
    corpus.decode(0)
    ingest(
        texts(folder / "b.jsonl", 2, docs=90),
        folder / "corpus.zarr",
        min_df=1,
        force=True,
        progress=False,
    )
    with pytest.raises(TopicsError, match="the store was rewritten while it was read") as replaced:
        corpus.decode(0)
    assert replaced.value.exit_code == 4 and not isinstance(replaced.value, StoreError)
    assert len(Corpus.open("corpus.zarr").decode(0).lengths) > 0


def test_counts_as_scikit_learn_takes_them(folder):
    cluster = pytest.importorskip("sklearn.cluster")
    corpus = Corpus.open("corpus.zarr")
    matrix = corpus.to_scipy()
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    rows = [len(row) for batch in corpus.documents([]) for row in batch.column("words")]
    assert np.diff(matrix.indptr).tolist() == rows
    assert len(cluster.KMeans(3, n_init=1).fit(matrix).labels_) == len(rows)
