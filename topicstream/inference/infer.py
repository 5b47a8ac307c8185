"""``topicstream.infer``: topics of new documents, streamed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, TopicsError
from topicstream.inference import keep as choice
from topicstream.inference import methods
from topicstream.inference.documents import EMPTY, UNKNOWN, Documents, compiled, cut, known
from topicstream.inference.method import Method, Rows
from topicstream.inference.output import Format, JsonLines, OutputFile
from topicstream.machine import calm_malloc, default_memory_limit, default_threads, give_back, parse_bytes, trim
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.parallel.order import in_order

PIECE_BYTES = 1 << 20
MAPPED, KEPT = 256 << 10, 1 << 20
"""Bytes of an array that has pages of its own; free bytes that malloc keeps."""
TRIM_DOCS = 1 << 18
"""Documents after which malloc's free pages are given back."""


def infer(
    paths: Any,
    model: str | Path | TopicModel = "model",
    *,
    out: str | Path | BinaryIO | None = None,
    method: str = "bp",
    top: int | None = None,
    min_prob: float | None = None,
    parts: tuple[str, ...] = ("train", "heldout"),
    follow: bool = False,
    force: bool = False,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    options: dict[str, Any] | None = None,
    **reading: Any,
) -> dict[str, Any]:
    """Write the topics of documents, in input order; returns the summary.

    paths      a corpus store, or raw documents of any format that ``ingest`` reads (``-``: standard input), which are
               tokenised as the model's corpus was
    out        a file (.parquet, .jsonl, .csv; renamed into place when complete), an open binary stream, or None for standard
               output (both JSON lines)
    method     ``bp``, ``vb`` or ``gibbs``; ``options`` are the method's own (see its class)
    top, min_prob  write only so many topics a document, or those with at least this share; else all of them
    parts      of a store: which documents
    follow     standard input only: each answer is written and flushed as soon as its line is complete
    threads    the answers do not depend on it;  mem_limit: the model's table stays on disk when it is above half of it
    progress   called with (what, documents done, documents in all or 0 when not known)
    reading    ``ReadOptions`` of raw input: format, text_field, id_field, encoding, on_error, vocab, ...

    A document without a token, or without one that the model knows, gets the prior's mean and the flag ``empty`` or
    ``unknown``.  Summary: documents, empty, unknown, tokens, oov_tokens, oov_rate, rejected, seconds,
    documents_per_second, method, and where it went.

    Raises InputError, StoreError; TopicsError when ``out`` exists and not ``force``.
    """
    choice.check(top, min_prob)
    begin = time.perf_counter()
    calm_malloc(mapped=MAPPED, kept=KEPT)
    pa.set_memory_pool(pa.system_memory_pool())  # what is freed goes back; mimalloc would keep 40 MB
    if isinstance(out, (str, Path)) and Path(out).exists() and not force:
        raise TopicsError(f"{out}: exists; --force replaces it")
    fresh = load_compiler()
    opened = model if isinstance(model, TopicModel) else TopicModel.open(model, memory_limit=-1)
    half = (parse_bytes(mem_limit) if mem_limit is not None else default_memory_limit()) // 2
    # a caller's own model stays where the caller has it
    fits = opened is not model and 4 * opened.n_words * opened.n_topics <= half
    means = make(method, Rows(opened), **(options or {}))
    rehearse = fresh and not follow and not means.needs_all
    if fits and not rehearse:
        opened.load()
    if follow and means.needs_all:
        raise InputError("--follow: joint sampling needs all documents before it answers; leave --joint out")
    if follow and isinstance(out, (str, Path)):
        raise InputError(f"--follow writes to standard output; {out} would appear at the end only")
    threads = 1 if follow else threads or default_threads()
    source = Source(paths, opened, parts=parts, follow=follow, threads=threads, **reading)
    tally = Tally()

    def run(format: Format, flush: Callable[[], None] | None) -> None:
        def answer(documents: Documents) -> tuple[Any, Documents]:
            shares = means.shares(documents)
            rates = documents.unknown / np.maximum(documents.tokens, 1e-300)
            about = documents.tokens, rates, documents.flags
            return format.encode(documents.ids, choice.keep(shares, top, min_prob), about), documents

        blocks = iter(means.gather(source.documents()))
        if rehearse and (first := next(blocks, None)) is not None:
            # the kernels that these documents and this format need are loaded, and what that took is given back, before
            # the table takes its place: one document is answered from the rows on disk
            answer(first.only(0))
            give_back()
            if fits:
                opened.load()
            blocks = chain([first], blocks)
        # following, every answer must be out before the next line is waited for: no thread, nothing held back
        results = map(answer, blocks) if follow else in_order(answer, blocks, threads)
        for encoded, documents in results:
            format.write(encoded)
            if flush is not None:
                flush()
            done = tally.docs
            tally.add(documents)
            if tally.docs // TRIM_DOCS > done // TRIM_DOCS:
                trim()
            if progress is not None:
                progress("topics of documents", tally.docs, source.total)

    if isinstance(out, (str, Path)):
        with OutputFile(out, about=True, option="--out") as file:
            run(file.format, None)
            file.commit()
    else:
        stream = sys.stdout.buffer if out is None else out
        run(JsonLines(stream, True), stream.flush if follow else None)
        stream.flush()
    seconds = time.perf_counter() - begin
    return {
        **tally.as_dict(),
        "rejected": source.rejected,
        "seconds": seconds,
        "documents_per_second": tally.docs / seconds,
        "method": means.name,
        "topics": opened.n_topics,
        "model": str(opened.path or "in memory"),
        "out": str(out) if isinstance(out, (str, Path)) else None,
    }


