"""The L-sparse local step (paper 002, Alg. 2 right): at most L topics a cell, chosen among the document's active topics.

Symbols as in dense.py.  A document goes through two stages:

    wide     the first assignment is the word's own L best topics, found once a block; while most topics are active, cells
             are selected on whole rows e[u, :] times t, t being zero for topics that have left
    narrow   the columns of the active topics are copied side by side: own[j, a] = e[u_j, active[a]].  A selection keeps
             the L largest of own * t in ``kept`` (the others are zero there); until the next selection an inner
             iteration is the dense sweep over ``kept``: reweighting, no selection

Selections are made in inner iterations 1 to 5 and then every 10th.  A topic whose N_dk falls below EPSILON leaves the
document and never comes back, so digamma is taken over active topics only.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.dense import (
    ACCEPTED,
    BOUND,
    CAPPED,
    HARD,
    INNER,
    LEAST_T,
    LEAST_Z,
    LOGLIK,
    TRIED,
    copy_array,
    smallest_active,
    sweep,
)
from topicstream.engines.variational.weights import log_weights
from topicstream.kernels import simd
from topicstream.kernels.digamma import digamma, exp, exp_digamma, lgamma, log
from topicstream.kernels.jit import kernel
from topicstream.kernels.select import SMALLEST, keep_top, where

EPSILON = 1e-10  # tokens
ALWAYS, EVERY = 5, 10  # selections: inner iterations 1 .. ALWAYS, then every EVERY-th
NARROW = 0.4  # share of active topics below which columns are copied


@kernel
def best_of_words(e, most, p, work, topic, value):
    """The L best topics of each word: topic int32[U, L] (-1: none), value float32[U, L].  p, work: float32[P]."""
    width = e.shape[1]
    for u in range(e.shape[0]):
        for k in range(0, width, 16):
            simd.store(p, k, simd.load(e, u * width + k))
        keep_top(p, 0, width, most, work)
        collect(p, 0, width, most, topic[u], value[u])


@kernel
def collect(p, o, width, most, topic, value):
    """Positions and values of the positive entries of p[o .. o + width), at most ``most``; topic -1 ends the list."""
    n = 0
    for k in range(0, width, 16):
        if simd.total(simd.load(p, o + k)) > 0:
            for j in range(k, k + 16):
                if p[o + j] > 0 and n < most:
                    topic[n], value[n] = j, p[o + j]
                    n += 1
    if n < most:
        topic[n] = -1


@kernel
def _hard_top(src, u, active, n_active, n_used, alpha, most, work, scores):
    """scores[a] = r of one cell over the active topics, its ``most`` best, by way of logarithms; returns log Z."""
    log_weights(src, u, work)
    best = -np.inf
    for a in range(n_active):
        k = active[a]
        scores[a] = work[k] + digamma(n_used[k] + alpha[k]) if n_used[k] > EPSILON else -1e300
        best = max(best, scores[a])
    left, total = most, 0.0
    for a in range(n_active):
        work[a] = 0.0
    while left > 0:
        b = -1
        for a in range(n_active):
            if work[a] == 0.0 and (b < 0 or scores[a] > scores[b]):
                b = a
        if b < 0:
            break
        work[b] = 1.0
        total += exp(scores[b] - best)
        left -= 1
    for a in range(n_active):
        scores[a] = exp(scores[a] - best) / total if work[a] > 0.0 else 0.0
    return best + np.log(total)


@kernel
def _first(first, last, words, counts, topic, value, n):
    """Inner iteration 1: N_dk from the words' own best topics; n: float64[P]."""
    n[:] = 0.0
    for i in range(first, last):
        u = words[i]
        total = 0.0
        for j in range(topic.shape[1]):
            if topic[u, j] < 0:
                break
            total += value[u, j]
        g = counts[i] / total
        for j in range(topic.shape[1]):
            if topic[u, j] < 0:
                break
            n[topic[u, j]] += g * value[u, j]


@kernel
def _wide(first, last, words, counts, e, t, most, p, work, acc, z):
    """A selection on whole rows: acc[k] = N_dk (hard cells left out); returns the number of hard cells."""
    width, hard = e.shape[1], 0
    zero = simd.splat(np.float32(0))
    for k in range(0, width, 16):
        simd.store(acc, k, zero)
    for i in range(first, last):
        o = words[i] * width
        for k in range(0, width, 16):
            simd.store(p, k, simd.load(e, o + k) * simd.load(t, k))
        s = keep_top(p, 0, width, most, work)
        z[i - first] = s
        if s > np.float32(LEAST_Z):
            g = simd.splat(np.float32(counts[i]) / s)
            for k in range(0, width, 16):
                simd.store(acc, k, simd.fma(g, simd.load(p, k), simd.load(acc, k)))
        else:
            hard += 1
    return hard


