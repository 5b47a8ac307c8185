"""aTBP: asynchronous tiny belief propagation (Zeng, Liu, Cao: Memory-Efficient Topic Modeling, Fig. 3).

No message is stored.  Before a cell's update each of its three sums is shrunk by the share that the cell has in it,
which stands for the message that is taken out; then the new message is put in:

    phi[w,:] *= 1 - x/n_w    theta[d,:] *= 1 - x/n_d    lam *= 1 - x/N                      (lines 13-15)
    eta_k = (phi[w,k] + beta)(theta[d,k] + alpha_k) / (lam_k + W beta) / sum                (lines 16-17)
    phi[w,:] += x eta        theta[d,:] += x eta        lam += x eta                        (lines 18-20)

    symbol        array
    phi[w, :]     base[index[u], :] + delta[u, :]   float32[., KP]; base is only read, the change alone accumulates
    theta[d, :]   theta[d, :]                       float32[D, KP]
    lam           lam + dl + fresh                  float32[KP]; the change since the block began accumulates alone
    1/n_w         per_n_w[u]                        float32[U], from the row's own sum
    u_k           u                                 float32[KP]

Numbers: phi[w,:] is never rounded at its own size.  The delta of a block is small beside the row, its rounding errors
are those of small numbers, and the driver adds deltas in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, Rows, padded
from topicstream.engines.message.logs import sum_x_log
from topicstream.engines.message.tiny import TinyEngine
from topicstream.kernels.arrays import Array, Doubles, Float, Floats, Ints, Longs
from topicstream.kernels.jit import kernel
from topicstream.kernels.simd import WIDTH, fetch, fma, get, load, rows_ahead, splat, store, total

DRIFT = 1e-4  # most that a topic's 1/(lam + W beta) may be out by
REVIEW = 16  # documents between two looks at the smallest topic, which decides how often that is renewed


@kernel
def _least(l0: Floats, dl: Floats, spread: Floats, topics: int) -> Float:
    """min over topics of lam + spread (W beta, and what seed words add), lam = l0 + dl."""
    least = np.float32(np.inf)
    for k in range(topics):
        least = min(least, l0[k] + dl[k] + spread[k])
    return least


@kernel
def sweep(
    indptr: Longs,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    alpha: Floats,
    prior: Floats,
    of: Ints,
    lam: Floats,
    n_all: float,
    spread: Floats,
    theta: Floats,
    delta: Floats,
    per_n_w: Floats,
    work: Floats,
    p: Doubles,
) -> float:
    """All cells of a block in document order, Fig. 3.  theta: changed in place; delta: written whole.

    theta[d, :] is held as ``left`` times what is in the array until the document's end: the shrink of line 14 costs one
    number, not a row.  1/(lam + W beta) is renewed before the tokens that have passed since could have changed any
    topic's by a ``DRIFT``-th part; in a small corpus that is before every cell, the figure to the letter.

    prior: float32[R, KP], ``of`` int32[U]: row of the prior of local word u, beta or, for seed words, beta and their
    pseudo-counts, which no shrinking touches; spread: float32[KP], its sums over all words.
    lam: float32[KP]; per_n_w: float32[U]; work: float32[>= 4 KP]; p: float64[most cells of a document]
    -> sum of x log(sum_k u_k / (n_d - x + sum alpha)): the words' probability before their update, own share taken out
    """
    width = base.shape[1]
    u, dl, fresh, inverse = (
        work[:width],
        work[width : 2 * width],
        work[2 * width : 3 * width],
        work[3 * width : 4 * width],
    )
    per_n_w[:] = 0.0
    alpha_sum, topics = 0.0, 0
    for k in range(width):
        alpha_sum += alpha[k]
        topics += int(alpha[k] > 0.0)
        dl[k] = fresh[k] = inverse[k] = 0.0
    smooth, zero, one = splat(prior[0, 0]), splat(0.0), np.float32(1.0)
    n_cells, ahead = len(words), rows_ahead(width)
    per_n_all = np.float32(1.0 / n_all)
    loglik = 0.0
    passed, allowed = np.float32(np.inf), np.float32(0.0)
    for d in range(len(indptr) - 1):
        first, last, at = indptr[d], indptr[d + 1], d * width
        if d % REVIEW == 0:
            allowed = np.float32(DRIFT) * _least(lam, dl, spread, topics)
        n_d = 0.0
        for i in range(first, last):
            n_d += get(counts, i)
        per_n_d = np.float32(1.0 / n_d) if last > first else np.float32(0.0)
        left = one
        for i in range(first, last):
            if i + 2 * ahead < n_cells:
                word = np.int64(get(words, i + 2 * ahead))
                fetch(index, word)
                fetch(per_n_w, word)
            word = np.int64(get(words, min(i + ahead, n_cells - 1)))
            next_row, next_out = get(index, word) * width, word * width
            x = np.float32(get(counts, i))
            word = np.int64(get(words, i))
            row, out, own = get(index, word) * width, word * width, np.int64(get(of, word)) * width
            share_w = get(per_n_w, word)
            if share_w == 0.0:
                acc = zero
                for k in range(0, width, WIDTH):
                    acc = acc + load(base, row + k)
                    store(delta, out + k, zero)
                share_w = one / total(acc)
                per_n_w[word] = share_w
            less_w = splat(-min(x * share_w, one))
            if passed + x > allowed:
                passed = np.float32(0.0) if passed == np.inf else passed
                less_all, less_own = splat(-passed * per_n_all), splat(-x * per_n_all)
                for k in range(0, width, WIDTH):
                    whole = load(lam, k)
                    change = load(dl, k)
                    change = fma(less_all, whole + change, change) + load(fresh, k)
                    store(fresh, k, zero)
                    store(dl, k, change)
                    change = fma(less_own, whole + change, change)
                    store(inverse, k, splat(1.0) / (whole + change + load(spread, k)))
                passed = np.float32(0.0)
            passed += x
            left *= one - x * per_n_d
            if left < np.float32(1e-3):  # nearly all of the document is in this cell: write the shrink out
                keep = splat(max(left, np.float32(0.0)))
                for k in range(0, width, WIDTH):
                    store(theta, at + k, keep * load(theta, at + k))
                left = one
            keep = splat(left)
            acc = zero
            if own == 0:  # no seed word: a load less for each vector, a tenth of the time at 100 topics
                for k in range(0, width, WIDTH):
                    fetch(base, next_row + k)
                    b = load(base, row + k)
                    c = load(delta, out + k)
                    c = fma(less_w, b + c, c)
                    v = (b + c + smooth) * fma(keep, load(theta, at + k), load(alpha, k)) * load(inverse, k)
                    store(u, k, v)
                    acc = acc + v
            else:
                for k in range(0, width, WIDTH):
                    b = load(base, row + k)
                    c = load(delta, out + k)
                    c = fma(less_w, b + c, c)
                    v = (
                        (b + c + load(prior, own + k))
                        * fma(keep, load(theta, at + k), load(alpha, k))
                        * load(inverse, k)
                    )
                    store(u, k, v)
                    acc = acc + v
            s = total(acc)
            p[i - first] = s
            per_s = one / s
            share = splat(x * per_s)
            share_left = splat(x / left * per_s)
            for k in range(0, width, WIDTH):
                fetch(delta, next_out + k)
                v = load(u, k)
                b = load(base, row + k)
                c = load(delta, out + k)
                store(delta, out + k, fma(share, v, fma(less_w, b + c, c)))
                store(theta, at + k, fma(share_left, v, load(theta, at + k)))
                store(fresh, k, fma(share, v, load(fresh, k)))
        if last > first:
            loglik += sum_x_log(p, counts, first, last - first, n_d + alpha_sum, 1.0)
        rescale(theta, at, width, n_d)
    return loglik


@kernel
def rescale(theta: Floats, at: int, width: int, n_d: float) -> None:
    """Hold a document's row to its tokens; a document without any gets zeros."""
    acc = splat(0.0)
    for k in range(0, width, WIDTH):
        acc = acc + load(theta, at + k)
    mass = total(acc)
    if n_d > 0.0:
        factor = splat(n_d / mass)
        for k in range(0, width, WIDTH):
            store(theta, at + k, factor * load(theta, at + k))
    else:
        for k in range(0, width, WIDTH):
            store(theta, at + k, splat(0.0))


