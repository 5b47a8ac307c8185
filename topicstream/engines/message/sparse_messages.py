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
messages
    uint8, uint16 or float32[nnz, L], stored before and after.
delta
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
    RowEntries,
    Shorts,
    borrow,
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

# Rows with a larger entry keep their change apart: float32 would lose the small messages. At 4096 a
# row of acl was off by 1.1e-5 of its mass after a pass with 64 active topics. So do rows below
# beta: on kos with beta 100 a word's one token was off by 1e-4
HEAVY = np.float32(512.0)
# Rows of no more topics bid as a whole, not by the topics they stand out for (K = 500: 146 -> 142
# ns a cell)
WHOLE = 512
AHEAD = 4  # cells from the prefetch of a document's state to its use
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


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


class PhiRows(NamedTuple):
    """Rows of phi, float32[., Kp]: that of word u is base[row[u]]."""

    base: Floats
    row: Longs


class Messages(NamedTuple):
    """Arrays of the cells: stored messages before and after, [nnz, L] or flat, and p(w | rest).

    ``likely`` (float64[nnz]) receives p(w | all other cells) as it stood before the update.
    """

    old: Array
    new: Array
    likely: Doubles


class Cell(NamedTuple):
    """The present cell: number, where its document and row of phi begin, and ``_scale_of`` it."""

    i: Int
    at: Int
    r: Int
    scale: Float


class Documents(NamedTuple):
    """The documents of a block during a sweep.

    Attributes
    ----------
    topics, before
        uint16[D, L], active topics, and those that the stored messages are over.
    left, lanes
        int64[D+1] and uint16[.], where the two differ: row d at lanes[left[d]: left[d + 1]].
    theta, lam, mass
        float32[D, L], [D, L] and [D], over the active topics: theta_dj + alpha_a(j), lam + W beta,
        and n_d + sum of alpha.
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

    Attributes
    ----------
    chosen, scores
        int32[D], row of ``scores`` or -1, and float32[n, Kp], gains (``active_topics.choose``),
        from the topics of a word within ``reach`` of its strongest.
    inverse, reach
        float32[Kp], 1 / (lam + W beta), and float32; below 0: no document looks.
    """

    chosen: Ints
    scores: Floats
    inverse: Floats
    reach: Float


class Step(NamedTuple):
    """Constants of a message update.

    Attributes
    ----------
    floor, beta, top
        float32: the least alpha, beta, and the largest stored integer.
    band
        float32. A message none of whose stored numbers would move by more stays as it is.
    length
        float32, how far a message goes: 1 to what eq. (7) says, more beyond it (shares below 0 are
        0). Always 1 in documents whose active topics changed.
    first
        bool, the first visit: nothing is stored yet, base are seed topics, theta stays as it is.
    rare
        int64. Rows of words of at most so many cells are not copied: entries are gathered in place.
    """

    floor: Float
    beta: Float
    top: Float
    band: Float
    length: Float
    first: bool
    rare: int


class Work(NamedTuple):
    """Scratch arrays of a sweep.

    Attributes
    ----------
    row
        float32[Kp], of a word: phi_w + beta, or its changes alone. Zeros between words.
    share, own, entry
        float32[L], of a cell: p_j of eq. (7), then q_j^2 of its new message; x mu_j of the old
        message; entries of ``row``.
    strong_topic, strong
        uint16 and float32[Kp + 16], topics that bid for a word, and their bids.
    """

    row: Floats
    share: Floats
    own: Floats
    entry: Floats
    strong_topic: Shorts
    strong: Floats


@kernel(inline="always")
def _leave(
    i: Int, d: int, width: int, own: Float, documents: Documents, messages: Messages, row: Floats
) -> None:
    """Subtract the shares of topics that left a document from the word's row.

    The other shares are copied from old to new, and those of new active topics are zero.
    """
    at = d * width
    (old, new, _) = messages
    lanes = documents.lanes
    for j in range(0, width, 16):
        narrow(new, i * width + j, widen(old, i * width + j))
    for e in range(documents.left[d], documents.left[d + 1]):
        q = np.float32(old[i * width + lanes[e]])
        row[documents.before[at + lanes[e]]] -= own * q * q
        new[i * width + lanes[e]] = 0


