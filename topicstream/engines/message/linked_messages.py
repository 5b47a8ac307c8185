"""Message updates that see the topics of linked documents (Zeng, Cheung & Liu 2013, section 4).

Eq. (30), the message of a cell (word w, document d, count x), own = x mu its own share, n_d the document's tokens:

    mu_k  ~  [(1 - xi) (theta_dk - own_k + alpha_k) + xi (n_d - x + sum alpha) m_dk] (phi_wk - own_k + beta) / (lam_k - own_k + W beta)

which is the paper's update times n_d - x + sum alpha, so that without links, or with xi = 0, it is that of
engines/message/messages.py, term by term.  m_d (eq. 29) is ``link`` here.

Shapes: as in engines/message/messages.py; the links of document d are local[ptr[d]] .. local[ptr[d + 1] - 1], rows of theta (of the
pass before) at theta[row[local]]; link, sums float32[D, Kp]; weight float32[D], the sum of a document's link message, 0
where it has none.
"""

from __future__ import annotations

import math

import numpy as np

from topicstream.engines.message.messages import _gather_theta, _move
from topicstream.kernels.arrays import Array, Doubles, Float, Floats, Ints, Longs
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
        _gather_theta(indptr[d], indptr[d + 1], counts, messages, thetas[d])


@fast_kernel
def _weigh_linked(
    x: float,
    mu: Floats,
    theta: Floats,
    alpha: Floats,
    phi: Floats,
    change: Floats,
    beta: float,
    lam: Floats,
    a: float,
    b: float,
    link: Floats,
    p: Floats,
) -> Float:
    """p[k] = the unnormalised message; returns its sum.  a, b: what theta and the links weigh."""
    s = _ZERO
    for k in range(len(p)):
        o = x * mu[k]
        t = theta[k] - o
        f = phi[k] + change[k] - o
        t = (t if t > _ZERO else _ZERO) + alpha[k]
        f = (f if f > _ZERO else _ZERO) + beta
        p[k] = (a * t + b * link[k]) * f / (lam[k] - o)
    for k in range(len(p)):
        s += p[k]
    return s


@fast_kernel
def _from_links(x: float, mu: Floats, phi: Floats, change: Floats, beta: float, lam: Floats, link: Floats) -> Float:
    """What the links alone say of the cell's word: the sum over k of link_k p(w|k)."""
    s = _ZERO
    for k in range(len(link)):
        o = x * mu[k]
        f = phi[k] + change[k] - o
        s += link[k] * ((f if f > _ZERO else _ZERO) + beta) / (lam[k] - o)
    return s


@fast_kernel
def linked_visit(
    indptr: Longs, words: Ints, counts: Array, base: Floats, index: Longs, totals: Doubles, old: Floats, new: Floats,
    delta: Floats, alpha: Floats, beta: float, smooth: float, xi: float, link: Floats, weight: Floats, moving: bool,
    learning: bool, before: Floats,
    thetas: Floats, told: Doubles,
) -> float:  # fmt: skip
    """One visit; returns the sum of x log p(w) in nats, p the mixture of both factors just before each update.

    moving     True: theta, phi and lam move after each cell (delta gets the changes); False: every message comes from the
               sums of the pass before (delta gets the whole contribution)
    before, thetas  float32[D, K]: the documents' sums of the old messages, of the new ones
    told       float64[2] gains the tokens of documents with a link message and, if learning, those that the links explain
    """
    k_all = old.shape[1]
    lam, p, mass = np.empty(k_all, np.float32), np.empty(k_all, np.float32), np.float64(0.0)
    nothing = np.zeros(k_all, np.float32)
    for k in range(k_all):
        lam[k] = totals[k] + smooth
    for k in range(k_all):
        mass += alpha[k]
    delta[:] = _ZERO
    loglik = 0.0
    for d in range(len(indptr) - 1):
        n = _gather_theta(indptr[d], indptr[d + 1], counts, old, before[d])
        theta, own, z = thetas[d], link[d][:k_all], np.float64(weight[d])
        if moving:
            theta[:] = before[d]
        else:
            theta[:] = _ZERO
        a, b = 1.0, 0.0
        if z > 0.0:
            a, b = 1.0 - xi, xi
            told[0] += n
        for i in range(indptr[d], indptr[d + 1]):
            x = np.float32(counts[i])
            rest = n - x + mass
            phi, row, scaled = base[index[words[i]]], delta[words[i]][:k_all], np.float32(b * rest)
            if moving:
                s = _weigh_linked(x, old[i], theta, alpha, phi, row, beta, lam, np.float32(a), scaled, own, p)
            else:
                s = _weigh_linked(x, old[i], before[d], alpha, phi, nothing, beta, lam, np.float32(a), scaled, own, p)
            if learning and b > 0.0:
                told[1] += (
                    float(x)
                    * float(scaled)
                    * _from_links(x, old[i], phi, row if moving else nothing, beta, lam, own)
                    / s
                )
            loglik += float(x) * math.log(s / (rest * (a + b * z)))
            if moving:
                _move(x, _ONE / s, p, old[i], new[i], theta, row, lam)
            else:
                scale = _ONE / s
                for k in range(k_all):
                    m = scale * p[k]
                    new[i, k] = m
                    row[k] += x * m
                    theta[k] += x * m
    return loglik
