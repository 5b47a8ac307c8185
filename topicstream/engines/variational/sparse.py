"""The L-sparse local step (paper 002, Alg. 2 right): at most L topics a cell, chosen among the document's active topics.

Symbols as in dense.py.  A document goes through two stages:

    wide     the first assignment is the word's own L best topics, found once a block; while most topics are active, cells
             are selected on whole rows e[u, :] times t, t being zero for topics that have left
    narrow   the columns of the active topics are copied side by side: own[j, a] = e[u_j, active[a]].  A selection keeps
             the L largest of own * t in ``kept`` (the others are zero there); until the next selection an inner
             iteration is the dense sweep over ``kept``: reweighting, no selection

Selections are made in inner iterations 1 to 5 and then every 10th.  A topic leaves the document, and never comes back, when
its weight exp(psi(N_dk + alpha_k)) is below FAINT of the largest topic's (for small alpha: when it has a tenth of a token;
paper 002 and Mimno, Hoffman & Blei 2012 tell why: psi falls like -1/x).  Digamma is taken over active topics only.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.choice import collect, select_cells
from topicstream.engines.variational.dense import (
    ACCEPTED,
    BOUND,
    CAPPED,
    HARD,
    INNER,
    LEAST_T,
    LOGLIK,
    TRIED,
    count_terms,
    log_fit,
    smallest_active,
)
from topicstream.engines.variational.rows import LEAST_Z, clear_rows, sweep, take_counts
from topicstream.engines.variational.weights import log_weights
from topicstream.kernels import simd
from topicstream.kernels.digamma import digamma, exp, exp_digamma
from topicstream.kernels.jit import kernel
from topicstream.kernels.select import append

EPSILON = 1e-10  # tokens: less is none
FAINT = -11.5  # log weight against the largest topic: e**-11.5 = 1e-5
ALWAYS, EVERY = 5, 10  # selections: inner iterations 1 .. ALWAYS, then every EVERY-th
NARROW = 0.8  # share of active topics below which columns are copied


@kernel
def _hard_top(src, u, active, width, used, alpha, most, work, scores):
    """scores[a] = r of one cell over the columns, its ``most`` best, by way of logarithms; returns log Z."""
    log_weights(src, u, work)
    best = -np.inf
    for a in range(width):
        scores[a] = work[active[a]] + digamma(used[a] + alpha[a]) if used[a] > 0.0 else -1e300
        best = max(best, scores[a])
    left, total = most, 0.0
    for a in range(width):
        work[a] = 0.0
    while left > 0:
        b = -1
        for a in range(width):
            if work[a] == 0.0 and (b < 0 or scores[a] > scores[b]):
                b = a
        if b < 0:
            break
        work[b] = 1.0
        total += exp(scores[b] - best)
        left -= 1
    for a in range(width):
        scores[a] = exp(scores[a] - best) / total if work[a] > 0.0 else 0.0
    return best + np.log(total)


@kernel
def _first(first, cells, words, x, most, topic, value, n):
    """Inner iteration 1: N_dk from the words' own best topics; n: float64[P]."""
    for k in range(len(n)):
        n[k] = 0.0
    for i in range(cells):
        o, total = words[first + i] * most, np.float32(0)
        for j in range(o, o + most):
            if value[j] == 0:
                break
            total += value[j]
        g = x[i] / total
        for j in range(o, o + most):
            if value[j] == 0:
                break
            n[topic[j]] += g * value[j]


@kernel
def _weigh(used, alpha, width, t):
    """t[a] = exp(psi(used[a] + alpha[a])) of the columns, zero for topics that have left and on the padding."""
    for a in range(width):
        y = exp_digamma(used[a] + alpha[a])
        t[a] = y if y > LEAST_T and used[a] > 0.0 else 0.0


@kernel
def _shrink(used, alpha, active, count, room):
    """Leave out the columns with used = 0, in place; padding up to ``room`` entries is cleared; returns how many are left."""
    left = 0
    for a in range(count):
        if used[a] > 0.0:
            used[left], alpha[left], active[left] = used[a], alpha[a], active[a]
            left += 1
    for a in range(left, room):
        used[a], alpha[a], active[a] = 0.0, 1.0, 0
    return left


