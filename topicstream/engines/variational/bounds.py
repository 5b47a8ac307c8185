"""Terms of the evidence lower bound (Hughes & Sudderth 2016, eq. 42-49)."""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.statistics import WeightSource, log_weights
from topicstream.numeric.kernels.arrays import Array, Doubles, Floats
from topicstream.numeric.kernels.dirichlet import lgamma, log, log_gamma
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.sums import (
    fma_doubles,
    load_doubles,
    splat_doubles,
    total_doubles,
)


@kernel
def _logs(e: Floats, u: int, work: Doubles, held: Doubles) -> None:
    """Store work[k] = log e[u, k] and held[k] = 1, or 0 and 0 where e is 0.

    A separate loop becomes SIMD code.
    """
    for k in range(len(work)):
        v = np.float64(e[u, k])
        work[k] = log(v if v > 0.0 else 1.0)
        held[k] = 1.0 if v > 0.0 else 0.0


@kernel
def data_term(src: WeightSource, e: Floats, log_scale: Doubles, stat: Floats) -> float:
    """Sum stat[u, k] E[log phi_uk] over a block in float64.

    stat: expected counts [U, P]; e, log_scale: word weights of the block.
    """
    total = 0.0
    work = np.empty(e.shape[1])
    held = np.empty(e.shape[1])
    nothing = splat_doubles(0.0)
    one = splat_doubles(1.0)
    for u in range(len(log_scale)):
        _logs(e, u, work, held)
        # sums over topics of s log e, of s where e is not 0, and of the other s
        row = nothing
        mass = nothing
        lost = nothing
        first = u * stat.shape[1]
        for k in range(0, src.topics, 8):
            s = load_doubles(stat, first + k, first + src.topics)
            h = load_doubles(held, k, src.topics)
            row = fma_doubles(s, load_doubles(work, k, src.topics), row)
            mass = fma_doubles(s, h, mass)
            lost = fma_doubles(s, one - h, lost)
        total += total_doubles(row) + total_doubles(mass) * log_scale[u]
        if total_doubles(lost) > 0.0:  # a weight is too small for float32
            log_weights(src, u, work)
            for k in range(src.topics):
                if e[u, k] == 0.0 and stat[u, k] > 0.0:
                    total += stat[u, k] * work[k]
    return total


@kernel
def rows_bound(rows: Array, beta: float, topics: int) -> float:
    """Sum lgamma(beta-hat) - lgamma(beta) over rows and topics in float64.

    It is the words' part of log B(beta-hat) - log B(beta).
    """
    total = 0.0
    zero = lgamma(beta)
    for i in range(rows.shape[0]):
        row = 0.0
        for k in range(topics):
            row += lgamma(rows[i, k] + beta) - zero
        total += row
    return total


def totals_bound(totals: np.ndarray, width: float) -> float:
    """Sum lgamma(W beta) - lgamma(sum_w beta-hat_kw) over topics.

    It is the topics' part of log B(beta-hat) - log B(beta). width = W beta; totals: float64[K],
    without it.
    """
    return float(np.cumsum(log_gamma(np.array([width])) - log_gamma(totals + width))[-1])
