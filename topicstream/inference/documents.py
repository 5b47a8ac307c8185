"""Documents for inference, in small blocks, and hashes of strings.

A document is a list of cells over the model's own word ids. A cell of a word that the model does
not know is left out and counted. Within a document cells ascend by word id, so a document has the
same cells in the same order whether it comes from a store or from text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.corpus.vocabulary import string_buffers
from topicstream.numeric.kernels.arrays import Bytes, Longs, Words
from topicstream.numeric.kernels.jit import kernel

_BASIS = np.uint64(0xCBF29CE484222325)  # constants of FNV-1a for 64 bits
_PRIME = np.uint64(0x100000001B3)

EMPTY = 1
UNKNOWN = 2
FLAGS = ("", "empty", "unknown")
"""Flags of documents, and their names."""


class DocumentPriors(NamedTuple):
    """Priors of documents that depend on their covariates.

    Attributes
    ----------
    alphas
        float32[A, KP], zero in the padding.
    row_of
        int32[D], the row of each document.
    """

    alphas: np.ndarray
    row_of: np.ndarray


@dataclass(frozen=True)
class Documents:
    """A block of documents.

    Attributes
    ----------
    ids
        large_string[D].
    indptr
        int64[D + 1], where the cells of each document begin.
    words
        int64[nnz], ids of the model's words, ascending in a document. Empty for dense rows.
    counts
        float32[nnz]; the numbers of dense rows.
    tokens, unknown
        float64[D], sums of all counts, and of the counts of words that the model does not know.
    columns
        Metadata by name, an Arrow array of D values each.
    integer_ids
        Whether the ids are whole numbers in the input.
    priors
        The documents' own priors, or None where all have the model's.
    """

    ids: pa.Array
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    tokens: np.ndarray
    unknown: np.ndarray
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    integer_ids: bool = False
    priors: DocumentPriors | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def flags(self) -> np.ndarray:
        """Return the flags of the documents, uint8[D].

        0, EMPTY (no token at all) or UNKNOWN (tokens, but no word that the model knows).
        """
        flags = np.where(self.tokens > 0, UNKNOWN, EMPTY)
        flags[np.diff(self.indptr) > 0] = 0
        return flags.astype(np.uint8)

    def scale_counts(self, length: float, root: bool) -> np.ndarray:
        """Scale the counts of each document to ``length`` tokens, float32[nnz].

        A ``length`` of 0 leaves them as they are. ``root`` takes square roots.
        """
        owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        x = np.sqrt(self.counts) if root else self.counts
        mass = np.bincount(owner, self.counts, len(self))
        scale = np.divide(length or mass, mass, out=np.ones(len(self)), where=mass > 0)
        return np.asarray(x * (np.sqrt(scale) if root else scale).astype(np.float32)[owner])

    def keep_words(self, selected: np.ndarray) -> Documents:
        """Leave out the cells of words that are not ``selected``, bool[W], as unknown words."""
        stays = selected[self.words]
        if stays.all():
            return self
        owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        dropped = np.bincount(owner[~stays], self.counts[~stays], len(self))
        before = np.concatenate([[0], np.cumsum(stays)])
        return replace(
            self,
            indptr=before[self.indptr].astype(np.int64),
            words=self.words[stays],
            counts=self.counts[stays],
            unknown=self.unknown + dropped,
        )

    def take(self, rows: np.ndarray) -> Documents:
        """Select documents by their numbers, int64[n], in that order."""
        indptr, cells = select_ragged(self.indptr, rows)
        places = pa.array(rows)
        priors = self.priors
        return replace(
            self,
            ids=self.ids.take(places),
            indptr=indptr,
            words=self.words[cells] if len(self.words) else self.words,
            counts=self.counts[cells],
            tokens=self.tokens[rows],
            unknown=self.unknown[rows],
            columns={name: column.take(places) for name, column in self.columns.items()},
            priors=None if priors is None else priors._replace(row_of=priors.row_of[rows]),
        )


def select_ragged(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Select rows of a ragged array by their numbers, int64[n].

    Returns
    -------
    tuple
        The indptr of the selected rows, and the places of their entries in the array, int64.
    """
    lengths = np.diff(indptr)[rows]
    out = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return out, np.arange(out[-1]) + np.repeat(indptr[rows] - out[:-1], lengths)


def documents_of_cells(
    ids: pa.Array, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray, index: np.ndarray
) -> Documents:
    """Build documents from cells over the word ids of another vocabulary.

    Parameters
    ----------
    ids
        Ids of the documents, an Arrow array.
    indptr, words, counts
        int64[D + 1], int[nnz], [nnz]: the cells. A count of 0 is left out.
    index
        int64[U], the model's id of each word, -1 for unknown words.
    """
    docs = len(indptr) - 1
    model_ids = index[words]
    owner = np.repeat(np.arange(docs), np.diff(indptr))
    stays = (model_ids >= 0) & (counts > 0)
    tokens = np.bincount(owner, counts, docs)
    unknown = np.bincount(owner[model_ids < 0], counts[model_ids < 0], docs)
    new_indptr = np.concatenate(([0], np.cumsum(stays)))[indptr]
    words = model_ids[stays].astype(np.int64)
    counts = counts[stays].astype(np.float32)
    order = np.argsort(owner[stays] * (int(index.max(initial=-1)) + 1) + words, kind="stable")
    return Documents(ids, new_indptr, words[order], counts[order], tokens, unknown)


def dense_documents(ids: pa.Array, indptr: np.ndarray, numbers: np.ndarray) -> Documents:
    """Convert dense rows to documents.

    Each counts as one token, and all of its numbers are known.
    """
    docs = len(indptr) - 1
    no_words = np.zeros(0, np.int64)
    numbers = numbers.astype(np.float32, copy=False)
    return Documents(ids, indptr, no_words, numbers, np.ones(docs), np.zeros(docs))


def cut_cells(indptr: np.ndarray, most_docs: int, cells: int) -> Iterator[tuple[int, int]]:
    """Cut documents into ranges of at most ``most_docs`` documents and ``cells`` cells.

    A longer document is a range by itself.
    """
    first = 0
    docs = len(indptr) - 1
    while first < docs:
        last = int(np.searchsorted(indptr, indptr[first] + cells, "right")) - 1
        last = max(first + 1, min(last, first + most_docs, docs))
        yield first, last
        first = last


@kernel
def _hash(offsets: Longs, text: Bytes, out: Words) -> None:
    for i in range(len(out)):
        h = _BASIS
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(text[j])) * _PRIME
        out[i] = h


def fnv1a(strings: Any) -> np.ndarray:
    """Hash strings by FNV-1a (Fowler, Noll, Vo), uint64[n].

    Random draws and held-out splits depend on these hashes. ``strings`` is an Arrow array or
    converts to one.
    """
    offsets, text = string_buffers(strings)
    out = np.empty(len(offsets) - 1, np.uint64)
    _hash(offsets, text, out)
    return out
