"""Files beside the documents: metadata (``--meta-file``) and links (``--links``).

A file with names (CSV and TSV with a header, JSON lines, Parquet) is read by the reader of its
format; TSV and CSV without a header take the names that the user gives:
``authors.tsv:row,authors``. The last of them, where it is a list column, takes all further fields
of its line.
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

    meta_files  ``FILE`` or ``FILE:COLUMN,...``: the columns to keep (``field=column`` renames one),
                or the names of the columns of a file without a header
    links       files of two columns, citing and cited
    key         how their rows find their documents: ``id``; ``row``: the number of the document in
                the input, from 1 (a file without a column ``row``: the k-th record is of the k-th
                document); ``file``: the column ``file`` names the file (path or base name) of the
                documents; or the name of the column that holds the documents' ids
    """

    meta_files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    key: str = "id"

    def __bool__(self) -> bool:
        return bool(self.meta_files or self.links)

    def stamps(self) -> list[list[str | int]]:
        """Size and time of every file: what a resumed ingest must find again.

        InputError: no such file.
        """
        stamps: list[list[str | int]] = []
        for spec in (*self.meta_files, *self.links):
            path = split_spec(spec)[0]
            stamp = places().stamp(path) or []
            stamps.append([places().describe(path), spec, *stamp])
        return stamps

    def open(self, read: ReadOptions) -> list[SideFile]:
        """Look at the head of every file. InputError: format, missing columns."""
        meta = [_open_metadata(*split_spec(spec), self.key, read) for spec in self.meta_files]
        return meta + [_open_links(*split_spec(spec), read) for spec in self.links]


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Read ``FILE:a,b=c`` as (FILE, {a: a, b: c}), field and column.

    Raises InputError when there is no such file.
    """
    path, colon, listed = spec.rpartition(":")
    if os.path.isfile(spec) or ("/" in listed and places().names_file(spec)):
        return spec, {}
    if not colon or not places().names_file(path):
        raise InputError(f"{spec}: no such file (FILE or FILE:COLUMN,COLUMN)")
    pairs = [
        (name, column or name)
        for name, _, column in (
            item.strip().partition("=") for item in compose_text(listed).split(",")
        )
    ]
    if not all(name for name, _ in pairs) or len(dict(pairs)) < len(pairs):
        raise InputError(f"{spec}: a column has no name, or two columns have the same name")
    return path, dict(pairs)


@dataclass(frozen=True)
class _NoText(ReadOptions):
    """Read fields, no text."""

    @property
    def text_fields(self) -> list[str]:
        return []


PIECE_BYTES = 1 << 20
"""Bytes of a side file that are Python strings at a time, which take many times as much."""


class _SideSource(Source):
    """A side file is read whole or not at all."""

    def reject(
        self, line: int, reason: str, start: bytes = b"", *, file: str | None = None
    ) -> None:
        raise BadFile(file or self.name, line, reason)


@dataclass(frozen=True)
class SideFile:
    """Side file that was looked at.

    form    tsv, csv, jsonl or parquet
    fields  field -> column, ``citing`` and ``cited`` of links
    key     the column by which a row finds its documents; None: the k-th record is of the k-th
            document
    names   the columns of a file without a header, else None
    """

    path: str
    form: str
    read: ReadOptions
    fields: Mapping[str, str]
    key: str | None
    names: tuple[str, ...] | None
    links: bool = False

    def tables(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        """Yield the rows in bounded pieces: where each stands (``file:line``), and its fields.

        Fields and ``KEY`` are strings or lists of them. InputError with file and line at the first
        row that cannot be read.
        """
        columns_of = dict(self.fields) | ({KEY: self.key} if self.key is not None else {})
        with _SideSource(self.path, Path(self.path), encoding=self.read.encoding) as source:
            yield from (
                self._with_names(source, columns_of)
                if self.names is None
                else self._without(source, columns_of, self.names)
            )

    def _with_names(
        self, source: Source, columns_of: dict[str, str]
    ) -> Iterator[tuple[pa.Array, pa.Table]]:
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
        options = _NoText(**values | ({"delimiter": "tab"} if self.form == "tsv" else {}))
        reader = reader_named("csv" if self.form == "tsv" else self.form)
        for batch in filter(len, reader.batches(source, options)):
            # by place: a field may be called text, as the content of a batch is
            yield batch.column(1), pa.table(metadata_of(batch))

    def _without(
        self, source: Source, columns_of: dict[str, str], names: tuple[str, ...]
    ) -> Iterator[tuple[pa.Array, pa.Table]]:
        last = len(names) - 1
        rest = any(column == names[last] and field in LISTS for field, column in columns_of.items())
        delimiter = _delimiter(self.form, source.head())
        read = replace(self.read, piece_bytes=min(self.read.piece_bytes, PIECE_BYTES))
        for numbers, lines in lines_of(source, read):
            rows = []
            for number, line in zip(numbers.tolist(), lines):
                reason = why_not_utf8(line)
                if reason is not None:
                    raise BadFile(self.path, number, reason)
                text = line.decode()
                try:
                    row = (
                        text.split(delimiter)
                        if self.form == "tsv"
                        else split_line(text, delimiter, read.record_bytes)
                    )
                except csv.Error as e:
                    raise BadFile(self.path, number, why_not_csv(e)) from None
                if rest:
                    row[last:] = [self.read.list_separator.join(row[last:])]
                if len(row) > len(names):
                    raise BadFile(self.path, number, f"{len(row)} fields for {len(names)} columns")
                rows.append(row + [None] * (len(names) - len(row)))
            columns = {name: pa.array(values, TEXT) for name, values in zip(names, zip(*rows))}
            table = {field: columns[column] for field, column in columns_of.items()} if rows else {}
            separator = self.read.list_separator
            lists = {field: as_lists(table[field], separator) for field in table if field in LISTS}
            yield positions(self.path, numbers), pa.table(table | lists)


def _open_metadata(path: str, given: dict[str, str], by: str, read: ReadOptions) -> SideFile:
    form, first = _head(path, read)
    by = compose_text(by)
    names = _names(path, form, first, given)
    key = given.pop(by, by if by in (names or first) else None)
    if not given and names is None:
        given = {
            clean(n): n
            for n in first
            if n.strip() and n != key and not (form == "jsonl" and n in read.text_fields)
        }
    if key is None and by != "row":
        raise InputError(
            f"{path}: no column '{by}' to find the documents by; it has "
            f"{', '.join(names or first)[:300]}. Rename one of them "
            f"({path}:{by}={next(filter(None, names or first), 'COLUMN')},...), name the "
            f"columns of a file without a header ({path}:{by},authors), or give "
            "--key row, file or COLUMN"
        )
    if taken := sorted(set(given) & set(OWN_COLUMNS)):
        raise InputError(
            f"{path}: the field {taken[0]!r} is reserved for the store; rename it "
            f"({path}:name={taken[0]})"
        )
    return SideFile(path, form, read, given, key, names)


def _open_links(path: str, given: dict[str, str], read: ReadOptions) -> SideFile:
    form, first = _head(path, read)
    if not given and [name.strip().lower() for name in first] in (
        ["source", "target"],
        ["from", "to"],
    ):
        given = dict(zip(("citing", "cited"), first))
    given = given or {"citing": "citing", "cited": "cited"}
    if len(given) != 2 or len(first) == 1:
        raise InputError(
            f"{path}: expected two columns, citing and cited, with a tab or a comma between them"
        )
    names = _names(path, form, first, given)
    return SideFile(
        path, form, read, dict(zip(("citing", "cited"), given.values())), None, names, links=True
    )


def _head(path: str, read: ReadOptions) -> tuple[str, list[str]]:
    """Format of a side file, and the names in its first record, their letters composed."""
    form, names = _written_head(path, read)
    return form, list(map(compose_text, names))


def _written_head(path: str, read: ReadOptions) -> tuple[str, list[str]]:
    """Return the format of a side file, and the names in its first record.

    They are those of a header, of a schema, or of the objects in its head.
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
        first = (
            line.split("\t")
            if form == "tsv"
            else split_line(line, _delimiter(form, head), read.record_bytes)
        )
    except csv.Error as e:
        raise InputError(f"{path}: {why_not_csv(e)}") from None
    return form, [name.strip().strip('"') for name in first]


