"""Metadata columns of a store's documents, streamed in step with the blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError, StoreError
from topicstream.base.options import listed_names
from topicstream.corpus.documents import OWN
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import describe_mismatch, stream_documents
from topicstream.model.topic_model import TopicModel

NO_NUMBER = frozenset(("NA", "N/A", "NaN", "nan"))
"""Spellings of a missing number in R and pandas.  In a column of text they are values, as anywhere:
``ingest --na`` says which values mean none.
"""


def open_model_corpus(model: TopicModel, corpus: str | Path | Corpus) -> Corpus:
    """Open the corpus of a model, or raise UsageError if it is not the model's."""
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    describe_mismatch(model, store)
    return store


def columns_of(corpus: Corpus) -> dict[str, str]:
    """Return the kind (``string`` or ``list``) of each of a store's own columns by name."""
    return {name: kind for name, kind in sorted(corpus.manifest.columns.items()) if name not in OWN}


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


def choose_columns(corpus: Corpus, names: str | Sequence[str] | None) -> list[str]:
    """Return the columns to show of a document: ``names``, or by default its title.

    Raises
    ------
    InputError
        If the store lacks a column of ``names``.
    """
    if names is None:
        return [name for name in ("title",) if name in columns_of(corpus)]
    names = listed_names(names)
    check_columns(corpus, names)
    return names


class Metadata:
    """Rows of some metadata columns for consecutive documents of a part.

    Parameters
    ----------
    corpus
        The store.
    columns
        Names of the columns.
    heldout
        Read the documents set aside, not the training documents.
    """

    def __init__(self, corpus: Corpus, columns: Sequence[str], heldout: bool = False) -> None:
        self._path = corpus.path
        self._stream = iter(stream_documents(corpus, heldout, list(columns)))
        self._numbers = np.zeros(0, np.int64)
        self._rows = pa.table({name: pa.nulls(0, pa.large_string()) for name in columns})

    def read_rows(self, first: int, count: int) -> tuple[pa.Table, np.ndarray]:
        """Read the rows of ``count`` documents from ``first`` on, behind those of the last call.

        Returns
        -------
        rows
            A row a document, null for a document that the table does not list because a later
            version has replaced it.
        listed
            Documents that the table lists, bool[count].
        """
        while not len(self._numbers) or self._numbers[-1] < first + count:
            numbers, batch = next(self._stream, (None, None))
            if numbers is None:
                break
            if (np.diff(numbers, prepend=self._numbers[-1:]) < 0).any():
                raise StoreError(
                    f"{self._path}/docs: documents are not in the order of the blocks; ingest again"
                )
            rows = pa.Table.from_batches([batch])
            self._rows = pa.concat_tables([self._rows, rows]) if len(self._numbers) else rows
            self._numbers = np.concatenate([self._numbers, numbers])
        start, end = np.searchsorted(self._numbers, [first, first + count])
        place = np.full(count, -1, np.int64)
        place[self._numbers[start:end] - first] = np.arange(start, end)
        rows = self._rows.take(pa.array(place, mask=place < 0))
        self._rows = self._rows.slice(end)
        self._numbers = self._numbers[end:]
        return rows, place >= 0


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


def codes_of(values: Any, code: Callable[[str], int]) -> tuple[np.ndarray, np.ndarray]:
    """Code the values of a column, of lists or not.

    Parameters
    ----------
    values
        The column.
    code
        Returns the code of a value, negative for a value to leave out.

    Returns
    -------
    docs, codes
        Document and code of each entry, int64[n]. A document of a list column has an entry for
        each of its distinct codes.
    """
    flat, docs = flatten_lists(values)
    words = flat.dictionary_encode()
    table = np.array([*map(code, words.dictionary.to_pylist()), -1], np.int64)
    codes = table[words.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)]
    valid = codes >= 0
    docs = docs[valid]
    codes = codes[valid]
    if pa.types.is_nested(values.type):
        width = int(codes.max(initial=0)) + 1
        docs, codes = np.divmod(np.unique(docs * width + codes), width)
    return docs, codes
