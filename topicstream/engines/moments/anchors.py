"""Anchor words: topics from words that belong to one topic each, found in the co-occurrence matrix (four passes).

    1  count     p(w), the row sums of M, and documents of each word
                 end: the words in enough documents are the candidates, which are numbered
    2  project   S = M R, R of 1000 columns of random signs: rows of M nearly keep their distances; candidates' rows alone
                 end: the K words whose rows S_w / p(w) lie furthest apart are the anchors s_1 .. s_K
    3  columns   A = M[:, s], and p(w)
    4  products  B = M A
                 end: every word's convex weights on the anchors' rows, from G_kj = B[s_k, j] / (p(s_k) p(s_j)) and
                 b_k = B[w, k] / (p(w) p(s_k)), which are the exact products of rows of M; then p(w|k) ~ p(w) c_wk

All is kept as sums over documents; the mean cancels.  ``--recover kl`` weighs words by divergence, which needs the rows
themselves: pass 4 then adds up M, W x W numbers in RAM or on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from topicstream.corpus.block import Block
from topicstream.engines.base import (
    BlockShape,
    Engine,
    Key,
    Options,
    Out,
    Phase,
    Shape,
    SparseDelta,
    TableSpec,
    option,
    padded,
)
from topicstream.engines.moments import cooccurrence as co
from topicstream.engines.moments import picking
from topicstream.engines.moments.simplex import kl_weights, simplex_weights
from topicstream.errors import InputError, TopicsError
from topicstream.tables.table import Table

PROJECTION = 1000
SOLVED, ROWS = 512, 32  # words whose problems are solved at a time; with whole rows
DEFAULT_ALPHA_SUM, BETA = 1.0, 0.01
ALPHA_BOUNDS = 0.01, 10.0  # a topic


@dataclass(frozen=True)
class AnchorOptions(Options):
    """Options of ``anchors``."""

    min_docs: int | None = option(
        None, "documents that an anchor word is in at least (default: their number over K, at most 5 % of them)", min=1
    )
    min_tokens: int = option(20, "documents of fewer tokens have no part in the co-occurrences", min=2, was=2)
    recover: str = option(
        "l2",
        "weights of a word by squared distance or by divergence (kl: takes words x words numbers)",
        choices=("l2", "kl"),
    )


class Anchors(Engine):
    """``anchors``: topics by anchor words, out of core."""

    name = "anchors"
    prior_defaults = ("1/K", "0.01")
    cites = "Arora et al. 2013, A Practical Algorithm for Topic Modeling with Provable Guarantees, Alg. 1-4; co-occurrence as Fisher, Kozdoba & Mannor, eq. 9"
    Options: ClassVar[Any] = AnchorOptions
    starts = ("random",)  # of the projection
    start_from = "empty"
    takes_seeds = False  # its topics are no counts with a prior
    default_tol = 0.0
    accepts_weights = False
    shown_params = ("anchors", "distances")
    alpha_bounds = ALPHA_BOUNDS

    def __init__(self, shape: Shape, options: Any) -> None:
        super().__init__(shape, options)
        if options.learn_priors:
            raise TopicsError("anchors takes its priors from the moments; leave --learn-priors out")

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        k = self.shape.topics
        kl = self.options.recover == "kl"
        rows = (
            {"matrix": TableSpec(columns=self.shape.words, delta="sparse")}
            if kl
            else {"products": TableSpec(dtype="float64")}
        )
        return {
            "counted": TableSpec(columns=3, dtype="float64"),  # p(w), documents, number as a candidate (-1: none)
            "projected": TableSpec(rows=self.most_candidates, columns=PROJECTION, delta="sparse"),
            "columns": TableSpec(columns=k + 1, dtype="float64"),  # and p(w)
            **rows,
            "phi": TableSpec(delta="sparse"),  # written by the end of the last phase alone
        }

    @property
    def phases(self) -> tuple[Phase, ...]:
        return (
            Phase("count", 1, reads=(), writes=("counted",)),
            Phase("project", 1, reads=("counted",), writes=("projected",)),
            Phase("columns", 1, reads=(), writes=("columns",)),
            Phase("matrix", 1, reads=(), writes=("matrix",))
            if self.options.recover == "kl"
            else Phase("products", 1, reads=("columns",), writes=("products",)),
        )

    @property
    def stats(self) -> Mapping[str, int]:
        return {"docs": 1}

    def initial_params(self) -> dict[str, np.ndarray]:
        k = self.shape.topics
        alpha = DEFAULT_ALPHA_SUM / k if self.options.alpha is None else self.options.alpha
        beta = BETA if self.options.beta is None else self.options.beta
        return {
            "alpha": np.full(k, alpha, np.float64),
            "beta": np.array([beta], np.float64),
            "anchors": np.full(k, -1, np.int64),
            "distances": np.zeros(k),
            "docs": np.zeros(1),
        }

    @property
    def most_candidates(self) -> int:
        """Words that can be in ``least_docs`` documents or more."""
        return max(1, min(self.shape.words, self.shape.cells // self.least_docs))

    def block_cells(self) -> int:
        """Small enough that a round's rows take half a gigabyte at most, whatever the corpus."""
        return int(max(min(self.shape.cells // 64, 1 << (13 if self.options.recover == "kl" else 17)), 1 << 12))

    def keep_bytes(self, block: BlockShape) -> int:
        candidates = min(block.words, self.most_candidates)
        projected = 8 * PROJECTION * candidates + 8 * self.most_candidates + 64
        if self.options.recover != "kl":
            return projected
        return projected + 8 * min(block.cells * (block.longest or block.words), block.words**2) + 8 * block.words

    def scratch_bytes(self, block: BlockShape) -> int:
        k = self.shape.topics
        sums = block.docs * max(4 * PROJECTION, 8 * padded(k + 1))
        picks = 8 * (k + 4) * PROJECTION + 48 * self.shape.words  # of the one thread that picks
        return sums + 24 * block.docs + 8 * block.cells + block.words * (8 * (PROJECTION // co.SIGNS) + 40) + picks

    # -- visits ----------------------------------------------------------------------------------------------------
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
        take, k = out.scratch.array, self.shape.topics
        docs, cells, words = block.n_docs, block.n_cells, block.n_words
        weight, length = take("weight", docs, np.float64), take("length", docs, np.float64)
        out.stats["docs"][0] = co.pair_weights(block.indptr, block.counts, self.least_tokens, weight, length)
        ptr, doc, value = take("ptr", words + 1, np.int64), take("doc", cells, np.int32), take("x", cells, np.float32)
        co.by_word(block.indptr, block.words, block.counts, ptr, doc, value)
        own = take("own", (words, 3), np.float64)
        co.word_sums(ptr, doc, weight, length, value, own)
        every = take("every", words, np.int64)
        every[:] = np.arange(words)
        if key.phase == "count":
            out.delta["counted"][:] = 0.0
            out.delta["counted"][:, 0], out.delta["counted"][:, 1] = own[:, 0], own[:, 2]
        elif key.phase == "project":
            n, place = PROJECTION // co.SIGNS, rows["counted"].base[rows["counted"].index, 2].astype(np.int64)
            column, sign = take("column", (words, n), np.int32), take("sign", (words, n), np.float32)
            co.signs(key.seed, block.vocab, column, sign)
            sums = take("sums", (docs, PROJECTION), np.float32)
            which = every[place >= 0]  # ascending, as their places are
            ends = out.keep.array("ends", self.most_candidates + 1, np.int64)
            ends[:] = PROJECTION * np.searchsorted(place[which], np.arange(len(ends)))
            columns = out.keep.array("column", (len(which), PROJECTION), np.int32)
            columns[:] = np.arange(PROJECTION)
            delta = out.keep.array("x", (len(which), PROJECTION), np.float32)
            self._sparse(block, weight, column, sign, sums, ptr, doc, value, own, which, delta)
            out.delta["projected"] = SparseDelta(ends, columns.ravel(), delta.ravel())
        elif key.phase == "columns":
            delta = out.delta["columns"]
            column, sign = take("column", (words, 1), np.int32), take("sign", (words, 1), np.float32)
            column[:, 0] = topic_of_anchor(params["anchors"], block.vocab)
            sign[:] = 1.0
            sums = take("wide sums", (docs, k), np.float64)
            self._sparse(block, weight, column, sign, sums, ptr, doc, value, own, every, delta)
            delta[:, k] = own[:, 0]
            delta[:, k + 1 :] = 0.0
        elif key.phase == "matrix":
            lengths = np.diff(block.indptr)
            most = min(int((lengths**2).sum()), words * words)
            acc, ends = take("acc", words, np.float64), out.keep.array("ends", words + 1, np.int64)
            column, x = out.keep.array("column", most, np.int32), out.keep.array("x", most, np.float32)
            acc[:] = 0.0
            cells_of = (block.indptr, block.words, block.counts, weight, block.vocab)
            n = co.matrix_rows(ptr, doc, value, *cells_of, acc, take("seen", words, np.int32), column, x, ends)
            out.delta["matrix"] = SparseDelta(ends, column[:n], x[:n])
        else:
            delta, base, index = out.delta["products"], rows["columns"].base, rows["columns"].index
            sums = take("wide sums", (docs, k), np.float64)
            co.dense_sums(block.indptr, block.words, block.counts, weight, base, index, sums)
            co.spread(ptr, doc, value, sums, every, delta)
            delta[:, :k] -= own[:, 1][:, None] * base[index, :k]
            delta[:, k:] = 0.0

    def _sparse(
        self,
        block: Block,
        weight: np.ndarray,
        column: np.ndarray,
        sign: np.ndarray,
        sums: np.ndarray,
        ptr: np.ndarray,
        doc: np.ndarray,
        value: np.ndarray,
        own: np.ndarray,
        which: np.ndarray,
        delta: np.ndarray,
    ) -> None:
        """delta = rows ``which`` of the block's part of M X, X given by its few entries a row."""
        co.sparse_sums(block.indptr, block.words, block.counts, weight, column, sign, sums)
        co.spread(ptr, doc, value, sums, which, delta)
        co.take_diagonal(own[:, 1], column, sign, which, delta)

    # -- ends of passes and phases ---------------------------------------------------------------------------------
    def end_pass(
        self, params: dict[str, np.ndarray], stats: Mapping[str, np.ndarray], totals: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        params["docs"][0] = stats["docs"][0]
        if not stats["docs"][0] > 0:
            raise InputError("anchors: no document has two words or more, so no two words stand together")
        return {"docs": float(stats["docs"][0])}

    def end_phase(self, phase: Phase, tables: Mapping[str, Table], params: dict[str, np.ndarray]) -> list[str]:
        if phase.name == "count":
            self._number(tables["counted"])
        if phase.name == "project":
            return self._pick(tables["counted"], tables["projected"], params)
        if phase.name in ("products", "matrix"):
            return self._recover(tables, params)
        return []

    @property
    def least_docs(self) -> int:
        """Documents that an anchor is in, at least: enough that its row is no noise, few enough that a topic's own words have
        them (with one topic a document each of K has D/K)."""
        if self.options.min_docs is not None:
            return int(self.options.min_docs)
        return int(max(2, self.shape.docs * min(1.0 / self.shape.topics, 0.05)))

    @property
    def least_tokens(self) -> float:
        """Tokens of a document that takes part; of a corpus of short documents half their mean."""
        mean = self.shape.tokens / max(1, self.shape.docs)
        return float(max(2.0, min(float(self.options.min_tokens), mean / 2)))

    def _number(self, counted: Table) -> None:
        """Number the candidates, by word."""
        docs = np.concatenate([rows[:, 1].copy() for _, rows in counted.pieces()])
        place = np.where(docs >= self.least_docs, np.cumsum(docs >= self.least_docs) - 1, -1)

        def numbered(first: int, rows: np.ndarray) -> np.ndarray:
            rows[:, 2] = place[first : first + len(rows)]
            return rows

        counted.rewrite(numbered)

    def _pick(self, counted: Table, projected: Table, params: dict[str, np.ndarray]) -> list[str]:
        if not params["docs"][0] > 0:  # the made tables of the warm-up
            return []
        rows = np.concatenate([part[:, [0, 2]] for _, part in counted.pieces()])
        words, topics = np.flatnonzero(rows[:, 1] >= 0), self.shape.topics
        n = len(words)
        if n < topics:
            raise InputError(
                f"anchors: only {n:,} words are in {self.least_docs:,} documents or more, too few for {topics} anchor words; "
                "lower -K or --min-docs"
            )
        picked = picking.pick(projected.pieces, PROJECTION, rows[words, 0], n, topics)
        params["anchors"][:], params["distances"][:] = words[picked.anchors], picked.distances
        return picking.lines(picked, n)

    def _recover(self, tables: Mapping[str, Table], params: dict[str, np.ndarray]) -> list[str]:
        """phi = N p(w) c_wk, range by range."""
        k, phi = self.shape.topics, tables["phi"]
        anchors = params["anchors"]
        if anchors[0] < 0:  # the made tables of the warm-up
            simplex_weights(np.eye(2), np.ones((1, 2)), np.full(1, -1), np.empty((1, 2)))
            if self.options.recover == "kl":
                kl_weights(np.eye(2), np.ones((1, 2), np.float32), np.ones(1), np.full(1, -1), np.empty((1, 2)))
            return []
        ours = _rows(tables["columns"], anchors, k + 1)
        mass = ours[:, k].copy()
        kl = self.options.recover == "kl"
        if kl:
            whole = _rows(tables["matrix"], anchors, self.shape.words).T.astype(np.float64) / mass
        else:
            gram = _rows(tables["products"], anchors, k) / np.outer(mass, mass)
            gram = (gram + gram.T) / 2
        scale = self.shape.tokens / tables["columns"].totals[k]
        unfinished: list[int] = []

        def solved(first: int, stop: int) -> np.ndarray:
            made = np.zeros((stop - first, phi.width), np.float32)
            step = ROWS if kl else SOLVED
            for at in range(first, stop, step):
                ids = np.arange(at, min(at + step, stop))
                p = _rows(tables["columns"], ids, k + 1)[:, k]
                c = np.empty((len(ids), k))
                topic = topic_of_anchor(anchors, ids).astype(np.int64)
                if kl:
                    left = kl_weights(whole, _rows(tables["matrix"], ids, self.shape.words), p, topic, c)
                else:
                    rhs = np.full((len(ids), k), np.nan)
                    np.divide(_rows(tables["products"], ids, k), np.outer(p, mass), out=rhs, where=(p > 0)[:, None])
                    left = simplex_weights(gram, rhs, topic, c)
                if left:
                    unfinished.append(int(left))
                made[at - first : at - first + len(ids), :k] = c * (scale * p)[:, None]
            return made

        phi.fill(solved)
        sizes = phi.totals[:k] / max(float(phi.totals[:k].sum()), 1e-300)
        said = []
        if self.options.alpha is None:
            params["alpha"][:] = dirichlet_of(
                apart_of(ours[:, :k] / np.outer(mass, mass), sizes, tables["columns"].totals[k]), sizes
            )
            said.append(f"alpha from the moments: {params['alpha'].sum():.3g} over all topics")
        if unfinished:
            said.append(
                f"warning: {sum(unfinished):,} words' weights are near, not at, their best: some anchors' rows are nearly the same"
            )
        return said


def topic_of_anchor(anchors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """int32: of each word the topic that it is the anchor of, or -1."""
    order = np.argsort(anchors, kind="stable")
    at = np.minimum(np.searchsorted(anchors[order], ids), len(anchors) - 1)
    return np.where(anchors[order][at] == ids, order[at], -1).astype(np.int32)


def _rows(table: Table, ids: np.ndarray, columns: int) -> np.ndarray:
    """Rows of these words (any order) in the table's own precision, [n, columns]."""
    from topicstream.tables.spec import Scratch

    order = np.argsort(ids, kind="stable")
    got = table.gather(np.asarray(ids, np.int32)[order], Scratch())
    out = np.empty((len(ids), columns), got.base.dtype)
    out[order] = got.base[got.index, :columns] * got.scale
    return out


def apart_of(ratio: np.ndarray, sizes: np.ndarray, mass: float) -> float:
    """p(two tokens are of different topics), the sum over k != j of a_kj, from the anchors' rows alone.

    ratio   M[s_k, s_j] / (p(s_k) p(s_j)), in sums over documents, so that a_kj = ratio p_k p_j mass for topics with anchors
            (its diagonal is left alone: a word that a document has once it often has again, whatever the topic)
    """
    joint = ratio * mass * np.outer(sizes, sizes)
    return float(joint.sum() - np.trace(joint))


def dirichlet_of(apart: float, sizes: np.ndarray) -> np.ndarray:
    """alpha float64[K] of the Dirichlet under which two tokens of a document are of different topics with probability
    ``apart`` = alpha0 (1 - sum_k p_k^2) / (alpha0 + 1), alpha_k = alpha0 p_k; sizes: p_k.  Held to ALPHA_BOUNDS."""
    topics, possible = len(sizes), float(1.0 - (sizes**2).sum())
    total = apart / (possible - apart) if 0.0 < apart < possible else (np.inf if apart > 0 else 0.0)
    low, high = ALPHA_BOUNDS
    return np.asarray(float(np.clip(total, low * topics, high * topics)) * np.maximum(sizes, 1e-6))
