"""Expected counts of a block from its cells' sparse responsibilities: by word, merged, compared
with the last visit's.

A statistic is three arrays: ptr int32[U+1], topic uint16[n] and value float32[n]; word u has topics
topic[ptr[u] .. ptr[u+1]), each once, in the order of first use.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.weights import WeightSource
from topicstream.kernels import pointers, simd
from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs, Shorts, word_ends
from topicstream.kernels.digamma import digamma, log
from topicstream.kernels.jit import kernel

AHEAD = 8  # cells before their entries are used, they are asked for
FULL_LISTS = (
    16  # shorter lists are zeros to their end (choice.collect): no branch that has to be guessed
)


@kernel
def entries_by_word(words: Ints, start: Longs, order: Ints) -> None:
    """Cells ordered by word, in their own order within: start int64[U+1], order int32[nnz]."""
    word_ends(words, start)
    for i in range(len(words) - 1, -1, -1):
        start[words[i]] -= 1
        order[start[words[i]]] = i


@kernel(inline="always")
def _ask_for(i: int, topic_: int, value_: int) -> None:
    """Prefetch a cell's entries, which begin at ``i`` of uint16 topics and float32 values."""
    pointers.fetch(topic_, i // 2)
    pointers.fetch(value_, i)


@kernel
def sum_cells(
    start: Longs, order: Ints, most: int, cell_topic: Shorts, cell_value: Floats, delta: Floats
) -> None:
    """delta[u, k] = the sum of the values of word u's cells (``entries_by_word``,
    sparse.sparse_step); delta: float32[U, P].

    Word by word, so that a row is cleared and summed while it is in the first cache.
    """
    width, delta_, last = delta.shape[1], pointers.address_of(delta), len(order) - 1
    topic_, value_, nothing = (
        pointers.address_of(cell_topic),
        pointers.address_of(cell_value),
        simd.splat(np.float32(0)),
    )
    for u in range(delta.shape[0]):
        row = delta_ + 4 * width * u
        for k in range(0, width, 16):
            pointers.store(row, k, nothing)
        for c in range(start[u], start[u + 1]):
            _ask_for(order[min(c + AHEAD, last)] * most, topic_, value_)
            i = order[c] * most
            for j in range(i, i + most):
                v = pointers.float_at(value_, j)
                if v == 0:
                    break
                k = pointers.short_at(topic_, j)
                pointers.put_float(row, k, pointers.float_at(row, k) + v)


@kernel
def merge_cells(
    start: Longs,
    order: Ints,
    most: int,
    cell_topic: Shorts,
    cell_value: Floats,
    total: Doubles,
    ptr: Array,
    topic: Shorts,
    value: Floats,
) -> int:
    """The block's statistic into ptr, topic, value; returns its length.  total: float64[P],
    overwritten.

    topic has room for one entry more than the statistic can have: each is written before it is
    known to be new."""
    last, n = len(order) - 1, 0
    cell_topic_, cell_value_, total_ = (
        pointers.address_of(cell_topic),
        pointers.address_of(cell_value),
        pointers.address_of(total),
    )
    total[:] = 0.0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        low = n
        for c in range(start[u], start[u + 1]):
            _ask_for(order[min(c + AHEAD, last)] * most, cell_topic_, cell_value_)
            i = order[c] * most
            for j in range(i, i + most):
                v = pointers.float_at(cell_value_, j)
                if v == 0 and most > FULL_LISTS:
                    break
                k = pointers.short_at(cell_topic_, j)
                old = pointers.double_at(total_, k)
                pointers.put_double(total_, k, old + v)
                topic[n] = k
                n += (v > 0) & (old == 0.0)
        for c in range(low, n):
            k = np.int64(topic[c])
            value[c] = pointers.double_at(total_, k)
            pointers.put_double(total_, k, 0.0)
        ptr[u + 1] = n
    return n


@kernel
def change(
    topics: int,
    old_ptr: Ints,
    old_topic: Shorts,
    old_value: Floats,
    new_ptr: Ints,
    new_topic: Shorts,
    new_value: Floats,
    ptr: Longs,
    topic: Shorts,
    value: Floats,
) -> int:
    """new - old as a SparseDelta (ptr int64[U+1], topic, value), entries that are the same left
    out; returns its length.  Both
    have a topic of a word once."""
    total = np.zeros(topics)
    n = 0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        for c in range(old_ptr[u], old_ptr[u + 1]):
            total[old_topic[c]] -= old_value[c]
        for c in range(new_ptr[u], new_ptr[u + 1]):
            k = new_topic[c]
            topic[n], value[n] = k, total[k] + new_value[c]
            n += value[n] != 0.0
            total[k] = 0.0
        for c in range(old_ptr[u], old_ptr[u + 1]):
            k = old_topic[c]
            topic[n], value[n] = k, total[k]
            n += total[k] != 0.0
            total[k] = 0.0
        ptr[u + 1] = n
    return n


@kernel
def sparse_data_term(src: WeightSource, ptr: Ints, topic: Shorts, value: Floats) -> float:
    """sum_uk stat[u, k] E[log phi_uk] over a statistic's entries, float64."""
    total = 0.0
    for u in range(len(ptr) - 1):
        i = src.row_of[u]
        for c in range(ptr[u], ptr[u + 1]):
            k = topic[c]
            x = src.scale * src.base[i, k] + src.beta
            total += value[c] * ((log(x) if src.point else digamma(x)) - src.term[k])
    return total
