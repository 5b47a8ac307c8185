"""The uncertainty of the coefficients of covariates in a prior.

A model's coefficients are the end of a regression on topics that are themselves inferred. Their
error has two sources (symbols: engines/covariates.py):

- *The documents.* The gradient of a topic is a sum over documents; its variance is J, the sum of
  their squares (the sandwich of Huber 1967), and at least what the model itself expects, since
  the few documents of a small group may all happen to have nothing of a topic.
- *The prior.* It pulls coefficients to 0, by an amount whose variance follows from its deviation.

Both go through the inverse of the information I, less what is missing because topics are inferred
(Louis 1982). The gradients of a document for all topics are drawn together: each draw weighs the
documents by normal numbers (Wu 1986), in one pass. So shares, which depend on the coefficients of
all topics, have the errors that they have together.

docs/internals/decisions/covariates.md has the coverage in simulations.

References
----------
Huber (1967). The behavior of maximum likelihood estimates under nonstandard conditions.

Wu (1986). Jackknife, bootstrap and other resampling methods in regression analysis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import digamma, polygamma

from topicstream.corpus.block import Block, CovariateRows
from topicstream.corpus.reader import Corpus
from topicstream.engines.covariate_sums import LARGEST, LONGEST
from topicstream.evaluation.covariates import covariate_views
from topicstream.evaluation.keys import match_words
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.evaluation.visiting import documents_of_block
from topicstream.inference.documents import Documents
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import find_method
from topicstream.inference.priors import document_priors
from topicstream.model.covariate_entries import CovariatesEntry
from topicstream.model.design import columns_of_terms, decode_design
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

DRAWS = 200
LEAST_DRAWS = 40
MOST_NUMBERS = 20_000_000
"""Numbers at most of all draws together, and of the information of all topics."""
AT_ONCE = 1 << 21
"""Numbers of documents' draws that are in memory at a time."""
SEED = 59
LEAST_INFORMATION = 1e-9


@dataclass
class Sums:
    """Sums over documents.

    Attributes
    ----------
    gradients
        float64[F, draws, K], of x times a document's gradient, weighed by normal numbers.
    squares
        float64[F, K], J.
    information
        float64[F, F, K], I.
    documents
        Documents that were added.
    """

    gradients: np.ndarray
    squares: np.ndarray
    information: np.ndarray
    documents: int

    def add(self, other: Sums) -> None:
        """Add those of other documents."""
        self.gradients += other.gradients
        self.squares += other.squares
        self.information += other.information
        self.documents += other.documents


