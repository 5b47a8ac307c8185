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


def list_documents(
    scored: list[tuple[float, bool, int]], score: str, corpus: Corpus, columns: list[str]
) -> list[dict[str, Any]]:
    """Describe ranked documents by id, part, score and columns.

    Parameters
    ----------
    scored
        (score, set aside, number in the part) of each document.
    score
        Name of the score in the result.
    corpus
        The store of the documents.
    columns
        Metadata columns to add.
    """
    rows = {
        heldout: describe_documents(
            corpus, np.array([d for _, h, d in scored if h == heldout], np.int64), columns, heldout
        )
        for heldout in (False, True)
    }
    documents = []
    for value, heldout, number in scored:
        row = rows[heldout][number]
        part = "heldout" if heldout else "train"
        more = {name: row.get(name) for name in columns if name != score}
        present = {name: text for name, text in more.items() if text is not None}
        documents.append({"id": row["id"], "part": part, score: value, **present})
    return documents


def find_document(corpus: Corpus, document: str, option: str) -> tuple[bool, int]:
    """Find a document by its id.

    Returns
    -------
    tuple
        Whether it is set aside, and its number in its part.

    Raises
    ------
    InputError
        If the store has no document of this id; ``option`` names it in the message.
    """
    for heldout in (False, True):
        for numbers, batch in stream_documents(corpus, heldout, ["id"]):
            ids = batch.column("id")
            for spelling in spellings(document):
                hit = pc.index(ids, pa.scalar(spelling, ids.type)).as_py()
                if hit >= 0:
                    return heldout, int(numbers[hit])
    raise InputError(f"{option} {document}: the store has no document of this id")


def document_lines(documents: list[dict[str, Any]], score: str, width: int | None) -> list[str]:
    """Format documents as lines of score, id and columns."""
    lines = []
    for document in documents:
        head = f"{document[score]:7.3f}  "
        lines += wrapped(head, document_line(document, "part", score), width)
    return lines
