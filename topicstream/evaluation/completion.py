"""Document completion: prediction of a part of a document from the rest (Zeng et al. 2012).

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
from typing import Any, Protocol, cast

import numpy as np

from topicstream.base.cluster import Cluster
from topicstream.base.errors import InputError
from topicstream.corpus.grid import Grid
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.covariates import covariate_views, explain_mean_prior
from topicstream.evaluation.keys import document_keys, match_words, mix, word_keys
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.visiting import Item, documents_of_block, visit_blocks
from topicstream.inference.documents import Documents
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_method
from topicstream.inference.priors import document_priors
from topicstream.model.topic_model import TopicModel
from topicstream.model.weighting import CountedWords, Weights
from topicstream.numeric.kernels.arrays import Doubles, Floats, RowCells, TopicWeights
from topicstream.numeric.kernels.dirichlet import exponential, log
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.local_step import inverse_norms, panel_rows, probabilities


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """Perplexity of scored tokens: exp(nats_per_token).

    It is infinite where a scored word is impossible (beta = 0).

    Attributes
    ----------
    tokens, docs
        Tokens and documents that were scored.
    skipped
        Documents that could not be scored.
    """

    perplexity: float
    nats_per_token: float
    tokens: float
    docs: int
    skipped: int


@dataclass(frozen=True, kw_only=True)
class Score(Perplexity):
    """The result of a completion.

    Attributes
    ----------
    cells
        Number of cells that were scored.
    skipped
        Documents without a cell on one of the two sides.
    oov_tokens, oov_rate
        Tokens of words that the model does not know, which are on neither side, and their share.
    inner
        Mean number of iterations of a document.
    split, fold_in
        As of ``score_blocks``.
    """

    cells: int
    oov_tokens: float
    oov_rate: float
    inner: float
    split: float | None
    fold_in: str = "bp"

    @property
    def measured(self) -> str:
        """Say what was measured."""
        method = "" if self.fold_in == "bp" else f" by {self.fold_in}"
        if self.split is None:
            return f"perplexity of all words, topics of documents inferred from the same{method}"
        if self.split == 0.0:
            return (
                "perplexity of all words of each document; none of them is read, so its topics are "
                "those that the prior expects"
            )
        observed = round(100 * self.split, 6)
        scored = round(100 * (1 - self.split), 6)
        return (
            f"perplexity of {scored:g} % of the different words of each document; its topics are "
            f"inferred from the other {observed:g} %{method}"
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
    The documents with their observed cells, with their scored cells, and which of them are scored,
    bool[D]. A document without a cell on one of the two sides is empty on both.
    """
    lengths = np.diff(docs.indptr)
    if split is None:
        return docs, docs, lengths > 0
    owner = np.repeat(np.arange(len(docs)), lengths)
    observed = (mix(keys[owner] ^ word_keys[docs.words]) >> np.uint64(11)) * 2.0**-53 < split
    has_observed = np.bincount(owner[observed], minlength=len(docs)) > 0
    has_rest = np.bincount(owner[~observed], minlength=len(docs)) > 0
    scored = has_rest & (has_observed | (split == 0.0))
    observed_cells = observed & scored[owner]
    scored_cells = ~observed & scored[owner]
    return _select_cells(docs, observed_cells), _select_cells(docs, scored_cells), scored


def _select_cells(docs: Documents, selected: np.ndarray) -> Documents:
    """Keep the selected cells (bool[nnz]) of documents."""
    indptr = np.concatenate(([0], np.cumsum(selected)))[docs.indptr]
    return replace(docs, indptr=indptr, words=docs.words[selected], counts=docs.counts[selected])


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
    most = panel_rows(indptr, width)
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
    corpus
        The store.
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
        """Return the number of documents of all parts."""
        return sum(len(keys) for _, keys in self.parts)


