"""The first half of an ingest: batches are read, counted in a pool, and written in order."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import reduce
from itertools import islice

import google_crc32c
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.base.progress import Progress
from topicstream.base.text import payload_of
from topicstream.ingestion.config import IngestConfig, Stop
from topicstream.ingestion.open.inputs import Places
from topicstream.ingestion.open.memory import InMemory
from topicstream.ingestion.parse.rejects import add_notes
from topicstream.ingestion.parts.part_files import CountedDocuments
from topicstream.ingestion.parts.prepare import Prepared, batch_crc, prepared_pieces
from topicstream.ingestion.parts.spread import Piece, Spread
from topicstream.ingestion.parts.tasks import Task, pieces
from topicstream.ingestion.parts.working_folder import WorkingFolder
from topicstream.ingestion.settings import keeps_texts
from topicstream.ingestion.tokens.tokenizer import Tokenizer

AN_INSTANT = 2.0
"""Seconds."""


def chain(crc: int, piece: int) -> int:
    """Append one more piece to the checksum of a sequence of pieces."""
    return int(google_crc32c.extend(crc, piece.to_bytes(4, "little")))


class Reading:
    """Takes prepared pieces in order into the parts of the working folder.

    same: whether the inputs are known to be those that an earlier run read, so that those it
    finished are not read again.
    """

    def __init__(
        self,
        working: WorkingFolder,
        options: IngestConfig,
        progress: Progress,
        stop: Stop,
        *,
        same: bool,
    ) -> None:
        self.stop = stop
        self.working = working
        self.options = options
        self.progress = progress
        self._last = time.monotonic()
        self._error: Exception | None = None
        self._last_bytes = working.state.consumed
        self._last_name = working.state.sources[-1] if working.state.sources else None
        self._begin = (
            self._last_name if same and self._last_name and working.state.before[0] else ""
        )

    def run(self, paths: Places | InMemory, tokenizer: Tokenizer, workers: int | Spread) -> None:
        """Read to the end, committing on the way.

        Afterwards ``state.done``.

        workers: threads, or those of a cluster.
        """
        began = time.monotonic()
        before = self.working.state.seconds
        if isinstance(workers, int):
            results = prepared_pieces(
                self._uncommitted(paths),
                tokenizer,
                workers,
                self.options.piece_bytes,
                keep_text=self.options.keep_text is not False,
            )
        else:
            results = self._uncommitted_of(
                workers.pieces(
                    paths,
                    self.options,
                    tokenizer.recipe,
                    self.working.state.sources[:-1],
                    self._begin,
                )
            )
        self.stop.deferring = isinstance(workers, int)  # a part of a cluster may take long
        try:
            with closing(results):
                for done in results:
                    self._take(done)
                    self._commit_now_and_then(before + time.monotonic() - began)
        finally:
            self.stop.deferring = False
        if self._error is not None:
            raise self._error
        # what was read in an instant is not worth a dozen waits for the disk
        soon = not self.working.durable and time.monotonic() - began < AN_INSTANT
        self._commit(before + time.monotonic() - began, done=True, durable=not soon)

    def _uncommitted_of(
        self, pieces: Generator[Piece, None, None]
    ) -> Generator[Prepared, None, None]:
        """Yield the results of pieces behind those that an earlier run committed.

        Raises InputError where these are others now.
        """
        with closing(pieces):
            self._check_committed(piece.crc for piece in pieces)
            for piece in pieces:
                assert piece.prepared is not None
                yield piece.prepared

    def _check_committed(self, crcs: Iterable[int]) -> None:
        state = self.working.state
        pieces, crc = state.before if self._begin else (0, 0)
        if reduce(chain, islice(crcs, state.pieces - pieces), crc) != state.crc:
            changed = "the input has changed since this ingest was stopped; --force starts over"
            raise InputError(f"{self.working.folder}: {changed}")

    def _uncommitted(self, paths: Places | InMemory) -> Iterator[Task]:
        """Yield the tasks behind those that an earlier run committed.

        Raises InputError where these are others now.

        An error of the input is kept, to be raised when the tasks before it are done.
        """
        tasks = pieces(paths, self.options, begin=self._begin)
        self._check_committed(batch_crc(task.batch) for task in tasks)
        try:
            yield from tasks
        except Exception as e:
            self._error = e

    def _take(self, done: Prepared) -> None:
        state = self.working.state
        working = self.working
        task = done.task
        state.text = state.text or done.text
        add_notes(working.notes, done.rejects.notes)
        working.totals.update(done.totals)
        if done.totals["documents"]:
            if state.width not in (None, done.width):
                raise InputError(
                    f"{task.name}: {payload_of(done.width)}, where those before are "
                    f"{payload_of(state.width)}; ingest them into another store"
                )
            state.width = done.width
            state.whole_ids = state.whole_ids is not False and done.whole
            if self.options.keep_text and not done.text and not self.options.append:
                raise InputError(
                    f"{task.name}: holds counts, no text that could be kept; leave out --keep-text"
                )
        assert done.documents is not None
        documents = self._limit_texts(done.documents)
        working.add(documents, done.rejects.lines(task.name, task.key))
        state.weighted = state.weighted or done.weighted
        state.pubmed = state.pubmed or task.reader.name == "pubmed"
        state.columns |= done.columns
        if task.key != self._last_name:
            state.sources.append(task.key)
            state.before = (state.pieces, state.crc)
            self._last_name = task.key
        state.pieces += 1
        state.crc = chain(state.crc, done.crc)
        state.consumed = task.consumed
        self.progress.step("reading", task.consumed, task.total, "B", working.totals["documents"])

    def _limit_texts(self, documents: CountedDocuments) -> CountedDocuments:
        """Return documents without their texts once these are too long to be kept unasked."""
        if documents.texts is None or self.options.keep_text is not None:
            return documents
        state = self.working.state
        state.text_bytes += pc.sum(pc.binary_length(documents.texts)).as_py() or 0
        return documents if keeps_texts(None, state.text_bytes) else documents._replace(texts=None)

    def _commit_now_and_then(self, seconds: float) -> None:
        if self.stop.signum:
            self._commit(seconds, done=False)
            raise self.stop.error(self.stop.signum)
        late = time.monotonic() - self._last >= self.options.checkpoint_seconds
        if late or self.working.state.consumed - self._last_bytes >= self.options.checkpoint_bytes:
            self._commit(seconds, done=False)

    def _commit(self, seconds: float, *, done: bool, durable: bool = True) -> None:
        self.working.commit(seconds, done=done, durable=durable)
        self._last = time.monotonic()
        self._last_bytes = self.working.state.consumed
