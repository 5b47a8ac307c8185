"""Anchor words on the whole co-occurrence matrix, from the paper's equations: the twin of
``anchors``.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csr_matrix, diags


def cooccurrence(x: np.ndarray, by_length: bool = False, least: float = 2.0) -> np.ndarray:
    """M [W, W] of counts [D, W]: Fisher, Kozdoba & Mannor, eq. 9 and 10, over documents of
    ``least`` tokens or more; with ``by_length`` a document weighs as much as it has tokens.
    """
    lengths = x.sum(1)
    there = csr_matrix(x[lengths >= least].astype(np.float64))
    length = lengths[lengths >= least]
    weights = (length if by_length else 1.0) / (length * (length - 1.0))
    return ((there.T @ diags(weights) @ there).toarray() - np.diag(there.T @ weights)) / len(
        weights
    )


def anchors_of(rows: np.ndarray, candidates: np.ndarray, topics: int) -> np.ndarray:
    """The greedy choice, each distance computed afresh by least squares."""
    chosen = [int(candidates[np.argmax((rows[candidates] ** 2).sum(1))])]
    while len(chosen) < topics:
        origin = rows[chosen[0]]
        span = (rows[chosen[1:]] - origin).T
        rest = (rows[candidates] - origin).T
        if span.shape[1]:
            rest = rest - span @ np.linalg.lstsq(span, rest, rcond=None)[0]
        far = (rest**2).sum(0)
        far[np.isin(candidates, chosen)] = -1
        chosen.append(int(candidates[np.argmax(far)]))
    return np.array(chosen)


def topics_of(m: np.ndarray, anchors: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Convex weights [len(words), K] of those words' rows on the anchors' rows: non-negative least
    squares with the sum held to one by a heavy row (Lawson & Hanson 1974, chapter 23); zero for a
    word that stands with no other.
    """
    p = m.sum(1)
    rows = np.divide(m, p[:, None], out=np.zeros_like(m), where=p[:, None] > 0)
    q, r = np.linalg.qr(rows[anchors].T)
    system = np.vstack([r, np.full((1, len(anchors)), 1e3)])
    c = np.zeros((len(words), len(anchors)))
    for i, w in enumerate(words):
        if p[w] > 0:
            c[i] = (
                np.eye(len(anchors))[anchors == w][0]
                if w in anchors
                else nnls(system, np.append(q.T @ rows[w], 1e3))[0]
            )
    return c