def load_compiler() -> bool:
    """Load numba's runtime by a first kernel, before anything else is held, and give back the pages that it took: LLVM
    compiles a part of that runtime in every process, which takes 70 MB for an instant.  False: it was loaded before."""
    if compiled():
        return False
    give_back()
    none = np.zeros(0, np.int32)
    known(pa.array([], pa.large_string()), np.zeros(1, np.int64), none, none, np.zeros(0, np.int64))
    give_back()
    return True


def make(name: str, rows: Rows, **options: Any) -> Method:
    """A method by its name; InputError for a name or an option it does not have."""
    method = methods.find(name)
    wrong = sorted(set(options) - set(method.options()))
    if wrong:
        has = ", ".join(method.options()) or "none"
        raise InputError(f"--method {name}: has no option {wrong[0]} (it has {has})")
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


class Source:
    """Where the documents come from.  ``total``: how many, 0 where that is not known; ``rejected``: records left out."""

    def __init__(
        self, paths: Any, model: TopicModel, *, parts: tuple[str, ...], follow: bool, threads: int, **reading: Any
    ) -> None:
        names = [paths] if isinstance(paths, (str, Path, Corpus)) else list(paths)
        self.model, self.threads, self.names = model, threads, names
        self.total, self._reading, self._follow = 0, None, follow
        stores = [p for p in names if isinstance(p, Corpus) or (Path(p) / "manifest.json").exists()]
        self.corpus: Corpus | None = None
        if follow and [str(p) for p in names] != ["-"]:
            raise InputError("--follow reads standard input: give - and nothing else")
        if stores:
            if len(names) > 1:
                raise InputError(f"{stores[0]}: a corpus store goes alone")
            if reading:
                raise InputError(f"{stores[0]}: is a corpus store; {sorted(reading)[0]} is for raw documents")
            self.corpus = stores[0] if isinstance(stores[0], Corpus) else Corpus.open(stores[0])
            self.parts = parts
            self.total = sum(self.corpus.part(p == "heldout")["docs"] for p in parts)
            return
        from topicstream.inference.raw import Reading
        from topicstream.ingest.reader import ReadOptions

        self._options = ReadOptions(**{"piece_bytes": PIECE_BYTES, **reading})
        self._reading = Reading(model)

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
            yield from raw(
                self.names, self._options, self._reading, lambda work, items: in_order(work, items, self.threads)
            )

    def _stored(self, corpus: Corpus) -> Iterator[Documents]:
        from topicstream.inference.stored import stored

        index = self.model.vocabulary.find(Vocabulary.read(corpus.file("vocab")).words)
        for cells in stored(corpus, self.parts):
            for first, last in cut(cells.indptr):
                at, end = cells.indptr[first], cells.indptr[last]
                yield known(
                    cells.ids.slice(first, last - first),
                    cells.indptr[first : last + 1] - at,
                    cells.words[at:end],
                    cells.counts[at:end],
                    index,
                )
