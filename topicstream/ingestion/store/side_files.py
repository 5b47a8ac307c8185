"""Files beside the documents: metadata (``--meta-file``) and links (``--links``).

A file with names (CSV and TSV with a header, JSON lines, Parquet) is read by the reader of its
format. TSV and CSV without a header take the names that the user gives:
``authors.tsv:row,authors``. If the last of them is a list column, it takes all further fields of
its line.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicstream.base.errors import InputError
from topicstream.base.places import places
from topicstream.base.text import compose_text
from topicstream.corpus.documents import OWN_COLUMNS
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, as_lists, clean
from topicstream.ingestion.parse.documents import (
    TEXT,
    lines_of,
    metadata_of,
    positions,
    western,
    why_not_utf8,
)
from topicstream.ingestion.parse.reader import reader_named
from topicstream.ingestion.parse.rejects import BadFile
from topicstream.ingestion.readers.csv_layout import split_line, why_not_csv

FORMATS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
KEY = "\0key"


@dataclass(frozen=True)
class SideOptions:
    """Options of files that belong to the documents.

    Attributes
    ----------
    meta_files
        ``FILE`` or ``FILE:COLUMN,...``: the columns to keep (``field=column`` renames one), or the
        names of the columns of a file without a header.
    links
        Files of two columns, citing and cited.
    key
        The column by which rows find their documents. ``id``, or the name of another column with
        ids; ``row``: the number of the document in the input, from 1 (in a file without the column,
        the number of the record); ``file``: the path or base name of the document's file.
    """

    meta_files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    key: str = "id"

    def __bool__(self) -> bool:
        return bool(self.meta_files or self.links)

    def stamps(self) -> list[list[str | int]]:
        """Return the stamp of every file, which a resumed ingest must find again.

        Raises
        ------
        InputError
            If a file is missing.
        """
        stamps: list[list[str | int]] = []
        for spec in (*self.meta_files, *self.links):
            path = split_spec(spec)[0]
            stamp = places().stamp(path) or []
            stamps.append([places().describe(path), spec, *stamp])
        return stamps

    def open(self, read: ReadOptions) -> list[SideFile]:
        """Look at the head of every file.

        Raises
        ------
        InputError
            If a file has another format, or lacks a column.
        """
        meta = [_open_metadata(*split_spec(spec), self.key, read) for spec in self.meta_files]
        return meta + [_open_links(*split_spec(spec), read) for spec in self.links]


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Read ``FILE:a,b=c`` as (FILE, {a: a, b: c}): the file, and its columns by field.

    Raises
    ------
    InputError
        If there is no such file, or a field has no name or is there twice.
    """
    path, colon, listed = spec.rpartition(":")
    if os.path.isfile(spec) or ("/" in listed and places().names_file(spec)):
        return spec, {}
    if not colon or not places().names_file(path):
        raise InputError(f"{spec}: no such file (FILE or FILE:COLUMN,COLUMN)")
    columns: dict[str, str] = {}
    for item in compose_text(listed).split(","):
        field, _, column = item.strip().partition("=")
        if not field or field in columns:
            raise InputError(f"{spec}: a column has no name, or two columns have the same name")
        columns[field] = column or field
    return path, columns


@dataclass(frozen=True)
class _NoText(ReadOptions):
    """Options of a file of fields without a text."""

    @property
    def text_fields(self) -> list[str]:
        return []


PIECE_BYTES = 1 << 20
"""Bytes of a side file that are Python strings at a time, which take many times as much."""


class _SideSource(Source):
    """A source whose first bad record is an error, because a side file is used whole or not."""

    def reject(
        self, line: int, reason: str, start: bytes = b"", *, file: str | None = None
    ) -> None:
        raise BadFile(file or self.name, line, reason)


