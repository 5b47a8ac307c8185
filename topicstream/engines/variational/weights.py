"""Word weights of a block: exp(E[log phi]) of its words, once per visit (Hughes & Sudderth 2016,
eq. 10 and Alg. 2; Hoffman 2010).

    symbol                                  here
    beta-hat_kw = phi_wk + beta             x = scale * base[index[u], k] + beta
    E[log phi_kw] = psi(beta-hat_kw) - psi(sum_w beta-hat_kw)        (``dirichlet``)
                  = log(beta-hat_kw) - log(sum_w beta-hat_kw)        (``point``: Zeng, Liu & Cao
                  2012; Zeng, Cheung & Liu 2013)
    e[u, k] = exp(E[log phi_kw] - log_scale[u])     rows of e sum to one

A softmax over topics does not see a factor of its word, so each row is scaled by its own: float32
then holds it whatever
the counts are.  What float32 cannot hold (smaller than 1e-37 of the row) is 0 in e and is recovered
                 by ``log_weights``
where a document has nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.kernels.arrays import Doubles, Floats
from topicstream.kernels.digamma import digamma, exp, exp_digamma32, log
from topicstream.kernels.jit import fast_kernel, kernel

LEAST_Z = 1e-20  # below this a cell's normaliser is recomputed in logarithms
LEAST_ROW = 1e-30  # a row of float32 weights whose sum is below this is recomputed in logarithms


class WeightSource(NamedTuple):
    """Where word weights come from: what a cell needs to be done again in logarithms.

    row_of: int64[U], base: float32[R, P], scale: the rows (engines.base.Rows);  beta: prior per
    word;  term: float64[P]
    of ``topic_terms``;  topics: K;  point: log instead of digamma.
    """

    row_of: np.ndarray
    base: np.ndarray
    scale: float
    beta: float
    term: np.ndarray
    topics: int
    point: bool


@kernel
def topic_terms(
    totals: Doubles, width: float, topics: int, point: bool, term: Doubles, factor: Floats
) -> float:
    """Per topic: term[k] = psi(lam_k) (or log lam_k) and factor[k] = exp(min term - term[k]);
    returns min term.

    totals: float64[P], sum_w beta-hat_kw; width = W * beta is added here.  Padding topics get 0 and
    0.
    """
    term[:] = 0.0
    least = np.inf
    for k in range(topics):
        lam = totals[k] + width
        term[k] = log(lam) if point else digamma(lam)
        least = min(least, term[k])
    for k in range(len(factor)):
        factor[k] = exp(least - term[k]) if k < topics else 0.0
    return least


@kernel
def log_weights(src: WeightSource, u: int, out: Doubles) -> None:
    """out[k] = E[log phi_k] of local word u in float64."""
    i = src.row_of[u]
    for k in range(src.topics):
        x = src.scale * src.base[i, k] + src.beta
        out[k] = (log(x) if src.point else digamma(x)) - src.term[k]


@kernel
def _row_in_logarithms(src: WeightSource, u: int, work: Doubles, e: Floats) -> float:
    """The same row of e by way of logarithms; returns its log_scale."""
    log_weights(src, u, work)
    most, total = -np.inf, 0.0
    for k in range(src.topics):
        most = max(most, work[k])
    for k in range(src.topics):
        total += exp(work[k] - most)
    for k in range(e.shape[1]):
        e[u, k] = exp(work[k] - most) / total if k < src.topics else 0.0
    return most + np.log(total)  # type: ignore[no-any-return]


@fast_kernel
def word_weights(
    src: WeightSource, factor: Floats, least: float, work: Doubles, e: Floats, log_scale: Doubles
) -> None:
    """Fill e: float32[U, P] and log_scale: float64[U].  factor: float32[P] and least of
    ``topic_terms``; work: float64[P].
    """
    one, s, b = np.float32(1.0), np.float32(src.scale), np.float32(src.beta)
    base, width = src.base, e.shape[1]
    for u in range(len(src.row_of)):
        i = src.row_of[u]
        total = np.float32(0.0)
        if src.point:
            for k in range(width):
                e[u, k] = (base[i, k] * s + b) * factor[k]
        else:
            for k in range(width):
                e[u, k] = exp_digamma32(base[i, k] * s + b) * factor[k]
        for k in range(width):  # apart from the stores: see kernels/jit.py
            total += e[u, k]
        if total > np.float32(LEAST_ROW):
            inverse = one / total
            for k in range(width):
                y = e[u, k] * inverse
                e[u, k] = y if y > np.float32(1e-37) else np.float32(0.0)
            log_scale[u] = np.log(np.float64(total)) - least
        else:
            log_scale[u] = _row_in_logarithms(src, u, work, e)
