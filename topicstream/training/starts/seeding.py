"""Arithmetic of the starts: distances of documents to seed documents, rows of a sparse seed table.

Multinomial divergence of document d from a topic q (Hughes & Sudderth 2016's k-means++, up to d's own entropy):
D(d, q) = sum_w p_d(w) log(p_d(w) / q(w)), with q = (1 - share) * mean + share * (words of the seed documents).
"""

from __future__ import annotations

import numpy as np

from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs
from topicstream.kernels.digamma import log
from topicstream.kernels.jit import kernel
from topicstream.kernels.rng import bits, stream, uniform


@kernel
def own_entropies(indptr: Longs, counts: Doubles, lengths: Doubles, out: Doubles) -> None:
    """sum_w p_d(w) log p_d(w) of every document: out float64[D]."""
    for d in range(len(indptr) - 1):
        acc = 0.0
        for i in range(indptr[d], indptr[d + 1]):
            p = counts[i] / lengths[d]
            acc += p * log(p)
        out[d] = acc


@kernel
def divergences(
    indptr: Longs,
    words: Ints,
    counts: Doubles,
    lengths: Doubles,
    entropies: Doubles,
    mean: Doubles,
    ground: Doubles,
    share: float,
    centre: int,
    out: Doubles,
) -> None:
    """Divergence of every document from the mixed seed document ``centre``: out float64[D].

    Cells of the sampled documents: indptr int64[D+1], words int32, counts float64 (words may repeat across documents);
    lengths, entropies float64[D]; mean float64[V] > 0; ground: float64[V], log((1 - share) mean), changed for the words
    of the centre and put back.
    """
    for i in range(indptr[centre], indptr[centre + 1]):
        w = words[i]
        ground[w] = log((1.0 - share) * mean[w] + share * counts[i] / lengths[centre])
    for d in range(len(indptr) - 1):
        acc = 0.0
        for i in range(indptr[d], indptr[d + 1]):
            acc += counts[i] * ground[words[i]]
        out[d] = max(entropies[d] - acc / lengths[d], 0.0)
    for i in range(indptr[centre], indptr[centre + 1]):
        w = words[i]
        ground[w] = log((1.0 - share) * mean[w])


@kernel
def fill_rows(
    ids: Array,
    ptr: Longs,
    topic: Ints,
    value: Floats,
    mean: Doubles,
    share: float,
    scale: float,
    topics: int,
    seed: int,
    draw: int,
    out: Floats,
) -> None:
    """Rows of the seed table: out[u, k] = scale * ((1 - share) * mean[w] + share * value of (w, k)), w = ids[u].

    ptr int64[W+1], topic int32, value float32 sorted by word; mean float64[W]; out float32[U, KP], padding zeroed.
    draw: under this number the mean's part of each word is split over the topics by a flat Dirichlet; 0: evenly.
    """
    for u in range(len(ids)):
        w = ids[u]
        ground = scale * (1.0 - share) * mean[w]
        if draw:
            total = 0.0
            for k in range(topics):
                e = 1e-6 - log(1.0 - uniform(bits(stream(seed, draw, w * topics + k))))
                total += e
                out[u, k] = e
            for k in range(topics):
                out[u, k] *= np.float32(ground * topics / total)
        else:
            for k in range(topics):
                out[u, k] = np.float32(ground)
        for k in range(topics, out.shape[1]):
            out[u, k] = 0.0
        for j in range(ptr[w], ptr[w + 1]):
            out[u, topic[j]] += np.float32(scale * share * value[j])
