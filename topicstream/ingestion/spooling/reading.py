"""The first half of an ingest: pieces are cut, parsed and counted in a pool, and taken in order into the spools."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from topicstream.errors import InputError, Interrupted
from topicstream.ingestion.settings import Heldout, IngestOptions
from topicstream.ingestion.spooling.journal import Journal
from topicstream.ingestion.spooling.parts import NAMED
from topicstream.ingestion.spooling.prepare import Prepared, prepare_piece, raw_crc, totals_of
from topicstream.ingestion.spooling.spool import encode_frame
from topicstream.ingestion.spooling.tasks import Task, pieces
from topicstream.parallel.order import Here
from topicstream.progress import Progress
from topicstream.tokens.builder import VocabularyBuilder
from topicstream.tokens.sequences import gathered
from topicstream.tokens.tokenizer import Tokenizer
from topicstream.tokens.vocabulary import word_buffers

EVERYTHING = 1 << 64
AN_INSTANT = 2.0
"""Seconds."""


class Stop:
    """A signal handler: while reading, the first signal is kept until the next commit; any other stops at once (what
    is committed is safe, the rest is done again)."""

    def __init__(self) -> None:
        self.signum = 0
        self.deferring = False

    def __call__(self, signum: int, frame: object = None) -> None:
        if self.signum or not self.deferring:
            raise self.error(signum)
        self.signum = signum

    @staticmethod
    def error(signum: int) -> Interrupted:
        """What is raised."""
        return Interrupted("stopped; the same command again carries on where this one was", signum)


class Line:
    """Documents whose hash lies below it are not counted as training yet.  Only a guess: finishing corrects it, so it
    may depend on how far the pool has come."""

    def __init__(self, heldout: Heldout, fixed: int | None) -> None:
        self._heldout, self._fixed = heldout, fixed
        self._smallest = np.empty(0, np.uint64)

    def take(self, high: np.ndarray) -> None:
        """Note the hashes of documents that were read."""
        wanted = self._heldout.documents
        if self._fixed is None and wanted:
            self._smallest = np.sort(np.concatenate((self._smallest, high)))[:wanted]

    def __call__(self) -> int:
        """The line now, 0 .. 2^64."""
        if self._fixed is not None:
            return self._fixed
        wanted = self._heldout.documents
        if wanted is None:
            return self._heldout.threshold_of_share()
        return int(self._smallest[-1]) + 1 if len(self._smallest) == wanted else EVERYTHING


class _SourceWords:
    """The words of one bag-of-words source: their provisional ids, and counts not yet given to the builder."""

    def __init__(self, words: pa.LargeStringArray, number: int) -> None:
        self.words, self.number = words, number
        self.types, self.offsets = word_buffers(words)
        self.counts, self.df = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)

    def flush(self, builder: VocabularyBuilder) -> None:
        used = np.flatnonzero(self.df)
        if len(used):
            types, ends = gathered(self.types, self.offsets, used)
            builder.add(types, ends, self.counts[used], self.df[used])
            self.counts[:], self.df[:] = 0, 0


class _Cutter(threading.Thread):
    """Runs ``pieces`` ahead of the pool, at most ``ahead`` pieces."""

    def __init__(self, paths: Any, options: IngestOptions, skip: int, ahead: int) -> None:
        super().__init__(name="cutter", daemon=True)
        self._paths, self._options, self._skip = paths, options, skip
        self._out: queue.Queue[Any] = queue.Queue(ahead)
        self._stop, self._go_on = threading.Event(), threading.Event()
        self.skipped_crc = 0
        self.start()

    def run(self) -> None:
        try:
            for task in pieces(self._paths, self._options.read):
                if task.number < self._skip:
                    self.skipped_crc = chain(self.skipped_crc, raw_crc(task.piece.data))
                    continue
                large = is_large(task)
                self._go_on.clear()
                if not self._put(task):
                    return
                del task
                while large and not self._go_on.wait(0.1):  # nothing is read beside a piece that takes what there is
                    if self._stop.is_set():
                        return
            self._put(None)
        except BaseException as e:
            self._put(e)

    def _put(self, item: Any) -> bool:
        while not self._stop.is_set():
            try:
                self._out.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Iterator[Task]:
        while (item := self._out.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            del item

    def go_on(self) -> None:
        """A large piece is done."""
        self._go_on.set()

    def close(self) -> None:
        self._stop.set()


def is_large(task: Task) -> bool:
    """Whether the piece has a record so long that it is worked on alone."""
    return task.piece.size > 2 * task.options.piece_bytes


def chain(crc: int, piece: int) -> int:
    """The checksum of a sequence of pieces, one more piece appended."""
    return int(google_crc32c.extend(crc, piece.to_bytes(4, "little")))


def _prepare(task: list[Task], tokenizer: Tokenizer, line: int) -> Prepared:
    """``prepare`` of the one task of a list, which the pool then does not hold."""
    return prepare_piece(task.pop(), tokenizer, line)


class Reading:
    """Takes prepared pieces in order into the journal's spools and the vocabulary builder."""

    def __init__(
        self,
        journal: Journal,
        builder: VocabularyBuilder,
        options: IngestOptions,
        line: Line,
        progress: Progress,
        stop: Stop,
    ) -> None:
        self.stop = stop
        self.journal, self.builder, self.options = journal, builder, options
        self.line, self.progress = line, progress
        self._source: _SourceWords | None = None
        self._last = time.monotonic()
        self._last_bytes = journal.state["consumed"]
        self._last_name = journal.state["sources"][-1] if journal.state["sources"] else None

    def run(self, paths: Any, tokenizer: Tokenizer, workers: int) -> None:
        """Read to the end, committing on the way; afterwards ``state["done"]``."""
        state = self.journal.state
        began, before = time.monotonic(), state["seconds"]
        for i in range(len(self.journal.docs)):
            self.line.take(self.journal.docs.read(i)[0]["high"])
        cutter = _Cutter(paths, self.options, state["pieces"], ahead=1)
        waiting: deque[tuple[Task, Future[Prepared]]] = deque()
        first = True
        here = tokenizer.matches or self.options.read.split not in (None, *NAMED)
        self.stop.deferring = not here
        with Here() if here else ThreadPoolExecutor(workers, thread_name_prefix="prepare") as pool:
            try:
                for task in cutter:
                    if first:
                        self._same_input(cutter)
                        first = False
                    large = is_large(task)
                    while large and waiting:
                        self._take(*waiting.popleft())
                    future = pool.submit(_prepare, [task], tokenizer, self.line())
                    # Without its bytes, so that they are freed once they are parsed.
                    waiting.append((replace(task, piece=replace(task.piece, data=None)), future))
                    del task
                    while len(waiting) > workers + 1 or (waiting and (large or waiting[0][1].done())):
                        self._take(*waiting.popleft())
                        self._commit_now_and_then(before + time.monotonic() - began)
                    if large:
                        cutter.go_on()
                if first:
                    self._same_input(cutter)
                while waiting:
                    self._take(*waiting.popleft())
            except BaseException:
                for _, future in waiting:
                    future.cancel()
                raise
            finally:
                cutter.close()
                self.stop.deferring = False
        # what was read in an instant is not worth a dozen waits for the disk
        soon = not self.journal.durable and time.monotonic() - began < AN_INSTANT
        self._commit(before + time.monotonic() - began, done=True, durable=not soon)

    def _same_input(self, cutter: _Cutter) -> None:
        if cutter.skipped_crc != self.journal.state["crc"]:
            raise InputError(
                f"{self.journal.folder}: the input has changed since this ingest was stopped; --force starts anew"
            )

    def _take(self, task: Task, future: Future[Prepared]) -> None:
        done = future.result()
        state, journal = self.journal.state, self.journal
        if done.types is not None and done.type_offsets is not None:
            state["text"] = True
            ids = self.builder.add(done.types, done.type_offsets, done.type_counts, done.type_df)
            journal.types.append(encode_frame({"ids": ids}))
            state["source_words"].append([len(journal.types) - 1, False])
        else:
            source = self._words_of(task)
            source.counts += done.type_counts
            source.df += done.type_df
            state["source_words"].append([source.number, True])
        journal.cells.append(done.cells_frame)
        journal.docs.append(done.docs_frame)
        journal.reject(done.rejects, task.name, task.key)
        journal.totals.update(totals_of(done))
        self._of_one_kind(task, done)
        state["weighted"] = state["weighted"] or done.weighted
        state["pubmed"] = state["pubmed"] or task.reader.name == "pubmed"
        state["columns"] |= done.columns
        if done.docs:
            state["whole ids"] = state.get("whole ids", True) and done.whole
        if task.key != self._last_name:
            state["sources"].append(task.key)
            self._last_name = task.key
        state["pieces"] = task.number + 1
        state["crc"] = chain(state["crc"], done.crc)
        state["consumed"] = task.consumed
        self.line.take(done.high)
        self.progress.step("reading", task.consumed, task.total, "B", journal.totals["documents"])

    def _of_one_kind(self, task: Task, done: Prepared) -> None:
        """InputError where vectors stand beside documents, or beside vectors of another width."""
        state = self.journal.state
        if done.docs and state.setdefault("vectors", done.vectors) != done.vectors:
            what = [f"vectors of {n} numbers" if n else "documents" for n in (done.vectors, state["vectors"])]
            raise InputError(f"{task.name}: {what[0]}, where those before are {what[1]}; ingest them into another store")

    def _words_of(self, task: Task) -> _SourceWords:
        assert task.words is not None
        if self._source is None or self._source.words is not task.words:
            if self._source is not None:
                self._source.flush(self.builder)
            self._source = _SourceWords(task.words, len(self.journal.types))
            zeros = np.zeros(len(task.words), np.int64)
            ids = self.builder.add(self._source.types, self._source.offsets, zeros, zeros)
            types = self._source.types[self._source.offsets[0] : self._source.offsets[-1]]
            lengths = np.diff(self._source.offsets).astype(np.uint32)
            self.journal.types.append(encode_frame({"ids": ids, "types": types, "type_lengths": lengths}))
        return self._source

    def _commit_now_and_then(self, seconds: float) -> None:
        if self.stop.signum:
            self._commit(seconds, done=False)
            raise self.stop.error(self.stop.signum)
        late = time.monotonic() - self._last >= self.options.checkpoint_seconds
        if late or self.journal.state["consumed"] - self._last_bytes >= self.options.checkpoint_bytes:
            self._commit(seconds, done=False)

    def _commit(self, seconds: float, *, done: bool, durable: bool = True) -> None:
        if self._source is not None:
            self._source.flush(self.builder)
        self.journal.commit(self.builder.checkpoint(), durable=durable, seconds=seconds, done=done)
        self._last, self._last_bytes = time.monotonic(), self.journal.state["consumed"]
