"""Asynchronous tiny belief propagation (Zeng, Liu & Cao 2012, Fig. 3).

No message is stored. Before a cell's update each of its three sums is shrunk by the share that the
cell has in it, which stands for the message that is taken out. Then the new message is put in:

    lines 13-15   phi[w,:] *= 1 - x/n_w    theta[d,:] *= 1 - x/n_d    lam *= 1 - x/N
    lines 16-17   eta_k = (phi[w,k] + beta)(theta[d,k] + alpha_k) / (lam_k + W beta) / sum
    lines 18-20   phi[w,:] += x eta        theta[d,:] += x eta        lam += x eta

    symbol        array
    phi[w, :]     base[index[u], :] + delta[u, :]   float32[., KP]; base is only read
    theta[d, :]   theta[d, :]                       float32[D, KP]
    lam           lam + dl + fresh                  float32[KP]; the block's change apart
    1/n_w         per_n_w[u]                        float32[U], from the row's own sum
    u_k           u                                 float32[KP]

Numbers: phi[w,:] is never rounded at its own size. The delta of a block is small beside the row,
its rounding errors are those of small numbers, and the driver adds deltas in float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topicstream.engines.about import LONG_ENOUGH
from topicstream.engines.base import Out, Visit, padded
from topicstream.engines.message.tiny import TinyEngine
from topicstream.numeric.kernels.arrays import (
    Cells,
    Doubles,
    Float,
    Floats,
    Int,
    Ints,
    Longs,
    borrow,
)
from topicstream.numeric.kernels.dirichlet import sum_x_log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import (
    WIDTH,
    fetch,
    fma,
    get,
    load,
    rows_ahead,
    splat,
    store,
    total,
)

DRIFT = 1e-4  # most that a topic's 1/(lam + W beta) may be out by
# documents between two looks at the smallest topic, which decides how often that is renewed
REVIEW = 16


class Rows(NamedTuple):
    """Rows of phi and the priors of their words.

    phi of local word u is base[index[u]]. Its prior is words[of[u]]: beta or, for seed words, beta
    and pseudo-counts, which no shrinking touches.

    base, words float32[., KP]; row int64[U]; of int32[U]; alpha float32[KP], padding zero; spread
    float32[KP]: sums of the priors over all words
    """

    base: Floats
    row: Longs
    words: Floats
    of: Ints
    alpha: Floats
    spread: Floats


class Workspace(NamedTuple):
    """Scratch arrays of a sweep.

    per_n_w: float32[U]; topics: float32[>= 4 KP]; p: float64[most cells of a document].
    """

    per_n_w: Floats
    topics: Floats
    p: Doubles


@kernel
def _least(l0: Floats, dl: Floats, spread: Floats, topics: int) -> Float:
    """Compute the minimum over topics of lam + spread, where lam = l0 + dl.

    spread: W beta, and the pseudo-counts of seed words.
    """
    least = np.float32(np.inf)
    for k in range(topics):
        least = min(least, l0[k] + dl[k] + spread[k])
    return least


class Sums(NamedTuple):
    """Column sums of phi in a sweep, float32[KP] each: lam + dl + fresh is lam now.

    lam as the block found it; dl and fresh what the block has changed, fresh since ``inverse`` was
    renewed; inverse 1 / (lam + W beta); u the unnormalised eta of a cell
    """

    lam: Floats
    dl: Floats
    fresh: Floats
    inverse: Floats
    u: Floats


class Shrink(NamedTuple):
    """How a cell's sums shrink before its update (lines 13 and 14).

    less_w: -x / n_w, the share of phi[w,:]. left: theta[d,:] is so many times its row in the array.
    """

    less_w: Float
    left: Float


class Place(NamedTuple):
    """Where a cell's rows of base, delta, priors and theta begin, and those to prefetch.

    own = 0: no seed word. next_row: of base; next_out: of delta.
    """

    row: Int
    out: Int
    own: Int
    at: Int
    next_row: Int
    next_out: Int


@kernel(inline="always")
def _open_word(base: Floats, row: int, delta: Floats, out: int, width: int) -> Float:
    """Zero a word's delta, and return 1 / n_w from the sum of its row of phi."""
    zero = splat(0.0)
    acc = zero
    for k in range(0, width, WIDTH):
        acc = acc + load(base, row + k)
        store(delta, out + k, zero)
    return np.float32(1.0) / total(acc)  # type: ignore[no-any-return]


