"""Arrays that kernels take, by what is in them, and the cells of a block.

Names are for readers and mypy: numba infers its own types.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from topicstream.kernels.jit import kernel

Array = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Shorts = np.ndarray[Any, np.dtype[np.uint16]]
Ints = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]
# numbers that kernels return: Python's or numba's own
Int = int | np.integer[Any]
Float = float | np.floating[Any]
Bool = bool | np.bool_


class Cells(NamedTuple):
    """The cells of a block: document d has indptr[d] .. indptr[d + 1], each with a local word and a
    count.

    indptr int64[D + 1];  words int32[nnz];  counts int32 or float32[nnz]
    """

    indptr: Longs
    words: Ints
    counts: Array


class CellsByWord(NamedTuple):
    """The cells of a block word by word, documents ascending: word u has ptr[u] .. ptr[u + 1].

    ptr int64[U + 1];  doc int32[nnz], row of the document;  x float32[nnz], count (an ingest keeps
                       the type it has)
    """

    ptr: Longs
    doc: Ints
    x: Array


@kernel
def word_ends(words: Ints, ptr: Longs) -> None:
    """ptr: int64[U + 1]: where each word's cells end, and the number of all.  Cells placed from the
    last one on, each before the
    one placed last, leave it where each word's cells begin."""
    ptr[:] = 0
    for i in range(len(words)):
        ptr[words[i]] += 1
    for u in range(len(ptr) - 1):
        ptr[u + 1] += ptr[u]


@kernel
def sort_by_word(cells: Cells, out: CellsByWord) -> None:
    """The cells word by word into the arrays of ``out`` (a counting sort)."""
    (indptr, words, counts), (ptr, doc, x) = cells, out
    word_ends(words, ptr)
    for d in range(len(indptr) - 2, -1, -1):
        for i in range(indptr[d + 1] - 1, indptr[d] - 1, -1):
            ptr[words[i]] -= 1
            j = ptr[words[i]]
            doc[j], x[j] = d, counts[i]


@kernel
def checksum(data: Bytes) -> Int:
    """Fletcher's checksum of 32-bit words in sums of 64 bits: a change of one word, and nearly
    every change of two, changes it. For what a run writes for itself; unlike a library's it does
    not keep other threads waiting."""
    words = data[: len(data) // 4 * 4].view(np.uint32)
    once, weighted, n = np.uint64(0), np.uint64(0), np.uint64(len(data))
    for i in range(len(words)):
        once += np.uint64(words[i])
        weighted += np.uint64(words[i]) * (n - np.uint64(i))
    for i in range(4 * len(words), len(data)):
        once += np.uint64(data[i]) << np.uint64(32)
    return np.int64(once * np.uint64(0x9E3779B97F4A7C15) ^ weighted)
