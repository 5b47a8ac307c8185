"""Messages over (author, topic) pairs: the kernels of ``addons/authors/engine.py``.

The message of a cell (word w, document d, count x) over the pairs (a, k) of d's authors (Zeng,
Cheung & Liu 2013, "Learning topic models by belief propagation", eq. 24 to 27), every sum without
what the cell itself put in:

    mu_ak  ~  (T_ak - x mu_ak + alpha_k) / (sum_k (T_ak - x mu_ak) + sum alpha)
              (phi_wk - x m_k + beta) / (lam_k - x m_k + W beta),     m_k = sum_a mu_ak

normalised over all pairs of the cell. A document keeps P of its A K pairs, all or the strongest; a
pair is the number ``slot * K + topic``, slot being the place of the author in the document's list,
and a document's pairs ascend.

    indptr int64[D+1], words int32[nnz] local, counts [nnz]     the block's cells
    aptr int64[D+1], authors int32[E]     local author rows of each document
    pptr int64[D+1]    pairs of document d stand at pptr[d] ..;  mptr int64[D+1]: its messages, P
                       floats a cell, at mptr[d] ..
    phi float32[R, Kp], index int64[U], totals float64[Kp]     rows of the words, column sums
    have, change float32[Ua + 1, K]     T as the block found it, and what the block changes; the
                                        last row is the private author of a document that names
                                        none, whose T is what the document itself has put there
"""

from __future__ import annotations

import numpy as np

from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import (
    Array,
    Bytes,
    Doubles,
    Float,
    Floats,
    Ints,
    Longs,
    address_of,
)
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.select import largest_numbers
from topicstream.numeric.kernels.sums import sum_row

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