def _delimiter(form: str, head: bytes) -> str:
    line = head.decode("utf-8", "replace").split("\n", 1)[0]
    return "\t" if form == "tsv" else max(",;|\t", key=line.count)


def _names(path: str, form: str, first: list[str], given: dict[str, str]) -> tuple[str, ...] | None:
    """Return the columns given for a file without a header.

    None where the first record has them all. InputError where it lacks some.
    """
    missing = [column for column in given.values() if column not in first]
    if missing and form in ("tsv", "csv") and (len(missing) == len(given) or len(given) == 1):
        return tuple(given.values())
    if missing:
        raise InputError(f"{path}: no column '{missing[0]}'; it has {', '.join(first)[:300]}")
    if twice := [column for column in given.values() if first.count(column) > 1]:
        raise InputError(f"{path}: several columns are called '{twice[0]}'; rename them")
    return None


def _json_names(path: str, head: bytes) -> list[str]:
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

    Raises InputError with the place of the first that is no whole number.
    """
    values = pc.utf8_trim_whitespace(values)
    good = pc.fill_null(pc.match_substring_regex(values, r"^\d{1,17}$"), False)
    if not pc.all(good).as_py():
        row = int(pc.index(good, False).as_py())
        raise InputError(f"{where[row].as_py()}: {values[row].as_py()!r} is not a document number")
    numbers: np.ndarray = values.cast(pa.int64()).to_numpy()
    return numbers
