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
    """Return a text without what Project Gutenberg put before and behind it."""
    start = 0
    for match in _START.finditer(text):
        start = match.end()
        break
    end = _END.search(text, start)
    return text[start : len(text) if end is None else end.start()]


def strip_documents(batch: pa.RecordBatch, notes: Counter[str], *, asked: bool) -> pa.RecordBatch:
    """Take the boilerplate out of the documents of a batch, or count those that have some.

    Parameters
    ----------
    batch
        Documents.
    notes
        Get how many documents have it.
    asked
        Whether it is taken out (``--strip-gutenberg``).
    """
    if content_kind(batch) != "text":
        return batch
    texts = batch.column(2)
    marks = mark_texts_with(texts, NAMED)
    if not marks.any():
        return batch
    named = pa.array(marks)
    written = texts.filter(named).to_pylist()
    stripped = [strip_boilerplate(text) for text in written]
    n_with_some = sum(len(a) < len(b) for a, b in zip(stripped, written))
    if not n_with_some:
        return batch
    notes[STRIPPED if asked else RECOGNISED] += n_with_some
    if not asked:
        return batch
    changed = pc.replace_with_mask(texts, named, pa.array(stripped, TEXT))
    return batch.set_column(2, "text", changed)
