"""The pieces of work that an ingest is made of: every input, cut by its reader, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingest.inputs import survey
from topicstream.ingest.reader import Piece, Reader, ReadOptions, Run
from topicstream.ingest.rejects import BadFile, Reject, Rejects
from topicstream.ingest.source import Source
from topicstream.tokens.documents import CountRun, Provenance, TextRun


@dataclass(frozen=True)
class Task:
    """One piece with all that is needed to parse it in another thread.

    number    position in the sequence of all pieces, from 0
    name      the source, as in messages
    consumed  bytes on disk read up to the end of this piece, over all inputs
    total     bytes on disk of all inputs, None with standard input
    words     the vocabulary of a bag-of-words source (the same array object for all its pieces), else None
    """

    number: int
    reader: Reader
    name: str
    piece: Piece
    options: ReadOptions
    consumed: int
    total: int | None
    words: pa.LargeStringArray | None = None
    error: InputError | None = None

    def run(self) -> tuple[Run, Rejects]:
        """Parse the piece.  Raises InputError, also the one met while this piece was being cut."""
        if self.error is not None:
            raise self.error
        if self.piece.data is None:
            run, rejects = empty_run(self.reader.kind), Rejects()
        else:
            run, rejects = self.reader.parse(self.piece, self.options)
        rejects.records[:0] = self.piece.rejects
        if len({r.file for r in rejects.records}) == 1:  # what a reader looks at twice it reports behind the rest
            rejects.records.sort(key=lambda r: r.line)
        if self.options.stop and rejects.records:
            raise rejects.records[0].error()
        return run, rejects


def empty_run(kind: str) -> Run:
    """A run of no documents."""
    about = Provenance(ids=pa.array([], pa.large_string()), source=pa.array([], pa.large_string()))
    if kind == "text":
        return TextRun(about, np.empty(0, np.uint8), np.zeros(1, np.int64))
    return CountRun(about, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


def pieces(paths: Any, options: ReadOptions) -> Iterator[Task]:
    """All the work of an ingest, in input order.

    paths: files, folders (read in sorted order, hidden files left out) and ``-`` for standard input.  Errors of
    cutting are delivered by the task at their place, so that the first bad record is the same for any number of
    workers.  Raises InputError at once for inputs that do not exist or whose format cannot be told.
    """
    inputs = survey(paths, options)
    number, before = 0, 0

    def task(reader: Reader, name: str, piece: Piece, used: int, **more: Any) -> Task:
        nonlocal number
        number += 1
        return Task(number - 1, reader, name, piece, options, before + used, inputs.total, **more)

    for reader, source in inputs.sources():
        with source:
            words = None
            try:
                if reader.kind == "counts":
                    words = source.words = reader.words(source, options)  # type: ignore[attr-defined]
                for piece in reader.split(source, options):
                    yield task(reader, source.name, piece, source.consumed(), words=words)
                if source.damage is not None:
                    yield task(reader, source.name, _complaint(source, source.damage), source.consumed(), words=words)
            except BadFile as e:
                last = _complaint(source, e.reject)
                stops = e if options.stop else None
                yield task(reader, source.name, last, source.size or 0, words=words, error=stops)
            except InputError as e:
                yield task(reader, source.name, _complaint(source, None), source.size or 0, error=e)
            before += source.size or source.consumed()


def _complaint(source: Source, reject: Reject | None) -> Piece:
    return Piece(source.name, source.key, None, rejects=(reject,) if reject else ())


def parse_all(paths: Any, options: ReadOptions) -> Iterator[tuple[Run, Rejects]]:
    """The runs of all pieces in order, on the calling thread."""
    for task in pieces(paths, options):
        yield task.run()
