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
KEPT_CELLS = 1 << 24
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
        """In words."""
        rest = round(100 * (1 - self.split), 6)
        seen = round(100 * self.split, 6)
        how = (
            f"{self.known:,} of the {self.authors:,} test authors as training left them, the others"
            if self.known
            else f"all {self.authors:,} test authors"
        )
        own = (
            f" ({self.unnamed:,} documents without an author have a private one)"
            if self.unnamed
            else ""
        )
        return (
            f"author perplexity of {rest:g} % of each document's words (by type) under its "
            f"authors' topics; {how} folded in "
            f"from the other {seen:g} % of the test documents, the topics fixed{own}"
        )


@dataclass(frozen=True)
class _Piece:
    """A block of test documents.

    Both sides of its cells, which documents are scored, and its authors (``ids`` int64[U], rows of
    theta; ``aptr``, ``local``).
    """

    seen: Documents
    rest: Documents
    scored: np.ndarray
    ids: np.ndarray
    aptr: np.ndarray
    local: np.ndarray


def mixtures(model: TopicModel, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute theta_a, float32[n, K], and tokens, float64[n], of rows of the author table."""
    counts = np.maximum(model.table(AXIS).gather(rows), 0.0).astype(np.float64)
    tokens = counts.sum(1)
    return (
        (counts + model.alpha) / np.maximum(tokens + model.alpha.sum(), 1e-300)[:, None]
    ).astype(np.float32), tokens


class _TestAuthors:
    """The authors of the test documents.

    Named ones come first, by their ids, then a private one a document, used where it names none.

    Attributes
    ----------
    used
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
        self.named = corpus.axes[AXIS].size
        topics = model.n_topics
        self.grid = corpus.grid(block_cells(topics), block_docs(topics), True, axes=(AXIS,))
        self._keys = document_keys(corpus, True)
        self._word_keys = hash_strings(model.vocabulary.words)
        self._index = match_words(model.vocabulary, corpus)
        self._kept: list[_Piece] | None = None
        used_by_piece = [np.unique(p.ids[p.local]) for p in self.pieces()]
        self.used = used = np.unique(np.concatenate([np.zeros(0, np.int64), *used_by_piece]))
        Room(limit, limit.bytes // 2, share=0.5).check(
            20 * topics * len(used), f"a table of {len(used):,} test authors x {topics} topics"
        )
        self.rows = TopicRows(model)
        self.fixed = np.zeros(len(used), bool)
        self.theta = np.full((len(used), topics), 1.0 / topics, np.float32)
        if known:
            rows = np.flatnonzero(used < self.named)
            places = pc.index_in(
                corpus.axes[AXIS].names().take(used[rows]), value_set=model.table(AXIS).names
            )
            rows = rows[places.is_valid().to_numpy(zero_copy_only=False)]
            trained, tokens = mixtures(model, places.drop_null().to_numpy())
            rows = rows[tokens > 0]
            trained = trained[tokens > 0]
            self.theta[rows] = trained
            self.fixed[rows] = True

    def pieces(self) -> Iterator[_Piece]:
        """Yield all blocks, in order."""
        if self._kept is not None:
            yield from self._kept
            return
        keep: list[_Piece] | None = [] if int(self.grid.cells.sum()) <= KEPT_CELLS else None
        for block in self.corpus.blocks(grid=self.grid, heldout=True, axes=(AXIS,)):
            keys = self._keys[block.first_doc : block.first_doc + block.n_docs]
            seen, rest, scored = split_documents(
                documents_of_block(block, self._index), keys, self._word_keys, self.split
            )
            names = block.rows(AXIS)
            each = np.diff(names.indptr)
            alone = np.flatnonzero((each == 0) & scored)
            # documents that are not scored have no part in their authors
            own = np.where(scored, np.maximum(each, 1), 0)
            aptr = np.concatenate(([0], np.cumsum(own)))
            local = np.zeros(aptr[-1], np.int64)
            local[np.repeat(scored & (each > 0), own)] = names.local[np.repeat(scored, each)]
            local[aptr[alone]] = len(names.ids) + np.arange(len(alone))
            ids = np.concatenate((names.ids.astype(np.int64), self.named + block.first_doc + alone))
            piece = _Piece(seen, rest, scored, ids, aptr, local)
            if keep is not None:
                keep.append(piece)
            yield piece
        self._kept = keep

    def spread(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Spread the observed words of a piece over its authors.

        Returns
        -------
        tuple
            Row of theta of each of the piece's authors, their theta, the tokens that each gains by
            topic, and the tokens that each explains.
        """
        used = self.used
        seen = piece.seen
        mine = np.searchsorted(used, piece.ids)
        cells, base = self.rows.gather(seen)
        gained = np.zeros((len(mine), self.rows.topics))
        explained = np.zeros(len(piece.local))
        # ids of documents that are not scored are in no row: whatever stands there is never read
        own = self.theta[np.minimum(mine, len(used) - 1)]
        spread_authors(
            RowCells(seen.indptr, cells, seen.counts),
            TopicWeights(base, self.rows.beta, self.rows.inverse),
            AuthorLists(piece.aptr, piece.local),
            own,
            gained,
            explained,
        )
        return mine, own, gained, explained

    def fold_in(self, threads: int, tol: float, inner: int) -> int:
        """Sweep over the observed words until the mixtures converge, and count the sweeps."""
        free = ~self.fixed
        alpha = self.model.alpha
        before = np.zeros(self.theta.shape)
        sweeps = 0

        def visit(piece: _Piece) -> tuple[_Piece, np.ndarray, np.ndarray]:
            mine, _, gained, _ = self.spread(piece)
            return piece, mine, gained

        while sweeps < inner and free.any():
            now = np.zeros_like(before)
            for piece, mine, gained in in_order(visit, self.pieces(), threads):
                present = np.unique(piece.local)
                now[mine[present]] += gained[present]
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
        _, own, _, explained = self.spread(piece)
        total = np.zeros(len(piece.aptr) - 1)
        owner = np.repeat(np.arange(len(total)), np.diff(piece.aptr))
        np.add.at(total, owner, explained)
        mixed = np.zeros((len(total), self.rows.topics), np.float64)
        np.add.at(
            mixed, owner, (explained / np.maximum(total[owner], 1e-300))[:, None] * own[piece.local]
        )
        return piece, *log_likelihood(self.rows, piece.rest, mixed.astype(np.float32))


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
        What predicts, and what is predicted.
    split
        Observed share of a document's words.
    known_only
        Authors of the model keep their mixtures.
    threads
        The score does not depend on them.
    tol, inner
        When the sweeps over the observed words stop, as of ``infer``.
    limit
        Of the process; the mixtures may take half of it.

    Raises
    ------
    StoreError, InputError; DoesNotFit where the authors do not fit.
    """
    check_documents(corpus, ("heldout",))
    authors = _TestAuthors(model, corpus, split, known_only, limit or MemoryLimit.parse(None))
    sweeps = authors.fold_in(threads, tol, inner)
    sums = np.zeros(2)
    docs = 0
    skipped = 0
    for piece, loglik, tokens in in_order(authors.score, authors.pieces(), threads):
        sums += loglik.sum(), tokens.sum()
        docs = docs + int(piece.scored.sum())
        skipped = skipped + int((~piece.scored).sum())
    if sums[1] == 0:
        raise InputError(
            "no document could be scored: each needs two different known words; check that "
            "model and documents share a vocabulary"
        )
    nats = float(-sums[0] / sums[1])
    used = authors.used
    alone = int((used >= authors.named).sum())
    trained = int(authors.fixed.sum())
    return AuthorScore(
        perplexity=float(np.exp(nats)),
        nats_per_token=nats,
        tokens=float(sums[1]),
        docs=docs,
        skipped=skipped,
        authors=len(used),
        known=trained,
        unnamed=alone,
        sweeps=sweeps,
        split=split,
    )


# -- the scorer
# --------------------------------------------------------------------------------------------------
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
