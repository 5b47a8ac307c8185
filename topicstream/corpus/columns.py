"""Columns of the documents' metadata: their kinds, missing values, lists of values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.corpus.documents import OWN_COLUMNS
from topicstream.corpus.reader import Corpus

DATE = "date"
NO_NUMBER = frozenset(("NA", "N/A", "NaN", "nan"))
"""Spellings of a missing number in R and pandas. In a column of text they are values, as anywhere:
``ingest --na`` says which values mean none.
"""


def columns_of(corpus: Corpus) -> dict[str, str]:
    """Return the kind (``string`` or ``list``) of each of a store's own columns by name."""
    return {
        name: kind
        for name, kind in sorted(corpus.manifest.columns.items())
        if name not in OWN_COLUMNS
    }


def check_columns(corpus: Corpus, names: Sequence[str], option: str = "--with") -> None:
    """Raise InputError if the store lacks one of the columns."""
    columns = columns_of(corpus)
    for name in names:
        if name not in ("id", "source", *columns):
            listed = ", ".join(columns) or "none"
            raise InputError(
                f"{option} {name}: the store has no such column (it has {listed}); ingest with "
                f"--meta {name}=FIELD"
            )


def mark_missing(values: Any, spelled: Collection[str] = ()) -> Any:
    """Make values of a column null that are empty or ``spelled``."""
    missing = pa.array(["", *spelled], values.type)
    return pc.if_else(pc.is_in(values, missing), pa.scalar(None, values.type), values)


def flatten_lists(values: Any) -> tuple[Any, np.ndarray]:
    """Flatten a column, of lists or not, to one value a row.

    Returns
    -------
    flat
        The values, null for an empty one.
    docs
        The document of each, int64[n].
    """
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        return mark_missing(values), np.arange(len(values))
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return mark_missing(values.flatten()), np.repeat(np.arange(len(values)), lengths)
