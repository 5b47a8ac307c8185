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
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingest.rejects import Reject, Rejects
from topicstream.ingest.source import Source
from topicstream.tokens.documents import CountRun, TextRun

Run = TextRun | CountRun


@dataclass(frozen=True)
class ReadOptions:
    """What the user said about the input.

    format          a reader's name; None guesses from name and content
    text_field      the field(s) that hold the text, several separated by commas and joined by a line break
    id_field        None: ``id`` where there is one, else ``file:line``; given: every record must have it
    meta            column <- field.  ``authors``, ``labels``, ``links`` become lists of strings, others strings
    encoding        None: UTF-8, or what the byte order mark says
    on_error        ``fail`` stops at the first bad record, ``skip`` sets it aside
    vocab           the words of a bag-of-words file, one a line; None looks beside the file
    delimiter       of CSV; None: comma, or tab for .tsv, or what the header shows
    list_separator  between the authors (labels, links) in one field of a format without lists
    weighted        accept weights that are no counts (svmlight); cells become float32
    first_id        the number of the first word in svmlight and LDA-C files; None: the format's own (1 and 0)
    record_bytes    the longest record accepted
    piece_bytes     the size of a piece before parsing
    """

    format: str | None = None
    text_field: str = "text"
    id_field: str | None = None
    meta: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None
    on_error: Literal["fail", "skip"] = "fail"
    vocab: str | Path | None = None
    delimiter: str | None = None
    list_separator: str = ";"
    weighted: bool = False
    first_id: int | None = None
    record_bytes: int = 64 << 20
    piece_bytes: int = 8 << 20

    @property
    def stop(self) -> bool:
        """True under ``--on-error fail``."""
        return self.on_error == "fail"

    @property
    def text_fields(self) -> list[str]:
        """The names of the text fields, in the order in which they are joined."""
        return [name.strip() for name in self.text_field.split(",")]


@dataclass(frozen=True)
class Piece:
    """Some whole records of one source.

    data     what the reader cut (bytes for most)
    line     1-based line number of the first byte
    record   0-based number of the first record within the source
    about    what the reader learnt at the start of the source (a header), shared by its pieces
    rejects  records that could not even be cut out (too long, or behind the damage of an archive)
    """

    name: str
    key: str
    data: Any
    line: int = 1
    record: int = 0
    about: Any = None
    rejects: tuple[Reject, ...] = ()


class Reader(Protocol):
    """One format."""

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
    """The names of the readers: those of the modules in the folder ``readers``."""
    from topicstream.ingest import readers as folder

    return sorted(m.name for m in pkgutil.iter_modules(folder.__path__))


def readers() -> dict[str, Reader]:
    """All readers by name."""
    return {name: reader_named(name) for name in formats()}


@cache
def reader_named(name: str) -> Reader:
    """The reader of a format, the only one that is imported; InputError that lists the formats when there is none."""
    if name not in formats():
        raise InputError(f"--format {name}: no such format; choose one of {', '.join(formats())}")
    reader: Reader = importlib.import_module(f"topicstream.ingest.readers.{name}").READER
    return reader
