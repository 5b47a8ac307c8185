"""TEI editions and HTML pages: their text by blocks, what the header says, and passages found
again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import topicstream
from tests.reading import Read, write
from topicstream.base.errors import InputError

TEI = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE TEI SYSTEM "tei.dtd">
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
<titleStmt><title>Die Wahlverwandtschaften</title><author>Goethe, J. W.</author><author>Riemer, \
F. W.</author></titleStmt>
<publicationStmt><date>2004</date></publicationStmt><sourceDesc><bibl><date when="1809-10">Herbst \
1809</date></bibl></sourceDesc>
</fileDesc></teiHeader>
<text><body><div><head>Erstes Kapitel</head><p>Eduard &mdash; so nennen wir einen \
<hi>reichen</hi> Baron<note>Eine Anmerkung.</note> im besten
Mannesalter &mdash; wollte <choice><orig>seyn</orig><reg>sein</reg></choice> wie er war.</p><pb \
n="2"/><fw>Kopfzeile</fw><idno>Q1</idno>
<p>Zweiter Absatz<!-- no comment -->.</p><lg><l>Kennst du das Land,</l><l>wo die Zitronen \
blühn</l></lg></div></body></text></TEI>"""
BLOCKS = [
    "Eduard — so nennen wir einen reichen Baron im besten Mannesalter — wollte sein wie er war.",
    "Zweiter Absatz.",
    "Kennst du das Land,\nwo die Zitronen blühn",
]
PAGE = """<!DOCTYPE html>
<html><head><title>Lost &amp; found</title><style>p { color: red }</style><script>var no = \
"<p>no</p>";</script></head>
<body><h1>Luggage</h1><p>Lost <b>bag</b>s at the café<br>of the gate</p><div>Unclosed \
<i>tags</div></body></html>"""


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_an_edition_is_read_by_blocks(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "werther.xml", TEI.replace("{encoding}", encoding).encode(encoding))
    got = Read(path, meta={"title": "title", "authors": "author", "date": "date"})
    assert got.texts == ["\n\n".join(BLOCKS)] and got.ids == ["werther.xml"]
    assert got.meta == {
        "title": ["Die Wahlverwandtschaften"],
        "authors": [["Goethe, J. W.", "Riemer, F. W."]],
        "date": ["1809-10"],
    }


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (("digitalSource", "2019", "printSource", "1959", "firstEdition", "1841"), "1841"),
        (("digitalSource", "2019", "printSource", "1959"), "1959"),
        (("digitalSource", "2019"), "2019"),
        (("printSource", "1959", "creation", "1838"), "1838"),
        ((), None),
    ],
)
def test_a_novel_is_of_its_first_edition_not_of_its_scan(
    tmp_path: Path, sources: tuple[str, ...], expected: str | None
) -> None:
    """As ELTeC writes headers."""
    dates = dict(zip(sources[::2], sources[1::2], strict=True))
    creation = (
        f"<profileDesc><creation><date>{dates.pop('creation', '')}</date></creation></profileDesc>"
    )
    editions = "".join(
        f'<bibl type="{kind}"><title>T</title>, <date>{year}</date></bibl>'
        for kind, year in dates.items()
    )
    head, tail = TEI.replace("{encoding}", "utf-8").split(
        '<bibl><date when="1809-10">Herbst 1809</date></bibl>'
    )
    path = write(
        tmp_path / "novel.xml",
        head + editions + tail.replace("</teiHeader>", creation + "</teiHeader>"),
    )
    assert Read(path, meta={"date": "date", "edition": "published"}).meta == {
        "date": [expected],
        "edition": ["2004"],
    }


def test_headers_of_plays_and_of_a_textbox(tmp_path: Path) -> None:
    """As DraCor and CLiGS write them: a person's names and identifiers apart, dates beside the text
    or of editions by other names.
    """
    given = (
        "<persName><forename>Иван</forename> <surname>Тургенев</surname></persName><persName "
        "xml:lang='en'>Ivan Turgenev</persName>"
    )
    author = f"<author>{given}<idno type='wikidata'>Q42831</idno></author>"
    events = "".join(
        f"<event type='{kind}' when='{year}'><desc>«Нахлебник»</desc></event>"
        for kind, year in (("print", 1857), ("written", 1848))
    )
    beside = (
        f"</teiHeader><standOff><listEvent>{events}<event type='birth' "
        f"when='1818'/></listEvent></standOff>"
    )
    head, tail = re.split("<bibl>.*</bibl>", TEI.replace("{encoding}", "utf-8"))
    head = re.sub("<author>.*</author>", author, head)
    play = Read(
        write(tmp_path / "play.xml", head + tail.replace("</teiHeader>", beside)),
        meta={"authors": "author", "date": "date"},
    )
    assert play.texts == ["\n\n".join(BLOCKS)] and play.meta == {
        "authors": [["Иван Тургенев"]],
        "date": ["1848"],
    }
    short = (
        "<author><idno>71395987</idno><name type='short'>Galdos</name><name type='full'>Benito "
        "Pérez Galdós</name></author>"
    )
    editions = (
        "<bibl type='digital-source'><date>2001</date></bibl><bibl type='edition-first'><date "
        "notBefore='1889'/></bibl>"
    )
    novel = Read(
        write(tmp_path / "novel.xml", head.replace(author, short) + editions + tail),
        meta={"author": "author", "date": "date"},
    )
    assert novel.meta == {"author": ["Benito Pérez Galdós"], "date": ["1889"]}


