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
from topicstream.engines.variational.dense import (
    ACCEPTED,
    BOUND,
    CAPPED,
    INNER,
    LEAST_T,
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
    WeightSource,
    log_weights,
)
from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import Doubles, Floats, Ints, Longs, Shorts
from topicstream.numeric.kernels.dirichlet import digamma, exp, exp_digamma, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import take_counts

EPSILON = 1e-10  # tokens: less is none
SURE = 0.5  # psi of a topic that does not leave whatever the largest one's
SMALL = 1.9  # tokens of a topic after the first assignment, an even share of the document's at most
# selections: inner iterations 1 .. ALWAYS, then every EVERY-th
ALWAYS = 5
EVERY = 10


@kernel
def _hard_top(
    src: WeightSource,
    u: int,
    active: Shorts,
    width: int,
    used: Doubles,
    alpha: Doubles,
    most: int,
    work: Doubles,
    scores: Doubles,
) -> float:
    """Compute a hard cell's responsibilities for its ``most`` best topics.

    They go to scores[a] over the columns, by way of logarithms. Returns log Z.
    """
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
    first: int,
    cells: int,
    words: Ints,
    x: Floats,
    most: int,
    topic: Shorts,
    value: Floats,
    parts: Doubles,
    n: Doubles,
) -> None:
    """Run inner iteration 1: N_dk from the words' best topics.

    n: float64[P].

    parts: float64[4, P]: neighbours add to different rows, so that none waits for the one before
    it.
    """
    width = len(n)
    for part in range(4):
        for k in range(width):
            parts[part, k] = 0.0
    topic_ = pointers.address_of(topic)
    value_ = pointers.address_of(value)
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
    for k in range(width):
        n[k] = (parts[0, k] + parts[1, k]) + (parts[2, k] + parts[3, k])


@kernel
def _weigh(used: int, alpha: int, count: int, t: int) -> None:
    """Store t[a] = exp(psi(used[a] + alpha[a])), zero for topics that have left.

    All arguments are addresses.
    """
    for a in range(count):
        n = pointers.double_at(used, a)
        y = exp_digamma(n + pointers.double_at(alpha, a))
        pointers.put_float(t, a, np.float32(y if y > LEAST_T and n > 0.0 else 0.0))


@kernel
def _shrink(used: Doubles, alpha: Doubles, active: Shorts, count: int, stays: Longs) -> int:
    """Remove the topics with used = 0 in place and return how many remain.

    The tiles are left to the caller.
    """
    left = 0
    for a in range(count):
        if used[a] > 0.0:
            used[left] = used[a]
            alpha[left] = alpha[a]
            active[left] = active[a]
            stays[left] = a
            left += 1
    return left


@kernel
def _alive(n: int, alpha: int, count: int, faint: float, used: int) -> int:
    """Store used = n for the topics that stay, else 0.

    All arguments are addresses. faint: log of ``leave``.

    Returns how many stay.
    """
    most = 0.0
    for a in range(count):
        v = pointers.double_at(n, a)
        most = max(most, v + pointers.double_at(alpha, a) if v > 0.0 else 0.0)
    y = min(log(most) + faint, SURE)
    # psi(least) = y, nearly (Minka 2000)
    least = exp(y) + 0.5 if y > -2.22 else -1.0 / (y + 0.5772)
    least = min(least, most)  # the largest stays whatever its weight
    alive = 0
    for a in range(count):
        v = pointers.double_at(n, a)
        stays = v > EPSILON and v + pointers.double_at(alpha, a) >= least
        pointers.put_double(used, a, v if stays else 0.0)
        alive += 1 if stays else 0
    return alive


@kernel
def _leave_small(n: Doubles, topics: int) -> None:
    """Zero topics with less than ``SMALL`` tokens and less than an even share."""
    mass = 0.0
    for k in range(topics):
        mass += n[k]
    least = min(SMALL, mass / topics)
    for k in range(topics):
        if n[k] < least:
            n[k] = 0.0


@kernel
def _change(n: int, used: int, count: int) -> float:
    """Compute max |n - used| (addresses)."""
    change = 0.0
    for a in range(count):
        change = max(change, abs(pointers.double_at(n, a) - pointers.double_at(used, a)))
    return change


