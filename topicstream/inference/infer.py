"""``topicstream.infer``: topics of new documents, streamed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from, rest_of
from topicstream.errors import InputError, UsageError
from topicstream.inference import keep as choice
from topicstream.inference import methods
from topicstream.inference.config import PARTS, SAMPLED, InferConfig, as_names
from topicstream.inference.documents import EMPTY, UNKNOWN, Documents, apart, cut_cells, known
from topicstream.inference.memory import Fit, fit
from topicstream.inference.method import Method, TopicRows
from topicstream.inference.output import AnswerFormat, AnswersFile, AnswerTable, JsonAnswers, check_answers
from topicstream.kernels.jit import notify_compiling
from topicstream.machine import default_threads, return_freed_memory
from topicstream.model.edits import view_of
from topicstream.model.gaussians import is_of_vectors
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.options import configured
from topicstream.parallel.order import in_order
from topicstream.progress import listener

NAMES = "names"
PIECE_BYTES = 1 << 20
MAPPED, KEPT = 256 << 10, 1 << 20
"""Bytes of an array that has pages of its own; free bytes that malloc keeps."""
TRIM_DOCS = 1 << 18
"""Documents after which malloc's free pages are given back."""


@configured(InferConfig)
def infer(config: InferConfig) -> Any:
    """Topics of documents, in input order: a ``pyarrow.Table`` (id, topics, shares, tokens, oov_rate, flag), or with
    ``out`` a file and the summary as a dict.

    out          a file (.parquet, .jsonl, .csv; renamed into place when complete) or an open binary stream (JSON lines);
                 None: the answers as a table.  ``answers`` gives them block by block, whatever their number
    mem_limit    of the whole process; the model's table stays on disk, and blocks are small, where that takes less
    with_columns columns of the store, or fields of raw input
    format, text_field, ... (see ReadOptions) are for raw documents;  tol, inner, ... are the methods'

    Text is tokenised as the model's corpus was.  The answers do not depend on threads.  Where topics are labels, ``names``
    stands beside ``topics``.  A document without a token, or without one that the model knows, gets the prior's mean and
    the flag ``empty`` or ``unknown``.  Summary: documents, empty, unknown, tokens, oov_tokens, oov_rate, rejected, seconds,
    documents_per_second, method, and where it went.

    Raises InputError, StoreError, DoesNotFit; TopicsError when ``out`` exists and not ``force``.
    """
    if is_of_vectors(config.model):
        from topicstream.inference.points import infer_vectors

        return infer_vectors(config)
    begin = time.perf_counter()
    inputs, out, force = _places(config.documents, config.model), config.out, config.force
    if isinstance(out, (str, Path)):
        check_answers(out, "--out", inputs, force=force)
    if config.follow and isinstance(out, (str, Path)):
        raise UsageError(f"--follow writes to standard output; {out} would appear at the end only")
    run = Answers(config)
    if out is None:
        format = AnswerTable(columns=run.typed)
        run.write(format)
        return format.table()
    if isinstance(out, (str, Path)):
        with AnswersFile(out, about=True, option="--out", force=force, inputs=inputs, columns=run.typed) as file:
            run.write(file.format)
            file.commit()
    else:
        run.write(JsonAnswers(out, True, run.columns), out.flush if config.follow else None)
        out.flush()
    return {**run.summary(begin), "out": str(out) if isinstance(out, (str, Path)) else None}


@configured(InferConfig)
def answers(config: InferConfig) -> Iterator[pa.RecordBatch]:
    """The answers of ``infer``, as record batches of some thousand documents, streamed; ``out`` is not looked at."""
    run = Answers(config)
    format = AnswerTable(columns=run.typed)
    for encoded in run.encoded(format.encode):
        yield from encoded.to_batches()


