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
        Name of the format for ``--format``.
    kind
        ``text``, or ``counts`` over a vocabulary that the source brings.
    about
        Description of the format in a few words.
    suffixes
        Endings of the names of such files, as ``.warc``.
    signature
        Pattern of the first bytes of such files, whatever their name.
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
            A ``Source``, with ``read`` for its bytes, ``reject`` for records that cannot be used,
            and ``note`` for oddities. A reader of counts sets its ``words``, in the order of
            their numbers, before the first batch.
        options
            Options of the input, such as the names of its fields.

        Raises
        ------
        BadFile
            If the rest of the source cannot be read.
        """
        raise NotImplementedError


def readers() -> dict[str, Reader]:
    """Return all readers by name.

    A package cannot replace a built-in reader.
    """
    return dict(plugins.loaded(plugins.READERS))


def reader_named(name: str) -> Reader:
    """Import the reader of a format, and no other.

    Raises
    ------
    UsageError
        If no reader has the name.
    """
    reader: Reader = plugins.find(plugins.READERS, name, "--format")
    return reader
