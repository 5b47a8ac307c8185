"""Perplexity of an author-topic model: held-out words from the topics of their authors.

Some of each document's words are observed, the others scored (the split of ``completion.py``). The
mixtures theta_a of the test documents' authors are estimated from the observed words of all of
them, the topics held still:

    p(a, k | cell)  ~  theta_a[k] phi_k[w]
    theta_a[k]      =  (sum x p + alpha_k) / (sum over k + sum alpha)

This is the fixed point that ``infer`` computes for a document, for authors instead (the document's
own word is not taken out of the sums). Then p(w|d) = sum_a p(a|d) sum_k theta_a[k] phi_k[w], where
p(a|d) is the share of the observed words that a explains (Zeng, Cheung & Liu 2013, eq. 31, for the
author-topic model). With ``known``, authors whom the model knows keep the mixtures of the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from topicstream.addons.authors.method import AuthorLists, spread_authors
from topicstream.base.errors import InputError, UsageError
from topicstream.base.memory import MemoryLimit, Room
from topicstream.base.options import option
from topicstream.base.text import render
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import (
    Perplexity,
    check_documents,
    log_likelihood,
    split_documents,
)
from topicstream.evaluation.keys import document_keys, hash_strings, match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.scoring import Entry, Scorer, Scoring
from topicstream.evaluation.visiting import documents_of_block
from topicstream.inference.documents import Documents
from topicstream.inference.method import TopicRows
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.arrays import RowCells, TopicWeights
from topicstream.numeric.kernels.local_step import INNER, TOLERANCE
from topicstream.numeric.parallel import in_order

AXIS = "authors"
TITLES = {"authors": "author perplexity", "authors_known": "  of known authors"}
PERPLEXITY = "{title:22}{perplexity:.1f}   ({nats_per_token:.4f} nats a token)\n  {measured}"
CACHED_CELLS = 1 << 24
"""Observed cells that are kept in memory between the sweeps; of more documents the blocks are read
again.
"""


@dataclass(frozen=True, kw_only=True)
class AuthorScore(Perplexity):
    """Author perplexity of held-out documents.

    Attributes
    ----------
    authors
        Authors of the test documents, counting one private author per document without a named one.
    known
        Authors whose mixtures come from training.
    sweeps
        Sweeps over the observed words.
    """

    authors: int
    known: int
    unnamed: int
    sweeps: int
    split: float

    @property
    def measured(self) -> str:
        """Describe the measurement in words."""
        scored_percent = round(100 * (1 - self.split), 6)
        read_percent = round(100 * self.split, 6)
        whose = (
            f"{self.known:,} of the {self.authors:,} test authors as training left them, the others"
            if self.known
            else f"all {self.authors:,} test authors"
        )
        private = (
            f" ({self.unnamed:,} documents without an author have a private one)"
            if self.unnamed
            else ""
        )
        return (
            f"author perplexity of {scored_percent:g} % of each document's words (by type) under "
            f"its authors' topics; {whose} folded in from the other {read_percent:g} % of the "
            f"test documents, the topics fixed{private}"
        )


@dataclass(frozen=True)
class _Piece:
    """A block of test documents.

    Both sides of its cells, which documents are scored, and its authors (``ids`` int64[U], rows of
    theta; ``aptr``, ``local``).
    """

    observed: Documents
    withheld: Documents
    scored: np.ndarray
    ids: np.ndarray
    aptr: np.ndarray
    local: np.ndarray


def mixtures(model: TopicModel, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute theta_a, float32[n, K], and tokens, float64[n], of rows of the author table."""
    counts = np.maximum(model.table(AXIS).gather(rows), 0.0).astype(np.float64)
    tokens = counts.sum(1)
    norms = np.maximum(tokens + model.alpha.sum(), 1e-300)
    theta = (counts + model.alpha) / norms[:, None]
    return theta.astype(np.float32), tokens


