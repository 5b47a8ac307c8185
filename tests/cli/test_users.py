"""Where five users stopped: each test follows one of them (a paper, novels, a library, a nightly
job, a newsroom).
"""

from __future__ import annotations

import csv
import io
import json
import traceback

import numpy as np
import pytest

import topicstream
from topicstream.base.errors import TopicsError, UsageError
from topicstream.cli.main import run

SUBJECTS = {
    "travel": ["airports", "luggage", "flights", "delayed"],
    "music": ["violin", "orchestra", "concerts", "melody"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of 120 documents with a date and a party; and another table about them."""
    folder = tmp_path_factory.mktemp("users")
    rng = np.random.default_rng(1)
    with (folder / "docs.jsonl").open("w") as file:
        for i in range(120):
            text = " ".join(rng.choice(SUBJECTS["travel" if i < 60 else "music"], 12))
            party = ("red", "blue")[i % 2]
            date = f"{2000 + i % 10}-05-01"
            file.write(
                json.dumps({"id": f"d{i}.xml", "text": text, "party": party, "date": date}) + "\n"
            )
    (folder / "people.tsv").write_text(
        "name\tmood\n" + "".join(f"d{i}\tgood\n" for i in range(120))
    )
    topicstream.ingest(
        folder / "docs.jsonl",
        folder / "corpus.zarr",
        heldout="10%",
        min_df=1,
        meta="party,date",
        progress=False,
    )
    topicstream.train(folder / "corpus.zarr", folder / "model", topics=2, passes=10, progress=False)
    return folder


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    "command",
    [
        ["show", "--table", "x.csv"],
        ["show", "--correlations", "x.csv"],
        ["show", "--correlations", "x.jsonl"],
        ["show", "--theta", "x.csv", "--wide", "--with", "date"],
        ["show", "--over-time", "--by", "party", "--out", "x.csv"],
        ["effects", "party", "--out", "x.csv"],
        ["effects", "party", "--out", "x.jsonl"],
        ["export", "--out", "x.csv"],
        ["infer", "corpus.zarr", "--out", "x.csv"],
        ["eval", "--heldout", "--per-document", "x.csv"],
    ],
    ids=" ".join,
)
def test_a_table_is_replaced_with_force_alone(command, folder, capsys):
    for path in folder.glob("x.*"):
        path.unlink()
    assert run(command) == 0
    assert run(command) == 1 and "--force replaces it" in capsys.readouterr().err
    assert run([*command, "--force"]) == 0, capsys.readouterr().err
    name = next(word for word in command if word.startswith("x."))
    (folder / name).write_text("topic,label,mine\n1,2,3\n")
    assert run(command) == 1 and "--force replaces it" in capsys.readouterr().err
    assert (folder / name).read_text() == "topic,label,mine\n1,2,3\n"
    assert run([*command, "--force"]) == 0 and "mine" not in (folder / name).read_text()


def test_topics_by_words_for_a_spreadsheet(folder):
    assert run(["export", "--out", "phi.csv"]) == 0
    rows = list(csv.DictReader((folder / "phi.csv").open()))
    model = topicstream.TopicModel.open("model")
    assert [row["word"] for row in rows] == list(model.words)
    p = np.array([[float(row[f"topic_{k}"]) for k in range(2)] for row in rows])
    assert np.allclose(p.T, model.topic_word, rtol=1e-5)


def test_python_is_told_the_arguments():
    with pytest.raises(TopicsError, match="--append adds to it") as raised:
        topicstream.ingest(["a"], out="corpus.zarr", progress=False)
    assert "In Python: append=, force=" in "".join(traceback.format_exception(raised.value))


def test_options_of_a_scorer_that_does_not_run_are_refused(capsys):
    for options, needed in (
        (["--label-field", "party"], "--labels"),
        (["--heldout", "--top", "5"], "--coherence"),
    ):
        assert run(["eval", *options]) == 2
        assert f"goes with {needed}" in capsys.readouterr().err
    assert run(["eval", "--top", "5", "--per-document", "default.csv"]) == 0  # both run by default


def piped(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))


def test_text_in_a_pipe_is_a_document_a_line(monkeypatch, capfd):
    piped(monkeypatch, "delayed flights, and luggage\nviolin\n")
    assert run(["infer", "model", "-", "--top", "1"]) == 0
    assert [json.loads(line)["id"] for line in capfd.readouterr().out.splitlines()] == [
        "stdin:1",
        "stdin:2",
    ]
    piped(monkeypatch, "id;text\n1;violin\n")
    assert run(["infer", "-"]) == 3 and "give --format" in capfd.readouterr().err


def test_rows_of_a_table_about_no_document(capsys):
    told = [
        "ingest",
        "docs.jsonl",
        "--out",
        "other.zarr",
        "--force",
        "--min-df",
        "1",
        "--meta-file",
    ]
    assert run([*told, "people.tsv"]) == 3
    assert "Rename one of them (people.tsv:id=name,...)" in capsys.readouterr().err
    assert run([*told, "people.tsv:id=name,mood"]) == 0
    out = capsys.readouterr().out
    assert (
        "120 rows of people.tsv about no document, and so all of them: documents are called 'd"
        in out
    )
    assert "(--key file matches names of files with or without their endings" in out
    assert "  columns that no document has: mood\n" in out


def test_files_of_different_fields_in_one_store(tmp_path, monkeypatch, capsys):
    """A newsroom's archive calls its text Body, the wire calls it text: passages of both; and what
    an append keeps.
    """
    monkeypatch.chdir(tmp_path)
    texts = [
        " ".join(
            ["luggage", *(f"{a}{'abcdefgh'[i]}" for a in ("plane", "crew", "gate", "seat", "meal"))]
        )
        for i in range(8)
    ]
    (tmp_path / "archive.csv").write_text(
        "key,Body\n" + "".join(f"a{i},{text}\n" for i, text in enumerate(texts))
    )
    (tmp_path / "wire.jsonl").write_text(
        "".join(
            json.dumps({"id": f"w{i}", "text": text.replace("crew", "cruw")}) + "\n"
            for i, text in enumerate(texts)
        )
    )
    told = [
        "ingest",
        "archive.csv",
        "--text-field",
        "Body",
        "--id-field",
        "key",
        "--min-df",
        "1",
        "--max-df",
        "100%",
    ]
    assert run(told) == 0 and "kept (min-df 1, max-df 8)" in capsys.readouterr().out
    assert run(["ingest", "wire.jsonl", "--append", "--text-field", "text"]) == 0
    assert "kept (the store's; --grow-vocab adds new ones)" in capsys.readouterr().out
    assert [document.id for document in topicstream.Corpus.open("corpus.zarr")][8:] == [
        f"w{i}" for i in range(8)
    ]
    topicstream.train("corpus.zarr", "model", topics=2, passes=5, progress=False)
    documents = [
        d for t in topicstream.show("model", docs=8, text=True)["topics"] for d in t["documents"]
    ]
    assert {d["id"][0] for d in documents} == {"a", "w"} and all(
        "lugg" in d["text"] for d in documents
    )
    assert run(["report", "--no-scores"]) == 0
    assert "<title>corpus" in (tmp_path / "report.html").read_text()
    assert (
        run(
            [
                "ingest",
                "archive.csv",
                "--text-field",
                "Body",
                "--max-df",
                "2",
                "--min-df",
                "1",
                "--out",
                "rare.zarr",
            ]
        )
        == 0
    )
    assert "tokens are theirs" not in capsys.readouterr().out  # luggage is one word in six
    (tmp_path / "words.txt").write_text("luggage\ncruwa\n")
    assert run(["ingest", "wire.jsonl", "--vocab", "words.txt", "--out", "fixed.zarr"]) == 0
    assert "2 kept (words.txt); only 19 % of the tokens are theirs" in capsys.readouterr().out


def test_csv_with_blanks_before_quotes(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(
        'id, text, party\n1, "violin, and ""melody""", red\n2, luggage, blue\n'
    )
    told = [
        "ingest",
        f"{tmp_path}/a.csv",
        "--out",
        f"{tmp_path}/a.zarr",
        "--min-df",
        "1",
        "--meta",
        "party",
    ]
    assert run(told) == 0, capsys.readouterr().err
    corpus = topicstream.Corpus.open(tmp_path / "a.zarr")
    assert corpus.words.to_pylist() == ["luggage", "melody", "violin"]
    assert [document.metadata["party"] for document in corpus] == ["red", "blue"]


def test_python_has_the_views_of_show(folder, capsys):
    for options, given in (
        (["--find", "lost luggage", "--docs", "2"], {"find": "lost luggage", "docs": 2}),
        (["--over-time", "--by", "party"], {"over_time": True, "by": "party"}),
        (["--by", "party", "--min-docs", "5"], {"by": "party", "min_docs": 5}),
        (["--similar", "d3.xml"], {"similar": "d3.xml"}),
        (["--tree"], {"tree": True}),
        (["-n", "3"], {"words": 3, "find": None, "tree": False}),
    ):
        assert run(["show", *options, "--json"]) == 0
        assert json.loads(
            json.dumps(topicstream.show("model", "corpus.zarr", **given))
        ) == json.loads(capsys.readouterr().out)
    assert topicstream.show("model", "corpus.zarr", table="python.md")["table"] == "python.md"
    assert "frex" in (folder / "python.md").read_text()
    with pytest.raises(UsageError, match="one view at a time"):
        topicstream.show("model", "corpus.zarr", find="luggage", over_time=True)
    with pytest.raises(UsageError, match="no option 'fnd'"):
        topicstream.show("model", "corpus.zarr", fnd="luggage")


def test_a_mailbox_is_told_what_it_is(tmp_path, capsys):
    (tmp_path / "a.mbox").write_text(
        "From a@example.org Mon Jan  2 13:06:21 2023\nSubject: bags\n\nLost luggage.\n"
    )
    assert run(["ingest", f"{tmp_path}/a.mbox", "--out", f"{tmp_path}/a.zarr"]) == 3
    assert "a mailbox; write each message as JSON" in capsys.readouterr().err
