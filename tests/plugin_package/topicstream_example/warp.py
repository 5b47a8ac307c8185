"""WarpLDA (Chen, Li, Zhu & Chen 2016): Metropolis-Hastings on latent Dirichlet allocation, O(1) a
token whatever K is.

A token's topic k gives way to a proposal t with probability min(1, ratio), counts standing as
before the visit (their eq. 7):

    from the document   t ~ C_dt + alpha_t     ratio = (C_wt + beta) (C_k + W beta) / ((C_wk + beta)
                        (C_t + W beta))
    from the word       t ~ C_wt + beta        ratio = (C_dt + alpha_t) (C_k + W beta) / ((C_dk +
                        alpha_k) (C_t + W beta))

The document proposes the topic of one of its tokens; the word proposes by an alias table (Walker
1977) of its counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from topicstream.engines.base import BlockShape, Buffer, Objective, Out, Visit, option
from topicstream.engines.gibbs.chain import GibbsOptions
from topicstream.engines.gibbs.gs import GibbsSampling
from topicstream.numeric.kernels.arrays import Array, Cells, Doubles, Ints, Longs
from topicstream.numeric.kernels.dirichlet import close_document
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import entry_bytes
from topicstream.numeric.kernels.rng import below, bits, step, stream, uniform


class Alias(NamedTuple):
    """The words' alias tables: word u has ptr[u] .. ptr[u + 1], each a topic, the share of its
    slot, and who has the rest; mass float64[U], the words' tokens.
    """

    ptr: Longs
    topic: Ints
    share: Doubles
    other: Ints
    mass: Doubles


class Counts(NamedTuple):
    """Before the visit: words int32[U, >= K]; topics float64[K], W beta added; alpha float64[K] and
    its running sums.
    """

    words: Ints
    topics: Doubles
    alpha: Doubles
    ends: Doubles


@kernel
def alias_tables(entries: Array, topic_bits: int, alias: Alias, work: Longs) -> None:
    """The tables of packed rows, ``count << topic_bits | topic``; work: int64[2, K]."""
    ptr, topic, share, other, mass = alias
    for u in range(len(ptr) - 1):
        first = ptr[u]
        last = ptr[u + 1]
        few = 0
        many = 0
        mass[u] = 0.0
        for j in range(first, last):
            count = np.int64(entries[j]) >> topic_bits
            topic[j] = np.int64(entries[j]) - (count << topic_bits)
            other[j] = topic[j]
            share[j] = count
            mass[u] += count
        for j in range(first, last):
            share[j] *= (last - first) / mass[u]
            if share[j] < 1.0:
                work[0, few] = j
                few += 1
            else:
                work[1, many] = j
                many += 1
        while few > 0 and many > 0:
            few -= 1
            poor = work[0, few]
            rich = work[1, many - 1]
            other[poor] = topic[rich]
            share[rich] -= 1.0 - share[poor]
            if share[rich] < 1.0:
                many -= 1
                work[0, few] = rich
                few += 1


@kernel(inline="always")
def from_word(state: int, u: int, beta: float, topics: int, alias: Alias) -> int:
    """A topic t ~ C_wt + beta of local word u, by three draws behind ``state``."""
    ptr, topic, share, other, mass = alias
    choice = step(state)
    place = step(step(state))
    half = step(step(step(state)))
    t = below(bits(place), topics)
    if uniform(bits(choice)) * (mass[u] + topics * beta) < mass[u]:
        j = ptr[u] + below(bits(place), ptr[u + 1] - ptr[u])
        t = np.int64(topic[j]) if uniform(bits(half)) < share[j] else np.int64(other[j])
    return t


@kernel
def sweep(
    cells: Cells,
    before: Array,
    z: Array,
    counts: Counts,
    alias: Alias,
    beta: float,
    turns: int,
    key: tuple[int, int, int],
    mine: Longs,
    named: Longs,
    topic_bins: Doubles,
    lengths: Doubles,
) -> tuple[int, int, int, float]:
    """Every token once: z from ``before``, uint[tokens].  mine int64[K], zeros, zero again on
    return; named int64[K] scratch; key: seed, pass, first document. Returns tokens that kept their
    topic, documents, their topics, log p(z).
    """
    (indptr, words, x) = cells
    (c_w, c_t, alpha, ends) = counts
    n_topics = len(alpha)
    kept = 0
    documents = 0
    pairs = 0
    loglik = 0.0
    i = 0
    for d in range(len(indptr) - 1):
        first = i
        tokens = 0
        state = stream(key[0], key[1], key[2] + d)
        for c in range(indptr[d], indptr[d + 1]):
            tokens += x[c]
        if tokens == 0:
            continue
        for j in range(first, first + tokens):
            mine[before[j]] += 1
        for c in range(indptr[d], indptr[d + 1]):
            row = c_w[words[c]]
            for _ in range(x[c]):
                k = np.int64(before[i])
                for _turn in range(turns):
                    state = step(state)
                    place = uniform(bits(state)) * (tokens + ends[-1])
                    if place < tokens:
                        t = np.int64(before[first + np.int64(place)])
                    else:
                        t = min(
                            np.int64(np.searchsorted(ends, place - tokens, "right")), n_topics - 1
                        )
                    state = step(state)
                    if uniform(bits(state)) * (row[k] + beta) * c_t[t] < (row[t] + beta) * c_t[k]:
                        k = t
                    t = from_word(state, words[c], beta, n_topics, alias)
                    state = step(step(step(step(state))))
                    if (
                        uniform(bits(state)) * (mine[k] + alpha[k]) * c_t[t]
                        < (mine[t] + alpha[t]) * c_t[k]
                    ):
                        k = t
                kept += k == before[i]
                z[i] = k
                i += 1
        for j in range(first, i):
            mine[before[j]] = 0
        n = 0
        for j in range(first, i):
            if mine[z[j]] == 0:
                named[n] = z[j]
                n += 1
            mine[z[j]] += 1
        loglik += close_document(named, n, mine, tokens, alpha, ends[-1], topic_bins, lengths)
        mine[named[:n]] = 0
        documents = documents + 1
        pairs = pairs + n
    return kept, documents, pairs, loglik


@dataclass(frozen=True)
class WarpOptions(GibbsOptions):
    """Options of ``warp``."""

    turns: int = option(
        2, "proposals of the document and of the word, each, for a token and pass", min=1
    )


class Warp(GibbsSampling):
    """The samplers' state, starts, priors and statistics; another sweep.

    It has no p(w | d): the joint likelihood tells its course.
    """

    name = "warp"
    cites = "Chen, Li, Zhu & Chen 2016, WarpLDA, Alg. 2 and eq. (7)"
    Options = WarpOptions
    about = replace(
        GibbsSampling.about, objective=Objective("log p(z) a token", "doc_loglik", "tokens")
    )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        entries = min(
            block.table_entries or block.words * self.shape.topics, block.words * self.shape.topics
        )
        return super().workspace(block) | {
            "rows": Buffer(entries, f"u{self.entry_bytes(block)}"),
            "alias": Buffer((entries, 2), "float64"),
        }

    def process(self, visit: Visit, out: Out) -> None:
        block = visit.block
        params = visit.params
        stats = out.stats
        phi = visit.rows["phi"]
        topics = self.shape.topics
        z = out.state["z"]
        dense = out.array("dense rows")
        n_t = out.array("n_t")
        scratch = out.array("document topics")
        self._spread(phi, dense, out)
        ptr = out.array("row ends")
        entries = out.array("rows", int(ptr[-1]), f"u{entry_bytes(phi.largest, topics)}")
        phi.copy(0, block.n_words, ptr[:-1], entries)
        share, halves = np.split(out.array("alias", (2, len(entries)), "float64"), 2)
        topic, other = halves.view(np.int32).reshape(2, -1)
        alias = Alias(ptr, topic, share[0], other, np.empty(block.n_words))
        alias_tables(entries, phi.bits, alias, scratch)
        beta = float(params["beta"][0])
        n_t[:] = visit.totals["phi"][:topics] + beta * self.shape.words
        scratch[:] = 0
        counts = Counts(dense, n_t, params["alpha"], np.cumsum(params["alpha"]))
        key = (visit.key.seed, visit.key.pass_number, block.first_doc)
        figures = sweep(
            block.cells,
            visit.state["z"],
            z,
            counts,
            alias,
            beta,
            self.options.turns,
            key,
            scratch[0],
            scratch[1],
            stats["topic_bins"],
            stats["lengths"],
        )
        stats["kept"][0] = figures[0]
        stats["documents"][:] = figures[1:3]
        stats["doc_loglik"][0] = figures[3]
        stats["tokens"][0] = len(z)
        out.delta["phi"] = self._changes(block, visit.state["z"], z, out)
