"""The pieces of work that an ingest is made of: every input, read by its reader, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.ingestion.open.inputs import Places, survey_inputs
from topicstream.ingestion.open.memory import InMemory
from topicstream.ingestion.open.names import IN_PATH, partitions
from topicstream.ingestion.open.source import Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, without_missing
from topicstream.ingestion.parse.documents import LIST, TEXT, empty_batch, metadata_of
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile, Rejects
from topicstream.ingestion.parse.spans import with_whole_spans
from topicstream.ingestion.parts.gutenberg import strip_documents
from topicstream.ingestion.parts.split import DOCUMENT, PARTS_BEFORE, in_parts
from topicstream.ingestion.tokens.normal import compose_column, compose_strings

WORK_BYTES = 9
"""Bytes that a byte of a batch takes until it is spooled: text, cells, frames, and what waits in
the queues.
"""


OPENED_AHEAD = 24
OPENED_BYTES = 1 << 20
"""Objects at addresses that are read before their turn, and the bytes of each."""
DOUBLED = "words listed more than once, counted as one"


@dataclass(frozen=True)
class Task:
    """Batch of documents with all that is needed to count it in another thread.

    Attributes
    ----------
    reader
        Who made it.
    name, key
        The source, as in messages and as it is stored: without the place of the input that was
        given.
    batch
        The documents.
    rejects
        Records left out since the batch before.
    options
        How documents are cut into parts.
    consumed
        Bytes on disk read up to the end of this piece, over all inputs; ``total``: of all, None
        with standard input.
    words
        The vocabulary of a bag-of-words source (the same array object for all its batches), else
        None.
    path_fields
        Columns whose value stands in the path (``date=2020-01/``), which the reader is not asked
        for.
    doubled
        Whether a word stands in ``words`` more than once: its columns are one.
    """

    reader: Reader
    name: str
    key: str
    batch: pa.RecordBatch
    rejects: Rejects
    options: ReadOptions
    consumed: int = 0
    total: int | None = None
    words: pa.LargeStringArray | None = None
    path_fields: Mapping[str, str | None] = field(default_factory=dict)
    doubled: bool = False

    def run(self) -> tuple[pa.RecordBatch, pa.Array]:
        """Return the documents, and the ids of those that are withdrawn.

        Documents have the fields of their path, and are cut into parts where the options say so.

        The letters of ids and metadata are composed (NFC).
        """
        batch = self.batch
        gone = self.batch.column(0)[:0]
        if self.path_fields:
            batch = with_fields(batch, self.path_fields, self.options.meta)
        if PARTS_BEFORE not in batch.schema.names:
            batch = strip_documents(batch, self.rejects.notes, asked=self.options.strip_gutenberg)
        if self.options.split is not None:
            batch = in_parts(batch, self.options, self.rejects.notes)
        else:
            batch = with_whole_spans(batch, self.options.list_separator)
        batch = with_composed_fields(batch)
        batch = with_missing_values(batch, self.options.na)
        if batch.column(2).null_count:
            gone = batch.column(0).filter(batch.column(2).is_null())
            batch = batch.filter(batch.column(2).is_valid())
        return batch, gone


def with_composed_fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Compose the letters of ids and metadata.

    Sources stay, as they name files.
    """
    first = batch.num_columns - len(metadata_of(batch))
    for place in (0, *range(first, batch.num_columns)):
        column = batch.column(place)
        composed = compose_column(column)
        if composed is not column:
            batch = batch.set_column(place, batch.schema.names[place], composed)
    return batch


def with_missing_values(batch: pa.RecordBatch, missing: Sequence[str]) -> pa.RecordBatch:
    """Take values of the metadata that say that there is none (``--na``) for none."""
    for place in range(batch.num_columns - len(metadata_of(batch)), batch.num_columns):
        name = batch.schema.names[place]
        column = without_missing(batch.column(place), missing)
        if column is not batch.column(place) and name != DOCUMENT:
            batch = batch.set_column(place, name, column)
    return batch


def with_fields(
    batch: pa.RecordBatch, values: Mapping[str, str | None], order: Mapping[str, str]
) -> pa.RecordBatch:
    """Add a column of one value to documents for each of ``values``.

    Metadata come in the order of ``order``.
    """
    first = batch.num_columns - len(metadata_of(batch))
    for name, value in values.items():
        one, kind = ([value] if value else [], LIST) if name in LISTS else (value, TEXT)
        batch = batch.append_column(name, pa.array([one] * len(batch), kind))
    places = {name: first + i for i, name in enumerate(batch.schema.names[first:])}
    ordered = [places[name] for name in order if name in places]
    further = [place for name, place in places.items() if name not in order]
    return batch.select([*range(first), *ordered, *further])