@kernel(inline="always")
def _renew_inverse(
    passed: float, x: float, per_n_all: float, spread: Floats, sums: Sums, width: int
) -> None:
    """Renew 1 / (lam + W beta) with the cell's own share taken out of lam.

    Line 15: lam *= 1 - x / N for the tokens that have passed since the last time, which stays, and
    for the cell's own, which does not.
    """
    (lam, dl, fresh, inverse, _) = sums
    zero = splat(0.0)
    less_all = splat(-passed * per_n_all)
    less_own = splat(-x * per_n_all)
    for k in range(0, width, WIDTH):
        whole = load(lam, k)
        change = load(dl, k)
        change = fma(less_all, whole + change, change) + load(fresh, k)
        store(fresh, k, zero)
        store(dl, k, change)
        change = fma(less_own, whole + change, change)
        store(inverse, k, splat(1.0) / (whole + change + load(spread, k)))


@kernel(inline="always")
def _scale_row(theta: Floats, at: int, width: int, factor: float) -> None:
    """Scale a row of theta."""
    keep = splat(factor)
    for k in range(0, width, WIDTH):
        store(theta, at + k, keep * load(theta, at + k))


@kernel(inline="always")
def _weigh(
    shrink: Shrink, place: Place, rows: Rows, theta: Floats, delta: Floats, sums: Sums
) -> Float:
    """Compute u_k of a cell (lines 16-17) and return its sum.

    u_k = (phi[w,k] + beta) (theta[d,k] + alpha_k) / (lam_k + W beta)
    """
    (row, out, own, at, next_row, _) = place
    (base, _, prior, _, alpha, _) = rows
    width = base.shape[1]
    # lines 13 and 14: phi loses x/n_w of itself, and theta is ``left`` times its row
    smooth = splat(prior[0, 0])
    less_w = splat(shrink.less_w)
    keep = splat(shrink.left)
    acc = splat(0.0)
    # no seed word: a load less for each vector, a tenth of the time at 100 topics
    if own == 0:
        for k in range(0, width, WIDTH):
            fetch(base, next_row + k)
            b = load(base, row + k)
            c = load(delta, out + k)
            c = fma(less_w, b + c, c)
            v = (
                (b + c + smooth)
                * fma(keep, load(theta, at + k), load(alpha, k))
                * load(sums.inverse, k)
            )
            store(sums.u, k, v)
            acc = acc + v
    else:
        for k in range(0, width, WIDTH):
            b = load(base, row + k)
            c = load(delta, out + k)
            c = fma(less_w, b + c, c)
            v = (
                (b + c + load(prior, own + k))
                * fma(keep, load(theta, at + k), load(alpha, k))
                * load(sums.inverse, k)
            )
            store(sums.u, k, v)
            acc = acc + v
    return total(acc)  # type: ignore[no-any-return]


@kernel(inline="always")
def _put_in(
    x: float,
    s: float,
    shrink: Shrink,
    place: Place,
    base: Floats,
    theta: Floats,
    delta: Floats,
    sums: Sums,
) -> None:
    """Add x eta, eta = u / s, to phi[w,:], theta[d,:] and lam (lines 18-20).

    phi[w,:] is shrunk first (line 13).
    """
    (row, out, _, at, _, next_out) = place
    less_w = splat(shrink.less_w)
    per_s = np.float32(1.0) / s
    share = splat(x * per_s)
    share_left = splat(x / shrink.left * per_s)
    for k in range(0, base.shape[1], WIDTH):
        fetch(delta, next_out + k)
        v = load(sums.u, k)
        b = load(base, row + k)
        c = load(delta, out + k)
        store(delta, out + k, fma(share, v, fma(less_w, b + c, c)))
        store(theta, at + k, fma(share_left, v, load(theta, at + k)))
        store(sums.fresh, k, fma(share, v, load(sums.fresh, k)))


