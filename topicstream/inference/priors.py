"""Priors of documents from their covariates."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.text import counted
from topicstream.corpus.block import CovariateRows
from topicstream.corpus.columns import mark_missing
from topicstream.inference.documents import DocumentPriors, Documents
from topicstream.model.design import Unseen, decode_design, group_rows
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.tables.spec import padded


def document_priors(rows: CovariateRows, coefficients: np.ndarray) -> DocumentPriors:
    """Compute alpha of documents from their covariates.

    coefficients: float64[F, K].
    """
    # an engine's kernels, which few models need
    from topicstream.engines.covariates import block_priors

    out = np.empty((len(rows.indptr) - 1, padded(coefficients.shape[1])), np.float32)
    return DocumentPriors(block_priors(rows, coefficients, out), rows.pattern)


class CovariateReader:
    """Priors of new documents by the covariates in their metadata.

    A document without any of them has the mean prior of the model. Several threads may call
    ``add_priors``.

    Parameters
    ----------
    model
        A model with covariates.
    columns
        The columns that the documents have.
    """

    def __init__(self, model: TopicModel, columns: Sequence[str]) -> None:
        entry = model.manifest.covariates
        assert entry is not None and model.coefficients is not None
        self._design = decode_design(entry)
        self._coefficients = model.coefficients
        self._mean = np.zeros((1, padded(model.n_topics)), np.float32)
        self._mean[0, : model.n_topics] = model.alpha
        self._columns = [name for name in self._design.columns if name in columns]
        self._unseen = Unseen()
        self._without = 0
        self._lock = threading.Lock()

    def add_priors(self, docs: Documents) -> Documents:
        """Return the documents with their priors."""
        if not self._columns:
            with self._lock:
                self._without += len(docs)
            return docs
        values = {name: docs.columns[name] for name in self._columns}
        for name in self._design.columns:
            values.setdefault(name, pa.nulls(len(docs), pa.large_string()))
        has_covariates = np.zeros(len(docs), np.bool_)
        for name in self._columns:
            has_covariates |= _has_value(values[name])
        unseen = Unseen()
        rows = group_rows(self._design.rows(values, unseen))
        alphas, row_of = document_priors(rows, self._coefficients)
        # the last row is the mean prior
        alphas = np.concatenate((alphas, self._mean))
        row_of = np.where(has_covariates, row_of, len(alphas) - 1)
        with self._lock:
            self._without += int((~has_covariates).sum())
            self._unseen.add(unseen)
        return replace(docs, priors=DocumentPriors(alphas, row_of))

    def lines(self) -> list[str]:
        """Say which documents have the mean prior, and how values that are new are coded."""
        lines = self._unseen.lines(self._design)
        if self._without:
            columns = ", ".join(self._design.columns)
            verb = "has" if self._without == 1 else "have"
            lines.insert(
                0,
                f"{counted(self._without, 'document')} without {columns} {verb} the mean prior of "
                f"the model",
            )
        return lines


def _has_value(values: Any) -> np.ndarray:
    """Mark the documents with a value of a column, bool[D]."""
    if pa.types.is_nested(values.type):
        return np.asarray(values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) > 0)
    return np.asarray(mark_missing(values).is_valid().to_numpy(zero_copy_only=False))
