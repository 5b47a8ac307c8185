"""Document completion from its statement, dense and in float64: the twin of
evaluation/completion.py.
"""

from __future__ import annotations

import numpy as np

from tests.reference.local_step import local_step


def split_of(doc_key: int, word_key: int) -> float:
    """The cell's place in 0..1: SplitMix64's finaliser of the two keys' exclusive or, 53 bits."""
    mask = (1 << 64) - 1
    z = doc_key ^ word_key
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    z ^= z >> 31
    return (z >> 11) / 2.0**53


def text_key(text: str) -> int:
    """FNV-1a of the utf-8 bytes, finished by SplitMix64."""
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = ((h ^ b) * 0x100000001B3) & ((1 << 64) - 1)
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
    return h ^ (h >> 31)


def completion(matrix, doc_keys, word_keys, phi, alpha, beta, split, tol=1e-3, inner=100):
    """matrix: [D, W] counts; phi: [W, K] -> (loglik, tokens, documents scored, skipped)."""
    p = (phi + beta) / (phi.sum(axis=0) + len(phi) * beta)
    loglik = 0.0
    tokens = 0.0
    docs = 0
    skipped = 0
    for d in range(len(matrix)):
        words = np.flatnonzero(matrix[d])
        place = np.array([split_of(int(doc_keys[d]), int(word_keys[w])) for w in words])
        seen, rest = (
            (words, words) if split is None else (words[place < split], words[place >= split])
        )
        if len(seen) == 0 or len(rest) == 0:
            skipped += 1
            continue
        x = matrix[d, seen].astype(float)
        share, _ = local_step(x, p[seen], np.asarray(alpha, float), tol, inner)
        loglik += matrix[d, rest] @ np.log(p[rest] @ share)
        tokens += matrix[d, rest].sum()
        docs += 1
    return loglik, tokens, docs, skipped
