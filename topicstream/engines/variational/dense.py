"""The dense local step (paper 002, Alg. 2 left; Blei 2003; Hoffman 2010): responsibilities over all topics.

    symbol                          here
    x_w                             c = counts[i]
    exp E[log phi_wk]               e[u, k], rows sum to 1 (weights.py)
    exp E[log pi_dk]                t[k] = exp(psi(N_dk + alpha_k));  the common psi of the sum cancels
    r_wk = e t / Z_w                never stored: Z_w = z[i] and t are enough
    N_dk = sum_w x_w r_wk           n[k] = t[k] * sum_w (c / Z_w) e[u, k]

so an inner iteration takes no exponential a cell, two sweeps over the document's rows and K exponentials.  The document's
bound needs one logarithm a cell:

    bound_d = sum_w x_w sum_k r_wk (E[log phi_wk] - log r_wk)
              + sum_k [lgamma(N_dk + alpha_k) - lgamma(alpha_k)] - lgamma(n_d + sum alpha) + lgamma(sum alpha)
            = sum_w x_w (log_scale_w + log Z_w) - sum_k N_dk log t_k + ...

A cell whose Z_w float32 cannot hold (every topic of the document is impossible for the word but for its prior) is done in
logarithms, in float64 (``_hard_cell``).
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.weights import log_weights
from topicstream.kernels import simd
from topicstream.kernels.digamma import digamma, exp, exp_digamma, lgamma, log
from topicstream.kernels.jit import fast_kernel, kernel

LEAST_Z = 1e-20  # below this a cell's normaliser is recomputed in logarithms
LEAST_T = 1e-37

# Columns of what a document's visit reports
BOUND, LOGLIK, INNER, CAPPED, TRIED, ACCEPTED, HARD = range(7)
REPORTS = 7


@fast_kernel
def prior_weights(n, alpha, topics, t):
    """t[k] = exp(psi(n[k] + alpha[k])), 0 below 1e-37; n, alpha: float64[P]; t: float32[P], its padding stays."""
    for k in range(topics):
        y = exp_digamma(n[k] + alpha[k])
        t[k] = y if y > LEAST_T else 0.0


@kernel
def _hard_cell(row, scale, beta, term, topics, point, n_used, alpha, work):
    """work[k] = r_k of one cell by way of logarithms; returns log sum_k exp(E[log phi_k]) t_k.

    n_used: the N_dk from which t was made; a negative first entry says that t was 1 throughout.
    """
    log_weights(row, scale, beta, term, topics, point, work)
    most = -np.inf
    for k in range(topics):
        if n_used[0] >= 0.0:
            work[k] += digamma(n_used[k] + alpha[k])
        most = max(most, work[k])
    total = 0.0
    for k in range(topics):
        work[k] = exp(work[k] - most)
        total += work[k]
    for k in range(topics):
        work[k] /= total
    return most + np.log(total)


@kernel
def copy_row(source, i, target, j):
    """target[j] = source[i]: the document's rows side by side are streamed, its scattered ones are waited for."""
    width = source.shape[1]
    for k in range(0, width, 16):
        simd.store(target, j * width + k, simd.load(source, i * width + k))


@kernel
def longest_document(indptr):
    """Cells of the longest document."""
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    return longest


@kernel
def sweep(first, last, counts, own, t, z, acc):
    """z[j] and acc[k] = sum_j (c_j / z_j) own[j, k] over a document's cells; hard cells are left out of acc.

    Four rows at a time: t and acc are read once for the four, and the rows are still near for their second use.
    Returns the number of hard cells.
    """
    width, cells = own.shape[1], last - first
    least, zero = np.float32(LEAST_Z), np.float32(0)
    nothing = simd.splat(zero)
    hard = 0
    for k in range(0, width, 16):
        simd.store(acc, k, nothing)
    for i in range(0, cells, 4):
        # a last group of fewer than four repeats its last cell with weight 0
        i1, i2, i3 = min(i + 1, cells - 1), min(i + 2, cells - 1), min(i + 3, cells - 1)
        o0, o1, o2, o3 = i * width, i1 * width, i2 * width, i3 * width
        v0, v1, v2, v3 = nothing, nothing, nothing, nothing
        for k in range(0, width, 16):
            y = simd.load(t, k)
            v0 = simd.fma(simd.load(own, o0 + k), y, v0)
            v1 = simd.fma(simd.load(own, o1 + k), y, v1)
            v2 = simd.fma(simd.load(own, o2 + k), y, v2)
            v3 = simd.fma(simd.load(own, o3 + k), y, v3)
        z0, z1, z2, z3 = simd.total(v0), simd.total(v1), simd.total(v2), simd.total(v3)
        z[i], z[i1], z[i2], z[i3] = z0, z1, z2, z3
        g0 = np.float32(counts[first + i]) / z0 if z0 > least else zero
        g1 = np.float32(counts[first + i1]) / z1 if z1 > least and i + 1 < cells else zero
        g2 = np.float32(counts[first + i2]) / z2 if z2 > least and i + 2 < cells else zero
        g3 = np.float32(counts[first + i3]) / z3 if z3 > least and i + 3 < cells else zero
        w0, w1, w2, w3 = simd.splat(g0), simd.splat(g1), simd.splat(g2), simd.splat(g3)
        for k in range(0, width, 16):
            y = simd.fma(w0, simd.load(own, o0 + k), simd.load(acc, k))
            y = simd.fma(w1, simd.load(own, o1 + k), y)
            x = simd.fma(w3, simd.load(own, o3 + k), w2 * simd.load(own, o2 + k))
            simd.store(acc, k, x + y)
    for j in range(cells):
        if not z[j] > least:
            hard += 1
    return hard