def test_a_page_without_script_and_style(tmp_path: Path) -> None:
    got = Read(write(tmp_path / "page.html", PAGE), meta={"title": "title", "date": "date"})
    assert got.texts == [
        "Lost & found\n\nLuggage\n\nLost bags at the café\nof the gate\n\nUnclosed tags"
    ]
    assert got.meta == {"title": ["Lost & found"], "date": [None]}
    for body, text in (
        (b"<!-- moved --> ", ""),
        (b"google-site-verification", "google-site-verification"),
        (b"<head><title>T</title><p>Text", "T\n\nText"),
    ):
        assert Read(write(tmp_path / "bare.html", body), format="markup").texts == [
            text
        ]  # no <html> is needed
    told = (
        "<head><meta name='author' content='A. Reporter'><meta "
        "property='article:published_time' content='2021-05-31T08:00:00Z'>"
    )
    got = Read(
        write(tmp_path / "news.html", PAGE.replace("<head>", told)),
        meta={"author": "author", "date": "date"},
    )
    assert got.meta == {"author": ["A. Reporter"], "date": ["2021-05-31T08:00:00Z"]}


def test_a_folder_of_editions_is_split_and_its_passages_are_found(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    for name in ("a", "b"):
        write(
            tmp_path / "books" / f"{name}.xml",
            TEI.replace("{encoding}", "utf-8").replace("Zitronen", f"Zitronen{name}"),
        )
    summary = topicstream.ingest(
        tmp_path / "books",
        tmp_path / "c.zarr",
        split="paragraph",
        min_df=1,
        heldout=0,
        meta="title,date",
        stopwords="none",
        progress=False,
    )
    assert (
        summary["documents"] == 6
        and summary["dates"]["read"] == 6
        and summary["fields_left_out"] == ["author", "published"]
    )
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", topics=2, passes=5, progress=False)
    table = topicstream.TopicModel.open(tmp_path / "m").typical_documents(
        0, 8, corpus=tmp_path / "c.zarr", text=True
    )
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    assert len(texts) >= 3
    for name, text in texts.items():
        expected = BLOCKS[int(name.rpartition("#")[2]) - 1].replace("\n", " ")
        assert text == expected.replace("Zitronen", f"Zitronen{name[0]}")


def test_sections_begin_at_the_headings_that_are_encoded(tmp_path: Path) -> None:
    """Whatever they say; a page's title is none."""
    chapters = "".join(
        f"<div><head>{title}</head><p>Text {title}.</p></div>"
        for title in ("I", "Der <hi>Garten</hi>", "III")
    )
    novel = re.sub(
        "<body>.*</body>",
        f"<body>{chapters}</body>",
        TEI.replace("{encoding}", "utf-8"),
        flags=re.DOTALL,
    )
    write(tmp_path / "novel.xml", novel)
    write(tmp_path / "page.html", PAGE.replace("<div>", "<h2>Next</h2><div>"))
    for name, expected in (
        ("novel.xml", ["# Text I.", "# Text Der Garten.", "# Text III."]),
        (
            "page.html",
            [
                "Lost & found",
                "# Luggage\n\nLost bags at the café\nof the gate",
                "# Next\n\nUnclosed tags",
            ],
        ),
    ):
        got = Read(tmp_path / name, split="section")
        assert [text.strip() for text in got.texts] == expected


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.xml", TEI.replace("{encoding}", "utf-8").replace("</head>", ""))
    with pytest.raises(InputError, match=r"bad\.xml:\d+: not well-formed XML \("):
        Read(bad)
    with pytest.raises(InputError, match="nor TEI"):
        Read(write(tmp_path / "other.xml", "<?xml version='1.0'?><alto><p/></alto>"))
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE TEI [<!ENTITY a "aaaa"><!ENTITY b '
        '"&a;&a;&a;">]><TEI><text><p>x &b; y</p></text></TEI>'
    )
    assert Read(write(tmp_path / "bomb.xml", bomb)).texts == ["x &b; y"]