def choose_draws(columns: int, topics: int) -> int:
    """Choose the number of draws, 0 where the coefficients are too many for intervals."""
    if columns * columns * topics > MOST_NUMBERS:
        return 0
    return max(LEAST_DRAWS, min(DRAWS, MOST_NUMBERS // (columns * topics)))


def draw_errors(
    model: TopicModel,
    corpus: Corpus,
    draws: int,
    threads: int = 1,
    step: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Draw errors of a model's coefficients, float64[draws, F, K], in one pass over its documents.

    Parameters
    ----------
    model
        A model with covariates.
    corpus
        Its corpus.
    step
        Called with documents done and in all.
    """
    entry = model.manifest.covariates
    assert entry is not None and model.coefficients is not None
    grid = corpus.grid(block_cells(model.n_topics), block_docs(model.n_topics))
    visit = _Visit(model, corpus, entry, draws)
    total: Sums | None = None
    with covariate_views(model, corpus, [grid]) as (view,):
        for sums in in_order(visit, view.blocks(grid=grid), threads):
            if total is None:
                total = sums
            else:
                total.add(sums)
            if step is not None:
                step(total.documents, corpus.n_docs)
    assert total is not None
    return solve_errors(entry, total)


class _Visit:
    """A function that sums gradients and information over the documents of a block."""

    def __init__(
        self, model: TopicModel, corpus: Corpus, entry: CovariatesEntry, draws: int
    ) -> None:
        self._method = find_method("bp")(TopicRows(model))
        self._index = match_words(model.vocabulary, corpus)
        self._coefficients = np.asarray(model.coefficients)
        self._weight = entry.mean_weight
        self._length = max(corpus.n_tokens / max(corpus.n_docs, 1), 1.0)
        self._draws = draws

    def __call__(self, block: Block) -> Sums:
        rows = block.covariates
        assert rows is not None
        columns, topics = self._coefficients.shape
        docs = documents_of_block(block, self._index)
        priors = document_priors(rows, self._coefficients)
        docs = replace(docs, priors=priors)
        alpha = np.asarray(priors.alphas, np.float64)[rows.pattern][:, :topics]
        score, information_by_document = self._derive(docs, alpha)
        design = csr_matrix((rows.values.astype(np.float64), rows.columns, rows.indptr))
        design.resize(len(rows.indptr) - 1, columns)
        patterns = csr_matrix(
            (np.ones(len(score)), rows.pattern, np.arange(len(score) + 1)),
            (len(score), design.shape[0]),
        )
        pairs = _multiply_pairs(rows, columns)
        information = pairs.T @ (patterns.T @ information_by_document)
        squares = design.power(2).T @ (patterns.T @ score**2)
        gradients = self._draw(block.first_doc, design, patterns, score)
        information = information.reshape(columns, columns, topics)
        return Sums(gradients, squares, information, len(score))

    def _derive(self, docs: Documents, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the gradients and the information of documents, float64[D, K] each."""
        length = (docs.tokens - docs.unknown)[:, None]
        total = alpha.sum(axis=1, keepdims=True)
        theta = np.asarray(self._method.shares(docs), np.float64)
        counts = np.maximum(theta * (length + total) - alpha, 0.0)
        length = counts.sum(axis=1, keepdims=True)
        weight = self._weight * (1.0 + total) / (self._length + total)
        weight = weight * np.minimum(1.0, LONGEST * self._length / np.maximum(length, 1e-9))
        a = np.minimum(alpha * _rise(counts, alpha) + weight * counts, LARGEST)
        b = _rise(length, total) + weight * length / total
        information = alpha**2 * (_fall(counts, alpha) - _fall(length, total))
        information += alpha * weight * length / total
        information -= np.where(counts < 1.0, (1.0 + weight) * counts * (1.0 - counts), 0.0)
        return a - b * alpha, information

    def _draw(
        self, first: int, design: csr_matrix, patterns: csr_matrix, score: np.ndarray
    ) -> np.ndarray:
        """Sum x times the gradients, weighed by normal numbers: float64[F, draws, K]."""
        docs, topics = score.shape
        generator = np.random.default_rng((SEED, first))
        sums = np.zeros((design.shape[0], self._draws * topics))
        at_once = max(1, AT_ONCE // (self._draws * topics))
        for start in range(0, docs, at_once):
            some = slice(start, start + at_once)
            normal = generator.standard_normal((len(score[some]), self._draws))
            weighed = normal[:, :, None] * score[some, None, :]
            sums += patterns[some].T @ weighed.reshape(len(weighed), -1)
        return np.asarray(design.T @ sums).reshape(design.shape[1], self._draws, topics)


def _rise(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute E[psi(n + prior) - psi(prior)], n the whole numbers next to each count."""
    whole = np.floor(counts)
    return np.asarray((counts - whole) / (whole + prior) + digamma(whole + prior) - digamma(prior))


def _fall(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute E[psi'(prior) - psi'(n + prior)], n the whole numbers next to each count."""
    whole = np.floor(counts)
    below = polygamma(1, prior) - polygamma(1, whole + prior)
    return np.asarray((counts - whole) / (whole + prior) ** 2 + below)


def _multiply_pairs(rows: CovariateRows, columns: int) -> csr_matrix:
    """Compute x x' of the distinct rows, [U, F * F]."""
    lengths = np.diff(rows.indptr)
    ends = np.concatenate(([0], np.cumsum(lengths**2)))
    owner = np.repeat(np.arange(len(lengths)), lengths**2)
    place = np.arange(ends[-1]) - ends[owner]
    first = rows.indptr[owner] + place // lengths[owner]
    second = rows.indptr[owner] + place % lengths[owner]
    values = rows.values[first].astype(np.float64) * rows.values[second]
    position = rows.columns[first].astype(np.int64) * columns + rows.columns[second]
    return csr_matrix((values, position, ends), (len(lengths), columns * columns))


def solve_errors(entry: CovariatesEntry, sums: Sums) -> np.ndarray:
    """Turn gradients into errors of the coefficients, float64[draws, F, K]."""
    columns, draws, topics = sums.gradients.shape
    diagonals = np.maximum(np.einsum("ffk->fk", sums.information), LEAST_INFORMATION)
    ridge, spread, floor = describe_prior(entry, sums.squares, diagonals)
    generator = np.random.default_rng(SEED)
    lacking = np.sqrt(np.maximum(floor - sums.squares, 0.0))
    out = np.empty((draws, columns, topics))
    for k in range(topics):
        right = sums.gradients[:, :, k].T
        right = right + generator.standard_normal(right.shape) * lacking[:, k]
        right += generator.standard_normal(right.shape) * (ridge * spread)
        matrix = sums.information[:, :, k]
        values, directions = np.linalg.eigh((matrix + matrix.T) / 2)
        matrix = (directions * np.maximum(values, LEAST_INFORMATION)) @ directions.T
        out[:, :, k] = np.linalg.solve(matrix + np.diag(ridge), right.T).T
    return out


def describe_prior(
    entry: CovariatesEntry, squares: np.ndarray, information: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Describe the prior of each column of the design.

    A learned deviation is itself uncertain where a term has few coefficients. It counts as one
    standard error larger, as if there were no effect.

    Parameters
    ----------
    squares, information
        float64[F, K], J and the diagonals of I.

    Returns
    -------
    tuple
        What the prior adds to the information and the standard deviation of the coefficients,
        float64[F] each, and the least variance of gradients, float64[F, K].
    """
    columns = len(information)
    ridge = np.full(columns, entry.intercept_sd**-2)
    spread = np.full(columns, entry.intercept_sd)
    floor = information.copy()
    for number, (_, places, _) in enumerate(columns_of_terms(decode_design(entry))):
        columns_of_term = slice(places.start, places.stop)
        excess = float(
            np.clip(squares[columns_of_term].sum() / information[columns_of_term].sum(), 0.1, 100.0)
        )
        floor[columns_of_term] *= excess
        if not entry.learned_sd:
            ridge[columns_of_term] = entry.slope_sd**-2
            spread[columns_of_term] = entry.slope_sd
            continue
        learned = entry.learned_sd[number]
        noise = float(np.median(excess / information[columns_of_term]))
        ridge[columns_of_term] = excess / learned**2
        spread[columns_of_term] = np.sqrt(
            learned**2 + noise * np.sqrt(2.0 / information[columns_of_term].size)
        )
    return ridge, spread, floor