@kernel
def _inner(
    first, last, words, counts, own, t, z, acc, n_used, n, alpha, topics, row_of, base, scale, beta, term, point, work
):
    """One inner iteration: from t to n (float64[P]).  n_used: N_dk behind t.  Returns (max |change|, hard cells)."""
    hard = sweep(first, last, counts, own, t, z, acc)
    change = 0.0
    for k in range(topics):
        n[k] = np.float64(acc[k]) * t[k]
    if hard > 0:
        for i in range(first, last):
            if not z[i - first] > LEAST_Z:
                _hard_cell(base[row_of[words[i]]], scale, beta, term, topics, point, n_used, alpha, work)
                for k in range(topics):
                    n[k] += counts[i] * work[k]
    for k in range(topics):
        change = max(change, abs(n[k] - max(n_used[k], 0.0)))
    return change, hard


@kernel
def dirichlet_part(n, alpha, topics):
    """sum_k [lgamma(n_k + alpha_k) - lgamma(alpha_k)] - lgamma(sum n + sum alpha) + lgamma(sum alpha); float64."""
    total, prior, terms = 0.0, 0.0, 0.0
    for k in range(topics):
        prior += alpha[k]
        total += n[k]
        if n[k] > 0.0:
            terms += lgamma(n[k] + alpha[k]) - lgamma(alpha[k])
    return terms - lgamma(total + prior) + lgamma(prior)


@kernel
def _bound(
    first,
    last,
    words,
    counts,
    log_scale,
    z,
    n_used,
    n,
    alpha,
    topics,
    hard,
    row_of,
    base,
    scale,
    beta,
    term,
    point,
    work,
):
    """(bound_d, sum_w x_w log sum_k exp(E[log phi] + E[log pi])) of a document after ``_inner``."""
    fit = 0.0
    for i in range(first, last):
        fit += counts[i] * (log_scale[words[i]] + log(max(np.float64(z[i - first]), 1e-300)))
    if hard > 0:
        for i in range(first, last):
            if not z[i - first] > LEAST_Z:
                exact = _hard_cell(base[row_of[words[i]]], scale, beta, term, topics, point, n_used, alpha, work)
                fit += counts[i] * (exact - log_scale[words[i]] - log(max(np.float64(z[i - first]), 1e-300)))
    spread, mass, prior = 0.0, 0.0, 0.0
    for k in range(topics):
        mass += n[k]
        prior += alpha[k]
        if n[k] > 0.0 and n_used[0] >= 0.0:
            spread += n[k] * digamma(n_used[k] + alpha[k])
    pi = digamma(mass + prior) if n_used[0] >= 0.0 else log(np.float64(topics))
    return fit - spread + dirichlet_part(n, alpha, topics), fit - mass * pi


@kernel
def smallest_active(n, topics, tried):
    """The untried topic of smallest mass above 0.01 token, or -1.  tried: uint8[P]."""
    best = -1
    for k in range(topics):
        if n[k] > 0.01 and tried[k] == 0 and (best < 0 or n[k] < n[best]):
            best = k
    return best


