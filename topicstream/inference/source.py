"""The documents of an inference: a corpus store, raw input, or lines of standard input."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, StoreError, UsageError
from topicstream.base.options import listed_names
from topicstream.base.text import payload_of
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_learned, select_rest
from topicstream.inference.config import PARTS, SAMPLED, InferConfig
from topicstream.inference.documents import (
    Documents,
    cut_cells,
    dense_documents,
    documents_of_cells,
)
from topicstream.inference.memory import InferencePlan
from topicstream.ingestion.open.memory import as_inputs
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, ReadOptions, remembered_meta
from topicstream.ingestion.parse.columns import LISTS
from topicstream.ingestion.parse.documents import content_kind, document_cells, metadata_of
from topicstream.ingestion.parts.tasks import Task, pieces
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import check_same_tools, named_tools
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

LINE_FORMATS = ("jsonl", "lines")
"""Formats of which a line is a document."""
PIECE_BYTES = 1 << 20
"""Bytes of raw input that are read as one task."""
TEXT = pa.large_string()
TEXTS = pa.list_(pa.large_string())


class DocumentSource(ABC):
    """Documents for a model, in order, in blocks that the plan allows.

    Attributes
    ----------
    columns
        Arrow types of the metadata that they carry, by name.
    integer_ids
        Whether it is known beforehand that all ids are whole numbers.
    total
        Number of documents; 0 where it is not known.
    rejected
        Number of records left out so far.
    """

    columns: dict[str, pa.DataType]
    integer_ids = False
    total = rejected = 0

    def __init__(self, model: TopicModel, plan: InferencePlan) -> None:
        self.model = model
        self.plan = plan
        self.width = model.manifest.width

    @abstractmethod
    def documents(self) -> Iterator[Documents]:
        """Yield all documents."""

    def blocks(
        self,
        ids: pa.Array,
        cells: tuple[np.ndarray, np.ndarray, np.ndarray],
        index: np.ndarray,
        columns: Mapping[str, pa.Array],
        integer_ids: bool,
    ) -> Iterator[Documents]:
        """Cut documents into blocks.

        Parameters
        ----------
        ids
            Ids of the documents.
        cells
            indptr, words (ids of the input's vocabulary) and counts.
        index
            The model's id of each word of that vocabulary.
        columns
            Metadata of the documents.
        integer_ids
            Whether the ids are whole numbers in the input.

        Raises
        ------
        DoesNotFit
            A document's topic rows do not fit the memory limit.
        """
        indptr, words, counts = cells
        longest = int(np.diff(indptr).max(initial=0))
        if not self.plan.load and self.model.phi is None and longest > self.plan.cells:
            self.plan.room.check(
                4 * self.model.n_topics * longest, f"a document of {longest:,} different words"
            )
        for first, last in cut_cells(indptr, self.plan.docs, self.plan.cells):
            begin = indptr[first]
            end = indptr[last]
            docs = slice(first, last)
            block_ptr = indptr[first : last + 1] - begin
            if self.width:
                block = dense_documents(ids[docs], block_ptr, counts[begin:end])
            else:
                block = documents_of_cells(
                    ids[docs], block_ptr, words[begin:end], counts[begin:end], index
                )
            yield replace(
                block,
                columns={name: column[docs] for name, column in columns.items()},
                integer_ids=integer_ids,
            )

    def check_width(self, width: int, source: object) -> None:
        """Check that an input holds what the model is of: words, or rows of ``width`` numbers.

        Raises
        ------
        UsageError
            It holds something else.
        """
        if width != self.width:
            raise UsageError(
                f"{source}: holds {payload_of(width)}, and the model is of {payload_of(self.width)}"
            )


class StoredDocuments(DocumentSource):
    """Documents of a corpus store, in the order in which they were ingested.

    Parameters
    ----------
    optional_columns
        Columns that are read if the store has them.

    Attributes
    ----------
    batches
        Range of the store's batches that are read: the first, and the one after the last.
    """

    batches: tuple[int, int | None] = (0, None)

    def __init__(
        self,
        model: TopicModel,
        plan: InferencePlan,
        corpus: Corpus,
        config: InferConfig,
        optional_columns: Sequence[str] = (),
    ) -> None:
        super().__init__(model, plan)
        self.check_width(corpus.width, corpus.path)
        self.parts = config.selected_parts()
        sampled = set(self.parts) & set(SAMPLED)
        # both together are the training documents
        if sampled == {"sample"}:
            corpus = select_learned(corpus, model.manifest.sample)
        elif sampled == {"rest"}:
            corpus = select_rest(corpus, model.manifest.sample)
        self.parts = tuple(dict.fromkeys("train" if p in sampled else p for p in self.parts))
        self.corpus = corpus
        present = [name for name in optional_columns if name in corpus.manifest.columns]
        self.columns = find_column_types(corpus, [*listed_names(config.with_columns), *present])
        self.integer_ids = corpus.manifest.ids == "integer"
        self.total = sum(corpus.part(p == "heldout").docs for p in self.parts)

    def documents(self) -> Iterator[Documents]:
        index = np.zeros(0, np.int64)
        if not self.width:
            index = self.model.vocabulary.find(self.corpus.read_vocabulary().words)
        for batch in self.corpus.documents(
            list(self.columns), parts=self.parts, batches=self.batches
        ):
            words = batch.column("words")
            counts = batch.column("counts")
            cells = (
                words.offsets.to_numpy().astype(np.int64),
                words.values.to_numpy(),
                counts.values.to_numpy(),
            )
            columns = {name: batch.column(name) for name in self.columns}
            yield from self.blocks(batch.column("id"), cells, index, columns, self.integer_ids)


class RawDocuments(DocumentSource):
    """Documents of files or in memory, read as the model's corpus was.

    Parameters
    ----------
    inputs
        A list of files, or documents in memory as ``as_inputs`` returns them.
    optional_columns
        Columns that are read if the documents have them.
    """

    def __init__(
        self,
        model: TopicModel,
        plan: InferencePlan,
        inputs: Any,
        config: InferConfig,
        optional_columns: Sequence[str] = (),
    ) -> None:
        super().__init__(model, plan)
        if set(config.selected_parts()) != set(PARTS):
            raise UsageError("--part requires a corpus store, but these are raw documents")
        names = list(dict.fromkeys([*listed_names(config.with_columns), *optional_columns]))
        self.columns = {name: TEXTS if name in LISTS else TEXT for name in names}
        self.inputs = inputs
        self.options = self._read_options(config, optional_columns)
        self._lock = threading.Lock()
        self._words = TokenVocabulary.from_words(model.vocabulary.words)
        self._words.lookup(model.vocabulary.words[:0])
        recipe = model.manifest.tokenizer
        self._tokenizer = None
        if recipe is not None:
            words = Recipe.from_json(recipe)
            check_same_tools(words, config)
            self._tokenizer = Tokenizer(words, named_tools(config))
        self._index: tuple[Any, np.ndarray] = (None, np.zeros(0, np.int64))

    def _read_options(self, config: InferConfig, optional_columns: Sequence[str]) -> ReadOptions:
        """Combine the options of this inference with those that the model remembers."""
        reading = self.model.manifest.reading
        are_files = isinstance(self.inputs, list)
        meta: dict[str, Any] = {}
        if self.columns:
            fields = remembered_meta(reading) if are_files else {}
            meta["meta"] = {name: fields.get(name, name) for name in self.columns}
        options = ReadOptions(
            **{"piece_bytes": PIECE_BYTES, "room": self.plan.room, **meta, **config.non_defaults()}
        )
        if self.width:
            options = options.recall(reading, CUT)
            options = replace(options, vectors=True, split=None, min_tokens=0)
        elif are_files:
            options = options.recall(reading, FIELDS, LAYOUT)
        # an input may lack these, but none that the user named
        named = listed_names(config.with_columns)
        recalled = tuple(name for name in optional_columns if name not in named)
        return replace(options, recalled_columns=recalled)

    def documents(self) -> Iterator[Documents]:
        for blocks in in_order(self.read, pieces(self.inputs, self.options), self.plan.threads):
            yield from blocks

    def read(self, task: Task) -> list[Documents]:
        """Read the documents of one piece, in blocks.

        Several threads may call it.

        Raises
        ------
        InputError
            A record is bad, or the model knows none of the input's words.
        StoreError
            The input is text, and the model does not say how text becomes words.
        """
        (batch, _) = task.run()
        dense = content_kind(task.batch) == "vector"
        with self._lock:
            self.rejected += len(task.rejects)
        if len(batch):
            self.check_width(batch.column(2).type.list_size if dense else 0, task.name)
        if content_kind(batch) == "text":
            if self._tokenizer is None:
                raise StoreError(
                    f"{self.model.path or 'in memory'}: the model does not say how its text was "
                    f"tokenised (it was trained on counts); give lists of words, or ingest "
                    f"{task.name} and name the store"
                )
            counted = self._tokenizer.count(batch.column(2))
            index = self._words.lookup(counted.types).astype(np.int64)
            cells = (counted.indptr, counted.words, counted.counts)
        else:
            index = self._index[1] if dense else self._find_words(task)
            cells = document_cells(batch)
        meta = metadata_of(batch)
        ids = batch.column(0)
        columns = {
            name: meta.get(name, pa.nulls(len(batch), kind)) for name, kind in self.columns.items()
        }
        integer_ids = pa.types.is_integer(ids.type)
        return list(self.blocks(ids.cast(TEXT), cells, index, columns, integer_ids))

    def _find_words(self, task: Task) -> np.ndarray:
        """Find the model's id of each word of an input of counts, -1 for unknown words."""
        (words, index) = self._index
        if words is task.words:
            return index
        index = self.model.vocabulary.find(task.words)
        self._index = (task.words, index)
        if task.words is not None and len(task.words) and (index < 0).all():
            raise InputError(
                f"{task.name}: the model knows none of its words ({task.words[0]}, ...; the model "
                f"has {self.model.words[0]}, ...); name its columns (vocabulary= in Python, "
                f"--words FILE)"
            )
        return index


class FollowedDocuments(RawDocuments):
    """Documents of standard input, each as soon as its line is complete."""

    def documents(self) -> Iterator[Documents]:
        for task in pieces("-", self.options, eager=True):
            if task.reader.name not in LINE_FORMATS:
                formats = " and ".join(LINE_FORMATS)
                raise InputError(
                    f"stdin: --follow takes {formats} (--format), not {task.reader.name}"
                )
            yield from self.read(task)


def find_column_types(corpus: Corpus, names: Sequence[str]) -> dict[str, pa.DataType]:
    """Return the Arrow types of columns of a store's documents.

    Raises
    ------
    UsageError
        The store has no such column.
    """
    types = {"source": "string", **corpus.manifest.columns}
    for name in names:
        if name not in types or name in ("id", "part", "block", "row"):
            has = ", ".join(sorted(set(types) - {"id"}))
            raise UsageError(
                f"--with {name}: {corpus.path} has no such column (it has {has}); ingest with "
                f"--meta"
            )
    return {name: TEXTS if types[name] == "list" else TEXT for name in names}


def open_source(
    config: InferConfig,
    model: TopicModel,
    plan: InferencePlan,
    optional_columns: Sequence[str] = (),
) -> DocumentSource:
    """Open the documents that a configuration names.

    Parameters
    ----------
    optional_columns
        Columns that are read if the documents have them.

    Raises
    ------
    InputError, UsageError
        The documents cannot be read, or not with these options.
    """
    documents = config.documents
    inputs: Any = [documents]
    if not isinstance(documents, Corpus):
        inputs = as_inputs(
            documents,
            path=False,
            vocabulary=config.vocabulary,
            ids=config.ids,
            layer=config.layer,
        )
    files: list[Any] = inputs if isinstance(inputs, list) else []
    if isinstance(inputs, list) and not inputs:
        raise InputError("no documents: give texts, a store, or the Path of files")
    if config.follow:
        if [str(p) for p in files] != ["-"]:
            raise UsageError("--follow reads standard input: give - as the only input")
        return FollowedDocuments(model, plan, inputs, config, optional_columns)
    stores = [p for p in files if isinstance(p, Corpus) or (Path(p) / "manifest.json").exists()]
    if not stores:
        return RawDocuments(model, plan, inputs, config, optional_columns)
    corpus = stores[0] if isinstance(stores[0], Corpus) else Corpus.open(stores[0], dense=True)
    if len(files) > 1:
        raise InputError(f"{stores[0]}: a corpus store cannot be combined with other inputs")
    reading = sorted(config.non_defaults())
    if reading:
        raise InputError(f"{stores[0]}: is a corpus store; {reading[0]} is for raw documents")
    return StoredDocuments(model, plan, corpus, config, optional_columns)
