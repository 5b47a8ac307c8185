"""The visit of a block by the author-topic model: new messages from the old ones.

Equations and symbols: ``addons/authors/messages.py``. ``visit_pairs`` makes the scratch arrays and
``_visit_documents`` goes from document to document. The functions above it are its steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.addons.authors.messages import (
    AuthorTopics,
    Document,
    DocumentBlock,
    Messages,
    Size,
    Update,
    WordTopics,
)
from topicstream.numeric.kernels.arrays import (
    Bytes,
    Float,
    Floats,
    Int,
    Ints,
    Longs,
    address_of,
    borrow,
    most_in_row,
)
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import largest_numbers
from topicstream.numeric.kernels.sums import sum_row

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


class WordRows(NamedTuple):
    """Rows of phi and what is known to change in them, flat float32.

    phi    word u's row begins at row[u] width
    moves  the change of phi to reckon with, and delta, the block's: word u's row is at u width
    """

    phi: Floats
    row: Longs
    moves: Floats
    delta: Floats
    width: int


class BlockVisit(NamedTuple):
    """A visit of a block: what its steps read and write.

    old, new float32, messages of the cells;  mass  sum alpha
    """

    block: DocumentBlock
    words: WordRows
    tables: AuthorTopics
    old: Floats
    new: Floats
    mass: float
    how: Update


class PairLists(NamedTuple):
    """A document's pairs before and now, ascending, and the rows of its authors, int32 each."""

    was: Ints
    now: Ints
    writers: Ints


class Cell(NamedTuple):
    """A cell's count, where its old messages begin, and where its word's row of delta begins."""

    x: Float
    at: Int
    here: Int


@kernel(inline="always")
def _open(pairs: Ints, writers: Ints, topics: int, own: Document) -> int:
    """Unpack the pairs of a document, and return the number of slots.

    Each pair gets its author's row, topic, slot of the topic and place of the author. ``writers``
    holds the rows of the document's authors.
    """
    slots = 0
    for j in range(len(pairs)):
        a = pairs[j] // topics
        k = pairs[j] % topics
        own.author[j] = a
        own.topic[j] = k
        own.row[j] = writers[a]
        if own.slot_of[k] < 0:
            own.slot_of[k] = slots
            own.top[slots] = k
            slots += 1
        own.place[j] = own.slot_of[k]
    return slots


@kernel(inline="always")
def _close(slots: int, own: Document) -> None:
    """Forget the slots of a document's topics."""
    for s in range(slots):
        own.slot_of[own.top[s]] = -1


@kernel(inline="always")
def _collect(size: Size, own: Document) -> None:
    """Sum a cell's shares o over authors, m[s], and over topics, na[a]."""
    (count, slots, authors, _) = size
    for s in range(slots):
        own.m[s] = _ZERO
    if count == authors * slots:  # every author has every slot: pairs are author by author
        for a in range(authors):
            for s in range(slots):
                own.m[s] += own.o[a * slots + s]
            own.na[a] = sum_row(address_of(own.o) + 4 * a * slots, slots)
    else:
        for a in range(authors):
            own.na[a] = _ZERO
        for j in range(count):
            own.m[own.place[j]] += own.o[j]
            own.na[own.author[j]] += own.o[j]


