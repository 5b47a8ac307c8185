"""SparseLDA: the collapsed Gibbs conditional in three buckets.

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

from dataclasses import replace

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.engines.base import BlockShape, Buffer, Out, PackedRows, Visit
from topicstream.engines.gibbs.chain import Chain
from topicstream.numeric.kernels.arrays import Array, Doubles, Int, Ints, Longs
from topicstream.numeric.kernels.dirichlet import close_document, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import (
    READ_PAST,
    entry_bytes,
    find_lane,
    passing,
    rise,
    row_mass,
    sink,
    slack_starts,
)
from topicstream.numeric.kernels.rng import bits, step, stream, uniform
from topicstream.numeric.kernels.simd import fetch
from topicstream.numeric.kernels.sums import dot_doubles

AHEAD = 3  # cells ahead whose rows are fetched
NEAR = 32  # entries of a row searched one by one: most draws end there; from there on by SIMD


@kernel
def sweep(
    indptr: Longs,
    words: Ints,
    counts: Ints,
    z: Array,
    start: Longs,
    length: Ints,
    arena: Array,
    m: int,
    n_t: Doubles,
    inv: Doubles,
    coef: Doubles,
    alphas: Doubles,
    row_of: Ints,
    beta: float,
    mass: float,
    seed: int,
    pass_number: int,
    first_doc: int,
    n_td: Longs,
    slot: Longs,
    topics: Longs,
    topic_bins: Doubles,
    lengths: Doubles,
    figures: Doubles,
) -> Int:
    """Sweep a block once (symbols: the module's docstring).

    Parameters
    ----------
    alphas, row_of
        float64[A, >= K] and int32[D]: document d has the prior alphas[row_of[d]].
    mass
        beta W.
    figures
        Results of ``Chain.sweep``, then the running s, r, q after the last token.

    Returns
    -------
    -1, or the number of the first token whose topic its word's row does not have (then z and table
    do not belong together).
    """
    n_all = len(n_t)
    alpha = alphas[0, :n_all]
    several = len(alphas) > 1
    bits_m = np.int64(m)
    one = np.int64(1) << bits_m
    mask = one - 1
    alpha_sum = alpha.sum()
    # coefficients outside the current document: n_td = 0
    for t in range(n_all):
        inv[t] = 1.0 / (mass + n_t[t])
        coef[t] = alpha[t] * inv[t]
        n_td[t] = 0
    i = np.int64(0)
    draws_q = 0
    draws_r = 0
    draws_s = 0
    kept = 0
    loglik = 0.0
    doc_loglik = 0.0
    documents = 0
    doc_topics = 0
    s = r = q = 0.0
    for d in range(len(indptr) - 1):
        a = indptr[d]
        b = indptr[d + 1]
        # length of the document
        n_d = np.int64(0)
        for c in range(a, b):
            n_d += counts[c]
        if n_d == 0:
            continue
        state = stream(seed, pass_number, first_doc + d)
        # the document's own prior
        if several:
            alpha = alphas[row_of[d], :n_all]
            alpha_sum = alpha.sum()
            for t in range(n_all):
                coef[t] = alpha[t] * inv[t]
        # counts and list of the document's topics
        n_topics = np.int64(0)
        for j in range(i, i + n_d):
            t = np.int64(z[j])  # type: ignore[assignment]
            if n_td[t] == 0:
                slot[t] = n_topics
                topics[n_topics] = t
                n_topics += 1
            n_td[t] += 1
        # r and s afresh, without the factor beta (eq. 6), and coef of the document's topics
        r = 0.0
        for j in range(n_topics):
            t = topics[j]
            coef[t] = (alpha[t] + n_td[t]) * inv[t]
            r += n_td[t] * inv[t]
        s = dot_doubles(alpha, inv, len(inv))
        product = 1.0
        factors = 0
        for c in range(a, b):
            # prefetch the row of a later cell
            if c + AHEAD < b:
                after = words[c + AHEAD]
                fetch(arena, start[after])
                if length[after] > 16:
                    fetch(arena, start[after] + 16)
            u = words[c]
            at = start[u]
            n = np.int64(length[u])
            # q afresh for the cell (eq. 10)
            q = row_mass(arena, at, n, coef, bits_m)
            for _ in range(counts[c]):
                # place of the old topic in the word's row
                old = np.int64(z[i])
                p = np.int64(0)  # most often it is the first
                if (np.int64(arena[at]) & mask) != old:
                    p = find_lane(arena, at, n, old, bits_m)
                if p < 0:
                    return i
                # take the token out
                e = np.int64(arena[at + p])
                nd = n_td[old] - 1
                i0 = inv[old]
                c0 = coef[old]
                i1 = 1.0 / (mass + (n_t[old] - 1.0))
                c1 = (alpha[old] + nd) * i1
                cnt = np.float64(e >> m)
                s0 = s
                r0 = r
                q0 = q
                s += alpha[old] * (i1 - i0)
                r += nd * i1 - (nd + 1) * i0
                q += c1 * (cnt - 1.0) - c0 * cnt
                arena[at + p] = e - one
                inv[old] = i1
                coef[old] = c1
                n_td[old] = nd
                # draw x from the total mass q + beta (r + s)
                state = step(state)
                total = q + beta * (r + s)
                x = uniform(bits(state)) * total
                product *= total
                factors += 1
                if factors == 8:
                    loglik += log(product)
                    product = 1.0
                    factors = 0
                pn = np.int64(-1)
                new = np.int64(-1)
                # bucket q: walk along the word's topics, most frequent first
                if x < q:
                    draws_q += 1
                    k = np.int64(0)
                    while True:
                        f = np.int64(arena[at + k])
                        x -= coef[f & mask] * np.float64(f >> m)
                        if x < 0.0 or k == n - 1:
                            break
                        k += 1
                        if k == NEAR:
                            skip, x = passing(arena, at + k, n - k, coef, bits_m, x)
                            k += skip
                    # rounding has carried x past the last entry: the last with a count
                    while f < one and k > 0:
                        k -= 1
                        f = np.int64(arena[at + k])
                    pn = k
                    new = f & mask if f >= one else old
                else:
                    # bucket r: walk along the document's topics
                    x = (x - q) / beta
                    if x < r:
                        draws_r += 1
                        for j in range(n_topics):
                            t = topics[j]
                            if n_td[t] > 0:
                                x -= n_td[t] * inv[t]
                                new = t
                                if x < 0.0:
                                    break
                        if new < 0:
                            new = old
                    else:
                        # bucket s: walk along all topics
                        draws_s += 1
                        x -= r
                        for t in range(n_all):
                            x -= alpha[t] * inv[t]
                            if x < 0.0:
                                new = np.int64(t)
                                break
                        if new < 0:
                            new = np.int64(n_all - 1)
                # the draw is the old topic: restore everything
                if new == old:
                    kept += 1
                    arena[at + p] = e
                    inv[old] = i0
                    coef[old] = c0
                    n_td[old] = nd + 1
                    s = s0
                    r = r0
                    q = q0
                    i += 1
                    continue
                z[i] = new
                i += 1
                # the old topic leaves
                n_t[old] -= 1.0
                l = sink(arena, at, n, p, m)
                if e < one + one:
                    n -= 1
                if pn == l:
                    pn = p
                if nd == 0:
                    n_topics -= 1
                    last = topics[n_topics]
                    topics[slot[old]] = last
                    slot[last] = slot[old]
                # the new one comes
                n_t[new] += 1.0
                if pn < 0:
                    pn = find_lane(arena, at, n, new, bits_m)
                cn = 0.0
                if pn < 0:
                    arena[at + n] = one | new
                    n += 1
                else:
                    cn = np.float64(np.int64(arena[at + pn]) >> m)
                    rise(arena, at, pn, m)
                nd = n_td[new]
                if nd == 0:
                    topics[n_topics] = new
                    slot[new] = n_topics
                    n_topics += 1
                n_td[new] = nd + 1
                i0 = inv[new]
                c0 = coef[new]
                i1 = 1.0 / (mass + n_t[new])
                c1 = (alpha[new] + (nd + 1)) * i1
                inv[new] = i1
                coef[new] = c1
                s += alpha[new] * (i1 - i0)
                r += (nd + 1) * i1 - nd * i0
                q += c1 * (cn + 1.0) - c0 * cn
            length[u] = n
        loglik += log(product) - n_d * log(alpha_sum + (n_d - 1))
        doc_loglik += close_document(
            topics, n_topics, n_td, n_d, alpha, alpha_sum, topic_bins, lengths
        )
        documents += 1
        doc_topics += n_topics  # type: ignore[assignment]
        for j in range(n_topics):
            t = topics[j]
            n_td[t] = 0
            coef[t] = alpha[t] * inv[t]
    figures[0] = loglik
    figures[1] = draws_s
    figures[2] = draws_r
    figures[3] = draws_q
    figures[4] = kept
    figures[5] = documents
    figures[6] = doc_topics
    figures[7] = doc_loglik
    figures[8] = i
    figures[9] = beta * s
    figures[10] = beta * r
    figures[11] = q
    return np.int64(-1)


class SparseLDA(Chain):
    """The Gibbs sampler whose cost a token is the topics of its word (``sparselda``).

    The conditional is split into s (every topic), r (the document's topics) and q (the word's
    topics):

        p(z = t) ~ alpha_t beta / (beta W + n_t) + n_td beta / (beta W + n_t) + coef_t n_wt

    Within a block every draw sees all earlier ones. Blocks of one round do not see each other
    (AD-LDA). At round width 1 the chain is the exact collapsed sampler. Parameters and attributes:
    see ``Chain``.

    References
    ----------
    Yao, Mimno & McCallum (2009). Efficient methods for topic model inference on streaming document
    collections. KDD 2009. Section 3.4, eq. (5)-(10).

    Newman, Asuncion, Smyth & Welling (2007). Distributed inference for latent Dirichlet allocation.
    NIPS 20.
    """

    name = "sparselda"
    about = replace(Chain.about, covariates=True)
    cites = (
        "Yao, Mimno & McCallum 2009, Efficient methods for topic model inference, section 3.4, "
        "eq. (6)-(10)"
    )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare the arena of packed rows, each with room to grow.

        It comes on top of the arrays of every sampler. A row begins at a cache line.
        """
        topics = self.shape.topics
        most = (block.table_entries or int(self.shape.tokens)) + block.tokens
        entries = min(block.words * topics, most) + 16 * block.words + READ_PAST
        return super().workspace(block) | {
            "word tokens": Buffer(block.words, "int32"),
            "row start": Buffer(block.words, "int64"),
            "row length": Buffer(block.words, "int32"),
            "arena": Buffer(entries, f"u{self.entry_bytes(block)}"),
            "coefficients": Buffer((2, topics), "float64"),
            "document topics": Buffer((3, topics), "int64"),
        }

    def sweep(self, visit: Visit, out: Out, n_t: np.ndarray, figures: np.ndarray) -> None:
        block = visit.block
        params = visit.params
        key = visit.key
        stats = out.stats
        phi: PackedRows = visit.rows["phi"]
        k = self.shape.topics
        tokens = out.array("word tokens")
        start = out.array("row start")
        length = out.array("row length")
        length[:] = phi.length
        entries = slack_starts(block.words, block.counts, length, k, tokens, start)
        size = entry_bytes(phi.largest + int(tokens.max(initial=0)), k)
        arena = out.array("arena", entries + READ_PAST, f"u{size}")
        phi.copy(0, block.n_words, start, arena)
        real = out.array("coefficients")
        whole = out.array("document topics")
        alphas, row_of = self.priors(visit, out)
        beta = float(params["beta"][0])
        stray = sweep(
            block.indptr,
            block.words,
            block.counts,
            out.state["z"],
            start,
            length,
            arena,
            phi.bits,
            n_t,
            real[0],
            real[1],
            alphas,
            row_of,
            beta,
            beta * self.shape.words,
            key.seed,
            key.pass_number,
            block.first_doc,
            whole[0],
            whole[1],
            whole[2],
            stats["topic_bins"],
            stats["lengths"],
            figures,
        )
        if stray >= 0:
            raise TopicsError(
                f"{self.name}: block {block.index}, token {stray}: its topic is not in the "
                f"table, so block memory and table "
                "do not belong together; start over with --force"
            )