@kernel(inline="always")
def _fetch_word(
    u: int, cells: CellsByWord, base: Floats, index: Longs, topics: Shorts, width: int, rare: int
) -> None:
    """Prefetch what word u needs: its row of phi, or its documents' entries of it."""
    (ptr, doc, _) = cells
    columns = base.shape[1]
    r = index[u] * columns
    if ptr[u + 1] - ptr[u] > rare:
        for k in range(0, columns, 16):
            fetch(base, r + k)
    else:
        for i in range(ptr[u], ptr[u + 1]):
            for j in range(np.int64(doc[i]) * width, (np.int64(doc[i]) + 1) * width):
                fetch(base, r + topics[j])


@kernel(inline="always")
def _fetch_document(at: int, width: int, documents: Documents) -> None:
    """Prefetch the state of the document that begins at ``at``."""
    fetch(documents.topics, at)
    for j in range(0, width, 16):
        fetch(documents.theta, at + j)
        fetch(documents.lam, at + j)


@kernel(inline="always")
def _open_row(r: int, base: Floats, beta: float, first: bool, row: Floats) -> bool:
    """Copy phi_w + beta into the row, or (True) zero it: it holds the changes alone."""
    betas = splat(beta)
    peak = splat(_ZERO)
    for k in range(0, base.shape[1], 16):
        b = load(base, r + k)
        peak = larger(peak, b)
        store(row, k, b + betas)
    apart = first or highest(peak) > HEAVY or highest(peak) < beta
    if apart:
        row[:] = _ZERO
    return apart


@kernel(inline="always")
def _choose_bidders(r: int, base: Floats, beta: float, bids: Bids, whole: bool, work: Work) -> Int:
    """Find the topics that bid for a word, and return how many (0 where all do).

    They are within reach of the largest (phi_wk + beta) / (lam_k + W beta).
    """
    betas = splat(beta)
    best = splat(_ZERO)
    for k in range(0, base.shape[1], 16):
        best = larger(best, (load(base, r + k) + betas) * load(bids.inverse, k))
    cuts = splat(bids.reach * highest(best))
    n = np.int64(0)
    for k in range(0, base.shape[1], 16):
        ratio = keep((load(base, r + k) + betas) * load(bids.inverse, k), cuts)
        if whole:
            store(work.strong, k, ratio)
        else:
            n += squeeze(work.strong_topic, work.strong, n, k, ratio)
    return n


@kernel(inline="always")
def _bid(c: int, weight: float, bids: Bids, n: int, whole: bool, work: Work) -> None:
    """Add a cell's bids, the gradient of its likelihood, to row c of the scores."""
    scores = bids.scores
    columns = scores.shape[1]
    if whole:
        weights = splat(weight)
        for k in range(0, columns, 16):
            bid = c * columns + k
            store(scores, bid, load(scores, bid) + weights * load(work.strong, k))
    else:
        for j in range(n):
            scores[c, work.strong_topic[j]] += weight * work.strong[j]


@kernel(inline="always")
def _scale_of(x: float, i: int, width: int, old: Array) -> Float:
    """Return x / sum q^2 of the stored message of cell i: what turns q_j^2 into x mu_j."""
    s = splat(_ZERO)
    for j in range(0, width, 16):
        q = widen(old, i * width + j)
        s = s + q * q
    sum_q = total(s)
    return x / sum_q if sum_q > _ZERO else _ZERO


