"""Counts and the words that name them: one file does for --words and --vocab where it can mean but
one thing.
"""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import topicstream
from topicstream import Corpus
from topicstream.cli.main import run

WORDS = ["apple", "bread", "cheese", "dates"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Six documents of four words; the file of the words lies elsewhere."""
    monkeypatch.chdir(tmp_path)
    cells = [(d + 1, w + 1, 1 + (d + w) % 3) for d in range(6) for w in range(4) if (d + w) % 2]
    (tmp_path / "counts.txt").write_text(
        f"6\n4\n{len(cells)}\n" + "".join(f"{d} {w} {n}\n" for d, w, n in cells)
    )
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "v.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "names" / "three.txt").write_text("\n".join(WORDS[:3]) + "\n")
    return tmp_path


def words() -> list[str]:
    return sorted(pq.read_table("corpus.zarr/vocab.parquet")["word"].to_pylist())


def test_a_vocab_of_a_line_for_each_word_names_them(folder, capsys):
    for option in ("--vocab", "--words"):
        assert (
            run(["ingest", "counts.txt", "--format", "docword", option, "names/v.txt", "--force"])
            == 0
        )
        assert words() == WORDS
    assert Corpus.open("corpus.zarr").n_cells > 0


def test_a_vocab_of_other_words_is_an_error_that_names_the_other_option(folder, capsys):
    assert run(["ingest", "counts.txt", "--format", "docword", "--vocab", "names/three.txt"]) == 3
    said = capsys.readouterr().err
    assert "--words" in said and "names/three.txt" in said
    assert not list(folder.glob("corpus.zarr*"))
    assert run(["ingest", "counts.txt", "--words", "names/three.txt"]) == 3
    assert (
        "3 words, but counts.txt states 4; name the right file with --words"
        in capsys.readouterr().err
    )


def test_a_vocab_that_occurs_nowhere_leaves_nothing(folder, capsys):
    Path("a.jsonl").write_text(
        "".join(json.dumps({"text": "one two three"}) + "\n" for _ in range(20))
    )
    assert run(["ingest", "a.jsonl", "--vocab", "names/v.txt"]) == 3
    assert "none of the words of --vocab occurs" in capsys.readouterr().err
    assert not list(folder.glob("corpus.zarr*"))


def test_words_without_names_are_noted(folder, capsys):
    assert run(["ingest", "counts.txt"]) == 0
    assert (
        "4 words have no names but their numbers (--words FILE names them)"
        in capsys.readouterr().out
    )
    assert words() == ["1", "2", "3", "4"]


def test_input_without_a_document_says_so(folder, capsys):
    Path("a.csv").write_text("id,text\n")
    assert run(["ingest", "a.csv"]) == 3
    said = capsys.readouterr().err
    assert "no training documents were read; nothing was stored" in said and "lower" not in said
    assert not list(folder.glob("corpus.zarr*"))


def test_uci_and_docword_are_one_format_for_ingest_and_export(folder):
    assert run(["ingest", "counts.txt", "--format", "uci", "--words", "names/v.txt"]) == 0
    assert run(["export", "--corpus", "corpus.zarr", "--format", "docword", "--out", "one"]) == 0
    assert run(["export", "--corpus", "corpus.zarr", "--format", "uci", "--out", "two"]) == 0
    assert (folder / "one" / "docword.txt").read_bytes() == (
        folder / "two" / "docword.txt"
    ).read_bytes()


@pytest.mark.parametrize("second", ["größe", unicodedata.normalize("NFD", "größe")])
def test_a_word_that_is_listed_twice_is_one(tmp_path, monkeypatch, second):
    monkeypatch.chdir(tmp_path)
    Path("m.svm").write_text("0 1:1 2:2 3:3\n0 2:4 3:5\n0 1:6\n")
    Path("w.txt").write_text(f"größe\n{second}\napple\n")
    given = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    summary = topicstream.ingest(Path("m.svm"), "c.zarr", words="w.txt", **given)
    assert (summary["words"], summary["tokens"]) == (2, 21)
    assert summary["notes"] == {"words listed more than once, counted as one": 1}
    store = topicstream.Corpus.open("c.zarr")
    rows = [row for batch in store.documents() for row in batch.to_pylist()]
    words = store.words.to_pylist()
    found = [{words[w]: n for w, n in zip(r["words"], r["counts"], strict=True)} for r in rows]
    assert found == [{"größe": 3, "apple": 3}, {"größe": 4, "apple": 5}, {"größe": 6}]
