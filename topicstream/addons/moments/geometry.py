"""The geometry of anchor words: their choice, and the weights of all words on them.

The choice (Arora et al. 2013, Algorithm 4): anchors are the words whose rows of the co-occurrence
matrix lie furthest apart. The first is the row with the largest norm, to which the origin moves.
Then the row furthest from the span of those chosen is taken, again and again. The span is kept
orthonormal by Gram-Schmidt with a second projection, which undoes rounding.

The weights of a word's row on the anchors' rows are convex:

    minimise over the simplex  f(c) = c^T G c - 2 b^T c       (|q - sum_k c_k q_k|^2 less |q|^2)

Arora et al. (2013) go there by exponentiated gradient, which takes thousands of steps for the last
digits. Few weights of a word are above zero, so an active-set method (Wolfe 1976, Finding the
nearest point in a polytope; Lawson & Hanson 1974, chapter 23) reaches the minimum itself in about
as many steps as there are such weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Bools, Doubles, Longs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import fma64
from topicstream.numeric.kernels.sums import dot_doubles

Pieces = Callable[[], Iterator[tuple[int, np.ndarray]]]
PRINTED = 30
"""Distances that are printed; the model has all."""
NOISE = 0.1
"""Share of the first distance within which a row, but for noise, is a mixture of the others."""


class Picked(NamedTuple):
    """Anchors.

    Attributes
    ----------
    anchors
        int64[K], rows in the order of choice.
    distances
        float64[K], their distances when chosen: from zero, from the first, then from the span of
        those before.
    """

    anchors: np.ndarray
    distances: np.ndarray


@kernel
def row_products(rows: Doubles, direction: Doubles) -> Doubles:
    """Multiply each row with a direction (a BLAS library sums by processor and threads)."""
    out = np.empty(len(rows))
    for i in range(len(rows)):
        out[i] = dot_doubles(rows[i], direction, len(direction))
    return out


@kernel
def row_squares(rows: Doubles) -> Doubles:
    """Sum the squares of each row."""
    out = np.empty(len(rows))
    for i in range(len(rows)):
        out[i] = dot_doubles(rows[i], rows[i], rows.shape[1])
    return out


@kernel
def subtract_span(basis: Doubles, shares: Doubles, rest: Doubles) -> None:
    """Subtract the sum of shares[i] basis[i] from rest."""
    for i in range(len(basis)):
        for j in range(len(rest)):
            rest[j] = fma64(-shares[i], basis[i, j], rest[j])


def pick_anchors(
    pieces: Pieces,
    columns: int,
    row_sums: np.ndarray,
    candidates: int,
    topics: int,
    step: Callable[[int], None] = lambda _: None,
) -> Picked:
    """Pick ``topics`` anchors among the first ``candidates`` rows.

    Rows are divided by ``row_sums`` (float64[candidates]). There must be at least ``topics``
    candidates.

    Parameters
    ----------
    pieces
        Yields (first row, rows [n, >= columns]) in order. It is read ``topics`` times, and nothing
        of its size is held.
    step
        Called after each pick with their number.
    """
    inverse = 1.0 / row_sums

    def parts() -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the candidates' rows in pieces, each with its place."""
        for first, rows in pieces():
            part = slice(first, min(first + len(rows), candidates))
            if part.start < part.stop:
                yield part, rows[: part.stop - first, :columns].astype(np.float64)

    def row(place: int) -> np.ndarray:
        """Return the scaled row of one candidate."""
        for first, rows in pieces():
            if first <= place < first + len(rows):
                return np.asarray(rows[place - first, :columns].astype(np.float64) * inverse[place])
        raise IndexError(place)

    def along(direction: np.ndarray) -> np.ndarray:
        """Multiply all scaled rows with a direction."""
        products = np.empty(candidates)
        for part, rows in parts():
            products[part] = row_products(rows, direction)
        return products * inverse

    squares = np.empty(candidates)
    for part, rows in parts():
        squares[part] = row_squares(rows)
    squares *= inverse**2
    chosen = [int(np.argmax(squares))]
    origin = row(chosen[0])
    distances = [float(np.sqrt(squares[chosen[0]]))]
    # from the origin's new place
    squares += dot_doubles(origin, origin, columns) - 2.0 * along(origin)
    candidates_left = np.ones(candidates, np.bool_)
    basis = np.zeros((0, columns))
    while len(chosen) < topics:
        candidates_left[chosen[-1]] = False
        far = int(np.argmax(np.where(candidates_left, squares, -np.inf)))
        remainder = row(far) - origin
        for _ in range(2):
            subtract_span(basis, row_products(basis, remainder), remainder)
        norm = float(np.sqrt(dot_doubles(remainder, remainder, columns)))
        chosen.append(far)
        distances.append(norm)
        step(len(chosen))
        if norm > 0.0 and len(chosen) < topics:
            direction = remainder / norm
            basis = np.vstack([basis, direction])
            squares -= (along(direction) - dot_doubles(origin, direction, columns)) ** 2
    return Picked(np.array(chosen, np.int64), np.array(distances))


