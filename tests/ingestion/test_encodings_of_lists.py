"""Lists of words have the encoding that ``--encoding`` names, as the documents do."""

from __future__ import annotations

import json

import pytest

from topicstream import Corpus
from topicstream.cli.main import run

WORDS = ["été", "forêt", "hiver", "lac"]
OPTIONS = ["--min-df", "1", "--max-df", "1.0", "--heldout", "0", "--min-tokens", "0", "-q"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(capsys, encoding: str, *options: str) -> list[str]:
    command = ["ingest", "docs.txt", "--format", "lines", "--out", "c.zarr", "--force"]
    code = run([*command, "--encoding", encoding, *OPTIONS, *options])
    assert code == 0, capsys.readouterr().err
    return sorted(Corpus.open("c.zarr").words.to_pylist())


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_vocabulary_a_list_to_drop_and_stop_words(place, capsys, encoding):
    lines = ["été forêt hiver lac", "été été lac", "forêt hiver hiver", "lac été forêt"]
    (place / "docs.txt").write_bytes("\n".join(lines).encode(encoding))
    (place / "v.txt").write_bytes("\n".join(WORDS[:3]).encode(encoding))
    assert words_of(capsys, encoding, "--vocab", "v.txt") == ["forêt", "hiver", "été"]
    (place / "d.txt").write_bytes("été\r\nlac\r\n".encode(encoding))
    assert words_of(capsys, encoding, "--drop-words", "d.txt") == ["forêt", "hiver"]
    assert words_of(capsys, encoding, "--stopwords", "d.txt") == ["forêt", "hiver"]
    (place / "r.txt").write_bytes("été,hiver\n".encode(encoding))
    assert words_of(capsys, encoding, "--replace", "r.txt") == ["forêt", "hiver", "lac"]


@pytest.mark.parametrize("option", ["--vocab", "--drop-words", "--stopwords", "--replace"])
def test_another_encoding_is_a_line_that_says_what_to_do(place, capsys, option):
    (place / "docs.txt").write_text("été lac\nlac forêt\n", encoding="utf-8")
    text = "lac,bois\nété,bois\n" if option == "--replace" else "lac\nété\n"
    (place / "l.txt").write_bytes(text.encode("latin-1"))
    command = ["ingest", "docs.txt", "--format", "lines", "--out", "c.zarr", *OPTIONS]
    assert run([*command, option, "l.txt"]) == 3
    said = capsys.readouterr().err
    assert said.strip().endswith(
        "l.txt:2: not valid UTF-8; give --encoding, such as cp1252, cp1251, cp932 or gb18030"
    ), json.dumps(said)
