"""Documents that a view lists: found by id, described, and as lines for people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.base.text import wrapped
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import spellings
from topicstream.display.gather import describe_documents
from topicstream.display.show import document_line
from topicstream.evaluation.keys import stream_documents


def described_documents(
    scored: list[tuple[float, bool, int]], score: str, corpus: Corpus, columns: list[str]
) -> list[dict[str, Any]]:
    """Documents by id, part, score (under its name) and columns."""
    rows = {
        heldout: describe_documents(
            corpus, np.array([d for _, h, d in scored if h == heldout], np.int64), columns, heldout
        )
        for heldout in (False, True)
    }
    return [
        {
            "id": rows[heldout][number]["id"],
            "part": "heldout" if heldout else "train",
            score: value,
            **{
                name: text
                for name in columns
                if name != score and (text := rows[heldout][number].get(name)) is not None
            },
        }
        for value, heldout, number in scored
    ]


def find_document(corpus: Corpus, document: str, option: str) -> tuple[bool, int]:
    """(whether it is set aside, number in its part) of the document of this id; InputError."""
    for heldout in (False, True):
        for numbers, batch in stream_documents(corpus, heldout, ["id"]):
            ids = batch.column("id")
            for spelling in spellings(document):
                hit = pc.index(ids, pa.scalar(spelling, ids.type)).as_py()
                if hit >= 0:
                    return heldout, int(numbers[hit])
    raise InputError(f"{option} {document}: the store has no document of this id")


def document_lines(listed: list[dict[str, Any]], score: str, width: int | None) -> list[str]:
    """Documents for people: score, id and columns."""
    return [
        line
        for d in listed
        for line in wrapped(f"{d[score]:7.3f}  ", document_line(d, "part", score), width)
    ]
