"""The word problems of anchor words: convex weights of a word's row on the anchors' rows.

    minimise over the simplex  f(c) = c^T G c - 2 b^T c       (|q - sum_k c_k q_k|^2 less |q|^2)

Arora et al. 2013 go there by exponentiated gradient, which takes thousands of steps for the last digits.  Few weights of a
word are above zero, so an active-set method (Wolfe 1976, Finding the nearest point in a polytope; Lawson & Hanson 1974,
chapter 23) reaches the minimum itself in about as many steps as there are such weights.
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Bools, Doubles, Floats, Longs
from topicstream.kernels.jit import kernel

TOLERANCE = 1e-11  # of a gradient, beside the mean square of an anchor's row
SINGULAR = 1e-10  # of a pivot, beside the diagonal: a row that lies in the span of the others


@kernel
def _factor(gram: Doubles, support: Longs, n: int, factor: Doubles) -> int:
    """Cholesky of G over the support; the first row that lies in the span of those before, or -1."""
    for i in range(n):
        for j in range(i + 1):
            s = gram[support[i], support[j]]
            for m in range(j):
                s -= factor[i, m] * factor[j, m]
            if i == j:
                if s <= SINGULAR * gram[support[i], support[i]]:
                    return i
                factor[i, i] = np.sqrt(s)
            else:
                factor[i, j] = s / factor[j, j]
    return -1


@kernel
def _solve(factor: Doubles, n: int, x: Doubles) -> None:
    """x <- (L L^T)^-1 x."""
    for i in range(n):
        s = x[i]
        for m in range(i):
            s -= factor[i, m] * x[m]
        x[i] = s / factor[i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for m in range(i + 1, n):
            s -= factor[m, i] * x[m]
        x[i] = s / factor[i, i]


@kernel
def _word(
    gram: Doubles,
    b: Doubles,
    scale: float,
    c: Doubles,
    support: Longs,
    factor: Doubles,
    u: Doubles,
    v: Doubles,
    gradient: Doubles,
    barred: Bools,
) -> bool:
    """One word's weights; whether they were found."""
    k_all = len(gram)
    c[:] = 0.0
    barred[:] = False
    best = 0
    for k in range(1, k_all):
        if gram[k, k] - 2.0 * b[k] < gram[best, best] - 2.0 * b[best]:
            best = k
    c[best], n = 1.0, 1
    support[0] = best
    for _ in range(20 * k_all + 20):
        gradient[:] = -b
        for i in range(n):
            x, row = c[support[i]], gram[support[i]]
            for k in range(k_all):
                gradient[k] += x * row[k]
        level = 0.0
        for i in range(n):
            level += c[support[i]] * gradient[support[i]]
        new, least = -1, level - TOLERANCE * scale
        for k in range(k_all):
            if gradient[k] < least and c[k] == 0.0 and not barred[k]:
                new, least = k, gradient[k]
        if new < 0:
            return True
        support[n] = new
        n += 1
        while True:
            bad = _factor(gram, support, n, factor)
            if bad >= 0:  # the same point as a mixture of the others: nothing is gained by it
                gone = support[bad]
                if c[gone] > 0.0:
                    gone, bad = new, n - 1
                barred[gone] = True
                for i in range(bad, n - 1):
                    support[i] = support[i + 1]
                n -= 1
                if gone == new:
                    break
                continue
            for i in range(n):
                u[i], v[i] = b[support[i]], 1.0
            _solve(factor, n, u)
            _solve(factor, n, v)
            over, ones = -1.0, 0.0
            for i in range(n):
                over += u[i]
                ones += v[i]
            step, first = 1.0, -1
            for i in range(n):
                u[i] -= over / ones * v[i]
                if u[i] <= 0.0:
                    now = c[support[i]]
                    share = now / (now - u[i]) if now > u[i] else 0.0
                    if share < step or first < 0:
                        step, first = share, i
            for i in range(n):
                c[support[i]] += step * (u[i] - c[support[i]])
            if first < 0:
                break
            kept = 0
            for i in range(n):
                if i == first or c[support[i]] <= 0.0:
                    c[support[i]] = 0.0
                    if support[i] == new and step == 0.0:
                        barred[new] = True  # it would leave at once: as far as rounding lets it
                else:
                    support[kept] = support[i]
                    kept += 1
            n = kept
            if n <= 1:
                break
    return False


