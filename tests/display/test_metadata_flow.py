"""Titles, dates and other columns in show, theta and infer; scores of single documents."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.report_store import made, planted_model
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display.show import show
from topicstream.evaluation.completion import score_model
from topicstream.model.topic_model import TopicModel


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flow")
    corpus, rows = made(folder, 300)
    planted_model(corpus, folder / "model")
    return folder, {r["id"]: r for r in rows}


def paths(home):
    return ["--model", str(home / "model"), "--corpus", str(home / "corpus.zarr")]


def test_theta_with_columns_of_all_documents(home, tmp_path, capsys):
    folder, rows = home
    args = ["show", *paths(folder), "--with", "title,labels,party"]
    out = tmp_path / "t.parquet"
    assert run([*args, "--theta", str(out), "--part", "all"]) == 0
    table = pq.read_table(out).to_pylist()
    assert {r["id"] for r in table} == set(rows)
    assert all(
        r["title"] == rows[r["id"]]["title"] and r["labels"] == rows[r["id"]]["labels"]
        for r in table
    )
    assert all(r["party"] == rows[r["id"]]["party"] for r in table)
    assert run([*args, "--theta", str(tmp_path / "t.csv"), "--top", "1"]) == 0
    assert "held-out documents are left out" in capsys.readouterr().err
    with open(tmp_path / "t.csv", newline="") as f:
        listed = list(csv.DictReader(f))
    assert len(listed) == Corpus.open(folder / "corpus.zarr").n_docs
    assert all(
        r["title"] == rows[r["id"]]["title"] and r["labels"] == ";".join(rows[r["id"]]["labels"])
        for r in listed
    )
    assert run([*args, "--theta", str(tmp_path / "t.jsonl")]) == 0
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])
    assert first["title"] == rows[first["id"]]["title"] and list(first) == [
        "id",
        "topics",
        "shares",
        "title",
        "labels",
        "party",
    ]
    assert run(["show", *paths(folder), "--with", "venue", "--theta", str(tmp_path / "x.csv")]) == 2
    assert not (tmp_path / "x.csv").exists()


def test_infer_with_columns_from_store_and_raw_text(home, tmp_path):
    folder, rows = home
    plain = topicstream.infer(folder / "model", folder / "corpus.zarr")
    table = topicstream.infer(
        folder / "model", folder / "corpus.zarr", with_columns=["date", "labels"]
    )
    assert table.drop_columns(["date", "labels"]).equals(plain)
    assert all(
        r["date"] == rows[r["id"]]["date"] and r["labels"] == rows[r["id"]]["labels"]
        for r in table.to_pylist()
    )
    lines = tmp_path / "lines.txt"
    lines.write_text("some text\n")
    without = topicstream.infer(
        folder / "model", lines, with_columns=["title", "labels"]
    ).to_pylist()
    assert [(r["title"], r["labels"]) for r in without] == [(None, None)]
    raw = topicstream.infer(
        folder / "model", folder / "docs.jsonl", with_columns=["title", "party"]
    )
    assert [r["title"] for r in raw.to_pylist()] == [r["title"] for r in rows.values()]
    assert [r["party"] for r in raw.to_pylist()] == [r["party"] for r in rows.values()]
    out = tmp_path / "o.jsonl"
    assert (
        run(
            [
                "infer",
                str(folder / "corpus.zarr"),
                "--model",
                str(folder / "model"),
                "--out",
                str(out),
                "--with",
                "title",
            ]
        )
        == 0
    )
    assert all(
        json.loads(line)["title"] == rows[json.loads(line)["id"]]["title"]
        for line in out.read_text().splitlines()
    )
    with pytest.raises(InputError, match="no such column"):
        topicstream.infer(folder / "model", folder / "corpus.zarr", with_columns=["row"])


def test_show_documents_with_titles(home):
    folder, rows = home
    for topic in show(
        folder / "model", folder / "corpus.zarr", docs=3, with_columns=["date", "party"]
    )["topics"]:
        for d in topic["documents"]:
            assert d["date"] == rows[d["id"]]["date"] and d.get("party") == rows[d["id"]]["party"]


def test_scores_of_documents_add_up(home, tmp_path, capsys):
    folder, _ = home
    out = tmp_path / "d.csv"
    args = ["eval", *paths(folder), "--heldout", "--per-document", str(out)]
    assert run(args) == 0 and run(args) == 1 and run([*args, "--force"]) == 0
    table = pc.read_csv(out)
    score = score_model(TopicModel.open(folder / "model"), Corpus.open(folder / "corpus.zarr"))
    tokens = np.array(table["tokens"])
    loglik = np.array(table["loglik"])
    assert tokens.sum() == score.tokens and np.exp(
        -np.nansum(loglik) / tokens.sum()
    ) == pytest.approx(score.perplexity)
    assert np.allclose(np.array(table["perplexity"]), np.exp(-loglik / tokens), equal_nan=True)
    assert (
        run(["eval", *paths(folder), "--coherence", "--per-document", str(tmp_path / "e.csv")]) == 2
    )
