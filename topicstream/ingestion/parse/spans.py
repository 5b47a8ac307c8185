"""Metadata that hold for a part of a document's text, such as who speaks.

A reader gives them as a column of type ``SPANS``; each part of a cut document gets the values of
its own text, and a document that is not cut has all of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypedDict

import numpy as np
import pyarrow as pa

from topicstream.ingestion.parse.columns import LISTS
from topicstream.ingestion.parse.documents import LIST, TEXT, metadata_of

SPANS = pa.list_(
    pa.struct([("start", pa.int64()), ("end", pa.int64()), ("value", pa.large_string())])
)
"""Values, each with the bytes of the text that it holds for."""
PART_MARK = "\x1e"
"""Stands in text where a reader would have it cut; no text holds it."""


class Span(TypedDict):
    """Bytes of a text, and the value that holds for them."""

    start: int
    end: int
    value: str


def resolve_spans(
    batch: pa.RecordBatch, owners: np.ndarray, bounds: np.ndarray, separator: str
) -> dict[str, pa.Array]:
    """Find the metadata of each part of the documents of a batch.

    Parameters
    ----------
    batch
        Documents before they were cut.
    owners
        int[P], the row of the document of each part, ascending.
    bounds
        int[P, 2], the bytes of each part in its document's text.
    separator
        Stands between several values in a column that takes one string.

    Returns
    -------
    dict
        By the name of each column of spans: lists of strings, or strings.
    """
    columns: dict[str, pa.Array] = {}
    for name, column in metadata_of(batch).items():
        if column.type != SPANS:
            continue
        starts = np.searchsorted(owners, np.arange(len(batch) + 1))
        values: list[list[str]] = []
        for row, (first, last) in enumerate(pairwise(starts.tolist())):
            values += _values_of_parts(column[row].as_py() or [], bounds[first:last])
        if name in LISTS:
            columns[name] = pa.array(values, LIST)
        else:
            joined = [separator.join(distinct) or None for distinct in values]
            columns[name] = pa.array(joined, TEXT)
    return columns


def _values_of_parts(spans: list[Span], bounds: np.ndarray) -> list[list[str]]:
    """List the distinct values of the spans that lie in each part of a document."""
    ends = np.array([span["end"] for span in spans], np.int64)
    values: list[list[str]] = []
    for start, end in bounds.tolist():
        first = int(np.searchsorted(ends, start, "right"))
        distinct: dict[str, None] = {}
        for span in spans[first:]:
            if span["start"] >= end:
                break
            distinct[span["value"]] = None
        values.append(list(distinct))
    return values


def with_whole_spans(batch: pa.RecordBatch, separator: str) -> pa.RecordBatch:
    """Give documents that are not cut all values of their spans."""
    rows = np.arange(len(batch))
    bounds = np.stack(
        (np.zeros(len(batch), np.int64), np.full(len(batch), np.iinfo(np.int64).max)), 1
    )
    for name, column in resolve_spans(batch, rows, bounds, separator).items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch
