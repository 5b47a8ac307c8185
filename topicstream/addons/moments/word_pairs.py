"""Pairs of words of a document under topics that go in pairs.

Fisher, Kozdoba & Mannor, eq. 2 and 11:

    p(u, v) = mu_u^T a mu_v,    mu_u[t] = p(u | topic t),    a [T, T] symmetric, summing to one

The E-step of all pairs of a document takes a dot product and two sums of T numbers a pair; what is
left is a product with a for each word of the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.arrays import Cells, Doubles, Floats, Ints, Longs
from topicstream.numeric.kernels.dirichlet import log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.simd import WIDTH, fma, load, splat, store, total

# of a pair's probability: two words that no pair of topics has left together
TINY = np.float32(1e-30)


@kernel
def _pair(m: float, i: int, j: int, x: Floats, y: Floats, z: Floats) -> float:
    """Add a pair's part of z, and return m log p.

    It is a pair of local words of weight m (of both orders together).
    """
    width = x.shape[1]
    first = i * width
    second = j * width
    # p(u, v) = mu_u a mu_v
    lanes = splat(np.float32(0))
    for k in range(0, width, WIDTH):
        lanes = fma(load(x, first + k), load(y, second + k), lanes)
    p = max(total(lanes), TINY)
    # each word's row gains half of m / p times the other's mu
    half = splat(np.float32(0.5 * m / p))
    for k in range(0, width, WIDTH):
        store(z, first + k, fma(half, load(x, second + k), load(z, first + k)))
    for k in range(0, width, WIDTH):
        store(z, second + k, fma(half, load(x, first + k), load(z, second + k)))
    return m * log(np.float64(p))  # type: ignore[no-any-return]


class PairVectors(NamedTuple):
    """Vectors of the words, float32[U, P]: x is mu, y is mu a, and z the result."""

    x: Floats
    y: Floats
    z: Floats


@kernel
def expect(
    cells: Cells,
    vectors: PairVectors,
    scale: float,
    limit: int,
    seed: int,
    first_doc: int,
    sums: Doubles,
) -> None:
    """Run an E-step over the documents' pairs of words.

    z = sum over pairs of words (u, v) of m_uv / p(u, v) mu_v. A document's weight is ``scale``,
    spread evenly over its pairs of different tokens. Of a document of more than ``limit`` pairs of
    words that many pairs of tokens are drawn, always the same (0: all pairs of all).

    Parameters
    ----------
    sums
        Result: the pairs' m log p and m, and the number of documents.
    """
    (indptr, words, counts) = cells
    (x, y, z) = vectors
    z[:] = np.float32(0.0)
    loglik = 0.0
    mass = 0.0
    docs = 0.0
    for d in range(len(indptr) - 1):
        first = indptr[d]
        stop = indptr[d + 1]
        n = stop - first
        # n_d; a document without two tokens has no pair
        tokens = 0
        for c in range(first, stop):
            tokens += counts[c]
        if tokens < 2:
            continue
        docs += 1.0
        # few pairs: all of them, m_uv = weight x_u x_v in both orders, x_u (x_u - 1) for a word
        # with itself
        if limit == 0 or n * (n + 1) // 2 <= limit:
            weight = scale / (float(tokens) * (float(tokens) - 1.0))
            for c in range(first, stop):
                xc = float(counts[c])
                if counts[c] > 1:
                    m = weight * xc * (xc - 1.0)
                    loglik += _pair(m, words[c], words[c], x, y, z)
                    mass += m
                for e in range(c + 1, stop):
                    m = 2.0 * weight * xc * float(counts[e])
                    loglik += _pair(m, words[c], words[e], x, y, z)
                    mass += m
        else:
            # many pairs: ``limit`` pairs of different tokens drawn at random, each of the same
            # weight
            ends = np.empty(n, np.int64)
            at = 0
            for c in range(n):
                at += counts[first + c]
                ends[c] = at
            state = rng.stream(seed, 0, first_doc + d)
            m = scale / limit
            for _ in range(limit):
                state = rng.step(state)
                one = rng.below(rng.bits(state), tokens)
                state = rng.step(state)
                two = rng.below(rng.bits(state), tokens - 1)
                if two >= one:
                    two += 1
                # the words of the tokens, by their numbers in the document
                c = np.searchsorted(ends, one, side="right")
                e = np.searchsorted(ends, two, side="right")
                loglik += _pair(m, words[first + c], words[first + e], x, y, z)
                mass += m
    sums[0] = loglik
    sums[1] = mass
    sums[2] = docs


@kernel
def add_stripe(
    indptr: Longs, words: Ints, counts: Ints, vocab: Ints, first: int, m: Doubles
) -> None:
    """Add the documents' pairs of words to a stripe of rows of M.

    The stripe m is float64[rows, W] from row ``first`` on. Each document's pairs sum to one.
    """
    for d in range(len(indptr) - 1):
        tokens = 0
        for c in range(indptr[d], indptr[d + 1]):
            tokens += counts[c]
        if tokens < 2:
            continue
        weight = 1.0 / (float(tokens) * (float(tokens) - 1.0))
        for c in range(indptr[d], indptr[d + 1]):
            row = vocab[words[c]] - first
            if 0 <= row < len(m):
                for e in range(indptr[d], indptr[d + 1]):
                    m[row, vocab[words[e]]] += (
                        weight * counts[c] * (counts[e] - (1 if c == e else 0))
                    )
