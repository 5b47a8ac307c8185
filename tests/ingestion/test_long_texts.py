"""Texts longer than a document may be are cut as they are read, into the parts of the whole."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from pathlib import Path

import pytest

import topicstream
from tests.reading import Read, write
from topicstream.base.errors import DoesNotFit, InputError, UsageError
from topicstream.ingestion.parts.gutenberg import RECOGNISED, STRIPPED

SPLITS = ["paragraph", "section", "37 words", r"\n\* \* \*\n", "§"]


def _novel(seed: int, paragraphs: int) -> str:
    rng = random.Random(seed)
    words = ["ship", "Meer", "é", "мир", "天地", "sea\u00a0x", "  ", "§", "\t", "end."]
    out = []
    for i in range(paragraphs):
        if rng.random() < 0.1:
            out.append(f"Chapter {i}")
        if rng.random() < 0.1:
            out.append("\n* * *")
        lines = [
            " ".join(rng.choice(words) for _ in range(rng.randint(1, 9)))
            for _ in range(rng.randint(1, 4))
        ]
        out.append("\n".join(lines) + "\n" * rng.randint(0, 2))
    return "\n\n".join(out)


@pytest.mark.quick("9000-700-*")
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("limit", "piece"), [(9000, 700), (8000, 5000), (9000, 1500)])
def test_a_streamed_text_has_the_parts_of_the_whole(
    tmp_path: Path, split: str, limit: int, piece: int
) -> None:
    path = write(tmp_path / "novel.txt", _novel(limit + piece, 800))
    whole = Read(path, split=split)
    assert len(whole.ids) > 20
    streamed = Read(path, split=split, max_document=limit, piece_bytes=piece)
    assert streamed.ids == whole.ids
    assert [t.split() for t in streamed.texts] == [t.split() for t in whole.texts]
    assert streamed.meta == whole.meta
    assert streamed.tasks > 5


def test_a_packed_text_beside_short_ones(tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.txt", "short one")
    write(tmp_path / "t" / "b.txt.gz", gzip.compress(_novel(1, 400).encode()))
    write(tmp_path / "t" / "c.txt", "short too")
    got = Read(tmp_path / "t", split="paragraph", max_document="4k", piece_bytes=900)
    assert got.ids == Read(tmp_path / "t", split="paragraph").ids
    assert (got.ids[0], got.ids[-1]) == ("a.txt#1", "c.txt#1")


def test_what_is_too_long_names_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "t" / "a.txt", "no blank line\n" * 1000)
    with pytest.raises(InputError, match=r"more than 0 MiB; --split cuts .* --max-document"):
        Read(tmp_path / "t", max_document=5000)
    with pytest.raises(InputError, match=r"a part of more than .* raise --max-document"):
        Read(path, split="paragraph", max_document=5000, piece_bytes=1000)
    assert len(Read(tmp_path / "t", max_document="20k").texts) == 1
    for name in ("a.jsonl", "a.csv", "lines.txt"):
        body = {"a.jsonl": '{"text": "%s"}', "a.csv": 'text\n"%s"', "lines.txt": "%s"}[name]
        path = write(tmp_path / name, body % ("y " * 3000) + "\n")
        with pytest.raises(InputError, match="raise --max-document"):
            Read(path, max_document=5000, piece_bytes=1000)
        assert Read(path, max_document=9000, piece_bytes=1000).texts == ["y " * 3000]
    with pytest.raises(UsageError, match="max_document"):
        topicstream.ingest(["a"], tmp_path / "c.zarr", max_document="large")


def test_a_long_record_must_fit_the_memory_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "word " * 16_000_000)
    with pytest.raises(DoesNotFit, match="--mem-limit"):
        topicstream.ingest(
            path, tmp_path / "c.zarr", max_document="1G", mem_limit="512M", progress=False
        )


HEADER = "The Project Gutenberg eBook of Ships\n\nThis eBook is for the use of anyone.\n\n"
LICENCE = "Section 1. General Terms of Use, PROJECT GUTENBERG licence.\n"
BOOKS = {
    "new": "*** START OF THE PROJECT GUTENBERG EBOOK SHIPS,\nA NOVEL ***\n{}\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK SHIPS ***\n",
    "older": "***START OF THIS PROJECT GUTENBERG EBOOK SHIPS***\n{}\n"
    "End of Project Gutenberg's Ships, by A. Sailor\n\n*** END OF THIS PROJECT GUTENBERG EBOOK ***",
    "oldest": "PROJECT GUTENBERG-tm etexts\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver."
    "04.29.93*END*\n{}\nEnd of the Project Gutenberg Etext of Ships\n",
}


@pytest.mark.parametrize("kind", BOOKS)
def test_the_boilerplate_of_project_gutenberg(tmp_path: Path, kind: str) -> None:
    text = "Chapter 1\n\nThe sea. *** The end of it.\n"
    path = write(tmp_path / "books" / "1.txt", HEADER + BOOKS[kind].format(text) + LICENCE)
    write(tmp_path / "books" / "2.txt", "An essay on PROJECT GUTENBERG, which stays.")
    plain = Read(tmp_path / "books")
    assert plain.texts[0] == path.read_text()
    assert plain.notes == {RECOGNISED: 1}
    got = Read(tmp_path / "books", strip_gutenberg=True)
    assert got.texts[0].strip() == text.strip()
    assert got.texts[1] == "An essay on PROJECT GUTENBERG, which stays."
    assert got.notes == {STRIPPED: 1}


def test_boilerplate_of_a_streamed_book_is_no_part(tmp_path: Path) -> None:
    text = _novel(5, 400)
    path = write(tmp_path / "1.txt", HEADER + BOOKS["new"].format(text) + LICENCE)
    whole = Read(path, split="paragraph", strip_gutenberg=True)
    options = {"split": "paragraph", "max_document": 4000, "piece_bytes": 1000}
    streamed = Read(path, strip_gutenberg=True, **options)
    assert streamed.ids == whole.ids
    assert [t.split() for t in streamed.texts] == [t.split() for t in whole.texts]
    assert "licence" not in " ".join(streamed.texts)


@pytest.mark.parametrize("encoding", [None, "utf-16", "cp1251"])
def test_a_long_member_of_an_archive_is_cut_as_it_streams(tmp_path: Path, encoding: str) -> None:
    long = _novel(3, 400)
    if encoding == "cp1251":
        long = long.encode("cp1251", "ignore").decode("cp1251")
    members = {"a.txt": "short one", "b.txt": long, "c.txt": "short too"}
    path = tmp_path / "t.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            data = text.encode(encoding or "utf-8")
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    options = {"split": "paragraph", "encoding": encoding}
    whole = Read(path, **options)
    streamed = Read(path, **options, max_document="16k", piece_bytes=900)
    assert streamed.ids == whole.ids and len(whole.ids) > 50
    assert [t.split() for t in streamed.texts] == [t.split() for t in whole.texts]
    assert streamed.tasks > 5
    with pytest.raises(InputError, match=r"t\.tar\.gz/b\.txt.*--max-document"):
        Read(path, max_document="16k", encoding=encoding)
