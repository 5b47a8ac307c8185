"""What passes from a reader to the tokenizer: runs of documents, columnar, in input order.

No Python object a document in the hot path: text is one byte buffer with offsets, metadata are Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Provenance:
    """The columns every run of documents has.

    ids     large_string[D]   document ids as given (unique within an ingest unless duplicates are meant)
    source  large_string[D]   where it stands: ``file`` or ``file:line`` (1-based) or ``file#record``
    meta    name -> Array[D]  list columns (corpus/format.py): list<large_string>; ``date``: large_string (ISO or the
                              year); any other column the user asked for (``--meta name=field``): large_string
    whole   the ids are whole numbers in the input, not strings of digits
    deleted large_string[]    ids that this run says are withdrawn (PubMed's DeleteCitation); last one wins
    """

    ids: pa.Array
    source: pa.Array
    meta: Mapping[str, pa.Array] = field(default_factory=dict)
    deleted: pa.Array | None = None
    whole: bool = False


@dataclass(frozen=True)
class TextRun:
    """Documents as text.  text: uint8[B], valid UTF-8; offsets: int64[D+1] into it."""

    about: Provenance
    text: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.about.ids)

    def where(self) -> str:
        """Where the first of the documents stands, for messages."""
        return str(self.about.source[0].as_py()) if len(self) else "no source"


@dataclass(frozen=True)
class CountRun:
    """Documents as counts over the words of a file's own vocabulary.

    indptr: int64[D+1]; words: int32[nnz], ascending and unique within a document, ids of the reader's ``words`` list;
    counts: int64[nnz] > 0, or float32[nnz] for weighted cells.
    dense: every document has all words, in their order, and any finite number of each.
    """

    about: Provenance
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    dense: bool = False

    def __len__(self) -> int:
        return len(self.about.ids)
