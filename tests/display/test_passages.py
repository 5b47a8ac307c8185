"""Reading: passages of typical documents with the topic's words marked, and what a query finds."""

from __future__ import annotations

import csv
import gzip
import json
import re
import tarfile
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topicstream
from tests.report_store import data_of, unpack
from topicstream.base.errors import InputError, UsageError
from topicstream.cli.main import run
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.display import passages
from topicstream.display.passages import DocumentTexts, best_passage, skip_duplicates
from topicstream.display.show import marked_lines

SUBJECTS = {
    "travel": ["airports", "luggage", "flights", "delayed", "passengers"],
    "music": ["violin", "orchestra", "concerts", "melody", "pianist"],
}
FILLER = "Nothing of note was ever said there. " * 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two subjects; the first 40 documents of travel are nearly the same; the words stand behind a
    long beginning.
    """
    folder = tmp_path_factory.mktemp("passages")
    rng = np.random.default_rng(1)
    with (folder / "docs.jsonl").open("w") as file:
        for i in range(240):
            words = SUBJECTS["travel" if i < 120 else "music"]
            said = " ".join(words * 4) if i < 40 else " ".join(rng.choice(words, 20))
            own = (
                " ".join("".join(rng.choice(list("bcdfgk"), 8)) for _ in range(20))
                if i >= 40
                else "x" * (1 + i % 3)
            )
            text = f"{FILLER}Here it is: {said} {own}." if i >= 40 else f"{said} {own}"
            file.write(json.dumps({"id": f"d{i}", "title": f"T{i}", "text": text}) + "\n")
    topicstream.ingest(
        folder / "docs.jsonl",
        folder / "corpus.zarr",
        stem="english",
        heldout=0,
        min_df=20,
        meta="title",
        progress=False,
    )
    topicstream.train(folder / "corpus.zarr", folder / "model", topics=2, passes=30, progress=False)
    return folder


def test_typical_documents_with_their_passages(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run(["show", "--docs", "4", "--text", "--json"]) == 0
    topics = json.loads(capsys.readouterr().out)["topics"]
    travel = next(t for t in topics if "luggag" in [w["word"] for w in t["words"][:5]])
    documents = travel["documents"]
    assert len(documents) == 4 and len({d["title"] for d in documents}) == 4
    assert sum(int(d["id"][1:]) < 40 for d in documents) <= 1  # near-duplicates
    for d in documents:
        marked = {d["text"][a:b] for a, b in d["marks"]}
        assert marked and marked <= set(SUBJECTS["travel"]), (
            "stemmed words are marked as they are written"
        )
        assert len(d["text"]) < 500
    assert run(["show", "--docs", "1", "--text"]) == 0
    assert "*luggage*" in capsys.readouterr().out
    model = topicstream.TopicModel.open("model")
    table = model.typical_documents(travel["topic"], 4, text=True)
    assert table.to_pylist() == documents
    assert model.typical_documents(travel["topic"], 2).column_names == ["id", "share", "title"]
    assert len(model.typical_documents(travel["topic"], 0)) == 0


def test_find_ranks_topics_and_documents(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert (
        run(["show", "--find", "Orchestras and a pianist", "--docs", "3", "--text", "--json"]) == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert sorted(result["words"]) == ["orchestra", "pianist"]
    assert result["topics"][0]["p"] > 0.9 and "violin" in result["topics"][0]["words"]
    assert len(result["documents"]) == 3
    assert all(int(d["id"][1:]) >= 120 and "pianist" in d["text"] for d in result["documents"])
    assert run(["show", "--find", "orchestra", "--with", "source"]) == 0
    said = capsys.readouterr().out
    assert "documents:" in said and re.search(r"  d\d+  docs\.jsonl:\d+", said)
    assert run(["show", "-k", "1,0", "--json"]) == 0
    assert [topic["topic"] for topic in json.loads(capsys.readouterr().out)["topics"]] == [1, 0]


def spans(pattern: str, text: str) -> list[tuple[int, int]]:
    """Places where a pattern matches."""
    return [match.span() for match in re.finditer(pattern, text)]


@pytest.mark.parametrize("space", ["", " "])
def test_a_passage_of_a_script_without_spaces_is_where_the_words_are(space):
    """Cut at a sentence, a space, or, where none is near, at the words themselves."""
    text = "山水" * 600 + "。" + space + "海山" * 10 + "月亮升起，星星出来" + "海" * 900
    found = best_passage(text, spans("月亮|星星", text), 400)
    assert (
        [found.text[a:b] for a, b in found.marks] == ["月亮", "星星"]
        and found.text.startswith("… 海山")
        and len(found.text) < 410
    )
    watery = text.replace("。", "水")
    far = best_passage(watery, spans("月亮|星星", watery), 400)
    assert [far.text[a:b] for a, b in far.marks] == ["月亮", "星星"]


@pytest.mark.parametrize(
    ("written", "marked"),
    [
        ("The oﬃce of Ｆｕｌｌ ﬁnance, 10² of it", ["oﬃce", "Ｆｕｌｌ", "ﬁnance"]),
        ("Das Buero und das Mu\u0308nchner oﬃce", ["Münchner", "oﬃce"]),
    ],
)
def test_words_are_marked_as_they_are_written(tmp_path, written, marked):
    """Ligatures and wide letters are longer or shorter than the letters that they are
    counted as.
    """
    texts = [written, *["the office full of finance and the münchner"] * 4]
    lines = [json.dumps({"id": str(i), "text": text}) for i, text in enumerate(texts)]
    source = tmp_path / "docs.jsonl"
    source.write_text("\n".join(lines))
    store = tmp_path / "d.zarr"
    topicstream.ingest(source, out=store, min_df=1, max_df=1.0, heldout=0, progress=False)
    corpus = Corpus.open(store)
    words = Vocabulary.read(corpus.file("vocab")).words.to_pylist()
    passage = DocumentTexts(corpus, [0]).passage(0, {"office", "full", "finance", "münchner"})
    assert {"office", "full", "finance", "münchner"} <= set(words)
    assert passage is not None and passage.text == unicodedata.normalize("NFC", written)
    assert [passage.text[a:b] for a, b in passage.marks] == marked


def test_marked_words_that_touch_are_marked_as_one():
    """As pairs of characters do in scripts without spaces."""
    document = {"text": "山水*海山 luggage", "marks": [(0, 1), (1, 2), (3, 5), (6, 13)]}
    assert marked_lines(document, "", None) == ["*山水***海山* *luggage*"]
    assert marked_lines(document, "", 80) == [
        "\x1b[1m山水\x1b[0m*\x1b[1m海山\x1b[0m \x1b[1mluggage\x1b[0m"
    ]


@pytest.mark.parametrize("name", ["books.tar", "books.tgz", "books.tar.zst"])
def test_members_of_an_archive_are_read_again(tmp_path, name):
    for i in range(8):
        (tmp_path / f"{i}.txt").write_text(
            f"ship sail harbour{i}" if i % 2 else f"bread flour oven{i}"
        )
    with tarfile.open(tmp_path / "books.tar", "w") as archive:
        for i in range(8):
            archive.add(tmp_path / f"{i}.txt", f"box/{i}.txt")
    packed = {
        "tar": lambda raw: raw,
        "tgz": gzip.compress,
        "zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
    }[name.rpartition(".")[2]]
    (tmp_path / name).write_bytes(packed((tmp_path / "books.tar").read_bytes()))
    topicstream.ingest(tmp_path / name, tmp_path / "c", heldout=0, min_df=1, progress=False)
    topicstream.train(tmp_path / "c", tmp_path / "m", topics=2, passes=5, progress=False)
    rows = (
        topicstream.TopicModel.open(tmp_path / "m")
        .typical_documents(0, 8, corpus=tmp_path / "c", text=True)
        .to_pylist()
    )
    assert len(rows) == 8 and all(
        row["text"] == (tmp_path / row["id"].removeprefix("box/")).read_text() for row in rows
    )


def test_files_are_read_again_in_their_encoding_and_format(tmp_path):
    rows = "".join(f"{i};{'月が明るい夜' if i % 2 else '船が港に入る'}\n" for i in range(40))
    (tmp_path / "posts.dat").write_bytes(("id;text\n" + rows).encode("cp932"))
    topicstream.ingest(
        tmp_path / "posts.dat",
        tmp_path / "c",
        format="csv",
        encoding="cp932",
        heldout=0,
        min_df=1,
        progress=False,
    )
    topicstream.train(tmp_path / "c", tmp_path / "m", topics=2, passes=5, progress=False)
    found = topicstream.TopicModel.open(tmp_path / "m").typical_documents(
        0, 3, corpus=tmp_path / "c", text=True
    )
    assert set(found["text"].to_pylist()) == {"月が明るい夜", "船が港に入る"}


def test_what_cannot_be_shown_is_said(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for line, said in (
        ("--text", "--text requires --docs"),
        ("--with title", "--with requires --docs"),
        ("--by title --docs 2", "--docs does not apply to: Shares"),
        ("--find violin -k 0", "--topic does not apply"),
        ("-k 0,x", "expected numbers separated by commas"),
    ):
        assert run(["show", *line.split()]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(UsageError, match="--relevance does not apply to: Similar documents"):
        topicstream.show(similar="d1", relevance=0.5)
    assert run(["show", "--find", "zebra"]) == 3
    assert "none of these words" in capsys.readouterr().err
    (folder / "docs.jsonl").rename(folder / "away.jsonl")
    assert run(["show", "--docs", "1", "--text"]) == 3
    assert "raw files" in capsys.readouterr().err
    (folder / "away.jsonl").rename(folder / "docs.jsonl")


@pytest.mark.parametrize("keep_text", [None, False])
def test_documents_from_memory_have_passages_where_the_store_keeps_texts(tmp_path, keep_text):
    documents = [" ".join(SUBJECTS["travel" if i % 2 else "music"]) for i in range(60)]
    options = {"min_df": 1, "max_df": 1.0, "progress": False, "keep_text": keep_text}
    store = tmp_path / "c.zarr"
    topicstream.ingest(documents, store, **options)
    topicstream.train(store, tmp_path / "m", topics=2, passes=5, progress=False)
    model = topicstream.TopicModel.open(tmp_path / "m")
    assert len(model.typical_documents(0, 3, corpus=store)) >= 1
    if keep_text is False:
        with pytest.raises(InputError, match="came from memory, and their texts were not kept"):
            model.typical_documents(0, 3, corpus=store, text=True)
        return
    listed = model.typical_documents(0, 3, corpus=store, text=True).to_pylist()
    assert [row["text"] for row in listed] == [documents[int(row["id"])] for row in listed]
    report = tmp_path / "report.html"
    topicstream.report(model, store, out=report, progress=False)
    assert "No text snippets" not in report.read_text()


def shrunk_as_in_r(shares, counts):
    """Shares of topics in words, shrunk word by word as stm's js.estimate does."""
    out = np.full(shares.shape, 1 / len(shares))
    for w, count in enumerate(counts.tolist()):
        if count > 1:
            variance = sum(s * (1 - s) / (count - 1) for s in shares[:, w])
            distance = sum((s - 1 / len(shares)) ** 2 for s in shares[:, w])
            weight = min(1.0, variance / distance) if distance else 0.0
            out[:, w] = weight / len(shares) + (1 - weight) * shares[:, w]
    return out


