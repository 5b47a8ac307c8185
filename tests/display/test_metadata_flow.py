"""Titles, dates and other columns in show, theta and infer; scores of single documents."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.report_fixtures import model_options
from topicstream.base.errors import InputError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.display.show import show
from topicstream.evaluation.completion import score_model
from topicstream.model.topic_model import TopicModel


def test_theta_with_columns_of_all_documents(model_and_rows, tmp_path, capsys):
    folder, rows = model_and_rows
    args = ["show", *model_options(folder), "--with", "title,labels,party"]
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
    assert (
        run(["show", *model_options(folder), "--with", "venue", "--theta", str(tmp_path / "x.csv")])
        == 2
    )
    assert not (tmp_path / "x.csv").exists()


def test_infer_with_columns_from_store_and_raw_text(model_and_rows, tmp_path):
    folder, rows = model_and_rows
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


def test_show_documents_with_titles(model_and_rows):
    folder, rows = model_and_rows
    for topic in show(
        folder / "model", folder / "corpus.zarr", docs=3, with_columns=["date", "party"]
    )["topics"]:
        for d in topic["documents"]:
            assert d["date"] == rows[d["id"]]["date"] and d.get("party") == rows[d["id"]]["party"]


def test_scores_of_documents_add_up(model_and_rows, tmp_path, capsys):
    folder, _ = model_and_rows
    out = tmp_path / "d.csv"
    args = ["eval", *model_options(folder), "--heldout", "--per-document", str(out)]
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
        run(
            [
                "eval",
                *model_options(folder),
                "--coherence",
                "--per-document",
                str(tmp_path / "e.csv"),
            ]
        )
        == 2
    )


def test_columns_that_came_with_an_append(tmp_path, monkeypatch, capsys):
    """The documents before it have no value, and no view fails for it."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(2)
    words = [f"word{i}" for i in range(30)]
    texts = [" ".join(draw.choice(words, 12)) for _ in range(60)]
    before = [{"id": f"a{i}", "text": text} for i, text in enumerate(texts[:30])]
    after = [
        {"id": f"b{i}", "text": text, "side": "LR"[i % 2], "date": str(2001 + i % 3)}
        for i, text in enumerate(texts[30:])
    ]
    topicstream.ingest(before, "corpus.zarr", heldout=0, min_df=1, max_df=1.0, progress=False)
    topicstream.ingest(after, "corpus.zarr", append=True, meta=["side", "date"], progress=False)
    topicstream.train("corpus.zarr", "model", topics=2, passes=3, progress=False)
    for number, columns in enumerate((None, ["side"])):
        rows = [row for b in Corpus.open("corpus.zarr").documents(columns) for row in b.to_pylist()]
        sides = {row["id"]: row["side"] for row in rows}
        wanted = {f"a{i}": None for i in range(30)} | {f"b{i}": "LR"[i % 2] for i in range(30)}
        assert sides == wanted, number
    assert run(["show", "--by", "side", "--json"]) == 0
    groups = {row["group"]: row["documents"] for row in json.loads(capsys.readouterr().out)}
    assert groups == {"L": 15, "R": 15}
    assert run(["show", "--over-time", "--by", "side"]) == 0
    assert run(["show", "--theta", "theta.csv", "--with", "side", "--part", "all"]) == 0
    with open("theta.csv", newline="") as file:
        assert {row["id"]: row["side"] or None for row in csv.DictReader(file)} == wanted
