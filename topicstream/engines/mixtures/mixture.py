"""Documents in clusters: a mixture of multinomials, memoized or stochastic (Hughes & Sudderth 2016, sections 2 and 3, B.2).

    phi_k ~ Dir(beta),      E[log F(x_d | phi_k)] = sum_w x_dw (psi(S_wk + beta) - psi(sum_w S_wk + W beta)).
    S_wk = sum_d r_dk x_dw    is the table ``phi``: words of a cluster, as many as its documents have.

A block keeps the responsibilities of its documents, and gives what changed of them since it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import BlockShape, Key, Out, SparseDelta, TableSpec, option, padded
from topicstream.engines.mixtures.clusters import ClusterEngine, ClusterOptions, log_shares
from topicstream.engines.variational.bounds import rows_bound, totals_bound
from topicstream.engines.variational.statistics import entries_by_word
from topicstream.kernels.arrays import Array, Doubles, Floats, Ints, Longs, Shorts
from topicstream.kernels.digamma import digamma, log
from topicstream.kernels.jit import kernel


@kernel
def document_scores(
    start: Longs,
    order: Ints,
    owner: Ints,
    counts: Array,
    index: Longs,
    base: Array,
    scale: float,
    beta: float,
    term: Doubles,
    point: bool,
    work: Doubles,
    scores: Doubles,
) -> None:
    """scores: float64[D, P] += sum_w x_dw E[log phi_wk], word by word; ``point``: log of the mean instead.

    start, order: the block's cells by word;  owner: int32[nnz], the document of each cell;  term: float64[P], what is taken off
    for a cluster's total;  work: float64[P].
    """
    for u in range(len(start) - 1):
        row = base[index[u]]
        if point:
            for k in range(len(work)):
                work[k] = log(scale * row[k] + beta) - term[k]
        else:
            for k in range(len(work)):
                work[k] = digamma(scale * row[k] + beta) - term[k]
        for c in range(start[u], start[u + 1]):
            i = order[c]
            x, out = np.float64(counts[i]), scores[owner[i]]
            for k in range(len(work)):
                out[k] += x * work[k]


@kernel
def words_of_clusters(
    start: Longs,
    order: Ints,
    owner: Ints,
    counts: Array,
    topics: int,
    count: Longs,
    which: Shorts,
    by: Floats,
    ptr: Longs,
    topic: Shorts,
    value: Floats,
) -> int:
    """What changed of the documents, by words: a SparseDelta's ptr: int64[U+1], topic: uint16, value: float32; returns its
    length.  count, which, by: of ``clusters.changes``."""
    total, seen, n = np.zeros(topics), np.zeros(topics, np.bool_), 0
    ptr[0] = 0
    for u in range(len(start) - 1):
        low = n
        for c in range(start[u], start[u + 1]):
            i = order[c]
            d, x = owner[i], np.float64(counts[i])
            for j in range(count[d]):
                k = which[d, j]
                if not seen[k]:
                    seen[k], topic[n] = True, k
                    n += 1
                total[k] += x * by[d, j]
        for c in range(low, n):
            k = topic[c]
            value[c], total[k], seen[k] = total[k], 0.0, False
        ptr[u + 1] = n
    return n


@kernel
def owners(indptr: Longs, owner: Ints) -> None:
    """owner[i] = the document of cell i."""
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            owner[i] = d


@dataclass(frozen=True)
class DocumentMixtureOptions(ClusterOptions):
    """Options of ``mixture``."""

    beta: float | None = option(None, "prior of a word in a cluster (default: 0.1)", above=0.0)


class DocumentMixture(ClusterEngine):
    """``mixture``: each document in one cluster."""

    name = "mixture"
    cites = "Hughes & Sudderth 2016, sections 2 and 3, Alg. 1 and appendix B.2: L-sparse mixture of multinomials"
    Options: ClassVar[Any] = DocumentMixtureOptions
    prior_defaults = ("10/K", "0.1")
    starts = ("kmeans", "documents", "anchors", "warm", "random")
    random_topics = True
    default_tol: ClassVar[float] = 0.1

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        # float32 would let the bound fall by 1e-9 of itself once responsibilities hardly move
        mass = "none" if self.stochastic else "row"
        return {"phi": TableSpec(mass=mass, dtype="float64", delta="sparse", rule=self.rule), **super().tables}

    @property
    def stats(self) -> Mapping[str, int]:
        return dict.fromkeys(("loglik", "tokens", "docs", "entropy"), 1)

    def initial_params(self) -> dict[str, np.ndarray]:
        beta = 0.1 if self.options.beta is None else self.options.beta
        return {**super().initial_params(), "beta": np.array([beta], np.float64)}

    def block_cells(self) -> int:
        return 1 << 20 if self.stochastic else min(super().block_cells(), 1 << 18)

    def _most_changes(self, cells: int, words: int) -> int:
        return min(cells * min(2 * self.most, self.shape.topics), words * self.shape.topics)

    def keep_bytes(self, block: BlockShape) -> int:
        return 8 * (block.words + 1) + 6 * self._most_changes(block.cells, block.words) + 256

    def scratch_bytes(self, block: BlockShape) -> int:
        width = padded(self.shape.topics)
        extra = (width - self.shape.topics) * 8 * block.docs  # rows of scores are padded
        return self.scratch_bytes_of(block.docs) + extra + 8 * block.words + 8 * block.cells + 256 * width

    def start(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        self._visit(block, rows, totals, {}, params, out, starting=True)

    def process(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        key: Key,
        out: Out,
    ) -> None:
        self._visit(block, rows, totals, memory, params, out, starting=False)

    def _visit(
        self,
        block: Block,
        rows: Mapping[str, Any],
        totals: Mapping[str, np.ndarray],
        memory: Mapping[str, np.ndarray],
        params: Mapping[str, np.ndarray],
        out: Out,
        starting: bool,
    ) -> None:
        topics, words, width = self.shape.topics, self.shape.words, padded(self.shape.topics)
        start = out.scratch.array("cells of words", block.n_words + 1, np.int64)
        order = out.scratch.array("cells by word", block.n_cells, np.int32)
        entries_by_word(block.words, block.n_words, start, order)
        owner = out.scratch.array("documents of cells", block.n_cells, np.int32)
        owners(block.indptr, owner)
        beta = float(params["beta"][0])
        if starting:  # seeds come in any unit: smooth them by a hundredth of their mean entry
            beta = 0.01 * float(totals["phi"].sum()) / (topics * words)
        term = out.scratch.array("term", width, np.float64)
        cluster_terms(totals["phi"], words * beta, topics, starting, term)
        first = out.scratch.array("log shares", topics, np.float64)
        first[:] = 0.0
        if not starting:
            log_shares(totals["sizes"], params["alpha"], first)
        scores = out.scratch.array("scores", (block.n_docs, width), np.float64)
        scores[:, :topics], scores[:, topics:] = first, 0.0
        base, index, scale = rows["phi"][:3]
        work = out.scratch.array("work", width, np.float64)
        cells = (start, order, owner, block.counts)
        document_scores(*cells, index, base, float(scale), beta, term, starting, work, scores)
        there = np.diff(block.indptr) > 0
        changed = self.respond(scores, there, memory, out)
        out.stats["tokens"][0] = block.tokens
        room = self._most_changes(block.n_cells, block.n_words)
        ptr = out.keep.array("delta ptr", block.n_words + 1, np.int64)
        topic = out.keep.array("delta topics", room, np.uint16)
        value = out.keep.array("delta values", room, np.float32)
        n = words_of_clusters(*cells, topics, *changed, ptr, topic, value)
        out.delta["phi"] = SparseDelta(ptr, topic[:n], value[:n])

    def end_pass_rows(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], rows: Iterable[tuple[int, np.ndarray]]
    ) -> dict[str, float]:
        """The evidence lower bound of a memoized pass; the multinomial coefficients of the documents are left out."""
        if self.stochastic:
            return {}
        topics, beta = self.shape.topics, float(params["beta"][0])
        data, totals = 0.0, np.zeros(topics)
        for _, piece in rows:
            data += rows_bound(piece, 1.0, beta, topics)
            totals += piece[:, :topics].sum(axis=0, dtype=np.float64)
        return self.bound_of(params, stats, data + totals_bound(totals, beta * self.shape.words, topics))


@kernel
def cluster_terms(totals: Doubles, width: float, topics: int, point: bool, term: Doubles) -> None:
    """term[k] = psi (``point``: log) of a cluster's total, 0 in the padding; totals: float64[P]; width: W beta."""
    for k in range(len(term)):
        lam = max(totals[k], 0.0) + width if k < topics else 1.0
        term[k] = (log(lam) if point else digamma(lam)) if k < topics else 0.0