@kernel
def sweep_narrow(
    indptr: Longs,
    words: Ints,
    counts: Array,
    base: Floats,
    index: Longs,
    alpha: Floats,
    prior: Floats,
    of: Ints,
    lam: Floats,
    n_all: float,
    spread: Floats,
    theta: Floats,
    delta: Floats,
    per_n_w: Floats,
    work: Floats,
    p: Doubles,
) -> float:
    """``sweep`` for K <= 16: a row is one vector, and what a document changes stays in registers.

    The sum of cell i need not wait for the division of cell i - 1: with g = (phi + beta)/(lam + W beta) and theta as it
    was before cell i - 1 added its h u',  sum_k u_k = sum g (left theta + alpha) + left h sum g u'.
    """
    width = WIDTH
    spreads, zero, alphas, one = load(spread, 0), splat(0.0), load(alpha, 0), np.float32(1.0)
    dl = work[:width]
    alpha_sum, topics = 0.0, 0
    for k in range(width):
        alpha_sum += alpha[k]
        topics += int(alpha[k] > 0.0)
    n_cells, ahead = len(words), rows_ahead(width)
    for v in range(len(per_n_w)):
        if v + ahead < len(per_n_w):
            fetch(base, get(index, v + ahead) * width)
        per_n_w[v] = one / total(load(base, get(index, v) * width))
        store(delta, v * width, zero)
    per_n_all = np.float32(1.0 / n_all)
    loglik = 0.0
    whole, change, fresh, inverse = load(lam, 0), zero, zero, zero
    passed, allowed = np.float32(np.inf), np.float32(0.0)
    for d in range(len(indptr) - 1):
        first, last, at = indptr[d], indptr[d + 1], d * width
        if d % REVIEW == 0:
            store(dl, 0, change)
            allowed = np.float32(DRIFT) * _least(lam, dl, spread, topics)
        n_d = 0.0
        for i in range(first, last):
            n_d += get(counts, i)
        per_n_d = np.float32(1.0 / n_d) if last > first else np.float32(0.0)
        left, t, u, h = one, load(theta, at), zero, np.float32(0.0)
        for i in range(first, last):
            if i + 2 * ahead < n_cells:
                word = np.int64(get(words, i + 2 * ahead))
                fetch(index, word)
                fetch(per_n_w, word)
                word = np.int64(get(words, i + ahead))
                fetch(base, get(index, word) * width)
                fetch(delta, word * width)
            x = np.float32(get(counts, i))
            word = np.int64(get(words, i))
            out = word * width
            b = load(base, get(index, word) * width)
            c = load(delta, out)
            c = fma(splat(-min(x * get(per_n_w, word), one)), b + c, c)
            if passed + x > allowed:
                passed = np.float32(0.0) if passed == np.inf else passed
                change = fma(splat(-passed * per_n_all), whole + change, change) + fresh
                own = fma(splat(-x * per_n_all), whole + change, change)
                inverse = splat(1.0) / (whole + own + spreads)
                fresh, passed = zero, np.float32(0.0)
            passed += x
            left *= one - x * per_n_d
            g = (b + c + load(prior, np.int64(get(of, word)) * width)) * inverse
            keep = splat(left)
            s = total(g * fma(keep, t, alphas)) + left * h * total(g * u)
            t = fma(splat(h), u, t)
            if left < np.float32(1e-3):  # nearly all of the document is in this cell: write the shrink out
                t = t * splat(max(left, np.float32(0.0)))
                left = one
                keep = splat(left)
            u = g * fma(keep, t, alphas)
            p[i - first] = s
            each = x / s
            h = each * (one / left)
            v = splat(each) * u
            fresh = fresh + v
            store(delta, out, c + v)
        store(theta, at, fma(splat(h), u, t))
        if last > first:
            loglik += sum_x_log(p, counts, first, last - first, n_d + alpha_sum, 1.0)
        rescale(theta, at, width, n_d)
    return loglik