@kernel
def _mend(
    src: WeightSource,
    first: int,
    cells: int,
    words: Ints,
    x: Floats,
    z: Floats,
    active: Shorts,
    count: int,
    used: Doubles,
    alpha: Doubles,
    most: int,
    logs: Doubles,
    scores: Doubles,
    n: Doubles,
) -> None:
    """Add the hard cells, whose z float32 cannot represent, to n."""
    for j in range(cells):
        if not z[j] > np.float32(LEAST_Z):
            _hard_top(src, words[first + j], active, count, used, alpha, most, logs, scores)
            for a in range(count):
                n[a] += x[j] * scores[a]


@kernel
def _bound(
    src: WeightSource,
    first: int,
    cells: int,
    words: Ints,
    counts: Ints,
    log_scale: Doubles,
    z: Floats,
    used: Doubles,
    n: Doubles,
    alpha: Doubles,
    prior: float,
    active: Shorts,
    width: int,
    hard: bool,
    most: int,
    logs: Doubles,
    scores: Doubles,
) -> tuple[float, float]:
    """Compute ``document_bound`` over the columns."""
    fit = log_fit(first, words, counts, log_scale, z, cells)
    if hard:
        for j in range(cells):
            if not z[j] > np.float32(LEAST_Z):
                u = words[first + j]
                fit += counts[first + j] * _hard_top(
                    src, u, active, width, used, alpha, most, logs, scores
                )
    return document_bound(fit, n, used, alpha, width, prior, scores)  # type: ignore[no-any-return]


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