@kernel(inline="always")
def _weigh(
    size: Size,
    own: Document,
    mass: float,
    beta: float,
    phi: Floats,
    r: int,
    moves: Floats,
    c0: int,
) -> Float:
    """Compute the unnormalised message p of a cell, and return its sum.

    The cell's own shares are o, m and na. The word's row of counts stands in phi at r, its change
    in moves at c0. mass: sum alpha.

        p_j = (T_ak - o_j + alpha_k) / (n_a - na + sum alpha)
              (phi_wk - m + beta) / (lam_k - m + W beta)
    """
    (count, slots, authors, topics) = size
    # (phi_wk - m + beta) / (lam_k - m + W beta)
    if count == authors * topics:  # all topics are there, in their order
        for s in range(slots):
            c = phi[r + s] + moves[c0 + s] - own.m[s]
            own.f[s] = ((c if c > _ZERO else _ZERO) + beta) / (own.lam[s] - own.m[s])
    else:
        for s in range(slots):
            c = phi[r + own.top[s]] + moves[c0 + own.top[s]] - own.m[s]
            own.f[s] = ((c if c > _ZERO else _ZERO) + beta) / (own.lam[s] - own.m[s])
    # 1 / (n_a - na + sum alpha)
    for a in range(authors):
        own.g[a] = np.float32(1.0 / (max(own.n_a[a] - own.na[a], 0.0) + mass))
    # their product with T_ak - o_j + alpha_k
    if count == authors * slots:
        for a in range(authors):
            each = own.g[a]
            for s in range(slots):
                j = a * slots + s
                c = own.t[j] - own.o[j]
                own.p[j] = ((c if c > _ZERO else _ZERO) + own.prior[j]) * each * own.f[s]
    else:
        for j in range(count):
            c = own.t[j] - own.o[j]
            c = (c if c > _ZERO else _ZERO) + own.prior[j]
            own.p[j] = c * own.g[own.author[j]] * own.f[own.place[j]]
    return sum_row(address_of(own.p), count)  # type: ignore[no-any-return]


@kernel
def _sum_cells(d: int, block: DocumentBlock, old: Floats, own: Document, size: Size) -> None:
    """Sum own_j = x mu_j over the cells of document d."""
    own = borrow(own)
    block = borrow(block)
    own.own[: size.pairs] = _ZERO
    for i in range(block.indptr[d], block.indptr[d + 1]):
        x = np.float32(block.counts[i])
        at = block.mptr[d] + (i - block.indptr[d]) * size.pairs
        for j in range(size.pairs):
            own.own[j] += x * old[at + j]


@kernel
def _fill_private(tables: AuthorTopics, own: Document, count: int) -> None:
    """Give the private author the tokens of the present document alone."""
    own = borrow(own)
    tables = borrow(tables)
    (have, change) = tables
    private = len(have) - 1
    have[private, :] = _ZERO
    change[private, :] = _ZERO
    for j in range(count):
        have[private, own.topic[j]] += own.own[j]
    own.sums[private] = 0.0
    for j in range(count):
        own.sums[private] += own.own[j]


@kernel
def _load_sums(tables: AuthorTopics, how: Update, own: Document, size: Size) -> None:
    """Load T_ak and alpha_k of the pairs and lam_k + W beta of the slots."""
    own = borrow(own)
    tables = borrow(tables)
    how = borrow(how)
    for j in range(size.pairs):
        t = tables.have[own.row[j], own.topic[j]]
        own.t[j] = t + (_ZERO if how.sync else tables.change[own.row[j], own.topic[j]])
        own.prior[j] = how.alpha[own.topic[j]]
        own.moved[j] = _ZERO
    for s in range(size.slots):
        own.lam[s] = own.lam_all[own.top[s]]
        own.lam_moved[s] = _ZERO


@kernel
def _score_topics(d: int, visit: BlockVisit, own: Document, size: Size) -> None:
    """Score the topics by the cells of document d.

        score_k = sum x (phi_wk + beta) / (lam_k + W beta) / p(w)

    p(w) is that of the present pairs.
    """
    own = borrow(own)
    (block, words, _, old, _, mass, how) = borrow(visit)
    (phi, index, moves, _, width) = words
    own.score[:] = _ZERO
    for k in range(size.topics):
        own.inverse[k] = _ONE / np.float32(own.lam_all[k])
    for i in range(block.indptr[d], block.indptr[d + 1]):
        x = np.float32(block.counts[i])
        at = block.mptr[d] + (i - block.indptr[d]) * size.pairs
        r = index[block.words[i]] * width
        c0 = 0 if how.sync else np.int64(block.words[i]) * width
        for j in range(size.pairs):
            own.o[j] = x * old[at + j]
        _collect(size, own)
        total = _weigh(size, own, mass, how.beta, phi, r, moves, c0)
        if total > _ZERO:
            weight = x / total
            for k in range(size.topics):
                n_wk = max(phi[r + k] + moves[c0 + k], _ZERO)
                own.score[k] += weight * (n_wk + how.beta) * own.inverse[k]


