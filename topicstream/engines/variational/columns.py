"""The columns of a document in the sparse local step: the topics that have not left it.

A topic leaves for good when its weight exp(psi(N_dk + alpha_k)) is small beside the largest one's:
see ``sparse.py``, whose arrays these are.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.variational.dense import LEAST_T
from topicstream.numeric.kernels import arrays as pointers
from topicstream.numeric.kernels.arrays import Doubles, Longs, Shorts
from topicstream.numeric.kernels.dirichlet import exp, exp_digamma, log
from topicstream.numeric.kernels.jit import kernel

EPSILON = 1e-10  # tokens: less is none
SURE = 0.5  # psi of a topic that does not leave whatever the largest one's
SMALL = 1.9  # tokens of a topic after the first assignment, an even share of the document's at most


@kernel
def weigh_columns(used: int, alpha: int, count: int, t: int) -> None:
    """Store t[a] = exp(psi(used[a] + alpha[a])), zero for topics that have left.

    All arguments are addresses.
    """
    for a in range(count):
        n = pointers.double_at(used, a)
        y = exp_digamma(n + pointers.double_at(alpha, a))
        pointers.put_float(t, a, np.float32(y if y > LEAST_T and n > 0.0 else 0.0))


@kernel
def shrink_columns(used: Doubles, alpha: Doubles, active: Shorts, count: int, stays: Longs) -> int:
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
def keep_columns(n: int, alpha: int, count: int, faint: float, used: int) -> int:
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
def leave_small(n: Doubles, topics: int) -> None:
    """Zero topics with less than ``SMALL`` tokens and less than an even share."""
    mass = 0.0
    for k in range(topics):
        mass += n[k]
    least = min(SMALL, mass / topics)
    for k in range(topics):
        if n[k] < least:
            n[k] = 0.0


@kernel
def change_of(n: int, used: int, count: int) -> float:
    """Compute max |n - used| (addresses)."""
    change = 0.0
    for a in range(count):
        change = max(change, abs(pointers.double_at(n, a) - pointers.double_at(used, a)))
    return change
