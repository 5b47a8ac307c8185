"""The L-sparse local step: at most L topics a cell.

Hughes & Sudderth (2016), Alg. 2 right. Symbols as in dense.py. The L topics are chosen among the
document's active topics. The first assignment of a cell is its word's L best topics, found once a
block. Then the document's rows are turned into tiles of sixteen cells (tiles.py), which lose the
rows of topics that have left whenever a selection is due. A selection stores the L largest of e * t
in ``kept`` (the others are zero there). Until the next one, an inner iteration runs over ``kept``:
reweighting.

Selections are made in inner iterations 1 to 5 and then every 10th. A topic leaves the document for
good when its weight exp(psi(N_dk + alpha_k)) is below ``leave`` of the largest topic's (unless it
has two tokens or more), or when the first assignment gives it less than two and less than an even
share: such a topic is about to vanish, because psi falls like -1/x (Mimno, Hoffman & Blei 2012).
With leave = 0 it leaves with its last token, which is the paper's rule: slower, and the bound is no
better. Digamma is computed over active topics only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.engines.variational import tiles
from topicstream.engines.variational.choice import collect
from topicstream.engines.variational.columns import (
    change_of,
    keep_columns,
    leave_small,
    shrink_columns,
    weigh_columns,
)
from topicstream.engines.variational.dense import (
    ACCEPTED,
    BOUND,
    CAPPED,
    INNER,
    LOGLIK,
    RESTART_INNER,
    TRIED,
    Effort,
    Words,
    document_bound,
    log_fit,
    smallest_active,
)
from topicstream.engines.variational.statistics import (
    FULL_LISTS,
    LEAST_Z,
    CellLists,
    WeightSource,
    log_weights,
)
from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import Bytes, Doubles, Floats, Ints, Longs, Shorts, borrow
from topicstream.numeric.kernels.dirichlet import digamma, exp, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import take_counts

# selections: inner iterations 1 .. ALWAYS, then every EVERY-th
ALWAYS = 5
EVERY = 10


class Lists(NamedTuple):
    """Limits and the words' best topics.

    most: L; faint: log of ``leave``, -inf: topics leave with their last token; topic, value: from
    ``best_of_words``.
    """

    most: int
    faint: float
    topic: Shorts
    value: Floats


class Buffers(NamedTuple):
    """Scratch arrays of a document.

    own, kept: tiles, float32[(longest + 16) * P + 256], kept twice; lanes: float32[2, P + 16]; acc:
    float32[35 * (P + 16)]; x, z: float32[longest + 32], z twice.
    """

    own: Floats
    kept: Floats
    lanes: Floats
    acc: Floats
    x: Floats
    z: Floats


class Document(NamedTuple):
    """The present document: ``cells`` cells from ``first`` of the block on, ``width`` columns."""

    first: int
    cells: int
    width: int


class Columns(NamedTuple):
    """The present document's tiles, and their columns a: the topics that have not left it.

    Attributes
    ----------
    x
        float32[cells + 32], counts.
    own
        float32[...], tiles of the document's rows of e.
    active
        uint16[P], topic of a column.
    alpha
        float64[P], its prior.
    stays
        int64[P], the columns that stay when others leave.
    tried
        uint8[P]. 1: a restart has emptied it.
    """

    x: Floats
    own: Floats
    active: Shorts
    alpha: Doubles
    stays: Longs
    tried: Bytes


class Assignment(NamedTuple):
    """How the present document's words are assigned to its columns.

    Attributes
    ----------
    used
        float64[P], the N_dk that t and z are made of.
    t
        float32[P], exp(psi(used + alpha)).
    kept
        float32[...], tiles of e: the L largest of e t, zeros elsewhere.
    z
        float32[cells + 32], Z_w = sum_k kept_wk t_k.
    n
        float64[P], the N_dk that follow: sum_w x_w r_wk.
    """

    used: Doubles
    t: Floats
    kept: Floats
    z: Floats
    n: Doubles


class Scratch(NamedTuple):
    """Work arrays: float64[P] twice, float64[4, P], int64[P + P / 16], and ``Buffers.acc``."""

    logs: Doubles
    scores: Doubles
    parts: Doubles
    picks: Longs
    acc: Floats


@kernel
def _hard_top(
    src: WeightSource,
    u: int,
    columns: Columns,
    width: int,
    used: Doubles,
    most: int,
    scratch: Scratch,
) -> float:
    """Compute a hard cell's responsibilities for its ``most`` best topics.

    They go to scores[a] over the columns, by way of logarithms. Returns log Z.
    """
    columns = borrow(columns)
    scratch = borrow(scratch)
    active = columns.active
    alpha = columns.alpha
    work = scratch.logs
    scores = scratch.scores
    log_weights(src, u, work)
    # log r_a up to a constant: E[log phi] + psi(N_da + alpha_a)
    best = -np.inf
    for a in range(width):
        scores[a] = work[active[a]] + digamma(used[a] + alpha[a]) if used[a] > 0.0 else -1e300
        best = max(best, scores[a])
    # mark the largest scores one by one
    left = most
    total = 0.0
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
    # r_a over the marked topics
    for a in range(width):
        scores[a] = exp(scores[a] - best) / total if work[a] > 0.0 else 0.0
    return best + log(total)  # type: ignore[no-any-return]


@kernel
def _first(
    first: int, cells: int, words: Ints, x: Floats, lists: Lists, parts: Doubles, n: Doubles
) -> None:
    """Run inner iteration 1: N_dk from the words' best topics.

    n: float64[P].

    parts: float64[4, P]: neighbours add to different rows, so that none waits for the one before
    it.
    """
    most = lists.most
    width = len(n)
    for part in range(4):
        for k in range(width):
            parts[part, k] = 0.0
    topic_ = pointers.address_of(lists.topic)
    value_ = pointers.address_of(lists.value)
    parts_ = pointers.address_of(parts)
    x_ = pointers.address_of(x)
    # each cell adds x times the shares of its word's topics
    for j in range(cells):
        o = words[first + j] * most
        row = parts_ + 8 * width * (j & 3)
        count = pointers.float_at(x_, j)
        for c in range(o, o + most):
            k = pointers.short_at(topic_, c)
            pointers.put_double(
                row,
                k,
                pointers.double_at(row, k) + np.float64(count * pointers.float_at(value_, c)),
            )
    # N_dk: the four rows' sum
    for k in range(width):
        n[k] = (parts[0, k] + parts[1, k]) + (parts[2, k] + parts[3, k])


@kernel
def _mend(
    of: Words, document: Document, most: int, columns: Columns, now: Assignment, scratch: Scratch
) -> None:
    """Add the hard cells, whose z float32 cannot represent, to n."""
    of = borrow(of)
    columns = borrow(columns)
    now = borrow(now)
    scratch = borrow(scratch)
    (first, cells, count) = document
    for j in range(cells):
        if not now.z[j] > np.float32(LEAST_Z):
            u = of.cells.words[first + j]
            _hard_top(of.src, u, columns, count, now.used, most, scratch)
            for a in range(count):
                now.n[a] += columns.x[j] * scratch.scores[a]


@kernel
def _bound(
    of: Words,
    document: Document,
    most: int,
    hard: bool,
    prior: float,
    columns: Columns,
    now: Assignment,
    scratch: Scratch,
) -> tuple[float, float]:
    """Compute ``document_bound`` over the columns."""
    of = borrow(of)
    columns = borrow(columns)
    now = borrow(now)
    scratch = borrow(scratch)
    (first, cells, count) = document
    words = of.cells.words
    counts = of.cells.counts
    fit = log_fit(first, words, counts, of.log_scale, now.z, cells)
    if hard:
        for j in range(cells):
            if not now.z[j] > np.float32(LEAST_Z):
                i = first + j
                fit += counts[i] * _hard_top(
                    of.src, words[i], columns, count, now.used, most, scratch
                )
    return document_bound(  # type: ignore[no-any-return]
        fit, now.n, now.used, columns.alpha, count, prior, scratch.scores
    )


@kernel
def _begin(
    of: Words, document: Document, lists: Lists, columns: Columns, now: Assignment, parts: Doubles
) -> None:
    """Run inner iteration 1: assign a document's cells to their words' best topics."""
    of = borrow(of)
    columns = borrow(columns)
    now = borrow(now)
    (first, cells, _) = document
    take_counts(of.cells.counts, first, cells, columns.x)
    _first(first, cells, of.cells.words, columns.x, lists, parts, now.n)
    topics = of.src.topics
    if lists.faint > -np.inf:
        leave_small(now.n, topics)
    for k in range(topics):
        columns.active[k] = k
        columns.alpha[k] = of.alpha[k]
        columns.tried[k] = 0


@kernel
def _assign(
    of: Words,
    effort: Effort,
    lists: Lists,
    document: Document,
    columns: Columns,
    now: Assignment,
    scratch: Scratch,
) -> tuple[Document, int, bool, bool]:
    """Iterate until N_dk stands still: topics leave, selections are renewed, N_dk follows from t.

    Returns
    -------
    The document with the columns left, inner iterations, whether there are hard cells, and whether
    N_dk stands still.
    """
    of = borrow(of)
    scratch = borrow(scratch)
    (x, own, active, alpha, stays, _) = borrow(columns)
    (used, t, kept, z, n) = borrow(now)
    (first, cells, count) = document
    full = of.e.shape[1]
    # addresses for what is called once an inner iteration
    words_ = pointers.address_of(of.cells.words) + 4 * first
    own_ = pointers.address_of(own)
    t_ = pointers.address_of(t)
    n_ = pointers.address_of(n)
    used_ = pointers.address_of(used)
    alpha_ = pointers.address_of(alpha)
    acc_ = pointers.address_of(scratch.acc)
    best_ = _after_sums(acc_, full)
    places = tiles.Places(
        own_,
        pointers.address_of(kept),
        t_,
        pointers.address_of(x),
        pointers.address_of(z),
        acc_,
        best_,
        n_,
    )
    inner = 1
    while True:
        # a topic leaves when exp(psi(N_dk + alpha_k)) is small beside the largest one's
        alive = keep_columns(n_, alpha_, count, lists.faint, used_)
        inner += 1
        filling = inner == 2
        selecting = inner <= ALWAYS or inner % EVERY == 0
        before = count
        # tiles over the topics that stay
        if selecting and (filling or alive < count):
            count = shrink_columns(used, alpha, active, count, stays)
        if filling:
            sixteens = tiles.take(stays, count, scratch.picks)
            topics = tiles.TileTopics(pointers.address_of(scratch.picks), sixteens, count)
            e_ = pointers.address_of(of.e)
            rows_ = best_ + 4 * 256
            tiles.fill(e_, full, words_, cells, topics, own_, rows_)
        elif count < before:
            tiles.shrink(cells, before, pointers.address_of(stays), count, own_)
        # t = exp(psi(N_dk + alpha_k)), then r and N_dk over the selected topics
        weigh_columns(used_, alpha_, count, t_)
        hard = tiles.iterate(cells, count, lists.most, selecting, places)
        if hard:
            _mend(of, Document(first, cells, count), lists.most, columns, now, scratch)
        # max |change of N_dk|
        change = change_of(n_, used_, count)
        if change < effort.tol or inner >= effort.most_inner:
            break
    return Document(first, cells, count), inner, hard, change < effort.tol


@kernel(inline="always")
def _after_sums(acc: int, full: int) -> int:
    """Return the address in acc behind what tiles.iterate and tiles.shares take of it."""
    return acc + 4 * (16 * full + 528)


@kernel
def _propose(
    of: Words,
    tol: float,
    lists: Lists,
    document: Document,
    columns: Columns,
    trial: Assignment,
    scratch: Scratch,
) -> tuple[int, bool]:
    """Iterate from trial.n with one selection, and return (iterations, whether cells are hard)."""
    scratch = borrow(scratch)
    (x, own, _, alpha, _, _) = borrow(columns)
    (used, t, kept, z, n) = borrow(trial)
    (_, cells, count) = document
    # addresses for what is called once an inner iteration
    used_ = pointers.address_of(used)
    alpha_ = pointers.address_of(alpha)
    t_ = pointers.address_of(t)
    n_ = pointers.address_of(n)
    acc_ = pointers.address_of(scratch.acc)
    places = tiles.Places(
        pointers.address_of(own),
        pointers.address_of(kept),
        t_,
        pointers.address_of(x),
        pointers.address_of(z),
        acc_,
        _after_sums(acc_, of.e.shape[1]),
        n_,
    )
    inner = 0
    hard = False
    for step in range(RESTART_INNER):
        # t = exp(psi(N_dk + alpha_k)), then r and N_dk over the topics selected first
        keep_columns(n_, alpha_, count, lists.faint, used_)
        weigh_columns(used_, alpha_, count, t_)
        hard = tiles.iterate(cells, count, lists.most, step == 0, places)
        if hard:
            _mend(of, document, lists.most, columns, trial, scratch)
        inner += 1
        if change_of(n_, used_, count) < tol:
            break
    return inner, hard


@kernel
def _write_lists(
    of: Words,
    document: Document,
    columns: Columns,
    now: Assignment,
    scratch: Scratch,
    shares: CellLists,
) -> None:
    """Write x_w r_wk of each cell as a list of at most ``most`` topics."""
    of = borrow(of)
    columns = borrow(columns)
    now = borrow(now)
    scratch = borrow(scratch)
    (first, cells, count) = document
    (most, cell_topic, cell_value) = borrow(shares)
    active = columns.active
    acc = scratch.acc
    width = -(-count // 16) * 16
    for tile in range(-(-cells // 16)):
        tiles.shares(count, now.kept, now.t, columns.x, now.z, tile, acc)  # acc is free now
        for j in range(16 * tile, min(16 * tile + 16, cells)):
            # a hard cell's shares by way of logarithms
            o = (j - 16 * tile) * width
            if not now.z[j] > np.float32(LEAST_Z):
                u = of.cells.words[first + j]
                _hard_top(of.src, u, columns, count, now.used, most, scratch)
                for a in range(count):
                    acc[o + a] = columns.x[j] * scratch.scores[a]
            # those above zero, at most L
            at = (first + j) * most
            collect(acc, o, width, most, cell_topic, cell_value, at)
            # columns become topics
            for a in range(at, at + most):
                if most > FULL_LISTS and cell_value[a] == 0:
                    break
                cell_topic[a] = active[cell_topic[a]]


@kernel
def _visit_documents(
    of: Words,
    effort: Effort,
    lists: Lists,
    reports: Doubles,
    shares: CellLists,
    columns: Columns,
    pair: tuple[Assignment, Assignment],
    scratch: Scratch,
) -> None:
    """Visit every document of a block (parameters: ``sparse_step``).

    pair: work arrays of a document's assignment and of a restart's.
    """
    of = borrow(of)
    lists = borrow(lists)
    shares = borrow(shares)
    columns = borrow(columns)
    scratch = borrow(scratch)
    pair = borrow(pair)
    most = lists.most
    # sum_k alpha_k
    prior = 0.0
    for k in range(of.src.topics):
        prior += of.alpha[k]
    indptr = of.cells.indptr
    for d in range(len(indptr) - 1):
        first = indptr[d]
        cells = indptr[d + 1] - first
        if cells == 0:
            continue
        (now, trial) = pair
        document = Document(first, cells, of.src.topics)
        # inner iterations, and the bound of what they have come to
        _begin(of, document, lists, columns, now, scratch.parts)
        document, inner, hard, still = _assign(of, effort, lists, document, columns, now, scratch)
        count = document.width
        reports[CAPPED] += 0.0 if still else 1.0
        bound, fit = _bound(of, document, most, hard, prior, columns, now, scratch)
        # restart proposals: empty the smallest untried topic, iterate, accept if the bound rises
        for _ in range(effort.restarts):
            candidate = smallest_active(now.n, count, columns.tried)
            if candidate < 0:
                break
            columns.tried[candidate] = 1
            for a in range(count):
                trial.n[a] = now.n[a] if a != candidate else 0.0
            steps, hard_trial = _propose(of, effort.tol, lists, document, columns, trial, scratch)
            inner += steps
            bound_trial, fit_trial = _bound(
                of, document, most, hard_trial, prior, columns, trial, scratch
            )
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
        # x_w r_wk of the document's cells
        _write_lists(of, document, columns, now, scratch, shares)


@kernel
def sparse_step(
    of: Words,
    effort: Effort,
    lists: Lists,
    reports: Doubles,
    shares: CellLists,
    buffers: Buffers,
) -> None:
    """Visit every document of a block.

    reports: see ``dense.dense_step``. shares: receives the topics of each cell and x_w r_wk.
    """
    (own, kept, lanes, acc, x, z) = buffers
    full = of.e.shape[1]
    # scratch of a document, whose arrays the second kernel borrows
    columns = Columns(
        x,
        own,
        np.zeros(full, np.uint16),
        np.zeros(full),
        np.zeros(full, np.int64),
        np.zeros(full, np.uint8),
    )
    scratch = Scratch(
        np.zeros(full),
        np.zeros(full),
        np.zeros((4, full)),
        np.zeros(full + full // 16, np.int64),
        acc,
    )
    # N_dk behind t and z, and N_dk that follows, for the assignment and a restart's
    sums = np.zeros((4, full))
    pair = (
        Assignment(sums[0], lanes[0], kept[0], z[0], sums[1]),
        Assignment(sums[2], lanes[1], kept[1], z[1], sums[3]),
    )
    _visit_documents(of, effort, lists, reports, shares, columns, pair, scratch)
