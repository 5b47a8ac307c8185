"""Plays and transcripts in TEI: speech and prose are text, what frames them is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import topicstream
from tests.reading import Read, write
from topicstream.base.errors import UsageError
from topicstream.display.passages import DocumentTexts
from topicstream.ingestion.parse.spans import PART_MARK

PLAY = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt>
<title>Der Sturm</title></titleStmt></fileDesc><profileDesc><particDesc><listPerson>
<person xml:id="anna"><persName>Anna</persName></person>
<personGrp xml:id="volk"><name>Volk</name></personGrp></listPerson></particDesc></profileDesc>
</teiHeader><text><front><docTitle><titlePart>Der Sturm</titlePart></docTitle>
<castList><head>Personen</head><castItem>Anna, eine Witwe</castItem></castList>
<div type="Dramatis_Personae"><p>Bert, ihr Sohn</p></div>
<set><p>Ein Hafen.</p></set><div type="prologue"><p>Hört die Mär.</p></div></front>
<body><div type="act"><head>Erster Akt</head><stage>Nacht.</stage>
<sp who="#anna"><speaker>ANNA <stage>leise</stage>.</speaker>
<p>Das Meer <stage>(sie weint)</stage> ruft<note>Vgl. Homer.</note>.</p></sp>
<sp who="#bert"><speaker>Bert.</speaker><l>Die Wo<lb break="no"/>gen,</l><pb n="2"/><fw>2</fw>
<l>der Wind.</l></sp>
<sp who="#bert"><speaker>Bert schreit.</speaker><p>Segel!</p></sp></div>
<div type="act"><head>Zweiter Akt</head>
<sp who="#anna #volk"><speaker>Anna und Volk</speaker><p>Land!</p></sp>
<sp><speaker>Ein Bote:</speaker><p>Rettung <app><lem>naht</lem><rdg>kommt</rdg></app>.</p></sp>
<trailer>Ende.</trailer></div></body></text></TEI>"""
SPEECHES = [
    ("Hört die Mär.", None),
    ("Das Meer ruft.", "Anna"),
    ("Die Wogen,\nder Wind.", "Bert"),
    ("Segel!", "Bert"),
    ("Land!", "Anna;Volk"),
    ("Rettung naht.", "Ein Bote"),
]
LEFT_OUT = {
    "docTitle": 2,
    "castList": 4,
    "div Dramatis_Personae": 3,
    "set": 2,
    "head": 4,
    "stage": 3,
    "speaker": 11,
    "note": 2,
    "fw": 1,
    "trailer": 1,
}


@pytest.fixture
def play(tmp_path: Path) -> Path:
    return write(tmp_path / "sturm.xml", PLAY)


def _parts(read: Read) -> list[tuple[str, str | None]]:
    texts = [text.strip() for text in read.texts]
    return list(zip(texts, read.meta["speaker"], strict=True))


def test_what_is_said_is_text_and_what_frames_it_is_counted(play: Path) -> None:
    got = Read(play)
    assert got.texts == ["\n\n".join(text for text, _ in SPEECHES)]
    words = {name: n for name, n in got.notes.items() if name.startswith("words left out: ")}
    assert words == {f"words left out: {name}": n for name, n in LEFT_OUT.items()}


@pytest.mark.parametrize(
    ("chosen", "there", "absent"),
    [
        ("+stage", ["Nacht.", "(sie weint)", "Segel!"], ["Erster Akt", "leise", "Homer"]),
        ("-l", ["Segel!"], ["Wogen", "Wind"]),
        ("stage", ["Nacht.", "(sie weint)"], ["Meer", "Segel", "Akt"]),
        ("L", ["Wogen", "Wind"], ["Meer", "Segel", "Nacht"]),
        ("l,+speaker", ["Wogen"], ["Segel", "Nacht"]),
        ("all", ["Anna, eine Witwe", "Ein Hafen.", "leise", "Homer", "Ende."], ["kommt"]),
        ("all,-note", ["Ende."], ["Homer"]),
    ],
)
def test_elements_are_chosen(play: Path, chosen: str, there: list[str], absent: list[str]) -> None:
    [text] = Read(play, tei_elements=chosen).texts
    assert [part for part in there if part not in text] == []
    assert [part for part in absent if part in text] == []


@pytest.mark.parametrize("wrong", ["<stage>", "+", "a b", "1"])
def test_what_is_no_name_of_an_element_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="no name of a TEI element"):
        Read([], tei_elements=wrong)


def test_parts_know_who_speaks(play: Path) -> None:
    assert _parts(Read(play, split="speech")) == SPEECHES
    by_speaker = _parts(Read(play, split="speaker"))
    assert by_speaker[2] == ("Die Wogen,\nder Wind.\n\nSegel!", "Bert")
    assert [name for _, name in by_speaker] == [None, "Anna", "Bert", "Anna;Volk", "Ein Bote"]
    sections = Read(play, split="section", meta={"authors": "speaker"})
    assert [set(names) for names in sections.meta["authors"]] == [
        set(),
        {"Anna", "Bert"},
        {"Anna", "Volk", "Ein Bote"},
    ]
    words = Read(play, split="4 words", meta={"who": "speaker"})
    assert words.meta["who"] == ["Anna", "Anna;Bert", "Bert;Anna;Volk", "Ein Bote"]
    whole = Read(play, meta={"speaker": "speaker"}, list_separator="|")
    assert whole.meta["speaker"] == ["Anna|Bert|Volk|Ein Bote"]
    assert PART_MARK not in "".join(Read(play, split="speech").texts)


def test_a_transcript_is_parted_by_its_utterances(tmp_path: Path) -> None:
    """As ParlaMint writes sessions."""
    session = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><div type="debateSection">
    <note type="speaker">Der Präsident:</note><u who="#p.Lammert"><seg>Die Sitzung ist offen.</seg>
    <kinesic><desc>Beifall</desc></kinesic><seg>Bitte.</seg></u>
    <u who="x.xml#p.Roth"><seg>Danke.</seg></u></div></body></text></TEI>"""
    got = Read(write(tmp_path / "session.xml", session), split="speech")
    assert _parts(got) == [("Die Sitzung ist offen. Bitte.", "p.Lammert"), ("Danke.", "p.Roth")]


def test_a_store_of_plays_by_speaker(play: Path, tmp_path: Path) -> None:
    """The same for any number of workers; passages and appends are read in the same way."""
    options = {"split": "speaker", "min_df": 1, "heldout": 0, "stopwords": "none"}
    options |= {"tei_elements": "+stage", "progress": False, "max_df": 1.0}
    stores = [tmp_path / "one.zarr", tmp_path / "four.zarr"]
    for store, workers in zip(stores, (1, 4), strict=True):
        summary = topicstream.ingest(play, store, workers=workers, **options)
    files = [
        {path.relative_to(store): path.read_bytes() for path in store.rglob("*.arrow")}
        for store in stores
    ]
    assert files[0] == files[1]
    assert summary["columns"]["speaker"] == 4
    assert summary["elements_left_out"]["speaker"] == 11
    assert "stage" not in summary["elements_left_out"]
    corpus = topicstream.Corpus.open(stores[0])
    texts = DocumentTexts(corpus, range(corpus.n_docs))
    assert {"meer", "weint"} <= texts.words(1)
    again = write(tmp_path / "more.xml", PLAY.replace("Hört die Mär.", ""))
    topicstream.ingest(again, stores[0], append=True, progress=False)
    speakers = Counter[str | None]()
    for table in topicstream.Corpus.open(stores[0]).documents():
        speakers.update(table["speaker"].to_pylist())
    assert speakers["Bert"] == 2