class _TestAuthors:
    """The authors of the test documents.

    Named ones come first, by their ids, then a private one a document, used where it names none.

    Attributes
    ----------
    present
        int64[n], those that occur, ascending.
    theta
        float32[n, K].
    fixed
        bool[n], those that keep the mixtures of the training.
    """

    def __init__(
        self, model: TopicModel, corpus: Corpus, split: float, known: bool, limit: MemoryLimit
    ) -> None:
        self.model = model
        self.corpus = corpus
        self.split = split
        self.n_named = corpus.axes[AXIS].size
        topics = model.n_topics
        self.grid = corpus.grid(block_cells(topics), block_docs(topics), True, axes=(AXIS,))
        self._keys = document_keys(corpus, True)
        self._word_keys = hash_strings(model.vocabulary.words)
        self._index = match_words(model.vocabulary, corpus)
        self._cached: list[_Piece] | None = None
        used_by_piece = [np.unique(p.ids[p.local]) for p in self.pieces()]
        present = np.unique(np.concatenate([np.zeros(0, np.int64), *used_by_piece]))
        self.present = present
        Room(limit, limit.bytes // 2, share=0.5).check(
            20 * topics * len(present),
            f"a table of {len(present):,} test authors x {topics} topics",
        )
        self.rows = TopicRows(model)
        self.fixed = np.zeros(len(present), bool)
        self.theta = np.full((len(present), topics), 1.0 / topics, np.float32)
        if known:
            known_rows = np.flatnonzero(present < self.n_named)
            places = pc.index_in(
                corpus.axes[AXIS].names().take(present[known_rows]),
                value_set=model.table(AXIS).names,
            )
            known_rows = known_rows[places.is_valid().to_numpy(zero_copy_only=False)]
            trained, tokens = mixtures(model, places.drop_null().to_numpy())
            known_rows = known_rows[tokens > 0]
            trained = trained[tokens > 0]
            self.theta[known_rows] = trained
            self.fixed[known_rows] = True

    def pieces(self) -> Iterator[_Piece]:
        """Yield all blocks, in order."""
        if self._cached is not None:
            yield from self._cached
            return
        cached: list[_Piece] | None = [] if int(self.grid.cells.sum()) <= CACHED_CELLS else None
        for block in self.corpus.blocks(grid=self.grid, heldout=True, axes=(AXIS,)):
            keys = self._keys[block.first_doc : block.first_doc + block.n_docs]
            observed, withheld, scored = split_documents(
                documents_of_block(block, self._index), keys, self._word_keys, self.split
            )
            names = block.rows(AXIS)
            n_authors = np.diff(names.indptr)
            private = np.flatnonzero((n_authors == 0) & scored)
            # documents that are not scored have no part in their authors
            n_slots = np.where(scored, np.maximum(n_authors, 1), 0)
            aptr = np.concatenate(([0], np.cumsum(n_slots)))
            local = np.zeros(aptr[-1], np.int64)
            local[np.repeat(scored & (n_authors > 0), n_slots)] = names.local[
                np.repeat(scored, n_authors)
            ]
            local[aptr[private]] = len(names.ids) + np.arange(len(private))
            ids = np.concatenate(
                (names.ids.astype(np.int64), self.n_named + block.first_doc + private)
            )
            piece = _Piece(observed, withheld, scored, ids, aptr, local)
            if cached is not None:
                cached.append(piece)
            yield piece
        self._cached = cached

    def spread(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Spread the observed words of a piece over its authors.

        Returns
        -------
        tuple
            Row of theta of each of the piece's authors, their theta, the tokens that each gains by
            topic, and the tokens that each explains.
        """
        present = self.present
        observed = piece.observed
        theta_rows = np.searchsorted(present, piece.ids)
        cells, base = self.rows.gather(observed)
        gained = np.zeros((len(theta_rows), self.rows.topics))
        explained = np.zeros(len(piece.local))
        # ids of documents that are not scored are in no row: whatever stands there is never read
        theta = self.theta[np.minimum(theta_rows, len(present) - 1)]
        spread_authors(
            RowCells(observed.indptr, cells, observed.counts),
            TopicWeights(base, self.rows.beta, self.rows.inverse),
            AuthorLists(piece.aptr, piece.local),
            theta,
            gained,
            explained,
        )
        return theta_rows, theta, gained, explained

    def fold_in(self, threads: int, tol: float, inner: int) -> int:
        """Sweep over the observed words until the mixtures converge, and count the sweeps."""
        free = ~self.fixed
        alpha = self.model.alpha
        before = np.zeros(self.theta.shape)
        sweeps = 0

        def visit(piece: _Piece) -> tuple[_Piece, np.ndarray, np.ndarray]:
            theta_rows, _, gained, _ = self.spread(piece)
            return piece, theta_rows, gained

        while sweeps < inner and free.any():
            now = np.zeros_like(before)
            for piece, theta_rows, gained in in_order(visit, self.pieces(), threads):
                present = np.unique(piece.local)
                now[theta_rows[present]] += gained[present]
            sweeps += 1
            moved = np.abs(now - before)[free].sum()
            tokens = now[free].sum()
            before = now
            new = now[free] + alpha
            self.theta[free] = new / np.maximum(new.sum(1, keepdims=True), 1e-300)
            if moved <= tol * tokens:
                break
        return sweeps

    def score(self, piece: _Piece) -> tuple[_Piece, np.ndarray, np.ndarray]:
        """Return the piece, and log-likelihood and tokens of the scored words of each document."""
        _, theta, _, explained = self.spread(piece)
        total = np.zeros(len(piece.aptr) - 1)
        owner = np.repeat(np.arange(len(total)), np.diff(piece.aptr))
        np.add.at(total, owner, explained)
        mixed = np.zeros((len(total), self.rows.topics), np.float64)
        np.add.at(
            mixed,
            owner,
            (explained / np.maximum(total[owner], 1e-300))[:, None] * theta[piece.local],
        )
        return piece, *log_likelihood(self.rows, piece.withheld, mixed.astype(np.float32))


def author_perplexity(
    model: TopicModel,
    corpus: Corpus,
    *,
    split: float = 0.8,
    known_only: bool = False,
    threads: int = 1,
    tol: float = TOLERANCE,
    inner: int = INNER,
    limit: MemoryLimit | None = None,
) -> AuthorScore:
    """Score an author-topic model on the documents set aside of a store with authors.

    Parameters
    ----------
    model, corpus
        The author-topic model, and the store whose documents set aside it predicts.
    split
        Observed share of a document's words.
    known_only
        Authors of the model keep their mixtures.
    threads
        Threads that work; the score does not depend on them.
    tol, inner
        Tolerance and largest number of the sweeps over the observed words, as of ``infer``.
    limit
        Memory limit of the process; the mixtures may take half of it.

    Raises
    ------
    StoreError
        If model or store is damaged.
    InputError
        If no document can be scored.
    DoesNotFit
        If the mixtures of the authors do not fit.
    """
    check_documents(corpus, ("heldout",))
    authors = _TestAuthors(model, corpus, split, known_only, limit or MemoryLimit.parse(None))
    sweeps = authors.fold_in(threads, tol, inner)
    sums = np.zeros(2)
    docs = 0
    skipped = 0
    for piece, loglik, tokens in in_order(authors.score, authors.pieces(), threads):
        sums += loglik.sum(), tokens.sum()
        docs += int(piece.scored.sum())
        skipped += int((~piece.scored).sum())
    if sums[1] == 0:
        raise InputError(
            "no document could be scored: each needs two different known words; check that "
            "model and documents share a vocabulary"
        )
    nats = float(-sums[0] / sums[1])
    present = authors.present
    private = int((present >= authors.n_named).sum())
    trained = int(authors.fixed.sum())
    return AuthorScore(
        perplexity=float(np.exp(nats)),
        nats_per_token=nats,
        tokens=float(sums[1]),
        docs=docs,
        skipped=skipped,
        authors=len(present),
        known=trained,
        unnamed=private,
        sweeps=sweeps,
        split=split,
    )


@dataclass(frozen=True)
class AuthorScoreOptions:
    """Options of the scorer."""

    authors: str | None = option(
        None,
        "For an author-topic model, with --heldout: perplexity with the test authors' mixtures "
        "inferred from "
        "their documents (folded, always printed) or as learned in training (known).",
        choices=("folded", "known"),
    )


def _author_scores(run: Scoring, options: AuthorScoreOptions) -> Mapping[str, Entry]:
    """Score author perplexity, folded in and, if requested, with the training's mixtures."""
    model = run.model
    corpus = run.corpus
    if options.authors is not None and run.config.heldout is not True:
        raise InputError(
            "--authors requires --heldout of the corpus itself: its documents' authors are needed"
        )
    if not (AXIS in model.manifest.tables and AXIS in corpus.axes):
        if options.authors is not None:
            model.table(AXIS)  # says what is missing
            corpus.axes[AXIS]
        return {}
    if run.split == 0.0:
        if options.authors is not None:
            raise UsageError(
                "--split 0/100: mixtures of test authors are inferred from words that are read; "
                "leave out --authors, or read some words, such as 20/80"
            )
        return {}
    scores = {}
    for name in ("authors", "authors_known") if options.authors == "known" else ("authors",):
        known = name == "authors_known"
        limit = run.config.memory
        score = author_perplexity(
            model, corpus, split=run.split, known_only=known, threads=run.threads, limit=limit
        )
        scores[name] = Entry(score)
    return scores


AUTHORS = Scorer(
    "authors",
    _author_scores,
    Options=AuthorScoreOptions,
    also_runs=lambda config, options: config.heldout is True or options.authors is not None,
    kinds=(),
    text=lambda name, score: render(PERPLEXITY, {**score, "title": TITLES[name]}),
)
