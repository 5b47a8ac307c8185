"""aTBP: asynchronous tiny belief propagation (Zeng, Liu, Cao: Memory-Efficient Topic Modeling, Fig. 3).

No message is stored.  Before a cell's update each of its three sums is shrunk by the share that the cell has in it,
which stands for the message that is taken out; then the new message is put in:

    phi[w,:] *= 1 - x/n_w    theta[d,:] *= 1 - x/n_d    lam *= 1 - x/N                      (lines 13-15)
    eta_k = (phi[w,k] + beta)(theta[d,k] + alpha_k) / (lam_k + W beta) / sum                (lines 16-17)
    phi[w,:] += x eta        theta[d,:] += x eta        lam += x eta                        (lines 18-20)

    symbol        array
    phi[w, :]     base[index[u], :] + delta[u, :]   float32[., KP]; base is only read, the change alone accumulates
    theta[d, :]   theta[d, :]                       float32[D, KP]
    lam           lam                               float64[KP], + a float32 change within a document
    n_w           n_w[u]                            float64[U], the row's own sum
    u_k           u                                 float32[KP]

Numbers: phi[w,:] is never rounded at its own size.  The delta of a block is small beside the row, its rounding errors
are those of small numbers, and the driver adds deltas in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import Key, Out, Rows, Rule
from topicstream.engines.message.tiny import TinyEngine
from topicstream.kernels.jit import kernel
from topicstream.kernels.logs import sum_x_log
from topicstream.kernels.simd import WIDTH, fetch, fma, get, load, splat, store, total

AHEAD = 6  # cells between a prefetch and its use
AHEAD_NARROW = 10
DRIFT = 1e-4  # most that a topic's 1/(lam + W beta) may be out by


@kernel
def sweep(indptr, words, counts, base, index, alpha, beta, lam, n_all, w_beta, theta, delta, per_n_w, work, p):
    """All cells of a block in document order, Fig. 3.  theta, lam: changed in place; delta: written whole.

    theta[d, :] is held as ``left`` times what is in the array until the document's end: the shrink of line 14 costs one
    number, not a row.  1/(lam + W beta) is renewed before the tokens that have passed since could have changed any
    topic's by a ``DRIFT``-th part; in a small corpus that is before every cell, the figure to the letter.

    per_n_w: float32[U]; work: float32[>= 5 KP]; p: float64[most cells of a document]
    -> sum of x log(sum_k u_k / (n_d - x + sum alpha)): the words' probability before their update, own share taken out
    """
    width = base.shape[1]
    u, l0, dl, fresh, inverse = (
        work[:width],
        work[width : 2 * width],
        work[2 * width : 3 * width],
        work[3 * width : 4 * width],
        work[4 * width : 5 * width],
    )
    per_n_w[:] = 0.0
    alpha_sum = 0.0
    for k in range(width):
        alpha_sum += alpha[k]
    smooth, spread, zero = splat(beta), splat(w_beta), splat(0.0)
    n_cells = len(words)
    per_n_all = 1.0 / n_all
    loglik = 0.0
    for d in range(len(indptr) - 1):
        first, last, at = indptr[d], indptr[d + 1], d * width
        if last == first:
            for k in range(width):
                theta[d, k] = 0.0
            continue
        n_d = 0.0
        for i in range(first, last):
            n_d += counts[i]
        per_n_d = 1.0 / n_d
        least = np.inf
        for k in range(width):
            l0[k] = lam[k]
            dl[k] = 0.0
            fresh[k] = 0.0
            inverse[k] = 1.0 / (lam[k] + w_beta)
            least = min(least, lam[k] + w_beta)
        allowed = DRIFT * least
        left, passed = 1.0, 0.0
        for i in range(first, last):
            if i + AHEAD < n_cells:
                word = np.int64(get(words, i + AHEAD))
                ahead, out = get(index, word) * width, word * width
                for k in range(0, width, WIDTH):
                    fetch(base, ahead + k)
                    fetch(delta, out + k)
            x = np.float64(get(counts, i))
            word = np.int64(get(words, i))
            row, out = get(index, word) * width, word * width
            share_w = get(per_n_w, word)
            if share_w == 0.0:
                acc = zero
                for k in range(0, width, WIDTH):
                    acc = acc + load(base, row + k)
                    store(delta, out + k, zero)
                share_w = np.float32(1.0) / total(acc)
                per_n_w[word] = share_w
            less_w = splat(-min(np.float32(x) * share_w, np.float32(1.0)))
            if passed + x > allowed:
                less_all = splat(-passed * per_n_all)
                less_own = splat(-x * per_n_all)
                for k in range(0, width, WIDTH):
                    whole = load(l0, k)
                    change = load(dl, k)
                    change = fma(less_all, whole + change, change) + load(fresh, k)
                    store(fresh, k, zero)
                    store(dl, k, change)
                    change = fma(less_own, whole + change, change)
                    store(inverse, k, splat(1.0) / (whole + change + spread))
                passed = 0.0
            passed += x
            left *= 1.0 - x * per_n_d
            if left < 1e-3:  # nearly all of the document is in this cell: write the shrink out
                keep = splat(left)
                for k in range(0, width, WIDTH):
                    store(theta, at + k, keep * load(theta, at + k))
                left = 1.0
            keep = splat(left)
            acc = zero
            for k in range(0, width, WIDTH):
                b = load(base, row + k)
                c = load(delta, out + k)
                c = fma(less_w, b + c, c)
                v = (b + c + smooth) * fma(keep, load(theta, at + k), load(alpha, k)) * load(inverse, k)
                store(u, k, v)
                acc = acc + v
            s = total(acc)
            p[i - first] = s
            per_s = np.float32(1.0) / s
            share = splat(np.float32(x) * per_s)
            share_left = splat(np.float32(x / left) * per_s)
            for k in range(0, width, WIDTH):
                v = load(u, k)
                b = load(base, row + k)
                c = load(delta, out + k)
                store(delta, out + k, fma(share, v, fma(less_w, b + c, c)))
                store(theta, at + k, fma(share_left, v, load(theta, at + k)))
                store(fresh, k, fma(share, v, load(fresh, k)))
        loglik += sum_x_log(p, counts, first, last - first, n_d + alpha_sum, 1.0)
        mass = 0.0
        for k in range(width):
            mass += theta[d, k]
            lam[k] += dl[k] - passed * per_n_all * (l0[k] + dl[k]) + fresh[k]
        for k in range(width):
            theta[d, k] *= n_d / mass
    return loglik


@kernel
def sweep_narrow(indptr, words, counts, base, index, alpha, beta, lam, n_all, w_beta, theta, delta, per_n_w, work, p):
    """``sweep`` for K <= 16: a row is one vector, and everything of a document stays in registers.

    The sum of cell i need not wait for the division of cell i - 1: with g = (phi + beta)/(lam + W beta) and theta as it
    was before cell i - 1 added its h u',  sum_k u_k = sum g (left theta + alpha) + left h sum g u'.
    """
    width = WIDTH
    smooth, spread, zero, alphas = splat(beta), splat(w_beta), splat(0.0), load(alpha, 0)
    l0 = work[:width]
    alpha_sum = 0.0
    for k in range(width):
        alpha_sum += alpha[k]
    for word in range(len(per_n_w)):
        per_n_w[word] = np.float32(1.0) / total(load(base, get(index, word) * width))
        store(delta, word * width, zero)
    n_cells = len(words)
    per_n_all = 1.0 / n_all
    loglik = 0.0
    for d in range(len(indptr) - 1):
        first, last, at = indptr[d], indptr[d + 1], d * width
        if last == first:
            store(theta, at, zero)
            continue
        n_d = 0.0
        for i in range(first, last):
            n_d += counts[i]
        per_n_d = np.float32(1.0 / n_d)
        least = np.inf
        for k in range(width):
            l0[k] = lam[k]
            least = min(least, lam[k] + w_beta)
        allowed = np.float32(DRIFT * least)
        whole, change, fresh = load(l0, 0), zero, zero
        inverse = splat(1.0) / (whole + spread)
        left, passed = np.float32(1.0), np.float32(0.0)
        t, u, h = load(theta, at), zero, np.float32(0.0)
        for i in range(first, last):
            if i + AHEAD_NARROW < n_cells:
                word = np.int64(get(words, i + AHEAD_NARROW))
                fetch(base, get(index, word) * width)
                fetch(delta, word * width)
            x = np.float32(get(counts, i))
            word = np.int64(get(words, i))
            out = word * width
            b = load(base, get(index, word) * width)
            c = load(delta, out)
            c = fma(splat(-min(x * get(per_n_w, word), np.float32(1.0))), b + c, c)
            if passed + x > allowed:
                change = fma(splat(-passed * per_n_all), whole + change, change) + fresh
                ahead = fma(splat(-x * per_n_all), whole + change, change)
                inverse = splat(1.0) / (whole + ahead + spread)
                fresh, passed = zero, np.float32(0.0)
            passed += x
            left *= np.float32(1.0) - x * per_n_d
            g = (b + c + smooth) * inverse
            keep = splat(left)
            s = total(g * fma(keep, t, alphas)) + left * h * total(g * u)
            t = fma(splat(h), u, t)
            if left < np.float32(1e-3):  # nearly all of the document is in this cell: write the shrink out
                t = t * keep
                left = np.float32(1.0)
                keep = splat(left)
            u = g * fma(keep, t, alphas)
            p[i - first] = s
            each = x / s
            h = each * (np.float32(1.0) / left)
            v = splat(each) * u
            fresh = fresh + v
            store(delta, out, c + v)
        t = fma(splat(h), u, t)
        store(theta, at, splat(n_d / total(t)) * t)
        loglik += sum_x_log(p, counts, first, last - first, n_d + alpha_sum, 1.0)
        store(l0, 0, fma(splat(-passed * per_n_all), whole + change, change) + fresh)
        for k in range(width):
            lam[k] += l0[k]
    return loglik


class ATBP(TinyEngine):
    """Asynchronous tiny belief propagation: no messages, the change of a block enters phi at once."""

    name = "atbp"
    cites = "Zeng, Liu & Cao, Memory-Efficient Topic Modeling, Fig. 3"

    @property
    def rule(self) -> Rule:
        """The delta is the change since the block was last seen."""
        return Rule.ADD

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
        phi: Rows = rows["phi"]
        theta = self.theta_before(block, phi, totals["phi"], memory, params, out)
        lam = self.column_sums(totals["phi"], out)
        alpha, beta = self.priors(params, out)
        work = out.scratch.array("work", 5 * phi.base.shape[1], np.float32)
        visit = sweep_narrow if phi.base.shape[1] == WIDTH else sweep
        out.stats["loglik"][0] += visit(
            block.indptr,
            block.words,
            block.counts,
            phi.base,
            phi.index,
            alpha,
            beta,
            lam,
            float(totals["phi"].sum()),
            self.shape.words * beta,
            theta,
            out.delta["phi"],
            out.scratch.array("per_n_w", block.n_words, np.float32),
            work,
            self.cell_probabilities(block, out),
        )
        out.stats["tokens"][0] += block.tokens
        self.count_for_priors(block, phi, theta, params, out)