@kernel(inline="always")
def _weigh(
    cell: Cell,
    apart: bool,
    stored: Array,
    base: Floats,
    documents: Documents,
    how: Step,
    work: Work,
) -> tuple[Float, Float]:
    """Compute p_j of eq. (7) over a document's active topics.

    Returns their sum and the largest.
    """
    (i, at, r, own) = cell
    betas = splat(how.beta)
    floors = splat(how.floor)
    owns = splat(own)
    s = splat(_ZERO)
    peak = splat(_ZERO)
    for j in range(0, len(work.share), 16):
        # phi_wj + beta of sixteen topics: the row as it stands, with the base where that is apart
        f = gather(work.row, 0, documents.topics, at + j)
        store(work.entry, j, f)
        if apart:
            b = gather(base, r, documents.topics, at + j) + betas
            f = b if how.first else f + b
        # o_j = x mu_j
        o = splat(_ZERO)
        if not how.first:
            q = widen(stored, i * len(work.share) + j)
            o = owns * (q * q)
        store(work.own, j, o)
        # (theta_dj - o_j + alpha) (phi_wj - o_j + beta) / (lam_j - o_j + W beta)
        p = (
            larger(load(documents.theta, at + j) - o, floors)
            / (load(documents.lam, at + j) - o)
            * larger(f - o, betas)
        )
        store(work.share, j, p)
        s = s + p
        peak = larger(peak, p)
    return total(s), highest(peak)


@kernel(inline="always")
def _store_message(
    i: int, peak: float, beyond: Float, old: Array, new: Array, how: Step, work: Work
) -> tuple[Float, Float]:
    """Store the new message of a cell as integers q_j up to ``how.top``.

    peak: the largest p_j. beyond: what of x mu_j over-relaxation subtracts from p_j.

    Returns
    -------
    sum q_j^2, and the largest change of a q_j.
    """
    width = len(work.share)
    stretch = splat(how.top / np.sqrt(peak))
    beyonds = splat(beyond)
    s = splat(_ZERO)
    gap = splat(_ZERO)
    for j in range(0, width, 16):
        p = larger(load(work.share, j) - load(work.own, j) * beyonds, splat(_ZERO))
        q = narrow(new, i * width + j, root(p) * stretch)
        store(work.share, j, q * q)
        s = s + q * q
        if not how.first:
            q = q - widen(old, i * width + j)
            gap = larger(gap, larger(q, splat(_ZERO) - q))
    return total(s), highest(gap)


@kernel(inline="always")
def _move_sums(
    at: int, x: float, sum_q: float, documents: Documents, first: bool, work: Work
) -> None:
    """Move theta_d and phi_w by x (mu_new - mu_old), as the stored integers have it."""
    scale = splat(x / sum_q)
    for j in range(0, len(work.share), 16):
        change = scale * load(work.share, j) - load(work.own, j)
        if not first:
            store(documents.theta, at + j, load(documents.theta, at + j) + change)
        scatter(work.row, 0, documents.topics, at + j, load(work.entry, j) + change)


@kernel(inline="always")
def _take_gathered(
    u: int,
    cells: CellsByWord,
    documents: Documents,
    width: int,
    row: Floats,
    out_topic: Shorts,
    out_value: Floats,
    n: int,
) -> Int:
    """Move the entries of a word's documents, and of topics that have left them, out of its row.

    Returns the number of the delta's entries then.
    """
    (ptr, doc, _) = cells
    (topics, before, left, lanes, _, _, _) = documents
    for i in range(ptr[u], ptr[u + 1]):
        at = np.int64(doc[i]) * width
        for e in range(left[doc[i]], left[doc[i] + 1]):
            gone = before[at + lanes[e]]
            if row[gone] != _ZERO:
                out_topic[n] = gone
                out_value[n] = row[gone]
                row[gone] = _ZERO
                n += 1
        n += _take(row, topics, at, width, out_topic, out_value, n)
    return n


@kernel(inline="always")
def _take_row(
    r: int,
    base: Floats,
    beta: float,
    apart: bool,
    row: Floats,
    out_topic: Shorts,
    out_value: Floats,
    n: int,
) -> Int:
    """Move all changes out of a word's row, and return the delta's entries then."""
    betas = splat(beta)
    for k in range(0, base.shape[1], 16):
        change = load(row, k)
        if not apart:
            change = change - (load(base, r + k) + betas)
        n += squeeze(out_topic, out_value, n, k, change)
    row[:] = _ZERO
    return n


