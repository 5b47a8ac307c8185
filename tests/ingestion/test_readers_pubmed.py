"""PubMed / MEDLINE XML."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reading import DATA, Read, needs_data, write
from topicstream.base.errors import InputError
from topicstream.ingestion.readers.pubmed import NO_ABSTRACT

DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_190101.dtd">\n'
)
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n' + DOCTYPE + "<PubmedArticleSet>\n"
TAIL = "</PubmedArticleSet>\n"
FULL = """<PubmedArticle>
  <MedlineCitation Status="MEDLINE"><PMID Version="1">11</PMID>
    <DateCreated><Year>1980</Year></DateCreated>
    <Article><Journal><JournalIssue><PubDate><MedlineDate>1998 Dec-1999 \
Jan</MedlineDate></PubDate></JournalIssue>
      <Title>J &amp; K</Title></Journal>
      <ArticleTitle>On <i>H<sub>2</sub>O</i> &lt;b&gt;</ArticleTitle>
      <Abstract><AbstractText Label="AIM">One \
<sup>a</sup>.</AbstractText><AbstractText>Two.</AbstractText>
        <CopyrightInformation>(c) X</CopyrightInformation></Abstract>
      <AuthorList><Author><LastName>Doe</LastName><ForeName>Jane \
Q</ForeName><Initials>JQ</Initials></Author>
        <Author><CollectiveName>The Group</CollectiveName></Author><Author><LastName>Solo</LastName></Author></AuthorList>
    </Article>
    <CommentsCorrectionsList><CommentsCorrections><PMID>99</PMID></CommentsCorrections></CommentsCorrectionsList>
    <MeshHeadingList><MeshHeading><DescriptorName>Water</DescriptorName><QualifierName>q</QualifierName></MeshHeading>
      <MeshHeading><DescriptorName>Ice</DescriptorName></MeshHeading></MeshHeadingList>
    <OtherAbstract><AbstractText>andere</AbstractText></OtherAbstract>
  </MedlineCitation><PubmedData><ArticleIdList><ArticleId>5</ArticleId></ArticleIdList></PubmedData>
