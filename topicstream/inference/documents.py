"""Documents as inference takes them: cells over the model's own word ids, in small blocks.

A cell of a word that the model does not know is left out and counted.  Within a document cells ascend by word id, so a
document has the same cells in the same order whether it comes from a store or from text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from topicstream.kernels.arrays import Array, Doubles, Floats, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.local_step import sort_cells

BLOCK_DOCS = 1 << 11
BLOCK_CELLS = 1 << 17


@dataclass(frozen=True)
class Documents:
    """A run of documents.

    ids      large_string[D], or a struct that carries metadata too (``with_columns``)
    indptr   int64[D+1];  words: int64[nnz], ids of the model's words;  counts: float32[nnz]
    tokens   float64[D], sum of all counts, unknown words included
    unknown  float64[D], sum of the counts of unknown words
    whole    the ids are whole numbers in the input
    """

    ids: pa.Array
    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    tokens: np.ndarray
    unknown: np.ndarray
    whole: bool = False

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def flags(self) -> np.ndarray:
        """uint8[D]: 0, EMPTY (no token at all) or UNKNOWN (tokens, but no word that the model knows)."""
        cells = np.diff(self.indptr)
        return np.where(cells > 0, 0, np.where(self.tokens > 0, UNKNOWN, EMPTY)).astype(np.uint8)

    def take(self, which: np.ndarray) -> Documents:
        """Some of the documents, in the order of ``which``, int64[n]."""
        lengths = np.diff(self.indptr)[which]
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        cells = np.arange(indptr[-1]) + np.repeat(self.indptr[which] - indptr[:-1], lengths)
        return Documents(
            self.ids.take(pa.array(which)),
            indptr,
            self.words[cells],
            self.counts[cells],
            self.tokens[which],
            self.unknown[which],
            self.whole,
        )


def with_columns(ids: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Ids that carry columns with them wherever they are sliced and taken: a struct array; the ids alone without any."""
    if not columns:
        return ids
    return pa.StructArray.from_arrays([ids, *columns.values()], names=["", *columns])


def apart(ids: pa.Array) -> tuple[pa.Array, dict[str, pa.Array]]:
    """The ids and the columns that ``with_columns`` joined."""
    if not pa.types.is_struct(ids.type):
        return ids, {}
    names = [field.name for field in ids.type]
    arrays = ids.flatten()
    return arrays[0], dict(zip(names[1:], arrays[1:], strict=True))


EMPTY, UNKNOWN = 1, 2
FLAGS = ("", "empty", "unknown")


@kernel
def _known(
    indptr: Longs,
    words: Array,
    counts: Array,
    index: Longs,
    out_indptr: Longs,
    out_words: Longs,
    out_counts: Floats,
    tokens: Doubles,
    unknown: Doubles,
) -> int:
    """Map words through index (int64[U], -1 unknown), leave unknown cells out, sort each document by word; cells kept."""
    n = 0
    out_indptr[0] = 0
    for d in range(len(indptr) - 1):
        all_tokens, lost, begin, last, tidy = 0.0, 0.0, n, np.int64(-1), True
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float64(counts[i])
            all_tokens += x
            w = index[words[i]]
            if w < 0:
                lost += x
            elif x > 0.0:
                out_words[n] = w
                out_counts[n] = x
                n += 1
                tidy &= last <= w
                last = w
        if not tidy:
            sort_cells(out_words, out_counts, begin, n)
        out_indptr[d + 1] = n
        tokens[d] = all_tokens
        unknown[d] = lost
    return n


def known(
    ids: pa.Array, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray, index: np.ndarray, whole: bool = False
) -> Documents:
    """Documents out of cells over other word ids; index: int64[U], the model's id of each, -1 unknown."""
    n, docs = len(words), len(indptr) - 1
    out_indptr, out_words, out_counts = np.empty(docs + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.float32)
    tokens, unknown = np.empty(docs), np.empty(docs)
    kept = _known(indptr, words, counts, index, out_indptr, out_words, out_counts, tokens, unknown)
    return Documents(ids, out_indptr, out_words[:kept], out_counts[:kept], tokens, unknown, whole)


def cut_cells(indptr: np.ndarray, most_docs: int = BLOCK_DOCS, cells: int = BLOCK_CELLS) -> list[tuple[int, int]]:
    """Runs of at most so many documents and cells (a longer document is a run alone)."""
    runs, first, docs = [], 0, len(indptr) - 1
    while first < docs:
        last = int(np.searchsorted(indptr, indptr[first] + cells, "right")) - 1
        last = max(first + 1, min(last, first + most_docs, docs))
        runs.append((first, last))
        first = last
    return runs
