"""An input, open for reading as UTF-8 bytes.

It is a file or standard input, compressed or not, in any encoding.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.files.plain import MOST_LISTED, read_list
from topicstream.base.line_ends import end_lines_alike, has_returns_alone, with_line_feeds
from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.ingestion.parse.columns import clean
from topicstream.ingestion.parse.rejects import (
    LEFT_OUT,
    SHOWN_BYTES,
    BadFile,
    Reject,
    Rejects,
    add_notes,
)

try:  # the extra ``gzip``: inflates three times as fast as zlib
    from isal import igzip as gzip
    from isal import isal_zlib as inflate
except ImportError:
    import gzip  # type: ignore[no-redef]
    import zlib as inflate  # type: ignore[no-redef]

MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
SUFFIXES = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".lzma": "xz", ".zst": "zst", ".tgz": "gz"}
DAMAGE: Any = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, inflate.error)
BOMS = (  # UTF-32 first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ARROW_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
READ_BYTES = 1 << 16
"""Bytes that are read at once."""
MOST_BYTES_LOST = 4 * READ_BYTES
"""Inflated bytes that a stream may hold when it meets damage."""
HEAD_BYTES = 64 << 10


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Replace bytes that cannot be decoded by a lone surrogate, which becomes byte 0xFF.

    The record then fails the UTF-8 check of its reader, which knows the line.
    """
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


MARK_UNDECODABLE = "topicstream-mark"
codecs.register_error(MARK_UNDECODABLE, _mark_undecodable)


def printable(name: str) -> str:
    """Write bytes of a file name that are no UTF-8 as ``\\xNN``, so that it can be stored."""
    return os.fsencode(name).decode("utf-8", "backslashreplace") if not name.isascii() else name


def plain_suffix(name: str) -> str:
    """Return the last suffix of a file name before that of the compression, in lower case.

    >>> plain_suffix("A.JSONL.gz")
    '.jsonl'
    """
    stem, suffix = os.path.splitext(os.path.basename(name.lower()))
    if suffix == ".tgz":
        return ".tar"
    return os.path.splitext(stem)[1] if suffix in SUFFIXES else suffix


def open_source(path: Path | None) -> io.BufferedReader:
    """Open the stored bytes of a file, an object at an address, or (None) standard input.

    Raises
    ------
    InputError
        If the file cannot be opened.
    """
    if path is None:
        return sys.stdin.buffer  # type: ignore[return-value]
    try:
        return places().open(path)  # type: ignore[return-value]
    except OSError as e:
        raise InputError(
            f"{path}: cannot be read ({e.strerror}); check the path and its permissions"
        ) from None


def decompressed(raw: Any, kind: str) -> Any:
    """Return a stream of the inflated bytes of ``raw``.

    Several compressed members are read one after the other.
    """
    if kind == "zst":
        return io.BufferedReader(
            pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"), READ_BYTES
        )
    if kind == "gz":
        return gzip.open(raw)  # type: ignore[no-untyped-call,unused-ignore]
    return bz2.BZ2File(raw) if kind == "bz2" else lzma.LZMAFile(raw)


def read_up_to_damage(raw: Any, kind: str, skip: int) -> bytes:
    """Read a damaged compressed file once more, byte by byte, up to its damage.

    A stream that inflates many bytes at once fails without returning the bytes before the damage,
    which are often whole members of an archive.

    Parameters
    ----------
    raw
        The stored bytes, from the beginning.
    kind
        A value of ``MAGIC``.
    skip
        Number of inflated bytes that were read before.

    Returns
    -------
    bytes
        The inflated bytes after those.
    """
    if kind not in ARROW_CODECS:
        return b""
    stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), ARROW_CODECS[kind])
    inflated = bytearray()
    try:
        while skip > 0:
            skip -= len(stream.read(min(skip, READ_BYTES)))
        while len(inflated) < MOST_BYTES_LOST and (byte := stream.read(1)):
            inflated += byte
    except DAMAGE:  # the end of what can be read
        pass
    return bytes(inflated)


