"""New documents as they come: files, folders or standard input, tokenised as the model's corpus was."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError, StoreError, UsageError
from topicstream.inference.documents import Documents, cut_cells, known, with_columns
from topicstream.inference.memory import Fit
from topicstream.ingestion.opening.guess import guess
from topicstream.ingestion.opening.source import to_utf8
from topicstream.ingestion.parsing.reader import Piece, Run, reader_named
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.tasks import Task, pieces
from topicstream.model.topic_model import TopicModel
from topicstream.tokens.documents import TextRun
from topicstream.tokens.recipe import Recipe
from topicstream.tokens.tokenizer import Tokenizer
from topicstream.tokens.vocabulary import TokenVocabulary

LINE_FORMATS = ("jsonl", "lines")
READ_BYTES = 1 << 16
InOrder = Callable[[Callable[[Task], list[Documents]], Iterator[Task]], Iterator[list[Documents]]]


class RawReading:
    """Turns pieces of raw input into documents over the model's words.  ``rejected`` counts the records left out."""

    def __init__(self, model: TopicModel, fit: Fit, columns: Sequence[str] = ()) -> None:
        self._model, self._fit, self._columns = model, fit, columns
        self._words = TokenVocabulary(model.words, model.vocabulary.counts, model.vocabulary.df)
        self._words.lookup(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        self._tokenizer: Tokenizer | None = None
        self._index: tuple[Any, np.ndarray] | None = None
        self.rejected = 0
        self._lock = threading.Lock()
        if (recipe := model.manifest.get("tokenizer")) is not None:
            self._tokenizer = Tokenizer(Recipe.from_json(recipe))

    @property
    def matches(self) -> bool:
        """Whether a pattern of the user's own is at work (parallel/order.py, Here)."""
        return self._tokenizer is not None and self._tokenizer.matches

    def documents(self, task: Task) -> list[Documents]:
        """The documents of one piece, in blocks.  InputError at a bad record; thread-safe."""
        run, rejects = task.run()
        if len(rejects):
            with self._lock:
                self.rejected += len(rejects)
        return self.of_run(run, task.words, task.name)

    def of_run(self, run: Run, words: Any, name: str) -> list[Documents]:
        """The documents of one run; words: the source's own vocabulary, of counts."""
        if isinstance(run, TextRun):
            if self._tokenizer is None:
                raise StoreError(
                    f"{self._model.path}: the model does not say how its text was tokenised (it was trained on counts); "
                    f"ingest {name} and name the store"
                )
            found = self._tokenizer.count(run)
            index = self._words.lookup(found.types, found.type_offsets).astype(np.int64)
            indptr, cells, counts = found.indptr, found.words, found.counts
        else:
            if run.vectors:
                raise UsageError(f"{name}: holds vectors, and the model is of words; a model of --algo gmm takes vectors")
            if self._index is None or self._index[0] is not words:
                self._index = (words, self._model.vocabulary.find(words))
            index = self._index[1]
            indptr, cells, counts = run.indptr, run.words, run.counts
        blocks = []
        none = pa.nulls(len(run.about.ids), pa.large_string())
        every = with_columns(run.about.ids, {c: run.about.meta.get(c, none) for c in self._columns})
        self._fit.ask(indptr, self._model.n_topics, self._model.phi is not None or self._fit.load)
        for first, last in cut_cells(indptr, self._fit.docs, self._fit.cells):
            at, end = indptr[first], indptr[last]
            ids = every.slice(first, last - first)
            blocks.append(
                known(ids, indptr[first : last + 1] - at, cells[at:end], counts[at:end], index, run.about.whole)
            )
        return blocks


def raw(paths: Any, options: ReadOptions, reading: RawReading, in_order: InOrder) -> Iterator[Documents]:
    """All documents of the inputs, in order.  ``in_order(work, items)`` runs the reading and tokenising."""
    for blocks in in_order(reading.documents, pieces(paths, options)):
        yield from blocks


def follow(options: ReadOptions, reading: RawReading) -> Iterator[Documents]:
    """Documents of standard input, each block as soon as its lines are complete, until the input ends."""
    stdin, name = sys.stdin.buffer.fileno(), "stdin"
    if options.format is not None and options.format not in LINE_FORMATS:
        raise InputError(
            f"--follow --format {options.format}: only {' and '.join(LINE_FORMATS)} come a document a line"
        )
    rest, line, record, form = b"", 1, 0, options.format
    while True:
        more = os.read(stdin, READ_BYTES)
        if more:
            at = more.rfind(b"\n") + 1
            data, rest = (rest + more[:at], more[at:]) if at else (b"", rest + more)
            if len(rest) > options.record_bytes:
                raise InputError(f"{name}:{line}: a record of more than {options.record_bytes >> 20} MiB")
        else:
            data, rest = rest, b""
        if data:
            data = to_utf8(data, options.encoding)
            if form is None:
                form = guess(
                    "stdin.lines" if not data.lstrip().startswith(b"{") else "stdin.jsonl", data, in_folder=False
                )
                if form not in LINE_FORMATS:
                    raise InputError(
                        f"{name}: looks like {form}; --follow takes {' and '.join(LINE_FORMATS)} (--format)"
                    )
            task = Task(0, reader_named(form), name, name, Piece(name, name, data, line, record), options, 0, None)
            yield from reading.documents(task)
            lines = data.count(b"\n")
            line, record = line + lines, record + lines
        if not more:
            return
