"""Expected counts of a block by word, and the weights of its words.

A statistic is three arrays: ptr int32[U+1], topic uint16[n] and value float32[n]. Word u has topics
topic[ptr[u] .. ptr[u+1]), each once, in the order of first use.

Word weights exp(E[log phi]) are computed once a visit (Hughes & Sudderth 2016, eq. 10 and Alg. 2;
Hoffman, Blei & Bach 2010):

    symbol                                  here
    beta-hat_kw = phi_wk + beta             x = scale * base[index[u], k] + beta
    E[log phi_kw] = psi(beta-hat_kw) - psi(sum_w beta-hat_kw)        (``dirichlet``)
                  = log(beta-hat_kw) - log(sum_w beta-hat_kw)        (``point``: Zeng, Liu & Cao
                  2012; Zeng et al. 2013)
    e[u, k] = exp(E[log phi_kw] - log_scale[u])     rows of e sum to one

A softmax over topics does not depend on a factor of its word, so each row is scaled to one. float32
then represents it whatever the counts are. Smaller weights than 1e-37 of the row are 0 in e.
``log_weights`` recovers them where a document has nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels import simd
from topicstream.numeric.kernels.arrays import (
    Doubles,
    Floats,
    Ints,
    Longs,
    RowEntries,
    Shorts,
    word_ends,
)
from topicstream.numeric.kernels.dirichlet import digamma, exp, exp_digamma32, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import fma32
from topicstream.numeric.kernels.sums import sum_row

AHEAD = 8  # cells before their entries are used, they are asked for
# shorter lists are zeros to their end (choice.collect): no branch that has to be guessed
FULL_LISTS = 16


class CellLists(NamedTuple):
    """The topics of each cell with x_w r_wk, as lists that 0 ends.

    Attributes
    ----------
    most
        Most entries of a cell's list.
    topic, value
        uint16 and float32[nnz * most + 16].
    """

    most: int
    topic: Shorts
    value: Floats


@kernel
def entries_by_word(words: Ints, start: Longs, order: Ints) -> None:
    """Order the cells by word, stably: start int64[U+1], order int32[nnz]."""
    word_ends(words, start)
    for i in range(len(words) - 1, -1, -1):
        start[words[i]] -= 1
        order[start[words[i]]] = i


@kernel(inline="always")
def _ask_for(i: int, topic_: int, value_: int) -> None:
    """Prefetch a cell's entries.

    They begin at ``i`` of uint16 topics and float32 values.
    """
    pointers.fetch(topic_, i // 2)
    pointers.fetch(value_, i)


@kernel
def sum_cells(start: Longs, order: Ints, lists: CellLists, delta: Floats) -> None:
    """Sum the values of each word's cells into delta[u, k].

    delta: float32[U, P]. The cells are ordered by ``entries_by_word``.

    Word by word, so that a row is cleared and summed while it is in the first cache.
    """
    width = delta.shape[1]
    delta_ = pointers.address_of(delta)
    last = len(order) - 1
    most = lists.most
    topic_ = pointers.address_of(lists.topic)
    value_ = pointers.address_of(lists.value)
    nothing = simd.splat(np.float32(0))
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
    start: Longs, order: Ints, lists: CellLists, total: Doubles, merged: RowEntries
) -> int:
    """Merge the cells into the block's statistic and return its length.

    total: float64[P], overwritten. merged: receives the statistic. Its topics have room for one
    more than that can have: each is written before it is known to be new.
    """
    most = lists.most
    ptr, topic, value = merged
    last = len(order) - 1
    n = 0
    cell_topic_ = pointers.address_of(lists.topic)
    cell_value_ = pointers.address_of(lists.value)
    total_ = pointers.address_of(total)
    total[:] = 0.0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        # total_k: the sum of x_w r_wk over the word's cells; its topics are listed as they come
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
        # the word's sums, and zeros for the next one
        for c in range(low, n):
            k = np.int64(topic[c])
            value[c] = pointers.double_at(total_, k)
            pointers.put_double(total_, k, 0.0)
        ptr[u + 1] = n
    return n


@kernel
def change(topics: int, old: RowEntries, new: RowEntries, delta: RowEntries) -> int:
    """Compute new - old as a SparseDelta without equal entries.

    Both statistics have a topic of a word once. Returns the number of entries.
    """
    old_ptr, old_topic, old_value = old
    new_ptr, new_topic, new_value = new
    ptr, topic, value = delta
    total = np.zeros(topics)
    n = 0
    ptr[0] = 0
    for u in range(len(ptr) - 1):
        # total_k = -old_k
        for c in range(old_ptr[u], old_ptr[u + 1]):
            total[old_topic[c]] -= old_value[c]
        # new_k - old_k of the topics that are in the new one
        for c in range(new_ptr[u], new_ptr[u + 1]):
            k = new_topic[c]
            topic[n] = k
            value[n] = total[k] + new_value[c]
            n += value[n] != 0.0
            total[k] = 0.0
        # -old_k of those that are not: the others' totals are zero by now
        for c in range(old_ptr[u], old_ptr[u + 1]):
            k = old_topic[c]
            topic[n] = k
            value[n] = total[k]
            n += total[k] != 0.0
            total[k] = 0.0
        ptr[u + 1] = n
    return n


@kernel
def sparse_data_term(src: WeightSource, ptr: Ints, topic: Shorts, value: Floats) -> float:
    """Sum stat[u, k] E[log phi_uk] over a statistic's entries in float64."""
    total = 0.0
    for u in range(len(ptr) - 1):
        i = src.row_of[u]
        for c in range(ptr[u], ptr[u + 1]):
            k = topic[c]
            x = src.scale * src.base[i, k] + src.beta
            total += value[c] * ((log(x) if src.point else digamma(x)) - src.term[k])
    return total


