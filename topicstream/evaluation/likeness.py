"""How near one answer of topics is to another (Yao, Mimno and McCallum 2009, section 4): cosine, divergence, F1 of topic sets."""

from __future__ import annotations

import numpy as np

SHARE = 0.8
FLOOR = 1e-12


def cosine(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Of the rows of p and q, float[D, K] -> float64[D]."""
    p, q = p.astype(np.float64), q.astype(np.float64)
    norms = np.sqrt((p * p).sum(axis=1) * (q * q).sum(axis=1))
    return np.asarray(np.divide((p * q).sum(axis=1), norms, out=np.zeros(len(p)), where=norms > 0))


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Kullback-Leibler divergence of q from p in nats, float64[D]; no share counts for less than 1e-12."""
    p, q = np.maximum(p, FLOOR).astype(np.float64), np.maximum(q, FLOOR).astype(np.float64)
    return np.asarray((p * np.log(p / q)).sum(axis=1))


def topic_sets(theta: np.ndarray, share: float = SHARE) -> np.ndarray:
    """bool[D, K]: the largest topics of each document whose shares add up to at most ``share``; the first in any case."""
    order = np.argsort(-theta, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(theta.astype(np.float64), order, axis=1), axis=1)
    kept = sums <= share
    kept[:, 0] = True
    out = np.zeros(theta.shape, bool)
    np.put_along_axis(out, order, kept, axis=1)
    return out


def f1(p: np.ndarray, q: np.ndarray, share: float = SHARE) -> np.ndarray:
    """Of the topic sets of q against those of p, the reference, float64[D]."""
    a, b = topic_sets(p, share), topic_sets(q, share)
    return np.asarray(2.0 * (a & b).sum(axis=1) / (a.sum(axis=1) + b.sum(axis=1)))