@dataclass(frozen=True)
class SideFile:
    """Side file whose head was looked at.

    Attributes
    ----------
    path
        The file.
    form
        ``tsv``, ``csv``, ``jsonl`` or ``parquet``.
    read
        Options on raw input.
    fields
        Columns by field; ``citing`` and ``cited`` of links.
    key
        The column by which a row finds its documents; None: the k-th record is of the k-th
        document.
    names
        The columns of a file without a header, or None.
    links
        True for a file of links.
    """

    path: str
    form: str
    read: ReadOptions
    fields: Mapping[str, str]
    key: str | None
    names: tuple[str, ...] | None
    links: bool = False

    def tables(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        """Yield the rows in bounded pieces: the place of each (``file:line``), and its fields.

        Fields and ``KEY`` are strings or lists of strings.

        Raises
        ------
        InputError
            At the first row that cannot be read, with file and line.
        """
        columns_of = dict(self.fields)
        if self.key is not None:
            columns_of[KEY] = self.key
        with _SideSource(self.path, Path(self.path), encoding=self.read.encoding) as source:
            if self.names is None:
                yield from self._read_with_header(source, columns_of)
            else:
                yield from self._read_without_header(source, columns_of, self.names)

    def _read_with_header(
        self, source: Source, columns_of: dict[str, str]
    ) -> Iterator[tuple[pa.Array, pa.Table]]:
        """Yield the rows of a file that names its fields, by the reader of its format."""
        values = {f.name: getattr(self.read, f.name) for f in fields(ReadOptions)}
        values |= {
            "meta": columns_of,
            "on_error": "fail",
            "id_field": self.key,
            "format": None,
            "header": True,
            "comment": None,
            "skip_lines": None,
            "piece_bytes": min(self.read.piece_bytes, PIECE_BYTES),
        }
        if self.form == "tsv":
            values["delimiter"] = "tab"
        options = _NoText(**values)
        reader = reader_named("csv" if self.form == "tsv" else self.form)
        for batch in filter(len, reader.batches(source, options)):
            # by position: a field may be called text, as the content of a batch is
            yield batch.column(1), pa.table(metadata_of(batch))

    def _read_without_header(
        self, source: Source, columns_of: dict[str, str], names: tuple[str, ...]
    ) -> Iterator[tuple[pa.Array, pa.Table]]:
        """Yield the rows of a TSV or CSV file whose columns have these names."""
        last = len(names) - 1
        list_fields = [field for field in columns_of if field in LISTS]
        last_is_list = any(columns_of[field] == names[last] for field in list_fields)
        delimiter = _delimiter(self.form, source.head())
        read = replace(self.read, piece_bytes=min(self.read.piece_bytes, PIECE_BYTES))
        for numbers, lines in lines_of(source, read):
            rows = []
            for number, line in zip(numbers.tolist(), lines):
                reason = why_not_utf8(line)
                if reason is not None:
                    raise BadFile(self.path, number, reason)
                try:
                    row = _split(line.decode(), self.form, delimiter, read.record_bytes)
                except csv.Error as e:
                    raise BadFile(self.path, number, why_not_csv(e)) from None
                if last_is_list:
                    row[last:] = [self.read.list_separator.join(row[last:])]
                if len(row) > len(names):
                    raise BadFile(self.path, number, f"{len(row)} fields for {len(names)} columns")
                rows.append(row + [None] * (len(names) - len(row)))
            columns = {name: pa.array(values, TEXT) for name, values in zip(names, zip(*rows))}
            table = {field: columns[column] for field, column in columns_of.items()} if rows else {}
            separator = self.read.list_separator
            lists = {field: as_lists(table[field], separator) for field in table if field in LISTS}
            yield positions(self.path, numbers), pa.table(table | lists)


def _split(line: str, form: str, delimiter: str, most_bytes: int) -> list[str]:
    """Split a line of a TSV or CSV file into fields.

    Raises
    ------
    csv.Error
        If the line is not CSV.
    """
    if form == "tsv":
        return line.split(delimiter)
    return split_line(line, delimiter, most_bytes)


def _open_metadata(path: str, columns: dict[str, str], by: str, read: ReadOptions) -> SideFile:
    """Look at the head of a file of metadata.

    Parameters
    ----------
    path
        The file.
    columns
        Columns by field, as ``split_spec`` reads them; {}: all of them.
    by
        ``--key``.
    read
        Options on raw input.
    """
    form, first = _head(path, read)
    by = compose_text(by)
    names = _names(path, form, first, columns)
    present = names or first
    key = columns.pop(by, by if by in present else None)
    if not columns and names is None:
        text_fields = read.text_fields if form == "jsonl" else []
        for name in first:
            if name.strip() and name != key and name not in text_fields:
                columns[clean(name)] = name
    if key is None and by != "row":
        raise InputError(
            f"{path}: no column '{by}' to find the documents by; it has "
            f"{', '.join(present)[:300]}. Rename one of them "
            f"({path}:{by}={next(filter(None, present), 'COLUMN')},...), name the "
            f"columns of a file without a header ({path}:{by},authors), or give "
            "--key row, file or COLUMN"
        )
    reserved = sorted(set(columns) & set(OWN_COLUMNS))
    if reserved:
        raise InputError(
            f"{path}: the field {reserved[0]!r} is reserved for the store; rename it "
            f"({path}:name={reserved[0]})"
        )
    return SideFile(path, form, read, columns, key, names)


def _open_links(path: str, columns: dict[str, str], read: ReadOptions) -> SideFile:
    """Look at the head of a file of links, with two columns by ``split_spec`` or none."""
    form, first = _head(path, read)
    header = [name.strip().lower() for name in first]
    if not columns and header in (["source", "target"], ["from", "to"]):
        columns = dict(zip(("citing", "cited"), first))
    columns = columns or {"citing": "citing", "cited": "cited"}
    if len(columns) != 2 or len(first) == 1:
        raise InputError(
            f"{path}: expected two columns, citing and cited, with a tab or a comma between them"
        )
    names = _names(path, form, first, columns)
    fields = dict(zip(("citing", "cited"), columns.values()))
    return SideFile(path, form, read, fields, None, names, links=True)


def _head(path: str, read: ReadOptions) -> tuple[str, list[str]]:
    """Return the format of a side file, and the composed names in its first record."""
    form, names = _written_head(path, read)
    return form, list(map(compose_text, names))


def _written_head(path: str, read: ReadOptions) -> tuple[str, list[str]]:
    """Return the format of a side file, and the names in its first record as they are written.

    They are the names of a header, of a schema, or of the objects in its head.

    Raises
    ------
    InputError
        If the file has another format, is empty or damaged.
    """
    form = FORMATS.get(plain_suffix(path))
    if form is None:
        raise InputError(
            f"{path}: a side file is named {', '.join(FORMATS)} (or that with .gz, .bz2, .xz, .zst)"
        )
    if form == "parquet":
        try:
            return form, list(pq.read_schema(places().open_file(path)).names)
        except (OSError, pa.ArrowException) as e:
            raise InputError(f"{path}: not a whole Parquet file ({e})") from None
    with _SideSource(path, Path(path), encoding=read.encoding) as source:
        head = source.head()
    if form == "jsonl":
        return form, _json_names(path, head)
    if read.encoding is None and why_not_utf8(head.rpartition(b"\n")[0]):
        head = western(head) or head
    line = head.decode("utf-8", "replace").lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
    if not line.strip():
        raise InputError(f"{path}: is empty")
    try:
        first = _split(line, form, _delimiter(form, head), read.record_bytes)
    except csv.Error as e:
        raise InputError(f"{path}: {why_not_csv(e)}") from None
    return form, [name.strip().strip('"') for name in first]


def _delimiter(form: str, head: bytes) -> str:
    """Return the delimiter of a file: the most frequent one in the first line of CSV."""
    if form == "tsv":
        return "\t"
    line = head.decode("utf-8", "replace").split("\n", 1)[0]
    return max(",;|\t", key=line.count)


def _names(
    path: str, form: str, first: list[str], columns: dict[str, str]
) -> tuple[str, ...] | None:
    """Return the columns of a file without a header, or None if the file names them.

    Parameters
    ----------
    path, form
        The file, and its format.
    first
        Names, or values, in its first record.
    columns
        Columns that the user named, by field.

    Raises
    ------
    InputError
        If a file with a header lacks a column, or has one twice.
    """
    missing = [column for column in columns.values() if column not in first]
    has_no_header = len(missing) == len(columns) or len(columns) == 1
    if missing and has_no_header and form in ("tsv", "csv"):
        return tuple(columns.values())
    if missing:
        raise InputError(f"{path}: no column '{missing[0]}'; it has {', '.join(first)[:300]}")
    for column in columns.values():
        if first.count(column) > 1:
            raise InputError(f"{path}: several columns are called '{column}'; rename them")
    return None


def _json_names(path: str, head: bytes) -> list[str]:
    """Return the names of fields of the objects in the head of a file of JSON lines."""
    names: dict[str, None] = {}
    lines = head.split(b"\n")
    for line in lines[:-1] or lines:
        if line.strip():
            try:
                names |= dict.fromkeys(json.loads(line))
            except (ValueError, TypeError, RecursionError):
                raise InputError(f"{path}: expected JSON lines, one object per line") from None
    return list(names)


def whole_numbers(values: pa.ChunkedArray, where: pa.Array) -> np.ndarray:
    """Cast a column to int64[].

    Parameters
    ----------
    values
        The column.
    where
        The place of each value, for messages.

    Raises
    ------
    InputError
        If a value is no whole number.
    """
    values = pc.utf8_trim_whitespace(values)
    is_number = pc.fill_null(pc.match_substring_regex(values, r"^\d{1,17}$"), False)
    if not pc.all(is_number).as_py():
        row = int(pc.index(is_number, False).as_py())
        raise InputError(f"{where[row].as_py()}: {values[row].as_py()!r} is not a document number")
    numbers: np.ndarray = values.cast(pa.int64()).to_numpy()
    return numbers
