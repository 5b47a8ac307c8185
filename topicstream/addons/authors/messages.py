"""Messages over (author, topic) pairs: their arrays, and the first ones.

``addons/authors/visit.py`` updates them.

The message of a cell (word w, document d, count x) over the pairs (a, k) of d's authors (Zeng,
Cheung & Liu 2013, "Learning topic models by belief propagation", eq. 24 to 27), every sum without
what the cell itself put in:

    mu_ak  ~  (T_ak - x mu_ak + alpha_k) / (sum_k (T_ak - x mu_ak) + sum alpha)
              (phi_wk - x m_k + beta) / (lam_k - x m_k + W beta),     m_k = sum_a mu_ak

normalised over all pairs of the cell. A document keeps P of its A K pairs, all or the strongest; a
pair is the number ``slot * K + topic``, slot being the place of the author in the document's list,
and a document's pairs ascend.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import (
    Array,
    Doubles,
    Float,
    Floats,
    Ints,
    Longs,
    most_in_row,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import largest_numbers

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


class DocumentBlock(NamedTuple):
    """The cells of a block and the authors of its documents.

    indptr, words, counts  int64[D+1], int32[nnz] local, [nnz]
    aptr, authors  int64[D+1], int32[E]: local author rows of each document
    pptr, mptr     int64[D+1]: pairs of document d stand at pptr[d] .., its messages, P floats a
                   cell, at mptr[d] ..
    """

    indptr: Longs
    words: Ints
    counts: Array
    aptr: Longs
    authors: Ints
    pptr: Longs
    mptr: Longs


class WordTopics(NamedTuple):
    """Rows of phi, float32[R, Kp], base[row[u]] for word u, and column sums, float64[Kp]."""

    base: Floats
    row: Longs
    totals: Doubles


class AuthorTopics(NamedTuple):
    """T as the block found it, and what the block changes: float32[Ua + 1, K] each.

    The last row is the private author of a document that names none, whose T is what the document
    itself has put there.
    """

    have: Floats
    change: Floats


class Messages(NamedTuple):
    """Pairs of the documents, int32, and the messages of their cells over them, float32."""

    pairs: Ints
    values: Floats


class Update(NamedTuple):
    """How messages are updated.

    alpha float32[K], beta float32;  smooth float32: W beta
    sync  True: every sum is as the pass before left it, and the tables' changes get the whole
          contribution. False: sums move with each cell, and the changes get the differences.
    gain  float32: tokens of it that a pair outside is counted with where a document chooses
    """

    alpha: Floats
    beta: Float
    smooth: Float
    sync: bool
    gain: Float


class Document(NamedTuple):
    """Scratch arrays of the present document: of its pairs j, slots s and authors a.

    A slot is a topic of one of its pairs.

    row, topic, place, author   int64, of a pair: row of its author, topic, slot, its author
    top            int64, topic of a slot
    source, gone   int64, place of a pair among the old ones, or -1; old pairs that are gone
    o, p, own      float32, of a pair: x mu_j of a cell, its new message before normalising, and the
                   sum of x mu_j over the cells
    t, prior, moved   float32, of a pair: T_ak, alpha_k, and what the cells have put in
    m, f           float32, of a slot: sum of o over authors, and the factor of phi
    lam, lam_moved float32, of a slot: lam_k + W beta, and what the cells have put in
    n_a            float64, of an author: its tokens
    na, g          float32, of an author: sum of o over topics, and 1 / (n_a - na + sum alpha)
    value          float32[A K], of all pairs: tokens expected of them
    score, inverse float32, of a topic: see ``_score_topics``; 1 / (lam_k + W beta)
    slot_of        int32, of a topic: its slot, or -1
    lam_all        float64, of a topic: lam_k + W beta
    sums           float64, of an author of the block: its tokens
    alone          int32[1], the row of the private author
    """

    row: Longs
    topic: Longs
    place: Longs
    author: Longs
    top: Longs
    source: Longs
    gone: Longs
    o: Floats
    p: Floats
    own: Floats
    t: Floats
    prior: Floats
    moved: Floats
    m: Floats
    f: Floats
    lam: Floats
    lam_moved: Floats
    n_a: Doubles
    na: Floats
    g: Floats
    value: Floats
    score: Floats
    inverse: Floats
    slot_of: Ints
    lam_all: Doubles
    sums: Doubles
    alone: Ints


class Size(NamedTuple):
    """Pairs, slots and authors of a document, and the topics of all."""

    pairs: int
    slots: int
    authors: int
    topics: int


class PairStart(NamedTuple):
    """The start of messages.

    alpha float32[K];  rounds  steps of a document's mixture;  first_doc  number of the block's
    first document, on which draws depend
    """

    alpha: Floats
    rounds: int
    seed: int
    first_doc: int


@kernel
def start_pairs(
    block: DocumentBlock,
    rows: WordTopics,
    start: PairStart,
    out: Messages,
    delta: Floats,
    change: Floats,
) -> None:
    """Write the first messages.

    With seed topics a message is the document's mixture of them, estimated in ``rounds`` steps and
    spread over its authors with a random weight of 0.5 to 1.5 a pair, so that no two authors are
    alike. Without, it is a random pair for every cell.

    Parameters
    ----------
    rows
        Seed topics. No rows: there are none.
    delta, change
        float32[U, Kp] and float32[Ua + 1, K], results: the block's contribution.
    """
    (indptr, words, counts, aptr, authors, pptr, mptr) = block
    (base, index, totals) = rows
    (alpha, rounds, seed, first_doc) = start
    (pairs, messages) = out
    topics = change.shape[1]
    seeded = len(base) > 0
    private = np.array([len(change) - 1], np.int32)
    longest = max(1, most_in_row(aptr))
    value = np.empty(longest * topics, np.float32)
    inverse = np.zeros(topics, np.float32)
    theta = np.empty(topics, np.float32)
    gained = np.empty(topics, np.float32)
    # p(w|k) = base_wk / lam_k of the seed topics
    if seeded:
        for k in range(topics):
            inverse[k] = 1.0 / totals[k] if totals[k] > 0.0 else 0.0
    delta[:] = _ZERO
    change[:] = _ZERO
    for d in range(len(indptr) - 1):
        count = pptr[d + 1] - pptr[d]
        if count == 0:
            continue
        writers = authors[aptr[d] : aptr[d + 1]] if aptr[d + 1] > aptr[d] else private
        n = len(writers) * topics
        # the mixture of the document: theta_k <- alpha_k + sum x theta_k p(w|k) / p(w), in rounds
        theta[:] = _ONE
        if seeded:
            for _ in range(rounds):
                gained[:] = _ZERO
                for i in range(indptr[d], indptr[d + 1]):
                    row = base[index[words[i]]]
                    s = _ZERO
                    for k in range(topics):
                        s += theta[k] * inverse[k] * row[k]
                    if s > _ZERO:
                        scale = np.float32(counts[i]) / s
                        for k in range(topics):
                            gained[k] += scale * theta[k] * inverse[k] * row[k]
                for k in range(topics):
                    theta[k] = gained[k] + alpha[k]
        # its pairs: theta_k times a random weight for each author, the largest kept
        state = rng.stream(seed, 0, first_doc + d)
        for q in range(n):
            state = rng.step(state)
            value[q] = theta[q % topics] * np.float32(0.5 + rng.uniform(rng.bits(state)))
        own = pairs[pptr[d] : pptr[d + 1]]
        largest_numbers(value, n, count, own)
        # the messages: mu_j ~ weight_j p(w|k), or one random pair
        for i in range(indptr[d], indptr[d + 1]):
            at = mptr[d] + (i - indptr[d]) * count
            x = np.float32(counts[i])
            s = _ZERO
            if seeded:
                row = base[index[words[i]]]
                for j in range(count):
                    k = own[j] % topics
                    messages[at + j] = value[own[j]] * inverse[k] * row[k]
                    s += messages[at + j]
            else:
                state = rng.step(state)
                drawn = rng.below(rng.bits(state), count)
                for j in range(count):
                    messages[at + j] = _ONE if j == drawn else _ZERO
                s = _ONE
            # the block contributes x mu_j to the word, and to the author
            for j in range(count):  # a word that no seed topic has: every pair alike
                m = messages[at + j] / s if s > _ZERO else _ONE / np.float32(count)
                messages[at + j] = m
                k = own[j] % topics
                delta[words[i], k] += x * m
                change[writers[own[j] // topics], k] += x * m