@kernel
def _narrow(first, cells, words, source, wide, width, stays, own, new_width):
    """own[j] = the columns of the document's rows where ``stays`` is 1, side by side.

    source: the block's rows where ``wide``, else own itself, rows of ``width``: new_width is at least 16 less, so that
    nothing is overwritten before it is read.
    """
    one = simd.splat(np.float32(1))
    for j in range(cells):
        at = words[first + j] * width if wide else j * width
        to = j * new_width
        for k in range(0, width, 16):
            to += append(own, to, simd.load(source, at + k), simd.load(stays, k), one)
        simd.store(own, to, simd.splat(np.float32(0)))
    clear_rows(own, cells, new_width)


@kernel
def _alive(n, alpha, width, used):
    """used = n for the topics that stay, else 0; returns how many stay."""
    most = 0.0
    for a in range(width):
        if n[a] > 0.0:
            most = max(most, n[a] + alpha[a])
    # psi(x) = y < -3 is solved by x = -1 / (y - psi(1)) closely enough for a threshold
    least = -1.0 / (min(np.log(most) + FAINT, -3.0) + 0.5772)
    count = 0
    for a in range(width):
        stays = n[a] > EPSILON and n[a] + alpha[a] > least
        used[a] = n[a] if stays else 0.0
        count += 1 if stays else 0
    return count


@kernel
def _inner(
    src, first, cells, words, x, source, wide, kept, last, width, t, most, selecting, again, p, work, low, totals, acc, z,
    active, used, n, alpha, logs, scores
):  # fmt: skip
    """One inner iteration on the columns: t, kept, z and n from used.  Returns (max |change|, hard cells)."""
    _weigh(used, alpha, width, t)
    if selecting:
        hard = select_cells(
            first, cells, words, x, source, wide, kept, last, width, t, most, again, p, work, low, totals, acc, z
        )  # fmt: skip
        for a in range(width):
            n[a] = acc[a]
    else:
        hard = sweep(cells, x, kept, width, t, z, acc)
        for a in range(width):
            n[a] = np.float64(acc[a]) * t[a]
    if hard > 0:
        for j in range(cells):
            if not z[j] > np.float32(LEAST_Z):
                _hard_top(src, words[first + j], active, width, used, alpha, most, logs, scores)
                for a in range(width):
                    n[a] += x[j] * scores[a]
    change = 0.0
    for a in range(width):
        change = max(change, abs(n[a] - used[a]))
    return change, hard


@kernel
def _bound(
    src, first, cells, words, counts, log_scale, z, used, n, alpha, prior, active, width, hard, most, logs, scores
):
    """(bound_d, log-likelihood) as dense._bound, over the columns; prior: sum of all alpha."""
    fit = log_fit(first, words, counts, log_scale, z, cells)
    if hard > 0:
        for j in range(cells):
            if not z[j] > np.float32(LEAST_Z):
                u = words[first + j]
                fit += counts[first + j] * _hard_top(src, u, active, width, used, alpha, most, logs, scores)
    mass = 0.0
    for a in range(width):
        mass += n[a]
    return fit + count_terms(n, used, alpha, width, mass, prior, scores), fit - mass * digamma(mass + prior)