def check_documents(corpus: Corpus, parts: Sequence[str]) -> None:
    """Check that parts (``heldout``, ``train``) of a corpus hold documents.

    Raises
    ------
    InputError
        They hold none.
    """
    flags = [part == "heldout" for part in parts]
    if not any(corpus.part(flag).docs for flag in flags):
        place = "set aside" if any(flags) else "in the training part"
        raise InputError(
            f"{corpus.path}: no documents {place}; ingest again with --heldout 1%, or name a "
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
        Whether cells are split, which takes the keys of documents and words.
    topics
        Number of topics, for whose rows the blocks are small enough. It never changes a result.

    Raises
    ------
    InputError
        The parts hold no documents.
    """
    check_documents(corpus, parts)
    prepared = []
    for part in parts:
        heldout = part == "heldout"
        grid = corpus.grid(block_cells(topics), block_docs(topics), heldout=heldout)
        keys = np.zeros(corpus.part(heldout).docs, np.uint64)
        if split:
            keys = document_keys(corpus, heldout)
        prepared.append((grid, keys))
    keys_of_words = word_keys(corpus) if split else np.zeros(corpus.n_words, np.uint64)
    return PreparedPart(corpus, prepared, keys_of_words)


class StoredRows(Protocol):
    """A table of topics that is read row by row."""

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill ``out``, float32[n, >= K], with the rows of some words, and return it."""


@dataclass(frozen=True)
class TopicTable:
    """Topics that are not in a model's folder, such as those in training.

    Attributes
    ----------
    table
        Counts [W, >= K] without the prior (padding columns zero), or ``StoredRows``.
    alpha, beta
        Priors, float64[K] and a number.
    totals
        float64[K], column sums of the table.
    n_words
        Number of words, W.
    weights
        Weights of the training cells, or None.
    coefficients
        float64[F, K], coefficients of the covariates that alpha of a document depends on, or None.
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
        """Return the number of topics, K."""
        return len(self.alpha)

    @property
    def phi(self) -> np.ndarray | None:
        """Return the table if it is an array, else None."""
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
        A model, or topics that are not in a model yet.
    index
        int64[W of the corpus], the model's id of each of the corpus' words, -1 for unknown ones.
        None: both have one vocabulary.
    counted
        The topics in counts, for a model of weighted cells: theta comes from the weighted observed
        cells, while p(w|k) and the scored cells are counts. None for other models.
    shared
        Whether the words that ``index`` knows are those that other models know, too. p(w|k) is then
        that of a word given that it is one of them. Otherwise a model would lose by every word that
        it alone has.
    """

    topics: TopicModel | TopicTable
    index: np.ndarray | None = None
    counted: CountedWords | None = None
    shared: bool = False

    @classmethod
    def from_model(
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
    """A visit that scores a block.

    What is the same for all blocks is computed once.
    """

    def __init__(
        self, scored: ScoredTopics, prepared: PreparedPart, split: float | None, fold_in: str
    ) -> None:
        self.scored = scored
        self.split = split
        self.coefficients = getattr(scored.topics, "coefficients", None)
        self.rows = TopicRows(cast(TopicModel, scored.topics))
        self.method: Any = find_method(fold_in)(self.rows)
        self.word_keys = prepared.word_keys
        topics = scored.topics
        words = topics.n_words
        totals = topics.totals
        count_totals = totals if scored.counted is None else scored.counted.totals
        if scored.index is not None:
            is_known = scored.index >= 0
            known = scored.index[is_known]
            # by the model's words
            self.word_keys = np.zeros(words, np.uint64)
            self.word_keys[known] = prepared.word_keys[: len(is_known)][is_known]
            if scored.shared:
                known = np.sort(known)
                totals = _column_sums(topics.rows, known, topics.n_topics)
                count_totals = _column_sums(scored.rows, known, topics.n_topics)
                words = len(known)
        width = len(self.rows.inverse)
        self.rows.inverse = inverse_norms(totals, words, topics.beta, width)
        self.inverse = inverse_norms(count_totals, words, topics.beta, width)

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
        docs = documents_of_block(block, self.scored.index)
        observed, scored, is_scored = split_documents(docs, keys, self.word_keys, self.split)
        if self.coefficients is not None and block.covariates is not None:
            priors = document_priors(block.covariates, self.coefficients)
            observed = replace(observed, priors=priors)
        theta, iterations = self.method.fold_in(observed)
        loglik, tokens = self._score(scored, theta)
        sums = (
            is_scored.sum(),
            len(scored.words),
            iterations,
            docs.unknown.sum(),
            block.tokens,
        )
        return loglik, tokens, np.array(sums, np.float64)

    def _score(self, docs: Documents, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute log-likelihood and tokens of each document, float64[D]."""
        if self.scored.counted is None:
            return log_likelihood(self.rows, docs, theta)
        ids, cells = np.unique(docs.words, return_inverse=True)
        return _run_score_cells(
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
    return _run_score_cells(RowCells(docs.indptr, cells, docs.counts), weights, theta)


def _run_score_cells(
    cells: RowCells, weights: TopicWeights, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run ``score_cells``, and return log-likelihood and tokens of each document."""
    loglik = np.empty(len(theta))
    tokens = np.empty(len(theta))
    score_cells(cells, weights, theta, loglik, tokens)
    return loglik, tokens


def add_in_order(total: float, values: np.ndarray) -> float:
    """Add values to a total one by one, so that the sum has the same bits for any blocks."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1])


def score_blocks(
    topics: ScoredTopics,
    prepared: PreparedPart,
    *,
    split: float | None = 0.8,
    threads: int | Cluster = 1,
    fold_in: str = "bp",
    progress: Callable[[int, int], None] | None = None,
    on_block: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Score:
    """Score a prepared part of a corpus.

    Parameters
    ----------
    topics
        The topics that predict.
    prepared
        The documents that are predicted.
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
    on_block
        Called with (log-likelihood, tokens scored) of the documents, float64[D] each, block by
        block in document order.

    Raises
    ------
    InputError
        No document can be scored.
    """
    visit = _Visit(topics, prepared, split, fold_in)
    loglik = 0.0
    tokens = 0.0
    documents_done = 0
    sums = np.zeros(5)
    views = prepared.views or (prepared.corpus,) * len(prepared.parts)
    for view, (grid, keys) in zip(views, prepared.parts, strict=True):
        for block_loglik, scored, block_sums in visit_blocks(visit, view, grid, keys, threads):
            loglik = add_in_order(loglik, block_loglik)
            tokens = add_in_order(tokens, scored)
            if on_block is not None:
                on_block(block_loglik, scored)
            sums += block_sums
            documents_done += len(scored)
            if progress is not None:
                progress(documents_done, prepared.docs)
    if tokens == 0:
        raise InputError(
            "no document could be scored: each needs two different known words; check that "
            "model and documents share a vocabulary"
        )
    nats = -loglik / tokens
    docs, cells, iterations, oov, all_tokens = sums.tolist()
    return Score(
        perplexity=exponential(nats),
        nats_per_token=nats,
        tokens=tokens,
        cells=int(cells),
        docs=int(docs),
        skipped=documents_done - int(docs),
        oov_tokens=oov,
        oov_rate=oov / all_tokens,
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
    on_block: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> Score:
    """Score parts of an open ``Corpus`` under a model.

    Words are matched by text where the vocabularies differ. Where a model's alpha depends on
    covariates that the corpus has, each document is scored with its own prior.

    Parameters
    ----------
    parts
        Any of ``heldout`` and ``train``.
    split, threads, fold_in, progress, on_block
        As of ``score_blocks``.
    """
    topics, prepared = prepare_model(model, corpus, parts, split)
    with ExitStack() as stack:
        if not explain_mean_prior(model, corpus, threads):
            grids = [grid for grid, _ in prepared.parts]
            views = stack.enter_context(covariate_views(model, corpus, grids))
            prepared = replace(prepared, views=views)
        return score_blocks(
            topics,
            prepared,
            split=split,
            threads=threads,
            fold_in=fold_in,
            progress=progress,
            on_block=on_block,
        )


def prepare_model(
    model: TopicModel, corpus: Corpus, parts: Sequence[str], split: float | None
) -> tuple[ScoredTopics, PreparedPart]:
    """Prepare a model and parts of a corpus for ``score_blocks``."""
    topics = ScoredTopics.from_model(model, match_words(model.vocabulary, corpus))
    prepared = prepare_heldout(corpus, parts, split=split is not None, topics=model.n_topics)
    return topics, prepared