LEAST_Z = 1e-20  # below this a cell's normaliser is recomputed in logarithms
LEAST_ROW = 1e-30  # a row of float32 weights whose sum is below this is recomputed in logarithms


class WeightSource(NamedTuple):
    """The source of word weights, to compute a cell again in logarithms.

    row_of: int64[U], base: float32[R, P], scale: the rows (engines.base.Rows);  beta: prior per
    word;  term: float64[P] of ``topic_terms``;  topics: K;  point: log instead of digamma.
    """

    row_of: np.ndarray
    base: np.ndarray
    scale: float
    beta: float
    term: np.ndarray
    topics: int
    point: bool


@kernel
def topic_terms(
    totals: Doubles, width: float, topics: int, point: bool, term: Doubles, factor: Floats
) -> float:
    """Compute the terms and factors of topics and return the least term.

    term[k] = psi(lam_k) (or log lam_k); factor[k] = exp(min term - term[k]).

    totals: float64[P], sum_w beta-hat_kw; width = W * beta is added here. Padding topics get 0 and
    0.
    """
    term[:] = 0.0
    least = np.inf
    for k in range(topics):
        lam = totals[k] + width
        term[k] = log(lam) if point else digamma(lam)
        least = min(least, term[k])
    for k in range(len(factor)):
        factor[k] = exp(least - term[k]) if k < topics else 0.0
    return least


@kernel
def log_weights(src: WeightSource, u: int, out: Doubles) -> None:
    """Store out[k] = E[log phi_k] of local word u in float64."""
    i = src.row_of[u]
    for k in range(src.topics):
        x = src.scale * src.base[i, k] + src.beta
        out[k] = (log(x) if src.point else digamma(x)) - src.term[k]


@kernel
def _row_in_logarithms(src: WeightSource, u: int, work: Doubles, e: Floats) -> float:
    """Compute a row of e by way of logarithms and return its log_scale."""
    log_weights(src, u, work)
    most = -np.inf
    total = 0.0
    for k in range(src.topics):
        most = max(most, work[k])
    for k in range(src.topics):
        total += exp(work[k] - most)
    for k in range(e.shape[1]):
        e[u, k] = exp(work[k] - most) / total if k < src.topics else 0.0
    return most + log(total)  # type: ignore[no-any-return]


@kernel
def word_weights(
    src: WeightSource, factor: Floats, least: float, work: Doubles, e: Floats, log_scale: Doubles
) -> None:
    """Compute the word weights e: float32[U, P] and log_scale: float64[U].

    factor: float32[P] and least of ``topic_terms``; work: float64[P].
    """
    one = np.float32(1.0)
    s = np.float32(src.scale)
    b = np.float32(src.beta)
    base = src.base
    width = e.shape[1]
    e_ = pointers.address_of(e)
    for u in range(len(src.row_of)):
        i = src.row_of[u]
        # exp(E[log phi_uk]) up to a factor of the block
        if src.point:
            for k in range(width):
                e[u, k] = fma32(base[i, k], s, b) * factor[k]
        else:
            for k in range(width):
                e[u, k] = exp_digamma32(fma32(base[i, k], s, b)) * factor[k]
        # scale the row to the sum one
        total = sum_row(e_ + 4 * width * u, width)
        if total > np.float32(LEAST_ROW):
            inverse = one / total
            for k in range(width):
                y = e[u, k] * inverse
                e[u, k] = y if y > np.float32(1e-37) else np.float32(0.0)
            log_scale[u] = log(np.float64(total)) - least
        else:
            log_scale[u] = _row_in_logarithms(src, u, work, e)
