"""The protocol of the readers and the registry of them.

A reader is one file in ``readers/`` with an object ``READER``; its name is what ``--format`` takes.  ``split`` runs in
one thread and only cuts; ``parse`` runs in a pool and does the work.  The sequence of pieces is a function of the
inputs and the options alone, so the documents come out the same for any number of workers and on a resume.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Protocol

import pyarrow as pa

from topicstream import plugins
from topicstream.errors import UsageError
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing.rejects import Reject, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import CountRun, TextRun

Run = TextRun | CountRun


@dataclass(frozen=True)
class Piece:
    """Some whole records of one source.

    data     what the reader cut (bytes for most)
    line     1-based line number of the first byte
    record   0-based number of the first record within the source
    about    what the reader learnt at the start of the source (a header), shared by its pieces
    rejects  records that could not even be cut out (too long, or behind the damage of an archive)
    decoded  bytes of the text where that is known and ``data`` does not show it
    notes    what is told of the source, with its first piece
    """

    name: str
    key: str
    data: Any
    line: int = 1
    record: int = 0
    about: Any = None
    rejects: tuple[Reject, ...] = ()
    decoded: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the text as far as they are known before it is parsed."""
        if isinstance(self.data, (bytes, bytearray)):
            return max(len(self.data), self.decoded)
        return self.decoded


class Reader(Protocol):
    """One format.  That of another package may have ``suffixes``, by which its files are known (".warc",)."""

    name: str
    kind: Literal["text", "counts"]
    about: str

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        """Cut the source into pieces of whole records, about ``piece_bytes`` each.  Raises BadFile."""
        ...

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[Run, Rejects]:
        """The documents of one piece.  Pure and thread-safe; InputError at a bad record under ``fail``."""
        ...


class CountReader(Reader, Protocol):
    """A bag-of-words format; its word ids are positions in ``words``."""

    def words(self, source: Source, options: ReadOptions) -> pa.LargeStringArray:
        """The vocabulary of one source, in id order."""
        ...


@cache
def formats() -> list[str]:
    """The names of our readers: those of the modules in the folder ``readers``."""
    from topicstream.ingestion import readers as folder

    return sorted(m.name for m in pkgutil.iter_modules(folder.__path__))


def readers() -> dict[str, Reader]:
    """All readers by name."""
    ours = {name: reader_named(name) for name in formats()}
    return {**dict(plugins.loaded(plugins.READERS)), **ours}


@cache
def reader_named(name: str) -> Reader:
    """The reader of a format, the only one that is imported; InputError that lists the formats when there is none."""
    if name not in formats():
        others = plugins.entries(plugins.READERS)
        if name not in others:
            raise UsageError(f"--format {name}: no such format; choose one of {', '.join([*formats(), *others])}")
        found: Reader = plugins.load(plugins.READERS, name)
        return found
    reader: Reader = importlib.import_module(f"topicstream.ingestion.readers.{name}").READER
    return reader