def pieces(
    paths: Places | InMemory, options: ReadOptions, *, eager: bool = False, begin: str = ""
) -> Iterator[Task]:
    """All the work of an ingest, in input order.

    Parameters
    ----------
    paths
        Files, folders (read in sorted order, hidden files left out) and ``-`` for standard input;
        or ``InMemory``.
    eager
        Of standard input, a piece is what is there.
    begin
        Key of the source to begin with: those before it are not opened.

    Raises
    ------
    InputError
        At once for inputs that do not exist or whose format cannot be told, at the place of the
        first bad record where it is not left out.
    """
    if isinstance(paths, InMemory):
        yield from pieces_of(paths.sources(options), options)
    else:
        inputs = survey_inputs(paths, options, eager=eager)
        yield from pieces_of(inputs.sources(), options, inputs.total, begin=begin)


def pieces_of(
    sources: Iterable[tuple[Reader, Input]],
    options: ReadOptions,
    total: int | None = None,
    before: int = 0,
    begin: str = "",
) -> Iterator[Task]:
    """Yield all the work of some sources.

    before: bytes of the sources before these, total: of all; begin: as ``pieces`` has it.
    """
    for reader, source in _opened_ahead(sources, begin):
        if begin not in ("", source.key):
            before += source.size or 0
            continue
        begin = ""
        in_path = partitions(source.name) if source.path is not None else {}
        # of a folder of this machine the survey says so
        if source.path is not None and not places().on_this_machine(source.path):
            for name in set(in_path) - {*map(compose_text, options.meta.values())}:
                source.note(IN_PATH.format(name))
        asked = {column: compose_text(name) for column, name in options.meta.items()}
        own = {column: in_path[name] for column, name in asked.items() if name in in_path}
        own_options = (
            replace(options, meta={c: n for c, n in options.meta.items() if c not in own})
            if own
            else options
        )
        raw_words = words = None
        doubled = False
        with source:
            for batch in _batches(reader, source, own_options):
                if not isinstance(source, Source):
                    source.progress = (source.progress or 0) + batch.nbytes
                used = before + source.consumed()
                rejects = source.taken()
                if reader.kind == "counts" and source.words is not raw_words:
                    raw_words = source.words
                    words = None if raw_words is None else compose_strings(raw_words)
                    distinct = 0 if words is None else pc.count_distinct(words).as_py()
                    doubled = words is not None and distinct < len(words)
                    if words is not None and doubled:
                        rejects.notes[DOUBLED] += len(words) - distinct
                yield Task(
                    reader,
                    source.name,
                    source.key,
                    batch,
                    rejects,
                    options,
                    used,
                    total,
                    words,
                    own,
                    doubled,
                )
            before += source.size or source.consumed()


def _opened_ahead(
    sources: Iterable[tuple[Reader, Input]], begin: str
) -> Iterator[tuple[Reader, Input]]:
    """Yield sources while those behind them are opened, where each takes a request.

    begin: key of the source to begin with; those before it are not opened.
    """
    waiting = deque[tuple[Reader, Input]]()
    for reader, source in sources:
        waiting.append((reader, source))
        begin = "" if source.key == begin else begin
        path = source.path
        if path is None or places().on_this_machine(path):
            yield from waiting
            waiting.clear()
        elif not begin:
            places().open_ahead(path, OPENED_BYTES)
        if len(waiting) > OPENED_AHEAD:
            yield waiting.popleft()
    yield from waiting


def _batches(reader: Reader, source: Input, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield what a reader makes of a source.

    An empty batch ends it where there are rejects or notes behind the last one.
    """
    try:
        for batch in reader.batches(source, options):
            if options.room is not None and batch.nbytes > 2 * options.piece_bytes:
                options.room.check(WORK_BYTES * batch.nbytes, f"a document of {source.name}")
            yield batch
        if source.damage:
            raise BadFile(source.name, source.line, source.damage)
    except BadFile as e:
        if source.strict:
            raise
        source.rejects.records.append(e.reject)
    if source.rejects.records or source.rejects.notes:
        yield empty_batch(reader.kind)
