"""Variational inference with the topics held still, each document on its own (Blei et al. 2003; paper 002, Alg. 2).

    r_wk  ~  exp E[log phi_wk] exp psi(N_dk + alpha_k),      N_dk = sum_w x_w r_wk,
    E[log phi_wk] = psi(phi_wk + beta) - psi(lam_k + W beta)

from r_wk ~ exp E[log phi_wk] until no N_dk changes by more than ``tol`` tokens, or for ``inner`` inner iterations.  What is
given is the posterior's mean (N_dk + alpha_k) / (n_d + sum alpha).

``sparse`` = L (paper 002, Alg. 1 and 2 right): a cell's responsibilities keep their L largest topics.  Selections are made
in inner iterations 1 to 5 and every 10th; between them only the kept ones are weighed anew.

    exp E[log phi] -> own: float32[cells, KP], each row divided by its largest entry (the softmax does not see it)
    exp psi(N + alpha) -> t: float32[KP]    N -> n: float64[KP]    x -> x
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from topicstream.errors import InputError
from topicstream.inference.documents import Documents
from topicstream.inference.method import Method, Rows
from topicstream.kernels.digamma import digamma, exp
from topicstream.kernels.jit import kernel
from topicstream.kernels.panel import LEAST, sweep
from topicstream.kernels.select import SMALLEST, keep_top, where
from topicstream.kernels.simd import WIDTH, fma, load, splat, store

TOLERANCE = 0.01
INNER = 100
ALWAYS, EVERY = 5, 10
FAINT = -80.0  # log weights further below a row's (or a document's) largest are nothing: float32 ends at -87


@kernel
def word_weights(rows, base, beta, norms, own):
    """own[j, k] = exp(E[log phi_wk] - the largest of the word); norms: float64[K], psi(lam + W beta)."""
    topics = base.shape[1]
    logs = np.empty(topics)
    for j in range(len(rows)):
        best = -np.inf
        for k in range(topics):
            x = np.float64(base[rows[j], k]) + beta
            logs[k] = digamma(x) - norms[k] if x > 0.0 else -np.inf
            best = max(best, logs[k])
        for k in range(own.shape[1]):
            gap = logs[k] - best if k < topics and best > -np.inf else -np.inf
            own[j, k] = exp(gap) if gap > FAINT else 0.0


@kernel
def _select(cells, x, own, t, most, p, work, kept, acc):
    """A selection: kept = own where own * t is among the ``most`` largest of its row, else 0; acc as in ``sweep``."""
    width, least = own.shape[1], splat(SMALLEST)
    for j in range(cells):
        o = j * width
        for k in range(0, width, WIDTH):
            store(p, k, load(own, o + k) * load(t, k))
        z = keep_top(p, 0, width, most, work)
        share = splat(x[j] / z if z > LEAST else np.float32(0))
        for k in range(0, width, WIDTH):
            v = where(load(p, k), least, load(own, o + k))
            store(kept, o + k, v)
            store(acc, k, fma(share, v, load(acc, k)))


@kernel
def local_step(indptr, rows, x, weights, alpha, tol, inner, most, shares):
    """Shares of every document of a block -> float32[D, K]; returns the inner iterations made.

    rows: int64[nnz] of weights: float32[U, KP]; x: float32[nnz]; alpha: float64[K]; most: L, 0 for all topics.
    """
    width, topics = weights.shape[1], len(alpha)
    longest = 1
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    own, z = np.empty((longest, width), np.float32), np.empty(longest, np.float32)
    kept = np.empty((longest if most > 0 else 0, width), np.float32)
    t, acc = np.zeros(width, np.float32), np.zeros(width, np.float32)
    p, work = np.zeros(width, np.float32), np.zeros(width + 16, np.float32)
    n, before, logs = np.zeros(topics), np.zeros(topics), np.zeros(topics)
    alpha_sum = alpha.sum()
    sweeps = 0
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        cells = last - first
        if cells == 0:
            for k in range(topics):
                shares[d, k] = alpha[k] / alpha_sum if alpha_sum > 0.0 else 1.0 / topics
            continue
        for i in range(first, last):
            for k in range(0, width, WIDTH):
                store(own, (i - first) * width + k, load(weights, rows[i] * width + k))
        for k in range(width):
            t[k] = 1.0 if k < topics else 0.0
        for step in range(1, inner + 1):
            for k in range(0, width, WIDTH):
                store(acc, k, splat(np.float32(0)))
            if most > 0 and (step <= ALWAYS or step % EVERY == 0):
                _select(cells, x[first:last], own, t, most, p, work, kept, acc)
            else:
                sweep(cells, x[first:last], kept if most > 0 else own, t, z, acc)
            sweeps += 1
            change, top = 0.0, -np.inf
            for k in range(topics):
                n[k] = np.float64(acc[k]) * np.float64(t[k])
                change = max(change, abs(n[k] - before[k]))
                before[k] = n[k]
            if change < tol and step > 1:
                break
            for k in range(topics):
                logs[k] = digamma(n[k] + alpha[k]) if n[k] + alpha[k] > 0.0 else -np.inf
                top = max(top, logs[k])
            for k in range(topics):
                t[k] = exp(logs[k] - top) if logs[k] - top > FAINT else 0.0
        mass = alpha_sum
        for k in range(topics):
            mass += n[k]
        for k in range(topics):
            shares[d, k] = (n[k] + alpha[k]) / mass if mass > 0.0 else 1.0 / topics
    return sweeps


class VB(Method):
    """Variational Bayes, dense or with at most ``sparse`` topics a cell."""

    name: ClassVar[str] = "vb"
    cites: ClassVar[str] = "Blei et al. 2003; Hughes and Sudderth (paper 002), Alg. 2"

    def __init__(self, rows: Rows, *, tol: float = TOLERANCE, inner: int = INNER, sparse: int | None = None) -> None:
        if not (tol >= 0.0 and inner >= 1 and (sparse is None or sparse >= 1)):
            raise InputError(f"--tol {tol} --inner {inner} --sparse {sparse}: give at least 0, 1 and 1")
        self.rows, self.tol, self.inner = rows, float(tol), int(inner)
        self.most = 0 if sparse is None or sparse >= rows.topics else int(sparse)
        norms = np.asarray(rows.model.norms, np.float64)
        self._norms = np.array([float(digamma(v)) for v in norms])

    def shares(self, docs: Documents) -> np.ndarray:
        out = np.empty((len(docs), self.rows.topics), np.float32)
        at, base = self.rows.of(docs)
        used, index = np.unique(at, return_inverse=True)
        weights = np.empty((max(len(used), 1), len(self.rows.alpha)), np.float32)
        word_weights(used, base, self.rows.beta, self._norms, weights)
        rows = index.astype(np.int64)
        local_step(docs.indptr, rows, docs.counts, weights, self.rows.alpha64, self.tol, self.inner, self.most, out)
        return out
