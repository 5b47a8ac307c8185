"""Held-out perplexity between passes, from the tables in training: no model is written for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import Prepared, prepare, score_blocks
from topicstream.training.tables import TableRows


class HeldOut:
    """Document completion of a corpus' documents set aside, which are read and cut once."""

    def __init__(self, corpus: Corpus, threads: int) -> None:
        self._corpus, self._threads = corpus, threads
        self._prepared: Prepared | None = None

    def perplexity(self, table: Any, alpha: np.ndarray, beta: float) -> float | None:
        """Of the documents set aside under the topics in ``table``; None where there are no such documents."""
        if self._corpus.part(heldout=True)["docs"] == 0:
            return None
        if self._prepared is None:
            self._prepared = prepare(self._corpus)
        rows = table.array if getattr(table, "array", None) is not None else TableRows(table)
        totals = getattr(table, "shown_totals", table.totals)
        score = score_blocks(
            rows, alpha, beta, totals, self._prepared, n_words=self._corpus.n_words, threads=self._threads
        )
        return float(score.perplexity)
