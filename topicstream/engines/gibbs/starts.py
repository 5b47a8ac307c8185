"""First topics of the tokens of a block: uniform ones, or those of seed topics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.engines.gibbs.buckets import Draws
from topicstream.numeric.kernels.arrays import Array, Cells, Doubles, Floats, Ints, Longs
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import below, bits, step, stream, uniform


@kernel
def draw_topics(indptr: Longs, counts: Ints, topics: int, draws: Draws, z: Array) -> None:
    """Draw a uniform topic for every token from its document's stream.

    indptr: int64[D+1]; counts: int32[nnz].
    """
    i = 0
    for d in range(len(indptr) - 1):
        state = stream(draws.seed, draws.pass_number, draws.first_doc + d)
        for c in range(indptr[d], indptr[d + 1]):
            for _ in range(counts[c]):
                state = step(state)
                z[i] = below(bits(state), topics)
                i += 1


class SeedRows(NamedTuple):
    """Rows of the seed topics, base[row[w]] float32[R, >= K], and 1 / their column sums."""

    base: Floats
    row: Longs
    inverse: Doubles


@kernel
def seeded_topics(
    cells: Cells, seeds: SeedRows, alpha: Doubles, draws: Draws, work: Doubles, z: Array
) -> None:
    """Draw each token's topic in turn from seed topics.

    p(k) ~ (alpha_k + n_dk so far) * base[index[w], k] * inverse[k]. work: float64[2, K].
    """
    (indptr, words, counts) = cells
    (base, index, inverse) = seeds
    topics = len(alpha)
    prior = work[0]
    sums = work[1]
    i = 0
    for d in range(len(indptr) - 1):
        state = stream(draws.seed, draws.pass_number, draws.first_doc + d)
        prior[:] = alpha
        for c in range(indptr[d], indptr[d + 1]):
            row = base[index[words[c]]]
            for _ in range(counts[c]):
                total = 0.0
                for k in range(topics):
                    total += prior[k] * np.float64(row[k]) * inverse[k]
                    sums[k] = total
                state = step(state)
                if total > 0.0:
                    x = uniform(bits(state)) * total
                    k = np.searchsorted(sums, x, side="right")
                    k = min(k, topics - 1)
                else:
                    k = below(bits(state), topics)
                z[i] = k
                prior[k] += 1.0
                i += 1
