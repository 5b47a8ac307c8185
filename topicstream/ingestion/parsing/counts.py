"""What the formats of counts share: lines of numbers, checked; cells put in order; documents of
cells.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.ingestion.opening.source import HEAD_BYTES, Input
from topicstream.ingestion.parsing.documents import batch_of

MOST_COUNT = 3.0e38
"""Above it float32 has no numbers."""


def first_lines(head: bytes) -> list[bytes]:
    """Up to 50 whole lines of the first bytes of a file that are not blank."""
    lines = head.split(b"\n")
    complete = lines[:-1] if len(head) >= HEAD_BYTES or not lines[-1].strip() else lines
    return [line for line in complete[:50] if line.strip()]


def matching(lines: list[bytes], pattern: str) -> np.ndarray:
    """bool[L]: which lines match a regular expression (of RE2)."""
    matches = pc.match_substring_regex(pa.array(lines, pa.large_binary()), pattern)
    return matches.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def parsed_numbers(lines: list[bytes], real: bool) -> np.ndarray:
    """All numbers of lines that hold nothing else but blanks, float64 or int64."""
    text = b" ".join(lines)
    return np.fromstring(b"" if text.isspace() else text, np.float64 if real else np.int64, sep=" ")


def in_order(
    docs: np.ndarray, words: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells with ascending documents, so that words ascend within each and are unique; the counts
    of repeated ones are summed.
    """
    same = docs[1:] == docs[:-1]
    if not (words[1:][same] <= words[:-1][same]).any():
        return docs, words, counts
    # one key: three times as fast as lexsort, thirty times where nearly all is in order
    key = docs.astype(np.int64)
    key *= int(words.max()) + 1
    key += words
    order = np.argsort(key, kind="stable")
    docs, words, counts = docs[order], words[order], counts[order]
    first = np.flatnonzero(
        np.concatenate(([True], (docs[1:] != docs[:-1]) | (words[1:] != words[:-1])))
    )
    return docs[first], words[first], np.add.reduceat(counts, first)


def count_batch(
    source: Input,
    ids: pa.Array,
    sources: pa.Array,
    rows: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    meta: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Documents of cells.

    Parameters
    ----------
    rows
        int64[c], ascending: the document of each cell, from 0.
    words, counts
        int64[c] and numbers above 0, or 0 of cells that are left out.
    """
    zero = counts == 0
    if zero.any():
        source.note("values of zero left out", int(zero.sum()))
        rows, words, counts = rows[~zero], words[~zero], counts[~zero]
    if len(rows):
        rows, words, counts = in_order(rows, words, counts)
    offsets = pa.array(np.searchsorted(rows, np.arange(len(ids) + 1)))
    kind = np.float32 if counts.dtype.kind == "f" else np.int64
    content = {
        "words": pa.LargeListArray.from_arrays(offsets, pa.array(words.astype(np.int32))),
        "counts": pa.LargeListArray.from_arrays(offsets, pa.array(counts.astype(kind))),
    }
    return batch_of(ids, sources, content, meta or {})
