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
from topicstream.kernels.simd import WIDTH, fetch, fma, load, splat, store, total

AHEAD = 3  # cells between a prefetch and its use


@kernel
def sweep(indptr, words, counts, base, index, alpha, beta, lam, n_all, w_beta, theta, delta, seen, n_w, work, p):
    """All cells of a block in document order, Fig. 3.  theta, lam: changed in place; delta: written whole.

    work: float32[>= 3 KP]; p: float64[most cells of a document]
    -> sum of x log(sum_k u_k / (n_d - x + sum alpha)): the words' probability before their update, own share taken out
    """
    width = base.shape[1]
    u, l0, dl = work[:width], work[width : 2 * width], work[2 * width : 3 * width]
    seen[:] = 0
    alpha_sum = 0.0
    for k in range(width):
        alpha_sum += alpha[k]
    smooth, spread = splat(beta), splat(w_beta)
    loglik = 0.0
    for d in range(len(indptr) - 1):
        first, last, at = indptr[d], indptr[d + 1], d * width
        n_d = 0.0
        for i in range(first, last):
            n_d += counts[i]
        for k in range(width):
            l0[k] = lam[k]
            dl[k] = 0.0
        for i in range(first, last):
            if i + AHEAD < last:
                word = words[i + AHEAD]
                ahead, out = index[word] * width, np.int64(word) * width
                for k in range(0, width, WIDTH):
                    fetch(base, ahead + k)
                    fetch(delta, out + k)
            x = np.float64(counts[i])
            word = words[i]
            row, out = index[word] * width, np.int64(word) * width
            if seen[word] == 0:
                seen[word] = 1
                acc = splat(0.0)
                for k in range(0, width, WIDTH):
                    acc = acc + load(base, row + k)
                    store(delta, out + k, splat(0.0))
                n_w[word] = total(acc)
            keep_d = splat(1.0 - x / n_d)
            less_w = splat(-min(x / n_w[word], 1.0))
            less_all = splat(-x / n_all)
            acc = splat(0.0)
            for k in range(0, width, WIDTH):
                b = load(base, row + k)
                c = load(delta, out + k)
                c = fma(less_w, b + c, c)
                store(delta, out + k, c)
                t = keep_d * load(theta, at + k)
                store(theta, at + k, t)
                whole = load(l0, k)
                change = load(dl, k)
                change = fma(less_all, whole + change, change)
                store(dl, k, change)
                v = (b + c + smooth) * (t + load(alpha, k)) / (whole + change + spread)
                store(u, k, v)
                acc = acc + v
            s = total(acc)
            p[i - first] = s / (n_d - x + alpha_sum)
            share = splat(x / s)
            for k in range(0, width, WIDTH):
                v = load(u, k)
                store(delta, out + k, fma(share, v, load(delta, out + k)))
                store(theta, at + k, fma(share, v, load(theta, at + k)))
                store(dl, k, fma(share, v, load(dl, k)))
        if last > first:
            loglik += sum_x_log(p, counts, first, last - first)
            mass = 0.0
            for k in range(width):
                mass += theta[d, k]
                lam[k] += dl[k]
            for k in range(width):
                theta[d, k] *= n_d / mass
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
        work = out.scratch.array("work", 3 * phi.base.shape[1], np.float32)
        out.stats["loglik"][0] += sweep(
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
            out.scratch.array("seen", block.n_words, np.uint8),
            out.scratch.array("n_w", block.n_words, np.float64),
            work,
            self.cell_probabilities(block, out),
        )
        out.stats["tokens"][0] += block.tokens
        self.count_for_priors(block, phi, theta, params, out)
