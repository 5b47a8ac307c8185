"""The local step: theta of one document with fixed topics.

The fixed point of

    n[k] = sum_j x[j] t[k] own[j,k] / z[j]
    z[j] = sum_k t[k] own[j,k]
    t[k] = weight of n[k] + alpha[k]

over the document's cells j, each x[j] tokens of a word whose row of topic weights is own[j, :].

- POINT: own[j,k] = p(w_j|k) = (phi[w_j,k] + beta) / Z[k] and t = n + alpha. This is EM, or BP
  without exclusion (Zeng et al. 2012).
- DIRICHLET: own[j,k] = exp E[log phi[w_j,k]], with any factor a row, and t = exp psi(n + alpha).
  This is variational Bayes (Blei et al. 2003).

Start: t = 1 for every topic that is possible (inverse > 0), EVEN; or the weights of n = 0, alpha or
exp psi(alpha), FROM_PRIOR, which is another place only where alpha is not the same for all topics.

Stop: when the change of n, summed over topics, is at most ``tol`` of the document's tokens, or
after ``inner`` inner iterations. The result is theta[k] = (n[k] + alpha[k]) / (sum n + sum alpha).
A cell with z <= LEAST is of a word that is impossible in every topic, and is no part of it. A
document without any other gets the prior's mean.

Everything is float32 but exp psi, which is taken in float64, and the two sums of theta, which are
float64 in the order of topics. A sum over topics is formed in sixteen lanes, then as a tree
(``simd.total``, ``lanes.totals``). A sum over cells adds eight cells at a time, in the order of the
document's cells. No sum crosses documents and nothing depends on where the rows came from, so a
document has the same bits alone and in company, in any block, with any number of threads.

    own         float32[cells up to a multiple of 8, KP], flat; KP is a multiple of 16; zero in
                the padding and past the cells
    x, z        float32[cells + 32], x zero past the cells
    t, acc, n   float32[KP], zero in the padding
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels import simd as lanes
from topicstream.numeric.kernels.arrays import (
    Array,
    Doubles,
    Floats,
    Int,
    Ints,
    Longs,
    RowCells,
    TopicWeights,
    most_in_row,
)
from topicstream.numeric.kernels.dirichlet import digamma, exp, exp_digamma, psi
from topicstream.numeric.kernels.gather import highest
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import WIDTH, fma, larger, load, splat, store, total

POINT = False
DIRICHLET = True
EVEN = False
FROM_PRIOR = True
TOLERANCE = 1e-3
VB_TOLERANCE = (
    3e-4  # as near to the fixed point as POINT is at 1e-3: DIRICHLET comes nearer more slowly
)
INNER = 100
LEAST = 1e-30
FAINT = -80.0  # log weights further below a row's largest are nothing: float32 ends at -87
LEAST_T = 1e-37  # the machine is slow with smaller floats
PANEL_FLOATS = 1 << 18
"""Floats of a piece of a document's rows: 1 MiB, so that they stay in the nearest caches between
inner iterations.
"""


def padded_floats(values: np.ndarray, width: int) -> np.ndarray:
    """Copy values to float32[width], followed by zeros."""
    out = np.zeros(width, np.float32)
    out[: len(values)] = values
    return out


def inverse_norms(totals: np.ndarray, words: int, beta: float, width: int) -> np.ndarray:
    """Compute 1 / (lam + W beta), float32[width].

    It is zero in the padding and for an empty topic without a prior, which has no part in anything.
    """
    norms = np.asarray(totals, np.float64) + words * beta
    return padded_floats(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0), width)


def digamma_norms(totals: np.ndarray, words: int, beta: float) -> np.ndarray:
    """Compute psi(lam + W beta), float64[K]."""
    norms = np.maximum(np.asarray(totals, np.float64) + words * beta, 1e-300)
    return psi(norms)


def dirichlet_rows(
    rows: np.ndarray, base: np.ndarray, beta: float, norms: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Compute exp E[log phi] of the words that occur.

    Returns (row of each cell int64[nnz], float32[U, KP]).

    rows: int64[nnz] of base: float32[R, C]; norms: of ``digamma_norms``. With beta = 0 and inverse
    = 1 (K of them, zeros in the padding) they are what ``local_step`` takes.
    """
    used, index = np.unique(rows, return_inverse=True)
    weights = np.empty((max(len(used), 1), width), np.float32)
    word_weights(used, base, beta, norms, weights)
    return index.astype(np.int64), weights