@kernel
def simplex_weights(gram: Doubles, rhs: Doubles, anchor: Longs, c: Doubles) -> int:
    """c float64[n, K] of n words with right-hand sides rhs float64[n, K]; gram float64[K, K].

    anchor int64[n]: the topic whose anchor a word is (its c is that vertex), or -1; a right-hand side with NaN: c = 0.
    Returns how many words' weights were not found: rounding led in a circle (they are near the minimum).
    """
    k_all = len(gram)
    support, factor = np.empty(k_all + 1, np.int64), np.empty((k_all + 1, k_all + 1))
    u, v, gradient, barred = np.empty(k_all + 1), np.empty(k_all + 1), np.empty(k_all), np.zeros(k_all, np.bool_)
    scale, unfinished = 0.0, 0
    for k in range(k_all):
        scale += gram[k, k] / k_all
    for w in range(len(rhs)):
        if anchor[w] >= 0 or not np.isfinite(rhs[w, 0]):
            c[w] = 0.0
            if anchor[w] >= 0:
                c[w, anchor[w]] = 1.0
            continue
        if not _word(gram, rhs[w], scale, c[w], support, factor, u, v, gradient, barred):
            unfinished += 1
        total = 0.0
        for k in range(k_all):
            total += c[w, k]
        c[w] /= total
    return unfinished


KL_STEPS, KL_GAP = 1000, 1e-6


@kernel
def kl_weights(anchors: Doubles, rows: Floats, sums: Doubles, anchor: Longs, c: Doubles) -> int:
    """Convex weights that minimise KL(q || sum_k c_k q_k), q = rows[w] / sums[w], by the multiplicative update of mixture
    weights (EM; it never raises the divergence), from the uniform point.

    anchors float64[W, K]: the anchors' rows as columns; rows float32[n, >= W]; sums float64[n] (0: c = 0); anchor int64[n] as
    above; c float64[n, K].  Returns how many words were not within KL_GAP of the minimum after KL_STEPS.
    """
    words, k_all = anchors.shape
    there, q = np.empty(words, np.int64), np.empty(words)
    ratio, unfinished = np.empty(k_all), 0
    for w in range(len(rows)):
        if anchor[w] >= 0 or not sums[w] > 0.0:
            c[w] = 0.0
            if anchor[w] >= 0:
                c[w, anchor[w]] = 1.0
            continue
        n, mass = 0, 0.0
        for v in range(words):
            if rows[w, v] > 0.0:
                some = 0.0
                for k in range(k_all):
                    some += anchors[v, k]
                if some > 0.0:  # a word that stands with no anchor tells nothing of the weights
                    there[n], q[n] = v, rows[w, v]
                    mass += q[n]
                    n += 1
        now, done = c[w], False
        now[:] = 1.0 / k_all
        for _ in range(KL_STEPS):
            ratio[:] = 0.0
            for i in range(n):
                column = anchors[there[i]]
                p = 0.0
                for k in range(k_all):
                    p += now[k] * column[k]
                share = q[i] / (mass * max(p, 1e-300))
                for k in range(k_all):
                    ratio[k] += share * column[k]
            if n == 0 or ratio.max() <= 1.0 + KL_GAP:  # bounds how far the divergence lies above its minimum
                done = True
                break
            total = 0.0
            for k in range(k_all):
                now[k] *= ratio[k]
                total += now[k]
            now /= total
        if not done:
            unfinished += 1
    return unfinished
