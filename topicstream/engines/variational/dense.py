"""The dense local step: responsibilities over all topics.

Hughes & Sudderth (2016), Alg. 2 left; Blei, Ng & Jordan (2003); Hoffman, Blei & Bach (2010).

    symbol                          here
    x_w                             c = counts[i]
    exp E[log phi_wk]               e[u, k], rows sum to 1 (statistics.py)
    exp E[log pi_dk]                t[k] = exp(psi(N_dk + alpha_k)); the psi of the sum cancels
    r_wk = e t / Z_w                never stored: Z_w = z[i] and t are enough
    N_dk = sum_w x_w r_wk           n[k] = t[k] * sum_w (c / Z_w) e[u, k]

So an inner iteration takes no exponential a cell, two sweeps over the document's rows and K
exponentials. The document's bound needs one logarithm a cell:

    bound_d = sum_w x_w sum_k r_wk (E[log phi_wk] - log r_wk)
              + sum_k [lgamma(N_dk + alpha_k) - lgamma(alpha_k)]
              - lgamma(n_d + sum alpha) + lgamma(sum alpha)
            = sum_w x_w (log_scale_w + log Z_w) - sum_k N_dk log t_k + ...

A *hard* cell is one whose Z_w float32 cannot represent, because the word is impossible under every
topic of the document but for its prior. It is computed in logarithms, in float64 (``_hard_cell``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.engines.variational.statistics import LEAST_Z, WeightSource, log_weights
from topicstream.numeric.kernels import simd
from topicstream.numeric.kernels.arrays import Array, Bytes, Cells, Doubles, Floats, Ints
from topicstream.numeric.kernels.dirichlet import digamma, exp, exp_digamma, lgamma, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import fill, sweep_cells, take_counts
from topicstream.numeric.kernels.sums import sum_doubles

LEAST_T = 1e-37
RESTART_INNER = 5  # inner iterations of a restart proposal

# What the visits of documents report
REPORTS = ("bound", "loglik", "inner", "capped", "tried", "accepted")
BOUND, LOGLIK, INNER, CAPPED, TRIED, ACCEPTED = range(6)


@kernel
def prior_weights(n: Doubles, alpha: Doubles, topics: int, t: Floats) -> None:
    """Store t[k] = exp(psi(n[k] + alpha[k])), or 0 below 1e-37.

    n, alpha: float64[P]; t: float32[P], whose padding does not change.
    """
    for k in range(topics):
        y = exp_digamma(n[k] + alpha[k])
        t[k] = y if y > LEAST_T else 0.0


@kernel
def _hard_cell(src: WeightSource, u: int, n_used: Doubles, alpha: Doubles, work: Doubles) -> float:
    """Compute the responsibilities of one cell by way of logarithms.

    They go to work[k]. n_used: the N_dk behind t. Returns log sum_k exp(E[log phi_k]) t_k.
    """
    log_weights(src, u, work)
    most = -np.inf
    total = 0.0
    for k in range(src.topics):
        work[k] += digamma(n_used[k] + alpha[k])
        most = max(most, work[k])
    for k in range(src.topics):
        work[k] = exp(work[k] - most)
        total += work[k]
    for k in range(src.topics):
        work[k] /= total
    return most + log(total)  # type: ignore[no-any-return]


class Words(NamedTuple):
    """The cells of a block and the weights of their words.

    src       where the weights come from (weights.py)
    cells     indptr, words, counts
    e         float32[U, P] word weights;  log_scale float64[U]
    alpha     float64[P], padding 0
    """

    src: WeightSource
    cells: Cells
    e: Floats
    log_scale: Doubles
    alpha: Doubles


class Effort(NamedTuple):
    """Limits of a document's visit.

    Inner iterations run until max |change of N_dk| < tol, at least two and at most most_inner.
    restarts: proposals a document.
    """

    tol: float
    most_inner: int
    restarts: int


@kernel
def _inner(
    src: WeightSource,
    first: int,
    cells: int,
    words: Ints,
    x: Floats,
    own: Floats,
    width: int,
    t: Floats,
    z: Floats,
    acc: Floats,
    n_used: Doubles,
    n: Doubles,
    alpha: Doubles,
    work: Doubles,
) -> tuple[float, int]:
    """Run one inner iteration from t to n (float64[P]).

    n_used: N_dk behind t.  Returns (max |change|, hard cells).
    """
    for k in range(0, width, simd.WIDTH):
        simd.store(acc, k, simd.splat(np.float32(0)))
    sweep_cells(cells, x, own, width, t, LEAST_Z, z, acc)
    hard = 0
    change = 0.0
    for j in range(cells):
        hard += 1 if not z[j] > np.float32(LEAST_Z) else 0
    for k in range(src.topics):
        n[k] = np.float64(acc[k]) * t[k]
    if hard > 0:
        for j in range(cells):
            if not z[j] > np.float32(LEAST_Z):
                _hard_cell(src, words[first + j], n_used, alpha, work)
                for k in range(src.topics):
                    n[k] += x[j] * work[k]
    for k in range(src.topics):
        change = max(change, abs(n[k] - n_used[k]))
    return change, hard


@kernel
def document_bound(
    fit: float, n: Doubles, used: Doubles, alpha: Doubles, width: int, prior: float, terms: Doubles
) -> tuple[float, float]:
    """Compute the bound and the log-likelihood of a document.

    fit = sum_w x_w (log_scale_w + log Z_w). The bound is

        fit + sum_k [lgamma(n_k + alpha_k) - lgamma(alpha_k) - n_k psi(used_k + alpha_k)]
            - lgamma(mass + prior) + lgamma(prior)

    with mass = sum n and prior the sum of all alpha. The log-likelihood is sum_w x_w log sum_k
    exp(E[log phi] + E[log pi]). terms: float64[width], overwritten.
    """
    for k in range(width):
        terms[k] = lgamma(n[k] + alpha[k]) - lgamma(alpha[k]) - n[k] * digamma(used[k] + alpha[k])
    total = 0.0
    mass = 0.0
    for k in range(width):
        total += terms[k]
        mass += n[k]
    return fit + (total - lgamma(mass + prior) + lgamma(prior)), fit - mass * digamma(mass + prior)


@kernel
def log_fit(
    first: int, words: Ints, counts: Array, log_scale: Doubles, z: Floats, cells: int
) -> float:
    """Sum x (log_scale + log z) over the cells that are not hard, in float64."""
    terms = np.empty(cells)
    for j in range(cells):
        x = np.float64(simd.get(counts, first + j)) if z[j] > np.float32(LEAST_Z) else 0.0
        scale = simd.get(log_scale, np.int64(simd.get(words, first + j)))
        terms[j] = x * (scale + log(max(np.float64(z[j]), 1e-300)))
    return sum_doubles(terms, cells)  # type: ignore[no-any-return]


@kernel
def _bound(
    src: WeightSource,
    first: int,
    last: int,
    words: Ints,
    counts: Array,
    log_scale: Doubles,
    z: Floats,
    n_used: Doubles,
    n: Doubles,
    alpha: Doubles,
    prior: float,
    hard: int,
    work: Doubles,
) -> tuple[float, float]:
    """Compute ``document_bound`` after ``_inner``."""
    fit = log_fit(first, words, counts, log_scale, z, last - first)
    if hard > 0:
        for i in range(first, last):
            if not z[i - first] > np.float32(LEAST_Z):
                fit += counts[i] * _hard_cell(src, words[i], n_used, alpha, work)
    return document_bound(fit, n, n_used, alpha, src.topics, prior, work)  # type: ignore[no-any-return]


@kernel
def smallest_active(n: Doubles, topics: int, tried: Bytes) -> int:
    """Find the untried topic of least mass above 0.01 tokens, or -1.

    A document's only topic is never chosen.

    tried: uint8[P].
    """
    best = -1
    active = 0
    for k in range(topics):
        if n[k] > 0.01:
            active += 1
            if tried[k] == 0 and (best < 0 or n[k] < n[best]):
                best = k
    return best if active > 1 else -1


@kernel
def dense_step(
    of: Words,
    effort: Effort,
    delta: Floats,
    reports: Doubles,
    own: Floats,
    lanes: Floats,
    x: Floats,
    z_of: Floats,
) -> None:
    """Visit every document of a block.

    delta                   float32[U, P], zeroed by the caller: += x_w r_wk
    reports                 float64[6], added to: bound, log-likelihood, inner iterations, documents
                            capped, restarts tried, accepted
    own, lanes, x, z_of     buffers, aligned to 64 bytes: float32[(longest document + 8) * P], [3,
                            P], [longest + 32], [2, longest + 16]
    """
    # apart: a function that takes a tuple counts all its references
    src, (indptr, words, counts), e, log_scale, alpha = of
    tol, most_inner, restarts = effort
    width = e.shape[1]
    topics = src.topics
    t = lanes[0]
    acc = lanes[1]
    t_trial = lanes[2]
    work = np.zeros(width)
    tried = np.zeros(width, np.uint8)
    ones = np.ones(width, np.float32)
    n = np.zeros(width)
    used = np.zeros(width)
    n_trial = np.zeros(width)
    used_trial = np.zeros(width)
    prior = 0.0
    for k in range(topics):
        prior += alpha[k]
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        if last == first:
            continue
        cells = last - first
        # rows e of the document's cells, one after the other
        fill(words[first:last], e, 0.0, ones, own)
        take_counts(counts, first, cells, x)
        z = z_of[0]
        z_trial = z_of[1]
        # begin with even weights
        for k in range(width):
            t[k] = 1.0 if k < topics else 0.0
            t_trial[k] = 0.0
            used[k] = 0.0
            tried[k] = 0
        inner = 0
        hard = 0
        change = np.inf
        # inner iterations: r_wk and N_dk from t, then t = exp(psi(N_dk + alpha_k))
        while True:
            change, hard = _inner(
                src, first, cells, words, x, own, width, t, z, acc, used, n, alpha, work
            )
            inner += 1
            if inner > 1 and (change < tol or inner >= most_inner):
                break
            used[:] = n
            prior_weights(used, alpha, topics, t)
        reports[CAPPED] += 0.0 if change < tol else 1.0
        bound, fit = _bound(
            src, first, last, words, counts, log_scale, z, used, n, alpha, prior, hard, work
        )
        # restart proposals: empty the smallest untried topic, iterate, accept if the bound rises
        for _ in range(restarts):
            k = smallest_active(n, topics, tried)
            if k < 0:
                break
            tried[k] = 1
            n_trial[:] = n
            n_trial[k] = 0.0
            hard_trial = 0
            for _j in range(RESTART_INNER):
                used_trial[:] = n_trial
                prior_weights(used_trial, alpha, topics, t_trial)
                change, hard_trial = _inner(
                    src,
                    first,
                    cells,
                    words,
                    x,
                    own,
                    width,
                    t_trial,
                    z_trial,
                    acc,
                    used_trial,
                    n_trial,
                    alpha,
                    work,
                )
                inner += 1
                if change < tol:
                    break
            bound_trial, fit_trial = _bound(
                src,
                first,
                last,
                words,
                counts,
                log_scale,
                z_trial,
                used_trial,
                n_trial,
                alpha,
                prior,
                hard_trial,
                work,
            )
            reports[TRIED] += 1.0
            if bound_trial > bound:
                reports[ACCEPTED] += 1.0
                bound = bound_trial
                fit = fit_trial
                hard = hard_trial
                n, n_trial, used, used_trial = n_trial, n, used_trial, used
                t, t_trial, z, z_trial = t_trial, t, z_trial, z
        # the reports and the expected counts x_w r_wk
        reports[BOUND] += bound
        reports[LOGLIK] += fit
        reports[INNER] += inner
        _write(first, cells, words, x, own, t, z, delta)
        # hard cells in logarithms
        if hard > 0:
            for i in range(first, last):
                if not z[i - first] > np.float32(LEAST_Z):
                    _hard_cell(src, words[i], used, alpha, work)
                    for k in range(topics):
                        delta[words[i], k] += counts[i] * work[k]


@kernel
def _write(
    first: int, cells: int, words: Ints, x: Floats, own: Floats, t: Floats, z: Floats, delta: Floats
) -> None:
    """Add x_w r_wk of a document's cells to delta[u, k], without hard cells."""
    width = delta.shape[1]
    for j in range(cells):
        if z[j] > np.float32(LEAST_Z):
            o = words[first + j] * width
            at = j * width
            g = simd.splat(x[j] / z[j])
            for k in range(0, width, 16):
                v = simd.fma(g * simd.load(own, at + k), simd.load(t, k), simd.load(delta, o + k))
                simd.store(delta, o + k, v)
