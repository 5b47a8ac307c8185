"""Training in miniature, on a sample of documents held in memory: what the start ``best`` compares seeds by."""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Doubles, Floats, Ints, Longs
from topicstream.kernels.digamma import log
from topicstream.kernels.jit import fast_kernel


@fast_kernel
def short_training(
    indptr: Longs,
    words: Ints,
    counts: Doubles,
    phi: Floats,
    nxt: Floats,
    totals: Doubles,
    theta: Floats,
    share: Floats,
    alpha: float,
    beta: float,
    sweeps: int,
) -> float:
    """``sweeps`` sweeps of smoothed PLSA (simplified BP of Zeng, Cheung & Liu 2013, Fig. 4) over a sample; the perplexity of the last.

    indptr int64[D+1], words int32 (rows of phi), counts float64; phi, nxt: float32[U, KP], the seeds on entry, the topics'
    counts in phi on return, padding zero; totals float64[KP], their column sums, likewise; theta float32[D, KP] and share
    float32[KP]: work.  alpha, beta: priors a topic and a word.  A document's shares are brought up to date once with the
    topics fixed and then with the visit that counts, so a sweep costs two visits of every cell.
    """
    docs, width = len(indptr) - 1, phi.shape[1]
    topics = 0
    for k in range(width):
        topics += totals[k] > 0
    inverse, own, mu = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    added = np.empty(width)
    for d in range(docs):
        length = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            length += counts[j]
        for k in range(width):
            theta[d, k] = length / topics
    loglik, tokens = 0.0, 0.0
    prior = np.float32(beta)
    for _ in range(sweeps):
        loglik, tokens = 0.0, 0.0
        for k in range(width):
            inverse[k] = 1.0 / (totals[k] + len(phi) * beta) if totals[k] > 0 else 0.0
            added[k] = 0.0
        nxt[:] = 0
        for d in range(docs):
            length = 0.0
            for visit in range(2):
                for k in range(width):
                    share[k] = (theta[d, k] + np.float32(alpha)) * inverse[k]
                    own[k] = 0
                length = 0.0
                for j in range(indptr[d], indptr[d + 1]):
                    w = words[j]
                    z = np.float32(0)
                    for k in range(width):
                        mu[k] = share[k] * (phi[w, k] + prior)
                    for k in range(width):  # apart from the stores: see kernels/jit.py
                        z += mu[k]
                    scale = np.float32(counts[j]) / z
                    for k in range(width):
                        own[k] += mu[k] * scale
                    length += counts[j]
                    if visit == 1:
                        loglik += counts[j] * log(np.float64(z))
                        for k in range(width):
                            nxt[w, k] += mu[k] * scale
                for k in range(width):
                    theta[d, k] = own[k]
            loglik -= length * log(length + topics * alpha)
            tokens += length
            for k in range(width):
                added[k] += own[k]
        phi[:], totals[:] = nxt, added
    return np.exp(-loglik / tokens)  # type: ignore[no-any-return]