@kernel
def _choose_pairs(visit: BlockVisit, pairs: PairLists, own: Document, size: Size) -> None:
    """Choose the strongest pairs of a document by an estimate of the tokens of each."""
    own = borrow(own)
    (was, now, writers) = borrow(pairs)
    (_, _, tables, _, _, mass, how) = borrow(visit)
    # an outside pair would have (T_ak + alpha_k + gain) / (n_a + sum alpha) score_k tokens
    for a in range(size.authors):
        row = writers[a]
        each = np.float32(1.0 / (max(own.n_a[a], 0.0) + mass))
        for k in range(size.topics):
            t = tables.have[row, k] + (_ZERO if how.sync else tables.change[row, k])
            t = max(t, _ZERO) + how.alpha[k] + how.gain
            own.value[a * size.topics + k] = t * each * own.score[k]
    # a present pair has own_j
    for j in range(size.pairs):
        own.value[was[j]] = own.own[j]
    largest_numbers(own.value, size.authors * size.topics, size.pairs, now)


@kernel
def _match_pairs(was: Ints, now: Ints, own: Document) -> int:
    """Find each new pair among the old ones, and return how many of the old are gone."""
    own = borrow(own)
    count = len(now)
    gone = 0
    b = 0
    for j in range(count):  # both ascend
        while b < count and was[b] < now[j]:
            own.gone[gone] = b
            gone += 1
            b += 1
        own.source[j] = -1
        if b < count and was[b] == now[j]:
            own.source[j] = b
            b += 1
    while b < count:
        own.gone[gone] = b
        gone += 1
        b += 1
    return gone


@kernel(inline="always")
def _return_shares(
    cell: Cell, gone: int, visit: BlockVisit, pairs: PairLists, own: Document
) -> None:
    """Take the shares of a cell's pairs that are gone out of the sums.

    They leave the sums at once, or (sync) are only excluded from them.
    """
    (x, at, here) = cell
    (_, words, tables, old, _, _, how) = visit
    (was, _, writers) = pairs
    topics = len(own.slot_of)
    for e in range(gone):
        pair = was[own.gone[e]]
        a = pair // topics
        k = pair % topics
        s = own.slot_of[k]
        share = x * old[at + own.gone[e]]
        if how.sync:
            own.na[a] += share
            if s >= 0:
                own.m[s] += share
        else:
            tables.change[writers[a], k] -= share
            words.delta[here + k] -= share
            own.n_a[a] -= share
            if s >= 0:
                own.lam[s] -= share
                own.lam_moved[s] -= share
            else:
                own.lam_all[k] -= share


@kernel(inline="always")
def _move_sums(
    x: float, total: float, here: int, delta: Floats, sync: bool, own: Document, size: Size
) -> None:
    """Put a cell's new message p / total into the sums: x mu_j, or (async) its change."""
    scale = x / total
    if sync:
        for j in range(size.pairs):
            own.o[j] = scale * own.p[j]
    else:
        for j in range(size.pairs):
            own.o[j] = scale * own.p[j] - own.o[j]
            own.t[j] += own.o[j]
    for j in range(size.pairs):
        own.moved[j] += own.o[j]
    # phi_w moves by the sum over authors, and when async lam and n_a, too
    _collect(size, own)
    for s in range(size.slots):
        delta[here + own.top[s]] += own.m[s]
    if not sync:
        for s in range(size.slots):
            own.lam[s] += own.m[s]
            own.lam_moved[s] += own.m[s]
        for a in range(size.authors):
            own.n_a[a] += own.na[a]