@kernel
def _select(first, cells, counts, own, kept, width, t, most, p, work, acc, z):
    """A selection on the active columns: kept and z; acc[a] = N_da (hard cells left out); returns the hard cells."""
    hard = 0
    zero, least = simd.splat(np.float32(0)), simd.splat(SMALLEST)
    for k in range(0, width, 16):
        simd.store(acc, k, zero)
    for j in range(cells):
        o = j * width
        for k in range(0, width, 16):
            simd.store(p, k, simd.load(own, o + k) * simd.load(t, k))
        s = keep_top(p, 0, width, most, work)
        z[j] = s
        if s > np.float32(LEAST_Z):
            g = simd.splat(np.float32(counts[first + j]) / s)
            for k in range(0, width, 16):
                v = simd.load(p, k)
                simd.store(acc, k, simd.fma(g, v, simd.load(acc, k)))
                simd.store(kept, o + k, where(v, least, simd.load(own, o + k)))
        else:
            hard += 1
            for k in range(0, width, 16):
                simd.store(kept, o + k, zero)
    return hard


@kernel
def _activate(n, topics, active):
    """active[0 ..] = the topics with N_dk > EPSILON, ascending; returns how many."""
    count = 0
    for k in range(topics):
        if n[k] > EPSILON:
            active[count] = k
            count += 1
    return count


@kernel
def _weigh_active(n, alpha, active, count, t, width):
    """t[a] = exp(psi(n + alpha)) of the columns, zero for topics that have left and on the padding."""
    for a in range(count):
        k = active[a]
        y = exp_digamma(n[k] + alpha[k])
        t[a] = y if y > LEAST_T and n[k] > EPSILON else 0.0
    for a in range(count, width):
        t[a] = 0.0


@kernel
def _gather(first, last, words, e, active, count, own, width):
    """own[j, a] = e[u_j, active[a]]; padding zero."""
    for i in range(first, last):
        o, u = (i - first) * width, words[i]
        for a in range(count):
            own[o + a] = e[u, active[a]]
        for a in range(count, width):
            own[o + a] = 0.0


@kernel
def _fold(src, first, cells, words, counts, z, active, count, n_used, alpha, most, work, scores, n):
    """Add the hard cells to n[k]."""
    for j in range(cells):
        if not z[j] > np.float32(LEAST_Z):
            _hard_top(src, words[first + j], active, count, n_used, alpha, most, work, scores)
            for a in range(count):
                n[active[a]] += counts[first + j] * scores[a]


@kernel
def _alive(n, used):
    """used = n where it is above EPSILON, else 0; returns how many are."""
    count = 0
    for k in range(len(n)):
        if n[k] > EPSILON:
            used[k] = n[k]
            count += 1
        else:
            used[k] = 0.0
    return count


@kernel
def _narrow_inner(
    src, first, cells, words, counts, own, kept, width, t, most, selecting, p, small, acc, z, active, count, n_used, n,
    alpha, work, scores
):  # fmt: skip
    """One inner iteration on the active columns: t, kept, z and n from n_used.  Returns (max |change|, hard cells)."""
    _weigh_active(n_used, alpha, active, count, t, width)
    if selecting:
        hard = _select(first, cells, counts, own, kept, width, t, most, p, small, acc, z)
        for k in range(len(n)):
            n[k] = 0.0
        for a in range(count):
            n[active[a]] = acc[a]
    else:
        hard = sweep(first, first + cells, counts, kept[: cells * width].reshape(cells, width), t, z, acc)
        for k in range(len(n)):
            n[k] = 0.0
        for a in range(count):
            n[active[a]] = np.float64(acc[a]) * t[a]
    if hard > 0:
        _fold(src, first, cells, words, counts, z, active, count, n_used, alpha, most, work, scores, n)
    change = 0.0
    for a in range(count):
        change = max(change, abs(n[active[a]] - n_used[active[a]]))
    return change, hard


@kernel
def _bound(src, first, cells, words, counts, log_scale, z, n_used, n, alpha, prior, active, count, most, work, scores):
    """(bound_d, log-likelihood) as dense._bound, over the active topics; prior: sum of alpha."""
    fit = 0.0
    for j in range(cells):
        if z[j] > np.float32(LEAST_Z):
            fit += counts[first + j] * (log_scale[words[first + j]] + log(np.float64(z[j])))
        else:
            fit += counts[first + j] * _hard_top(
                src, words[first + j], active, count, n_used, alpha, most, work, scores
            )
    spread, mass, terms = 0.0, 0.0, 0.0
    for a in range(count):
        k = active[a]
        mass += n[k]
        if n[k] > 0.0:
            spread += n[k] * digamma(n_used[k] + alpha[k])
            terms += lgamma(n[k] + alpha[k]) - lgamma(alpha[k])
    terms += lgamma(prior) - lgamma(mass + prior)
    return fit - spread + terms, fit - mass * digamma(mass + prior)