@kernel
def start(
    indptr: Longs,
    words: Ints,
    counts: Array,
    aptr: Longs,
    authors: Ints,
    pptr: Longs,
    mptr: Longs,
    base: Floats,
    index: Longs,
    totals: Doubles,
    alpha: Floats,
    rounds: int,
    seed: int,
    first_doc: int,
    pairs: Ints,
    messages: Floats,
    delta: Floats,
    change: Floats,
) -> None:
    """Write the first messages.

    With seed topics a message is the document's mixture of them, estimated in ``rounds`` steps and
    spread over its authors with a random weight of 0.5 to 1.5 a pair, so that no two authors are
    alike. Without, it is a random pair for every cell.

    Parameters
    ----------
    base
        float32[R, Kp], seed topics. No rows: there are none.
    delta, change
        float32[U, Kp] and float32[Ua + 1, K], results: the block's contribution.
    """
    topics = change.shape[1]
    seeded = len(base) > 0
    private = np.array([len(change) - 1], np.int32)
    longest = 1
    for d in range(len(indptr) - 1):
        longest = max(longest, aptr[d + 1] - aptr[d])
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
        rows = authors[aptr[d] : aptr[d + 1]] if aptr[d + 1] > aptr[d] else private
        n = len(rows) * topics
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
                change[rows[own[j] // topics], k] += x * m


@kernel
def _open(
    pairs: Ints,
    topics: int,
    authors: Ints,
    slot_of: Ints,
    rows: Longs,
    topic: Longs,
    place: Longs,
    author: Longs,
    tops: Longs,
) -> int:
    """Unpack the pairs of a document, and return the number of slots.

    Each pair gets its author's row, topic, slot of the topic and slot of the author. ``authors``
    holds the rows of the document's authors.
    """
    n = 0
    for j in range(len(pairs)):
        a = pairs[j] // topics
        k = pairs[j] % topics
        author[j] = a
        topic[j] = k
        rows[j] = authors[a]
        if slot_of[k] < 0:
            slot_of[k] = n
            tops[n] = k
            n += 1
        place[j] = slot_of[k]
    return n


@kernel
def _collect(
    o: Floats,
    count: int,
    place: Longs,
    author: Longs,
    n_slots: int,
    n_authors: int,
    m: Floats,
    na: Floats,
) -> None:
    """Sum a cell's shares o[:count] over authors, m[s], and over topics, na[a]."""
    for s in range(n_slots):
        m[s] = _ZERO
    if count == n_authors * n_slots:  # every author has every slot: pairs are author by author
        for a in range(n_authors):
            for s in range(n_slots):
                m[s] += o[a * n_slots + s]
            na[a] = sum_row(address_of(o) + 4 * a * n_slots, n_slots)
    else:
        for a in range(n_authors):
            na[a] = _ZERO
        for j in range(count):
            m[place[j]] += o[j]
            na[author[j]] += o[j]


@kernel
def _weigh(
    o: Floats,
    count: int,
    m: Floats,
    na: Floats,
    t: Floats,
    al: Floats,
    asum: Doubles,
    mass: float,
    f: Floats,
    g: Floats,
    lam: Floats,
    phi: Floats,
    r: int,
    ch: Floats,
    c0: int,
    whole: bool,
    beta: float,
    tops: Longs,
    place: Longs,
    author: Longs,
    n_slots: int,
    n_authors: int,
    p: Floats,
) -> Float:
    """Compute the unnormalised message p of a cell, and return its sum.

    The cell's own shares are o, m and na. The word's row of counts stands in phi at r, its change
    in ch at c0. ``whole``: all topics are there, in their order.
    """
    if whole:
        for s in range(n_slots):
            c = phi[r + s] + ch[c0 + s] - m[s]
            f[s] = ((c if c > _ZERO else _ZERO) + beta) / (lam[s] - m[s])
    else:
        for s in range(n_slots):
            c = phi[r + tops[s]] + ch[c0 + tops[s]] - m[s]
            f[s] = ((c if c > _ZERO else _ZERO) + beta) / (lam[s] - m[s])
    for a in range(n_authors):
        g[a] = np.float32(1.0 / (max(asum[a] - na[a], 0.0) + mass))
    if count == n_authors * n_slots:
        for a in range(n_authors):
            each = g[a]
            for s in range(n_slots):
                j = a * n_slots + s
                c = t[j] - o[j]
                p[j] = ((c if c > _ZERO else _ZERO) + al[j]) * each * f[s]
    else:
        for j in range(count):
            c = t[j] - o[j]
            p[j] = ((c if c > _ZERO else _ZERO) + al[j]) * g[author[j]] * f[place[j]]
    return sum_row(address_of(p), count)  # type: ignore[no-any-return]


@kernel
def visit(
    indptr: Longs,
    words: Ints,
    counts: Array,
    aptr: Longs,
    authors: Ints,
    pptr: Longs,
    mptr: Longs,
    phi: Floats,
    index: Longs,
    totals: Doubles,
    have: Floats,
    change: Floats,
    before: Ints,
    old: Floats,
    pairs: Ints,
    new: Floats,
    delta: Floats,
    alpha: Floats,
    beta: float,
    smooth: float,
    sync: bool,
    looks: Bytes,
    gain: float,
) -> float:
    """Visit a block: compute new messages from the old ones.

    Parameters
    ----------
    before, pairs
        int32, pairs of the documents as the old messages have them, and from now on (written).
    old, new
        float32, messages.
    sync
        True: every sum is as the pass before left it, and delta and change get the whole
        contribution. False: sums move with each cell, and delta and change get the differences.
    looks
        uint8[D]. 1: the document chooses its pairs again before it is visited. It takes the
        strongest, those outside counted as if they had ``gain`` tokens of it to begin with.

    Returns
    -------
    float
        Sum of x log p(w | the other cells, a uniform author) in nats, with p before each update.
    """
    topics = have.shape[1]
    private = len(have) - 1
    alone = np.array([len(have) - 1], np.int32)
    longest = 1
    most = 1
    for d in range(len(indptr) - 1):
        longest = max(longest, aptr[d + 1] - aptr[d])
        most = max(most, pptr[d + 1] - pptr[d])
    lam = np.empty(topics, np.float64)
    slot_of = np.full(topics, -1, np.int32)
    sums = np.zeros(len(have), np.float64)
    mass = np.float64(0.0)
    for k in range(topics):
        # lam_k + W beta
        lam[k] = totals[k] + smooth
    # sum alpha
    for k in range(topics):
        mass += alpha[k]
    # tokens of each named author
    for a in range(private):
        for k in range(topics):
            sums[a] += have[a, k]
    apart = most + 128
    whole = np.empty((7, apart), np.int64)
    real = np.empty((6, apart), np.float32)
    slot = np.empty((4, apart), np.float32)
    rows = whole[0]
    topic = whole[1]
    place = whole[2]
    author = whole[3]
    tops = whole[4]
    source = whole[5]
    gone = whole[6]
    o = real[0]
    t = real[1]
    al = real[2]
    p = real[3]
    moved = real[4]
    own = real[5]
    m = slot[0]
    f = slot[1]
    slots = slot[2]
    slots_moved = slot[3]
    value = np.empty(longest * topics, np.float32)
    asum = np.empty(longest, np.float64)
    na = np.empty(longest, np.float32)
    g = np.empty(longest, np.float32)
    score = np.empty(topics, np.float32)
    inverse = np.empty(topics, np.float32)
    width = delta.shape[1]
    flat_phi = phi.reshape(-1)
    flat_delta = delta.reshape(-1)
    nothing = np.zeros(width, np.float32)
    # in delta stands what this pass puts in, when it is sync
    moves = nothing if sync else flat_delta
    delta[:] = _ZERO
    change[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        count = pptr[d + 1] - pptr[d]
        if count == 0:
            continue
        writers = authors[aptr[d] : aptr[d + 1]] if aptr[d + 1] > aptr[d] else alone
        n_authors = len(writers)
        was = before[pptr[d] : pptr[d + 1]]
        now = pairs[pptr[d] : pptr[d + 1]]
        # pairs as the old messages have them, and own_j = sum over the cells of x mu_j
        n_slots = _open(was, topics, writers, slot_of, rows, topic, place, author, tops)
        own[:count] = _ZERO
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            at = mptr[d] + (i - indptr[d]) * count
            for j in range(count):
                own[j] += x * old[at + j]
        # a private author has the tokens of this document alone
        if aptr[d + 1] == aptr[d]:
            have[private, :] = _ZERO
            change[private, :] = _ZERO
            for j in range(count):
                have[private, topic[j]] += own[j]
            sums[private] = 0.0
            for j in range(count):
                sums[private] += own[j]
        # denominators of the authors: n_a
        for a in range(n_authors):
            asum[a] = sums[writers[a]]
        # the document chooses its pairs again, by an estimate of the tokens of each
        if looks[d] and count < n_authors * topics:
            for j in range(count):
                t[j] = have[rows[j], topic[j]] + (_ZERO if sync else change[rows[j], topic[j]])
                al[j] = alpha[topic[j]]
            for s in range(n_slots):
                slots[s] = lam[tops[s]]
            score[:] = _ZERO
            for k in range(topics):
                inverse[k] = _ONE / np.float32(lam[k])
            # score_k = sum over the cells of x (phi_wk + beta) / (lam_k + W beta) / p(w), with p(w)
            # of the present pairs
            for i in range(indptr[d], indptr[d + 1]):
                x = np.float32(counts[i])
                at = mptr[d] + (i - indptr[d]) * count
                r = index[words[i]] * width
                c0 = 0 if sync else np.int64(words[i]) * width
                for j in range(count):
                    o[j] = x * old[at + j]
                _collect(o, count, place, author, n_slots, n_authors, m, na)
                total = _weigh(
                    o,
                    count,
                    m,
                    na,
                    t,
                    al,
                    asum,
                    mass,
                    f,
                    g,
                    slots,
                    flat_phi,
                    r,
                    moves,
                    c0,
                    count == n_authors * topics,
                    beta,
                    tops,
                    place,
                    author,
                    n_slots,
                    n_authors,
                    p,
                )
                if total > _ZERO:
                    weight = x / total
                    for k in range(topics):
                        score[k] += (
                            weight
                            * (max(flat_phi[r + k] + moves[c0 + k], _ZERO) + beta)
                            * inverse[k]
                        )
            # an outside pair would have (T_ak + alpha_k + gain) / (n_a + sum alpha) score_k tokens
            for a in range(n_authors):
                owner = writers[a]
                each = np.float32(1.0 / (max(asum[a], 0.0) + mass))
                for k in range(topics):
                    c = have[owner, k] + (_ZERO if sync else change[owner, k])
                    value[a * topics + k] = (max(c, _ZERO) + alpha[k] + gain) * each * score[k]
            # a present pair has own_j
            for j in range(count):
                value[was[j]] = own[j]
            largest_numbers(value, n_authors * topics, count, now)
        else:
            now[:] = was
        # pairs of the new messages; for each, its place among the old ones
        for s in range(n_slots):
            slot_of[tops[s]] = -1
        n_slots = _open(now, topics, writers, slot_of, rows, topic, place, author, tops)
        n_gone = 0
        b = 0
        # source_j: the old pair that is the same, or -1. gone: the old pairs that are not among the
        # new
        for j in range(count):  # both ascend
            while b < count and was[b] < now[j]:
                gone[n_gone] = b
                n_gone += 1
                b += 1
            source[j] = -1
            if b < count and was[b] == now[j]:
                source[j] = b
                b += 1
        while b < count:
            gone[n_gone] = b
            n_gone += 1
            b += 1
        # t_j = T_ak of the pairs, al_j = alpha_k, and what moves in them
        for j in range(count):
            t[j] = have[rows[j], topic[j]] + (_ZERO if sync else change[rows[j], topic[j]])
            al[j] = alpha[topic[j]]
            moved[j] = _ZERO
        for s in range(n_slots):
            slots[s] = lam[tops[s]]
            slots_moved[s] = _ZERO
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            at = mptr[d] + (i - indptr[d]) * count
            r = index[words[i]] * width
            here = np.int64(words[i]) * width
            c0 = 0 if sync else here
            # o_j = x mu_j of the cell's old message, and its sums m over authors, na over topics
            if n_gone == 0:
                for j in range(count):
                    o[j] = x * old[at + j]
                _collect(o, count, place, author, n_slots, n_authors, m, na)
            else:
                for j in range(count):
                    o[j] = x * old[at + source[j]] if source[j] >= 0 else _ZERO
                _collect(o, count, place, author, n_slots, n_authors, m, na)
                # pairs that are gone give their share back: to the sums at once, or (sync) as
                # excluded only
                for e in range(n_gone):
                    q = was[gone[e]]
                    a = q // topics
                    k = q % topics
                    share = x * old[at + gone[e]]
                    if sync:
                        na[a] += share
                        if slot_of[k] >= 0:
                            m[slot_of[k]] += share
                    else:
                        change[writers[a], k] -= share
                        flat_delta[here + k] -= share
                        asum[a] -= share
                        if slot_of[k] >= 0:
                            slots[slot_of[k]] -= share
                            slots_moved[slot_of[k]] -= share
                        else:
                            lam[k] -= share
            # p_j ~ (T_ak - o_j + alpha_k) / (n_a - na + sum alpha) (phi_wk - m + beta) / (lam_k - m
            # + W beta)
            total = _weigh(
                o,
                count,
                m,
                na,
                t,
                al,
                asum,
                mass,
                f,
                g,
                slots,
                flat_phi,
                r,
                moves,
                c0,
                count == n_authors * topics,
                beta,
                tops,
                place,
                author,
                n_slots,
                n_authors,
                p,
            )
            if total > _ZERO:
                loglik += float(x) * log(np.float64(total / np.float32(n_authors)))
            else:  # alpha or beta are 0 and nothing is left
                p[:count] = _ONE
                total = np.float32(count)
            # the new message mu_j = p_j / sum p
            scale = x / total
            part = _ONE / total
            for j in range(count):
                new[at + j] = part * p[j]
            # o_j becomes what the cell adds to the sums: x mu_j, or (async) its change
            if sync:
                for j in range(count):
                    o[j] = scale * p[j]
            else:
                for j in range(count):
                    o[j] = scale * p[j] - o[j]
                    t[j] += o[j]
            for j in range(count):
                moved[j] += o[j]
            # phi_w moves by the sum over authors, and when async lam and n_a, too
            _collect(o, count, place, author, n_slots, n_authors, m, na)
            for s in range(n_slots):
                flat_delta[here + tops[s]] += m[s]
            if not sync:
                for s in range(n_slots):
                    slots[s] += m[s]
                    slots_moved[s] += m[s]
                for a in range(n_authors):
                    asum[a] += na[a]
        # the author table moves by what moved in the pairs
        for j in range(count):
            change[rows[j], topic[j]] += moved[j]
        for s in range(n_slots):
            if not sync:
                lam[tops[s]] += slots_moved[s]
            slot_of[tops[s]] = -1
        if not sync:
            for a in range(n_authors):
                sums[writers[a]] = asum[a]
    return loglik
