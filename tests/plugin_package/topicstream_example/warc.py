"""Web archives in WARC (ISO 28500:2017): a document a page, compressed or not; Common Crawl's WET
files too.

Pages are the records ``response`` (an HTTP message), ``resource`` and ``conversion`` whose content
is HTML or plain text; all others are passed over. Fields of a document: ``text``, ``status``, and
the named fields of its record (``WARC-Target-URI``, ...).
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from html.parser import HTMLParser
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import TEXT, as_documents, select_fields
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

FIELDS = (
    "text",
    "status",
    "WARC-Record-ID",
    "WARC-Target-URI",
    "WARC-Date",
    "WARC-Type",
    "WARC-IP-Address",
    "Content-Type",
)
LINE_BYTES = 1 << 16
HEAD_LINES = 1000
HTML = ("text/html", "application/xhtml+xml")


class Bytes(io.RawIOBase):
    """A source as a file of Python's."""

    def __init__(self, source: Source) -> None:
        self.source = source.as_bytes()

    def readable(self) -> bool:
        return True

    def readinto(self, room) -> int:
        data = self.source.read(len(room))
        room[: len(data)] = data
        return len(data)


class Record(NamedTuple):
    """number: from 1; block: None where it is longer than a record may be."""

    number: int
    head: Message
    block: bytes | None


def records(source: Source, longest: int) -> Iterator[Record]:
    """The records of a source: version, named fields, an empty line, a block of the length that
    they say, two empty lines.
    """
    file = io.BufferedReader(Bytes(source), LINE_BYTES)
    number = 0
    while line := file.readline(LINE_BYTES):
        if not line.strip():
            continue
        number += 1
        if not line.startswith(b"WARC/"):
            raise BadFile(
                source.name,
                0,
                f"record {number} does not begin with WARC/; the file is damaged, get it again",
            )
        lines = []
        while (line := file.readline(LINE_BYTES)).strip() and len(lines) < HEAD_LINES:
            lines.append(line)
        head = BytesParser().parsebytes(b"".join(lines), headersonly=True)
        length = head.get("Content-Length", "")
        if line and not length.isdecimal():
            raise BadFile(
                source.name,
                0,
                f"record {number} has no Content-Length; the file is damaged, get it again",
            )
        size = left = int(length) if line else 1
        block = file.read(size) if size <= longest else None
        while block is None and left and (part := file.read(min(left, longest))):
            left -= len(part)
        if left if block is None else len(block) < size:
            if source.damage:
                return
            raise BadFile(source.name, 0, f"ends in the middle of record {number}; get it again")
        yield Record(number, head, block)


class Connection:
    """An HTTP message that has been received already."""

    def __init__(self, message: bytes) -> None:
        self.message = message

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.message)


class Text(HTMLParser):
    """The text of a page, without its scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style")
        self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style") and self.hidden > 0
        self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def page(record: Record) -> tuple[str, str] | None:
    """Status and text of a record; None where it is no page.

    HTTPException, ValueError, zlib.error: it is broken.
    """
    kind = record.head.get("WARC-Type")
    head = record.head
    body = record.block or b""
    status = ""
    if kind == "response" and head.get_content_type() == "application/http":
        message = HTTPResponse(Connection(body))  # knows chunks
        message.begin()
        head = message.headers
        body = message.read()
        status = str(message.status)
        if head.get("Content-Encoding", "identity") in ("gzip", "x-gzip"):
            body = zlib.decompress(body, 47)
    elif kind not in ("resource", "conversion"):
        return None
    if (content := head.get_content_type()) not in (*HTML, "text/plain"):
        return None
    try:
        text = body.decode(head.get_content_charset() or "utf-8", "replace")
    except LookupError:  # a charset that Python does not know
        text = body.decode("utf-8", "replace")
    if content in HTML:
        parser = Text()
        parser.feed(text)
        text = " ".join("".join(parser.parts).split())
    return status, text


def pages(source: Source, options: ReadOptions) -> Iterator[tuple[int, dict[str, str]]]:
    """Give the number and the fields of each page; what is no page is noted or rejected."""
    for record in records(source, options.record_bytes):
        where = f"{source.name}#{record.number}"
        if record.block is None:
            megabytes = options.record_bytes >> 20
            source.reject(0, f"a record of more than {megabytes} MiB; raise the limit", file=where)
            continue
        try:
            status_and_text = page(record)
        except (HTTPException, ValueError, zlib.error) as e:
            reason = f"no HTTP message ({type(e).__name__}: {e})"
            source.reject(0, reason, record.block, file=where)
            continue
        if status_and_text is None:
            source.note("records that are no page")
            continue
        status, text = status_and_text
        if status not in ("", "200"):
            source.note("pages of another status than 200")
            continue
        fields = {name: record.head[name] for name in FIELDS if name in record.head}
        if status:
            fields["status"] = status
        yield record.number, {**fields, "text": text}


class Warc(Reader):
    name = "warc"
    about = "web archives, a document a page"
    suffixes = (".warc", ".wet")

    def resembles(self, head: bytes) -> bool:
        return head.startswith(b"WARC/")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        wanted = select_fields(FIELDS, options, source)
        rows = []
        size = 0
        error = None
        try:
            for number, fields in pages(source, options):
                rows.append((number, [fields.get(name) for name in wanted]))
                size += len(fields["text"])
                if size >= options.piece_bytes:
                    yield batch(source, options, wanted, rows)
                    rows = []
                    size = 0
        except BadFile as e:
            error = e
        yield batch(source, options, wanted, rows)  # the whole pages before a damage count
        if error is not None and (source.strict or not source.damage):
            raise error


def batch(source: Source, options: ReadOptions, names: list[str], rows: list) -> pa.RecordBatch:
    """Pages as documents."""
    columns = {
        name: pa.array([values[i] for _, values in rows], TEXT) for i, name in enumerate(names)
    }
    return as_documents(
        source, options, columns, np.array([number for number, _ in rows], np.int64), mark="#"
    )


WARC = Warc()
