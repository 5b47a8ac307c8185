"""topics infer: raw files, pipes, every format of output."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topicstream
from tests import few_quick
from tests.small_store import planted, store
from topicstream.base.errors import StoreError
from topicstream.cli.main import run
from topicstream.inference.output import (
    CsvAnswers,
    JsonAnswers,
    Lists,
    answer_batch,
    answer_schema,
    select_topics,
)
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.topic_model import TopicModel

W = 60
K = 5
D = 40
ALPHA = np.linspace(0.05, 0.3, K)
WORDS = [f"word{i}" for i in range(W)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(counts [D, W], folder with a model that knows 50 of the 60 words, a store and the same
    documents as text).
    """
    folder = tmp_path_factory.mktemp("infer")
    matrix, phi = planted(11, D, W, K, length=30)
    model = TopicModel.from_arrays(
        np.floor(phi * 2000)[:50],
        WORDS[:50],
        ALPHA,
        0.01,
        tokenizer=Recipe().to_json(),
        engine="test",
    )
    model.save(folder / "model")
    store(folder / "c.zarr", matrix, matrix[:1], WORDS, ids=True)
    with open(folder / "d.jsonl", "w", encoding="utf-8") as f:
        for d, row in enumerate(matrix):
            text = " ".join(np.repeat(WORDS, row)) + ". The, unknown!"
            f.write(json.dumps({"id": f"train-{d}", "text": text}) + "\n")
    return matrix, folder