@kernel
def word_weights(rows: Longs, base: Floats, beta: float, norms: Doubles, own: Floats) -> None:
    """Compute own[j, k] = exp(E[log phi_wk]), scaled by the word's largest.

    norms: float64[K], psi(lam + W beta).
    """
    topics = len(norms)
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
def fill(rows: Array, base: Floats, beta: float, inverse: Floats, own: Floats) -> None:
    """Compute own[j, k] = (base[rows[j], k] + beta) * inverse[k].

    Zeros follow up to a multiple of eight rows.

    rows: int64[m]; base: float32[R, C], K <= C <= KP; inverse: float32[KP], zero in padding.
    """
    columns = base.shape[1]
    width = len(inverse)
    whole = columns - columns % WIDTH
    b = np.float32(beta)
    smooth = splat(b)
    for j in range(len(rows)):
        at = rows[j] * columns
        to = j * width
        for k in range(0, whole, WIDTH):
            store(own, to + k, (load(base, at + k) + smooth) * load(inverse, k))
        for k in range(whole, width):
            own[to + k] = (base[rows[j], k] + b) * inverse[k] if k < columns else np.float32(0)
    clear_rows(own, len(rows), width)


@kernel(forceinline=True)
def clear_rows(own: Floats, cells: int, width: int) -> None:
    """Zero the rest of the last eight rows."""
    for o in range(cells * width, -(-cells // 8) * 8 * width, WIDTH):
        store(own, o, splat(np.float32(0)))


@kernel
def take_counts(counts: Array, first: int, cells: int, x: Floats) -> None:
    """Copy the counts of cells first, first + 1, ... to x, then 32 zeros.

    Two tiles is the most that is read past the cells.
    """
    for j in range(cells):
        x[j] = np.float32(counts[first + j])
    for j in range(cells, cells + 32):
        x[j] = np.float32(0)


@kernel
def sweep_cells(
    cells: int, x: Floats, own: Floats, width: int, t: Floats, least: float, z: Floats, acc: Floats
) -> None:
    """Add sum_j (x[j] / z[j]) own[j, k] to acc[k].

    The sum is over the cells with z > least. Writes z[j] = sum_k own[j, k] t[k].

    Eight rows at a time: t and acc are read once for the eight, and the rows are still near for
    their second use.
    """
    nothing = splat(np.float32(0))
    limit = splat(np.float32(least))
    for j in range(0, cells, 8):
        # where the eight rows begin
        o0 = j * width
        o1 = o0 + width
        o2 = o0 + 2 * width
        o3 = o0 + 3 * width
        o4 = o0 + 4 * width
        o5 = o4 + width
        o6 = o4 + 2 * width
        o7 = o4 + 3 * width
        v0 = nothing
        v1 = nothing
        v2 = nothing
        v3 = nothing
        v4 = nothing
        v5 = nothing
        v6 = nothing
        v7 = nothing
        # z_j = sum_k own_jk t_k of the eight cells, in sixteen lanes each
        for k in range(0, width, WIDTH):
            y = load(t, k)
            v0 = fma(load(own, o0 + k), y, v0)
            v1 = fma(load(own, o1 + k), y, v1)
            v2 = fma(load(own, o2 + k), y, v2)
            v3 = fma(load(own, o3 + k), y, v3)
            v4 = fma(load(own, o4 + k), y, v4)
            v5 = fma(load(own, o5 + k), y, v5)
            v6 = fma(load(own, o6 + k), y, v6)
            v7 = fma(load(own, o7 + k), y, v7)
        # z_j and x_j / z_j, 0 where z_j is not above ``least``
        s = lanes.totals(v0, v1, v2, v3, v4, v5, v6, v7)
        lanes.store_eight(z, j, s)
        g = lanes.quotient(load(x, j), s, limit)
        g0 = lanes.spread0(g)
        g1 = lanes.spread1(g)
        g2 = lanes.spread2(g)
        g3 = lanes.spread3(g)
        g4 = lanes.spread4(g)
        g5 = lanes.spread5(g)
        g6 = lanes.spread6(g)
        g7 = lanes.spread7(g)
        # acc_k += sum_j (x_j / z_j) own_jk
        for k in range(0, width, WIDTH):
            # acc last: what one group of rows waits for of the one before is a single addition
            y = g0 * load(own, o0 + k)
            v = g1 * load(own, o1 + k)
            y = fma(g2, load(own, o2 + k), y)
            v = fma(g3, load(own, o3 + k), v)
            y = fma(g4, load(own, o4 + k), y)
            v = fma(g5, load(own, o5 + k), v)
            y = fma(g6, load(own, o6 + k), y)
            v = fma(g7, load(own, o7 + k), v)
            store(acc, k, load(acc, k) + (y + v))


@kernel
def dirichlet_weights(n: Floats, alpha: Floats, t: Floats) -> None:
    """Compute t[k] = exp(psi(n[k] + alpha[k])), 0 below LEAST_T.

    If the largest would be small (a word or two over many topics), all are scaled by one factor,
    which no ratio depends on.
    """
    lanes_top = splat(np.float32(0))
    for k in range(0, len(t), WIDTH):
        lanes_top = larger(lanes_top, load(n, k) + load(alpha, k))
    top = highest(lanes_top)
    if top > np.float32(0.25):
        for k in range(len(t)):
            y = exp_digamma(max(np.float64(n[k]) + np.float64(alpha[k]), 1e-9))
            t[k] = y if y > LEAST_T else 0.0
    else:
        most = digamma(max(np.float64(top), 1e-300))
        for k in range(len(t)):
            y = np.float64(n[k]) + np.float64(alpha[k])
            y = exp(digamma(y) - most) if y > 0.0 else 0.0
            t[k] = y if y > LEAST_T else 0.0


@kernel(forceinline=True)
def weigh_topics(n: Floats, alpha: Floats, dirichlet: bool, t: Floats) -> None:
    """Compute t[k], the weight of n[k] + alpha[k]."""
    if dirichlet:
        dirichlet_weights(n, alpha, t)
    else:
        for k in range(0, len(t), WIDTH):
            store(t, k, load(n, k) + load(alpha, k))


class LocalRule(NamedTuple):
    """How a document is iterated (see the module's docstring).

    Attributes
    ----------
    dirichlet
        DIRICHLET or POINT.
    from_prior
        FROM_PRIOR or EVEN.
    tol
        The share of a document's tokens at which it stops.
    inner
        Most inner iterations.
    """

    dirichlet: bool
    from_prior: bool
    tol: float
    inner: int


class LocalScratch(NamedTuple):
    """Arrays that a document is worked on in.

    own  float32[a multiple of 8 rows, KP], flat: a longer document goes through it in pieces
    x, z  float32[those rows + 32]
    t, acc, n  float32[KP]; n is the result of ``fixed_point``
    """

    own: Floats
    x: Floats
    z: Floats
    t: Floats
    acc: Floats
    n: Floats


@kernel
def panel_rows(indptr: Longs, width: int) -> Int:
    """Return how many rows of the longest of some documents are held at a time.

    It is a multiple of 8, bounded by PANEL_FLOATS.
    """
    longest = most_in_row(indptr)
    most: Int = max(8, min(-(-longest // 8) * 8, PANEL_FLOATS // width // 8 * 8))
    return most


@kernel
def local_scratch(indptr: Longs, width: int) -> LocalScratch:
    """Make the arrays for the longest of some documents."""
    most = panel_rows(indptr, width)
    return LocalScratch(
        np.empty(most * width, np.float32),
        np.empty(most + 32, np.float32),
        np.empty(most + 32, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
    )


@kernel
def fixed_point(
    rows: Longs,
    counts: Floats,
    weights: TopicWeights,
    alpha: Floats,
    rule: LocalRule,
    scratch: LocalScratch,
) -> int:
    """Iterate n of one document and return the number of inner iterations.

    See the module's docstring.

    rows: int64[m] of the weights, one a cell; counts: float32[m] -> scratch.n.
    """
    (base, beta, inverse) = weights
    (own, x, z, t, acc, n) = scratch
    width = len(inverse)
    cells = len(rows)
    most = len(own) // width
    tokens = 0.0
    for j in range(cells):
        tokens += counts[j]
    # start: even weights, or those of the prior
    for k in range(width):
        n[k] = 0.0
        t[k] = 1.0 if inverse[k] > 0.0 else 0.0
    if rule.from_prior:
        weigh_topics(n, alpha, rule.dirichlet, t)
    # a document that fits is expanded once
    if cells <= most:
        fill(rows, base, beta, inverse, own)
        take_counts(counts, 0, cells, x)
    for i in range(rule.inner):
        # acc_k = sum_j (x_j / z_j) own_jk, piece by piece
        for k in range(0, width, WIDTH):
            store(acc, k, splat(np.float32(0)))
        for first in range(0, cells, most):
            piece = min(most, cells - first)
            if cells > most:
                fill(rows[first : first + piece], base, beta, inverse, own)
                take_counts(counts, first, piece, x)
            sweep_cells(piece, x, own, width, t, LEAST, z, acc)
        # n_k = t_k acc_k, and sum of |change| for the stopping rule
        moved = splat(np.float32(0))
        for k in range(0, width, WIDTH):
            after = load(t, k) * load(acc, k)
            before = load(n, k)
            moved = moved + larger(after - before, before - after)
            store(n, k, after)
        if total(moved) <= rule.tol * tokens:
            return i + 1
        weigh_topics(n, alpha, rule.dirichlet, t)
    return rule.inner


@kernel
def local_step(
    cells: RowCells, weights: TopicWeights, alpha: Floats, rule: LocalRule, shares: Floats
) -> int:
    """Compute theta of every document and return the inner iterations.

    Parameters
    ----------
    weights
        ``inverse`` is float32[KP], zero in the padding; C <= KP.
    alpha
        float32[KP], zero in the padding.
    shares
        float32[D, K], result.
    """
    (indptr, rows, counts) = cells
    topics = shares.shape[1]
    scratch = local_scratch(indptr, len(weights.inverse))
    n = scratch.n
    alpha_sum = 0.0
    for k in range(topics):
        alpha_sum += np.float64(alpha[k])
    sweeps = 0
    for d in range(len(indptr) - 1):
        # iterate n of the document; one without cells has its prior
        own = slice(indptr[d], indptr[d + 1])
        mass = alpha_sum
        if indptr[d + 1] > indptr[d]:
            sweeps += fixed_point(rows[own], counts[own], weights, alpha, rule, scratch)
            for k in range(topics):
                mass += np.float64(n[k])
        else:
            n[:] = 0.0
        # theta_k = (n_k + alpha_k) / (n_d + sum alpha)
        for k in range(topics):
            shares[d, k] = (n[k] + alpha[k]) / mass if mass > 0.0 else 1.0 / topics
    return sweeps


@kernel
def own_local_step(
    cells: RowCells,
    weights: TopicWeights,
    alphas: Floats,
    row_of: Ints,
    rule: LocalRule,
    shares: Floats,
) -> int:
    """Run ``local_step`` where document d has the prior alphas[row_of[d]].

    alphas: float32[A, KP]; row_of: int32[D]. The other arguments are those of ``local_step``.
    """
    (indptr, rows, counts) = cells
    sweeps = 0
    for d in range(len(indptr) - 1):
        one = RowCells(indptr[d : d + 2], rows, counts)
        sweeps += local_step(one, weights, alphas[row_of[d]], rule, shares[d : d + 1])
    return sweeps


@kernel
def probabilities(
    rows: Longs, base: Floats, beta: float, inverse: Floats, theta: Floats, own: Floats, p: Floats
) -> None:
    """Compute p(w_j | d) of each cell j of a document.

    p[j] = sum_k p(w_j|k) theta[k], as z of the local step.

    rows: int64[m]; theta, inverse: float32[KP], zero in padding; own: float32[m up to a multiple of
    8, KP] flat -> float32[m].
    """
    width = len(inverse)
    fill(rows, base, beta, inverse, own)
    for j in range(len(rows)):
        v = splat(np.float32(0))
        for k in range(0, width, WIDTH):
            v = fma(load(own, j * width + k), load(theta, k), v)
        p[j] = total(v)