class Input:
    """Origin of records for a reader, which reports to it the records that it cannot use.

    Attributes
    ----------
    name
        The path as the user gave it, for messages.
    key
        Beginning of ids and sources of documents: the path below the folder given, or the file's
        name.
    strict
        True if the first bad record is an error (``--on-error fail``).
    rejects
        Records left out and notes since the last piece.
    alone
        True if it is the only input, and no file of a folder, so that no other one has documents of
        the same names.
    words
        The vocabulary of a source of counts, set by its reader.
    path
        The file, or None.
    size
        Bytes on disk, or None if unknown.
    line
        First line of the piece that is being read, set by readers that split lines; damage is
        reported there.
    damage
        Why a truncated or corrupt archive ended early, or "".
    progress
        Bytes that were read otherwise than through this object.
    """

    def __init__(
        self, name: str, key: str, *, strict: bool = True, path: Path | None = None
    ) -> None:
        self.name = printable(name)
        self.key = printable(key)
        self.strict = strict
        self.path = path
        self.rejects = Rejects()
        self.alone = True
        self.words: pa.LargeStringArray = pa.array([], pa.large_string())
        self.size: int | None = None
        self.line = 0
        self.damage = ""
        self.progress: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if one is open."""

    def consumed(self) -> int:
        """Return the stored bytes that were read so far."""
        return self.progress or 0

    def reject(
        self, line: int, reason: str, start: bytes = b"", *, file: str | None = None
    ) -> None:
        """Leave out one record.

        Parameters
        ----------
        line
            Its line, or 0 in a file without lines.
        reason
            Why it cannot be used.
        start
            Its first bytes.
        file
            The file in the message, if another than the source.

        Raises
        ------
        InputError
            If the source is strict.
        """
        record = Reject(file or self.name, line, reason, bytes(start[:SHOWN_BYTES]))
        if self.strict:
            raise record.error()
        self.rejects.records.append(record)

    def note(self, text: str, times: int = 1) -> None:
        """Count something odd that is no error, for the summary."""
        if times:
            self.rejects.notes[text] += times

    def leave_out(self, fields: Iterable[str]) -> None:
        """Note fields of the input that no option asks for."""
        names = {compose_text(clean(name)) for name in fields}
        add_notes(self.rejects.notes, {LEFT_OUT + name: 1 for name in names})

    def take_rejects(self) -> Rejects:
        """Return the rejects so far, and begin to collect new ones."""
        rejects = self.rejects
        self.rejects = Rejects()
        return rejects


class Source(Input):
    """A file, or standard input (``path`` None), as UTF-8 bytes without a byte order mark.

    A byte that the encoding cannot decode is read as 0xFF. Carriage returns that end lines alone
    are read as line feeds.

    Attributes
    ----------
    eager
        True if ``read`` returns the bytes that have arrived, without waiting for more.
    """

    def __init__(
        self,
        name: str,
        path: Path | None,
        *,
        key: str = "",
        encoding: str | None = None,
        strict: bool = True,
    ) -> None:
        super().__init__(name, key or (path.name if path else "stdin"), strict=strict, path=path)
        self.encoding = encoding
        self.eager = False
        self._raw: Any = None
        self._stream: Any = None
        self._kind: str | None = None  # kind of compression; "": none; None: not known yet
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ahead = b""
        self._returns_alone = False
        self._ended = False
        self._inflated = 0
        try:
            self.size = places().size(path) if path else None
        except OSError as e:
            raise InputError(f"{name}: cannot be read ({e.strerror}); check the path") from None

    def close(self) -> None:
        """Close the file, which the next ``read`` opens again.

        Standard input stays open.
        """
        if self._raw is not None and self.path is not None:
            self._raw.close()
            self._raw = self._stream = self._decoder = None

    def consumed(self) -> int:
        if self.progress is not None:
            return self.progress
        if self.path is None:
            return self._inflated
        return int(self._raw.tell()) if self._raw is not None else self.size or 0

    def _open(self) -> None:
        """Open the file and read its first bytes.

        Raises
        ------
        BadFile
            If it has the suffix of a compressed file, and is none.
        """
        raw = open_source(self.path)
        self._ended = False
        self._inflated = 0
        start = raw.peek(6)
        kind = next((k for m, k in MAGIC.items() if start.startswith(m)), None)
        suffix = self.path.suffix if self.path else ""
        expected = SUFFIXES.get(suffix.lower())
        if kind is None and start and expected is not None:
            raise BadFile(
                self.name, 0, f"is named {suffix} but is not {expected}-compressed; rename it"
            )
        self._raw = raw
        self._kind = kind or ""
        self._stream = raw if kind is None else decompressed(raw, kind)
        head = self._read_more()
        while len(head) < HEAD_BYTES and not self._ended and not self.eager:
            head += self._read_more()
        head, encoding = without_mark(head, self.encoding)
        if encoding is not None:
            self._decoder = codecs.getincrementaldecoder(encoding)(MARK_UNDECODABLE)
        self._returns_alone = False
        head = self._decode(head)
        self._returns_alone = has_returns_alone(head)
        self._ahead = with_line_feeds(head)

    def _read_more(self) -> bytes:
        """Read some bytes, inflated but not decoded.

        Compressed data end at their damage.
        """
        try:
            part: bytes = self._stream.read1(READ_BYTES)
            self._inflated += len(part)
            self._ended = not part
        except DAMAGE as e:
            part = self._last_bytes()
            self._inflated += len(part)
            self._ended = True
            why = str(e) or "it ends in the middle of the compressed data"
            self.damage = (
                f"the compressed file is damaged or truncated after {self._inflated:,} bytes of "
                f"text ({why}); get it again"
            )
        return part

    def _last_bytes(self) -> bytes:
        """Return the bytes before the damage that the stream has not returned."""
        if self.path is None or not self._kind:
            return b""
        with open_source(self.path) as raw:
            return read_up_to_damage(raw, self._kind, self._inflated)

    def _decode(self, data: bytes) -> bytes:
        """Decode bytes to UTF-8 with line feeds."""
        if self._decoder is not None:
            data = self._decoder.decode(data, self._ended).encode("utf-8", "surrogateescape")
        return data.replace(b"\r", b"\n") if self._returns_alone else data

    def head(self, n: int = HEAD_BYTES) -> bytes:
        """Return the first decoded bytes, which ``read`` will return again.

        They are at least min(n, 16 KiB) if there are so many.
        """
        if self._stream is None:
            self._open()
        return self._ahead[:n]

    def read(self, n: int) -> bytes:
        """Return n decoded bytes, fewer only at the end.

        Pieces are therefore the same on every run.

        Raises
        ------
        BadFile
            If compressed data are damaged and the source is strict, once all bytes before the
            damage are read.
        """
        parts = [self.head(n)]
        have = len(parts[0])
        self._ahead = self._ahead[n:]
        while have < n and not self._ended and not (self.eager and have):
            parts.append(self._decode(self._read_more()))
            have += len(parts[-1])
        if have > n:
            size = len(parts[-1]) - (have - n)
            self._ahead = parts[-1][size:]
            parts[-1] = parts[-1][:size]
        if not have and self.damage and self.strict:
            raise BadFile(self.name, 0, self.damage)
        return b"".join(parts)

    def as_bytes(self) -> Any:
        """Return this source as a file object of bytes that are not decoded.

        Call it before the first ``read``.
        """
        if self._stream is None:
            self.encoding = "utf-8"
        return self

    @property
    def compressed(self) -> bool:
        """Tell whether the source is compressed, by gzip or the like."""
        if self._kind is None:
            self.head(0)
        return bool(self._kind)


def without_mark(data: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    """Remove the byte order mark of a text, and find its encoding.

    Parameters
    ----------
    data
        The first bytes of the text.
    encoding
        ``--encoding``. A mark of another family of encodings is not removed.

    Returns
    -------
    data, encoding
        The bytes without the mark, and the encoding, or None if the text is UTF-8.
    """
    for mark, marked in BOMS:
        fits = encoding is None or _family(encoding) == marked[:6].rstrip("-")
        if fits and data.startswith(mark):
            data = data[len(mark) :]
            encoding = marked
            break
    name = codecs.lookup(encoding).name if encoding is not None else "utf-8"
    if name in ("utf-16", "utf-32"):
        name += "-le"  # no mark says otherwise, and Python's decoder of that name insists on one
    return data, None if name in ("utf-8", "ascii") else name


def _family(encoding: str) -> str:
    """Return ``utf-8``, ``utf-16`` or ``utf-32`` for an encoding of Unicode."""
    name = codecs.lookup(encoding).name.replace("_", "-")
    return name.removesuffix("-sig").removesuffix("-le").removesuffix("-be")


def to_utf8(data: bytes, encoding: str | None) -> bytes:
    """Decode a whole text to UTF-8 without its mark.

    Bytes that the encoding cannot decode become 0xFF.
    """
    data, name = without_mark(data, encoding)
    if name is None:
        return data
    return data.decode(name, MARK_UNDECODABLE).encode("utf-8", "surrogateescape")


def read_word_list(
    path: str | os.PathLike[str], encoding: str | None = None, most: int = MOST_LISTED
) -> bytes:
    """Read a list of words as UTF-8 text with line feeds.

    Parameters
    ----------
    path
        A file that a user names.
    encoding
        ``--encoding``. None: UTF-8, or as the file's byte order mark says.
    most
        Bytes that it may have.

    Raises
    ------
    OSError
        If it cannot be read, is not a regular file, or is larger.
    InputError
        If text does not have this encoding, with its line.
    """
    data = end_lines_alike(to_utf8(read_list(path, most), encoding))
    try:
        data.decode()
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        advice = (
            "UTF-8; give --encoding, such as cp1252, cp1251, cp932 or gb18030"
            if encoding is None
            else f"{encoding}; give another --encoding"
        )
        raise InputError(f"{path}:{line}: not valid {advice}") from None
    return data


def check_encoding(encoding: str | None) -> None:
    """Raise UsageError if Python knows no such text encoding."""
    try:
        if encoding is not None and not getattr(codecs.lookup(encoding), "_is_text_encoding", True):
            raise LookupError
    except LookupError:
        raise UsageError(
            f"--encoding {encoding}: not an encoding that Python knows; try utf-8 or latin-1"
        ) from None
