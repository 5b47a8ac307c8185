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
from topicstream.ingestion.tokens.tools import asked_tools, check_same_tools
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.parallel import in_order

LINE_FORMATS = ("jsonl", "lines")
PIECE_BYTES = 1 << 20
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
        How many documents there are; 0 where that is not known.
    rejected
        Records left out so far.
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
        cells
            (indptr, words of their own vocabulary, counts).
        index
            The model's id of each word.
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
            some = slice(first, last)
            own = indptr[first : last + 1] - begin
            if self.width:
                block = dense_documents(ids[some], own, counts[begin:end])
            else:
                block = documents_of_cells(
                    ids[some], own, words[begin:end], counts[begin:end], index
                )
            yield replace(
                block,
                columns={n: column[some] for n, column in columns.items()},
                integer_ids=integer_ids,
            )

    def check_width(self, width: int, where: object) -> None:
        """UsageError for what the model is not of."""
        if width != self.width:
            raise UsageError(
                f"{where}: holds {payload_of(width)}, and the model is of {payload_of(self.width)}"
            )


class StoredDocuments(DocumentSource):
    """Documents of a corpus store, in the order in which they were ingested.

    batches: of the store's documents, the first that is wanted and the first behind that is not.
    """

    batches: tuple[int, int | None] = (0, None)

    def __init__(
        self,
        model: TopicModel,
        plan: InferencePlan,
        corpus: Corpus,
        config: InferConfig,
        wanted: Sequence[str] = (),
    ) -> None:
        super().__init__(model, plan)
        self.check_width(corpus.width, corpus.path)
        self.parts = config.of_parts()
        if sampled := set(self.parts) & set(SAMPLED):
            view = select_rest if sampled == {"rest"} else select_learned
            corpus = view(corpus, model.manifest.sample) if len(sampled) == 1 else corpus
            self.parts = tuple(dict.fromkeys("train" if p in sampled else p for p in self.parts))
        self.corpus = corpus
        there = [name for name in wanted if name in corpus.manifest.columns]
        self.columns = find_column_types(corpus, [*listed_names(config.with_columns), *there])
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
    """Documents of files or in memory, read as the model's corpus was."""

    def __init__(
        self,
        model: TopicModel,
        plan: InferencePlan,
        inputs: Any,
        config: InferConfig,
        wanted: Sequence[str] = (),
    ) -> None:
        super().__init__(model, plan)
        names = list(dict.fromkeys([*listed_names(config.with_columns), *wanted]))
        if set(config.of_parts()) != set(PARTS):
            raise UsageError("--part requires a corpus store, but these are raw documents")
        fields = remembered_meta(model.manifest.reading) if isinstance(inputs, list) else {}
        meta = {"meta": {name: fields.get(name, name) for name in names}} if names else {}
        options = ReadOptions(
            **{"piece_bytes": PIECE_BYTES, "room": plan.room, **meta, **config.non_defaults()}
        )
        if self.width:
            options = options.recall(model.manifest.reading, CUT)
            options = replace(options, vectors=True, split=None, min_tokens=0)
        elif isinstance(inputs, list):
            options = options.recall(model.manifest.reading, FIELDS, LAYOUT)
        asked = listed_names(config.with_columns)
        left_out = tuple(name for name in wanted if name not in asked)
        options = replace(options, recalled_columns=left_out)  # where an input lacks them
        self.columns = {name: TEXTS if name in LISTS else TEXT for name in names}
        self.inputs = inputs
        self.options = options
        self._lock = threading.Lock()
        self._words = TokenVocabulary.from_words(model.vocabulary.words)
        self._words.lookup(model.vocabulary.words[:0])
        recipe = model.manifest.tokenizer
        self._tokenizer = None
        if recipe is not None:
            words = Recipe.from_json(recipe)
            check_same_tools(words, config)
            self._tokenizer = Tokenizer(words, asked=asked_tools(config))
        self._index: tuple[Any, np.ndarray] = (None, np.zeros(0, np.int64))

    def documents(self) -> Iterator[Documents]:
        for blocks in in_order(self.read, pieces(self.inputs, self.options), self.plan.threads):
            yield from blocks

    def read(self, task: Task) -> list[Documents]:
        """Read the documents of one piece, in blocks. Several threads may call it.

        Raises
        ------
        InputError
            At a bad record.
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
                    f"tokenised (it was trained on counts); give lists of words, or "
                    f"ingest {task.name} and name the store"
                )
            counted = self._tokenizer.count(batch.column(2))
            index = self._words.lookup(counted.types).astype(np.int64)
            cells = counted.indptr, counted.words, counted.counts
        else:
            if self._index[0] is not task.words and not dense:
                self._index = (task.words, self.model.vocabulary.find(task.words))
                if task.words is not None and len(task.words) and (self._index[1] < 0).all():
                    raise InputError(
                        f"{task.name}: the model knows none of its words ({task.words[0]}, ...; "
                        f"the model has "
                        f"{self.model.words[0]}, ...); name its columns (vocabulary= in Python, "
                        f"--words FILE)"
                    )
            index = self._index[1]
            cells = document_cells(batch)
        meta = metadata_of(batch)
        ids = batch.column(0)
        columns = {
            name: meta.get(name, pa.nulls(len(batch), kind)) for name, kind in self.columns.items()
        }
        return list(
            self.blocks(ids.cast(TEXT), cells, index, columns, pa.types.is_integer(ids.type))
        )


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
        If the store has no such column.
    """
    known_columns = {"source": "string", **corpus.manifest.columns}
    for name in names:
        if name not in known_columns or name in ("id", "part", "block", "row"):
            has = ", ".join(sorted(set(known_columns) - {"id"}))
            raise UsageError(
                f"--with {name}: {corpus.path} has no such column (it has {has}); ingest with "
                f"--meta"
            )
    return {name: TEXTS if known_columns[name] == "list" else TEXT for name in names}


def open_source(
    config: InferConfig, model: TopicModel, plan: InferencePlan, wanted: Sequence[str] = ()
) -> DocumentSource:
    """Open the documents that a configuration names.

    ``wanted`` are columns that are read where the documents have them.

    Raises
    ------
    InputError, UsageError
        If they cannot be read so.
    """
    documents = config.documents
    described = {"vocabulary": config.vocabulary, "ids": config.ids, "layer": config.layer}
    inputs = (
        [documents]
        if isinstance(documents, Corpus)
        else as_inputs(documents, path=False, **described)
    )
    files: list[Any] = inputs if isinstance(inputs, list) else []
    if isinstance(inputs, list) and not inputs:
        raise InputError("no documents: give texts, a store, or the Path of files")
    if config.follow:
        if [str(p) for p in files] != ["-"]:
            raise UsageError("--follow reads standard input: give - as the only input")
        return FollowedDocuments(model, plan, inputs, config, wanted)
    stores = [p for p in files if isinstance(p, Corpus) or (Path(p) / "manifest.json").exists()]
    if not stores:
        return RawDocuments(model, plan, inputs, config, wanted)
    corpus = stores[0] if isinstance(stores[0], Corpus) else Corpus.open(stores[0], dense=True)
    if len(files) > 1:
        raise InputError(f"{stores[0]}: a corpus store cannot be combined with other inputs")
    if reading := sorted(config.non_defaults()):
        raise InputError(f"{stores[0]}: is a corpus store; {reading[0]} is for raw documents")
    return StoredDocuments(model, plan, corpus, config, wanted)