@kernel
def sparse_step(
    src, indptr, words, counts, e, log_scale, alpha, tol, most_inner, restarts, restart_inner, most, best_topic,
    best_value, reports, cell_topic, cell_value, own_of, kept_of, lanes, z_of
):  # fmt: skip
    """Visit every document of a block; arguments as ``dense.dense_step`` and

    most                     L
    best_topic, best_value   ``best_of_words``
    cell_topic, cell_value   int32 and float32 [nnz, L]: topics of each cell (-1 ends the list) and x_w r_wk
    own_of, kept_of          float32[longest * P] and [2, longest * P]
    lanes, z_of              float32[5, P] and [2, longest]
    """
    full, topics = e.shape[1], src.topics
    t, acc, p, small, t_best = lanes[0], lanes[1], lanes[2], lanes[3], lanes[4]
    n, used = np.zeros(full), np.zeros(full)
    n_trial, used_trial = np.zeros(full), np.zeros(full)
    work, scores, tried = np.zeros(full), np.zeros(full), np.zeros(full, np.uint8)
    active = np.zeros(full, np.int64)
    prior = 0.0
    for k in range(topics):
        prior += alpha[k]
    for d in range(len(indptr) - 1):
        first, last = indptr[d], indptr[d + 1]
        cells = last - first
        if cells == 0:
            continue
        z, z_trial, kept, kept_trial = z_of[0], z_of[1], kept_of[0], kept_of[1]
        _first(first, last, words, counts, best_topic, best_value, n)
        inner, hard, change, count, width, narrow = 1, 0, np.inf, 0, full, False
        while True:
            alive = _alive(n, used)
            inner += 1
            selecting = inner <= ALWAYS or inner % EVERY == 0 or not narrow
            if selecting:
                hurry = inner >= ALWAYS or inner >= most_inner or change < tol or alive < NARROW * topics
                if (hurry and not narrow) or (narrow and -(-alive // 16) * 16 < width):
                    narrow, count, width = True, _activate(used, topics, active), -(-alive // 16) * 16
                    _gather(first, last, words, e, active, count, own_of, width)
            if narrow:
                change, hard = _narrow_inner(
                    src, first, cells, words, counts, own_of, kept, width, t, most, selecting, p, small, acc, z, active,
                    count, used, n, alpha, work, scores
                )
                if change < tol or inner >= most_inner:
                    break
            else:
                count = _activate(used, topics, active)
                for k in range(full):
                    t[k] = 0.0
                for a in range(count):
                    t[active[a]] = exp_digamma(used[active[a]] + alpha[active[a]])
                hard = _wide(first, last, words, counts, e, t, most, p, small, acc, z)
                for k in range(topics):
                    n[k] = acc[k]
                if hard > 0:
                    _fold(src, first, cells, words, counts, z, active, count, used, alpha, most, work, scores, n)
                change = 0.0
                for k in range(topics):
                    change = max(change, abs(n[k] - used[k]))
        reports[d, CAPPED] = 1.0 if not change < tol else 0.0
        bound, fit = _bound(
            src, first, cells, words, counts, log_scale, z, used, n, alpha, prior, active, count, most, work, scores
        )
        if restarts > 0:
            for k in range(full):
                tried[k] = 0
                t_best[k] = t[k]
        for _ in range(restarts):
            candidate = smallest_active(n, topics, tried)
            if candidate < 0:
                break
            tried[candidate] = 1
            copy_array(n, n_trial)
            n_trial[candidate] = 0.0
            hard_trial = 0
            for step in range(restart_inner):
                _alive(n_trial, used_trial)
                change, hard_trial = _narrow_inner(
                    src, first, cells, words, counts, own_of, kept_trial, width, t, most, step == 0, p, small, acc, z_trial,
                    active, count, used_trial, n_trial, alpha, work, scores
                )
                inner += 1
                if change < tol:
                    break
            bound_trial, fit_trial = _bound(
                src, first, cells, words, counts, log_scale, z_trial, used_trial, n_trial, alpha, prior, active, count, most,
                work, scores
            )
            reports[d, TRIED] += 1.0
            if bound_trial > bound:
                reports[d, ACCEPTED] += 1.0
                bound, fit, hard = bound_trial, fit_trial, hard_trial
                z, z_trial, kept, kept_trial = z_trial, z, kept_trial, kept
                copy_array(n_trial, n)
                copy_array(used_trial, used)
                copy_array(t, t_best)
        if restarts > 0:
            copy_array(t_best, t)
        reports[d, BOUND], reports[d, LOGLIK], reports[d, INNER], reports[d, HARD] = bound, fit, inner, hard
        for j in range(cells):
            i = first + j
            if z[j] > np.float32(LEAST_Z):
                g = simd.splat(np.float32(counts[i]) / z[j])
                for k in range(0, width, 16):
                    simd.store(p, k, g * simd.load(kept, j * width + k) * simd.load(t, k))
            else:
                _hard_top(src, words[i], active, count, used, alpha, most, work, scores)
                for a in range(width):
                    p[a] = counts[i] * scores[a] if a < count else 0.0
            collect(p, 0, width, most, cell_topic[i], cell_value[i])
            for a in range(most):
                if cell_topic[i, a] < 0:
                    break
                cell_topic[i, a] = active[cell_topic[i, a]]
