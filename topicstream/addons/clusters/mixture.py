"""The engine ``mixture``: documents in clusters, a mixture of multinomials.

Memoized or stochastic (Hughes & Sudderth 2016, sections 2 and 3, B.2):

    phi_k ~ Dir(beta)
    E[log F(x_d | phi_k)] = sum_w x_dw (psi(S_wk + beta) - psi(sum_w S_wk + W beta))
    S_wk = sum_d r_dk x_dw

S is the table ``phi``: the words of a cluster, as many as its documents have. A block keeps the
responsibilities of its documents, and its delta is the change since it was last seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.clusters.clusters import ClusterEngine, ClusterOptions, log_shares
from topicstream.addons.clusters.model import ClusterView
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    BlockShape,
    Buffer,
    Layout,
    Out,
    PassEnd,
    RowSource,
    SparseDelta,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.engines.variational.bounds import rows_bound, totals_bound
from topicstream.engines.variational.statistics import WeightSource, topic_terms
from topicstream.numeric.kernels.arrays import (
    CellsByWord,
    Doubles,
    Floats,
    Longs,
    Shorts,
    sort_by_word,
)
from topicstream.numeric.kernels.dirichlet import digamma, log
from topicstream.numeric.kernels.jit import kernel


@kernel
def document_scores(cells: CellsByWord, src: WeightSource, work: Doubles, scores: Doubles) -> None:
    """scores: float64[D, P] += sum_w x_dw E[log phi_wk], word by word.  work: float64[P]."""
    (start, owner, counts) = cells
    (index, base, scale, beta, term, _topics, point) = src
    for u in range(len(start) - 1):
        row = base[index[u]]
        for k in range(len(work)):
            y = scale * row[k] + beta
            work[k] = (log(y) if point else digamma(y)) - term[k]
        for i in range(start[u], start[u + 1]):
            x = np.float64(counts[i])
            out = scores[owner[i]]
            for k in range(len(work)):
                out[k] += x * work[k]


@kernel
def words_of_clusters(
    cells: CellsByWord,
    topics: int,
    count: Longs,
    which: Shorts,
    by: Floats,
    ptr: Longs,
    topic: Shorts,
    value: Floats,
) -> int:
    """Sum the changes of the documents by word, and return the number of entries.

    Parameters
    ----------
    count, which, by
        See ``clusters.changes``.
    ptr, topic, value
        int64[U+1], uint16, float32: a SparseDelta, the result.
    """
    start, owner, counts = cells
    total = np.zeros(topics)
    seen = np.zeros(topics, np.bool_)
    n = 0
    ptr[0] = 0
    for u in range(len(start) - 1):
        low = n
        # total_k = sum_d x_dw (change of r_dk); the clusters are listed as they come
        for i in range(start[u], start[u + 1]):
            d = owner[i]
            x = np.float64(counts[i])
            for j in range(count[d]):
                k = which[d, j]
                if not seen[k]:
                    seen[k] = True
                    topic[n] = k
                    n += 1
                total[k] += x * by[d, j]
        # the word's entries, and zeros for the next word
        for c in range(low, n):
            k = topic[c]
            value[c] = total[k]
            total[k] = 0.0
            seen[k] = False
        ptr[u + 1] = n
    return n


@dataclass(frozen=True)
class DocumentMixtureOptions(ClusterOptions):
    """Options of ``mixture``."""

    beta: float | None = option(None, "Prior of a word in a cluster (default: 0.1).", above=0.0)


class DocumentMixture(ClusterEngine):
    """``mixture``: each document in one cluster."""

    name = "mixture"
    cites = (
        "Hughes & Sudderth 2016, sections 2 and 3, Alg. 1 and appendix B.2: L-sparse mixture of "
        "multinomials"
    )
    Options: ClassVar[Any] = DocumentMixtureOptions
    about = replace(
        ClusterEngine.about,
        starts=("kmeans", "documents", "anchors", "warm", "random"),
        random_seeds=True,
        tol=0.1,
    )

    def registered_start(self, name: str) -> str:
        """Choose the best of several tries where more than one is asked for."""
        return "clusters" if name == "kmeans" and self.options.tries > 1 else name

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        # float32 would let the bound fall by 1e-9 of itself once responsibilities hardly move
        mass = "none" if self.stochastic else "row"
        return {
            "phi": TableSpec(mass=mass, dtype="float64", delta="sparse", rule=self.rule),
            **super().tables,
        }

    def likelihoods(
        self, params: Mapping[str, np.ndarray], rows: RowSource | None
    ) -> Callable[[Block], np.ndarray]:
        assert rows is not None
        topics = self.shape.topics
        beta = float(params["beta"][0])
        norms = np.maximum(rows.totals[:topics] + beta * self.shape.words, 1e-300)
        view = ClusterView(params["sizes"], params["alpha"], norms, beta)

        def score(block: Block) -> np.ndarray:
            base = rows.rows(block.vocab, np.empty((len(block.vocab), padded(topics)), np.float32))
            words = block.words.astype(np.int64)
            fit, _ = view.answer(block.indptr, words, block.counts, base[:, :topics])
            return fit[np.diff(block.indptr) > 0]

        return score

    @property
    def stats(self) -> Mapping[str, int]:
        return dict.fromkeys(("loglik", "tokens", "docs", "entropy"), 1)

    @property
    def layout(self) -> Layout:
        cells = 1 << 20 if self.stochastic else min(super().layout.block_cells, 1 << 18)
        return replace(super().layout, block_cells=cells)

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        topics = self.shape.topics
        width = padded(self.shape.topics)
        entries = min(block.cells * min(2 * self.most, topics), block.words * topics)
        return super().workspace(block) | {
            "ptr": Buffer(block.words + 1, "int64"),
            "doc": Buffer(block.cells, "int32"),
            "x": Buffer(block.cells, "float32"),
            "term": Buffer(width, "float64"),
            "factor": Buffer(width, "float32"),
            "scores": Buffer((block.docs, width), "float64"),
            "work": Buffer(width, "float64"),
            "delta ptr": Buffer(block.words + 1, "int64", keep=True),
            "delta topics": Buffer(entries, "uint16", keep=True),
            "delta values": Buffer(entries, "float32", keep=True),
        }

    def start(self, visit: Visit, out: Out) -> None:
        self.process(visit, out)

    def process(self, visit: Visit, out: Out) -> None:
        block = visit.block
        totals = visit.totals
        starting = visit.key.pass_number == 0
        topics = self.shape.topics
        words = self.shape.words
        cells = CellsByWord(out.array("ptr"), out.array("doc"), out.array("x"))
        sort_by_word(block.cells, cells)
        beta = float(visit.params["beta"][0])
        if starting:  # seeds come in any unit: smooth them by a hundredth of their mean entry
            beta = 0.01 * float(totals["phi"].sum()) / (topics * words)
        term = out.array("term")
        scores = out.array("scores")
        topic_terms(
            np.maximum(totals["phi"], 0.0),
            words * beta,
            topics,
            starting,
            term,
            out.array("factor"),
        )
        scores[:] = 0.0
        if not starting:
            scores[:, :topics] = log_shares(totals["sizes"], visit.params["alpha"])
        base, index, scale = visit.rows["phi"][:3]
        src = WeightSource(index, base, float(scale), beta, term, topics, starting)
        document_scores(cells, src, out.array("work"), scores)
        nonempty = np.diff(block.indptr) > 0
        changed = self.respond(scores, nonempty, visit.state, out)
        out.stats["tokens"][0] = block.tokens
        ptr = out.array("delta ptr")
        topic = out.array("delta topics")
        value = out.array("delta values")
        n = words_of_clusters(cells, topics, *changed, ptr, topic, value)
        out.delta["phi"] = SparseDelta(ptr, topic[:n], value[:n])

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        """End the pass, and compute the evidence lower bound of a memoized one.

        The multinomial coefficients of the documents are left out.
        """
        record = super().end_pass(end)
        if self.stochastic:
            return record
        topics = self.shape.topics
        beta = float(end.params["beta"][0])
        data = 0.0
        totals = np.zeros(topics)
        for _, piece in end.tables["phi"].pieces():
            data += rows_bound(piece, beta, topics)
            totals += piece[:, :topics].sum(axis=0, dtype=np.float64)
        return record | self.compute_bound(
            end, data + totals_bound(totals, beta * self.shape.words)
        )
