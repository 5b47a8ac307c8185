"""The collapsed Gibbs conditional of SparseLDA in three buckets: kernels of ``sparselda``.

Yao, Mimno & McCallum (2009), section 3.4. The conditional of one token, taken out of all counts, is
eq. (5), split by eq. (6) and (10):

    p(z = t) ~ (alpha_t + n_td) (beta + n_wt) / (beta W + n_t)
             = alpha_t beta / (beta W + n_t)  +  n_td beta / (beta W + n_t)  +  coef_t n_wt
               s, every topic                    r, the document's topics       q, the word's topics

with coef_t = (alpha_t + n_td) / (beta W + n_t) cached for every topic. (The paper's text has n_t|d
in the denominators of r and coef; its equation 5 has n_t, which is meant.) q is searched first,
along the word's packed list in descending counts, then the document's topics, then all. A move
changes two topics, so s, r, q, coef and 1 / (beta W + n_t) are updated in O(1). s and r are summed
afresh for each document, so that rounding never adds up and resuming is exact.

Arrays
------
z
    uint[tokens], topics, cell after cell.
start, length, arena
    Packed rows of the block's words (numeric/kernels/packed.py).
n_t, inv, alpha, coef
    float64[K]: tokens of a topic, 1 / (beta W + n_t), prior of the document, (alpha_t + n_td)
    inv_t.
n_td, topics, slot
    int64[K]: topics of the present document, dense; the topics with n_td > 0; their places in
    ``topics``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Cells, Doubles, Int, Ints, Longs, borrow
from topicstream.numeric.kernels.dirichlet import close_document, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import (
    find_lane,
    passing,
    rise,
    row_mass,
    sink,
)
from topicstream.numeric.kernels.rng import bits, step, stream, uniform
from topicstream.numeric.kernels.simd import fetch
from topicstream.numeric.kernels.sums import dot_doubles

AHEAD = 3  # cells ahead whose rows are fetched
NEAR = 32  # entries of a row searched one by one: most draws end there; from there on by SIMD
FROM_ALL = 1  # the buckets s, r and q: places of their draws in ``Results.figures``
FROM_DOCUMENT = 2
FROM_WORD = 3
KEPT = 4  # draws of the old topic
_ONE = np.int64(1)


class WordRows(NamedTuple):
    """Packed rows of the block's words: row u is arena[start[u] .. start[u] + length[u]].

    bits: m, the bits of a topic in an entry, count << m | topic.
    """

    start: Longs
    length: Ints
    arena: Array
    bits: int


class Topics(NamedTuple):
    """Tokens of a topic and what is cached of them (symbols: the module's docstring)."""

    n_t: Doubles
    inv: Doubles
    coef: Doubles


class DocumentTopics(NamedTuple):
    """Topics of the present document (symbols: the module's docstring)."""

    n_td: Longs
    slot: Longs
    topics: Longs


class Priors(NamedTuple):
    """Priors: document d has alphas[row_of[d]].

    alphas: float64[A, >= K]; row_of: int32[D]; mass: beta W.
    """

    alphas: Doubles
    row_of: Ints
    beta: float
    mass: float


class DocumentPrior(NamedTuple):
    """Priors of the present document: alpha, float64[K], beta, and beta W."""

    alpha: Doubles
    beta: float
    mass: float


class Counts(NamedTuple):
    """The counts that a token is in: of its word, of all documents, and of its own."""

    rows: WordRows
    sums: Topics
    document: DocumentTopics


class Position(NamedTuple):
    """Where the sweep stands before a document.

    Attributes
    ----------
    token
        Number of its first token.
    n_topics
        Its topics, which are listed.
    state
        The stream of its draws.
    buckets
        s and r without the factor beta, and q.
    """

    token: Int
    n_topics: Int
    state: int
    buckets: tuple[float, float, float]


class Draws(NamedTuple):
    """The key of a block's draws: document d has the stream of first_doc + d."""

    seed: int
    pass_number: int
    first_doc: int


class Results(NamedTuple):
    """Results: of ``close_document``, and of ``Chain.sweep``.

    figures: float64[12], the last three are the running s, r, q after the last token.
    """

    topic_bins: Doubles
    lengths: Doubles
    figures: Doubles


@kernel(inline="always")
def _open_document(z: Array, i: int, n_d: int, document: DocumentTopics) -> Int:
    """Count and list the document's topics, z[i : i + n_d], and return how many there are."""
    (n_td, slot, topics) = document
    n_topics = np.int64(0)
    for j in range(i, i + n_d):
        t = np.int64(z[j])
        if n_td[t] == 0:
            n_topics = _list_topic(t, n_topics, slot, topics)
        n_td[t] += 1
    return n_topics


@kernel(inline="always")
def _weigh_document(
    n_topics: int, document: DocumentTopics, alpha: Doubles, inv: Doubles, coef: Doubles
) -> float:
    """Return r without the factor beta (eq. 6), and cache coef of the document's topics."""
    (n_td, _, topics) = document
    r = 0.0
    for j in range(n_topics):
        t = topics[j]
        coef[t] = (alpha[t] + n_td[t]) * inv[t]
        r += n_td[t] * inv[t]
    return r


@kernel(inline="always")
def _move_buckets(
    t: int,
    by: int,
    n: float,
    n_wt: int,
    prior: DocumentPrior,
    counts: Counts,
    buckets: tuple[float, float, float],
) -> tuple[float, float, float]:
    """Move s, r, q and the cached factors of topic t by one token.

    Parameters
    ----------
    by
        -1: it has left; 1: it has come.
    n
        The topic's tokens now. Its tokens in the document, n_td[t], are those of now, too.
    n_wt
        Its tokens of the word before.
    buckets
        s and r without the factor beta, and q, before.
    """
    (s, r, q) = buckets
    (alpha, _, mass) = prior
    (_, inv, coef) = counts.sums
    n_td = counts.document.n_td[t]
    i0 = inv[t]
    c0 = coef[t]
    i1 = 1.0 / (mass + n)
    c1 = (alpha[t] + n_td) * i1
    inv[t] = i1
    coef[t] = c1
    # eq. (6): s = sum alpha_t / (beta W + n_t), r = sum n_td / (beta W + n_t)
    s += alpha[t] * (i1 - i0)
    r += n_td * i1 - (n_td - by) * i0
    # eq. (10): q = sum coef_t n_wt
    q += c1 * np.float64(n_wt + by) - c0 * np.float64(n_wt)
    return s, r, q


@kernel(inline="always")
def _draw_of_word(
    arena: Array, at: int, n: int, coef: Doubles, m: int, x: float, old: Int
) -> tuple[Int, Int]:
    """Draw in bucket q: walk along the word's topics, the most frequent first.

    Returns the topic and its place in the word's row, which is arena[at : at + n].
    """
    mask = (_ONE << m) - _ONE
    k = np.int64(0)
    while True:
        f = np.int64(arena[at + k])
        x -= coef[f & mask] * np.float64(f >> m)
        if x < 0.0 or k == n - 1:
            break
        k += 1
        if k == NEAR:
            skip, x = passing(arena, at + k, n - k, coef, m, x)
            k += skip
    # rounding has carried x past the last entry: the last with a count
    while f <= mask and k > 0:
        k -= 1
        f = np.int64(arena[at + k])
    return f & mask if f > mask else old, k


@kernel(inline="always")
def _draw_of_document(
    n_topics: int, document: DocumentTopics, inv: Doubles, x: float, old: Int
) -> Int:
    """Draw in bucket r: walk along the document's topics."""
    (n_td, _, topics) = document
    new = np.int64(-1)
    for j in range(n_topics):
        t = topics[j]
        if n_td[t] > 0:
            x -= n_td[t] * inv[t]
            new = t
            if x < 0.0:
                break
    return new if new >= 0 else old


@kernel(inline="always")
def _draw_of_all(alpha: Doubles, inv: Doubles, x: float) -> Int:
    """Draw in bucket s: walk along all topics."""
    new = np.int64(len(inv) - 1)
    for t in range(len(inv)):
        x -= alpha[t] * inv[t]
        if x < 0.0:
            new = np.int64(t)
            break
    return new


@kernel(inline="always")
def _add_to_row(arena: Array, at: int, n: int, place: int, topic: int, m: int) -> tuple[Int, Int]:
    """Add a token of the topic to a word's row.

    Returns its tokens before, and the row's length.

    place: of the topic in the row, or -1 where that is not known.
    """
    if place < 0:
        place = find_lane(arena, at, n, topic, m)
    tokens = np.int64(0)
    if place < 0:
        arena[at + n] = (_ONE << m) | topic
        n += 1
    else:
        tokens = np.int64(arena[at + place]) >> m
        rise(arena, at, place, m)
    return tokens, n


@kernel(inline="always")
def _list_topic(t: int, n_topics: int, slot: Longs, topics: Longs) -> Int:
    """Enter topic t into the document's list and return the list's length."""
    topics[n_topics] = t
    slot[t] = n_topics
    return n_topics + 1


@kernel(inline="always")
def _unlist_topic(t: int, n_topics: int, slot: Longs, topics: Longs) -> Int:
    """Replace topic t in the document's list by the last one, and return the list's length."""
    last = topics[n_topics - 1]
    topics[slot[t]] = last
    slot[last] = slot[t]
    return n_topics - 1


@kernel(inline="always")
def _fetch_row(rows: WordRows, u: int) -> None:
    """Prefetch the row of a word: two cache lines where it has more than one."""
    (start, length, arena, _) = rows
    fetch(arena, start[u])
    if length[u] > 16:
        fetch(arena, start[u] + 16)


@kernel(inline="always")
def _draw(
    x: float,
    row: tuple[int, int],
    n_topics: Int,
    old: Int,
    prior: DocumentPrior,
    counts: Counts,
    buckets: tuple[float, float, float],
) -> tuple[Int, Int, int]:
    """Search the bucket that x falls into for the topic whose share covers x.

    Parameters
    ----------
    row
        Beginning and length of the word's row in the arena.
    old
        The topic where rounding leaves none.

    Returns
    -------
    The topic, its place in the word's row (-1: not known), and the bucket.
    """
    (_, r, q) = buckets
    (alpha, beta, _) = prior
    (rows, sums, document) = counts
    place = np.int64(-1)
    if x < q:
        bucket = FROM_WORD
        new, place = _draw_of_word(rows.arena, row[0], row[1], sums.coef, rows.bits, x, old)
    elif (x - q) / beta < r:
        bucket = FROM_DOCUMENT
        new = _draw_of_document(n_topics, document, sums.inv, (x - q) / beta, old)
    else:
        bucket = FROM_ALL
        new = _draw_of_all(alpha, sums.inv, (x - q) / beta - r)
    return new, place, bucket


@kernel(inline="always")
def _sweep_document(
    d: int,
    cells: Cells,
    z: Array,
    begin: Position,
    prior: DocumentPrior,
    counts: Counts,
    divisor: float,
    figures: Doubles,
) -> tuple[Int, Int, tuple[float, float, float]]:
    """Draw a new topic for each token of document d.

    figures[0] grows by the logarithm of the draws' totals, less ``divisor``.

    Returns
    -------
    The first token of the next document, the number of the document's topics, and s, r and q. A
    token whose topic is not in its word's row ends the sweep: it is returned with -1 topics.
    """
    (i, n_topics, state, (s, r, q)) = begin
    (indptr, words, tokens_of) = cells
    (rows, sums, document) = counts
    (start, length, arena, m) = rows
    (n_t, inv, coef) = sums
    (n_td, slot, topics) = document
    one = _ONE << m
    loglik = figures[0]
    product = 1.0
    factors = 0
    for c in range(indptr[d], indptr[d + 1]):
        if c + AHEAD < indptr[d + 1]:
            _fetch_row(rows, words[c + AHEAD])
        u = words[c]
        at = start[u]
        n = np.int64(length[u])
        # eq. (10): q afresh for the cell
        q = row_mass(arena, at, n, coef, m)
        for _ in range(tokens_of[c]):
            # the old topic's place in the word's row: most often it is the first
            old = np.int64(z[i])
            p = np.int64(0)
            if (np.int64(arena[at]) & (one - 1)) != old:
                p = find_lane(arena, at, n, old, m)
            if p < 0:
                return i, np.int64(-1), (s, r, q)
            # take the token out of the counts, and of s, r and q
            e = np.int64(arena[at + p])
            before = (inv[old], coef[old], s, r, q)
            arena[at + p] = e - one
            n_td[old] -= 1
            s, r, q = _move_buckets(old, -1, n_t[old] - 1.0, e >> m, prior, counts, (s, r, q))
            # eq. (5): x is uniform in the mass of the three buckets
            state = step(state)
            total = q + prior.beta * (r + s)
            x = uniform(bits(state)) * total
            # one logarithm for eight draws
            product *= total
            factors += 1
            if factors == 8:
                loglik += log(product)
                product = 1.0
                factors = 0
            new, place, bucket = _draw(x, (at, n), n_topics, old, prior, counts, (s, r, q))
            figures[bucket] += 1
            # the old topic again: restore everything
            if new == old:
                figures[KEPT] += 1
                arena[at + p] = e
                n_td[old] += 1
                inv[old], coef[old], s, r, q = before
                i += 1
                continue
            z[i] = new
            i += 1
            # the old topic sinks in the word's row, or leaves it, and the document's list
            n_t[old] -= 1.0
            moved = sink(arena, at, n, p, m)
            if e < one + one:
                n -= 1
            if place == moved:
                place = p
            if n_td[old] == 0:
                n_topics = _unlist_topic(old, n_topics, slot, topics)
            # the new one enters both, the counts, and s, r and q
            n_t[new] += 1.0
            tokens, n = _add_to_row(arena, at, n, place, new, m)
            if n_td[new] == 0:
                n_topics = _list_topic(new, n_topics, slot, topics)
            n_td[new] += 1
            s, r, q = _move_buckets(new, 1, n_t[new], tokens, prior, counts, (s, r, q))
        length[u] = n
    figures[0] = loglik + (log(product) - divisor)
    return i, n_topics, (s, r, q)


@kernel
def sweep_tokens(
    cells: Cells,
    z: Array,
    rows: WordRows,
    sums: Topics,
    document: DocumentTopics,
    priors: Priors,
    draws: Draws,
    results: Results,
) -> Int:
    """Sweep a block once (symbols: the module's docstring).

    Returns
    -------
    -1, or the number of the first token whose topic its word's row does not have (then z and table
    do not belong together).
    """
    cells = borrow(cells)
    z = borrow(z)
    rows = borrow(rows)
    sums = borrow(sums)
    document = borrow(document)
    (indptr, _, counts) = cells
    (alphas, row_of, beta, mass) = borrow(priors)
    (topic_bins, lengths, figures) = borrow(results)
    (n_t, inv, coef) = sums
    (n_td, _, topics) = document
    alpha = alphas[0, : len(n_t)]
    alpha_sum = alpha.sum()
    # coefficients outside the present document, where n_td = 0
    for t in range(len(n_t)):
        inv[t] = 1.0 / (mass + n_t[t])
        coef[t] = alpha[t] * inv[t]
        n_td[t] = 0
    i = np.int64(0)
    buckets = (0.0, 0.0, 0.0)
    for d in range(len(indptr) - 1):
        n_d = np.int64(0)
        for c in range(indptr[d], indptr[d + 1]):
            n_d += counts[c]
        if n_d == 0:
            continue
        # the document's own prior
        if len(alphas) > 1:
            alpha = alphas[row_of[d], : len(n_t)]
            alpha_sum = alpha.sum()
            for t in range(len(n_t)):
                coef[t] = alpha[t] * inv[t]
        # eq. (6): s and r afresh, both without the factor beta
        n_topics = _open_document(z, i, n_d, document)
        r = _weigh_document(n_topics, document, alpha, inv, coef)
        s = dot_doubles(alpha, inv, len(inv))
        state = stream(draws.seed, draws.pass_number, draws.first_doc + d)
        i, n_topics, buckets = _sweep_document(
            d,
            cells,
            z,
            Position(i, n_topics, state, (s, r, 0.0)),
            DocumentPrior(alpha, beta, mass),
            Counts(rows, sums, document),
            n_d * log(alpha_sum + (n_d - 1)),  # every draw divides by n_d - 1 + sum alpha
            figures,
        )
        if n_topics < 0:
            return i  # type: ignore[no-any-return]
        figures[5] += 1
        figures[6] += n_topics
        # log p(z) of the document, and its counts for learned priors
        figures[7] += close_document(
            topics, n_topics, n_td, n_d, alpha, alpha_sum, topic_bins, lengths
        )
        for j in range(n_topics):
            t = topics[j]
            n_td[t] = 0
            coef[t] = alpha[t] * inv[t]
    (s, r, q) = buckets
    figures[8] = i
    figures[9] = beta * s
    figures[10] = beta * r
    figures[11] = q
    return np.int64(-1)
