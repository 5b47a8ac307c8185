"""The pieces of an ingest: batches of documents of every input, in order."""

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
from topicstream.ingestion.parts.split import DOCUMENT, PARTS_BEFORE, cut_documents
from topicstream.ingestion.tokens.normal import compose_column, compose_strings

WORK_BYTES = 9
"""Bytes that a byte of a batch takes until it is in a part file: text, cells, copies, and pieces
that wait in queues.
"""
OPENED_AHEAD = 24
"""Objects at addresses that are fetched before their turn."""
OPENED_BYTES = 1 << 20
"""Bytes of an object that are fetched before its turn."""
DOUBLED = "words listed more than once, counted as one"


@dataclass(frozen=True)
class Task:
    """Batch of documents with all that is needed to count it in another thread.

    Attributes
    ----------
    reader
        The reader that made it.
    name, key
        The source, as messages name it, and as it is stored.
    batch
        The documents.
    rejects
        Records left out since the batch before.
    options
        Options on raw input.
    consumed
        Bytes on disk of all inputs that were read up to the end of this piece.
    total
        Bytes on disk of all inputs, or None with standard input.
    words
        The vocabulary of a bag-of-words source (the same object for all its batches), or None.
    path_fields
        Values by column of fields in the path (``date=2020-01/``), which the reader does not read.
    doubled
        True if a word is more than once in ``words``: its columns are added up.
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
        """Return the documents, and the ids of withdrawn ones.

        Documents get the fields of their path, and are cut into parts if the options say so. The
        letters of ids and metadata are composed (NFC).
        """
        batch = self.batch
        withdrawn = self.batch.column(0)[:0]
        if self.path_fields:
            batch = with_fields(batch, self.path_fields, self.options.meta)
        if PARTS_BEFORE not in batch.schema.names:
            batch = strip_documents(batch, self.rejects.notes, strip=self.options.strip_gutenberg)
        if self.options.split is not None:
            batch = cut_documents(batch, self.options, self.rejects.notes)
        else:
            batch = with_whole_spans(batch, self.options.list_separator)
        batch = with_composed_fields(batch)
        batch = with_missing_values(batch, self.options.na)
        if batch.column(2).null_count:
            withdrawn = batch.column(0).filter(batch.column(2).is_null())
            batch = batch.filter(batch.column(2).is_valid())
        return batch, withdrawn


def with_composed_fields(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Compose the letters of ids and metadata, but not of sources, which name files."""
    first = batch.num_columns - len(metadata_of(batch))
    for place in (0, *range(first, batch.num_columns)):
        column = batch.column(place)
        composed = compose_column(column)
        if composed is not column:
            batch = batch.set_column(place, batch.schema.names[place], composed)
    return batch


def with_missing_values(batch: pa.RecordBatch, missing: Sequence[str]) -> pa.RecordBatch:
    """Make values of the metadata null that stand for a missing one (``--na``)."""
    for place in range(batch.num_columns - len(metadata_of(batch)), batch.num_columns):
        name = batch.schema.names[place]
        column = without_missing(batch.column(place), missing)
        if column is not batch.column(place) and name != DOCUMENT:
            batch = batch.set_column(place, name, column)
    return batch


def with_fields(
    batch: pa.RecordBatch, values: Mapping[str, str | None], order: Mapping[str, str]
) -> pa.RecordBatch:
    """Add columns with the same value for all documents of a batch.

    Parameters
    ----------
    batch
        The documents.
    values
        The value of each column.
    order
        Names of metadata in the order in which they are returned.
    """
    first = batch.num_columns - len(metadata_of(batch))
    for name, value in values.items():
        if name in LISTS:
            column = pa.array([[value] if value else []] * len(batch), LIST)
        else:
            column = pa.array([value] * len(batch), TEXT)
        batch = batch.append_column(name, column)
    places = {name: first + i for i, name in enumerate(batch.schema.names[first:])}
    ordered = [places[name] for name in order if name in places]
    further = [place for name, place in places.items() if name not in order]
    return batch.select([*range(first), *ordered, *further])


def pieces(
    paths: Places | InMemory, options: ReadOptions, *, eager: bool = False, begin: str = ""
) -> Iterator[Task]:
    """Yield the pieces of all inputs, in order.

    Parameters
    ----------
    paths
        Files, folders (read in sorted order, hidden files left out) and ``-`` for standard input;
        or ``InMemory``.
    options
        Options on raw input.
    eager
        Yield the bytes of standard input that have arrived as a piece, without waiting for more.
    begin
        Key of the source to begin with: those before it are not opened.

    Raises
    ------
    InputError
        At once, if an input does not exist or its format cannot be told; at the first bad record,
        unless such records are left out.
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
    """Yield the pieces of some sources.

    Parameters
    ----------
    sources
        Readers and sources.
    options, begin
        As of ``pieces``.
    total
        Bytes of all sources of the ingest.
    before
        Bytes of the sources before these.
    """
    for reader, source in _opened_ahead(sources, begin):
        if begin not in ("", source.key):
            before += source.size or 0
            continue
        begin = ""
        path_fields = _path_fields(source, options)
        read_options = options
        if path_fields:
            from_file = {c: n for c, n in options.meta.items() if c not in path_fields}
            read_options = replace(options, meta=from_file)
        raw_words = words = None
        doubled = False
        with source:
            for batch in _batches(reader, source, read_options):
                if not isinstance(source, Source):
                    source.progress = (source.progress or 0) + batch.nbytes
                consumed = before + source.consumed()
                rejects = source.take_rejects()
                if reader.kind == "counts" and source.words is not raw_words:
                    raw_words = source.words
                    words = None if raw_words is None else compose_strings(raw_words)
                    distinct = 0 if words is None else pc.count_distinct(words).as_py()
                    doubled = words is not None and distinct < len(words)
                    if words is not None and doubled:
                        rejects.notes[DOUBLED] += len(words) - distinct
                yield Task(
                    reader=reader,
                    name=source.name,
                    key=source.key,
                    batch=batch,
                    rejects=rejects,
                    options=options,
                    consumed=consumed,
                    total=total,
                    words=words,
                    path_fields=path_fields,
                    doubled=doubled,
                )
            before += source.size or source.consumed()


def _path_fields(source: Input, options: ReadOptions) -> dict[str, str | None]:
    """Return the values of metadata in the path of a source, by column.

    Fields that no option asks for are noted for a file at an address; for folders of this machine
    the survey has noted them.
    """
    if source.path is None:
        return {}
    in_path = partitions(source.name)
    names = {column: compose_text(name) for column, name in options.meta.items()}
    if not places().on_this_machine(source.path):
        for name in set(in_path) - set(names.values()):
            source.note(IN_PATH.format(name))
    return {column: in_path[name] for column, name in names.items() if name in in_path}


def _opened_ahead(
    sources: Iterable[tuple[Reader, Input]], begin: str
) -> Iterator[tuple[Reader, Input]]:
    """Yield sources while later ones are fetched, if they are objects at addresses.

    Parameters
    ----------
    sources
        Readers and sources.
    begin
        Key of the source to begin with; those before it are not fetched.
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
    """Yield the batches that a reader makes of a source.

    An empty batch follows if there are rejects or notes behind the last one.
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
