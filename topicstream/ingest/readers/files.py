"""A folder tree of text files: one document a file, its id the path below the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingest.columns import text_of
from topicstream.ingest.cut import not_utf8
from topicstream.ingest.inputs import TreeSource
from topicstream.ingest.reader import Piece, ReadOptions
from topicstream.ingest.rejects import BadFile, Rejects
from topicstream.ingest.source import MAGIC, SUFFIXES, Source, printable, to_utf8
from topicstream.tokens.documents import Provenance, TextRun

MOST_FILES = 2048
"""Files of one piece."""
SMALL_BYTES = 1 << 20
"""Files up to this size are read in one go."""


class Files:
    name = "files"
    kind = "text"
    about = "text files, one document a file (a folder tree)"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        if isinstance(source, TreeSource):
            files = source.files()
        else:
            files = iter([(str(source.path), source.key, source.size or 0)]) if source.path else iter([])
            if source.path is None:
                raise InputError("standard input cannot be read as files; give --format lines")
        group: list[tuple[str, str]] = []
        size = record = 0
        for path, key, length in files:
            if group and (size + length > options.piece_bytes or len(group) == MOST_FILES):
                yield Piece(source.name, source.key, group, 0, record)
                record += len(group)
                group, size = [], 0
            group.append((path, key))
            size += length
        if group:
            yield Piece(source.name, source.key, group, 0, record)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        names, keys, texts = [], [], []
        for path, key in piece.data:
            try:
                texts.append(_content(path, options))
            except BadFile as e:
                rejects.add(printable(path), 0, e.reject.reason)
                continue
            except OSError as e:
                rejects.add(printable(path), 0, f"cannot be read ({e.strerror})")
                continue
            names.append(printable(path))
            keys.append(printable(key))
            if len(texts[-1]) > options.record_bytes:
                reason = f"a document of more than {options.record_bytes >> 20} MiB; split it or raise the limit"
                rejects.add(printable(path), 0, reason, texts.pop())
                del names[-1], keys[-1]
        return documents(names, keys, texts, rejects), rejects


def _content(path: str, options: ReadOptions) -> bytes:
    """A file as UTF-8, at most one byte more than a record may have."""
    with open(path, "rb", buffering=0) as f:
        if os.fstat(f.fileno()).st_size <= SMALL_BYTES:
            data = f.readall() or b""
            if not data.startswith(tuple(MAGIC)) and os.path.splitext(path)[1].lower() not in SUFFIXES:
                return to_utf8(data, options.encoding)
    with Source(path, Path(path), encoding=options.encoding) as source:
        return source.read(options.record_bytes + 1)


def documents(names: list[str], keys: list[str], texts: list[bytes], rejects: Rejects) -> TextRun:
    """Whole files as a run; those that are not UTF-8 are rejected, with the line of the bad byte."""
    text, offsets = text_of(texts)
    if bad := not_utf8(text, offsets):
        for d, reason in bad.items():
            try:
                texts[d].decode()
            except UnicodeDecodeError as e:
                rejects.add(names[d], 1 + texts[d].count(b"\n", 0, e.start), reason, texts[d])
        left = [d for d in range(len(texts)) if d not in bad]
        names, keys, texts = [names[d] for d in left], [keys[d] for d in left], [texts[d] for d in left]
        text, offsets = text_of(texts)
    about = Provenance(ids=pa.array(keys, pa.large_string()), source=pa.array(names, pa.large_string()))
    return TextRun(about, text, offsets)


READER = Files()