</PubmedArticle>
"""
BOOK = """<PubmedBookArticle><BookDocument><PMID>12</PMID><Book><BookTitle>Genes</BookTitle><PubDate><Year>2003</Year>
</PubDate><AuthorList><Author><LastName>Ed</LastName><Initials>I</Initials></Author></AuthorList></Book>
<ArticleTitle>Chapter</ArticleTitle><Abstract><AbstractText>Book \
text.</AbstractText></Abstract></BookDocument>
</PubmedBookArticle>
"""


def record(pmid: object, title: str = "T") -> str:
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{pmid}</PMID><Article><ArticleTitle>{title}</ArticleTitle></Article>"
        "</MedlineCitation></PubmedArticle>\n"
    )


DELETED = "<DeleteCitation><PMID>7</PMID>\n<PMID>8</PMID></DeleteCitation>\n"


@pytest.mark.parametrize("size", [1, 700, 8 << 20])
def test_everything_kept_of_a_record(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "a.xml", HEAD + FULL + BOOK + record(13) + DELETED + TAIL)
    got = Read(path, piece_bytes=size)
    assert got.ids == ["11", "12", "13"]
    assert got.texts == ["On H2O <b>\nOne a.\nTwo.", "Chapter\nBook text.", "T"]
    assert got.meta == {
        "authors": [["Doe JQ", "The Group", "Solo"], ["Ed I"], []],
        "labels": [["Water", "Ice"], [], []],
        "date": ["1998", "2003", None],
        "journal": ["J & K", "Genes", None],
    }
    assert got.deleted == ["7", "8"] and got.notes == {NO_ABSTRACT: 1}
    assert got.source == [f"a.xml#{n}" for n in (1, 2, 3)]


def test_medline_root_latin1_and_gz(tmp_path: Path) -> None:
    xml = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<MedlineCitationSet>'
    xml += "<MedlineCitation><PMID>1</PMID><Article><ArticleTitle>Zw\xf6lf</ArticleTitle></Article></MedlineCitation>"
    got = Read(
        write(
            tmp_path / "a.xml.gz", gzip.compress((xml + "</MedlineCitationSet>").encode("latin-1"))
        )
    )
    assert got.ids == ["1"] and got.texts == ["Zwölf"]
    assert Read(write(tmp_path / "b.xml", HEAD + TAIL)).ids == []
    assert Read(write(tmp_path / "c.xml", "<PubmedArticleSet/>")).ids == []


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE PubmedArticleSet [<!ENTITY a "aaaa"><!ENTITY b '
    '"&a;&a;&a;">]>\n<PubmedArticleSet>'
)


@pytest.mark.parametrize(
    ("xml", "why"),
    [
        (
            "<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>",
            "neither PubmedArticleSet nor",
        ),
        (HEAD + record(1) + record(2)[:60], r"not well-formed XML \("),
        (HEAD + record(1), r"not well-formed XML \(Premature end of data"),
        (
            HEAD + "\n" + record(1) + record(2, "<i>") + TAIL,
            r"a\.xml:6: not well-formed XML \(Opening and ending tag",
        ),
        (HEAD + record(1) + record("") + TAIL, r"a\.xml:5: a PubmedArticle without PMID"),
        (
            HEAD + record(1) + "<!DOCTYPE x [<!ENTITY a 'b'>]>" + record(2) + TAIL,
            r"a\.xml:5: not well-formed",
        ),
        (HEAD + record(1, "caf\udce9") + TAIL, r"a\.xml:4: not well-formed"),
        (
            '<?xml version="1.0" encoding="klingon"?><PubmedArticleSet>' + record(1) + TAIL,
            "Unsupported encoding: klingon",
        ),
    ],
)
def test_bad_xml(tmp_path: Path, xml: str, why: str) -> None:
    path = write(tmp_path / "a.xml", xml.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=why):
        Read(path)
    got = Read(path, on_error="skip", format="pubmed")
    assert len(got.rejects) == 1
    assert got.ids in ([], ["1"])


def test_entities_are_never_resolved(tmp_path: Path) -> None:
    got = Read(write(tmp_path / "a.xml", BOMB + record(1, "a &b; c") + TAIL))
    assert got.texts == ["a &b; c"]
    assert Read(write(tmp_path / "b.xml", HEAD + record(1, "a&nbsp;b") + TAIL)).texts == [
        "a&nbsp;b"
    ]


def test_a_record_that_cannot_be_used_is_left_out_alone_broken_xml_ends_the_file(
    tmp_path: Path,
) -> None:
    for size in (1, 300, 8 << 20):
        xml = HEAD + record(1) + record("") + record(3) + DELETED + TAIL
        got = Read(write(tmp_path / "a.xml", xml), on_error="skip", piece_bytes=size)
        assert got.ids == ["1", "3"] and got.deleted == ["7", "8"]
        assert [r.line for r in got.rejects] == [5] and got.rejects[0].start.startswith(
            b"<PubmedArticle>"
        )
        xml = HEAD + record(1) + record(2, "<i>") + record(3) + TAIL
        got = Read(write(tmp_path / "b.xml", xml), on_error="skip", piece_bytes=size)
        assert got.ids == ["1"] and [r.line for r in got.rejects] == [5]


def test_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    deep = "<a>" * 200_000 + "</a>" * 200_000
    got = Read(
        write(tmp_path / "a.xml", HEAD + record(1) + record(2, deep) + TAIL), on_error="skip"
    )
    assert got.ids == ["1"] and "depth" in got.rejects[0].reason


title = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=30
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(titles=st.lists(title, max_size=6), size=st.integers(1, 900))
def test_titles_survive(tmp_path: Path, titles: list[str], size: int) -> None:
    parts = []
    for n, text in enumerate(titles):
        element = ET.Element("ArticleTitle")
        element.text = text
        parts.append(
            record(n).replace(
                "<ArticleTitle>T</ArticleTitle>", ET.tostring(element, encoding="unicode")
            )
        )
    got = Read(write(tmp_path / "a.xml", HEAD + "".join(parts) + TAIL), piece_bytes=size)
    assert got.texts == [t.strip() for t in titles]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, len(FULL)), junk=st.binary(max_size=5), cut=st.integers(0, 30))
def test_any_damage_ends_in_documents_or_one_clear_error(
    tmp_path: Path, at: int, junk: bytes, cut: int
) -> None:
    xml = (
        (HEAD + record(1)).encode()
        + FULL.encode()[:at]
        + junk
        + FULL.encode()[at + cut :]
        + TAIL.encode()
    )
    path = write(tmp_path / "a.xml", xml)
    got = Read(path, on_error="skip")
    assert "1" in got.ids or got.rejects
    try:
        Read(path)
    except InputError as e:
        assert "\n" not in str(e) and "a.xml" in str(e)


@needs_data
@pytest.mark.slow
def test_all_real_files_against_a_plain_parse() -> None:
    files = sorted((DATA / "pubmed").iterdir())
    assert len(files) == 19
    ids = []
    titles = []
    deleted = []
    bare = 0
    for file in files:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as f:
            root = ET.parse(f).getroot()
        for entry in root:
            if entry.tag == "DeleteCitation":
                deleted += [e.text for e in entry]
                continue
            cited = entry.find("MedlineCitation") if entry.tag == "PubmedArticle" else entry
            assert cited is not None
            ids.append(cited.findtext("PMID"))
            heading = cited.find("Article/ArticleTitle")
            assert heading is not None
            titles.append("".join(heading.itertext()).strip())
            texts = cited.findall("Article/Abstract/AbstractText")
            bare += not any("".join(e.itertext()).strip() for e in texts)
    for size in (8 << 20, 50_000):
        got = Read(DATA / "pubmed", piece_bytes=size)
        assert got.ids == ids and len(ids) == 963
        assert got.deleted == deleted and got.notes == {NO_ABSTRACT: bare}
        assert all(text.startswith(want) for text, want in zip(got.texts, titles))
        assert all(year is None or 1900 < int(year) < 2030 for year in got.meta["date"])