def topics(folder, *args) -> int:
    return run(["infer", "--model", str(folder / "model"), *map(str, args)])


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read(path) -> dict[str, dict]:
    """id -> {topics, shares, tokens, oov_rate, flag} of any of the formats, in the file's order."""
    if path.suffix == ".parquet":
        return {r.pop("id"): r for r in pq.read_table(path).to_pylist()}
    if path.suffix == ".jsonl":
        return {r.pop("id"): r for r in lines(path)}
    out: dict[str, dict] = {}
    with open(path, newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            about = {
                "tokens": float(r["tokens"]),
                "oov_rate": float(r["oov_rate"]),
                "flag": r["flag"] or None,
            }
            row = out.setdefault(r["id"], {"topics": [], "shares": [], **about})
            if r["topic"]:
                row["topics"].append(int(r["topic"]))
                row["shares"].append(float(r["share"]))
    return out


@pytest.mark.parametrize(
    "choice", [(), ("--top", 2), ("--min-prob", 0.4), ("--top", 2, "--min-prob", 0.3)]
)
def test_all_formats_say_the_same(made, tmp_path, choice):
    _, folder = made
    found = []
    for suffix in ("parquet", "jsonl", "csv"):
        assert (
            topics(folder, folder / "d.jsonl", "-o", tmp_path / f"t.{suffix}", "-q", *choice) == 0
        )
        found.append(read(tmp_path / f"t.{suffix}"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.jsonl", "t.parquet"]
    first = found[0]
    assert list(first) == [f"train-{d}" for d in range(D)] == list(found[1]) == list(found[2])
    for other in found[1:]:
        for name, row in first.items():
            assert other[name]["topics"] == row["topics"] and other[name]["flag"] == row["flag"]
            assert np.array_equal(
                np.array(other[name]["shares"], np.float32), np.array(row["shares"], np.float32)
            )
            assert other[name]["tokens"] == row["tokens"]
            assert other[name]["oov_rate"] == pytest.approx(row["oov_rate"], abs=1e-9)
    if not choice:
        assert all(
            r["topics"] == list(range(K)) and sum(r["shares"]) == pytest.approx(1)
            for r in first.values()
        )
    if "--top" in choice:
        assert all(len(r["topics"]) <= 2 for r in first.values())
    if "--min-prob" in choice:
        assert all(s >= choice[-1] for r in first.values() for s in r["shares"])
        assert any(len(r["topics"]) != 1 for r in first.values())


def test_text_and_store_get_the_same_answer_for_any_threads(made, tmp_path):
    matrix, folder = made
    outs = []
    for name, source, threads in (("a", "d.jsonl", 1), ("b", "d.jsonl", 3), ("c", "c.zarr", 2)):
        part = ("--part", "train") if source == "c.zarr" else ()
        assert (
            topics(
                folder,
                folder / source,
                "-o",
                tmp_path / f"{name}.jsonl",
                "--threads",
                threads,
                *part,
            )
            == 0
        )
        outs.append(lines(tmp_path / f"{name}.jsonl"))
    assert outs[0] == outs[1]
    assert [r["shares"] for r in outs[0]] == [r["shares"] for r in outs[2]]
    for row, x in zip(outs[0], matrix, strict=True):
        assert row["tokens"] == x.sum() + 1  # "the" is a stop word, "unknown" a word
        assert row["oov_rate"] == pytest.approx((x[50:].sum() + 1) / (x.sum() + 1), abs=1e-8)


def test_empty_and_unknown_documents_and_the_summary(made, tmp_path, capsys):
    _, folder = made
    text = tmp_path / "t.txt"
    text.write_text("word1 word1 word2\n\nzebra giraffe\nword59\n", encoding="utf-8")
    assert topics(folder, text, "-o", tmp_path / "t.jsonl", "--json", "--top", 1) == 0
    summary = json.loads(capsys.readouterr().out)
    assert {
        k: summary[k] for k in ("documents", "empty", "unknown", "rejected", "tokens", "oov_tokens")
    } == {
        "documents": 4,
        "empty": 1,
        "unknown": 2,
        "rejected": 0,
        "tokens": 6.0,
        "oov_tokens": 3.0,
    }
    rows = lines(tmp_path / "t.jsonl")
    assert [r["flag"] for r in rows] == [None, "empty", "unknown", "unknown"]
    assert [r["id"] for r in rows] == [f"t.txt:{i}" for i in (1, 2, 3, 4)]
    assert rows[1]["shares"] == rows[2]["shares"] == [pytest.approx(ALPHA[-1] / ALPHA.sum())]


def test_bad_records_stop_or_are_left_out(made, tmp_path, capsys):
    _, folder = made
    bad = tmp_path / "b.jsonl"
    bad.write_text('{"text": "word1"}\n{"text": \n{"text": "word2"}\n', encoding="utf-8")
    assert topics(folder, bad, "-o", tmp_path / "t.jsonl") == 3
    assert "b.jsonl:2" in capsys.readouterr().err and not (tmp_path / "t.jsonl").exists()
    assert topics(folder, bad, "-o", tmp_path / "t.jsonl", "--on-error", "skip") == 0
    assert "1 records rejected" in capsys.readouterr().err and len(lines(tmp_path / "t.jsonl")) == 2
    assert topics(folder, bad, "-o", tmp_path / "u.jsonl", "--on-error", "skip", "-q") == 0
    assert capsys.readouterr().err == "warning: 1 records rejected\n"


def test_a_file_is_not_replaced_without_being_asked(made, tmp_path, capsys):
    _, folder = made
    out = tmp_path / "t.csv"
    out.write_text("mine")
    assert topics(folder, folder / "d.jsonl", "-o", out) == 1
    assert out.read_text() == "mine" and "--force" in capsys.readouterr().err
    for _ in range(2):
        assert topics(folder, folder / "d.jsonl", "-o", out, "--force") == 0
    assert len(read(out)) == D


def test_a_model_that_there_is_not_is_said(tmp_path):
    with pytest.raises(StoreError, match="no model here"):
        topicstream.infer(tmp_path / "missing", ["some text"], progress=False)


def test_the_library_writes_to_a_stream(made, tmp_path):
    _, folder = made
    with open(tmp_path / "s", "wb") as stream:
        summary = topicstream.infer(
            folder / "model", folder / "d.jsonl", out=stream, method="vb", options={"sparse": 2}
        )
    assert summary["method"] == "vb" and summary["documents"] == D == len(lines(tmp_path / "s"))


def test_a_model_of_counts_says_that_it_cannot_read_text(made, tmp_path, capsys):
    _, folder = made
    model = TopicModel.open(folder / "model")
    model.save(tmp_path / "model", tokenizer=None)
    assert topics(tmp_path, folder / "d.jsonl", "-o", tmp_path / "t.csv") == 3
    assert "how its text was tokenised" in capsys.readouterr().err
    (tmp_path / "x.dat").write_text("2 1:3 0:1\n1 2:1\n")
    (tmp_path / "words.txt").write_text("word4\nword9\nnever\n")
    args = ("--format", "ldac", "--words", tmp_path / "words.txt", "-o", tmp_path / "t.jsonl")
    assert topics(tmp_path, tmp_path / "x.dat", *args) == 0
    assert [(r["tokens"], r["flag"]) for r in lines(tmp_path / "t.jsonl")] == [
        (4.0, None),
        (1.0, "unknown"),
    ]


def test_weighted_cells(made, tmp_path):
    _, folder = made
    (tmp_path / "x.svm").write_text("1 1:0.5 3:2.25\n1 2:0.25 3:1\n")
    (tmp_path / "words.txt").write_text("word4\nword9\nnever\n")
    topicstream.ingest(
        tmp_path / "x.svm",
        tmp_path / "w.zarr",
        weighted=True,
        vocab=str(tmp_path / "words.txt"),
        heldout=0,
    )
    raw = (tmp_path / "x.svm", "--weighted", "--words", tmp_path / "words.txt")
    for method in ("bp", "gibbs"):
        assert topics(folder, *raw, "-o", tmp_path / f"{method}.jsonl", "--method", method) == 0
        rows = lines(tmp_path / f"{method}.jsonl")
        assert [(r["tokens"], r["oov_rate"]) for r in rows] == [(2.75, 2.25 / 2.75), (1.25, 0.8)]
        assert (
            topics(
                folder, tmp_path / "w.zarr", "-o", tmp_path / f"{method}2.jsonl", "--method", method
            )
            == 0
        )
        assert lines(tmp_path / f"{method}2.jsonl") == rows


@pytest.mark.parametrize("form", few_quick(["jsonl", "lines"], ["jsonl"]))
def test_follow_answers_a_line_before_the_next_is_sent(made, form):
    _, folder = made
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "infer",
        "-",
        "--follow",
        "--top",
        "1",
        "-q",
    ]
    environment = {**os.environ, "TOPICS_MODEL": str(folder / "model")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for number, word in enumerate(("word3", "word7", "word3"), 1):
            line = json.dumps({"text": word}) if form == "jsonl" else word
            process.stdin.write(line[:4].encode())
            process.stdin.flush()
            process.stdin.write(line[4:].encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (
                answer["id"] == f"stdin:{number}"
                and answer["tokens"] == 1.0
                and answer["flag"] is None
            )
        last = json.dumps({"text": "word9 word9"}) if form == "jsonl" else "word9 word9"
        process.stdin.write(last.encode())
        process.stdin.close()  # a last line without its break is a document too
        assert json.loads(process.stdout.readline())["tokens"] == 2.0
        assert process.stdout.read() == b"" and process.wait(600) == 0


def test_follow_refuses_what_it_cannot_do(made, tmp_path, capsys):
    _, folder = made
    for args, said in (
        ((folder / "d.jsonl", "--follow"), "reads standard input"),
        (("-", "--follow", "-o", tmp_path / "t.jsonl"), "standard output"),
        (
            ("-", "--follow", "--method", "gibbs", "--joint"),
            "--method gibbs with these options needs all documents",
        ),
    ):
        assert topics(folder, *args) == 2
        assert said in capsys.readouterr().err


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12))
def test_shares_as_text_read_back_as_the_same_numbers(values):
    shares = np.array(values, np.float32)
    lists = Lists(np.array([0, len(shares)]), np.arange(len(shares), dtype=np.int32), shares)
    schema = answer_schema(facts=False)
    answers = answer_batch(schema, pa.array(["a"]), lists)
    row = json.loads(JsonAnswers(io.BytesIO(), schema).encode(answers))
    assert (np.array(row["shares"], np.float32) == shares).all()
    table = list(
        csv.reader(bytes(CsvAnswers(io.BytesIO(), schema).encode(answers)).decode().splitlines())
    )
    assert (np.array([r[2] for r in table]).astype(np.float32) == shares).all()


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=5))
def test_any_id_survives_the_text(names):
    lists = select_topics(np.full((len(names), 2), 0.5, np.float32))
    flags = np.arange(len(names)).astype(np.uint8) % 3
    facts = [pa.array(np.full(len(names), 7.0)), pa.array(np.full(len(names), 0.25))]
    facts.append(pa.array([(None, "empty", "unknown")[f] for f in flags], pa.string()))
    schema = answer_schema(facts=True)
    answers = answer_batch(schema, pa.array(names, pa.large_string()), lists, facts)
    rows = [
        json.loads(line)
        for line in JsonAnswers(io.BytesIO(), schema).encode(answers).decode().split("\n")[:-1]
    ]
    assert [r["id"] for r in rows] == names and all(
        r["tokens"] == 7 and r["oov_rate"] == 0.25 for r in rows
    )
    assert [r["flag"] for r in rows] == [(None, "empty", "unknown")[f] for f in flags]
    text = bytes(CsvAnswers(io.BytesIO(), schema).encode(answers)).decode()
    # the module csv reads a line break within quotes from a stream that keeps it
    table = list(csv.reader(io.StringIO(text, newline="")))
    assert [r[0] for r in table[::2]] == names and [r[5] for r in table[::2]] == [
        ("", "empty", "unknown")[f] for f in flags
    ]


@given(st.integers(1, 9), st.sampled_from([None, 0.0, 0.05, 0.3]), st.integers(0, 2**32 - 1))
def test_keep_is_a_stable_sort(top, least, seed):
    shares = np.random.default_rng(seed).integers(0, 5, (4, 6)).astype(np.float32) / 10
    found = select_topics(shares, top, least)
    for d, row in enumerate(shares):
        order = [
            k
            for k in np.argsort(-row, kind="stable")
            if least is None or row[k] >= np.float32(least)
        ][:top]
        assert found.topics[found.offsets[d] : found.offsets[d + 1]].tolist() == order
        assert found.shares[found.offsets[d] : found.offsets[d + 1]].tolist() == row[order].tolist()