@kernel
def sparse_step(
    src, indptr, words, counts, e, log_scale, alpha, tol, most_inner, restarts, restart_inner, most, best_topic,
    best_value, reports, cell_topic, cell_value, own, kept_of, lanes, x, z_of
):  # fmt: skip
    """Visit every document of a block; arguments as ``dense.dense_step`` and

    most                     L
    best_topic, best_value   ``best_of_words``
    cell_topic, cell_value   uint16 and float32 [nnz * L + 16]: topics of each cell and x_w r_wk (0 ends the list)
    own, kept_of             float32[(longest + 8) * P + 16] and [2, (longest + 8) * P + 16]
    lanes, x, z_of           float32[12, P + 16], [longest + 16] and [2, longest + 16]
    """
    full, topics = e.shape[1], src.topics
    t, acc, t_trial, stays = lanes[0], lanes[1], lanes[2], lanes[3]
    p, work = lanes[4:8].reshape(4 * (full + 16)), lanes[8:12].reshape(4 * (full + 16))
    n, used, n_trial, used_trial = np.zeros(full), np.zeros(full), np.zeros(full), np.zeros(full)
    logs, scores, columns, tried = np.zeros(full), np.zeros(full), np.zeros(full), np.zeros(full, np.uint8)
    active, low, totals = np.zeros(full, np.uint16), np.zeros(4, np.float32), np.zeros(4, np.float32)
    flat = e.reshape(e.size)
    prior = 0.0
    for k in range(topics):
        prior += alpha[k]
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        cells = last - first
        if cells == 0:
            continue
        z, z_trial, kept, kept_trial = z_of[0], z_of[1], kept_of[0], kept_of[1]
        take_counts(counts, first, cells, x)
        _first(first, cells, words, x, most, best_topic, best_value, n)
        for k in range(full):
            active[k], columns[k], tried[k] = k, alpha[k] if k < topics else 1.0, 0
        inner, hard, change, width, narrow = 1, 0, np.inf, full, False
        while True:
            alive = _alive(n, columns, width, used)
            inner += 1
            selecting = inner <= ALWAYS or inner % EVERY == 0 or not narrow
            again = selecting and narrow
            if selecting:
                hurry = inner >= ALWAYS or inner >= most_inner or change < tol or alive < NARROW * topics
                if (hurry and not narrow) or (narrow and -(-alive // 16) * 16 < width):
                    for a in range(width):
                        stays[a] = 1.0 if used[a] > 0.0 else 0.0
                    source, wide = own if narrow else flat, not narrow
                    new_width = -(-alive // 16) * 16
                    _narrow(first, cells, words, source, wide, width, stays, own, new_width)
                    _shrink(used, columns, active, width, full)
                    narrow, again, width = True, False, new_width
            wide = not narrow  # variables, not literals: numba would compile _inner anew for each
            source = flat if wide else own
            change, hard = _inner(
                src, first, cells, words, x, source, wide, kept[:0] if wide else kept, kept, width, t, most, selecting,
                again, p, work, low, totals, acc, z, active, used, n, columns, logs, scores
            )  # fmt: skip
            if narrow and (change < tol or inner >= most_inner):
                break
        reports[d, CAPPED] = 1.0 if not change < tol else 0.0
        bound, fit = _bound(
            src,
            first,
            cells,
            words,
            counts,
            log_scale,
            z,
            used,
            n,
            columns,
            prior,
            active,
            width,
            hard,
            most,
            logs,
            scores,
        )
        for _ in range(restarts):
            candidate = smallest_active(n, width, tried)
            if candidate < 0:
                break
            tried[candidate] = 1
            for a in range(width):
                n_trial[a] = n[a] if a != candidate else 0.0
            hard_trial = 0
            for step in range(restart_inner):
                _alive(n_trial, columns, width, used_trial)
                selecting, again, wide = step == 0, step == 0, step < 0
                change, hard_trial = _inner(
                    src, first, cells, words, x, own, wide, kept_trial, kept, width, t_trial, most, selecting, again, p,
                    work, low, totals, acc, z_trial, active, used_trial, n_trial, columns, logs, scores
                )  # fmt: skip
                inner += 1
                if change < tol:
                    break
            bound_trial, fit_trial = _bound(
                src,
                first,
                cells,
                words,
                counts,
                log_scale,
                z_trial,
                used_trial,
                n_trial,
                columns,
                prior,
                active,
                width,
                hard_trial,
                most,
                logs,
                scores,
            )
            reports[d, TRIED] += 1.0
            if bound_trial > bound:
                reports[d, ACCEPTED] += 1.0
                bound, fit, hard = bound_trial, fit_trial, hard_trial
                z, z_trial, kept, kept_trial, t, t_trial = z_trial, z, kept_trial, kept, t_trial, t
                n, n_trial, used, used_trial = n_trial, n, used_trial, used
        reports[d, BOUND], reports[d, LOGLIK], reports[d, INNER], reports[d, HARD] = bound, fit, inner, hard
        for j in range(cells):
            i = first + j
            if z[j] > np.float32(LEAST_Z):
                g = simd.splat(x[j] / z[j])
                for k in range(0, width, 16):
                    simd.store(p, k, g * simd.load(kept, j * width + k) * simd.load(t, k))
            else:
                _hard_top(src, words[i], active, width, used, columns, most, logs, scores)
                for a in range(width):
                    p[a] = x[j] * scores[a]
            at = i * most
            collect(p, width, most, cell_topic, cell_value, at)
            for a in range(at, at + most):
                if cell_value[a] == 0:
                    break
                cell_topic[a] = active[cell_topic[a]]
