"""What a text file is: a document, many, or something to cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicstream import Corpus, ingest
from topicstream.cli.main import run

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
    assert "23 lines, each a document (--format files makes each file one)" in capsys.readouterr().out
    assert run(["ingest", "book.txt", "--min-df", "1", "--format", "files", "--force"]) == 0
    said = capsys.readouterr().out
    assert "corpus.zarr: 1 documents" in said and "each a document" not in said
    assert run(["ingest", "folder", "--min-df", "1", "--force"]) == 0
    assert "corpus.zarr: 1 documents" in capsys.readouterr().out


def test_a_lone_file_is_cut_as_in_a_folder(book):
    for name in ("book.txt", "folder"):
        ingest(book / name, book / "c.zarr", split="paragraph", min_df=1, heldout=0, force=True, progress=False)
        assert Corpus.open(book / "c.zarr").n_docs == len(PARAGRAPHS)


def test_a_number_is_no_pattern(book, capsys):
    assert run(["ingest", "book.txt", "--split", "1000"]) == 2
    said = capsys.readouterr().err
    assert "1000 words" in said and "says 1000" in said
    assert not list(book.glob("corpus.zarr*"))