@kernel
def sweep(
    cells: Cells,
    rows: Rows,
    lam: Floats,
    n_all: float,
    theta: Floats,
    delta: Floats,
    work: Workspace,
) -> float:
    """Update all cells of a block in document order (Fig. 3).

    lam: float32[KP], column sums of phi, huge in the padding; n_all: their total; theta: changed in
    place; delta: written whole.

    theta[d, :] is held as ``left`` times what is in the array until the document's end: the shrink
    of line 14 costs one number, not a row. 1/(lam + W beta) is renewed before the tokens that have
    passed since could have changed any topic's by a ``DRIFT``-th part; in a small corpus that is
    before every cell, the figure to the letter.

    Returns the sum of x log(sum_k u_k / (n_d - x + sum alpha)): the words' probability before their
    update, own share taken out.
    """
    (indptr, words, counts) = borrow(cells)
    rows = borrow(rows)
    theta = borrow(theta)
    delta = borrow(delta)
    (base, index, _, of, alpha, spread) = rows
    (per_n_w, topics_of, p) = borrow(work)
    width = base.shape[1]
    sums = Sums(
        borrow(lam),
        topics_of[width : 2 * width],
        topics_of[2 * width : 3 * width],
        topics_of[3 * width : 4 * width],
        topics_of[:width],
    )
    topics_of[width : 4 * width] = 0.0
    per_n_w[:] = 0.0
    # sum of alpha and the number of topics without padding
    alpha_sum = 0.0
    topics = 0
    for k in range(width):
        alpha_sum += alpha[k]
        topics += int(alpha[k] > 0.0)
    one = np.float32(1.0)
    n_cells = len(words)
    ahead = rows_ahead(width)
    per_n_all = np.float32(1.0 / n_all)
    loglik = 0.0
    passed = np.float32(np.inf)
    allowed = np.float32(0.0)
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        at = d * width
        # mass that may pass before 1 / (lam + W beta) is off by a DRIFT-th
        if d % REVIEW == 0:
            allowed = np.float32(DRIFT) * _least(sums.lam, sums.dl, spread, topics)
        n_d = 0.0
        for i in range(first, last):
            n_d += get(counts, i)
        per_n_d = np.float32(1.0 / n_d) if last > first else np.float32(0.0)
        left = one
        for i in range(first, last):
            # prefetch what later cells need; the rows follow in the loops over topics
            if i + 2 * ahead < n_cells:
                word = np.int64(get(words, i + 2 * ahead))
                fetch(index, word)
                fetch(per_n_w, word)
            later = np.int64(get(words, min(i + ahead, n_cells - 1)))
            next_row = get(index, later) * width
            x = np.float32(get(counts, i))
            word = np.int64(get(words, i))
            row = get(index, word) * width
            out = word * width
            # the first cell of the word in the block
            share_w = get(per_n_w, word)
            if share_w == 0.0:
                share_w = _open_word(base, row, delta, out, width)
                per_n_w[word] = share_w
            # lines 13-15: shrink phi_w, lam and theta_d by the cell's share of their mass
            less_w = -min(x * share_w, one)
            if passed + x > allowed:
                passed = np.float32(0.0) if passed == np.inf else passed
                _renew_inverse(passed, x, per_n_all, spread, sums, width)
                passed = np.float32(0.0)
            passed += x
            left *= one - x * per_n_d
            # nearly all of the document is in this cell: write the shrink out
            if left < np.float32(1e-3):
                _scale_row(theta, at, width, max(left, np.float32(0.0)))
                left = one
            # lines 16-17: eta_k = u_k / s
            own = np.int64(get(of, word)) * width
            shrink = Shrink(less_w, left)
            place = Place(row, out, own, at, next_row, later * width)
            s = _weigh(shrink, place, rows, theta, delta, sums)
            p[i - first] = s
            # lines 18-20
            _put_in(x, s, shrink, place, base, theta, delta, sums)
        if last > first:
            loglik += sum_x_log(p, counts, first, last - first, n_d + alpha_sum, 1.0)
        rescale(theta, at, width, n_d)
    return loglik


