"""Let the workers of a cluster read files: each counts some of them into a part file.

Part files are appended to the spools in order.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from topicstream.base.cluster import Cluster
from topicstream.base.errors import UsageError
from topicstream.base.files import ownership as owned
from topicstream.base.places import places
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.open.inputs import Places, TreeSource, survey_inputs
from topicstream.ingestion.open.memory import InMemory
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parts.prepare import Prepared, batch_crc, prepared_pieces
from topicstream.ingestion.parts.tasks import pieces_of
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.ingestion.tokens.tokenizer import Tokenizer
from topicstream.ingestion.tokens.tools import asked_tools

PART_BYTES = 256 << 20
"""Of input files of a task, about, at most: some seconds of work."""


class SourceSpan(NamedTuple):
    """Consecutive inputs that a task reads: readers and sources, and the bytes of all before."""

    sources: list[tuple[Reader, Source]]
    before: int


class Piece(NamedTuple):
    """A batch that was read: its checksum and, unless it was spooled before, what it gave and the
    lengths of its frames.
    """

    crc: int
    made: Prepared | None = None
    lengths: tuple[int, ...] = ()


class Spread:
    """The reading of an ingest by the workers of a cluster, of which each takes so many threads."""

    def __init__(self, cluster: Cluster, threads: int) -> None:
        self.cluster = cluster
        self.threads = threads

    def pieces(
        self,
        paths: Places | InMemory,
        options: IngestConfig,
        recipe: Recipe,
        spooled: list[str],
        begin: str,
    ) -> Generator[Piece, None, None]:
        """All pieces in input order, from the source ``begin`` on; ``spooled``: keys of the sources
        that are in the spools already.

        Raises
        ------
        UsageError
            For documents that only this process has.
        """
        named = (
            [paths]
            if isinstance(paths, str | os.PathLike)
            else []
            if isinstance(paths, InMemory)
            else list(paths)
        )
        if isinstance(paths, InMemory) or "-" in named:
            raise UsageError(
                "--scheduler: workers read files and folders; save the documents to a file first"
            )
        words = options.words if options.words is None else os.path.abspath(options.words)
        options = replace(
            options, documents=(), words=words, scheduler=None, progress=None, stop=None
        )
        inputs = survey_inputs(named, options)
        assert options.scratch is not None
        with owned.scratch(options.scratch, "parts") as folder:
            worker_options = replace(options, scratch=folder.absolute())
            read = partial(
                _read,
                options=worker_options,
                recipe=recipe,
                total=inputs.total,
                threads=self.threads,
                spooled=frozenset(spooled),
            )
            sources = [(reader, _absolute(source)) for reader, source in inputs.sources()]
            first = next((i for i, (_, source) in enumerate(sources) if source.key == begin), 0)
            sizes = [source.size or 0 for _, source in sources]
            spans = self.cluster.task_ranges(sizes[first:], PART_BYTES)
            shares = (
                SourceSpan(sources[first + a : first + b], sum(sizes[: first + a]))
                for a, b in spans
            )
            for part, made in self.cluster.map(read, shares):
                with open(part, "rb") as file:
                    for piece in made:
                        frames = tuple(map(file.read, piece.lengths))
                        yield (
                            piece
                            if piece.made is None
                            else piece._replace(made=replace(piece.made, frames=frames))
                        )
                owned.remove_file(part)


def _absolute(source: Source) -> Source:
    """A source that other machines find."""
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
    spooled: frozenset[str],
) -> tuple[Path, list[Piece]]:
    """Read and count some inputs into a part file in the scratch folder, on a worker."""
    assert options.scratch is not None
    part = options.scratch / uuid4().hex
    read_pieces = list[Piece]()
    tasks = pieces_of(share.sources, options, total, share.before)
    tokenizer = Tokenizer(recipe, asked=asked_tools(options))
    with open(part, "wb") as file:
        for task in tasks:
            if task.key not in spooled:
                tasks = chain([task], tasks)
                break
            read_pieces.append(Piece(batch_crc(task.batch)))
        for made in prepared_pieces(tasks, tokenizer, threads, options.piece_bytes):
            file.writelines(made.frames)
            kept = replace(made, task=replace(made.task, words=None), frames=())
            read_pieces.append(Piece(made.crc, kept, tuple(map(len, made.frames))))
    return part, read_pieces
