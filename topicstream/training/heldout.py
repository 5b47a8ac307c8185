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

    Completion, or for a mixture the likelihood of documents or points under its point estimates, as
    ``topics eval`` measures it.
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

        ``coefficients``, float64[F, K]: of the covariates that alpha depends on.
        """
        if self._corpus.part(heldout=True).docs == 0:
            return None
        if self._prepared is None:
            self._prepared = prepare_heldout(self._corpus)
            if self._design is not None:
                self._prepared = replace(self._prepared, views=self._views(self._prepared))
        plain = table.array is not None and table.constants is None
        constants = table.constants
        rows = table.array if plain and table.array is not None else TableRows(table)
        totals = table.shown_totals if constants is None else table.shown_totals + constants.totals
        weights = self._weights
        counted = (
            None
            if weights is None
            else CountedWords(weights, table.pieces(), weights.counts, len(alpha), constants)
        )
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

    def _views(self, prepared: PreparedPart) -> tuple[Corpus, ...]:
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
        return float(
            score_blocks(ScoredTopics(words), self._prepared, threads=self._threads).perplexity
        )

    def likelihood(
        self, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
    ) -> tuple[float, float | None] | None:
        """Compute (nats a point, perplexity of documents), None without held-out documents."""
        if self._corpus.part(heldout=True).docs == 0:
            return None
        dense = self._engine.about.dense
        score = self._engine.likelihoods(params, None if dense else TableRows(tables["phi"]))

        def visit(block: Block) -> tuple[np.ndarray, float]:
            return score(block), float(block.tokens)

        topics = self._engine.shape.topics
        fit = 0.0
        docs = 0
        tokens = 0.0
        cells = POINTS * self._corpus.width if dense else block_cells(topics)
        grid = self._corpus.grid(cells, POINTS if dense else block_docs(topics), heldout=True)
        blocks = self._corpus.blocks(grid=grid, heldout=True)
        for logs, of_block in in_order(visit, blocks, self._threads):
            fit = fit + float(logs.sum())
            docs = docs + len(logs)
            tokens = tokens + of_block
        if not docs:
            return None
        return fit / docs, None if dense else exponential(-fit / tokens)


class TableRows:
    """A table as the evaluator wants it: ``rows(ids, out)``, and the totals of its columns."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.n_words = table.n_rows
        self.totals = table.shown_totals

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids, float32, with what stays beside the table."""
        self._table.dense(ids, out)
        constants = self._table.constants
        if constants is not None:
            constants.add(out, *constants.find(ids))
        return out


class Frequencies:
    """The training words' counts as a table of one topic."""

    def __init__(self, n_w: np.ndarray) -> None:
        self._n_w = n_w
        self.n_words = len(n_w)

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids."""
        out[:] = 0.0
        out[:, 0] = self._n_w[ids]
        return out
