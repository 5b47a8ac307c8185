"""What every method of inference is, and the rows of the model that it reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from topicstream.inference.documents import Documents
from topicstream.ingestion.read_options import Room
from topicstream.kernels.local_step import inverse_norms, padded_floats
from topicstream.model.topic_model import TopicModel

LANES = 16


class TopicRows:
    """A model as the kernels take it.

    beta      per word;  alpha, inverse: float32[KP], alpha and 1 / (lam + W beta), zero in the padding
    alpha64   float64[K]
    """

    def __init__(self, model: TopicModel) -> None:
        self.model = model
        self.topics, self.beta = model.n_topics, float(model.beta)
        width = -(-self.topics // LANES) * LANES
        self.alpha = padded_floats(model.alpha, width)
        self.alpha64 = np.asarray(model.alpha, np.float64)
        self.inverse = inverse_norms(model.totals, model.n_words, model.beta, width)

    def of(self, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
        """(row of each cell int64[nnz], table float32[R, K]): the model's own table, or where that lies on disk the rows of
        these documents.  The same values either way."""
        if self.model.phi is not None:
            return docs.words, self.model.phi
        ids, at = np.unique(docs.words, return_inverse=True)
        return at.astype(np.int64), self.model.rows(ids)

    def weigh(self, docs: Documents) -> Documents:
        """The documents with their cells weighed as those of training were; as they are where the model weighs none."""
        weights = self.model.weights
        return docs if weights is None else replace(docs, counts=weights.cells(docs.indptr, docs.words, docs.counts))


class Method(ABC):
    """One way to find the topics of documents.  ``shares`` may be called by several threads at once."""

    name: ClassVar[str]
    cites: ClassVar[str]
    Options: ClassVar[type | None] = None  # of another package: a dataclass of options that `topics infer` offers too
    needs_all: bool = False  # reads all documents before the first answer
    columns: ClassVar[tuple[str, ...]] = ()  # metadata of the documents that it reads; written beside the answers
    tables: ClassVar[int] = 1  # of the topics' size that ``load`` brings into memory

    rows: TopicRows
    room: Room | None = None  # what the memory limit leaves, for what grows with the documents

    @abstractmethod
    def __init__(self, rows: TopicRows, **options: Any) -> None: ...

    @abstractmethod
    def shares(self, docs: Documents) -> np.ndarray:
        """p(topic | document), float32[D, K], rows sum to 1; the prior's mean for a document without a known word."""

    def load(self) -> None:
        """Bring what the answers are made from into memory."""
        self.rows.model.load()

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """What ``shares`` is asked for, given all blocks; a method that needs all documents first reads them here."""
        return blocks

    def held(self, blocks: Iterable[Documents], each: Callable[[Documents], int], fixed: int = 0) -> list[Documents]:
        """All blocks; DoesNotFit, once all were counted, where ``fixed`` and ``each`` of theirs are more bytes than there
        is room for."""
        kept: list[Documents] = []
        for block in blocks:
            fixed += each(block)
            if self.room is None or fixed <= self.room.free:
                kept.append(block)
            else:
                kept.clear()
        if self.room is not None:
            self.room.ask(fixed, f"--method {self.name}, which samples all documents together,")
        return kept

    @classmethod
    def options(cls) -> list[str]:
        """Names of the method's own options."""
        return [p.name for p in signature(cls).parameters.values() if p.kind is p.KEYWORD_ONLY]
