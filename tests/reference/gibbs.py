"""The Gibbs conditional of Yao, Mimno & McCallum 2009, densely and slowly: every topic weighed for
every token, from plain count arrays.

``sweep`` draws in SparseLDA's order of search (the word's topics by its list, then the document's,
then all), so with the same uniforms it must give the same topics; the lists are kept as the sampler
keeps them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.rng import bits, step, stream, uniform


def conditional(
    n_td: np.ndarray, n_wt: np.ndarray, n_t: np.ndarray, alpha: np.ndarray, beta: float, words: int
) -> np.ndarray:
    """Eq. (5), unnormalised, float64[K]; the token's own topic is out of all three counts
    already.
    """
    return (alpha + n_td) * (beta + n_wt) / (beta * words + n_t)


def buckets(
    n_td: np.ndarray, n_wt: np.ndarray, n_t: np.ndarray, alpha: np.ndarray, beta: float, words: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The terms of s, r and q: eq. (7) to (9), float64[K] each."""
    below = beta * words + n_t
    return alpha * beta / below, n_td * beta / below, (alpha + n_td) * n_wt / below


def leave(row: list[list[int]], topic: int) -> None:
    """Take one from a row [[count, topic], ...]: exchange with the last entry of equal count, then
    count down.
    """
    p = next(i for i, e in enumerate(row) if e[1] == topic)
    count = row[p][0]
    last = max(i for i, e in enumerate(row) if e[0] == count and i >= p)
    if count == 1:
        last = len(row) - 1
    row[p], row[last] = row[last], row[p]
    row[last] = [count - 1, topic]
    if count == 1:
        row.pop()


def join(row: list[list[int]], topic: int) -> None:
    """Add one: exchange with the first entry of equal count, then count up; a new topic
    comes last.
    """
    p = next((i for i, e in enumerate(row) if e[1] == topic), -1)
    if p < 0:
        row.append([1, topic])
        return
    count = row[p][0]
    first = min(i for i, e in enumerate(row) if e[0] == count)
    row[p], row[first] = row[first], row[p]
    row[first] = [count + 1, topic]


class Swept(NamedTuple):
    """Topics after the sweep, the draws by bucket, and how near a draw came to a boundary (as a
    share of its total).
    """

    z: np.ndarray
    draws: np.ndarray
    nearest: float


def sweep(
    indptr: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    z: np.ndarray,
    lists: list[list[list[int]]],
    vocabulary: int,
    alpha: np.ndarray,
    beta: float,
    seed: int,
    pass_number: int,
    first_doc: int,
) -> Swept:
    """One sweep; ``lists``: the packed rows as [[count, topic], ...] of each word (changed)."""
    k = len(alpha)
    z = z.astype(np.int64)
    n_wt = np.zeros((len(lists), k))
    for u, row in enumerate(lists):
        for count, topic in row:
            n_wt[u, topic] = count
    n_t = n_wt.sum(0)
    draws = np.zeros(3)
    nearest = 1.0
    i = 0
    for d in range(len(indptr) - 1):
        state = np.uint64(stream(seed, pass_number, first_doc + d))
        cells = range(indptr[d], indptr[d + 1])
        n_d = int(sum(counts[c] for c in cells))
        n_td = np.bincount(z[i : i + n_d], minlength=k).astype(float)
        doc_list = list(dict.fromkeys(z[i : i + n_d].tolist()))
        for c in cells:
            u = words[c]
            for _ in range(counts[c]):
                old = int(z[i])
                order = [t for _, t in lists[u]]
                n_wt[u, old] -= 1
                n_td[old] -= 1
                n_t[old] -= 1
                s, r, q = buckets(n_td, n_wt[u], n_t, alpha, beta, vocabulary)
                full = conditional(n_td, n_wt[u], n_t, alpha, beta, vocabulary)
                np.testing.assert_allclose(s + r + q, full, rtol=1e-12)
                state = np.uint64(step(state))
                x = uniform(np.uint64(bits(state))) * full.sum()
                steps = (
                    [(0, t, q[t]) for t in order]
                    + [(1, t, r[t]) for t in doc_list]
                    + [(2, t, s[t]) for t in range(k)]
                )
                ends = np.cumsum([w for _, _, w in steps])
                at = min(int(np.searchsorted(ends, x, side="right")), len(steps) - 1)
                nearest = min(nearest, float(np.abs(ends[:-1] - x).min() / full.sum()))
                bucket, new, _ = steps[at]
                draws[2 - bucket] += 1
                n_wt[u, new] += 1
                n_td[new] += 1
                n_t[new] += 1
                if new != old:
                    leave(lists[u], old)
                    join(lists[u], new)
                    if n_td[old] == 0:
                        doc_list[doc_list.index(old)] = doc_list[-1]
                        doc_list.pop()
                    if new not in doc_list:
                        doc_list.append(new)
                z[i] = new
                i += 1
    return Swept(z, draws, nearest)


def joint_loglik(
    z_docs: list[np.ndarray], n_wt: np.ndarray, alpha: np.ndarray, beta: float
) -> float:
    """log p(w, z) from scratch (Griffiths & Steyvers 2004, eq.

    2 and 3, with an asymmetric alpha).
    """
    from scipy.special import gammaln

    words = n_wt.shape[0]
    total = 0.0
    for z in z_docs:
        n = np.bincount(z, minlength=len(alpha))
        total += (
            gammaln(alpha.sum())
            - gammaln(alpha.sum() + n.sum())
            + (gammaln(alpha + n) - gammaln(alpha)).sum()
        )
    total += (gammaln(words * beta) - gammaln(words * beta + n_wt.sum(0))).sum()
    return float(total + (gammaln(beta + n_wt) - gammaln(beta)).sum())
