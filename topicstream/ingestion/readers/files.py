"""A folder tree of text files: one document a file, its id the path below the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.errors import InputError
from topicstream.ingestion.opening.inputs import TreeSource
from topicstream.ingestion.opening.names import partitions
from topicstream.ingestion.opening.source import MAGIC, SUFFIXES, Source, printable, to_utf8
from topicstream.ingestion.opening.western import NOTE, western
from topicstream.ingestion.parsing.columns import LISTS, column, text_of
from topicstream.ingestion.parsing.cut import not_utf8
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
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
                yield Piece(source.name, source.key, group, 0, record, decoded=size)
                record += len(group)
                group, size = [], 0
            group.append((path, key))
            size += length
        if group:
            yield Piece(source.name, source.key, group, 0, record, decoded=size)

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
        run = documents_of_files(names, keys, keys, texts, rejects, guess=options.encoding is None)
        if options.meta:  # a text file has no fields but those of its path
            found = [partitions(key) for key in run.about.ids.to_pylist()]
            meta = {c: column(c, _listed(c, [f.get(n) for f in found])) for c, n in options.meta.items()}
            run = replace(run, about=replace(run.about, meta=meta))
        return run, rejects


def _listed(column: str, values: list[str | None]) -> list[Any]:
    return [[v] if v else [] for v in values] if column in LISTS else values


def _content(path: str, options: ReadOptions) -> bytes:
    """A file as UTF-8, at most one byte more than a record may have."""
    with open(path, "rb", buffering=0) as f:
        if os.fstat(f.fileno()).st_size <= SMALL_BYTES:
            data = f.readall() or b""
            if not data.startswith(tuple(MAGIC)) and os.path.splitext(path)[1].lower() not in SUFFIXES:
                return to_utf8(data, options.encoding)
    with Source(path, Path(path), encoding=options.encoding) as source:
        return source.read(options.record_bytes + 1)


def documents_of_files(
    names: list[str], keys: list[str], sources: list[str], texts: list[bytes], rejects: Rejects, *, guess: bool
) -> TextRun:
    """Whole files as a run (names: for messages); those that are not UTF-8 are read as windows-1252 where they look like it
    and ``guess``, else rejected, with the line of the bad byte."""
    text, offsets = text_of(texts)
    bad = not_utf8(text, offsets)
    for d in list(bad) if guess else ():
        if (found := western(texts[d])) is not None:
            texts[d] = found
            rejects.notes[f"documents {NOTE}"] += 1
            del bad[d]
            text, offsets = np.empty(0, np.uint8), np.empty(0, np.int64)
    if not len(offsets):
        text, offsets = text_of(texts)
    if bad:
        for d, reason in bad.items():
            try:
                texts[d].decode()
            except UnicodeDecodeError as e:
                rejects.add(names[d], 1 + texts[d].count(b"\n", 0, e.start), reason, texts[d])
        left = [d for d in range(len(texts)) if d not in bad]
        keys, sources, texts = [keys[d] for d in left], [sources[d] for d in left], [texts[d] for d in left]
        text, offsets = text_of(texts)
    about = Provenance(ids=pa.array(keys, pa.large_string()), source=pa.array(sources, pa.large_string()))
    return TextRun(about, text, offsets)


READER = Files()
