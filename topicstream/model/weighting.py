"""Weighted cells: term frequency and tf-idf in place of counts, as part of a model.

They follow Zeng, Cheung & Liu (2013), section 2.3.

    tf      x' = x / n_d * mean n_d               every document weighs alike
    tfidf   x' = c x log(D / df_w)                c so that the training tokens stay as many; D and
            df of training documents

Both keep the scale, because alpha and beta are pseudo-counts. A word of every training document
weighs nothing: its cells are left out. Inference weighs new documents alike.

A model of weighted cells is judged on counts. p(w|k) is then that of the counts under the same
messages, phi_count[w, k] = sum_d x mu. With tf-idf a word's cells have one weight, so that is
phi[w, k] / (c idf_w). With tf the word's row is scaled to its count (the messages of a word are
taken to be spread alike over long and short documents). A word that weighs nothing has each topic's
share of the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from topicstream.base.errors import InputError
from topicstream.base.records import Record
from topicstream.numeric.kernels.constants import Constants

KINDS = ("none", "tf", "tfidf")
Factor = Annotated[float, msgspec.Meta(gt=0, lt=1e300)]


class Weighting(Record):
    """The manifest's record of weighted cells.

    Attributes
    ----------
    docs
        Number of training documents, D.
    mean
        Their mean tokens.
    scale
        c of tf-idf, 1 for tf.
    """

    kind: Literal["tf", "tfidf"]
    docs: Annotated[int, msgspec.Meta(gt=0, lt=1 << 62)]
    mean: Factor
    scale: Factor


@dataclass(frozen=True)
class Weights:
    """Weights of cells.

    Attributes
    ----------
    about
        The record for the manifest.
    per_word
        float32[W], c idf_w, or None (tf).
    """

    about: Weighting
    per_word: np.ndarray | None

    @classmethod
    def from_counts(cls, kind: str, counts: np.ndarray, df: np.ndarray, docs: int) -> Weights:
        """Compute the weights from a training part.

        Parameters
        ----------
        counts, df
            [W], tokens and documents of each word.
        docs
            Number of documents.

        Raises
        ------
        InputError
            If no word tells documents apart.
        """
        tokens = float(counts.sum())
        mean = float(counts.sum()) / max(docs, 1)
        if kind == "tf":
            return cls(Weighting(kind="tf", docs=docs, mean=mean, scale=1.0), None)
        unscaled = float((counts * _idf(df, docs)).sum())
        if not unscaled > 0:
            raise InputError(
                "--weighting tfidf: every word is in every training document, so all would "
                "weigh nothing; choose --weighting tf"
            )
        record = Weighting(kind="tfidf", docs=docs, mean=mean, scale=tokens / unscaled)
        return cls.from_record(record, df)

    @classmethod
    def from_record(cls, record: Weighting, df: np.ndarray) -> Weights:
        """Restore the weights of a stored model.

        ``df`` [W] holds the training documents of each word.
        """
        if record.kind == "tf":
            return cls(record, None)
        return cls(record, (record.scale * _idf(df, record.docs)).astype(np.float32))

    def weigh_cells(self, indptr: np.ndarray, words: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Weigh cells, float32[nnz], whose ``words`` are global ids."""
        if self.per_word is not None:
            return np.asarray(counts * self.per_word[words], np.float32)
        sums = np.concatenate(([0.0], np.cumsum(counts, dtype=np.float64)))
        lengths = sums[indptr[1:]] - sums[indptr[:-1]]
        factors = self.about.mean / np.maximum(lengths, 1e-30)
        return np.asarray(counts * np.repeat(factors, np.diff(indptr)), np.float32)

    def weigh_block(self, block: Any) -> Any:
        """Replace the counts of a corpus block by weights.

        Cells that weigh nothing are left out, and so are words without other cells.
        """
        words = block.words
        vocab = block.vocab
        indptr = block.indptr
        counts = block.counts
        has_weight = np.ones(len(vocab), bool)
        if self.per_word is not None:
            has_weight = self.per_word[vocab] > 0
        if not has_weight.all():
            cells = has_weight[words]
            indptr = np.concatenate(([0], np.cumsum(cells)))[indptr].astype(np.int64)
            words = (np.cumsum(has_weight) - 1).astype(np.int32)[words[cells]]
            vocab = vocab[has_weight]
            counts = counts[cells]
        weights = self.weigh_cells(indptr, vocab[words], counts)
        tokens = float(weights.sum(dtype=np.float64))
        return replace(
            block, indptr=indptr, words=words, vocab=vocab, counts=weights, tokens=tokens
        )

    def sum_by_word(self, counts: np.ndarray, blocks: Iterable[Any]) -> np.ndarray:
        """Sum the weighted training cells of each word, float64[W].

        ``blocks`` are weighted blocks, read for tf alone.
        """
        if self.per_word is not None:
            return counts * self.per_word.astype(np.float64)
        sums = np.zeros(len(counts))
        for block in blocks:
            sums[block.vocab] += np.bincount(block.words, block.counts, len(block.vocab))
        return sums


def _idf(df: np.ndarray, docs: int) -> np.ndarray:
    """Compute log(D / df) of each word."""
    return np.log(docs / np.clip(np.asarray(df, np.float64), 1.0, docs))


class CountedWords:
    """Topics of a model of weighted cells in counts, by which it is judged.

    Attributes
    ----------
    weights
        Weights of the model's cells.
    totals
        float64[K], column sums of phi_count.
    """

    def __init__(
        self,
        weights: Weights,
        pieces: Iterable[tuple[int, np.ndarray]],
        counts: np.ndarray,
        topics: int,
        seeds: Constants | None = None,
    ) -> None:
        """Read the row sums of the weighted table.

        Parameters
        ----------
        pieces
            (first word, rows [n, >= K]) of the weighted table, without seed words.
        counts
            [W], training counts.
        topics
            K.
        seeds
            Pseudo-counts of seed words.
        """
        self.weights = weights
        self._counts = np.asarray(counts, np.float64)
        self._factor = np.zeros(len(self._counts))
        self.totals = np.zeros(topics)
        for first, rows in pieces:
            piece = slice(first, first + len(rows))
            sums = rows[:, :topics].sum(1, dtype=np.float64)
            np.divide(self._counts[piece], sums, out=self._factor[piece], where=sums > 0)
            seeded = rows if seeds is None else seeds.added(first, rows)
            self.totals += self._factor[piece] @ seeded[:, :topics].astype(np.float64)
        unassigned = self._counts[self._factor == 0].sum()
        self._share = self.totals / max(float(self.totals.sum()), 1e-300)
        self.totals = self.totals + unassigned * self._share

    def rows(self, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Convert rows of the weighted table to phi_count, float32[n, C].

        ``ids`` are the words of the rows.
        """
        weighted = rows * self._factor[ids, None]
        # a word that weighs nothing has each topic's share of the tokens
        weightless = np.flatnonzero(self._factor[ids] == 0)
        weighted[weightless, : len(self._share)] = self._counts[ids[weightless], None] * self._share
        return weighted.astype(np.float32)
