"""Held-out perplexity between passes, from the tables in training: no model is written for it."""

from __future__ import annotations

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import PreparedPart, prepare, score_blocks
from topicstream.model.weighting import CountedWords
from topicstream.tables.table import Table


class HeldOut:
    """Document completion of a corpus' documents set aside, which are read and cut once."""

    def __init__(self, corpus: Corpus, threads: int) -> None:
        self._weights = corpus.weights
        self._corpus, self._threads = corpus if corpus.weights is None else Corpus.open(corpus.path), threads
        self._prepared: PreparedPart | None = None

    def perplexity(self, table: Table, alpha: np.ndarray, beta: float) -> float | None:
        """Of the documents set aside under the topics in ``table``; None where there are no such documents."""
        if self._corpus.part(heldout=True)["docs"] == 0:
            return None
        if self._prepared is None:
            self._prepared = prepare(self._corpus)
        plain, constants = table.array is not None and table.constants is None, table.constants
        rows = table.array if plain else TableRows(table)
        totals = table.shown_totals if constants is None else table.shown_totals + constants.totals
        counted = None
        if self._weights is not None:
            counted = CountedWords(self._weights, table.pieces(), self._weights.counts, len(alpha), constants)
        score = score_blocks(
            rows,
            alpha,
            beta,
            totals,
            self._prepared,
            n_words=self._corpus.n_words,
            threads=self._threads,
            counted=counted,
        )
        return float(score.perplexity)


class TableRows:
    """A table as the evaluator wants it: ``rows(ids, out)``."""

    def __init__(self, table: Table) -> None:
        self._table, self.n_words = table, table.n_rows

    def rows(self, ids: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Rows of the ascending word ids, float32, with what stays beside the table."""
        self._table.dense(ids, out)
        constants = self._table.constants
        if constants is not None:
            constants.add(out, *constants.find(ids))
        return out
