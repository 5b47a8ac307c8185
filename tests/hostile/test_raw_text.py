"""Raw text, JSON lines, MALLET's lines, PubMed's XML and archives, mutated: they are read, or
refused in one line.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.mutations import MANY, ON_ERROR, TEXTS, check_mutations

LINES = "\n".join(TEXTS).encode()
JSONL = "".join(
    json.dumps(
        {"id": f"d{i}", "text": text, "labels": ["a", "b"], "year": 1999}, ensure_ascii=i % 2 == 0
    )
    + "\n"
    for i, text in enumerate(TEXTS)
).encode()
MALLET = "d1 en the quick brown fox\nd2 x über\n\nd3 y\n".encode()
PUBMED = """<?xml version="1.0" encoding="utf-8"?>
<PubmedArticleSet>
<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID \
Version="1">1</PMID><Article><Journal><JournalIssue><PubDate><Year>1999</Year>
</PubDate></JournalIssue></Journal><ArticleTitle>On <i>mice</i> &amp; \
men</ArticleTitle><Abstract><AbstractText Label="AIM">Some text
here.</AbstractText></Abstract><AuthorList><Author><LastName>Müller</LastName><ForeName>A</ForeName></Author></AuthorList></Article>
<MeshHeadingList><MeshHeading><DescriptorName \
UI="D1">Mice</DescriptorName></MeshHeading></MeshHeadingList></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="2">2</PMID><Article><ArticleTitle>Second</ArticleTitle></Article></MedlineCitation></PubmedArticle>
<DeleteCitation><PMID Version="1">3</PMID></DeleteCitation>
</PubmedArticleSet>
""".encode()


def archive() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i, text in enumerate(TEXTS):
            info = tarfile.TarInfo(f"folder/{i}.txt")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


KINDS = {  # file, seeds, words of the format, options
    "lines": (
        "f.txt",
        [LINES, LINES.replace(b"\n", b"\r\n")],
        [b"\r\n", b"\x00"],
        {"format": "lines"},
    ),
    "paragraphs": (
        "f.txt",
        [LINES.replace(b"\n", b"\n\n")],
        [b"\n\n"],
        {"format": "lines", "split": "paragraph", "min_tokens": 1},
    ),
    "jsonl": (
        "f.jsonl",
        [JSONL],
        [b'"text":', b'"id":', b"null", b"\\ud800", b"[[", b"{}"],
        {"format": "jsonl", "meta": {"labels": "labels", "year": "year"}},
    ),
    "mallet": ("f.mallet", [MALLET], [b" ", b"\t"], {"format": "mallet"}),
    "pubmed": (
        "f.xml",
        [PUBMED],
        [
            b"<PubmedArticle>",
            b"</PubmedArticle>",
            b"<![CDATA[",
            b"]]>",
            b"<!--",
            b"&lol;",
            b"<!ENTITY a '&b;'>",
            b"<PMID>",
            b"&#0;",
            b"&#x110000;",
        ],
        {"format": "pubmed"},
    ),
    "tar": ("f.tar", [archive()], [b"ustar", b"\x00" * 512], {"format": "tar"}),
    "guessed": ("f", [JSONL, PUBMED], [b"%%MatrixMarket"], {}),
}


@pytest.mark.quick("jsonl", "paragraphs")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_text(tmp_path, kind):
    file, seeds, words, options = KINDS[kind]
    check_mutations(tmp_path / file, seeds, words, options)


@MANY
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b c", "ü", ".hid", "x" * 60]),
            st.sampled_from([".txt", ".md", ".gz", ".jsonl", ""]),
            st.binary(max_size=80),
        ),
        min_size=1,
        max_size=4,
    ),
    ON_ERROR,
)
def test_folders_of_odd_files(tmp_path_factory, files, on_error):
    folder = tmp_path_factory.mktemp("odd")
    for i, (name, suffix, data) in enumerate(files):
        Path(folder, f"{name}{i}{suffix}").write_bytes(data)
    from tests.hostile.mutations import answers_or_refuses, read
    from topicstream.ingestion.options import ReadOptions

    answers_or_refuses(lambda: read(folder, ReadOptions(on_error=on_error)))
