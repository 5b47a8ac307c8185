"""Inference with the topics fixed, plainly: a document is a row of counts x: [W]; p: [W, K] the
topics' word probabilities.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import digamma, gammaln

from tests.reference.local_step import local_step


def bp(x, p, alpha, tol, inner):
    """EM's fixed point (Zeng et al. 2012)."""
    return local_step(x[x > 0].astype(float), p[x > 0], alpha, tol, inner)[0]


def vb(x, counts, alpha, beta, tol, inner, most=None, point=False, from_prior=False):
    """Blei et al. 2003 with Dirichlet topics counts + beta: [W, K] (``point``: their mean); most:
    responsibilities kept a word, L.
    """
    seen = x > 0
    smoothed = counts + beta
    own = smoothed / smoothed.sum(axis=0)
    if not point:
        e = digamma(smoothed) - digamma(smoothed.sum(axis=0))
        own = np.exp(e - e.max(axis=1, keepdims=True))
    x = x[seen].astype(float)
    own = own[seen]
    if most is None:
        return local_step(x, own, alpha, tol, inner, True, from_prior)[0]
    n = np.zeros(len(alpha))
    t = np.exp(digamma(alpha)) if from_prior else np.ones(len(alpha))
    for step in range(1, inner + 1):
        r = own * t
        if step <= 5 or step % 10 == 0:
            kept = np.argsort(np.argsort(-r, axis=1, kind="stable"), axis=1) < most
        r = r * kept
        new = x @ (r / r.sum(axis=1, keepdims=True))
        change = np.abs(new - n).sum()
        n = new
        if change <= tol * x.sum():
            break
        t = np.exp(digamma(n + alpha))
    return (n + alpha) / (x.sum() + alpha.sum())


def exact_alone(words, p, alpha):
    """Mean shares of a document over all assignments of its tokens ``words``."""
    topics = p.shape[1]
    total = 0.0
    mean = np.zeros(p.shape[1])
    for z in product(range(topics), repeat=len(words)):
        n = np.bincount(z, minlength=topics)
        weight = np.prod(p[words, list(z)]) * np.exp(
            gammaln(n + alpha).sum() - gammaln(alpha).sum()
        )
        total += weight
        mean += weight * n
    return (mean / total + alpha) / (len(words) + alpha.sum())


def exact_together(documents, counts, alpha, beta):
    """Mean shares [D, K] of documents (lists of words) over all assignments of all their tokens;
    counts: [W, K], fixed.
    """
    topics = counts.shape[1]
    tokens = [(d, w) for d, words in enumerate(documents) for w in words]
    total = 0.0
    mean = np.zeros((len(documents), topics))
    for z in product(range(topics), repeat=len(tokens)):
        n = np.zeros((len(documents), topics))
        m = np.zeros_like(counts)
        for (d, w), k in zip(tokens, z, strict=True):
            n[d, k] += 1
            m[w, k] += 1
        weight = (
            gammaln(n + alpha).sum() + (gammaln(counts + m + beta) - gammaln(counts + beta)).sum()
        )
        weight -= gammaln((counts + m + beta).sum(axis=0)).sum()
        weight = np.exp(weight + gammaln((counts + beta).sum(axis=0)).sum())
        total += weight
        mean += weight * n
    lengths = np.array([len(words) for words in documents])[:, None]
    return (mean / total + alpha) / (lengths + alpha.sum())
