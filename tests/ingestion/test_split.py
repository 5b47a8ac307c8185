"""``--split``: documents cut into parts that become documents; ``--min-tokens``: short ones left
out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import topicstream
from topicstream import Corpus, ingest
from topicstream.base.errors import InputError, UsageError
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import TEXT, batch_of
from topicstream.ingestion.parts.split import cut_documents, find_parts

WHOLE = {"min_df": 1, "max_df": 1.0, "stopwords": "none", "progress": False}


def batch_of_texts(texts: list[str]) -> pa.RecordBatch:
    numbers = range(len(texts))
    dates = {"date": pa.array([str(i) for i in numbers], TEXT)}
    return batch_of(
        [f"d{i}" for i in numbers], ["f"] * len(texts), {"text": pa.array(texts, TEXT)}, dates
    )


@pytest.mark.parametrize("split", ["paragraph", "20 words"])
def test_parts_take_the_memory_of_their_text(split):
    """The parts of a long book must not each hold a copy of the book."""
    book = "\n\n".join(" ".join(f"word{i}" for i in range(20)) for _ in range(4000))
    pool = pa.default_memory_pool()
    batch = batch_of_texts([book])
    before = pool.max_memory()
    assert len(cut_documents(batch, ReadOptions(split=split), Counter())) == 4000
    assert pool.max_memory() - before < 10 * len(book)


@pytest.mark.parametrize("pattern", ["—+", "x|\\n\\n", "(?=[A-Z])", "é?", "."])
def test_parts_are_what_re_split_leaves(pattern):
    rng = np.random.default_rng(3)
    letters = ["a", "B", "é", "x", "—", "\n", " ", "𝄞"]
    texts = ["".join(rng.choice(letters, rng.integers(0, 30))) for _ in range(200)]
    batch = batch_of_texts(["left out", *texts]).slice(1)
    parts = cut_documents(batch, ReadOptions(split=pattern), notes := Counter())
    parts.validate(full=True)
    assert batch["text"].to_pylist() == texts
    found = [text.strip() for text in parts["text"].to_pylist()]
    ids = []
    dates = []
    expected = []
    for i, text in enumerate(texts):
        pieces = [p.strip() for p in re.split(pattern, text) if p.strip()] or [""]
        expected += pieces
        ids += [f"d{i + 1}#{n + 1}" for n in range(len(pieces))]
        dates += [str(i + 1)] * len(pieces)
    assert [f.strip(" \n") for f in found] == expected
    assert parts["id"].to_pylist() == ids and parts["date"].to_pylist() == dates
    assert parts["document"].to_pylist() == [i.split("#")[0] for i in ids]
    whole = Counter(i.split("#")[0] for i in ids)
    assert [*notes.values()] == [sum(n == 1 for n in whole.values())]  # said in the summary


@pytest.mark.parametrize(
    ("novel", "parts"),
    [
        (
            "EMMA\n\nVOLUME I\n\nCHAPTER I\n\nEmma in\nchapter 2 of it\r\n\r\nChapter "
            "II.\r\n\r\nend",
            4,
        ),
        (
            "Erstes Kapitel\nEs war\n\nZweites Kapitel.\nDann\n\nDer letzte Teil war gut"
            + " genug" * 20,
            2,
        ),
        ("EL CAPÍTULO PRIMERO\n\nCAPÍTULO II\nErase\n\nЧАСТЬ I\n\nГлава 2. Утро\n\nв главе 3", 4),
        ("前言\n\n第一章 开始\n第二章在这里\n\n第二十回　完\n終", 3),
    ],
)
def test_chapters_of_novels_are_sections(novel, parts):
    assert (
        len(cut_documents(batch_of_texts([novel]), ReadOptions(split="section"), Counter()))
        == parts
    )


@pytest.mark.parametrize(
    "text", ["吾輩は猫である。名前はまだ無い。" * 20, "我 是 猫\n" * 100, "แมวนอนอยู่บนเสื่อ" * 30]
)
def test_characters_are_the_words_of_a_script_without_spaces(text):
    """Cut between characters, nothing lost; a text of spaced characters is cut as before."""
    parts = cut_documents(batch_of_texts([text]), ReadOptions(split="100 words"), Counter())[
        "text"
    ].to_pylist()
    assert "".join(parts) == text and len(parts) in (3, 5)
    assert {sum(not c.isspace() and c not in "。" for c in part) for part in parts[:-1]} == {100}


@pytest.mark.parametrize(
    ("words", "length", "parts"),
    [
        (4, 5, [5]),  # a rest of one of four words stays
        (4, 6, [4, 2]),
        (4, 9, [4, 5]),
        (4, 10, [4, 4, 2]),
        (5, 7, [7]),  # two of five are less than half
        (5, 8, [5, 3]),
        (1, 3, [1, 1, 1]),
        (4, 4, [4]),
        (4, 0, []),
    ],
)
def test_a_rest_of_half_the_words_is_a_part(words, length, parts):
    raw = b" ".join(b"w%d" % i for i in range(length))
    starts = [*find_parts(raw, words), len(raw)]
    assert [len(raw[a:b].split()) for a, b in pairwise(starts)] == parts


def test_paragraphs_and_sections():
    def texts(split, text):
        parts = cut_documents(batch_of_texts([text]), ReadOptions(split=split), Counter())
        return [part.split() for part in parts["text"].to_pylist()]

    assert texts("paragraph", "a\nb\r\n \r\n\r\nc\n\n") == [["a", "b"], ["c"]]
    assert texts("section", "head\n# One\na # b\n== Two ==\nc = d\n\\section{Three} e\n#no") == [
        ["head"],
        ["#", "One", "a", "#", "b"],
        ["==", "Two", "==", "c", "=", "d"],
        ["\\section{Three}", "e", "#no"],
    ]


def long_documents(n: int) -> list[dict]:
    rng = np.random.default_rng(1)
    words = np.array([f"word{i}" for i in range(40)])
    return [
        {
            "id": i,
            "text": "\n\n".join(
                " ".join(rng.choice(words, rng.integers(1, 12))) for _ in range(rng.integers(1, 6))
            ),
        }
        for i in range(n)
    ]


def table(store: Path) -> pa.Table:
    return pa.Table.from_batches(list(Corpus.open(store).documents()))


def test_whole_documents_are_held_out(tmp_path):
    documents = long_documents(300)
    raw = tmp_path / "d.jsonl"
    raw.write_text("".join(json.dumps(d) + "\n" for d in documents))
    side = tmp_path / "side.tsv"
    side.write_text("id\tdate\n" + "".join(f"{d['id']}\t{1900 + d['id']}\n" for d in documents))
    kept = {}
    for workers in (1, 3):
        store = tmp_path / f"c{workers}.zarr"
        ingest(
            raw,
            store,
            split="paragraph",
            min_tokens=3,
            heldout="10%",
            meta_files=f"{side}:id,date",
            workers=workers,
            **WHOLE,
        )
        kept[workers] = Corpus.open(store).fingerprint
    assert kept[1] == kept[3]
    found = table(store)
    expected = [
        f"{d['id']}#{n + 1}"
        for d in documents
        for n, p in enumerate(d["text"].split("\n\n"))
        if len(p.split()) >= 3
    ]
    assert sorted(found["id"].to_pylist()) == sorted(expected)
    assert all(
        str(int(y) - 1900) == w
        for y, w in zip(found["date"].to_pylist(), found["document"].to_pylist())
    )
    parts: dict[str, set] = {}
    for whole, part in zip(found["document"].to_pylist(), found["part"].to_pylist()):
        parts.setdefault(whole, set()).add(part)
    assert all(len(p) == 1 for p in parts.values())
    assert 0.08 < sum(p == {"heldout"} for p in parts.values()) / len(parts) < 0.15


@pytest.mark.parametrize("books", [1, 3])
def test_parts_of_few_documents_are_held_out_one_by_one(tmp_path, books):
    """Whole documents held out together would be all of one book, or a third of three."""
    (folder := tmp_path / "books").mkdir()
    for i in range(books):
        text = "\n\n".join(f"the whale of chapter {n} swims through book {i}" for n in range(200))
        (folder / f"{i}.txt").write_text(text)
    summary = ingest(folder, tmp_path / "c.zarr", split="paragraph", format="files", **WHOLE)
    assert summary["documents"] == 200 * books and 1 <= summary["documents_heldout"] <= 20 * books
    assert "by part: few documents" in summary["heldout_asked"]
    before = Corpus.open(tmp_path / "c.zarr").manifest.heldout
    (tmp_path / "more.txt").write_text("\n\n".join(f"a sequel of page {n}" for n in range(50)))
    more = ingest(
        tmp_path / "more.txt", tmp_path / "c.zarr", append=True, format="files", progress=False
    )
    assert (
        more["documents"] == 200 * books + 50
        and Corpus.open(tmp_path / "c.zarr").manifest.heldout == before
    )


def test_parts_of_an_append_are_held_out_together(tmp_path):
    """Also where the store's first documents were not cut."""
    store = tmp_path / "c.zarr"
    whole = [{"id": f"w{i}", "text": f"the whale of book {i}"} for i in range(200)]
    ingest(whole, store, heldout="30%", **WHOLE)
    before = Corpus.open(store).manifest.heldout
    documents = [{**d, "id": f"a{d['id']}"} for d in long_documents(100)]
    ingest(documents, store, append=True, split="paragraph", progress=False)
    assert Corpus.open(store).manifest.heldout == before
    parts: dict[str, set] = {}
    for row in table(store).select(["document", "part"]).to_pylist():
        if row["document"] is not None:
            parts.setdefault(row["document"], set()).add(row["part"])
    assert len(parts) == 100 and all(len(p) == 1 for p in parts.values())
    assert 15 < sum(p == {"heldout"} for p in parts.values()) < 45


