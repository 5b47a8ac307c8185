"""The message of a document's links (Zeng, Cheung & Liu 2013, eq. 28 and 29), which engines/message/messages.py weighs in.

Shapes: as in messages.py; the links of document d are local[ptr[d]] .. local[ptr[d + 1] - 1], rows of theta (of the pass
before) at theta[row[local]]; link, sums float32[D, Kp]; weight float32[D], the sum of a document's link message, 0 where it
has none.
"""

from __future__ import annotations

import numpy as np

from topicstream.engines.message.messages import gather_theta
from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs
from topicstream.kernels.jit import fast_kernel

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@fast_kernel
def link_messages(
    ptr: Longs,
    local: Ints,
    theta: Floats,
    row: Longs,
    eta: Floats,
    renormalise: bool,
    link: Floats,
    sums: Floats,
    weight: Floats,
) -> None:
    """Eq. (29) of every document of a block: the mean over its linked documents that have words of eta theta_d' / n_d'.

    eta: float32[K, K]; renormalise: scale a document's message to the sum 1.  sums gets the linked documents' theta added up,
    not normalised: what eq. (28) needs.
    """
    k_all = eta.shape[0]
    mean = np.empty(k_all, np.float32)
    for d in range(len(ptr) - 1):
        mean[:] = _ZERO
        link[d] = _ZERO
        sums[d] = _ZERO
        weight[d] = _ZERO
        degree = 0
        for e in range(ptr[d], ptr[d + 1]):
            other = theta[row[local[e]]]
            n = _ZERO
            for k in range(k_all):
                n += other[k]
            if n > _ZERO:
                degree += 1
                scale = _ONE / n
                for k in range(k_all):
                    mean[k] += scale * other[k]
                    sums[d, k] += other[k]
        if degree == 0:
            continue
        each = _ONE / np.float32(degree)
        whole = _ZERO
        for k in range(k_all):
            s = _ZERO
            for j in range(k_all):
                s += eta[k, j] * mean[j]
            link[d, k] = each * s
        for k in range(k_all):
            whole += link[d, k]
        weight[d] = whole
        if renormalise and whole > _ZERO:
            for k in range(k_all):
                link[d, k] /= whole
            weight[d] = _ONE


@fast_kernel
def link_products(before: Floats, sums: Floats, pairs: Doubles) -> None:
    """pairs[k, j] += before[d, k] sums[d, j]: the numerator of eq. (28), both directions of each link, in float64."""
    k_all = before.shape[1]
    for d in range(len(before)):
        for k in range(k_all):
            own = np.float64(before[d, k])
            if own > 0.0:
                for j in range(k_all):
                    pairs[k, j] += own * sums[d, j]


@fast_kernel
def own_theta(indptr: Longs, counts: Array, messages: Floats, thetas: Floats) -> None:
    """thetas[d] = sum of x mu over the cells of document d, float32[D, K]."""
    for d in range(len(indptr) - 1):
        gather_theta(indptr[d], indptr[d + 1], counts, messages, thetas[d])
