"""Expected counts of a block from its cells' sparse responsibilities: by word, merged, compared with the last visit's.

A statistic is three arrays: ptr int32[U+1], topic uint16[n] and value float32[n]; word u has topics
topic[ptr[u] .. ptr[u+1]), each once, in the order of first use.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels import places
from topicstream.kernels.digamma import digamma, log
from topicstream.kernels.jit import kernel

AHEAD = 4  # cells before their entries are used, they are asked for


@kernel
def add_cells(words, most, cell_topic, cell_value, delta):
    """delta[u, k] += the cells' values (sparse.sparse_step); delta: float32[U, P]."""
    width, delta_, last = delta.shape[1], places.place(delta), len(words) - 1
    topic_, value_ = places.place(cell_topic), places.place(cell_value)
    for i in range(len(words)):
        ahead = min(i + AHEAD, last)
        row = delta_ + 4 * width * words[ahead]
        for j in range(ahead * most, (ahead + 1) * most):
            places.fetch(row, places.small(topic_, j))
        row = delta_ + 4 * width * words[i]
        for j in range(i * most, (i + 1) * most):
            v = places.get(value_, j)
            if v == 0:
                break
            k = places.small(topic_, j)
            places.put(row, k, places.get(row, k) + v)


@kernel
def by_word(words, n_words, start, order):
    """Cells ordered by word, in their own order within: start int64[U+1], order int32[nnz]."""
    start[:] = 0
    for i in range(len(words)):
        start[words[i] + 1] += 1
    for u in range(n_words):
        start[u + 1] += start[u]
    for i in range(len(words)):
        u = words[i]
        order[start[u]] = i
        start[u] += 1
    for u in range(n_words, 0, -1):
        start[u] = start[u - 1]
    start[0] = 0


@kernel
def merge_cells(start, order, most, cell_topic, cell_value, topics, ptr, topic, value):
    """The block's statistic into ptr, topic, value; returns its length."""
    total, seen = np.zeros(topics), np.zeros(topics, np.bool_)
    n = 0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        low = n
        for c in range(start[u], start[u + 1]):
            i = order[c]
            for j in range(i * most, (i + 1) * most):
                if cell_value[j] == 0:
                    break
                k = cell_topic[j]
                if not seen[k]:
                    seen[k] = True
                    topic[n] = k
                    n += 1
                total[k] += cell_value[j]
        for c in range(low, n):
            k = topic[c]
            value[c] = total[k]
            total[k] = 0.0
            seen[k] = False
        ptr[u + 1] = n
    return n


@kernel
def change(topics, old_ptr, old_topic, old_value, new_ptr, new_topic, new_value, ptr, topic, value):
    """new - old as a SparseDelta (ptr int64[U+1], topic, value), entries that are the same left out; returns its length."""
    total, seen = np.zeros(topics), np.zeros(topics, np.bool_)
    n = 0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        low = n
        for c in range(new_ptr[u], new_ptr[u + 1]):
            k = new_topic[c]
            seen[k] = True
            topic[n] = k
            n += 1
            total[k] = new_value[c]
        for c in range(old_ptr[u], old_ptr[u + 1]):
            k = old_topic[c]
            if not seen[k]:
                seen[k] = True
                topic[n] = k
                n += 1
            total[k] -= old_value[c]
        high = n
        n = low
        for c in range(low, high):
            k = topic[c]
            seen[k] = False
            if total[k] != 0.0:
                topic[n] = k
                value[n] = total[k]
                n += 1
            total[k] = 0.0
        ptr[u + 1] = n
    return n


@kernel
def sparse_data_term(src, ptr, topic, value):
    """sum_uk stat[u, k] E[log phi_uk] over a statistic's entries, float64."""
    total = 0.0
    for u in range(len(ptr) - 1):
        i = src.row_of[u]
        for c in range(ptr[u], ptr[u + 1]):
            k = topic[c]
            x = src.scale * src.base[i, k] + src.beta
            total += value[c] * ((log(x) if src.point else digamma(x)) - src.term[k])
    return total
