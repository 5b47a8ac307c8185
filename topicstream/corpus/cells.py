"""Kernels on the cells of a storage block: gaps to word ids and back, local ids, where blocks are
cut.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Bytes, Int, Ints, Longs
from topicstream.kernels.jit import kernel


def to_gaps(indptr: np.ndarray, words: np.ndarray) -> np.ndarray:
    """words: int32[nnz], ascending within each document -> uint32[nnz]: the first id, then
    differences to the one before.
    """
    gaps = np.empty(len(words), np.uint32)
    np.subtract(words[1:], words[:-1], out=gaps[1:], casting="unsafe")
    starts = indptr[:-1][indptr[1:] > indptr[:-1]]
    gaps[starts] = words[starts]
    return gaps


@kernel
def from_gaps(gaps: Array, lengths: Array, words: int) -> int:
    """uint32[nnz] as of ``to_gaps`` -> word ids, in place; lengths: uint32[D], cells of each
    document.

    Returns the first document whose ids do not ascend within 0..words-1, or -1: where ids are
    decoded they are checked, so that kernels may index by them."""
    i = np.int64(0)
    for d in range(len(lengths)):
        last = np.int64(-1)
        for j in range(i, i + np.int64(lengths[d])):
            gap = np.int64(gaps[j])
            if gap == 0 and j > i:
                return d
            last = gap if j == i else last + gap
            if last >= words:
                return d
            gaps[j] = last
        i += np.int64(lengths[d])
    return -1


@kernel
def to_local(ids: Ints, marker: Bytes, local: Ints, vocab: Ints, out: Ints) -> Int:
    """Number the distinct words of some cells in ascending order.

    ids: int32[nnz] global -> vocab: int32[U + 1] ascending, then scratch, out: int32[nnz] local
    numbers.  marker: uint8[W], zeros
    before and after; local: int32[W], scratch.  Returns U.
    """
    cells = ids.view(np.uint32)  # an index that may be negative is looked at twice
    for i in range(len(cells)):
        marker[cells[i]] = 1
    u = np.uint64(0)
    wide = marker[: len(marker) // 8 * 8].view(np.uint64)
    for j in range(len(wide)):
        if wide[j] != 0:
            for w in range(
                8 * j, 8 * j + 8
            ):  # also of words that are not there: a branch would be guessed wrong
                vocab[u] = w
                local[w] = u
                u += np.uint64(marker[w])
            wide[j] = 0
    for w in range(8 * len(wide), len(marker)):
        vocab[u] = w
        local[w] = u
        u += np.uint64(marker[w])
        marker[w] = 0
    for i in range(len(cells)):
        out[i] = local[cells[i]]
    return np.int64(u)


@kernel
def cut_lengths(lengths: Array, cells: int, docs: int, starts: Longs) -> int:
    """First documents of the blocks of one storage block -> starts: int64[]; returns how many.

    The blocks are as few as ``cells`` allows, give or take half a document, and of one size: a
    round takes as long as its largest block."""
    total = 0
    for d in range(len(lengths)):
        total += int(lengths[d])
    total = max(total, 1)
    parts = -(-total // cells)
    n = cells_before = end = in_cells = in_docs = (
        0  # end: this block ends nearest to so many shares of the cells
    )
    for d in range(len(lengths)):
        length = int(lengths[d])
        if (
            d == 0
            or (in_cells > 0 and (2 * cells_before + length) * parts > 2 * end * total)
            or in_docs >= docs
        ):
            starts[n] = d
            n += 1
            end = (2 * cells_before * parts + total) // (2 * total) + 1
            in_cells = in_docs = 0
        cells_before += length
        in_cells += length
        in_docs += 1
    return n
