"""Several TEI documents in one file: each a document of its own, as the file streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reading import Read, write
from topicstream.base.errors import InputError

DOCUMENT = """<TEI>
<teiHeader><fileDesc><titleStmt><title>Play {n}</title><author>Author {n}</author></titleStmt>
</fileDesc><profileDesc><particDesc><listPerson><person xml:id="p1">
<persName>Person {n}</persName></person></listPerson></particDesc></profileDesc></teiHeader>
<text><body><sp who="#p1"><speaker>P. {n}</speaker><p>word{n} — {filler}</p></sp>
<stage>exit{n}</stage></body></text></TEI>"""


def corpus(n: int, namespace: str = "", filler: str = "filler") -> str:
    """A teiCorpus of n plays in two parts, with a header of its own."""
    plays = [DOCUMENT.format(n=i, filler=filler) for i in range(n)]
    head = "<teiHeader><fileDesc><titleStmt><title>All</title></titleStmt></fileDesc></teiHeader>"
    inner = f"<teiCorpus>{head}{''.join(plays[1:])}</teiCorpus>"
    return (
        '<?xml version="1.0"?>\n<!-- plays -->\n'
        f"<teiCorpus{namespace}>{head}{plays[0]}{inner}</teiCorpus>\n"
    )


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://www.tei-c.org/ns/1.0"'])
def test_each_document_has_its_text_and_its_fields(tmp_path: Path, namespace: str) -> None:
    path = write(tmp_path / "plays.xml", corpus(5, namespace, "filler " * 9000))
    got = Read(path, meta="title,author,speaker")
    assert got.ids == got.source == [f"plays.xml:{n}" for n in range(1, 6)]
    for n, text in enumerate(got.texts):
        assert text.split()[:2] == [f"word{n}", "\u2014"] and len(text.split()) == 9002
    assert got.meta["title"] == [f"Play {n}" for n in range(5)]
    assert got.meta["author"] == [f"Author {n}" for n in range(5)]
    assert got.meta["speaker"] == [f"Person {n}" for n in range(5)]
    assert got.tasks >= 5
    cut = Read(path, split="speech")
    assert cut.ids == [f"plays.xml:{n}#1" for n in range(1, 6)]
    folder = Read(tmp_path)
    assert folder.texts == got.texts


def test_one_document_that_is_too_long_is_named_with_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "plays.xml", corpus(3, filler="filler " * 40_000))
    assert len(Read(path, max_document="1M").ids) == 3
    with pytest.raises(InputError, match=r"plays\.xml: document 1 has more than .*--max-document"):
        Read(path, max_document="100k")


def test_a_corpus_that_is_not_well_formed_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "plays.xml", corpus(3)[:-40])
    with pytest.raises(InputError, match="not well-formed XML"):
        Read(path)
    path = write(tmp_path / "plays.xml", corpus(3).replace("word1", "&mdash;"))
    with pytest.raises(InputError, match=r"plays\.xml:\d+: .*Entity 'mdash' not defined"):
        Read(path)
