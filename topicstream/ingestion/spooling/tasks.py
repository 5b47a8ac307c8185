"""The pieces of work that an ingest is made of: every input, cut by its reader, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingestion.opening.inputs import survey_inputs
from topicstream.ingestion.opening.names import partitions
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.columns import LISTS, column
from topicstream.ingestion.parsing.reader import Piece, Reader, Run
from topicstream.ingestion.parsing.rejects import BadFile, Reject, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.parts import in_parts
from topicstream.tokens.documents import CountRun, Provenance, TextRun


@dataclass(frozen=True)
class Task:
    """One piece with all that is needed to parse it in another thread.

    number    position in the sequence of all pieces, from 0
    name      the source, as in messages
    key       the source, as it is stored: without the place of the input that was given
    consumed  bytes on disk read up to the end of this piece, over all inputs
    total     bytes on disk of all inputs, None with standard input
    words     the vocabulary of a bag-of-words source (the same array object for all its pieces), else None
    path_fields  columns whose value stands in the path (``date=2020-01/``), which the reader is not asked for
    meta      all columns asked for, in their order
    """

    number: int
    reader: Reader
    name: str
    key: str
    piece: Piece
    options: ReadOptions
    consumed: int
    total: int | None
    words: pa.LargeStringArray | None = None
    error: InputError | None = None
    path_fields: Mapping[str, str | None] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> tuple[Run, Rejects]:
        """Parse the piece.  Raises InputError, also the one met while this piece was being cut."""
        if self.error is not None:
            raise self.error
        if self.piece.data is None:
            run, rejects = empty_run(self.reader.kind), Rejects()
        else:
            run, rejects = self.reader.parse(self.piece, self.options)
            if self.reader.name == "lines" and self.options.format is None and self.name != "-":
                rejects.notes["lines, each a document (--format files makes each file one)"] += len(run)
            if self.path_fields:
                run = with_fields(run, self.path_fields, self.meta)
            if self.options.split is not None:
                run = in_parts(run, self.options, rejects.notes)
        rejects.records[:0] = self.piece.rejects
        rejects.notes.update(self.piece.notes)
        if len({r.file for r in rejects.records}) == 1:  # what a reader looks at twice it reports behind the rest
            rejects.records.sort(key=lambda r: r.line)
        if self.options.strict and rejects.records:
            raise rejects.records[0].error()
        return run, rejects


def with_fields(run: Run, values: Mapping[str, str | None], order: Mapping[str, str]) -> Run:
    """The run with a column of one value for each of ``values``, columns in the order of ``order``."""
    found = dict(run.about.meta)
    for name, value in values.items():
        found[name] = column(name, [([value] if value else []) if name in LISTS else value] * len(run))
    meta = {name: found[name] for name in order if name in found}
    return replace(run, about=replace(run.about, meta=meta))


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
    if hasattr(paths, "tasks"):  # documents in memory (memory.py)
        yield from paths.tasks(options)
        return
    inputs = survey_inputs(paths, options)
    number, before = 0, 0

    def task(reader: Reader, source: Source, piece: Piece, used: int, **more: Any) -> Task:
        nonlocal number
        number += 1
        if source.notes:
            piece, source.notes = replace(piece, notes=dict(source.notes)), Counter()
        more |= {"path_fields": own, "meta": options.meta}
        return Task(number - 1, reader, source.name, source.key, piece, asked, before + used, inputs.total, **more)

    for reader, source in inputs.sources():
        there = partitions(source.name) if source.path is not None and options.meta else {}
        own = {col: there[name] for col, name in options.meta.items() if name in there}
        asked = replace(options, meta={c: n for c, n in options.meta.items() if c not in own}) if own else options
        with source:
            words = None
            try:
                if reader.kind == "counts":
                    words = source.words = reader.words(source, asked)  # type: ignore[attr-defined]
                for piece in reader.split(source, asked):
                    yield task(reader, source, piece, source.consumed(), words=words)
                if source.damage is not None:
                    yield task(reader, source, _complaint(source, source.damage), source.consumed(), words=words)
            except BadFile as e:
                last = _complaint(source, e.reject)
                stops = e if options.strict else None
                yield task(reader, source, last, source.size or 0, words=words, error=stops)
            except InputError as e:
                yield task(reader, source, _complaint(source, None), source.size or 0, error=e)
            before += source.size or source.consumed()


def _complaint(source: Source, reject: Reject | None) -> Piece:
    return Piece(source.name, source.key, None, rejects=(reject,) if reject else ())


def parse_all(paths: Any, options: ReadOptions) -> Iterator[tuple[Run, Rejects]]:
    """The runs of all pieces in order, on the calling thread."""
    for task in pieces(paths, options):
        yield task.run()
