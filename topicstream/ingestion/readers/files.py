"""Text files, one document each, of a folder tree or a tar archive.

The id is the path below the folder, or the name of the member.
"""

from __future__ import annotations

import codecs
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, NamedTuple, Self

import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.ingestion.open.inputs import TreeSource
from topicstream.ingestion.open.names import CELLS, FEATURES, MATRIX, partitions
from topicstream.ingestion.open.source import (
    MAGIC,
    MARK_UNDECODABLE,
    SUFFIXES,
    Input,
    Source,
    printable,
    to_utf8,
    without_mark,
)
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS
from topicstream.ingestion.parse.documents import LIST, NOTE, TEXT, batch_of, western, why_not_utf8
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.parts.gutenberg import NAMED, strip_boilerplate
from topicstream.ingestion.parts.split import PARTS_BEFORE
from topicstream.ingestion.parts.streaming import TooLong, stream_parts

MOST_FILES = 2048
"""Files of one piece."""
SMALL_BYTES = 1 << 20
"""Files up to this size are read at once."""


class Files(Reader):
    """Reader of text files, a document a file."""

    name = "files"
    about = "text files, one document a file (a folder tree)"

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        if source.path is None:
            raise InputError("standard input cannot be read as files; give --format lines")
        files = (
            source.files() if isinstance(source, TreeSource) else [(str(source.path), source.key)]
        )
        yield from document_batches(source, options, _contents(source, options, files))


class LongText(NamedTuple):
    """A text that is longer than a document may be, which ``--split`` cuts as it is read.

    Attributes
    ----------
    opened
        Context of the reader of its decoded bytes, to be entered once.
    """

    opened: AbstractContextManager[Source | MemberText]


class MemberText:
    """A member of an archive, read from the stream.

    Parameters
    ----------
    head
        First bytes of the member, which were read before.
    stream
        Stream of the other bytes.
    size
        Number of bytes of the member.
    encoding
        Encoding as ``--encoding`` names it.
    name
        Name of the member, for messages.
    """

    def __init__(
        self, head: bytes, stream: IO[bytes], size: int, encoding: str | None, name: str
    ) -> None:
        text, codec = without_mark(head, encoding)
        decoder = None if codec is None else codecs.getincrementaldecoder(codec)(MARK_UNDECODABLE)
        self._decoder = decoder
        self._stream = stream
        self._missing = size - len(head)
        self._name = name
        self._ahead = self._decode(text)

    def _decode(self, data: bytes) -> bytes:
        """Recode bytes of the member as UTF-8."""
        if self._decoder is None:
            return data
        text = self._decoder.decode(data, final=not self._missing)
        return text.encode("utf-8", "surrogateescape")

    def read(self, n: int) -> bytes:
        """Return n decoded bytes, fewer only at the end."""
        text = self.peek(n)
        self._ahead = self._ahead[n:]
        return text

    def peek(self, n: int) -> bytes:
        """Return the next n decoded bytes, which stay to be read."""
        parts = [self._ahead]
        decoded_bytes = len(self._ahead)
        while decoded_bytes < n and self._missing:
            data = self._stream.read(min(self._missing, n))
            if not data:
                raise BadFile(self._name, 0, "the archive ends within it; get it again")
            self._missing -= len(data)
            parts.append(self._decode(data))
            decoded_bytes += len(parts[-1])
        self._ahead = b"".join(parts)
        return self._ahead[:n]


def _contents(
    source: Source, options: ReadOptions, files: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str, bytes | LongText]]:
    for path, key in files:
        try:
            content: bytes | LongText = _content(path, options)
            if len(content) > options.record_bytes and options.split is not None:
                content = LongText(Source(path, Path(path), encoding=options.encoding))
            yield printable(path), printable(key), content
        except BadFile as e:
            source.reject(0, e.reject.reason, file=printable(path))
        except OSError as e:
            source.reject(0, f"cannot be read ({e.strerror})", file=printable(path))


def _content(path: str, options: ReadOptions) -> bytes:
    """Read a file as UTF-8, at most one byte more than a record may have."""
    if places().size(path) <= SMALL_BYTES:
        with places().open(path) as f:
            data = f.read(SMALL_BYTES + 1)
        packed_name = os.path.splitext(path)[1].lower() in SUFFIXES
        if len(data) <= SMALL_BYTES and not packed_name and not data.startswith(tuple(MAGIC)):
            return to_utf8(data, options.encoding)
    with Source(path, Path(path), encoding=options.encoding) as packed:
        return packed.read(options.record_bytes + 1)


def document_batches(
    source: Input,
    options: ReadOptions,
    contents: Iterable[tuple[str, str, bytes | LongText]],
    prefix: str = "",
) -> Iterator[pa.RecordBatch]:
    """Make documents of whole files.

    A file that is not UTF-8 is read as windows-1252 where it looks like that and the user names no
    encoding, else rejected with the line of the bad byte.

    Parameters
    ----------
    source, options
        Input that takes rejects and notes, and options of its reader.
    contents
        Name for messages, id and content of each file.
    prefix
        Text before the id in the column ``source``.
    """
    ids: list[str] = []
    texts: list[str] = []
    size = 0
    try:
        for name, key, content in contents:
            is_long = isinstance(content, LongText)
            full = size + len(content) > options.piece_bytes or len(ids) == MOST_FILES
            if ids and (full or is_long):
                yield _batch(ids, texts, prefix, options)
                ids = []
                texts = []
                size = 0
            if isinstance(content, LongText):
                yield from _long_batches(source, options, content, name, key, prefix)
                continue
            text = _text_of(source, options, name, content)
            if text is not None:
                ids.append(key)
                texts.append(text)
                size += len(content)
    except BadFile:  # whole files before the damage count
        if ids:
            yield _batch(ids, texts, prefix, options)
        raise
    if ids:
        yield _batch(ids, texts, prefix, options)


