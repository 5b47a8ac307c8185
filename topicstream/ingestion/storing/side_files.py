"""Files beside the documents: metadata by document (``--meta-file``) and links (``--links``), whatever the documents' format.

A file with names (CSV and TSV with a header, JSON lines, Parquet) is read by the reader of its format; TSV and CSV without a
header take the names that the user gives: ``authors.tsv:row,authors``.  The last of them, where it is a list (authors, labels,
links), takes all further fields of its line.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.arrow import pc
from topicstream.corpus.documents import OWN
from topicstream.errors import InputError
from topicstream.ingestion.opening.source import Source, plain_suffix
from topicstream.ingestion.parsing.columns import LISTS, as_lists
from topicstream.ingestion.parsing.cut import (
    as_array,
    cut,
    last_line_break,
    lines_of,
    not_utf8,
    positions,
    strings,
)
from topicstream.ingestion.parsing.reader import reader_named
from topicstream.ingestion.parsing.rejects import BadFile, Reject
from topicstream.ingestion.read_options import ReadOptions
from topicstream.kernels.spans import copy_spans

FORMATS = {
    ".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet",
}  # fmt: skip
_TEXT = pa.large_string()


@dataclass(frozen=True)
class SideOptions:
    """What belongs to the documents but does not stand in them.

    meta_files  ``FILE`` or ``FILE:COLUMN,...``: the columns to keep (``field=column`` renames one), or the names of the
                columns of a file without a header
    links       files of two columns, citing and cited
    key         how their rows find their documents: ``id``; ``row``: the number of the document in the input, from 1 (a
                file without a column ``row``: the k-th record is of the k-th document); ``file``: the column ``file`` names
                the file (path or base name) of the documents; or the name of the column that holds the documents' ids
    """

    meta_files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    key: str = "id"

    def __bool__(self) -> bool:
        return bool(self.meta_files or self.links)

    def stamps(self) -> list[Any]:
        """Size and time of every file: what a resumed ingest must find again.  InputError: no such file."""
        found = []
        for spec in (*self.meta_files, *self.links):
            about = os.stat(split_spec(spec)[0])
            found.append([os.path.abspath(split_spec(spec)[0]), spec, about.st_size, about.st_mtime_ns])
        return found


def split_spec(spec: str) -> tuple[str, list[tuple[str, str]]]:
    """``FILE:a,b=c`` -> (FILE, [(a, a), (b, c)]): field and column; InputError when there is no such file."""
    if os.path.isfile(spec):
        return spec, []
    path, colon, listed = spec.rpartition(":")
    if not colon or not os.path.isfile(path):
        raise InputError(f"{spec}: no such file (FILE or FILE:COLUMN,COLUMN)")
    pairs = [(name, column or name) for name, _, column in (item.strip().partition("=") for item in listed.split(","))]
    if not all(name for name, _ in pairs) or len({name for name, _ in pairs}) < len(pairs):
        raise InputError(f"{spec}: a column has no name, or two have the same")
    return path, pairs


@dataclass(frozen=True)
class SideRows:
    """Some rows of a side file.

    numbers  int64[R], the document's number from 0 (key ``row``), or None
    keys     large_string[R], the document's id or file, or None
    table    the fields: lists of strings, or strings
    where    large_string[R]: file and line, for messages
    """

    numbers: np.ndarray | None
    keys: pa.Array | None
    table: pa.Table
    where: pa.Array


@dataclass(frozen=True)
class _Options(ReadOptions):
    """Read fields, no text."""

    @property
    def text_fields(self) -> list[str]:
        return []


@dataclass
class SideFile:
    """One side file, looked at: its format, whether it has a header, its columns.

    fields: field -> column; key: the column with the key, or None (the k-th record is of the k-th document).
    """

    path: str
    by: str
    read: ReadOptions
    form: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    names: list[str] | None = None  # of a file without a header

    @classmethod
    def open(cls, spec: str, by: str, read: ReadOptions, links: bool = False) -> SideFile:
        """Look at the head of a file.  InputError: format, missing columns."""
        path, pairs = split_spec(spec)
        file = cls(path, by, read, FORMATS.get(plain_suffix(path), ""))
        if not file.form:
            raise InputError(f"{path}: a side file is named {', '.join(FORMATS)} (or that with .gz, .bz2, .xz, .zst)")
        first = file._first()
        if links:
            pairs = pairs or [("citing", "citing"), ("cited", "cited")]
            if file.form in ("tsv", "csv") and not file._is_header(first, pairs):
                usual = [n.strip().lower() for n in first] in (["source", "target"], ["from", "to"])
                if usual and len(pairs) == 2:
                    pairs = list(zip(("citing", "cited"), first))
        if file.form in ("tsv", "csv") and pairs and not file._is_header(first, pairs):
            file.names = [column for _, column in pairs]
        there = file.names or first
        for name, column in pairs:
            if column not in there:
                raise InputError(f"{path}: no column '{column}'; it has {', '.join(there)[:300]}")
            if there.count(column) > 1:
                raise InputError(f"{path}: several columns are called '{column}'; rename them")
            file.fields[name] = column
        wanted = {"row": "row", "file": "file", "id": "id"}.get(by, by)
        if links:
            if len(pairs) != 2:
                raise InputError(f"{path}: links are two columns, citing and cited")
            return file
        file.fields = file.fields or {
            n: n for n in there if n.strip() and not (file.form == "jsonl" and n in read.text_fields)
        }
        file.key = file.fields.pop(wanted, wanted if wanted in there else None)
        if file.key is None and by != "row":
            told = ", ".join(there)[:300]
            raise InputError(
                f"{path}: no column '{wanted}' to find the documents by; it has {told}. Name the columns of a file without a "
                f"header ({path}:{wanted},authors), or give --key row, file or COLUMN"
            )
        if taken := sorted(set(file.fields) & set(OWN)):
            raise InputError(f"{path}: the field {taken[0]!r} is the store's own; rename it ({path}:name={taken[0]})")
        return file

    def _source(self) -> Source:
        return Source(self.path, Path(self.path), encoding=self.read.encoding)

    def _delimiter(self, line: str) -> str:
        if self.form == "tsv":
            return "\t"
        return max(",;|\t", key=line.count)

    def _first(self) -> list[str]:
        """The names in the first record: of a header, of a schema, or of the objects in the head of the file."""
        with self._source() as source:
            if self.form == "parquet":
                import pyarrow.parquet as pq

                try:
                    return list(pq.read_schema(self.path).names)
                except (OSError, pa.ArrowException) as e:
                    raise InputError(f"{self.path}: not a whole Parquet file ({e})") from None
            head = source.head()
            if self.form == "jsonl":
                return _json_names(self.path, head)
            line = head.decode("utf-8", "replace").lstrip("\r\n").split("\n", 1)[0].rstrip("\r")
            if not line.strip():
                raise InputError(f"{self.path}: is empty")
            if self.form == "tsv":
                return [name.strip().strip('"') for name in line.split("\t")]
            return [name.strip() for name in next(csv.reader([line], delimiter=self._delimiter(line)))]

    def _is_header(self, first: list[str], pairs: list[tuple[str, str]]) -> bool:
        """All names are there: a header; none: a first record.  InputError in between."""
        missing = [column for _, column in pairs if column not in first]
        if missing and len(missing) < len(pairs) and len(pairs) > 1:
            raise InputError(f"{self.path}: no column '{missing[0]}'; it has {', '.join(first)[:300]}")
        return not missing

    def rows(self) -> Iterator[SideRows]:
        """The rows, in order, in bounded pieces.  InputError with file and line at the first that cannot be read."""
        at = 0
        for source, table in self._tables():
            n = len(table)
            numbers = keys = None
            if self.by == "row":
                numbers = np.arange(at, at + n)
                if self.key is not None:
                    numbers = whole_numbers(table["\0key"], source) - 1
            elif self.key is not None:
                keys = pc.fill_null(table["\0key"], "").combine_chunks()
            at += n
            if "\0key" in table.column_names:
                table = table.drop_columns(["\0key"])
            yield SideRows(numbers, keys, table, source)

    def _tables(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        """(where each record stands, fields and the key as ``\\0key``)."""
        yield from self._named() if self.names is None else self._nameless()

    def _named(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        kept = {f.name: getattr(self.read, f.name) for f in self.read.__dataclass_fields__.values()}
        meta = dict(self.fields) | ({"\0key": self.key} if self.key is not None else {})
        id_field = self.key  # a key must be there in every record
        options = _Options(
            **kept | {"meta": meta, "on_error": "fail", "id_field": id_field, "format": None, "header": True}
        )
        if self.form == "tsv":
            options = replace(options, delimiter="tab")
        reader = reader_named("csv" if self.form == "tsv" else self.form)
        with self._source() as source:
            for piece in reader.split(source, options):
                if piece.rejects:
                    raise _wrong(piece.rejects[0])
                run, rejects = reader.parse(piece, options)
                if rejects.records:
                    raise _wrong(rejects.records[0])
                yield run.about.source, pa.table(dict(run.about.meta))

    def _nameless(self) -> Iterator[tuple[pa.Array, pa.Table]]:
        assert self.names is not None
        columns = {column: name for name, column in self.fields.items()}
        if self.key is not None:
            columns[self.key] = "\0key"
        last_is_list = columns.get(self.names[-1]) in LISTS
        with self._source() as source:
            delimiter = self._delimiter(source.head().decode("utf-8", "replace").split("\n", 1)[0])
            for piece in cut(source, self.read, last_line_break):
                if piece.data is None:
                    raise _wrong(piece.rejects[0])
                data = as_array(piece.data)
                starts, ends = lines_of(data)
                lines = copy_spans(data, starts, ends)
                for at, why in not_utf8(*lines).items():
                    raise BadFile(self.path, piece.line + at, why)
                where = positions(self.path, np.arange(len(starts)) + piece.line)
                found = self._split(strings(*lines), delimiter, last_is_list, where)
                names = {columns[n]: a for n, a in zip(self.names, found) if n in columns}
                for name in names:
                    if name in LISTS:
                        separator = delimiter if last_is_list and name == columns[self.names[-1]] else None
                        names[name] = as_lists(names[name], separator, self.read.list_separator)
                yield where, pa.table(names)

    def _split(self, lines: pa.Array, delimiter: str, rest: bool, where: pa.Array) -> list[pa.Array]:
        """The fields of lines, one array a column; too few are null, too many an error unless the last takes the rest."""
        assert self.names is not None
        if self.form == "csv":
            rows = list(csv.reader(lines.to_pylist(), delimiter=delimiter))
            lengths, flat = np.array([len(r) for r in rows], np.int64), pa.array([v for r in rows for v in r], _TEXT)
            if rest:
                return [
                    pa.array([r[k] if k < len(r) else None for r in rows], _TEXT) for k in range(len(self.names) - 1)
                ] + [pa.array([delimiter.join(r[len(self.names) - 1 :]) for r in rows], _TEXT)]
        else:
            cells = pc.split_pattern(lines, delimiter, **({"max_splits": len(self.names) - 1} if rest else {}))
            lengths, flat = cells.value_lengths().to_numpy().astype(np.int64), cells.flatten()
        if (over := np.flatnonzero(lengths > len(self.names))).size:
            raise InputError(f"{where[int(over[0])].as_py()}: {lengths[over[0]]} fields for {len(self.names)} columns")
        starts = np.cumsum(lengths) - lengths
        return [
            flat.take(pa.array(np.where(lengths > k, starts + k, 0), mask=lengths <= k)) for k in range(len(self.names))
        ]


def _wrong(record: Reject) -> InputError:
    """A side file is read whole or not at all."""
    return BadFile(record.file, record.line, record.reason)


def _json_names(path: str, head: bytes) -> list[str]:
    names: dict[str, None] = {}
    lines = head.split(b"\n")
    for line in lines[:-1] or lines:
        if line.strip():
            try:
                names |= dict.fromkeys(json.loads(line))
            except (ValueError, TypeError, RecursionError):
                raise InputError(f"{path}: is not JSON lines, an object a line") from None
    return list(names)


def whole_numbers(values: pa.Array | pa.ChunkedArray, where: pa.Array) -> np.ndarray:
    """int64[]; InputError naming the place of the first that is no whole number."""
    values = pc.utf8_trim_whitespace(values)
    good = pc.fill_null(pc.match_substring_regex(values, r"^\d{1,17}$"), False)
    if not pc.all(good).as_py():
        at = int(pc.index(good, False).as_py())
        raise InputError(f"{where[at].as_py()}: {values[at].as_py()!r} is not the number of a document")
    found: np.ndarray = values.cast(pa.int64()).to_numpy()
    return found
