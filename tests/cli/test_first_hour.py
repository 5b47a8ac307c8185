"""What a new user stumbles over between the commands: the model knows how its corpus was read, and
whose corpus it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ingest_tools import documents, write_jsonl
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and a model of documents whose text is called body and whose id
    docno.
    """
    folder = tmp_path_factory.mktemp("own")
    rows = [{"docno": 1000 + i, "body": d["text"]} for i, d in enumerate(documents(150))]
    write_jsonl(folder / "a.jsonl", rows)
    assert (
        run(
            [
                "ingest",
                str(folder / "a.jsonl"),
                "--text-field",
                "body",
                "--id-field",
                "docno",
                "--out",
                str(folder / "c.zarr"),
                "--min-df",
                "1",
            ]
        )
        == 0
    )
    train = [
        "train",
        "--corpus",
        str(folder / "c.zarr"),
        "--model",
        str(folder / "m"),
        "-K",
        "3",
        "--passes",
        "2",
    ]
    assert run([*train, "--algo", "atbp", "-q"]) == 0
    return folder


def test_the_model_remembers_the_fields_of_its_corpus(own, tmp_path, capsys):
    model = str(own / "m")
    raw = str(own / "a.jsonl")
    capsys.readouterr()
    assert run(["infer", raw, "--model", model]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert str(first["id"]) == "1000"
    assert run(["eval", "--model", model, "--heldout", raw, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["heldout"]["docs"] > 100
    write_jsonl(
        tmp_path / "b.jsonl", [{"body": "bax kex"}, {"docno": 7, "body": "bax"}]
    )  # an id that is missing does no harm
    assert run(["infer", str(tmp_path / "b.jsonl"), "--model", model]) == 0
    ids = [str(json.loads(line)["id"]) for line in capsys.readouterr().out.splitlines()]
    assert ids == ["b.jsonl:1", "7"]
    write_jsonl(tmp_path / "t.jsonl", [{"id": "x", "words": "bax kex"}])
    assert run(["infer", str(tmp_path / "t.jsonl"), "--model", model]) == 3
    assert "no field 'body'" in capsys.readouterr().err
    assert run(["infer", str(tmp_path / "t.jsonl"), "--model", model, "--text-field", "words"]) == 0
    assert run(
        ["eval", "--model", model, "--heldout", str(tmp_path / "t.jsonl"), "--text-field", "words"]
    ) in (0, 3)
    assert (
        run(["eval", "--model", model, "--corpus", str(own / "c.zarr"), "--text-field", "words"])
        == 2
    )
    store = tmp_path / "s.zarr"
    args = ["ingest", raw, "--out", str(store), "--text-field", "body", "--id-field", "docno", "-q"]
    assert run(args) == 0
    write_jsonl(tmp_path / "c.jsonl", [{"docno": 1, "body": "bax kex"}])
    assert run(["ingest", str(tmp_path / "c.jsonl"), "--out", str(store), "--append", "-q"]) == 0
    assert Corpus.open(store).manifest.summary["documents"] == 151


def test_a_model_and_a_corpus_that_do_not_belong_together(own, tmp_path, capsys):
    def ingested(name: str, rows: list[dict[str, str]]) -> str:
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
        assert (
            run(
                [
                    "ingest",
                    str(tmp_path / f"{name}.jsonl"),
                    "--out",
                    str(tmp_path / name),
                    "--min-df",
                    "1",
                    "-q",
                ]
            )
            == 0
        )
        return str(tmp_path / name)

    other = ingested(
        "german", [{"text": f"xylophon wolke{i % 7} himmel regen sonne"} for i in range(120)]
    )
    near = ingested("near", [{"text": d["text"] + " newword"} for d in documents(120, seed=9)])
    model = str(own / "m")
    capsys.readouterr()
    for option in ("--coherence", "--training", "--heldout"):
        assert run(["eval", "--model", model, "--corpus", other, option]) == 2
        said = capsys.readouterr().err
        assert model in said and other in said and "do not match" in said
    assert run(["eval", "--model", model, "--corpus", near, "--coherence"]) == 0
    said = capsys.readouterr().err
    assert "warning" in said and model in said and near in said
    assert run(["eval", "--model", model, "--corpus", str(own / "c.zarr"), "--coherence"]) == 0
    assert capsys.readouterr().err == ""
    assert run(["show", "--model", model, "--corpus", other, "--docs", "1"]) == 2
    assert run(["report", model, "--corpus", other, "--out", str(tmp_path / "r.html")]) == 2


def test_ids_keep_their_type(own, tmp_path, capsys):
    model = str(own / "m")
    store = str(own / "c.zarr")
    raw = str(own / "a.jsonl")
    capsys.readouterr()
    want = list(range(1000, 1150))

    def lines() -> list[object]:
        return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]

    for source in (raw, store):
        assert run(["infer", source, "--model", model, "-q"]) == 0
        assert lines() == want
        out = tmp_path / "t.parquet"
        assert run(["infer", source, "--model", model, "-q", "-o", str(out), "--force"]) == 0
        ids = pq.read_table(out)["id"]
        assert [int(i) for i in ids.to_pylist()] == want and (
            source == raw or ids.type == pa.int64()
        )
    assert run(["infer", store, "--model", model, "-q", "--with", "source"]) == 0
    assert lines() == want
    theta = tmp_path / "theta.parquet"
    each = tmp_path / "each.parquet"
    assert run(["show", "--model", model, "--corpus", store, "--theta", str(theta)]) == 0
    assert pq.read_table(theta)["id"].type == pa.int64()
    assert (
        run(["eval", "--model", model, "--corpus", store, "--heldout", "--per-document", str(each)])
        == 0
    )
    assert pq.read_table(each)["id"].type == pa.int64()
    capsys.readouterr()
    assert run(["show", "--model", model, "--corpus", store, "--docs", "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert all(isinstance(d["id"], int) for t in shown["topics"] for d in t["documents"])
    # strings stay strings, of digits too, and so does a mixture
    write_jsonl(
        tmp_path / "s.jsonl", [{"docno": "17", "body": "bax"}, {"docno": "007", "body": "kex"}]
    )
    assert run(["infer", str(tmp_path / "s.jsonl"), "--model", model, "-q"]) == 0 and lines() == [
        "17",
        "007",
    ]
    mixed = tmp_path / "mixed.zarr"
    for n, docno in enumerate((5, "5a")):
        write_jsonl(tmp_path / f"{n}.jsonl", [{"docno": docno, "body": "bax kex"}])
        more = (
            ["--append"] if n else ["--text-field", "body", "--id-field", "docno", "--min-df", "1"]
        )
        assert run(["ingest", str(tmp_path / f"{n}.jsonl"), "--out", str(mixed), "-q", *more]) == 0
        assert (Corpus.open(mixed).manifest.ids == "integer") == (n == 0)
    capsys.readouterr()
    assert run(["infer", str(mixed), "--model", model, "-q"]) == 0 and lines() == ["5", "5a"]