@kernel
def rescale(theta: Floats, at: int, width: int, n_d: float) -> None:
    """Scale a document's row to its tokens, or zero it without any."""
    acc = splat(0.0)
    for k in range(0, width, WIDTH):
        acc = acc + load(theta, at + k)
    mass = total(acc)
    if n_d > 0.0:
        factor = splat(n_d / mass)
        for k in range(0, width, WIDTH):
            store(theta, at + k, factor * load(theta, at + k))
    else:
        for k in range(0, width, WIDTH):
            store(theta, at + k, splat(0.0))


class ATBP(TinyEngine):
    """Asynchronous tiny belief propagation (``atbp``).

    No messages are stored, and phi changes at the end of each round. Parameters and attributes: see
    ``TinyEngine``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = ATBP(shape, ATBP.Options())
    >>> engine.state["theta"].width  # numbers that are stored of a document
    112

    References
    ----------
    Zeng, Liu & Cao (2012). Memory-efficient topic modeling. arXiv:1206.1147. Fig. 3.
    """

    name = "atbp"
    cites = "Zeng, Liu & Cao, Memory-Efficient Topic Modeling, Fig. 3"
    about = replace(TinyEngine.about, best_from=LONG_ENOUGH)

    def process(self, visit: Visit, out: Out) -> None:
        """Visit a block with the stored theta, or fold theta in first."""
        block = visit.block
        phi = visit.rows["phi"]
        totals = visit.totals["phi"]
        theta = self.theta_of(visit, out)
        (alpha, beta) = self.priors(visit, out)
        if self.sweeps:
            no_delta = np.zeros((0, len(alpha)), np.float32)
            tol = self.options.fold_tol
            self.assign(visit, out, theta, (alpha, beta), self.sweeps, tol, no_delta)
        prior, prior_row, spread = self.word_priors(visit, beta, out)
        sums = totals if self.shape.seeds is None else totals - self.shape.seeds.totals
        lam = out.array("lam")
        lam[:] = sums
        lam[self.shape.topics :] = 1e30  # padding never decides when 1/lam is renewed
        out.stats["loglik"][0] = sweep(
            block.cells,
            Rows(phi.base, phi.counts, prior, prior_row, alpha, spread),
            lam,
            float(sums.sum()),
            theta,
            out.delta["phi"],
            Workspace(out.array("per_n_w"), out.array("work"), out.array("p")),
        )
        out.stats["tokens"][0] = block.tokens
        self.count_for_priors(visit, theta, out)

    def word_priors(
        self, visit: Visit, beta: float, out: Out
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the priors of the block's words.

        The share that is shrunk for a cell must not contain the pseudo-counts of seed words.
        Otherwise phi would have to fall below zero to make up for them.

        Returns
        -------
        ``words``, ``of`` and ``spread`` of ``Rows``.
        """
        seeds = self.shape.seeds
        width = padded(self.shape.topics)
        prior_row = out.array("row of prior")
        prior_row[:] = 0
        spread = np.full(width, self.shape.words * beta, np.float32)
        if seeds is None:
            prior = out.array("priors", (1, width))
            prior[:] = beta
            return prior, prior_row, spread
        seeded, entries = seeds.find(visit.block.vocab)
        prior = out.array("priors", (1 + len(seeded), width))
        prior[:] = beta
        own_rows = 1 + np.arange(len(seeded))
        seeds.add(prior, own_rows, entries)
        prior_row[seeded] = own_rows
        spread += seeds.totals.astype(np.float32)
        return prior, prior_row, spread
