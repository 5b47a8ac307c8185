"""Held-out perplexity between passes, from the tables in training, without a model on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine
from topicstream.evaluation.completion import (
    PreparedPart,
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
)
from topicstream.evaluation.covariates import write_covariates
from topicstream.evaluation.memory import block_cells, block_docs
from topicstream.model.design import PriorDesign
from topicstream.model.weighting import CountedWords
from topicstream.numeric.kernels.dirichlet import exponential
from topicstream.numeric.parallel import in_order
from topicstream.numeric.tables.table import Table

POINTS = 4096
"""Vectors of a block that are scored at a time."""


class HeldOut:
    """Scores of the held-out documents, which are read and cut once.

    A score is the perplexity of completion, or for a mixture the likelihood of documents or points
    under its point estimates, as ``topics eval`` measures them.
    """

    def __init__(
        self, engine: Engine, corpus: Corpus, threads: int, design: PriorDesign | None = None
    ) -> None:
        self._engine = engine
        self._design = design
        self._weights = corpus.weights
        self._threads = threads
        self._corpus = corpus if corpus.weights is None else Corpus.open(corpus.path)
        self._prepared: PreparedPart | None = None

    def perplexity(
        self, table: Table, alpha: np.ndarray, beta: float, coefficients: np.ndarray | None = None
    ) -> float | None:
        """Compute the completion perplexity of the held-out documents, None without any.

        Parameters
        ----------
        table
            The table of topics, ``phi``.
        alpha, beta
            Priors, float64[K] and a number.
        coefficients
            float64[F, K], coefficients of the covariates that alpha depends on, or None.
        """
        if self._corpus.part(heldout=True).docs == 0:
            return None
        if self._prepared is None:
            self._prepared = prepare_heldout(self._corpus)
            if self._design is not None:
                views = self._write_views(self._prepared)
                self._prepared = replace(self._prepared, views=views)
        constants = table.constants
        totals = table.shown_totals
        rows: np.ndarray | TableRows = TableRows(table)
        if constants is not None:
            totals = totals + constants.totals
        elif table.array is not None:
            rows = table.array
        weights = self._weights
        counted = None
        if weights is not None:
            counted = CountedWords(weights, table.pieces(), weights.counts, len(alpha), constants)
        topics = TopicTable(
            rows,
            alpha,
            beta,
            totals[: len(alpha)],
            self._corpus.n_words,
            self._weights,
            coefficients,
        )
        score = score_blocks(
            ScoredTopics(topics, counted=counted), self._prepared, threads=self._threads
        )
        return float(score.perplexity)

    def _write_views(self, prepared: PreparedPart) -> tuple[Corpus, ...]:
        """Return the corpus for each part, whose blocks have the covariates of their documents."""
        design = self._design
        assert design is not None
        self._folder = tempfile.TemporaryDirectory(prefix="topics-covariates-")
        views = []
        for number, (grid, _) in enumerate(prepared.parts):
            path = Path(self._folder.name) / f"{number}.bin"
            rows = write_covariates(self._corpus, grid, design, path)
            views.append(self._corpus.with_covariates(rows))
        return tuple(views)

    def unigram_perplexity(self, n_w: np.ndarray, beta: float) -> float:
        """Compute the same words' perplexity under the frequencies of the training words.

        ``perplexity`` must be called before.
        """
        assert self._prepared is not None
        words = TopicTable(Frequencies(n_w), np.ones(1), beta, np.array([n_w.sum()]), len(n_w))
        score = score_blocks(ScoredTopics(words), self._prepared, threads=self._threads)
        return float(score.perplexity)

    def likelihood(
        self, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
    ) -> tuple[float, float | None] | None:
        """Compute the likelihood of the held-out documents or points under a mixture.

        Returns
        -------
        Mean log p(x) of a point, in nats, and the perplexity of documents (None for points). None
        without held-out documents.
        """
        if self._corpus.part(heldout=True).docs == 0:
            return None
        dense = self._engine.about.dense
        score = self._engine.likelihoods(params, None if dense else TableRows(tables["phi"]))

        def visit(block: Block) -> tuple[np.ndarray, float]:
            """Return log p(x) of each point of a block, and its tokens."""
            return score(block), float(block.tokens)

        topics = self._engine.shape.topics
        fit = 0.0
        docs = 0
        tokens = 0.0
        cells = POINTS * self._corpus.width if dense else block_cells(topics)
        grid = self._corpus.grid(cells, POINTS if dense else block_docs(topics), heldout=True)
        blocks = self._corpus.blocks(grid=grid, heldout=True)
        for logs, block_tokens in in_order(visit, blocks, self._threads):
            fit += float(logs.sum())
            docs += len(logs)
            tokens += block_tokens
        if not docs:
            return None
        return fit / docs, None if dense else exponential(-fit / tokens)


class TableRows:
    """A table in training as ``StoredRows`` of the evaluation.

    Attributes
    ----------
    n_words
        Number of rows.
    totals
        Column sums.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self.n_words = table.n_rows
        self.totals = table.shown_totals

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill ``out``, float32, with the rows of ascending word ids, constants included."""
        self._table.dense(ids, out)
        constants = self._table.constants
        if constants is not None:
            constants.add(out, *constants.find(ids))
        return out


class Frequencies:
    """The training words' counts as a table of one topic (``StoredRows``)."""

    def __init__(self, n_w: np.ndarray) -> None:
        self._n_w = n_w
        self.n_words = len(n_w)

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Fill ``out`` with the rows of ascending word ids."""
        out[:] = 0.0
        out[:, 0] = self._n_w[ids]
        return out
