"""Reading of files by the workers of a cluster.

Each counts some files into part files of its own, which are added to the parts of the ingest in
order.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa

from topicstream.base.cluster import Cluster
from topicstream.base.errors import UsageError
from topicstream.base.files import ownership as owned
from topicstream.base.places import places
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.open.inputs import Places, TreeSource, survey_inputs
from topicstream.ingestion.open.memory import InMemory
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.parse.documents import TEXT
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parts.part_files import (
    ALL,
    CountedDocuments,
    PartWriter,
    PieceRows,
    read_part,
    read_words,
)
from topicstream.ingestion.parts.prepare import Prepared, batch_crc, prepared_pieces
from topicstream.ingestion.parts.tasks import pieces_of
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import named_tools

PART_BYTES = 256 << 20
"""Approximate limit of the input of a task: some seconds of work."""
WORDS_BYTES = 64 << 20
"""Memory that the words of a part may take in a worker."""


class SourceSpan(NamedTuple):
    """Consecutive inputs that a task reads.

    Attributes
    ----------
    sources
        Their readers and sources.
    before
        Bytes of all inputs before them.
    """

    sources: list[tuple[Reader, Source]]
    before: int


class Piece(NamedTuple):
    """A batch that was read.

    Attributes
    ----------
    crc
        Its checksum.
    prepared
        The result of counting it; None: it was committed before.
    part
        Number of the worker's part file with its documents; None: it has no documents.
    """

    crc: int
    prepared: Prepared | None = None
    part: int | None = None


WorkerPart = tuple[Path, Path]
"""A part file that a worker wrote, and the file of its words."""


class Spread:
    """Reading by the workers of a cluster, each with so many threads."""

    def __init__(self, cluster: Cluster, threads: int) -> None:
        self.cluster = cluster
        self.threads = threads

    def pieces(
        self,
        paths: Places | InMemory,
        options: IngestConfig,
        recipe: Recipe,
        committed: list[str],
        begin: str,
    ) -> Generator[Piece, None, None]:
        """Yield all pieces in input order.

        Parameters
        ----------
        paths
            The inputs.
        options
            The options.
        recipe
            Recipe of the tokenizer.
        committed
            Keys of the sources that are in parts already.
        begin
            Key of the source to begin with; "": the first.

        Raises
        ------
        UsageError
            If only this process has the documents.
        """
        names: list[str | os.PathLike[str]] = []
        if isinstance(paths, str | os.PathLike):
            names = [paths]
        elif not isinstance(paths, InMemory):
            names = list(paths)
        if isinstance(paths, InMemory) or "-" in names:
            raise UsageError(
                "--scheduler: workers read files and folders; save the documents to a file first"
            )
        words = options.words if options.words is None else os.path.abspath(options.words)
        options = replace(
            options, documents=(), words=words, scheduler=None, progress=None, stop=None
        )
        inputs = survey_inputs(names, options)
        assert options.scratch is not None
        with owned.scratch(options.scratch, "parts") as folder:
            worker_options = replace(options, scratch=folder.absolute())
            read = partial(
                _read,
                options=worker_options,
                recipe=recipe,
                total=inputs.total,
                threads=self.threads,
                committed=frozenset(committed),
            )
            sources = [(reader, _absolute(source)) for reader, source in inputs.sources()]
            first = next((i for i, (_, source) in enumerate(sources) if source.key == begin), 0)
            sizes = [source.size or 0 for _, source in sources]
            spans = self.cluster.task_ranges(sizes[first:], PART_BYTES)
            shares = (
                SourceSpan(sources[first + a : first + b], sum(sizes[: first + a]))
                for a, b in spans
            )
            for parts, read_pieces in self.cluster.map(read, shares):
                yield from _with_documents(parts, read_pieces)
                for path in chain.from_iterable(parts):
                    owned.remove_file(path)


def _with_documents(parts: list[WorkerPart], pieces: list[Piece]) -> Iterator[Piece]:
    """Add to the pieces of a task the documents that a worker wrote to its parts."""
    opened = -1
    rows: Iterator[PieceRows] = iter(())
    words = pa.array([], TEXT)
    for piece in pieces:
        if piece.prepared is None or piece.part is None:
            yield piece
            continue
        if piece.part != opened:
            opened = piece.part
            rows = read_part(parts[opened][0], ALL)
            words = read_words(parts[opened][1])
        piece_rows = next(rows)
        documents = CountedDocuments(
            piece_rows.metadata,
            piece_rows.withdrawn["id"],
            words,
            piece_rows.cells,
            piece_rows.texts,
        )
        yield piece._replace(prepared=replace(piece.prepared, documents=documents))


def _absolute(source: Source) -> Source:
    """Make the path of a source absolute, so that other processes find it."""
    if source.path is not None and places().on_this_machine(source.path):
        source.path = source.path.absolute()
        if isinstance(source, TreeSource):
            source.tree.root = source.path
    return source


def _read(
    share: SourceSpan,
    options: IngestConfig,
    recipe: Recipe,
    total: int | None,
    threads: int,
    committed: frozenset[str],
) -> tuple[list[WorkerPart], list[Piece]]:
    """Read and count some inputs into part files in the scratch folder, on a worker."""
    assert options.scratch is not None
    writers: list[PartWriter] = []
    read_pieces = list[Piece]()
    tasks = pieces_of(share.sources, options, total, share.before)
    tokenizer = Tokenizer(recipe, named_tools(options))
    for task in tasks:
        if task.key not in committed:
            tasks = chain([task], tasks)
            break
        read_pieces.append(Piece(batch_crc(task.batch)))
    prepared_in_order = prepared_pieces(
        tasks, tokenizer, threads, options.piece_bytes, keep_text=bool(options.keep_text)
    )
    for prepared in prepared_in_order:
        documents = prepared.documents
        assert documents is not None
        part = None
        if len(documents.metadata) or len(documents.withdrawn):
            if not writers or not writers[-1].accepts(documents):
                if writers:
                    writers[-1].finish()
                paths = [options.scratch / uuid4().hex for _ in range(2)]
                writers.append(PartWriter(paths[0], paths[1], WORDS_BYTES, apart=True))
            writers[-1].add(documents)
            part = len(writers) - 1
        slim = replace(prepared, task=replace(prepared.task, words=None), documents=None)
        read_pieces.append(Piece(prepared.crc, slim, part))
    if writers:
        writers[-1].finish()
    return [writer.paths for writer in writers], read_pieces