class ATBP(TinyEngine):
    """Asynchronous tiny belief propagation: no messages, the change of a block enters phi at once."""

    name = "atbp"
    cites = "Zeng, Liu & Cao, Memory-Efficient Topic Modeling, Fig. 3"

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        """One visit; theta is the kept one or folded in first."""
        phi: Rows = rows["phi"]
        theta = self.theta_before(block, phi, totals["phi"], memory, params, out)
        alpha, beta = self.priors(params, out)
        prior, of, spread = self.word_priors(block, beta, out)
        sums = totals["phi"] if self.shape.seeds is None else totals["phi"] - self.shape.seeds.totals
        lam = self.column_sums(sums, out)
        work = out.scratch.array("work", 4 * phi.base.shape[1], np.float32)
        visit = sweep_narrow if phi.base.shape[1] == WIDTH else sweep
        out.stats["loglik"][0] += visit(
            block.indptr,
            block.words,
            block.counts,
            phi.base,
            phi.counts,
            alpha,
            prior,
            of,
            lam,
            float(sums.sum()),
            spread,
            theta,
            out.delta["phi"],
            out.scratch.array("per_n_w", block.n_words, np.float32),
            work,
            self.cell_probabilities(block, out),
        )
        out.stats["tokens"][0] += block.tokens
        self.count_for_priors(block, phi, theta, params, out)

    def word_priors(self, block: Block, beta: float, out: Out) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Priors of the block's words (see ``sweep``): what is shrunk for a cell's own share must not have seed words'
        pseudo-counts in it, or phi would have to fall below zero to make up for what is taken from them."""
        seeds, width = self.shape.seeds, padded(self.shape.topics)
        of = out.scratch.array("row of prior", block.n_words, np.int32)
        of[:] = 0
        spread = np.full(width, self.shape.words * beta, np.float32)
        if seeds is None:
            prior = out.scratch.array("priors", (1, width), np.float32)
            prior[:] = beta
            return prior, of, spread
        here, which = seeds.find(block.vocab)
        prior = out.scratch.array("priors", (1 + len(here), width), np.float32)
        prior[:] = beta
        seeds.add(prior, 1 + np.arange(len(here)), which)
        of[here] = 1 + np.arange(len(here))
        spread += seeds.totals.astype(np.float32)
        return prior, of, spread
