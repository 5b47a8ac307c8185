"""Base class of the methods of inference, and the model's rows that they read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from topicstream.base.memory import MemoryLimit, Room
from topicstream.corpus.block import SHORT_TEXT
from topicstream.inference.documents import Documents
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.local_step import inverse_norms, padded_floats

LANES = 16
"""Rows are padded to a multiple of so many numbers."""


class TopicRows:
    """A model as the kernels take it.

    Parameters
    ----------
    model
        An open model, in memory or on disk.

    Attributes
    ----------
    beta
        Prior of a word.
    alpha, inverse
        float32[KP], alpha and 1 / (lam + W beta), zero in the padding.
    alpha64, prior
        float64[K], alpha and its mean: the topics of a document without a known word.
    """

    def __init__(self, model: TopicModel) -> None:
        self.model = model
        self.topics = model.n_topics
        self.beta = float(model.beta)
        width = -(-self.topics // LANES) * LANES
        self.alpha = padded_floats(model.alpha, width)
        self.alpha64 = np.asarray(model.alpha, np.float64)
        total = self.alpha64.sum()
        self.prior = self.alpha64 / total if total > 0 else np.full(self.topics, 1 / self.topics)
        self.inverse = inverse_norms(model.totals, model.n_words, model.beta, width)

    def gather(self, docs: Documents) -> tuple[np.ndarray, np.ndarray]:
        """Gather the topic rows of documents' words.

        Returns
        -------
        The row of each cell, int64[nnz], and the table of rows, float32[R, K]: the model's own if
        it is in memory, else the rows of these words.
        """
        if self.model.phi is not None:
            return docs.words, self.model.phi
        ids, rows = np.unique(docs.words, return_inverse=True)
        return rows.astype(np.int64), self.model.rows(ids)

    def weigh(self, docs: Documents) -> Documents:
        """Weigh the cells of documents as the training documents were weighed.

        Documents are unchanged if the model weighs no cells.
        """
        weights = self.model.weights
        if weights is None:
            return docs
        return replace(docs, counts=weights.weigh_cells(docs.indptr, docs.words, docs.counts))


@dataclass(frozen=True)
class NoOptions:
    """Options of a method that has none."""


class Method(ABC):
    """A way to find the topics of documents.

    Several threads may call ``shares`` at once.

    Parameters
    ----------
    rows
        The model.
    options
        Fields of ``Options``.

    Attributes
    ----------
    name, cites
        The name on the command line, and where the method was published.
    Options
        A dataclass of ``topicstream.base.options.option`` fields: options of ``topics infer`` and
        of ``topicstream.infer``.
    takes_priors
        True if it uses the priors of documents (``Documents.priors``); otherwise all have the mean.
    weighs_cells
        True if it weighs the cells of new documents as a model trained with ``--weighting`` does.
    needs_all
        True if it reads all documents before the first answer.
    columns
        Metadata of the documents that it reads. They are written beside the answers.
    tables
        Number of tables of the size of the topics that it reads.
    dense
        True if it answers for dense rows of numbers, not for words.
    poor_on_short
        True if its answers for documents as short as titles are far from those of long chains.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from topicstream.inference.documents import documents_of_cells
    >>> class Prior(Method):
    ...     name = "prior"
    ...     cites = "no paper"
    ...
    ...     def shares(self, docs):
    ...         return np.tile(self.rows.prior, (len(docs), 1))
    >>> method = Prior(TopicRows(TopicModel.open("model")))
    >>> word = np.array([0])  # twice in the only document
    >>> docs = documents_of_cells(pa.array(["a"]), np.array([0, 1]), word, np.array([2.0]), word)
    >>> method.shares(docs).shape
    (1, 4)
    """

    name: ClassVar[str]
    cites: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    takes_priors: ClassVar[bool] = False
    weighs_cells: ClassVar[bool] = False
    needs_all: bool = False
    columns: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[int] = 1
    dense: ClassVar[bool] = False
    poor_on_short: ClassVar[bool] = False

    options: Any
    room: Room = Room(MemoryLimit(1 << 62), 1 << 62)
    """Memory that the limit leaves for data that grow with the documents."""

    def __init__(self, rows: TopicRows, **options: Any) -> None:
        self.rows = rows
        self.options = self.Options(**options)

    def warn_of_length(self, known_words: float, documents: int) -> list[str]:
        """Warn of documents that are too short for the method.

        Parameters
        ----------
        known_words
            Tokens of all documents that the model knows.
        documents
            Number of documents.

        Returns
        -------
        A line, or none.
        """
        if not self.poor_on_short or not 0 < known_words < SHORT_TEXT * documents:
            return []
        return [
            f"warning: documents have {known_words / documents:.1f} known words on average, and "
            f"--method {self.name} needs longer ones: about half of each document's shares "
            f"lie in other topics than a long chain finds; bp is nearer, gibbs the nearest"
        ]

    @abstractmethod
    def shares(self, docs: Documents) -> np.ndarray:
        """Compute p(topic | document), float32[D, K], with rows that sum to 1.

        A document without a known word gets the prior's mean.
        """

    @classmethod
    def required_by(cls, model: TopicModel) -> bool:
        """Return True if the model has shares that only this method can find.

        Such a method is the model's default.
        """
        return False

    @classmethod
    def table_bytes(cls, model: TopicModel) -> int:
        """Compute the bytes that ``load`` brings into memory."""
        return 4 * model.n_words * model.n_topics * cls.tables

    def load(self) -> None:
        """Bring what the answers are made from into memory."""
        self.rows.model.load()

    def gather(self, blocks: Iterable[Documents]) -> Iterable[Documents]:
        """Return the blocks that ``shares`` is called with.

        A method that needs all documents first reads them here.
        """
        return blocks

    def hold(
        self,
        blocks: Iterable[Documents],
        block_bytes: Callable[[Documents], int],
        fixed: int = 0,
    ) -> list[Documents]:
        """Read all blocks into memory.

        Parameters
        ----------
        block_bytes
            A function that counts the bytes that a block takes.
        fixed
            Bytes that the method takes beside the blocks.

        Raises
        ------
        DoesNotFit
            They exceed the room. All are counted first, so that the message says how much it is.
        """
        total = fixed
        in_memory: list[Documents] = []
        for block in blocks:
            total += block_bytes(block)
            if total <= self.room.free:
                in_memory.append(block)
            else:
                in_memory.clear()
        self.room.check(
            total, f"--method {self.name}, which reads all documents before it answers,"
        )
        return in_memory
