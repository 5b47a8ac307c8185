"""The base class of readers.

Ours are in ``readers/``, registered in ``plugins.OWN`` as those of other packages are.

A reader turns one source into record batches of documents (parse/documents.py), in one thread;
batches are counted in a pool. They are a function of the source and the options alone, so
documents come out the same for any number of workers and on a resume.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pyarrow as pa

from topicstream.base import plugins
from topicstream.ingestion.options import ReadOptions


class Reader:
    """Format of raw input.

    Derive from it, and name an instance in an entry point ``topicstream.readers``.

    Attributes
    ----------
    name
        What ``--format`` takes.
    kind
        ``text``, or ``counts`` of a vocabulary of the source's own.
    about
        What the format is, in a few words.
    suffixes
        Names of files of this format end so (".warc").
    signature
        What content of this format begins with, whatever the file's name.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["text", "counts"]] = "text"
    about: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    signature: ClassVar[re.Pattern[bytes] | None] = None

    def resembles(self, head: bytes) -> bool:
        """Tell whether text of a file whose name says nothing looks like this format."""
        return False

    def batches(self, source: Any, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a source, about ``options.piece_bytes`` at a time.

        Parameters
        ----------
        source
            A ``Source``: ``read``, ``reject`` for records that cannot be used, ``note`` for what
            is odd. A reader of counts sets its ``words``, in the order of their numbers, before
            the first batch.
        options
            What the user said about the input.

        Raises
        ------
        BadFile
            Where the rest of the source cannot be read.
        """
        raise NotImplementedError


def readers() -> dict[str, Reader]:
    """Return all readers by name.

    Ours cannot be replaced.
    """
    return dict(plugins.loaded(plugins.READERS))


def reader_named(name: str) -> Reader:
    """Import the reader of a format, and no other.

    Raises UsageError where there is none.
    """
    reader: Reader = plugins.find(plugins.READERS, name, "--format")
    return reader
