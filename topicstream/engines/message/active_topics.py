"""Choice of the active topics of documents in sparse-L belief propagation.

They are chosen at the start, and later by bids of inactive topics.

Arrays are those of ``sparse_messages``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import (
    CellsByWord,
    Doubles,
    Float,
    Floats,
    Ints,
    Longs,
    Shorts,
)
from topicstream.numeric.kernels.gather import highest, squeeze
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import largest_numbers
from topicstream.numeric.kernels.simd import larger, load, splat, store, total

_ZERO = np.float32(0.0)


class BidRule(NamedTuple):
    """What a bid counts: more than ``eager`` of alpha counts as that, and ``gain`` times all."""

    eager: Float
    gain: Float


@kernel
def choose(
    scores: Floats,
    chosen: Ints,
    topics: Shorts,
    theta: Floats,
    priors: tuple[Floats, Ints],
    bids: BidRule,
    k_all: int,
    next_topics: Shorts,
) -> None:
    """Exchange a document's weak topics for inactive ones with high bids.

    next_topics: uint16[D, L], equal to topics except for the exchanged ones.

    scores[c, k] is the factor by which one step would multiply a share of topic k in the document
    (the gradient of its log-likelihood), counted over the words for which k is strong. From the
    best newcomer and the weakest topic on, they change places while gain * alpha_k * score_k
    exceeds the weak topic's theta (float32[D, L], counts). alpha of document d is
    alphas[row_of[d]], float32[K].
    """
    (alphas, row_of) = priors
    (eager, gain) = bids
    width = topics.shape[1]
    used = np.zeros(scores.shape[1], np.uint8)
    for d in range(len(chosen)):
        next_topics[d] = topics[d]
        c = chosen[d]
        if c < 0:
            continue
        # a bid is gain min(alpha_k, eager) score_k, and nothing for active topics
        for j in range(width):
            used[topics[d, j]] = 1
        bid = scores[c]
        alpha = alphas[row_of[d]]
        for k in range(k_all):
            bid[k] = _ZERO if used[k] else bid[k] * gain * min(alpha[k], eager)
        for j in range(width):
            used[topics[d, j]] = 0
        while True:
            # the highest bid, and the weakest topic that has not been exchanged yet
            k = 0
            j = 0
            low = np.float32(np.inf)
            for i in range(1, k_all):  # np.argmax imports scipy.linalg
                k = i if bid[i] > bid[k] else k
            for i in range(width):
                share = theta[d, i] if next_topics[d, i] == topics[d, i] else np.float32(np.inf)
                if share < low:
                    low = share
                    j = i
            # they change places while the bid exceeds theta
            if bid[k] <= low or bid[k] <= _ZERO:
                break
            next_topics[d, j] = k
            bid[k] = _ZERO


@kernel
def add_shares(
    cells: CellsByWord,
    base: Floats,
    index: Longs,
    totals: Doubles,
    k_all: int,
    even: Floats,
    took: Floats,
) -> None:
    """Add the shares that some words give the topics of their documents.

    They are those of an even mixture after one step of EM under the seed topics: a word gives each
    of its documents p(k | w), its row over its sum. What all topics have of a word alike changes no
    order, so only what stands out above the row's least entry is added topic by topic: rows of seed
    documents mixed with the corpus' mean stand out in few. even: float32[D], gains the first; took:
    float32[D, Kp], the second.
    """
    (ptr, doc, x) = cells
    columns = base.shape[1]
    inverse = np.zeros(columns, np.float32)
    ratio = np.empty(columns, np.float32)
    out_topic = np.empty(columns + 16, np.uint16)
    out = np.empty(columns + 16, np.float32)
    nothing = splat(_ZERO)
    # 1 / lam_k of the seed topics
    for k in range(k_all):
        inverse[k] = 1.0 / totals[k] if totals[k] > 0.0 else 0.0
    for u in range(len(ptr) - 1):
        r = index[u] * columns
        # p(k | w): the row over lam, and its sum
        s = nothing
        high = splat(np.float32(-np.inf))
        for k in range(0, columns, 16):
            v = load(base, r + k) * load(inverse, k)
            store(ratio, k, v)
            s = s + v
        sum_s = total(s)
        if sum_s <= _ZERO:
            continue
        # the least entry, which is common to all topics; the padding must not lower it
        ratio[k_all:] = ratio[0]
        for k in range(0, columns, 16):
            high = larger(high, nothing - load(ratio, k))
        low = -highest(high)
        # topics that stand out above it
        edge = splat(low * np.float32(1.0001))
        n = np.int64(0)
        for k in range(0, columns, 16):
            n += squeeze(out_topic, out, n, k, larger(load(ratio, k) - edge, nothing))
        # add x p(k | w) to each document of the word
        for i in range(ptr[u], ptr[u + 1]):
            d = doc[i]
            weight = x[i] / sum_s
            even[d] += weight * low
            for j in range(n):
                took[d, out_topic[j]] += weight * out[j]


@kernel
def open_topics(even: Floats, took: Floats, k_all: int, topics: Shorts, theta: Floats) -> None:
    """Choose each document's first active topics: the L largest shares of ``add_shares``.

    topics: uint16[D, L], ascending; theta: float32[D, L], the shares, adding up to less than n_d by
    what the other topics have.
    """
    width = topics.shape[1]
    chosen = np.empty(width, np.int32)
    for d in range(len(topics)):
        # padding has share 0 and the highest numbers
        largest_numbers(took[d], took.shape[1], width, chosen)
        for j in range(width):
            topics[d, j] = chosen[j]
            theta[d, j] = even[d] + took[d, chosen[j]] if chosen[j] < k_all else _ZERO


@kernel
def document_tokens(cells: CellsByWord, docs: int) -> Doubles:
    """Count the tokens of each of ``docs`` documents, float64[D].

    NumPy's ``bincount`` would make other threads wait.
    """
    tokens = np.zeros(docs)
    for i in range(len(cells.doc)):
        tokens[cells.doc[i]] += cells.x[i]
    return tokens