@kernel
def dense_step(
    indptr,
    words,
    counts,
    e,
    log_scale,
    row_of,
    base,
    scale,
    beta,
    term,
    alpha,
    topics,
    point,
    tol,
    most_inner,
    restarts,
    restart_inner,
    delta,
    reports,
    theta,
    rows,
    lanes,
    z_of,
):
    """Visit every document of a block.

    indptr, words, counts         the block's cells
    e, log_scale                  word weights (weights.py); row_of, base, scale, beta, term: where they come from
    alpha                         float64[P], padding 0
    tol, most_inner               inner iterations until max |change of N_dk| < tol, at most most_inner
    restarts, restart_inner       restart proposals a document, inner iterations each
    delta                         float32[U, P], zeroed by the caller: += x_w r_wk
    reports                       float64[D, REPORTS]: bound, log-likelihood, inner iterations, 1 if capped, restarts
                                  tried, accepted, hard cells
    theta                         float64[D or 0, P]: N_dk when it has rows
    rows, lanes, z_of             buffers, best aligned to 64 bytes: float32[longest document, P], [3, P], [2, longest]
    """
    width = e.shape[1]
    t, acc, t_best = lanes[0], lanes[1], lanes[2]
    z, z_best = z_of[0], z_of[1]
    t[:], acc[:] = 0.0, 0.0
    work, tried = np.zeros(width), np.zeros(width, np.uint8)
    n, used = np.zeros(width), np.zeros(width)
    n_best, used_best = np.zeros(width), np.zeros(width)
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        if last == first:
            continue
        for i in range(first, last):
            copy_row(e, words[i], rows, i - first)
        own = rows[: last - first]
        t[:topics] = 1.0
        used[:] = 0.0
        used[0] = -1.0
        inner, hard, change = 0, 0, np.inf
        while True:
            change, hard = _inner(
                first,
                last,
                words,
                counts,
                own,
                t,
                z,
                acc,
                used,
                n,
                alpha,
                topics,
                row_of,
                base,
                scale,
                beta,
                term,
                point,
                work,
            )
            inner += 1
            if (change < tol and inner > 1) or inner >= most_inner:
                break
            used[:] = n
            prior_weights(used, alpha, topics, t)
        reports[d, CAPPED] = 1.0 if not change < tol else 0.0
        bound, fit = _bound(
            first,
            last,
            words,
            counts,
            log_scale,
            z,
            used,
            n,
            alpha,
            topics,
            hard,
            row_of,
            base,
            scale,
            beta,
            term,
            point,
            work,
        )
        if restarts > 0:
            tried[:] = 0
            n_best[:], used_best[:], t_best[:] = n, used, t
            z_best[: last - first] = z[: last - first]
            hard_best = hard
            for _ in range(restarts):
                k = smallest_active(n_best, topics, tried)
                active = 0
                for j in range(topics):
                    if n_best[j] > 0.01:
                        active += 1
                if k < 0 or active < 2:
                    break
                tried[k] = 1
                n[:] = n_best
                n[k] = 0.0
                for _j in range(restart_inner):
                    used[:] = n
                    prior_weights(used, alpha, topics, t)
                    change, hard = _inner(
                        first,
                        last,
                        words,
                        counts,
                        own,
                        t,
                        z,
                        acc,
                        used,
                        n,
                        alpha,
                        topics,
                        row_of,
                        base,
                        scale,
                        beta,
                        term,
                        point,
                        work,
                    )
                    inner += 1
                    if change < tol:
                        break
                bound_new, fit_new = _bound(
                    first,
                    last,
                    words,
                    counts,
                    log_scale,
                    z,
                    used,
                    n,
                    alpha,
                    topics,
                    hard,
                    row_of,
                    base,
                    scale,
                    beta,
                    term,
                    point,
                    work,
                )
                reports[d, TRIED] += 1.0
                if bound_new > bound:
                    reports[d, ACCEPTED] += 1.0
                    bound, fit, hard_best = bound_new, fit_new, hard
                    n_best[:], used_best[:], t_best[:] = n, used, t
                    z_best[: last - first] = z[: last - first]
            n[:], used[:], t[:] = n_best, used_best, t_best
            z[: last - first] = z_best[: last - first]
            hard = hard_best
        reports[d, BOUND], reports[d, LOGLIK], reports[d, INNER], reports[d, HARD] = bound, fit, inner, hard
        _write(first, last, words, counts, e, t, z, delta)
        if hard > 0:
            for i in range(first, last):
                if not z[i - first] > LEAST_Z:
                    u = words[i]
                    _hard_cell(base[row_of[u]], scale, beta, term, topics, point, used, alpha, work)
                    for k in range(topics):
                        delta[u, k] += counts[i] * work[k]
        if len(theta) > 0:
            theta[d, :] = n


@kernel
def _write(first, last, words, counts, e, t, z, delta):
    """delta[u, k] += x_w r_wk of a document's cells, hard ones left out."""
    width = e.shape[1]
    for i in range(first, last):
        if z[i - first] > np.float32(LEAST_Z):
            o = words[i] * width
            g = simd.splat(np.float32(counts[i]) / z[i - first])
            for k in range(0, width, 16):
                simd.store(delta, o + k, simd.fma(g * simd.load(e, o + k), simd.load(t, k), simd.load(delta, o + k)))
