"""What a text file is: a document, many, or something to cut."""

from __future__ import annotations

import gzip
import json
import re
from itertools import islice
from pathlib import Path

import pytest

from tests import DATA
from topicstream import Corpus, ingest
from topicstream.cli.main import run

ENWIKI = DATA / "enwiki" / "docs.jsonl.gz"
PARAGRAPHS = [f"paragraph{i} of the book has words{i}" for i in range(12)]


@pytest.fixture
def book(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "book.txt", tmp_path / "folder" / "book.txt"):
        path.write_text("\n\n".join(PARAGRAPHS) + "\n")
    return tmp_path


def test_lines_of_a_lone_file_are_documents_and_the_output_says_so(book, capsys):
    assert run(["ingest", "book.txt", "--min-df", "1"]) == 0
    assert (
        "23 lines, each a document (--format files makes each file one)" in capsys.readouterr().out
    )
    assert run(["ingest", "book.txt", "--min-df", "1", "--format", "files", "--force"]) == 0
    said = capsys.readouterr().out
    assert "corpus.zarr: 1 document," in said and "each a document" not in said
    assert run(["ingest", "folder", "--min-df", "1", "--force"]) == 0
    assert "corpus.zarr: 1 document," in capsys.readouterr().out


def test_a_lone_file_is_cut_as_in_a_folder(book):
    for name in ("book.txt", "folder"):
        ingest(
            book / name,
            book / "c.zarr",
            split="paragraph",
            min_df=1,
            heldout=0,
            force=True,
            progress=False,
        )
        assert Corpus.open(book / "c.zarr").n_docs == len(PARAGRAPHS)


def test_a_number_is_no_pattern(book, capsys):
    assert run(["ingest", "book.txt", "--split", "1000"]) == 2
    said = capsys.readouterr().err
    assert "1000 words" in said and "says 1000" in said
    for split, meant in (
        ("500 wörter", "write '500 words'"),
        ("paragraphs", "did you mean paragraph?"),
    ):
        assert run(["ingest", "book.txt", "--split", split]) == 2
        assert meant in capsys.readouterr().err
    assert run(["ingest", "book.txt", "--split", "0 words"]) == 2
    assert not list(book.glob("corpus.zarr*"))


@pytest.mark.parametrize(
    ("words", "lengths"), [(1000, [1000, 1000, 1400]), (3000, [3400]), (700, [700] * 4 + [600])]
)
def test_a_novel_is_cut_by_words(tmp_path, words, lengths):
    (tmp_path / "novels").mkdir()
    (tmp_path / "novels" / "novel.txt").write_text(
        " ".join(f"wort{i % 97:02}\n" * (i % 50 == 0) or f"wort{i % 97:02}" for i in range(3400))
    )
    ingest(
        tmp_path / "novels",
        tmp_path / "c.zarr",
        split=f"{words} words",
        min_df=1,
        max_df=1.0,
        heldout=0,
        progress=False,
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert [int(d.counts.sum()) for d in corpus] == lengths
    assert [d.id for d in corpus] == [f"novel.txt#{i + 1}" for i in range(len(lengths))]


@pytest.mark.slow
@pytest.mark.skipif(not ENWIKI.exists(), reason="the corpus is not there")
def test_real_articles_are_cut_by_words(tmp_path):
    with gzip.open(ENWIKI, "rt") as file:
        (tmp_path / "wiki.jsonl").write_text("".join(islice(file, 200)))
    texts = [json.loads(line)["text"] for line in (tmp_path / "wiki.jsonl").open()]
    ingest(
        tmp_path / "wiki.jsonl", tmp_path / "c.zarr", split="500 words", heldout=0, progress=False
    )
    alone = "\u0e00-\u0eff\u1000-\u10bf\u1780-\u17ff\u3040-\u9fff"  # a word each
    words = [len(re.findall(rf"[{alone}]|(?<!\S)[^\s{alone}]", text, re.ASCII)) for text in texts]
    wanted = sum(max(1, (n + 250) // 500) for n in words)
    assert Corpus.open(tmp_path / "c.zarr").n_docs == wanted > 600