def _long_batches(
    source: Input, options: ReadOptions, text: LongText, name: str, key: str, prefix: str
) -> Iterator[pa.RecordBatch]:
    """Read a long text in pieces that end where a part ends."""

    def strip(piece: bytes) -> bytes:
        if not options.strip_gutenberg or NAMED.encode() not in piece:
            return piece
        text = piece.decode("utf-8", "surrogateescape")
        return strip_boilerplate(text).encode("utf-8", "surrogateescape")

    with text.opened as long:
        try:
            for before, piece in stream_parts(long.read, options, strip):
                decoded = _decode(source, options, name, piece)
                if decoded is None:
                    return
                batch = _batch([key], [decoded], prefix, options)
                yield batch.append_column(PARTS_BEFORE, pa.array([before], pa.int64()))
        except TooLong:
            limit = f"a part of more than {options.record_bytes >> 20} MiB"
            reason = f"{limit} that --split {options.split} does not cut; raise --max-document"
            source.reject(0, reason, file=name)


def _text_of(source: Input, options: ReadOptions, name: str, content: bytes) -> str | None:
    """Decode a file, None where it is rejected."""
    if len(content) > options.record_bytes:
        limit = f"a document of more than {options.record_bytes >> 20} MiB"
        advice = "--split cuts a file of any length, --max-document raises the limit"
        source.reject(0, f"{limit}; {advice}", content, file=name)
        return None
    return _decode(source, options, name, content)


def _decode(source: Input, options: ReadOptions, name: str, content: bytes) -> str | None:
    """Decode text, None where it is rejected."""
    try:
        return content.decode()
    except UnicodeDecodeError as e:
        guessed = western(content) if options.encoding is None else None
        if guessed is None:
            line = 1 + content.count(b"\n", 0, e.start)
            source.reject(line, why_not_utf8(content) or "", content, file=name)
            return None
        source.note(f"documents {NOTE}")
        return guessed.decode()


def _batch(ids: list[str], texts: list[str], prefix: str, options: ReadOptions) -> pa.RecordBatch:
    meta = {}
    if options.meta:  # a text file has no fields but those of its path
        fields = [partitions(key) for key in ids]
        for column, name in options.meta.items():
            values = [path.get(compose_text(name)) for path in fields]
            meta[column] = (
                pa.array([[v] if v else [] for v in values], LIST)
                if column in LISTS
                else pa.array(values, TEXT)
            )
    return batch_of(ids, [prefix + key for key in ids], {"text": pa.array(texts, TEXT)}, meta)


class Tar(Reader):
    """Tar archive, compressed or not.

    A document's id is the name of its member. Members are read from the stream and never written
    to disk; linked members, devices and hidden files are passed over.
    """

    name = "tar"
    about = "a tar archive of text files, one document a file"
    suffixes = (".tar",)
    signature = re.compile(rb"(?s).{257}ustar")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        plain = replace(options, meta={})
        yield from document_batches(source, plain, _members(source, options), source.key + "/")


class _Member(tarfile.TarInfo):
    """A member of an archive that ends with its mark (blocks of zeros), as a whole one does."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Read the next member.

        Raises
        ------
        tarfile.ReadError
            If the archive ends without its mark.
        """
        try:
            return super().fromtarfile(archive)
        except tarfile.EmptyHeaderError:  # type: ignore[attr-defined]
            raise tarfile.ReadError("it ends without its end mark") from None


def _members(source: Source, options: ReadOptions) -> Iterator[tuple[str, str, bytes | LongText]]:
    try:
        with tarfile.open(fileobj=source.as_bytes(), mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                name = printable(member.name.removeprefix("./"))
                parts = name.split("/")
                if not member.isfile() or any(p.startswith(".") and p != ".." for p in parts):
                    continue
                if name.removesuffix(".gz").endswith((*MATRIX, *CELLS, *FEATURES, ".h5", ".h5ad")):
                    raise BadFile(
                        source.name,
                        0,
                        f"holds a matrix ({name}); unpack it and give the folder of the matrix",
                    )
                full_name = f"{source.name}/{name}"
                if name.startswith("/") or ".." in parts:
                    source.reject(0, "a name that leads out of the archive", file=full_name)
                    continue
                content = archive.extractfile(member)
                data = content.read(options.record_bytes + 1) if content else b""
                if len(data) < min(member.size, options.record_bytes + 1):
                    raise tarfile.ReadError("unexpected end of data")
                stream = content or BytesIO()
                text = MemberText(data, stream, member.size, options.encoding, full_name)
                start = text.peek(options.record_bytes + 1)
                is_long = len(start) > options.record_bytes and options.split is not None
                yield full_name, name, LongText(nullcontext(text)) if is_long else start
    except (tarfile.TarError, EOFError) as e:
        raise BadFile(
            source.name, 0, f"the archive is damaged or truncated ({e}); get it again"
        ) from None


FILES = Files()
TAR = Tar()
