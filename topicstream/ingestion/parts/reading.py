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
"""Seconds of reading that are not worth a wait for the disk."""


def extend_crc(crc: int, piece: int) -> int:
    """Append the checksum of a piece to that of a sequence of pieces."""
    return int(google_crc32c.extend(crc, piece.to_bytes(4, "little")))


class Reading:
    """The first half of an ingest: pieces are prepared, and added to the parts in order.

    Parameters
    ----------
    working
        The working folder.
    options
        The options.
    progress
        The progress listener.
    stop
        The signal handler.
    unchanged
        True if the inputs are known to be those that an earlier run has read, so that sources that
        it finished are not read again.
    """

    def __init__(
        self,
        working: WorkingFolder,
        options: IngestConfig,
        progress: Progress,
        stop: Stop,
        *,
        unchanged: bool,
    ) -> None:
        self.stop = stop
        self.working = working
        self.options = options
        self.progress = progress
        self._last_commit = time.monotonic()
        self._error: Exception | None = None
        self._last_bytes = working.state.consumed
        self._last_name = working.state.sources[-1] if working.state.sources else None
        # key of the source to begin with; "": the first
        self._begin = ""
        if unchanged and self._last_name and working.state.before[0]:
            self._begin = self._last_name

    def run(self, paths: Places | InMemory, tokenizer: Tokenizer, workers: int | Spread) -> None:
        """Read to the end, commit on the way, and set ``state.done``.

        Parameters
        ----------
        paths
            The inputs.
        tokenizer
            Makes words of text.
        workers
            Number of threads, or the workers of a cluster.
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
            committed = self.working.state.sources[:-1]
            pieces_read = workers.pieces(
                paths, self.options, tokenizer.recipe, committed, self._begin
            )
            results = self._uncommitted_of(pieces_read)
        # a signal waits for the next piece, but not for a worker's part, which may take long
        self.stop.deferring = isinstance(workers, int)
        try:
            with closing(results):
                for prepared in results:
                    self._add(prepared)
                    self._commit_if_due(before + time.monotonic() - began)
        finally:
            self.stop.deferring = False
        if self._error is not None:
            raise self._error
        # parts that were read in an instant are not worth a dozen waits for the disk
        is_short = not self.working.durable and time.monotonic() - began < AN_INSTANT
        self._commit(before + time.monotonic() - began, done=True, durable=not is_short)

    def _uncommitted_of(
        self, pieces: Generator[Piece, None, None]
    ) -> Generator[Prepared, None, None]:
        """Yield the results of pieces behind those that an earlier run committed.

        Raises
        ------
        InputError
            If the committed pieces are others now.
        """
        with closing(pieces):
            self._check_committed(piece.crc for piece in pieces)
            for piece in pieces:
                assert piece.prepared is not None
                yield piece.prepared

    def _check_committed(self, crcs: Iterable[int]) -> None:
        """Skip the committed pieces, and raise InputError if their checksums are others now."""
        state = self.working.state
        pieces_before, crc = state.before if self._begin else (0, 0)
        if reduce(extend_crc, islice(crcs, state.pieces - pieces_before), crc) != state.crc:
            changed = "the input has changed since this ingest was stopped; --force starts over"
            raise InputError(f"{self.working.folder}: {changed}")

    def _uncommitted(self, paths: Places | InMemory) -> Iterator[Task]:
        """Yield the tasks behind those that an earlier run committed.

        An error of the input is raised after the tasks before it are done (``run``).

        Raises
        ------
        InputError
            If the committed tasks are others now.
        """
        tasks = pieces(paths, self.options, begin=self._begin)
        self._check_committed(batch_crc(task.batch) for task in tasks)
        try:
            yield from tasks
        except Exception as e:
            self._error = e

    def _add(self, prepared: Prepared) -> None:
        """Add a prepared piece to the part, and its figures to the state.

        Raises
        ------
        InputError
            If its documents do not go with those before, or have no text that can be kept.
        """
        state = self.working.state
        working = self.working
        task = prepared.task
        state.text = state.text or prepared.text
        add_notes(working.notes, prepared.rejects.notes)
        working.totals.update(prepared.totals)
        if prepared.totals["documents"]:
            if state.width not in (None, prepared.width):
                raise InputError(
                    f"{task.name}: {payload_of(prepared.width)}, where those before are "
                    f"{payload_of(state.width)}; ingest them into another store"
                )
            state.width = prepared.width
            state.integer_ids = state.integer_ids is not False and prepared.integer_ids
            if self.options.keep_text and not prepared.text and not self.options.append:
                raise InputError(
                    f"{task.name}: holds counts, no text that could be kept; leave out --keep-text"
                )
        assert prepared.documents is not None
        documents = self._limit_texts(prepared.documents)
        working.add(documents, prepared.rejects.lines(task.name, task.key))
        state.weighted = state.weighted or prepared.weighted
        state.pubmed = state.pubmed or task.reader.name == "pubmed"
        state.columns |= prepared.columns
        if task.key != self._last_name:
            state.sources.append(task.key)
            state.before = (state.pieces, state.crc)
            self._last_name = task.key
        state.pieces += 1
        state.crc = extend_crc(state.crc, prepared.crc)
        state.consumed = task.consumed
        self.progress.step("reading", task.consumed, task.total, "B", working.totals["documents"])

    def _limit_texts(self, documents: CountedDocuments) -> CountedDocuments:
        """Drop the texts of documents once all are too long to be kept by default."""
        if documents.texts is None or self.options.keep_text is not None:
            return documents
        state = self.working.state
        state.text_bytes += pc.sum(pc.binary_length(documents.texts)).as_py() or 0
        return documents if keeps_texts(None, state.text_bytes) else documents._replace(texts=None)

    def _commit_if_due(self, seconds: float) -> None:
        """Commit after some time or input, and after a signal, whose error is raised then."""
        if self.stop.signum:
            self._commit(seconds, done=False)
            raise self.stop.error(self.stop.signum)
        bytes_read = self.working.state.consumed - self._last_bytes
        is_late = time.monotonic() - self._last_commit >= self.options.checkpoint_seconds
        if is_late or bytes_read >= self.options.checkpoint_bytes:
            self._commit(seconds, done=False)

    def _commit(self, seconds: float, *, done: bool, durable: bool = True) -> None:
        """Commit the parts and the state (``WorkingFolder.commit``)."""
        self.working.commit(seconds, done=done, durable=durable)
        self._last_commit = time.monotonic()
        self._last_bytes = self.working.state.consumed