def describe_picks(picked: Picked, words: int) -> list[str]:
    """Describe the picks, with a warning if some are noise."""
    distances = [f"{d:.3g}" for d in picked.distances]
    if len(distances) > PRINTED:
        distances[PRINTED // 2 : -PRINTED // 2] = ["..."]
    out = [
        f"{len(picked.anchors)} anchor words of {words:,} candidates, each chosen at a distance "
        f"of {' '.join(distances)}"
    ]
    base = float(picked.distances[1]) if len(picked.distances) > 1 else 0.0
    noise = int(np.count_nonzero(picked.distances[1:] < NOISE * base))
    if noise or (len(picked.distances) > 1 and not base > 0):
        out.append(
            f"warning: {noise} of {len(picked.anchors)} anchor words lie nearer than "
            f"{NOISE:.0%} of the first distance to the others' span: they are noise or "
            f"near-duplicates; lower -K or raise --min-docs"
        )
    return out


TOLERANCE = 1e-11  # of a gradient, beside the mean square of an anchor's row
SINGULAR = 1e-10  # of a pivot, beside the diagonal: a row that lies in the span of the others


class Workspace(NamedTuple):
    """Work space for the problem of one word.

    Attributes
    ----------
    support
        int64[K + 1], the anchors whose weights are above zero.
    upper
        float64[K + 1, K + 1], U of U^T U = G over them.
    u, v
        float64[K + 1], U^-T b and U^-T 1.
    x, y
        float64[K + 1], the solutions.
    row, gradient
        float64[K + 1] and float64[K].
    barred
        bool[K], anchors that cannot enter.
    """

    support: Longs
    upper: Doubles
    u: Doubles
    v: Doubles
    x: Doubles
    y: Doubles
    row: Doubles
    gradient: Doubles
    barred: Bools


@kernel
def _factor(gram: Doubles, b: Doubles, known: int, n: int, work: Workspace) -> int:
    """Extend the Cholesky factor, u and v by columns ``known`` to n - 1.

    Columns before ``known`` are valid already: a new anchor adds one column, so a word of s anchors
    costs s^3, not s^4.

    Returns
    -------
    int
        The first column that lies in the span of those before, or n.
    """
    support = work.support
    upper = work.upper
    u = work.u
    v = work.v
    row = work.row
    for i in range(known, n):
        for j in range(i + 1):
            row[j] = gram[support[i], support[j]]
        s = b[support[i]]
        t = 1.0
        for m in range(i):
            part = row[m] / upper[m, m]
            upper[m, i] = part
            for j in range(m + 1, i + 1):
                row[j] -= part * upper[m, j]
            s -= part * u[m]
            t -= part * v[m]
        if row[i] <= SINGULAR * gram[support[i], support[i]]:
            return i
        upper[i, i] = np.sqrt(row[i])
        u[i] = s / upper[i, i]
        v[i] = t / upper[i, i]
    return n


@kernel
def _solve(n: int, work: Workspace) -> None:
    """x = U^-1 u, y = U^-1 v."""
    upper = work.upper
    u = work.u
    v = work.v
    x = work.x
    y = work.y
    for i in range(n - 1, -1, -1):
        s = u[i]
        t = v[i]
        for m in range(i + 1, n):
            s -= upper[i, m] * x[m]
            t -= upper[i, m] * y[m]
        x[i] = s / upper[i, i]
        y[i] = t / upper[i, i]


@kernel
def _word(gram: Doubles, b: Doubles, scale: float, c: Doubles, work: Workspace) -> bool:
    """Solve for one word's weights, and return False if that failed."""
    support = work.support
    x = work.x
    y = work.y
    gradient = work.gradient
    barred = work.barred
    k_all = len(gram)
    c[:] = 0.0
    barred[:] = False
    # begin at the vertex c = e_k where f(c) = G_kk - 2 b_k is least
    best = 0
    for k in range(1, k_all):
        if gram[k, k] - 2.0 * b[k] < gram[best, best] - 2.0 * b[best]:
            best = k
    c[best] = 1.0
    n = 1
    support[0] = best
    known = 0  # columns of the factor that stand: an anchor that leaves takes those behind it
    for _ in range(20 * k_all + 20):
        # half the gradient of f: G c - b
        gradient[:] = -b
        for i in range(n):
            share = c[support[i]]
            row = gram[support[i]]
            for k in range(k_all):
                gradient[k] += share * row[k]
        # its level on the support, c^T (G c - b)
        level = 0.0
        for i in range(n):
            level += c[support[i]] * gradient[support[i]]
        # the anchor that lowers f most enters. If none lies below the level, c is the minimum
        new = -1
        least = level - TOLERANCE * scale
        for k in range(k_all):
            if gradient[k] < least and c[k] == 0.0 and not barred[k]:
                new = k
                least = gradient[k]
        if new < 0:
            return True
        support[n] = new
        n += 1
        while True:
            # minimise over the support: the Cholesky factor of G there
            bad = known = _factor(gram, b, known, n, work)
            if bad < n:  # the same point as a mixture of the others: nothing is gained by it
                gone = support[bad]
                if c[gone] > 0.0:
                    gone = new
                    bad = n - 1
                barred[gone] = True
                for i in range(bad, n - 1):
                    support[i] = support[i + 1]
                n -= 1
                if gone == new:
                    break
                continue
            # x = G^-1 b and y = G^-1 1, then x - (sum x - 1) / sum y y has the sum 1
            _solve(n, work)
            over = -1.0
            ones = 0.0
            for i in range(n):
                over += x[i]
                ones += y[i]
            # the longest step towards it that keeps all weights above zero
            step = 1.0
            first = -1
            for i in range(n):
                x[i] -= over / ones * y[i]
                if x[i] <= 0.0:
                    now = c[support[i]]
                    share = now / (now - x[i]) if now > x[i] else 0.0
                    if share < step or first < 0:
                        step = share
                        first = i
            for i in range(n):
                c[support[i]] += step * (x[i] - c[support[i]])
            # nothing in the way: the minimum over this support
            if first < 0:
                break
            # else the anchor whose weight becomes zero leaves, and the rest is minimised again
            kept = 0
            for i in range(n):
                if i == first or c[support[i]] <= 0.0:
                    known = min(known, kept)
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
    """Solve for the weights of n words, c float64[n, K].

    Parameters
    ----------
    gram
        float64[K, K].
    rhs
        float64[n, K], right-hand sides. NaN: c = 0.
    anchor
        int64[n], the topic whose anchor a word is (its c is that vertex), or -1.

    Returns
    -------
    int
        Number of words whose weights are inexact: rounding led in a circle (they are near the
        minimum).
    """
    k_all = len(gram)
    work = Workspace(
        np.empty(k_all + 1, np.int64),
        np.empty((k_all + 1, k_all + 1)),
        np.empty(k_all + 1),
        np.empty(k_all + 1),
        np.empty(k_all + 1),
        np.empty(k_all + 1),
        np.empty(k_all + 1),
        np.empty(k_all),
        np.zeros(k_all, np.bool_),
    )
    scale = 0.0
    unfinished = 0
    for k in range(k_all):
        scale += gram[k, k] / k_all
    for w in range(len(rhs)):
        if anchor[w] >= 0 or not np.isfinite(rhs[w, 0]):
            c[w] = 0.0
            if anchor[w] >= 0:
                c[w, anchor[w]] = 1.0
            continue
        if not _word(gram, rhs[w], scale, c[w], work):
            unfinished += 1
        total = 0.0
        for k in range(k_all):
            total += c[w, k]
        c[w] /= total
    return unfinished
