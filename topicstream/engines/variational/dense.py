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
from topicstream.numeric.kernels.arrays import Array, Bytes, Cells, Doubles, Floats, Ints, borrow
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

    Attributes
    ----------
    src
        Where the weights come from (weights.py).
    cells
        indptr, words and counts.
    e
        float32[U, P], word weights.
    log_scale
        float64[U].
    alpha
        float64[P], padding 0.
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


class DocumentCells(NamedTuple):
    """The cells of the present document: ``size`` of them, from cell ``first`` of the block on.

    Attributes
    ----------
    x
        float32[size + 32], their counts.
    own
        float32[(size + 8) * P], their rows of e, one after the other.
    """

    first: int
    size: int
    x: Floats
    own: Floats


class Assignment(NamedTuple):
    """How the present document's words are assigned to topics.

    Attributes
    ----------
    used
        float64[P], the N_dk that t and z are made of.
    t
        float32[P], exp(psi(used + alpha)).
    z
        float32[cells + 16], Z_w = sum_k e_wk t_k.
    n
        float64[P], the N_dk that follow: sum_w x_w r_wk.
    """

    used: Doubles
    t: Floats
    z: Floats
    n: Doubles


@kernel
def _inner(
    of: Words, cells: DocumentCells, now: Assignment, acc: Floats, work: Doubles
) -> tuple[float, int]:
    """Run one inner iteration from t to n, and return (max |change of N_dk|, hard cells)."""
    (src, (_, words, _), e, _, alpha) = borrow(of)
    (first, count, x, own) = borrow(cells)
    (used, t, z, n) = borrow(now)
    width = e.shape[1]
    # Z_w = sum_k e_wk t_k, and acc_k = sum_w (x_w / Z_w) e_wk
    for k in range(0, width, simd.WIDTH):
        simd.store(acc, k, simd.splat(np.float32(0)))
    sweep_cells(count, x, own, width, t, LEAST_Z, z, acc)
    # N_dk = t_k acc_k
    hard = 0
    for j in range(count):
        hard += 1 if not z[j] > np.float32(LEAST_Z) else 0
    for k in range(src.topics):
        n[k] = np.float64(acc[k]) * t[k]
    # hard cells in logarithms
    if hard > 0:
        for j in range(count):
            if not z[j] > np.float32(LEAST_Z):
                _hard_cell(src, words[first + j], used, alpha, work)
                for k in range(src.topics):
                    n[k] += x[j] * work[k]
    change = 0.0
    for k in range(src.topics):
        change = max(change, abs(n[k] - used[k]))
    return change, hard


@kernel
def _assign(
    of: Words,
    effort: Effort,
    cells: DocumentCells,
    now: Assignment,
    acc: Floats,
    work: Doubles,
) -> tuple[int, int, bool]:
    """Iterate from even weights until N_dk stands still.

    Returns
    -------
    Inner iterations, hard cells, and whether it stands still.
    """
    of = borrow(of)
    now = borrow(now)
    topics = of.src.topics
    for k in range(len(now.t)):
        now.t[k] = 1.0 if k < topics else 0.0
        now.used[k] = 0.0
    inner = 0
    while True:
        # r_wk and N_dk from t
        change, hard = _inner(of, cells, now, acc, work)
        inner += 1
        if inner > 1 and (change < effort.tol or inner >= effort.most_inner):
            break
        # t = exp(psi(N_dk + alpha_k))
        now.used[:] = now.n
        prior_weights(now.used, of.alpha, topics, now.t)
    return inner, hard, change < effort.tol