@kernel
def _visit_cells(
    d: int,
    visit: BlockVisit,
    pairs: PairLists,
    gone: int,
    own: Document,
    size: Size,
    loglik: float,
) -> float:
    """Compute the new messages of document d, and add their log-likelihood to ``loglik``.

    gone: old pairs that are gone.
    """
    own = borrow(own)
    pairs = borrow(pairs)
    visit = borrow(visit)
    (block, words, _, old, new, mass, how) = visit
    (phi, index, moves, delta, width) = words
    count = size.pairs
    for i in range(block.indptr[d], block.indptr[d + 1]):
        x = np.float32(block.counts[i])
        at = block.mptr[d] + (i - block.indptr[d]) * count
        r = index[block.words[i]] * width
        here = np.int64(block.words[i]) * width
        c0 = 0 if how.sync else here
        # o_j = x mu_j of the cell's old message, and its sums m over authors, na over topics
        if gone == 0:
            for j in range(count):
                own.o[j] = x * old[at + j]
            _collect(size, own)
        else:
            for j in range(count):
                own.o[j] = x * old[at + own.source[j]] if own.source[j] >= 0 else _ZERO
            _collect(size, own)
            _return_shares(Cell(x, at, here), gone, visit, pairs, own)
        # p_j ~ (T_ak - o_j + alpha_k) / (n_a - na + sum alpha)
        #       (phi_wk - m + beta) / (lam_k - m + W beta)
        total = _weigh(size, own, mass, how.beta, phi, r, moves, c0)
        if total > _ZERO:
            loglik += float(x) * log(np.float64(total / np.float32(size.authors)))
        else:  # alpha or beta are 0 and nothing is left
            own.p[:count] = _ONE
            total = np.float32(count)
        # the new message mu_j = p_j / sum p
        part = _ONE / total
        for j in range(count):
            new[at + j] = part * own.p[j]
        _move_sums(x, total, here, delta, how.sync, own, size)
    return loglik


@kernel
def _store_sums(writers: Ints, change: Floats, sync: bool, own: Document, size: Size) -> None:
    """Add what has moved in a document's pairs to the author table."""
    own = borrow(own)
    for j in range(size.pairs):
        change[own.row[j], own.topic[j]] += own.moved[j]
    if not sync:
        for s in range(size.slots):
            own.lam_all[own.top[s]] += own.lam_moved[s]
        for a in range(size.authors):
            own.sums[writers[a]] = own.n_a[a]


