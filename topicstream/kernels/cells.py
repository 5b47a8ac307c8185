"""Cells of a block in another order."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Cells, CellsByWord
from topicstream.kernels.jit import kernel


@kernel
def sort_by_word(cells: Cells, out: CellsByWord) -> None:
    """The cells word by word into the arrays of ``out`` (a counting sort)."""
    (indptr, words, counts), (ptr, doc, x) = cells, out
    ptr[:] = 0
    for i in range(len(words)):
        ptr[words[i] + 1] += 1
    for u in range(len(ptr) - 1):
        ptr[u + 1] += ptr[u]
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            u = words[i]
            j = ptr[u]
            doc[j] = d
            x[j] = np.float32(counts[i])
            ptr[u] = j + 1
    for u in range(len(ptr) - 1, 0, -1):
        ptr[u] = ptr[u - 1]
    ptr[0] = 0
