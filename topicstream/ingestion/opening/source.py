"""One input, open for reading as UTF-8 bytes: a file or standard input, compressed or not, in any encoding."""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

try:  # the extra ``gzip``: inflates three times as fast as zlib, the same bytes
    from isal import isal_zlib as inflate

    INFLATE_ERROR: Any = inflate.error
except ImportError:
    inflate, INFLATE_ERROR = zlib, zlib.error  # type: ignore[misc]

from topicstream.errors import InputError, UsageError
from topicstream.ingestion.parsing.rejects import BadFile, Reject

MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
XZ_BYTES = 128 << 20  # what unpacking xz may take; the strongest preset takes 65 MB
SUFFIXES = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".lzma": "xz", ".zst": "zst", ".tgz": "gz"}
BOMS = (  # UTF-32 first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
PIPE = "unpack it with its own program: zstd -dc --long=31 FILE | topics ingest -, or xz -dc"
READ_BYTES = 1 << 20
HEAD_BYTES = 64 << 10


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    # A lone surrogate that surrogateescape writes as byte 0xFF: the record it stands in then fails the UTF-8 check of
    # the reader, which knows its line.
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


codecs.register_error("topicstream-mark", _mark_undecodable)


def printable(name: str) -> str:
    """A file name as text: bytes that are no UTF-8 as ``\\xNN``, so that ids and sources can be stored."""
    return os.fsencode(name).decode("utf-8", "backslashreplace") if not name.isascii() else name


def plain_suffix(name: str) -> str:
    """The last suffix of a file name under the compression's, lower case: ``a.jsonl.gz`` -> ``.jsonl``."""
    stem, suffix = os.path.splitext(os.path.basename(name.lower()))
    if suffix == ".tgz":
        return ".tar"
    return os.path.splitext(stem)[1] if suffix in SUFFIXES else suffix


class _Inflated:
    """Decompresses gz, bz2 and xz, several members one after the other, with bounded output per call."""

    def __init__(self, raw: BinaryIO, kind: str) -> None:
        self.raw, self.kind = raw, kind
        self.decoder: Any = self._new()
        self.waiting = b""
        self.fed = False

    def _new(self) -> Any:
        if self.kind == "gz":
            return inflate.decompressobj(wbits=31)
        return bz2.BZ2Decompressor() if self.kind == "bz2" else lzma.LZMADecompressor(memlimit=XZ_BYTES)

    def read(self, n: int) -> bytes:
        """Up to n bytes; b"" at the end.  EOFError when the stream is cut short, OSError-like when damaged."""
        while True:
            if self.decoder.eof:
                self.waiting = self.decoder.unused_data
                if not self.waiting.strip(b"\0"):  # padding with zeros is allowed between and after members
                    self.waiting = self.raw.read(READ_BYTES)
                    if not self.waiting.strip(b"\0"):
                        if self.waiting:
                            continue
                        return b""
                self.waiting = self.waiting.lstrip(b"\0")
                self.decoder, self.fed = self._new(), False
            if not self.waiting and (self.kind == "gz" or self.decoder.needs_input):
                self.waiting = self.raw.read(READ_BYTES)
                if not self.waiting:
                    if not self.fed and self.kind == "gz":
                        return b""
                    raise EOFError
            feed, self.waiting = self.waiting, b""
            self.fed = True
            out = self.decoder.decompress(feed, n)
            if self.kind == "gz":
                self.waiting = self.decoder.unconsumed_tail
            if out:
                return bytes(out)


class Source:
    """One input.  Reading yields UTF-8 bytes without a mark; bytes that the encoding cannot decode come out as 0xFF.

    name      the path as the user gave it, for messages and the ``source`` column
    key       the name that document ids start with: relative to the folder given, else the file's own
    path      None for standard input
    size      bytes on disk, None where unknown
    damage    set when reading ended early under ``keep_going`` (a truncated or corrupt archive)
    line      where the piece being read begins, counted by the readers that split lines; damage is listed there
    progress  set by readers that do not read through this object: bytes done
    words     the vocabulary of a bag-of-words source, once read
    notes     what is told of the source (text -> how many), with its first piece
    """

    def __init__(
        self,
        name: str,
        path: Path | None,
        *,
        key: str = "",
        encoding: str | None = None,
        keep_going: bool = False,
    ) -> None:
        self.name, self.path, self.encoding, self.keep_going = printable(name), path, encoding, keep_going
        self.key = printable(key or (path.name if path else "stdin"))
        self.damage: Reject | None = None
        self.line = 0
        self.progress: int | None = None
        self.words: pa.LargeStringArray | None = None
        self.notes: Counter[str] = Counter()
        self._raw: BinaryIO | None = None
        self._stream: Any = None
        self._decoder: codecs.IncrementalDecoder | None = None
        self._ahead = b""
        self._ended = False
        self._inflated = 0
        try:
            self.size = path.stat().st_size if path else None
        except OSError as e:
            raise InputError(f"{name}: cannot be read ({e.strerror}); check the path") from None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not None and self.path is not None:
            self._raw.close()
        self._raw = self._stream = None

    def consumed(self) -> int:
        """Bytes of the file on disk read so far."""
        if self.progress is not None:
            return self.progress
        if self._raw is None:
            return self.size or 0
        try:
            return self._raw.tell()
        except (OSError, ValueError):
            return 0

    def _open(self) -> None:
        try:
            raw: Any = open(self.path, "rb", buffering=0) if self.path else sys.stdin.buffer  # noqa: SIM115
        except OSError as e:
            raise InputError(
                f"{self.name}: cannot be read ({e.strerror}); check the path and its permissions"
            ) from None
        start = b""
        while len(start) < 6 and (more := raw.read(6 - len(start))):
            start += more
        kind = next((k for m, k in MAGIC.items() if start.startswith(m)), None)
        if kind is None and start and self.path and (named := SUFFIXES.get(self.path.suffix.lower())):
            raise BadFile(self.name, 0, f"is named {self.path.suffix} but is not {named}-compressed; rename it")
        if self.path:
            raw.seek(0)
        else:
            raw = _Pushed(start, raw)
        self._raw = raw
        if kind is None:
            self._stream = raw
        elif kind == "zst":
            self._stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
        else:
            self._stream = _Inflated(raw, kind)
        head = self._fill(HEAD_BYTES)
        encoding = self.encoding
        for mark, marked in BOMS:
            if head.startswith(mark) and (encoding is None or _same_family(encoding, marked)):
                head, encoding = head[len(mark) :], marked
                break
        if encoding and codecs.lookup(encoding).name in ("utf-16", "utf-32"):
            encoding += "-le"  # no mark says otherwise, and Python's decoder of that name insists on one
        if encoding and codecs.lookup(encoding).name not in ("utf-8", "ascii"):
            self._decoder = codecs.getincrementaldecoder(encoding)("topicstream-mark")
        self._ahead = self._decode(head, self._ended)

    def _fill(self, n: int) -> bytes:
        """n stored bytes, fewer only at the end."""
        parts, have = [], 0
        while have < n and not self._ended:
            try:
                part = self._stream.read(n - have)
            except (EOFError, OSError, zlib.error, INFLATE_ERROR, lzma.LZMAError, ValueError) as e:
                part, why = b"", str(e) or "it ends in the middle of the compressed data"
                inflated = self._inflated + have
                reason = f"the compressed file is damaged or truncated somewhere behind {inflated:,} bytes of text ({why}); get it again"
                if "emory" in why:  # of a later part of the file, or of zstd --long
                    reason = f"unpacking it behind {inflated:,} bytes of text takes too much memory ({why}); {PIPE}"
                if not self.keep_going:
                    raise BadFile(self.name, 0, reason) from None
                self.damage = Reject(self.name, self.line, reason, b"")
            if not part:
                self._ended = True
            parts.append(part)
            have += len(part)
        self._inflated += have
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _decode(self, data: bytes, final: bool) -> bytes:
        if self._decoder is None:
            return data
        return self._decoder.decode(data, final).encode("utf-8", "surrogateescape")

    def head(self, n: int = HEAD_BYTES) -> bytes:
        """The first decoded bytes, which ``read`` will return again: at least min(n, 16 KiB) of them if there are."""
        if self._stream is None:
            self._open()
        return self._ahead[:n]

    def declare(self, encoding: str) -> None:
        """Use the encoding that the content itself declares (an XML declaration), before the first ``read``."""
        if self.encoding is None and self._decoder is None and codecs.lookup(encoding).name not in ("utf-8", "ascii"):
            self._decoder = codecs.getincrementaldecoder(encoding)("topicstream-mark")
            self._ahead = self._decode(self._ahead, self._ended)

    def read(self, n: int) -> bytes:
        """Exactly n bytes where the encoding is UTF-8, about n else; b"" only at the end.  The amounts depend on the
        content alone, so pieces are the same on every run."""
        if self._stream is None:
            self._open()
        if self._decoder is None:
            first, self._ahead = self._ahead[:n], self._ahead[n:]
            if len(first) == n or self._ended:
                return first
            rest = self._fill(n - len(first))
            return first + rest if first else rest
        parts, have = [self._ahead], len(self._ahead)
        self._ahead = b""
        while have < n and not self._ended:
            stored = self._fill(READ_BYTES)
            part = self._decode(stored, self._ended)
            parts.append(part)
            have += len(part)
        whole = b"".join(parts)
        self._ahead = whole[n:]
        return whole[:n]

    def read_into(self, buffer: bytearray, at: int) -> int:
        """Fill ``buffer`` from ``at`` to its end as ``read`` would; how many bytes.  A plain file is read in place.  The
        buffer keeps its size unless an encoding yields more than was asked for."""
        if self._stream is None:
            self._open()
        if self._decoder is not None or not isinstance(self._stream, io.FileIO):
            data = self.read(len(buffer) - at)
            buffer[at : at + len(data)] = data
            return len(data)
        first = len(self._ahead[: len(buffer) - at])
        buffer[at : at + first], self._ahead = self._ahead[:first], self._ahead[first:]
        start, at = at, at + first
        with memoryview(buffer) as view:
            while at < len(view) and not self._ended:
                try:
                    n = self._stream.readinto(view[at:])
                except OSError as e:
                    raise InputError(f"{self.name}: cannot be read ({e.strerror}); check the disk") from None
                self._ended = not n
                at += n or 0
        return at - start

    def stored_stream(self) -> BinaryIO:
        """The decompressed bytes as a file object that cannot seek (for archives); no decoding."""
        if self._stream is None:
            self.encoding = "utf-8"
            self._open()
        return io.BufferedReader(_AsRaw(self), READ_BYTES)


class _AsRaw(io.RawIOBase):
    def __init__(self, source: Source) -> None:
        self.source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self.source.read(len(buffer))
        buffer[: len(got)] = got
        return len(got)


class _Pushed(io.RawIOBase):
    """Standard input with its first bytes put back."""

    def __init__(self, start: bytes, raw: Any) -> None:
        self.start, self.raw, self.done = start, raw, 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.done

    def read(self, n: int = -1) -> bytes:
        if self.start:
            out, self.start = self.start[:n], self.start[n:]
        else:
            out = self.raw.read1(n) if hasattr(self.raw, "read1") else self.raw.read(n)
        self.done += len(out)
        return out


def _same_family(encoding: str, marked: str) -> bool:
    return codecs.lookup(encoding).name.replace("_", "-").rsplit("-le")[0].rsplit("-be")[0].startswith(marked[:6])


def to_utf8(data: bytes, encoding: str | None) -> bytes:
    """A whole text as UTF-8 without its mark; bytes that the encoding cannot decode become 0xFF."""
    for mark, marked in BOMS:
        if data.startswith(mark) and (encoding is None or _same_family(encoding, marked)):
            data, encoding = data[len(mark) :], marked
            break
    if encoding is None or codecs.lookup(encoding).name in ("utf-8", "ascii"):
        return data
    return data.decode(encoding, "topicstream-mark").encode("utf-8", "surrogateescape")


def check_encoding(encoding: str | None) -> None:
    """InputError when Python knows no such text encoding."""
    if encoding is None:
        return
    try:
        known = codecs.lookup(encoding)
        if not getattr(known, "_is_text_encoding", True):
            raise LookupError
    except LookupError:
        raise UsageError(f"--encoding {encoding}: not an encoding that Python knows; try utf-8 or latin-1") from None
