"""Document completion: the prediction of the rest of a document (Zeng et al. 2012).

Most of the document has been seen.

Each document's cells are split in two by a hash of the document's id and the word's text, so the
split does not depend on block size, order, word ids or vocabulary. theta of the observed side is
what ``infer`` answers for those cells, to the bit. (A tolerance of 1e-6 moved the perplexity by
0.05 % on 20news.) The other side is scored with p(w|d) = sum_k p(w|k) theta[k], in nats.

Every document is computed alone and the logarithms are added one by one in document order in
float64, so the result has the same bits for any block size and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, cast

import numpy as np

from topicstream.base.cluster import Cluster
from topicstream.base.errors import InputError
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.covariates import covariate_views, explain_mean_prior
from topicstream.evaluation.keys import document_keys, match_words, mix, word_keys
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.visiting import Item, known_block, visit_blocks
from topicstream.inference.documents import Documents
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_method
from topicstream.inference.priors import document_priors
from topicstream.model.topic_model import TopicModel
from topicstream.model.weighting import CountedWords, Weights
from topicstream.numeric.kernels.arrays import Doubles, Floats, RowCells, TopicWeights
from topicstream.numeric.kernels.dirichlet import exponential, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import PANEL_FLOATS, inverse_norms, probabilities


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """Perplexity of scored tokens: exp(nats_per_token).

    It is infinite where a scored word is impossible (beta = 0). ``tokens`` and ``docs`` are those
    scored. ``skipped`` documents could not be scored.
    """

    perplexity: float
    nats_per_token: float
    tokens: float
    docs: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class Score(Perplexity):
    """The result of a completion.

    ``cells`` were scored. ``skipped`` documents have no cell on one of the two sides.
    Out-of-vocabulary tokens are on neither. ``inner`` is the mean number of iterations of a
    document.
    """

    cells: int
    oov_tokens: float
    oov_rate: float
    inner: float
    split: float | None
    fold_in: str = "bp"

    @property
    def measured(self) -> str:
        """In words."""
        how = "" if self.fold_in == "bp" else f" by {self.fold_in}"
        if self.split is None:
            return f"perplexity of all words, topics of documents inferred from the same{how}"
        if self.split == 0.0:
            return (
                "perplexity of all words of each document; none of them is read, so its topics are "
                "those that the prior expects"
            )
        seen = round(100 * self.split, 6)
        rest = round(100 * (1 - self.split), 6)
        return (
            f"perplexity of {rest:g} % of the different words of each document; its topics are "
            f"inferred from the other {seen:g} %{how}"
        )


def split_documents(
    docs: Documents, keys: np.ndarray, word_keys: np.ndarray, split: float | None
) -> tuple[Documents, Documents, np.ndarray]:
    """Split the cells of documents into those observed and those scored.

    Parameters
    ----------
    docs
        Documents over the model's words.
    keys, word_keys
        Keys of the documents, uint64[D], and of the model's words, uint64[W].
    split
        Observed share; None: all cells are both. 0: none is observed, and topics are the prior's.

    Returns
    -------
    The observed documents, the scored ones, and which of them are scored, bool[D]: a document
    without a cell on one of the
    two sides is empty on both.
    """
    lengths = np.diff(docs.indptr)
    if split is None:
        return docs, docs, lengths > 0
    owner = np.repeat(np.arange(len(docs)), lengths)
    observed = (mix(keys[owner] ^ word_keys[docs.words]) >> np.uint64(11)) * 2.0**-53 < split
    sides = [np.bincount(owner[side], minlength=len(docs)) > 0 for side in (observed, ~observed)]
    scored = sides[1] & (sides[0] | (split == 0.0))
    return _cells(docs, observed & scored[owner]), _cells(docs, ~observed & scored[owner]), scored


def _cells(docs: Documents, chosen: np.ndarray) -> Documents:
    """Keep the chosen cells (bool[nnz]) of documents."""
    indptr = np.concatenate(([0], np.cumsum(chosen)))[docs.indptr]
    return replace(docs, indptr=indptr, words=docs.words[chosen], counts=docs.counts[chosen])


@kernel
def score_cells(
    cells: RowCells, weights: TopicWeights, theta: Floats, loglik: Doubles, tokens: Doubles
) -> None:
    """Score the cells of each document: log-likelihood and tokens.

    loglik[d] = sum x log p(w|d), tokens[d] = sum x. Both are 0 for a document without cells.

    Parameters
    ----------
    weights
        p(w|k); ``inverse`` is float32[KP].
    theta
        float32[D, K].
    loglik, tokens
        float64[D], results.
    """
    (indptr, rows, counts) = cells
    (base, beta, inverse) = weights
    width = len(inverse)
    topics = theta.shape[1]
    most = max(8, PANEL_FLOATS // width // 8 * 8)
    longest = 0
    for d in range(len(indptr) - 1):
        longest = max(longest, indptr[d + 1] - indptr[d])
    most = min(most, max(8, -(-longest // 8) * 8))
    own = np.empty(most * width, np.float32)
    p = np.empty(most, np.float32)
    t = np.zeros(width, np.float32)
    for d in range(len(indptr) - 1):
        score = 0.0
        mass = 0.0
        for k in range(topics):
            t[k] = theta[d, k]
        for first in range(indptr[d], indptr[d + 1], most):
            last = min(first + most, indptr[d + 1])
            probabilities(rows[first:last], base, beta, inverse, t, own, p)
            for c in range(first, last):
                score += np.float64(counts[c]) * log(np.float64(p[c - first]))
                mass += np.float64(counts[c])
        loglik[d] = score
        tokens[d] = mass


@dataclass
class PreparedPart:
    """Documents prepared for repeated scoring: grid and keys are computed once.

    Attributes
    ----------
    parts
        For each part of the corpus, its blocks and the keys of its documents, uint64[D].
    word_keys
        uint64[W of the corpus].
    views
        For each part, the corpus whose blocks have the covariates of their documents; empty: the
        corpus.
    """

    corpus: Corpus
    parts: list[tuple[Grid, np.ndarray]]
    word_keys: np.ndarray
    views: tuple[Corpus, ...] = ()

    @property
    def docs(self) -> int:
        """Documents in all."""
        return sum(len(keys) for _, keys in self.parts)


def check_documents(corpus: Corpus, parts: Sequence[str]) -> None:
    """Refuse parts (``heldout``, ``train``) of a corpus that hold no documents."""
    flags = [part == "heldout" for part in parts]
    if not any(corpus.part(flag).docs for flag in flags):
        where = "set aside" if any(flags) else "in the training part"
        raise InputError(
            f"{corpus.path}: no documents {where}; ingest again with --heldout 1%, or name a "
            f"--heldout corpus"
        )


def prepare_heldout(
    corpus: Corpus,
    parts: Sequence[str] = ("heldout",),
    *,
    split: bool = True,
    topics: int | None = None,
) -> PreparedPart:
    """Prepare parts (``heldout``, ``train``) of an open ``Corpus`` for scoring.

    Parameters
    ----------
    split
        False leaves out the keys of documents and words: enough to score all cells.
    topics
        Keeps the blocks small enough for gathered rows of so many topics. It never changes a
        result.

    Raises
    ------
    InputError
        If the parts hold no documents.
    """
    flags = [part == "heldout" for part in parts]
    check_documents(corpus, parts)
    grids = [corpus.grid(block_cells(topics), block_docs(topics), heldout=f) for f in flags]
    keys = [
        document_keys(corpus, f) if split else np.zeros(corpus.part(f).docs, np.uint64)
        for f in flags
    ]
    of_words = word_keys(corpus) if split else np.zeros(corpus.n_words, np.uint64)
    return PreparedPart(corpus, list(zip(grids, keys, strict=True)), of_words)


class StoredRows(Protocol):
    """A table of topics that is read row by row."""

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class TopicTable:
    """Topics that are not in a model's folder, such as those in training.

    Attributes
    ----------
    table
        Counts [W, >= K] without the prior (padding columns zero), or ``StoredRows``.
    alpha, beta
        float64[K], and a number.
    totals
        float64[K], column sums of the table.
    n_words
        W of the model.
    weights
        Weights of its cells, or None.
    coefficients
        float64[F, K], of the covariates that alpha of a document depends on, or None.
    """

    table: np.ndarray | StoredRows
    alpha: np.ndarray
    beta: float
    totals: np.ndarray
    n_words: int
    weights: Weights | None = None
    coefficients: np.ndarray | None = None

    @property
    def n_topics(self) -> int:
        """K."""
        return len(self.alpha)

    @property
    def phi(self) -> np.ndarray | None:
        """The table, where it is an array."""
        return self.table if isinstance(self.table, np.ndarray) else None

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Read the counts of some words, float32[n, >= K]."""
        if isinstance(self.table, np.ndarray):
            return np.asarray(self.table[ids])
        return self.table.rows(ids, np.zeros((len(ids), -(-self.n_topics // 16) * 16), np.float32))


@dataclass(frozen=True)
class ScoredTopics:
    """The topics that documents are scored under.

    Attributes
    ----------
    topics
        A model, or topics that are in none yet.
    index
        int64[W of the corpus], the model's id of each of the corpus' words, -1 unknown. None: the
        same vocabulary.
    counted
        Of weighted cells: theta comes from the weighted observed cells, while p(w|k) and the scored
        cells are counts.
    shared
        True if the words that ``index`` knows are those that other models know, too. p(w|k) is then
        that of a word given that it is one of them. Otherwise a model would lose by every word that
        it alone has.
    """

    topics: TopicModel | TopicTable
    index: np.ndarray | None = None
    counted: CountedWords | None = None
    shared: bool = False

    @classmethod
    def of_model(
        cls, model: TopicModel, index: np.ndarray | None, shared: bool = False
    ) -> ScoredTopics:
        """Wrap the topics of a model.

        ``index`` comes from ``match_words``, or knows fewer words.
        """
        if model.weights is None:
            return cls(model, index, shared=shared)
        counted = CountedWords(
            model.weights, model.counts(), model.vocabulary.counts, model.n_topics, model.seeds
        )
        return cls(model, index, counted, shared)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Read the counts behind p(w|k) of some words, float32[n, >= K].

        They are counts for a model of weighted cells, too.
        """
        rows = self.topics.rows(ids)
        return rows if self.counted is None else self.counted.rows(ids, rows)


class _Visit:
    """Scores a block: what is the same for all of them is computed once."""

    def __init__(
        self, scored: ScoredTopics, prepared: PreparedPart, split: float | None, fold_in: str
    ) -> None:
        self.scored = scored
        self.split = split
        self.coefficients = getattr(scored.topics, "coefficients", None)
        self.rows = TopicRows(cast(TopicModel, scored.topics))
        self.method: Any = find_method(fold_in)(self.rows)
        self.word_keys = prepared.word_keys
        if scored.index is not None:  # by the model's words
            known_words = scored.index >= 0
            self.word_keys = np.zeros(scored.topics.n_words, np.uint64)
            self.word_keys[scored.index[known_words]] = prepared.word_keys[: len(known_words)][
                known_words
            ]
        topics = scored.topics
        counted = scored.counted
        words = scored.topics.n_words
        totals = [topics.totals, topics.totals if counted is None else counted.totals]
        if scored.shared and scored.index is not None:
            known = np.sort(scored.index[known_words])
            totals = [
                _column_sums(rows, known, topics.n_topics) for rows in (topics.rows, scored.rows)
            ]
            words = len(known)
        self.rows.inverse, self.inverse = (
            inverse_norms(t, words, topics.beta, len(self.rows.inverse)) for t in totals
        )

    def __call__(self, item: Item) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Score a block.

        Returns
        -------
        tuple
            Log-likelihood and tokens of the scored cells of each document, float64[D], and sums
            over the block: documents and cells scored, iterations of the fold-in, unknown tokens,
            all tokens.
        """
        block, keys = item
        docs = known_block(block, self.scored.index)
        seen, rest, scored = split_documents(docs, keys, self.word_keys, self.split)
        if self.coefficients is not None and block.covariates is not None:
            seen = replace(seen, priors=document_priors(block.covariates, self.coefficients))
        theta, iterations = self.method.fold_in(seen)
        sums = scored.sum(), len(rest.words), iterations, docs.unknown.sum(), block.tokens
        return *self._score(rest, theta), np.array(sums, np.float64)

    def _score(self, docs: Documents, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihood and tokens of each document, float64[D]."""
        if self.scored.counted is None:
            return log_likelihood(self.rows, docs, theta)
        ids, cells = np.unique(docs.words, return_inverse=True)
        return _scores_of(
            RowCells(docs.indptr, cells.astype(np.int64), docs.counts),
            TopicWeights(self.scored.rows(ids), self.rows.beta, self.inverse),
            theta,
        )


def _column_sums(
    rows: Callable[[np.ndarray], np.ndarray], words: np.ndarray, topics: int
) -> np.ndarray:
    """Sum the rows of some words, float64[K]."""
    step = max(1, (1 << 18) // topics)
    total = np.zeros(topics)
    for first in range(0, len(words), step):
        total += rows(words[first : first + step])[:, :topics].sum(axis=0, dtype=np.float64)
    return total


def log_likelihood(
    rows: TopicRows, docs: Documents, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute log-likelihood and tokens of each document under its theta, float64[D].

    ``theta`` is float32[D, K].
    """
    cells, base = rows.gather(docs)
    weights = TopicWeights(base, rows.beta, rows.inverse)
    return _scores_of(RowCells(docs.indptr, cells, docs.counts), weights, theta)


def _scores_of(
    cells: RowCells, weights: TopicWeights, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    loglik = np.empty(len(theta))
    tokens = np.empty(len(theta))
    score_cells(cells, weights, theta, loglik, tokens)
    return loglik, tokens


def add_in_order(total: float, values: np.ndarray) -> float:
    """total + values[0] + values[1] + ..., strictly in order."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1])


def score_blocks(
    topics: ScoredTopics,
    prepared: PreparedPart,
    *,
    split: float | None = 0.8,
    threads: int | Cluster = 1,
    fold_in: str = "bp",
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Score:
    """Score a prepared part of a corpus.

    Parameters
    ----------
    topics
        What predicts.
    prepared
        What is predicted.
    split
        Observed share of the cells; None: theta from all cells, all cells scored (exact training
        perplexity).
    threads
        Threads of this process, or the cluster whose workers score; the score does not depend on
        them.
    fold_in
        Method of ``infer`` that finds theta of the observed cells, ``bp`` or ``vb``.
    progress
        Called with (documents done, documents in all).
    each
        Called with (log-likelihood, tokens scored) of the documents, float64[D] each, block by
        block in document order.

    Raises
    ------
    InputError
        Where no document can be scored.
    """
    visit = _Visit(topics, prepared, split, fold_in)
    loglik = 0.0
    tokens = 0.0
    documents_done = 0
    sums = np.zeros(5)
    views = prepared.views or (prepared.corpus,) * len(prepared.parts)
    results = (
        visit_blocks(visit, view, *part, threads)
        for view, part in zip(views, prepared.parts, strict=True)
    )
    for of_documents, scored, of_block in chain.from_iterable(results):
        loglik = add_in_order(loglik, of_documents)
        tokens = add_in_order(tokens, scored)
        if each is not None:
            each(of_documents, scored)
        sums += of_block
        documents_done += len(scored)
        if progress is not None:
            progress(documents_done, prepared.docs)
    if tokens == 0:
        raise InputError(
            "no document could be scored: each needs two different known words; check that "
            "model and documents share a vocabulary"
        )
    nats = -loglik / tokens
    docs, cells, iterations, oov, every = sums.tolist()
    return Score(
        perplexity=exponential(nats),
        nats_per_token=nats,
        tokens=tokens,
        cells=int(cells),
        docs=int(docs),
        skipped=documents_done - int(docs),
        oov_tokens=oov,
        oov_rate=oov / every,
        inner=iterations / docs,
        split=split,
        fold_in=fold_in,
    )


def score_model(
    model: TopicModel,
    corpus: Corpus,
    *,
    split: float | None = 0.8,
    threads: int | Cluster = 1,
    parts: Sequence[str] = ("heldout",),
    fold_in: str = "bp",
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[np.ndarray, np.ndarray], None] | None = None,
    covariates: bool = True,
) -> Score:
    """Score parts of an open ``Corpus`` under a model, by ``score_blocks``.

    Words are matched by text where the vocabularies differ. Where a model's alpha depends on
    covariates that the corpus has, each document is scored with its own, unless ``covariates`` is
    False.
    """
    topics = ScoredTopics.of_model(model, match_words(model.vocabulary, corpus))
    prepared = prepare_heldout(corpus, parts, split=split is not None, topics=model.n_topics)
    more: dict[str, Any] = {"progress": progress, "each": each}
    with ExitStack() as stack:
        if covariates and not explain_mean_prior(model, corpus, threads):
            grids = [grid for grid, _ in prepared.parts]
            views = stack.enter_context(covariate_views(model, corpus, grids))
            prepared = replace(prepared, views=views)
        return score_blocks(topics, prepared, split=split, threads=threads, fold_in=fold_in, **more)