class Answers:
    """One inference: a model, its method and where the documents come from."""

    def __init__(self, config: InferConfig) -> None:
        choice.check(config.top, config.min_prob)
        model, follow = config.model, config.follow
        methods.find_method(config.method)  # a name that there is not is said before anything is opened
        return_freed_memory()
        notify_compiling(listener(config.progress).say)
        self.model = opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
        name = methods.of_model(opened, config.method)
        own = methods.find_method(name)
        # a caller's own model stays where the caller has it
        wanted = 1 if follow else config.threads or default_threads()
        self.fit = fit(opened, config.mem_limit, wanted, own=opened is not model, tables=own.tables)
        self.fits, self.threads, self.follow = self.fit.load, self.fit.threads, follow
        self.view = view_of(opened) if config.edits else None
        self.method = make(name, TopicRows(opened), **config.of_method())
        self.method.room = self.fit.room
        if self.fits:
            self.method.load()
        if follow and self.method.needs_all:
            raise UsageError("--follow: joint sampling needs all documents before it answers; leave --joint out")
        self.top, self.min_prob, self.progress = config.top, config.min_prob, listener(config.progress)
        wanted_columns = as_names(config.with_columns)
        more = [c for c in self.method.columns if c not in wanted_columns]
        config = replace(config, with_columns=[*wanted_columns, *more])
        self.source = DocumentSource(config, opened, self.fit)
        self.tally = Tally()
        self.names = None  # large_string, by the number shown
        if opened.manifest.get("label_docs") and self.view is not None and NAMES not in self.source.columns:
            shown = self.view.labels
            self.names = pa.array([shown.get(k) for k in range(max(self.view.ids) + 1)], pa.large_string())

    @property
    def columns(self) -> dict[str, Any]:
        """Columns beside the answers, by Arrow type: metadata, and the topics' names where they are labels."""
        return {**self.source.columns, **({NAMES: LIST} if self.names is not None else {})}

    @property
    def typed(self) -> dict[str, Any]:
        """The columns, and the type of the ids where it is known before they are read: those of a store."""
        store = self.source.corpus
        whole = store is not None and store.manifest.get("ids") == "integer"
        return {**({"id": pa.int64()} if whole else {}), **self.columns}

    def encoded(self, encode: Callable[[Any, Any, Any, Any], Any]) -> Iterator[Any]:
        """``encode(ids, lists, about, more)`` of every block, in input order; it may run in any thread."""

        def answer(documents: Documents) -> tuple[Any, Documents]:
            shares = self.method.shares(documents)
            lists = choice.keep(shares if self.view is None else self.view.shares(shares), self.top, self.min_prob)
            if self.view is not None:
                lists = choice.Lists(lists.offsets, self.view.numbers[lists.topics], lists.shares)
            rates = documents.unknown / np.maximum(documents.tokens, 1e-300)
            about = documents.tokens, rates, documents.flags
            ids, more = apart(documents.ids)
            ids = typed_ids(ids, documents.whole)
            if self.names is not None:
                offsets = pa.array(lists.offsets.astype(np.int32))
                more = {**more, NAMES: pa.ListArray.from_arrays(offsets, self.names.take(pa.array(lists.topics)))}
            return encode(ids, lists, about, more), documents

        blocks = iter(self.method.gather(self.source.documents()))
        # following, every answer must be out before the next line is waited for: no thread, nothing held back
        results = map(answer, blocks) if self.follow else in_order(answer, blocks, self.threads)
        for encoded, documents in results:
            yield encoded
            self.tally.add(documents)
            self.progress.step("topics of documents", self.tally.docs, self.source.total or None, "documents")

    def write(self, format: AnswerFormat, flush: Callable[[], None] | None = None) -> None:
        """Every answer into a format."""
        for encoded in self.encoded(format.encode):
            format.write(encoded)
            if flush is not None:
                flush()

    def summary(self, begin: float) -> dict[str, Any]:
        """What went by since ``begin`` (``time.perf_counter``)."""
        notify_compiling(None)
        seconds = time.perf_counter() - begin
        return {
            **self.tally.as_dict(),
            "rejected": self.source.rejected,
            "seconds": seconds,
            "documents_per_second": self.tally.docs / seconds,
            "method": self.method.name,
            "topics": self.model.n_topics,
            "model": str(self.model.path or "in memory"),
        }


def _places(documents: Any, model: str | Path | TopicModel) -> list[Path]:
    """What is read of files and folders: the documents' and the model's."""
    given = documents if isinstance(documents, (list, tuple)) else [documents]
    read = [Path(d.path) if isinstance(d, Corpus) else d for d in given if isinstance(d, (Path, Corpus))]
    own = model.path if isinstance(model, TopicModel) else Path(model)
    return [p for p in [*read, own] if p is not None and str(p) != "-"]


WEIGHING = ("bp", "vb", "mixture")
"""Methods that weigh the cells of new documents as a model of weighted cells does."""


def make(name: str, rows: TopicRows, **options: Any) -> Method:
    """A method by its name; InputError for a name or an option it does not have."""
    method = methods.find_method(name)
    if rows.model.weights is not None and name not in WEIGHING:
        raise InputError(
            f"--method {name}: the model weighs cells ({rows.model.weights.kind}); choose {' or '.join(WEIGHING)}"
        )
    wrong = sorted(set(options) - set(method.options()))
    if wrong:
        has = ", ".join(method.options()) or "none"
        raise UsageError(f"--method {name}: has no option {wrong[0]} (it has {has})")
    return method(rows, **options)


class Tally:
    """What has gone by."""

    def __init__(self) -> None:
        self.docs = self.empty = self.unknown = 0
        self.tokens = self.oov = 0.0

    def add(self, docs: Documents) -> None:
        """Count a block."""
        flags = docs.flags
        self.docs += len(docs)
        self.empty += int((flags == EMPTY).sum())
        self.unknown += int((flags == UNKNOWN).sum())
        self.tokens += float(docs.tokens.sum())
        self.oov += float(docs.unknown.sum())

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "documents": self.docs,
            "empty": self.empty,
            "unknown": self.unknown,
            "tokens": self.tokens,
            "oov_tokens": self.oov,
            "oov_rate": self.oov / self.tokens if self.tokens else 0.0,
        }


