"""Header and licence of Project Gutenberg: recognised in any text, taken out on request."""

from __future__ import annotations

import re
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from topicstream.ingestion.parse.documents import TEXT, content_kind
from topicstream.ingestion.tokens.substrings import mark_texts_with

NAMED = "PROJECT GUTENBERG"
"""Every header has it in capitals."""
_START = re.compile(
    r"\*\*\*[ \t]*START OF (?:THIS|THE) PROJECT GUTENBERG\b[^*]{0,500}\*\*\*[^\n]*\n?"
    r"|\*END[* ]*THE SMALL PRINT![^\n]*\n?"
)
_END = re.compile(
    r"\*\*\*[ \t]*END OF (?:THIS|THE) PROJECT GUTENBERG\b"
    r"|^[ \t]*End of (?:the |this )?Project Gutenberg\b",
    re.MULTILINE,
)
RECOGNISED = (
    "documents with the header or licence of Project Gutenberg (--strip-gutenberg removes it)"
)
STRIPPED = "documents without the header and licence of Project Gutenberg, which were removed"


def strip_boilerplate(text: str) -> str:
    """Remove the header and the licence of Project Gutenberg from a text."""
    header = _START.search(text)
    start = 0 if header is None else header.end()
    end = _END.search(text, start)
    return text[start : len(text) if end is None else end.start()]


def strip_documents(batch: pa.RecordBatch, notes: Counter[str], *, strip: bool) -> pa.RecordBatch:
    """Remove the boilerplate from the documents of a batch, or count those that have some.

    Parameters
    ----------
    batch
        Documents.
    notes
        Receives the number of documents with boilerplate.
    strip
        Remove it (``--strip-gutenberg``).
    """
    if content_kind(batch) != "text":
        return batch
    texts = batch.column(2)
    marks = mark_texts_with(texts, NAMED)
    if not marks.any():
        return batch
    mask = pa.array(marks)
    marked = texts.filter(mask).to_pylist()
    stripped = [strip_boilerplate(text) for text in marked]
    n_changed = sum(len(a) < len(b) for a, b in zip(stripped, marked))
    if not n_changed:
        return batch
    notes[STRIPPED if strip else RECOGNISED] += n_changed
    if not strip:
        return batch
    changed = pc.replace_with_mask(texts, mask, pa.array(stripped, TEXT))
    return batch.set_column(2, "text", changed)