def test_tables_for_papers(folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    assert (
        run(
            [
                "show",
                "--table",
                f"{tmp_path}/w.csv",
                "-n",
                "5",
                "--correlations",
                f"{tmp_path}/c.csv",
            ]
        )
        == 0
    )
    rows = list(csv.DictReader((tmp_path / "w.csv").open()))
    assert len(rows) == 2 * 4 * 5
    model = topicstream.TopicModel.open("model")
    p = model.topic_word.astype(float)
    words = model.words
    for row in rows:
        k = int(row["topic"])
        w = words.index(row["word"])
        value = float(row["value"])
        expected = {
            "probability": p[k, w],
            "lift": p[k, w] / (model.shares @ p)[w],
            "score": p[k, w] * (np.log(p[k, w]) - np.log(p[:, w]).mean()),
        }
        if row["measure"] == "frex":
            shares = shrunk_as_in_r(p / p.sum(axis=0), model.vocabulary.counts)
            ranks = [
                (values[k] < values[k, w]).mean()
                + ((values[k] == values[k, w]).mean() + 1 / len(words)) / 2
                for values in (shares, p)
            ]
            assert value == pytest.approx(2 / sum(1 / r for r in ranks))
        else:
            assert value == pytest.approx(expected[row["measure"]], rel=1e-5)
    table = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert [float(row[row["topic"]]) for row in table] == pytest.approx([1, 1])
    assert float(table[0][table[1]["topic"]]) < -0.9
    assert run(["show", "--table", f"{tmp_path}/w.tex"]) == 0
    assert "frex" in (tmp_path / "w.tex").read_text()
    assert run(["show", "--table", f"{tmp_path}/w.tex"]) == 1
    assert run(["show", "--table", f"{tmp_path}/w.docx"]) == 2


def test_theta_with_a_column_for_each_topic(folder, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(folder)
    for name in ("wide.csv", "wide.parquet"):
        assert run(["show", "--theta", f"{tmp_path}/{name}", "--wide", "--with", "title"]) == 0
    rows = list(csv.DictReader((tmp_path / "wide.csv").open()))
    table = pq.read_table(tmp_path / "wide.parquet")
    assert table.column_names == ["id", "title", "topic_0", "topic_1"] == list(rows[0])
    assert rows[7]["title"] == "T7" and len(rows) == 240
    for row, other in zip(rows, table.to_pylist(), strict=True):
        assert float(row["topic_0"]) + float(row["topic_1"]) == pytest.approx(1)
        assert float(row["topic_0"]) == pytest.approx(other["topic_0"]) and row["id"] == other["id"]
    assert run(["show", "--theta", f"{tmp_path}/wide.jsonl", "--wide"]) == 2


def test_topics_as_a_data_frame(folder):
    pandas = pytest.importorskip("pandas")
    frame = topicstream.TopicModel.open(folder / "model").to_pandas(3)
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == [
        "label",
        "share",
        "words",
        "p",
    ]
    assert len(frame) == 2 and len(frame.words[0]) == 3


def test_passages_of_parquet_and_of_pubmed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    texts = [" ".join(SUBJECTS["travel" if i % 2 else "music"]) + f" ending{i}" for i in range(60)]
    for year in (2001, 2002):
        (tmp_path / "days" / f"year={year}").mkdir(parents=True)
        rows = [
            {"id": f"{year}-{i}", "text": text}
            for i, text in enumerate(texts[30 * (year - 2001) : 30 * (year - 2000)])
        ]
        pq.write_table(pa.Table.from_pylist(rows), f"days/year={year}/part-0.parquet")
    article = "<PubmedArticle><MedlineCitation><PMID>{}</PMID><Article><Abstract><AbstractText>{}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
    articles = "".join(article.format(i + 1, text) for i, text in enumerate(texts))
    (tmp_path / "a.xml").write_text(
        f"<?xml version='1.0'?><PubmedArticleSet>{articles}</PubmedArticleSet>"
    )
    for name in ("days", "days/year=2001/part-0.parquet", "a.xml"):
        topicstream.ingest(
            Path(name), "c.zarr", heldout=0, min_df=5, max_df=1.0, force=True, progress=False
        )
        topicstream.train("c.zarr", "m", topics=2, passes=10, force=True, progress=False)
        found = (
            topicstream.TopicModel.open("m")
            .typical_documents(0, 1, corpus="c.zarr", text=True)
            .to_pylist()
        )
        assert found[0]["marks"] and "ending" in found[0]["text"], name
    topicstream.report("m", "c.zarr", progress=False)
    values, _ = unpack(data_of((tmp_path / "report.html").read_text()))
    assert "ending" in json.dumps(values)


def test_a_table_for_print_has_the_labels_that_people_gave(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    assert (
        run(["show", "--table", f"{tmp_path}/w.md"]) == 0
        and "| topic | share |" in (tmp_path / "w.md").read_text()
    )
    model = topicstream.TopicModel.open("model")
    model.save(tmp_path / "model")
    topicstream.edit(tmp_path / "model", [{"edit": "label", "topic": 0, "label": "Journeys"}])
    assert run(["show", "--table", f"{tmp_path}/x.md", "--model", f"{tmp_path}/model"]) == 0
    text = (tmp_path / "x.md").read_text()
    assert "| topic | label | share |" in text and "| Journeys |" in text


@pytest.mark.parametrize("at_once", [7, 1000])
def test_passages_of_html_have_no_tags(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(passages, "AT_ONCE", at_once)
    texts = [
        f'<p class="lead">{" ".join(SUBJECTS["travel" if i % 2 else "music"])}</p> &amp; '
        f"<b>more</b> {i}"
        for i in range(60)
    ]
    rows = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {
        "heldout": 0,
        "min_df": 5,
        "max_df": 1.0,
        "drop_tags": True,
        "entities": True,
        "progress": False,
    }
    topicstream.ingest(tmp_path / "a.jsonl", tmp_path / "c.zarr", **given)
    topicstream.train(tmp_path / "c.zarr", tmp_path / "m", topics=2, passes=10, progress=False)
    [found] = (
        topicstream.TopicModel.open(tmp_path / "m")
        .typical_documents(0, 1, corpus=tmp_path / "c.zarr", text=True)
        .to_pylist()
    )
    assert "& more" in found["text"] and not set("<>") & set(found["text"])
    assert {found["text"][a:b] for a, b in found["marks"]} <= {
        *SUBJECTS["travel"],
        *SUBJECTS["music"],
        "more",
    } and found["marks"]


def test_an_append_is_read_again_as_it_was_read(tmp_path, monkeypatch):
    """Another field, and parts of documents, beside whole documents with a # in their ids."""
    monkeypatch.chdir(tmp_path)
    words = ["violin", "orchestra", "melody", "pianist"]
    whole = [{"id": f"a#{i}", "text": f"whole {i} {words[i % 4]}"} for i in range(8)]
    parts = [
        {"id": f"b{i}", "body": f"first {i} violin\n\nsecond {i} melody", "text": "of no use"}
        for i in range(4)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in whole))
    Path("b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in parts))
    topicstream.ingest("a.jsonl", "c.zarr", heldout=0, min_df=1, max_df=1.0, progress=False)
    topicstream.ingest(
        "b.jsonl", "c.zarr", append=True, text_field="body", split="paragraph", progress=False
    )
    corpus = Corpus.open("c.zarr")
    texts = DocumentTexts(corpus, np.arange(16))
    ids = [row["id"] for batch in corpus.documents(["id"]) for row in batch.to_pylist()]
    shown = {ids[d]: texts.passage(d, words).text for d in range(16)}
    assert shown == (
        {f"a#{i}": f"whole {i} {words[i % 4]}" for i in range(8)}
        | {f"b{i}#1": f"first {i} violin" for i in range(4)}
        | {f"b{i}#2": f"second {i} melody" for i in range(4)}
    )


def test_texts_that_share_seven_words_in_ten_are_the_same():
    first = set("abcdefgh")
    assert skip_duplicates([first, set("abcdefgij")]) == [0]  # 7 of 10
    assert skip_duplicates([set("abcdefgh"), set("abcdefghi")]) == [0]  # 8 of 9
    assert skip_duplicates([set("abcdefghi"), set("abcdefgxy")]) == [0, 1]  # 7 of 11
    assert skip_duplicates([first, set(), set(), set("xyz"), set("xyz")]) == [0, 1, 2, 3]


def test_the_passage_with_the_most_different_words_is_chosen():
    text = "sea " * 20 + "x " * 60 + "ship sail sea " + "y " * 60
    spans = [m.span() for m in re.finditer("sea|ship|sail", text)]
    found = best_passage(text, spans, 60)
    assert "ship sail sea" in found.text and found.text.startswith("… ")
    assert found.text.endswith(" …") and len(found.text) <= 64
    assert [found.text[a:b] for a, b in found.marks] == ["ship", "sail", "sea"]
    # the first of equals, from the beginning
    assert best_passage("sea one. sea two.", [(0, 3), (9, 12)], 8).text.startswith("sea one")
    short = best_passage("a sea", [(2, 5)], 60)
    assert (short.text, short.marks) == ("a sea", [(2, 5)])