def test_an_append_is_cut_alike(tmp_path):
    documents = long_documents(60)
    store = tmp_path / "c.zarr"
    ingest(
        [{**d, "id": f"a{d['id']}"} for d in documents],
        store,
        split="paragraph",
        min_tokens=2,
        **WHOLE,
    )
    before = len(table(store))
    ingest([{**d, "id": f"b{d['id']}"} for d in documents], store, append=True, progress=False)
    assert len(table(store)) == 2 * before
    topicstream.train(
        store, tmp_path / "model", algo="sparse-bp", topics=3, passes=2, progress=False
    )
    whole = topicstream.infer(tmp_path / "model", ["word1 word2\n\nword3"])
    assert len(whole) == 1  # what is inferred is not cut


def test_what_cannot_be_cut(tmp_path):
    out = tmp_path / "c.zarr"
    for options, why in [
        ({"split": "("}, "--split"),
        ({"split": "x", "links": "l.tsv"}, "to whole documents"),
        ({"split": "x", "on_duplicate": "replace"}, "to whole documents"),
        ({"min_tokens": 2, "key": "row"}, "--key row"),
    ]:
        with pytest.raises(UsageError, match=re.escape(why)):
            ingest(["a b"], out, **options)
    with pytest.raises(InputError, match="cuts text"):
        ingest(np.eye(3), out, vocabulary=["a", "b", "c"], split="x", progress=False)
    with pytest.raises(InputError, match="to whole documents"):
        ingest(
            [{"text": "a b", "links": ["c"]}],
            out,
            split="x",
            meta={"links": "links"},
            progress=False,
        )
    assert not out.exists()
