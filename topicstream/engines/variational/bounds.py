"""Terms of the evidence lower bound (Hughes & Sudderth 2016, eq. 42-49)."""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.statistics import WeightSource, log_weights
from topicstream.numeric.kernels.arrays import Array, Doubles, Floats
from topicstream.numeric.kernels.dirichlet import lgamma, log, log_gamma
from topicstream.numeric.kernels.jit import fast_kernel, kernel


@kernel
def _logs(e: Floats, u: int, work: Doubles) -> None:
    """Store work[k] = log e[u, k], or 0 where e is 0.

    A separate loop becomes SIMD code.
    """
    for k in range(len(work)):
        v = np.float64(e[u, k])
        work[k] = log(v if v > 0.0 else 1.0)


@fast_kernel
def data_term(src: WeightSource, e: Floats, log_scale: Doubles, stat: Floats) -> float:
    """Sum stat[u, k] E[log phi_uk] over a block in float64.

    stat: expected counts [U, P]; e, log_scale: word weights of the block.
    """
    total = 0.0
    work = np.empty(e.shape[1])
    for u in range(len(log_scale)):
        _logs(e, u, work)
        row = 0.0
        mass = 0.0
        lost = 0.0
        for k in range(src.topics):
            s = np.float64(stat[u, k])
            held = 1.0 if e[u, k] > 0.0 else 0.0
            row += s * work[k]
            mass += s * held
            lost += s * (1.0 - held)
        total += row + mass * log_scale[u]
        if lost > 0.0:  # a weight is too small for float32
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