LIST = pa.list_(pa.large_string())


def columns_within(corpus: Corpus, wanted: Sequence[str]) -> dict[str, Any]:
    """Arrow types of columns of a store's documents' table; InputError where it has no such column."""
    there = {"source": "string", **(corpus.manifest.get("columns") or {})}
    for name in wanted:
        if name not in there or name in ("id", "part", "block", "row"):
            kept = ", ".join(sorted(set(there) - {"id"}))
            raise UsageError(f"--with {name}: {corpus.path} has no such column (it has {kept}); ingest with --meta")
    return {name: LIST if there[name] == "list" else pa.large_string() for name in wanted}


class DocumentSource:
    """Where the documents come from.  ``total``: how many, 0 where that is not known; ``rejected``: records left out."""

    def __init__(self, config: InferConfig, model: TopicModel, fit: Fit) -> None:
        documents, follow, reading = config.documents, config.follow, config.given()
        with_columns: Sequence[str] = as_names(config.with_columns)
        self.model, self.fit, self.threads = model, fit, fit.threads
        self.total, self._reading, self._follow = 0, None, follow
        names: Any = [documents] if isinstance(documents, Corpus) else None
        if names is None:
            from topicstream.ingestion.opening.memory import as_inputs

            names = as_inputs(documents, path=False, vocabulary=config.vocabulary, ids=config.ids)
        files = isinstance(names, list)
        stores = [p for p in names if isinstance(p, Corpus) or (Path(p) / "manifest.json").exists()] if files else []
        self.names = names
        self.corpus: Corpus | None = None
        if files and not names:
            raise InputError("no documents: give texts, a store, or the Path of files")
        if follow and not (files and [str(p) for p in names] == ["-"]):
            raise UsageError("--follow reads standard input: give - and nothing else")
        if stores:
            if len(names) > 1:
                raise InputError(f"{stores[0]}: a corpus store goes alone")
            if reading:
                raise InputError(f"{stores[0]}: is a corpus store; {sorted(reading)[0]} is for raw documents")
            self.corpus = stores[0] if isinstance(stores[0], Corpus) else Corpus.open(stores[0])
            self.parts = config.of_parts()
            if asked := set(self.parts) & set(SAMPLED):
                view = rest_of if asked == {"rest"} else learned_from
                self.corpus = view(self.corpus, model.manifest, model.path) if len(asked) == 1 else self.corpus
                self.parts = tuple(dict.fromkeys("train" if p in asked else p for p in self.parts))
            self.columns = columns_within(self.corpus, with_columns)
            self.total = sum(self.corpus.part(p == "heldout")["docs"] for p in self.parts)
            return
        if set(config.of_parts()) != set(PARTS):
            raise UsageError("--part is of a corpus store, and these are raw documents")
        from topicstream.inference.raw import RawReading
        from topicstream.ingestion.parsing.columns import LISTS
        from topicstream.ingestion.read_options import ReadOptions

        meta = {name: name for name in with_columns}
        kept = {"meta": meta} if meta else {}
        self._options = ReadOptions(**{"piece_bytes": PIECE_BYTES, "room": fit.room, **kept, **reading})
        if files:
            self._options = self._options.recall(model.manifest.get("reading"))
        self._reading = RawReading(model, fit, list(with_columns))
        self.columns = {name: LIST if name in LISTS else pa.large_string() for name in with_columns}

    @property
    def rejected(self) -> int:
        return self._reading.rejected if self._reading is not None else 0

    def documents(self) -> Iterator[Documents]:
        """All documents in order, in small blocks."""
        if self.corpus is not None:
            yield from self._stored(self.corpus)
            return
        from topicstream.inference.raw import follow, raw

        assert self._reading is not None
        if self._follow:
            yield from follow(self._options, self._reading)
        else:
            threads = 1 if self._reading.matches else self.threads
            yield from raw(self.names, self._options, self._reading, lambda work, items: in_order(work, items, threads))

    def _stored(self, corpus: Corpus) -> Iterator[Documents]:
        from topicstream.inference.stored import stored

        index = self.model.vocabulary.find(Vocabulary.read(corpus.file("vocab")).words)
        for cells in stored(corpus, self.parts, list(self.columns)):
            self.fit.ask(cells.indptr, self.model.n_topics, self.model.phi is not None or self.fit.load)
            for first, last in cut_cells(cells.indptr, self.fit.docs, self.fit.cells):
                at, end = cells.indptr[first], cells.indptr[last]
                yield known(
                    cells.ids.slice(first, last - first),
                    cells.indptr[first : last + 1] - at,
                    cells.words[at:end],
                    cells.counts[at:end],
                    index,
                    corpus.manifest.get("ids") == "integer",
                )