@kernel
def _propose(
    of: Words,
    tol: float,
    empty: int,
    cells: DocumentCells,
    now: Assignment,
    trial: Assignment,
    acc: Floats,
    work: Doubles,
) -> tuple[int, int]:
    """Iterate from N_dk without topic ``empty``, and return (inner iterations, hard cells)."""
    of = borrow(of)
    now = borrow(now)
    trial = borrow(trial)
    trial.n[:] = now.n
    trial.n[empty] = 0.0
    inner = 0
    hard = 0
    for _ in range(RESTART_INNER):
        trial.used[:] = trial.n
        prior_weights(trial.used, of.alpha, of.src.topics, trial.t)
        change, hard = _inner(of, cells, trial, acc, work)
        inner += 1
        if change < tol:
            break
    return inner, hard


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
    of: Words, cells: DocumentCells, now: Assignment, prior: float, hard: int, work: Doubles
) -> tuple[float, float]:
    """Compute ``document_bound`` after ``_inner``."""
    (src, (_, words, counts), _, log_scale, alpha) = borrow(of)
    (used, _, z, n) = borrow(now)
    fit = log_fit(cells.first, words, counts, log_scale, z, cells.size)
    if hard > 0:
        for j in range(cells.size):
            if not z[j] > np.float32(LEAST_Z):
                i = cells.first + j
                fit += counts[i] * _hard_cell(src, words[i], used, alpha, work)
    return document_bound(  # type: ignore[no-any-return]
        fit, n, used, alpha, src.topics, prior, work
    )


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
def _add_counts(
    of: Words, cells: DocumentCells, now: Assignment, hard: int, work: Doubles, delta: Floats
) -> None:
    """Add the expected counts x_w r_wk of a document's cells to delta[u, k]."""
    (src, (_, words, counts), _, _, alpha) = borrow(of)
    (first, count, x, own) = borrow(cells)
    (used, t, z, _) = borrow(now)
    width = delta.shape[1]
    # r_wk = e_wk t_k / Z_w
    for j in range(count):
        if z[j] > np.float32(LEAST_Z):
            o = words[first + j] * width
            at = j * width
            g = simd.splat(x[j] / z[j])
            for k in range(0, width, 16):
                v = simd.fma(g * simd.load(own, at + k), simd.load(t, k), simd.load(delta, o + k))
                simd.store(delta, o + k, v)
    # hard cells in logarithms
    if hard > 0:
        for j in range(count):
            if not z[j] > np.float32(LEAST_Z):
                i = first + j
                _hard_cell(src, words[i], used, alpha, work)
                for k in range(src.topics):
                    delta[words[i], k] += counts[i] * work[k]


class Scratch(NamedTuple):
    """Work arrays of the visits.

    acc float32[P]; work float64[P]; tried uint8[P]; ones float32[P]: all 1; lanes: see
    ``dense_step``; sums float64[4, P]
    """

    acc: Floats
    work: Doubles
    tried: Bytes
    ones: Floats
    lanes: Floats
    sums: Doubles


@kernel
def _visit_documents(
    of: Words,
    effort: Effort,
    delta: Floats,
    reports: Doubles,
    own: Floats,
    x: Floats,
    z_of: Floats,
    scratch: Scratch,
) -> None:
    """Visit every document of a block (parameters: ``dense_step``)."""
    of = borrow(of)
    delta = borrow(delta)
    own = borrow(own)
    x = borrow(x)
    z_of = borrow(z_of)
    (acc, work, tried, ones, lanes, sums) = borrow(scratch)
    (indptr, words, counts) = of.cells
    topics = of.src.topics
    # sum_k alpha_k
    prior = 0.0
    for k in range(topics):
        prior += of.alpha[k]
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        if last == first:
            continue
        # rows e of the document's cells, one after the other, and their counts
        fill(words[first:last], of.e, 0.0, ones, own)
        take_counts(counts, first, last - first, x)
        cells = DocumentCells(first, last - first, x, own)
        now = Assignment(sums[0], lanes[0], z_of[0], sums[1])
        trial = Assignment(sums[2], lanes[2], z_of[1], sums[3])
        trial.t[:] = 0.0
        tried[:] = 0
        # inner iterations, and the bound of what they have come to
        inner, hard, still = _assign(of, effort, cells, now, acc, work)
        reports[CAPPED] += 0.0 if still else 1.0
        bound, fit = _bound(of, cells, now, prior, hard, work)
        # restart proposals: empty the smallest untried topic, iterate, accept if the bound rises
        for _ in range(effort.restarts):
            k = smallest_active(now.n, topics, tried)
            if k < 0:
                break
            tried[k] = 1
            steps, hard_trial = _propose(of, effort.tol, k, cells, now, trial, acc, work)
            inner += steps
            bound_trial, fit_trial = _bound(of, cells, trial, prior, hard_trial, work)
            reports[TRIED] += 1.0
            if bound_trial > bound:
                reports[ACCEPTED] += 1.0
                bound = bound_trial
                fit = fit_trial
                hard = hard_trial
                now, trial = trial, now
        reports[BOUND] += bound
        reports[LOGLIK] += fit
        reports[INNER] += inner
        # delta_wk += x_w r_wk of the document's cells
        _add_counts(of, cells, now, hard, work, delta)


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

    Parameters
    ----------
    delta
        float32[U, P], zeroed by the caller; x_w r_wk is added.
    reports
        float64[6], added to: bound, log-likelihood, inner iterations, documents capped, restarts
        tried, accepted.
    own, lanes, x, z_of
        Buffers aligned to 64 bytes: float32[(longest document + 8) * P], [3, P], [longest + 32],
        [2, longest + 16].
    """
    width = of.e.shape[1]
    scratch = Scratch(
        lanes[1],
        np.zeros(width),
        np.zeros(width, np.uint8),
        np.ones(width, np.float32),
        lanes,
        np.zeros((4, width)),
    )
    _visit_documents(of, effort, delta, reports, own, x, z_of, scratch)
