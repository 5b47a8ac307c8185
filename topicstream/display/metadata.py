"""Metadata columns that a command shows, and codes of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.options import listed_names
from topicstream.corpus.columns import check_columns, columns_of, flatten_lists
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import describe_mismatch
from topicstream.model.topic_model import TopicModel


def open_model_corpus(model: TopicModel, corpus: str | Path | Corpus) -> Corpus:
    """Open the corpus of a model, or raise UsageError if it is not the model's."""
    store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    describe_mismatch(model, store)  # raises if they share no words; a mere difference is no error
    return store


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
