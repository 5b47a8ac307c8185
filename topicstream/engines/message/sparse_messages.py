"""Kernels of sparse-L belief propagation: a cell costs L topics instead of K.

Eq. (7) of Zeng, Cheung & Liu (2013) over the L active topics of a document, a = topics[d]:

    mu_j  ~  (theta_dj - x mu_j + alpha) (phi_w,a(j) - x mu_j + beta)
             / (lam_a(j) - x mu_j + W beta)

A message is stored as L small integers q and means mu_j = q_j^2 / sum_i q_i^2. Squaring gives small
shares fine steps. The largest q is ``top`` (255 in 8 bits), and top / sqrt(step) once a message has
converged and over-relaxation subtracts part of the old one. With m for the largest q, |mu_j -
exact| <= sqrt(mu_j max mu) / m * (1 + small): 0.4 to 0.5 % of the largest share at most, a tenth of
that where the share is a hundredth of it. Shares below 7e-6 of the largest become 0. The stored
value is what is added to theta, phi and lam and later subtracted from them, so exclusion is exact.

A block is swept word by word and, within a word, document by document. So a word's row of phi stays
in the first cache however large K is, and a document's state is 2 L floats. phi_w and theta_d move
after each cell, lam after each block.

Arrays
------
cells
    The block's cells word by word. All cell arrays are in this order.
old, new
    uint8, uint16 or float32[nnz, L], stored messages.
base, index
    Rows of phi: base[index[u]], float32[., Kp].
out_ptr, out_topic, out_value
    int64[U+1], uint16[.], float32[.]: the sparse delta, one entry a changed (word, topic).

References
----------
Zeng, Cheung & Liu (2013). Learning topic models by belief propagation. IEEE Transactions on Pattern
Analysis and Machine Intelligence 35(5), 1121-1134.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import (
    Array,
    CellsByWord,
    Doubles,
    Float,
    Floats,
    Int,
    Ints,
    Longs,
    Shorts,
)
from topicstream.numeric.kernels.gather import (
    append,
    gather,
    highest,
    narrow,
    root,
    scatter,
    squeeze,
    widen,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import keep
from topicstream.numeric.kernels.simd import fetch, larger, load, splat, store, total

# rows with a larger entry keep their change apart: float32 would lose the small messages.  At 4096
# a row of acl was off by
# 1.1e-5 of its mass after a pass with 64 active topics.  So do rows below beta: on kos with beta
# 100 a word's one token was
# off by 1e-4
HEAVY = np.float32(512.0)
# rows of no more topics bid as a whole, not by the topics they stand out for: K = 500 146 -> 142 ns
# a cell
WHOLE = 512
AHEAD = 4  # cells between the asking for a document's state and its use
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


@kernel
def document_tokens(cells: CellsByWord, docs: Int) -> Doubles:
    """Count the tokens of each of ``docs`` documents, float64[D].

    NumPy's ``bincount`` would make other threads wait.
    """
    tokens = np.zeros(docs)
    for i in range(len(cells.doc)):
        tokens[cells.doc[i]] += cells.x[i]
    return tokens


@kernel
def sum_theta(cells: CellsByWord, values: Array, theta: Floats) -> None:
    """Sum theta[d] = x mu over the document's cells, from stored messages.

    theta: float32[D, L].
    """
    _, doc, x = cells
    width = theta.shape[1]
    theta[:] = _ZERO
    for i in range(len(doc)):
        s = splat(_ZERO)
        for j in range(0, width, 16):
            q = widen(values, i * width + j)
            s = s + q * q
        sum_q = total(s)
        if sum_q > _ZERO:
            scale = splat(x[i] / sum_q)
            at = np.int64(doc[i]) * width
            for j in range(0, width, 16):
                q = widen(values, i * width + j)
                store(theta, at + j, load(theta, at + j) + scale * (q * q))


@kernel(inline="always")
def _leave(
    i: int,
    at: int,
    width: int,
    own: float,
    before: Shorts,
    lanes: Shorts,
    begin: int,
    end: int,
    old: Array,
    new: Array,
    row: Floats,
) -> None:
    """Subtract the shares of topics that left a document from the word's row.

    The other shares are copied from old to new, and those of new active topics are zero.
    """
    for j in range(0, width, 16):
        narrow(new, i * width + j, widen(old, i * width + j))
    for e in range(begin, end):
        q = np.float32(old[i * width + lanes[e]])
        row[before[at + lanes[e]]] -= own * q * q
        new[i * width + lanes[e]] = 0


@kernel(inline="always")
def _take(
    row: Floats, topics: Shorts, at: int, width: int, out_topic: Shorts, out_value: Floats, n: int
) -> Int:
    """Move a document's changes out of the word's row and count them.

    The row is zero there afterwards.
    """
    taken = np.int64(0)
    for j in range(0, width, 16):
        taken += append(
            out_topic, out_value, n + taken, topics, at + j, gather(row, 0, topics, at + j)
        )
        scatter(row, 0, topics, at + j, splat(_ZERO))
    return taken


class Documents(NamedTuple):
    """The documents of a block during a sweep.

    topics    uint16[D, L]   active topics;  before uint16[D, L]: those the stored messages are over
    left, lanes  int64[D+1], uint16[.]   where the two differ: in row d at lanes[left[d]] ..
                 lanes[left[d + 1] - 1]
    theta     float32[D, L]  theta_dj + alpha_a(j)
    lam       float32[D, L]  lam + W beta of the active topics
    mass      float32[D]     n_d + sum of alpha over the active topics
    """

    topics: Shorts
    before: Shorts
    left: Longs
    lanes: Shorts
    theta: Floats
    lam: Floats
    mass: Floats


class Bids(NamedTuple):
    """The gains of inactive topics, summed over cells.

    chosen   int32[D]        row of ``scores``, or -1
    scores   float32[n, Kp]  gains (see ``active_topics.choose``), from the topics of a word within
             ``reach`` of its strongest
    inverse  float32[Kp]     1 / (lam + W beta)
    reach    float32         below 0: no document looks
    """

    chosen: Ints
    scores: Floats
    inverse: Floats
    reach: Float


class Step(NamedTuple):
    """Constants of a message update.

    floor, beta  float32     the least alpha; beta
    top      float32         largest stored integer
    band     float32         a message none of whose stored numbers would move by more stays as it
             is
    length   float32         how far a message goes: 1 to what eq. (7) says, more beyond it (shares
             below 0 become 0);
                             always 1 in documents whose active topics changed
    first    bool            the first visit: nothing is stored yet, base are seed topics, theta
             stays as it is
    rare     int64           words of at most so many cells: their rows are not copied, entries are
             gathered where they lie
    """

    floor: Float
    beta: Float
    top: Float
    band: Float
    length: Float
    first: bool
    rare: int


@kernel
def sweep(
    cells: CellsByWord,
    base: Floats,
    index: Longs,
    documents: Documents,
    bids: Bids,
    how: Step,
    old: Array,
    new: Array,
    likely: Doubles,
    out_ptr: Longs,
    out_topic: Shorts,
    out_value: Floats,
) -> Int:
    """Visit every cell of a block once (symbols: the module's docstring).

    likely: float64[nnz], receives p(w | all other cells) as it stood before the update.

    Returns
    -------
    The number of entries of the delta.
    """
    (ptr, doc, x) = cells
    (chosen, scores, inverse, reach) = bids
    topics, before, left, lanes, theta, lam, mass = documents
    floor, beta, top, band, step, first, rare = how
    # the kernel indexes flat arrays: a document or cell begins at its number times L
    width = topics.shape[1]
    columns = base.shape[1]
    flat_before = before.reshape(-1)
    flat_topics = topics.reshape(-1)
    flat_old = old.reshape(-1)
    flat_new = new.reshape(-1)
    row = np.empty(columns, np.float32)
    share = np.empty(width, np.float32)
    own_share = np.empty(width, np.float32)
    entry = np.empty(width, np.float32)
    strong_topic = np.empty(columns + 16, np.uint16)
    strong = np.empty(columns + 16, np.float32)
    betas = splat(beta)
    floors = splat(floor)
    zeros = splat(_ZERO)
    whole = columns <= WHOLE
    # share of the old message that over-relaxation subtracts: 1 - 1 / step
    further = (step - _ONE) / step
    n = np.int64(0)
    out_ptr[0] = 0
    row[:] = _ZERO
    for u in range(len(ptr) - 1):
        # prefetch what the next word needs: its row of phi, or its documents' entries of it
        r = index[u] * columns
        after = min(u + 1, len(ptr) - 2)
        ahead = index[after] * columns
        if ptr[after + 1] - ptr[after] > rare:
            for k in range(0, columns, 16):
                fetch(base, ahead + k)
        else:
            for i in range(ptr[after], ptr[after + 1]):
                for j in range(np.int64(doc[i]) * width, (np.int64(doc[i]) + 1) * width):
                    fetch(base, ahead + flat_topics[j])
        # apart: row holds the word's changes alone, else all of it; between words of few cells it
        # is all zeros
        gathered = ptr[u + 1] - ptr[u] <= rare
        apart = True
        if not gathered:
            peak = zeros
            for k in range(0, columns, 16):
                b = load(base, r + k)
                peak = larger(peak, b)
                store(row, k, b + betas)
            apart = first or highest(peak) > HEAVY or highest(peak) < beta
            if apart:
                row[:] = _ZERO
        # topics that bid: within reach of the largest (phi + beta) / (lam + W beta) of the word
        n_strong = np.int64(0)
        if reach >= _ZERO:
            asked = False
            # only if a document of the word considers inactive topics
            for i in range(ptr[u], ptr[u + 1]):
                asked = asked or chosen[doc[i]] >= 0
            if asked:
                best = zeros
                for k in range(0, columns, 16):
                    best = larger(best, (load(base, r + k) + betas) * load(inverse, k))
                cuts = splat(reach * highest(best))
                for k in range(0, columns, 16):
                    ratio = keep((load(base, r + k) + betas) * load(inverse, k), cuts)
                    if whole:
                        store(strong, k, ratio)
                    else:
                        n_strong += squeeze(strong_topic, strong, n_strong, k, ratio)
        for i in range(ptr[u], ptr[u + 1]):
            # prefetch the state of a later cell's document
            ahead = np.int64(doc[min(i + AHEAD, len(doc) - 1)]) * width
            fetch(flat_topics, ahead)
            for j in range(0, width, 16):
                fetch(theta, ahead + j)
                fetch(lam, ahead + j)
            d = np.int64(doc[i])
            at = d * width
            # decode the old message mu_j = q_j^2 / sum q^2; own turns q^2 into x mu_j
            own = _ZERO
            moved = False
            if not first:
                s = splat(_ZERO)
                for j in range(0, width, 16):
                    q = widen(flat_old, i * width + j)
                    s = s + q * q
                sum_q = total(s)
                own = x[i] / sum_q if sum_q > _ZERO else _ZERO
                moved = left[d + 1] > left[d]
                if moved:
                    _leave(
                        i,
                        at,
                        width,
                        own,
                        flat_before,
                        lanes,
                        left[d],
                        left[d + 1],
                        flat_old,
                        flat_new,
                        row,
                    )
            # eq. (7) over the active topics: p_j from theta, phi and lam without the cell's share o
            s = splat(_ZERO)
            peak = splat(_ZERO)
            owns = splat(own)
            for j in range(0, width, 16):
                f = gather(row, 0, flat_topics, at + j)
                store(entry, j, f)
                if apart:
                    b = gather(base, r, flat_topics, at + j) + betas
                    f = b if first else f + b
                o = splat(_ZERO)
                if not first:
                    q = widen(flat_new, i * width + j) if moved else widen(flat_old, i * width + j)
                    o = owns * (q * q)
                store(own_share, j, o)
                p = (
                    larger(load(theta, at + j) - o, floors)
                    / (load(lam, at + j) - o)
                    * larger(f - o, betas)
                )
                store(share, j, p)
                s = s + p
                peak = larger(peak, p)
            sum_p = total(s)
            # over-relaxation, then the square root of the message in integers up to top
            stretch = splat(top / np.sqrt(highest(peak)))
            beyond = splat(sum_p * (further / x[i])) if not first and not moved else splat(_ZERO)
            s = splat(_ZERO)
            gap = splat(_ZERO)
            for j in range(0, width, 16):
                p = larger(load(share, j) - load(own_share, j) * beyond, splat(_ZERO))
                q = narrow(flat_new, i * width + j, root(p) * stretch)
                store(share, j, q * q)
                s = s + q * q
                if not first:
                    q = q - widen(flat_old, i * width + j)
                    gap = larger(gap, larger(q, splat(_ZERO) - q))
            # p(w | the other cells), from the normaliser of eq. (7)
            likely[i] = sum_p / (mass[d] - x[i])
            c = np.int64(chosen[d])
            # the gradient of the likelihood: bids of inactive topics
            if c >= 0:
                weight = x[i] / sum_p
                if whole:
                    weights = splat(weight)
                    for k in range(0, columns, 16):
                        bid = c * columns + k
                        store(scores, bid, load(scores, bid) + weights * load(strong, k))
                else:
                    for j in range(n_strong):
                        scores[c, strong_topic[j]] += weight * strong[j]
            # a message that hardly moves stays, and so do the sums
            if not first and not moved and highest(gap) <= band:
                for j in range(0, width, 16):
                    narrow(flat_new, i * width + j, widen(flat_old, i * width + j))
                continue
            # move theta and phi by x (mu_new - mu_old), from the stored integers
            scale = splat(x[i] / total(s))
            for j in range(0, width, 16):
                change = scale * load(share, j) - load(own_share, j)
                if not first:
                    store(theta, at + j, load(theta, at + j) + change)
                scatter(row, 0, flat_topics, at + j, load(entry, j) + change)
        # the delta of the word: the entries of its documents' topics, or all of its row
        if gathered:
            for i in range(ptr[u], ptr[u + 1]):
                at = np.int64(doc[i]) * width
                for e in range(left[doc[i]], left[doc[i] + 1]):
                    gone = flat_before[at + lanes[e]]
                    if row[gone] != _ZERO:
                        out_topic[n] = gone
                        out_value[n] = row[gone]
                        row[gone] = _ZERO
                        n += 1
                n += _take(row, flat_topics, at, width, out_topic, out_value, n)
        else:
            for k in range(0, columns, 16):
                change = load(row, k)
                if not apart:
                    change = change - (load(base, r + k) + betas)
                n += squeeze(out_topic, out_value, n, k, change)
            row[:] = _ZERO
        out_ptr[u + 1] = n
    return n