@kernel
def _visit_documents(
    block: DocumentBlock,
    rows: WordTopics,
    tables: AuthorTopics,
    messages: tuple[Messages, Messages],
    changes: tuple[Floats, Floats],
    how: Update,
    looks: Bytes,
    own: Document,
) -> float:
    """Visit a block (parameters: ``visit_pairs``).

    messages: the old and the new ones. changes: delta, and the change of phi to reckon with, flat:
    zeros where every sum is as the pass before left it.
    """
    (old, new) = messages
    (delta, moves) = changes
    block = borrow(block)
    tables = borrow(tables)
    how = borrow(how)
    own = borrow(own)
    moves = borrow(moves)
    (base, index, totals) = borrow(rows)
    (before, old_values) = borrow(old)
    (pairs, new_values) = borrow(new)
    (have, change) = tables
    topics = have.shape[1]
    width = delta.shape[1]
    phi = base.reshape(-1)
    flat = borrow(delta).reshape(-1)
    # lam_k + W beta, sum alpha, and the tokens of each named author
    mass = np.float64(0.0)
    for k in range(topics):
        own.lam_all[k] = totals[k] + how.smooth
        own.slot_of[k] = -1
    for k in range(topics):
        mass += how.alpha[k]
    own.sums[:] = 0.0
    for a in range(len(have) - 1):
        for k in range(topics):
            own.sums[a] += have[a, k]
    words = WordRows(phi, index, moves, flat, width)
    visit = BlockVisit(block, words, tables, old_values, new_values, mass, how)
    loglik = 0.0
    for d in range(len(block.indptr) - 1):
        count = block.pptr[d + 1] - block.pptr[d]
        if count == 0:
            continue
        named = block.aptr[d + 1] > block.aptr[d]
        writers = block.authors[block.aptr[d] : block.aptr[d + 1]] if named else own.alone
        was = before[block.pptr[d] : block.pptr[d + 1]]
        now = pairs[block.pptr[d] : block.pptr[d + 1]]
        # the pairs that the old messages are over, and the tokens of their authors
        slots = _open(was, writers, topics, own)
        size = Size(count, slots, len(writers), topics)
        _sum_cells(d, block, old_values, own, size)
        if not named:
            _fill_private(tables, own, count)
        for a in range(len(writers)):
            own.n_a[a] = own.sums[writers[a]]
        # the document chooses its pairs again
        now[:] = was
        if looks[d] and count < len(writers) * topics:
            _load_sums(tables, how, own, size)
            _score_topics(d, visit, own, size)
            _choose_pairs(visit, PairLists(was, now, writers), own, size)
        # the pairs of the new messages
        _close(slots, own)
        slots = _open(now, writers, topics, own)
        size = Size(count, slots, len(writers), topics)
        gone = _match_pairs(was, now, own)
        # new messages, cell by cell
        _load_sums(tables, how, own, size)
        loglik = _visit_cells(d, visit, PairLists(was, now, writers), gone, own, size, loglik)
        _store_sums(writers, change, how.sync, own, size)
        _close(slots, own)
    return loglik


@kernel
def visit_pairs(
    block: DocumentBlock,
    rows: WordTopics,
    tables: AuthorTopics,
    old: Messages,
    new: Messages,
    delta: Floats,
    how: Update,
    looks: Bytes,
) -> float:
    """Visit a block: compute new messages from the old ones.

    Parameters
    ----------
    delta
        float32[U, Kp], result: what the block changes in phi, as ``tables.change`` in T.
    looks
        uint8[D]. 1: the document chooses its pairs again before it is visited. It takes the
        strongest, those outside counted as if they had ``gain`` tokens of it to begin with.

    Returns
    -------
    float
        Sum of x log p(w | the other cells, a uniform author) in nats, with p before each update.
    """
    topics = tables.have.shape[1]
    # most authors and most pairs of a document
    longest = max(1, most_in_row(block.aptr))
    most = max(1, most_in_row(block.pptr))
    apart = most + 128
    # scratch of a document: by pair, by author, and by author and topic
    whole = np.empty((7, apart), np.int64)
    real = np.empty((6, apart), np.float32)
    slot = np.empty((4, apart), np.float32)
    own = Document(
        whole[0],
        whole[1],
        whole[2],
        whole[3],
        whole[4],
        whole[5],
        whole[6],
        real[0],
        real[3],
        real[5],
        real[1],
        real[2],
        real[4],
        slot[0],
        slot[1],
        slot[2],
        slot[3],
        np.empty(longest, np.float64),
        np.empty(longest, np.float32),
        np.empty(longest, np.float32),
        np.empty(longest * topics, np.float32),
        np.empty(topics, np.float32),
        np.empty(topics, np.float32),
        np.empty(topics, np.int32),
        np.empty(topics, np.float64),
        np.empty(len(tables.have), np.float64),
        np.array([len(tables.have) - 1], np.int32),
    )
    # in delta stands what this pass puts in, when it is sync
    moves = np.zeros(delta.shape[1], np.float32) if how.sync else delta.reshape(-1)
    delta[:] = _ZERO
    tables.change[:] = _ZERO
    return _visit_documents(  # type: ignore[no-any-return]
        block, rows, tables, (old, new), (delta, moves), how, looks, own
    )