@kernel
def _sweep_words(
    cells: CellsByWord,
    rows: PhiRows,
    documents: Documents,
    bids: Bids,
    how: Step,
    messages: Messages,
    delta: RowEntries,
    work: Work,
) -> Int:
    """Visit every cell, word by word (parameters: ``sweep``)."""
    cells = borrow(cells)
    base = borrow(rows.base)
    index = rows.row
    bids = borrow(bids)
    work = borrow(work)
    out_ptr = delta.ptr
    out_topic = borrow(delta.topic)
    out_value = borrow(delta.value)
    (topics, before, left, lanes, theta, lam, mass) = borrow(documents)
    (ptr, doc, x) = cells
    (_, beta, _, band, step, first, rare) = how
    # kernels index flat arrays: a document or cell begins at its number times L
    width = topics.shape[1]
    documents = Documents(topics.reshape(-1), before.reshape(-1), left, lanes, theta, lam, mass)
    likely = messages.likely
    old = borrow(messages.old).reshape(-1)
    new = borrow(messages.new).reshape(-1)
    flat = Messages(old, new, borrow(likely))
    whole = base.shape[1] <= WHOLE
    # share of the old message that over-relaxation subtracts: 1 - 1 / step
    further = (step - _ONE) / step
    n = np.int64(0)
    out_ptr[0] = 0
    for u in range(len(ptr) - 1):
        _fetch_word(min(u + 1, len(ptr) - 2), cells, base, index, documents.topics, width, rare)
        r = index[u] * base.shape[1]
        # apart: the row holds the word's changes alone
        gathered = ptr[u + 1] - ptr[u] <= rare
        apart = gathered or _open_row(r, base, beta, first, work.row)
        # topics that bid, if a document of the word considers inactive topics
        n_strong = np.int64(0)
        if bids.reach >= _ZERO:
            asked = False
            for i in range(ptr[u], ptr[u + 1]):
                asked = asked or bids.chosen[doc[i]] >= 0
            if asked:
                n_strong = _choose_bidders(r, base, beta, bids, whole, work)
        for i in range(ptr[u], ptr[u + 1]):
            _fetch_document(np.int64(doc[min(i + AHEAD, len(doc) - 1)]) * width, width, documents)
            d = np.int64(doc[i])
            at = d * width
            # the old message: mu_j = q_j^2 / sum q^2
            own = _ZERO
            moved = False
            if not first:
                own = _scale_of(x[i], i, width, old)
                moved = left[d + 1] > left[d]
                if moved:
                    _leave(i, d, width, own, documents, flat, work.row)
            # eq. (7) without the cell's own share
            stored = new if moved else old
            sum_p, peak = _weigh(Cell(i, at, r, own), apart, stored, base, documents, how, work)
            # p(w | the other cells), from the normaliser of eq. (7)
            likely[i] = sum_p / (mass[d] - x[i])
            # over-relaxation, and the new message in integers
            beyond = sum_p * (further / x[i]) if not first and not moved else _ZERO
            sum_q, gap = _store_message(i, peak, beyond, old, new, how, work)
            c = np.int64(bids.chosen[d])
            if c >= 0:
                _bid(c, x[i] / sum_p, bids, n_strong, whole, work)
            # a message that hardly moves stays, and so do the sums
            if not first and not moved and gap <= band:
                for j in range(0, width, 16):
                    narrow(new, i * width + j, widen(old, i * width + j))
                continue
            _move_sums(at, x[i], sum_q, documents, first, work)
        # the delta of the word: the entries of its documents' topics, or all of its row
        if gathered:
            n = _take_gathered(u, cells, documents, width, work.row, out_topic, out_value, n)
        else:
            n = _take_row(r, base, beta, apart, work.row, out_topic, out_value, n)
        out_ptr[u + 1] = n
    return n


@kernel
def sweep(
    cells: CellsByWord,
    rows: PhiRows,
    documents: Documents,
    bids: Bids,
    how: Step,
    messages: Messages,
    delta: RowEntries,
) -> Int:
    """Visit every cell of a block once, and write its delta.

    Symbols: the module's docstring.

    Returns the number of entries of the delta.
    """
    width = documents.topics.shape[1]
    columns = rows.base.shape[1]
    work = Work(
        np.zeros(columns, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(columns + 16, np.uint16),
        np.empty(columns + 16, np.float32),
    )
    return _sweep_words(  # type: ignore[no-any-return]
        cells, rows, documents, bids, how, messages, delta, work
    )