@kernel
def sparse_step(
    of: Words,
    effort: Effort,
    lists: Lists,
    reports: Doubles,
    cell_topic: Shorts,
    cell_value: Floats,
    buffers: Buffers,
) -> None:
    """Visit every document of a block.

    reports: see ``dense.dense_step``.

    cell_topic, cell_value   uint16 and float32 [nnz * L + 16]: topics of each cell and x_w r_wk (0
                             ends the list)
    """
    src, (indptr, words, counts), e, log_scale, alpha = of
    tol, most_inner, restarts = effort
    (most, faint, best_topic, best_value) = lists
    (own, kept_of, lanes, acc, x, z_of) = buffers
    full = e.shape[1]
    topics = src.topics
    t = lanes[0]
    t_trial = lanes[1]
    n = np.zeros(full)
    used = np.zeros(full)
    n_trial = np.zeros(full)
    used_trial = np.zeros(full)
    logs = np.zeros(full)
    scores = np.zeros(full)
    columns = np.zeros(full)
    tried = np.zeros(full, np.uint8)
    parts = np.zeros((4, full))
    active = np.zeros(full, np.uint16)
    stays = np.zeros(full, np.int64)
    picks = np.zeros(full + full // 16, np.int64)
    # addresses; the arrays made here stay alive because the loop below uses them too
    e_ = pointers.address_of(e)
    own_ = pointers.address_of(own)
    x_ = pointers.address_of(x)
    acc_ = pointers.address_of(acc)
    columns_ = pointers.address_of(columns)
    stays_ = pointers.address_of(stays)
    picks_ = pointers.address_of(picks)
    best_ = acc_ + 4 * (16 * full + 528)  # behind what tiles.iterate and tiles.shares take of acc
    rows_ = best_ + 4 * 256
    prior = 0.0
    for k in range(topics):
        prior += alpha[k]
    for d in range(len(indptr) - 1):
        first = indptr[d]
        last = indptr[d + 1]
        cells = last - first
        if cells == 0:
            continue
        z = z_of[0]
        z_trial = z_of[1]
        kept = kept_of[0]
        kept_trial = kept_of[1]
        words_ = pointers.address_of(words) + 4 * first
        z_ = pointers.address_of(z)
        kept_ = pointers.address_of(kept)
        t_ = pointers.address_of(t)
        n_ = pointers.address_of(n)
        used_ = pointers.address_of(used)
        # first assignment: N_dk from the words' best topics
        take_counts(counts, first, cells, x)
        _first(first, cells, words, x, most, best_topic, best_value, parts, n)
        if faint > -np.inf:
            _leave_small(n, topics)
        count = topics
        inner = 1
        hard = False
        change = np.inf
        for k in range(topics):
            active[k] = k
            columns[k] = alpha[k]
            tried[k] = 0
        # inner iterations: topics leave, selections are renewed, N_dk follows from t
        while True:
            alive = _alive(n_, columns_, count, faint, used_)
            inner += 1
            filling = inner == 2
            selecting = inner <= ALWAYS or inner % EVERY == 0
            rows_of = count
            # tiles over the topics that stay
            if selecting and (filling or alive < count):
                count = _shrink(used, columns, active, count, stays)
            if filling:
                tiles.fill(
                    e_,
                    full,
                    words_,
                    cells,
                    picks_,
                    tiles.take(stays, count, picks),
                    count,
                    own_,
                    rows_,
                )
            elif count < rows_of:
                tiles.shrink(cells, rows_of, stays_, count, own_)
            # t = exp(psi(N_dk + alpha_k)), then r and N_dk over the selected topics
            _weigh(used_, columns_, count, t_)
            hard = tiles.iterate(
                cells, count, most, selecting, own_, kept_, t_, x_, z_, acc_, best_, n_
            )
            if hard:
                _mend(
                    src,
                    first,
                    cells,
                    words,
                    x,
                    z,
                    active,
                    count,
                    used,
                    columns,
                    most,
                    logs,
                    scores,
                    n,
                )
            change = _change(n_, used_, count)
            if change < tol or inner >= most_inner:
                break
        reports[CAPPED] += 0.0 if change < tol else 1.0
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
            count,
            hard,
            most,
            logs,
            scores,
        )
        # restart proposals: empty the smallest untried topic, iterate, accept if the bound rises
        for _ in range(restarts):
            candidate = smallest_active(n, count, tried)
            if candidate < 0:
                break
            tried[candidate] = 1
            trial_ = pointers.address_of(n_trial)
            used_trial_ = pointers.address_of(used_trial)
            t_trial_ = pointers.address_of(t_trial)
            z_trial_ = pointers.address_of(z_trial)
            kept_trial_ = pointers.address_of(kept_trial)
            for a in range(count):
                n_trial[a] = n[a] if a != candidate else 0.0
            hard_trial = False
            for step in range(RESTART_INNER):
                _alive(trial_, columns_, count, faint, used_trial_)
                _weigh(used_trial_, columns_, count, t_trial_)
                selecting = step == 0
                hard_trial = tiles.iterate(
                    cells,
                    count,
                    most,
                    selecting,
                    own_,
                    kept_trial_,
                    t_trial_,
                    x_,
                    z_trial_,
                    acc_,
                    best_,
                    trial_,
                )
                if hard_trial:
                    _mend(
                        src,
                        first,
                        cells,
                        words,
                        x,
                        z_trial,
                        active,
                        count,
                        used_trial,
                        columns,
                        most,
                        logs,
                        scores,
                        n_trial,
                    )
                change = _change(trial_, used_trial_, count)
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
                count,
                hard_trial,
                most,
                logs,
                scores,
            )
            reports[TRIED] += 1.0
            if bound_trial > bound:
                reports[ACCEPTED] += 1.0
                bound = bound_trial
                fit = fit_trial
                hard = hard_trial
                z, z_trial, kept, kept_trial, t, t_trial = z_trial, z, kept_trial, kept, t_trial, t
                n, n_trial, used, used_trial = n_trial, n, used_trial, used
        # the reports, then x_w r_wk of each cell as a list of at most L topics
        reports[BOUND] += bound
        reports[LOGLIK] += fit
        reports[INNER] += inner
        width = -(-count // 16) * 16
        for tile in range(-(-cells // 16)):
            tiles.shares(count, kept, t, x, z, tile, acc)  # acc is free now
            for j in range(16 * tile, min(16 * tile + 16, cells)):
                o = (j - 16 * tile) * width
                if not z[j] > np.float32(LEAST_Z):
                    _hard_top(
                        src, words[first + j], active, count, used, columns, most, logs, scores
                    )
                    for a in range(count):
                        acc[o + a] = x[j] * scores[a]
                at = (first + j) * most
                collect(acc, o, width, most, cell_topic, cell_value, at)
                for a in range(at, at + most):
                    if most > FULL_LISTS and cell_value[a] == 0:
                        break
                    cell_topic[a] = active[cell_topic[a]]
