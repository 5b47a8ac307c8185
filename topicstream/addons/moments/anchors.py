"""Anchor words: topics from words that belong to one topic each.

They are found in the co-occurrence matrix M, in four passes and some of EM:

1. count: p(w), the row sums of M, and documents of each word. At the end, the words in enough
   documents become the candidates, which are numbered.
2. project: S = M R, R of 1000 columns of random signs, for the candidates' rows alone. Rows of M
   nearly keep their distances. At the end, the K words whose rows S_w / p(w) lie furthest apart
   become the anchors s_1 .. s_K.
3. columns: A = M[:, s], and p(w).
4. products: B = M A. At the end, every word's convex weights on the anchors' rows follow from G_kj
   = B[s_k, j] / (p(s_k) p(s_j)) and b_k = B[w, k] / (p(w) p(s_k)), which are the exact products of
   rows of M. Then p(w|k) ~ p(w) c_wk.
5. refine (``--refine`` passes): EM over all documents from these topics, theta folded in at each
   visit: sTBP's pass. Every topic of pass 4 holds words that are frequent everywhere. Documents say
   whose they are.

Passes 1 to 4 sum over documents, and the mean cancels.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.addons.moments import cooccurrence as co
from topicstream.addons.moments import geometry as picking
from topicstream.addons.moments.geometry import simplex_weights
from topicstream.base.errors import InputError
from topicstream.engines.base import (
    About,
    BlockShape,
    Buffer,
    Engine,
    Layout,
    Options,
    Out,
    PassEnd,
    Phase,
    Priors,
    Rule,
    Scratch,
    Shape,
    SparseDelta,
    TableSpec,
    Visit,
    option,
)
from topicstream.engines.message.stbp import STBP
from topicstream.numeric.tables.table import Table

PROJECTION = 1000
"""Columns of the projection."""
SOLVED = 128
"""Words whose weights are solved at a time."""
ALPHA_SUM_BOUNDS = 0.1, 100.0
"""Bounds of the sum of alpha: two tokens of a document are of one topic with probability 10/11, and
about 1/K.
"""


@dataclass(frozen=True)
class AnchorOptions(Options):
    """Options of ``anchors``."""

    min_docs: int | None = option(
        None,
        "Minimum number of documents with an anchor word (default: documents / K, at most 5 % "
        "of them).",
        min=1,
    )
    min_tokens: int = option(
        20, "Leave documents with fewer tokens out of the co-occurrences.", min=2
    )
    refine: int = option(
        3,
        "Run so many passes of EM over the documents after the four of the method; 0: none.",
        min=0,
    )


class Anchors(Engine):
    """``anchors``: topics by anchor words, out of core."""

    name = "anchors"
    cites = (
        "Arora et al. 2013, A Practical Algorithm for Topic Modeling with Provable Guarantees, "
        "Alg. 1-4; co-occurrence as Fisher, Kozdoba & Mannor, eq. 9"
    )
    Options: ClassVar[Any] = AnchorOptions
    about = About(
        priors=Priors(1.0, 0.01, together=True),
        starts=("random",),  # of the projection
        real_cells=False,
        constants=False,  # its topics are no counts with a prior
        learns_priors=False,  # moments give alpha
        stored_params=("anchors", "distances"),
        tol=0.0,
        alpha_sum_bounds=ALPHA_SUM_BOUNDS,
    )

    def __init__(self, shape: Shape, options: AnchorOptions) -> None:
        super().__init__(shape, options)
        self._em = STBP(shape, STBP.Options(theta="fold-in"))

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        k = self.shape.topics
        return {
            "counted": TableSpec(
                columns=3, dtype="float64"
            ),  # p(w), documents, number as a candidate (-1: none)
            "projected": TableSpec(rows=self.most_candidates, columns=PROJECTION, delta="sparse"),
            "columns": TableSpec(columns=k + 1, dtype="float64"),  # and p(w)
            "products": TableSpec(dtype="float64"),
            # filled by the end of pass 4
            "phi": TableSpec(rule=Rule.REPLACE)
            if self.options.refine
            else TableSpec(delta="sparse"),
        }

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (
            Phase("count", 1, reads=(), writes=("counted",), start="empty"),
            Phase("project", 1, reads=("counted",), writes=("projected",)),
            Phase("columns", 1, reads=(), writes=("columns",)),
            Phase("products", 1, reads=("columns",), writes=("products",)),
            *(
                [Phase("refine", self.options.refine, reads=("phi",), writes=("phi",))]
                if self.options.refine
                else []
            ),
        )

    @property
    def stats(self) -> Mapping[str, int]:
        return {"docs": 1, **self._em.stats} if self.options.refine else {"docs": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        k = self.shape.topics
        anchor_params = {"anchors": np.full(k, -1, np.int64), "distances": np.zeros(k)}
        return super().initial_params() | anchor_params

    @property
    def most_candidates(self) -> int:
        """Count the words that can be in ``least_docs`` documents or more, at most."""
        return max(1, min(self.shape.words, self.shape.cells // self.least_docs))

    @property
    def layout(self) -> Layout:
        """Layout whose rounds take half a gigabyte of rows at most, whatever the corpus."""
        return replace(
            super().layout, block_cells=max(min(self.shape.cells // 64, 1 << 17), 1 << 12)
        )

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare the work space.

        Nearly all of passes 1 to 4 is temporaries of NumPy.
        """
        k = self.shape.topics
        docs = block.docs
        words = block.words
        cells = block.cells
        candidates = min(words, self.most_candidates)
        return (self._em.workspace(block) if self.options.refine else {}) | {
            # the counts of documents that take part, and the documents of cells
            "counts": Buffer((6, cells), "float64"),
            "sums of words": Buffer((words + docs, 6), "float64"),
            "signs": Buffer((words, 2 * PROJECTION // co.SIGNS), "float64"),
            # the anchors' columns, and the product before it enters the delta
            "product": Buffer((words, 3 * k), "float64"),
            # of the one thread that picks
            "picks": Buffer((k + 4, PROJECTION), "float64"),
            "candidates": Buffer((6, self.shape.words), "float64"),
            "ends": Buffer(self.most_candidates + 1, "int64", keep=True),
            "column": Buffer((candidates, PROJECTION), "uint16", keep=True),
            "x": Buffer((candidates, PROJECTION), "float32", keep=True),
        }

    # visits

    def process(self, visit: Visit, out: Out) -> None:
        if visit.key.phase == "refine":
            self._em.process(visit, out)
            return
        block = visit.block
        rows = visit.rows
        k = self.shape.topics
        pairs = co.collect_pairs(block, self.least_tokens)
        out.stats["docs"][0] = np.count_nonzero(pairs.weight)
        all_words = np.arange(block.n_words, dtype=np.int32)
        if visit.key.phase == "count":
            delta = out.delta["counted"]
            delta[:] = 0.0
            delta[:, 0] = pairs.sums
            delta[:, 1] = pairs.documents
        elif visit.key.phase == "project":
            candidate_number = rows["counted"].base[rows["counted"].index, 2].astype(np.int64)
            candidates = np.flatnonzero(candidate_number >= 0)  # ascending, as their places are
            ends = out.array("ends")
            ends[:] = PROJECTION * np.searchsorted(
                candidate_number[candidates], np.arange(len(ends))
            )
            column = out.array("column", (len(candidates), PROJECTION))
            x = out.array("x", (len(candidates), PROJECTION))
            column[:] = np.arange(PROJECTION)
            row = np.full(block.n_words, -1, np.int32)
            row[candidates] = np.arange(len(candidates))
            pairs.multiply(co.draw_signs(visit.key.seed, block.vocab, PROJECTION), row, x)
            out.delta["projected"] = SparseDelta(ends, column.ravel(), x.ravel())
        elif visit.key.phase == "columns":
            topic = find_anchor_topics(visit.params["anchors"], block.vocab)
            anchors = co.FewEntries(topic[:, None], np.ones((block.n_words, 1)))
            delta = out.delta["columns"]
            products = np.empty((block.n_words, k))
            pairs.multiply(anchors, all_words, products)
            delta[:] = 0.0
            delta[:, k] = pairs.sums
            delta[:, :k] = products
        else:
            delta = out.delta["products"]
            columns = rows["columns"].base[rows["columns"].index, :k]
            products = np.empty((block.n_words, k))
            pairs.multiply(columns, all_words, products)
            delta[:] = 0.0
            delta[:, :k] = products

    # ends of passes and phases

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        if end.phase.name == "refine":
            return {}
        docs = float(end.stats["docs"][0])
        if not docs > 0:
            raise InputError(
                "anchors: no document has two or more words, so there are no co-occurrences"
            )
        return {"docs": docs}

    def end_phase(self, end: PassEnd) -> None:
        if end.phase.name == "count":
            self._number_candidates(end.tables["counted"])
        elif end.phase.name == "project":
            self._pick_anchors(end)
        elif end.phase.name == "products":
            self._recover_topics(end)

    @property
    def least_docs(self) -> int:
        """Return the least number of documents that an anchor is in.

        They are enough for its row to be no noise, and few enough for a topic's own words to be in
        so many: with one topic a document, each of K topics has D/K.
        """
        if self.options.min_docs is not None:
            return int(self.options.min_docs)
        return int(max(2, self.shape.docs * min(1.0 / self.shape.topics, 0.05)))

    @property
    def least_tokens(self) -> float:
        """Return the least tokens of a document that takes part, half the mean of short ones."""
        mean = self.shape.tokens / max(1, self.shape.docs)
        return float(max(2.0, min(float(self.options.min_tokens), mean / 2)))

    def _number_candidates(self, counted: Table) -> None:
        """Assign numbers to the candidates, by word."""
        docs = np.concatenate([rows[:, 1].copy() for _, rows in counted.pieces()])
        place = np.where(docs >= self.least_docs, np.cumsum(docs >= self.least_docs) - 1, -1)

        def write_numbers(first: int, rows: np.ndarray) -> np.ndarray:
            rows[:, 2] = place[first : first + len(rows)]
            return rows

        counted.rewrite(write_numbers)

    def _pick_anchors(self, end: PassEnd) -> None:
        """Choose the anchors among the candidates, and report them."""
        rows = np.concatenate([part[:, [0, 2]] for _, part in end.tables["counted"].pieces()])
        words = np.flatnonzero(rows[:, 1] >= 0)
        topics = self.shape.topics
        n = len(words)
        if n < topics:
            raise InputError(
                f"anchors: only {n:,} words are in {self.least_docs:,} documents or more, too "
                f"few for {topics} anchor words; lower -K or --min-docs"
            )

        def report(picked_so_far: int) -> None:
            end.step("choosing anchors", picked_so_far, topics, "words")

        picked = picking.pick_anchors(
            end.tables["projected"].pieces, PROJECTION, rows[words, 0], n, topics, report
        )
        end.params["anchors"][:] = words[picked.anchors]
        end.params["distances"][:] = picked.distances
        for line in picking.describe_picks(picked, n):
            end.say(line)

    def _recover_topics(self, end: PassEnd) -> None:
        """Solve for the weights c of all words, and fill phi = N p(w) c_wk range by range."""
        tables = end.tables
        params = end.params
        k = self.shape.topics
        phi = end.tables["phi"]
        anchors = params["anchors"]
        anchor_columns = _gather_rows(tables["columns"], anchors, k + 1)
        mass = anchor_columns[:, k].copy()
        gram = _gather_rows(tables["products"], anchors, k) / np.outer(mass, mass)
        gram = (gram + gram.T) / 2
        scale = self.shape.tokens / tables["columns"].totals[k]
        unfinished: list[int] = []
        lock = threading.Lock()
        words_done = 0

        def report(words: int) -> None:
            nonlocal words_done
            with lock:
                words_done += words
                end.step("anchor weights", words_done, phi.n_rows, "words")

        def solve_range(first: int, stop: int) -> np.ndarray:
            weights = np.zeros((stop - first, phi.width), np.float32)
            for begin in range(first, stop, SOLVED):
                ids = np.arange(begin, min(begin + SOLVED, stop))
                p = _gather_rows(tables["columns"], ids, k + 1)[:, k]
                c = np.empty((len(ids), k))
                topic = find_anchor_topics(anchors, ids).astype(np.int64)
                rhs = np.full((len(ids), k), np.nan)
                np.divide(
                    _gather_rows(tables["products"], ids, k),
                    np.outer(p, mass),
                    out=rhs,
                    where=(p > 0)[:, None],
                )
                unfinished_words = simplex_weights(gram, rhs, topic, c)
                if unfinished_words:
                    unfinished.append(int(unfinished_words))
                report(len(ids))
                weights[begin - first : begin - first + len(ids), :k] = c * (scale * p)[:, None]
            return weights

        phi.fill(solve_range)
        sizes = phi.totals[:k] / max(float(phi.totals[:k].sum()), 1e-300)
        if self.options.alpha is None:
            params["alpha"][:] = fit_dirichlet(
                estimate_apart(
                    anchor_columns[:, :k] / np.outer(mass, mass), sizes, tables["columns"].totals[k]
                ),
                sizes,
            )
            end.say(f"alpha from the moments: {params['alpha'].sum():.3g} over all topics")
        if unfinished:
            end.say(
                f"warning: {sum(unfinished):,} words' weights have not fully converged: some "
                f"anchor words are nearly equal"
            )


def find_anchor_topics(anchors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Find the topic that each word is the anchor of, or -1: int32."""
    order = np.argsort(anchors, kind="stable")
    place = np.minimum(np.searchsorted(anchors[order], ids), len(anchors) - 1)
    return np.where(anchors[order][place] == ids, order[place], -1).astype(np.int32)


def _gather_rows(table: Table, ids: np.ndarray, columns: int) -> np.ndarray:
    """Read the rows of words in any order, in the table's own precision, [n, columns]."""
    order = np.argsort(ids, kind="stable")
    rows = table.gather(np.asarray(ids, np.int32)[order], Scratch())
    out = np.empty((len(ids), columns), rows.base.dtype)
    out[order] = rows.base[rows.index, :columns] * rows.scale
    return out


def estimate_apart(ratio: np.ndarray, sizes: np.ndarray, mass: float) -> float:
    """Estimate the probability that two tokens are of different topics.

    The sum over k != j of a_kj, from the anchors' rows alone.

    Parameters
    ----------
    ratio
        M[s_k, s_j] / (p(s_k) p(s_j)), in sums over documents, so that a_kj = ratio p_k p_j mass for
        topics with anchors. Its diagonal is left out: a word that a document has once it often has
        again, whatever the topic.
    """
    joint = ratio * mass * np.outer(sizes, sizes)
    return float(joint.sum() - np.trace(joint))


def fit_dirichlet(apart: float, sizes: np.ndarray) -> np.ndarray:
    """Fit the Dirichlet under which two tokens differ in topic with probability ``apart``.

    apart = alpha0 (1 - sum_k p_k^2) / (alpha0 + 1), alpha_k = alpha0 p_k, with ``sizes`` p_k.
    alpha0 is held to ALPHA_SUM_BOUNDS.

    Returns
    -------
    numpy.ndarray
        alpha, float64[K].
    """
    possible = float(1.0 - (sizes**2).sum())
    total = 0.0
    if 0.0 < apart < possible:
        total = apart / (possible - apart)
    elif apart > 0:
        total = np.inf
    return np.asarray(float(np.clip(total, *ALPHA_SUM_BOUNDS)) * np.maximum(sizes, 1e-6))
