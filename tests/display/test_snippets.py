"""Passages that reports quote: of a corpus cut by --split the very part, whatever the format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from topicstream import Corpus, ingest
from topicstream.display.gather import describe_documents
from topicstream.display.passages import locate_text, snippets

PARTS = [f"chapter {i} tells of thing{i} and of place{i}" for i in range(40)]


def raw(folder: Path, form: str) -> Path:
    """Four documents of ten paragraphs each."""
    texts = ["\n\n".join(PARTS[i : i + 10]) for i in range(0, 40, 10)]
    if form == "folder":
        (folder / "books").mkdir()
        for i, text in enumerate(texts):
            (folder / "books" / f"{i}.txt").write_text(text)
        return folder / "books"
    path = folder / f"books.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    else:
        with path.open("w", newline="") as f:
            csv.writer(f).writerows(
                [["key", "body"], *([f"k{i}", text] for i, text in enumerate(texts))]
            )
    return path


@pytest.mark.parametrize("form", ["folder", "jsonl", "csv"])
def test_the_passage_is_that_of_the_part(tmp_path, form):
    fields = {} if form == "folder" else {"text_field": "body"}
    fields |= {"id_field": "key"} if form == "csv" else {}
    ingest(
        raw(tmp_path, form),
        tmp_path / "c.zarr",
        split="paragraph",
        min_df=1,
        heldout=0,
        progress=False,
        **fields,
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    assert corpus.n_docs == 40
    rows = describe_documents(corpus, np.arange(40), ["source", "document"])
    texts, why = snippets(corpus, [locate_text(corpus, row) for row in rows.values()])
    assert why == ""
    first = {"folder": "0.txt", "jsonl": "books.jsonl:1", "csv": "k0"}[form]
    documents = sorted({row["document"] for row in rows.values()})
    assert documents[0] == first
    for row in rows.values():
        document, _, part = row["id"].rpartition("#")
        assert (
            texts[locate_text(corpus, row)] == PARTS[10 * documents.index(document) + int(part) - 1]
        )


def test_of_a_whole_document_the_beginning(tmp_path):
    ingest(
        raw(tmp_path, "jsonl"),
        tmp_path / "c.zarr",
        text_field="body",
        min_df=1,
        heldout=0,
        progress=False,
    )
    corpus = Corpus.open(tmp_path / "c.zarr")
    rows = describe_documents(corpus, np.arange(4), ["source"])
    texts, _ = snippets(corpus, [locate_text(corpus, row) for row in rows.values()], characters=60)
    for n in range(4):
        text = texts[(f"books.jsonl:{n + 1}", 0)]
        assert (
            text.startswith(f"{PARTS[10 * n]} chapter {10 * n + 1} tells")
            and text.endswith(" …")
            and len(text) <= 62
        )
