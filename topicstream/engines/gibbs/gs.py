"""Collapsed Gibbs sampling with the dense conditional, the reference for SparseLDA.

Griffiths & Steyvers (2004), eq. (5), in the form of Yao, Mimno & McCallum (2009), eq. (5), with the
token itself taken out of all counts:

    p(z = t) ~ (alpha_t + n_td) (beta + n_wt) / (beta W + n_t)

Every topic is weighed for every token. coef_t = (alpha_t + n_td) / (beta W + n_t) is cached for all
topics (a move changes two of them), so a token costs one multiply-add a topic. Weights are summed
16 topics at a time. A draw walks along the sums, then along the 16 topics of the sum that it fell
in.

Arrays
------
z
    uint[tokens], topics, cell after cell.
rows
    int32[U, padded(K)], n_wt of the block's words.
n_t, n_td
    float64[K], tokens of a topic; int64[K], those of the present document.
coef, sums
    float64[padded(K)], 0 beyond K; float64[padded(K) / 16].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.engines.base import LANES, BlockShape, Buffer, Out, PackedRows, Visit, padded
from topicstream.engines.gibbs.buckets import Draws, Results
from topicstream.engines.gibbs.chain import Chain
from topicstream.numeric.kernels.arrays import Array, Cells, Doubles, Ints, Longs
from topicstream.numeric.kernels.dirichlet import close_document, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import entry_bytes, expand_packed
from topicstream.numeric.kernels.rng import bits, step, stream, uniform
from topicstream.numeric.kernels.sums import (
    fma_doubles,
    load_eight,
    splat_doubles,
    total_doubles,
)

SPREAD = 1 << 19  # packed entries that are spread out into dense rows at once


@kernel
def weigh(row: Ints, coef: Doubles, beta: float, sums: Doubles) -> float:
    """Sum coef_t (beta + n_wt) over each 16 topics and return their total."""
    prior = splat_doubles(beta)
    total = 0.0
    for i in range(len(sums)):
        j = i * LANES
        low = load_eight(coef, j) * (prior + load_eight(row, j))
        both = fma_doubles(load_eight(coef, j + 8), prior + load_eight(row, j + 8), low)
        sums[i] = total_doubles(both)
        total += sums[i]
    return total


@kernel
def pick(row: Ints, coef: Doubles, beta: float, sums: Doubles, x: float) -> int:
    """Find the topic where the running sum of weights passes x.

    If rounding leaves none, it is the last topic with weight.
    """
    i = 0
    while i + 1 < len(sums) and x >= sums[i]:
        x -= sums[i]
        i += 1
    chosen = i * LANES
    for j in range(i * LANES, i * LANES + LANES):
        weight = coef[j] * (beta + row[j])
        if weight > 0.0:
            chosen = j
            x -= weight
            if x < 0.0:
                break
    return chosen


class TopicWeights(NamedTuple):
    """Tokens of a topic and what is cached of them (symbols: the module's docstring)."""

    n_t: Doubles
    coef: Doubles
    sums: Doubles


class DocumentTopics(NamedTuple):
    """Tokens of the present document by topic, and the topics that have some, int64[K] each."""

    n_td: Longs
    topics: Longs


class Priors(NamedTuple):
    """Priors: alpha, float64[K], beta, and the mass beta W."""

    alpha: Doubles
    beta: float
    mass: float


@kernel
def sweep(
    cells: Cells,
    z: Array,
    rows: Ints,
    weights: TopicWeights,
    document: DocumentTopics,
    priors: Priors,
    draws: Draws,
    results: Results,
) -> None:
    """Sweep a block once (symbols: the module's docstring).

    results: of ``Chain.sweep``, no buckets.
    """
    (indptr, words, counts) = cells
    (n_t, coef, sums) = weights
    (n_td, topics) = document
    (alpha, beta, mass) = priors
    (topic_bins, lengths, figures) = results
    n_topics_all = len(alpha)
    alpha_sum = alpha.sum()
    loglik = doc_loglik = 0.0
    kept = documents = doc_topics = 0
    coef[:] = 0.0
    i = np.int64(0)
    for d in range(len(indptr) - 1):
        a = indptr[d]
        b = indptr[d + 1]
        # length of the document
        n_d = np.int64(0)
        for c in range(a, b):
            n_d += counts[c]
        if n_d == 0:
            continue
        # counts of the document, and coef_t for all topics
        state = stream(draws.seed, draws.pass_number, draws.first_doc + d)
        n_td[:] = 0
        for j in range(i, i + n_d):
            n_td[z[j]] += 1
        for t in range(n_topics_all):
            coef[t] = (alpha[t] + n_td[t]) / (mass + n_t[t])
        product = 1.0
        factors = 0
        for c in range(a, b):
            # every token of the cell in turn
            row = rows[words[c]]
            for _ in range(counts[c]):
                old = np.int64(z[i])
                # take the token out of all counts
                row[old] -= 1
                n_t[old] -= 1.0
                n_td[old] -= 1
                coef[old] = (alpha[old] + n_td[old]) / (mass + n_t[old])
                # eq. (5): weigh all topics and draw
                state = step(state)
                total = weigh(row, coef, beta, sums)
                new = np.int64(pick(row, coef, beta, sums, uniform(bits(state)) * total))
                kept += new == old
                # put the token back under its new topic
                row[new] += 1
                n_t[new] += 1.0
                n_td[new] += 1
                coef[new] = (alpha[new] + n_td[new]) / (mass + n_t[new])
                z[i] = new
                i += 1
                # log of the normalisers, one logarithm for eight draws
                product *= total
                factors += 1
                if factors == 8:
                    loglik += log(product)
                    product = 1.0
                    factors = 0
        # every draw of the document also divides by n_d - 1 + sum alpha
        loglik += log(product) - n_d * log(alpha_sum + (n_d - 1))
        # log p(z) of the document, and its counts for learned priors
        n_topics = np.int64(0)
        for t in range(n_topics_all):
            if n_td[t] > 0:
                topics[n_topics] = t
                n_topics += 1
        doc_loglik += close_document(
            topics, n_topics, n_td, n_d, alpha, alpha_sum, topic_bins, lengths
        )
        documents += 1
        doc_topics += n_topics  # type: ignore[assignment]
    # the results of Chain.sweep
    figures[0] = loglik
    figures[4] = kept
    figures[5] = documents
    figures[6] = doc_topics
    figures[7] = doc_loglik
    figures[8] = i


class GibbsSampling(Chain):
    """The plain collapsed Gibbs sampler (``gs``).

    It weighs every topic for every token:

        p(z = t) ~ (alpha_t + n_td) (beta + n_wt) / (beta W + n_t)

    Blocks of one round do not see each other's moves (AD-LDA). At round width 1 the chain is the
    exact sampler. Parameters and attributes: see ``Chain``.

    Examples
    --------
    >>> from topicstream.engines.base import Shape
    >>> shape = Shape(docs=10_000, words=5_000, cells=500_000, tokens=600_000.0, topics=100)
    >>> engine = GibbsSampling(shape, GibbsSampling.Options())
    >>> engine.state["z"].dtype  # what is stored of a token
    'uint8'

    References
    ----------
    Griffiths & Steyvers (2004). Finding scientific topics. PNAS 101, 5228-5235. Eq. (5).
    """

    name = "gs"
    cites = (
        "Griffiths & Steyvers 2004, Finding scientific topics, eq. (5); Yao, Mimno & McCallum "
        "2009, eq. (5)"
    )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare dense rows of the block and a buffer of packed entries.

        They come on top of the arrays of every sampler.
        """
        topics = self.shape.topics
        wide = padded(self.shape.topics)
        return super().workspace(block) | {
            "dense rows": Buffer((block.words, wide), "int32"),
            "coefficients": Buffer(wide, "float64"),
            "sums": Buffer(wide // LANES, "float64"),
            "document topics": Buffer((2, topics), "int64"),
            "row ends": Buffer(block.words + 1, "int64"),
            "packed entries": Buffer(max(SPREAD, topics), f"u{self.entry_bytes(block)}"),
        }

    def sweep(self, visit: Visit, out: Out, n_t: np.ndarray, figures: np.ndarray) -> None:
        block = visit.block
        params = visit.params
        key = visit.key
        stats = out.stats
        dense = out.array("dense rows")
        document = out.array("document topics")
        beta = float(params["beta"][0])
        self._spread(visit.rows["phi"], dense, out)
        sweep(
            block.cells,
            out.state["z"],
            dense,
            TopicWeights(n_t, out.array("coefficients"), out.array("sums")),
            DocumentTopics(document[0], document[1]),
            Priors(params["alpha"], beta, beta * self.shape.words),
            Draws(key.seed, key.pass_number, block.first_doc),
            Results(stats["topic_bins"], stats["lengths"], figures),
        )

    def _spread(self, phi: PackedRows, dense: np.ndarray, out: Out) -> None:
        """Expand packed rows to dense rows int32[U, padded(K)], some at a time."""
        ptr = out.array("row ends")
        ptr[0] = 0
        np.cumsum(phi.length, out=ptr[1:])
        dtype = f"u{entry_bytes(phi.largest, self.shape.topics)}"
        first = 0
        while first < len(dense):
            stop = max(int(np.searchsorted(ptr, ptr[first] + SPREAD, side="right")) - 1, first + 1)
            part = ptr[first : stop + 1] - ptr[first]
            entries = out.array("packed entries", int(part[-1]), dtype)
            phi.copy(first, stop, part[:-1], entries)
            expand_packed(part[:-1], phi.length[first:stop], entries, phi.bits, dense[first:stop])
            first = stop
