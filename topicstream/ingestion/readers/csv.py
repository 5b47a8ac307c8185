"""CSV and TSV, parsed by Python's ``csv``.

Quoted fields may hold line breaks. The first line names the columns; without a header they are
called by their numbers, from 1.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError
from topicstream.base.text import counted
from topicstream.ingestion.open.source import Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    TEXT,
    as_documents,
    lines_of,
    most_records,
    select_fields,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.readers.csv_layout import (
    BACKSLASH,
    CsvLayout,
    layout_of,
    parse_lines,
    unescape_letters,
    why_not_csv,
)

AMBIGUOUS = (
    f"a backslash before a quote may be an escape, or not; --escapechar '{BACKSLASH}' takes it for "
    f"one, --escapechar '' for text"
)
COMMENTS = "CSV lines that begin with # and are no record, left out as comments (--comment '#')"


class Csv(Reader):
    """Reader of delimited text, with a header line or without."""

    name = "csv"
    about = "CSV or TSV, with a header line or without"
    suffixes = (".csv", ".tsv", ".tab")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        # of the process; the default is 128 kB, less than a long document
        csv.field_size_limit(max(csv.field_size_limit(), options.record_bytes))
        layout = layout_of(source, options)
        options = options.spelled_as(layout.names)
        if list(layout.text) != options.text_fields:
            options = replace(options, text_field=layout.text[0])
        try:
            fields = select_fields(layout.names, options, source, ":1")
        except InputError as e:
            hint = options.header is None and "no column 'text'" in str(e)
            advice = (
                "--skip-lines N where lines precede the header, --no-header where the first line "
                "is a document"
            )
            raise InputError(f"{e}; {advice}" if hint else str(e)) from None
        slots = [layout.names.index(name) for name in fields]
        numbers: list[int] = []
        rows: list[list[str]] = []
        size = 0
        for number, row in Records(source, options, layout):
            numbers.append(number)
            rows.append([row[slot] for slot in slots])
            size += sum(map(len, rows[-1]))
            if size >= options.piece_bytes or len(numbers) >= most_records(options):
                yield _batch(source, options, fields, rows, numbers)
                numbers = []
                rows = []
                size = 0
        yield _batch(source, options, fields, rows, numbers)


def _batch(
    source: Source,
    options: ReadOptions,
    names: list[str],
    rows: list[list[str]],
    numbers: list[int],
) -> pa.RecordBatch:
    """Make a batch of rows of fields, by the names of the columns."""
    columns = {name: _array([row[i] for row in rows]) for i, name in enumerate(names)}
    return as_documents(source, options, columns, np.array(numbers, np.int64))


def _array(values: list[str]) -> pa.Array:
    """Make an array of strings, or of bytes where some are not UTF-8."""
    try:
        return pa.array(values, TEXT)
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return pa.array(
            [value.encode("utf-8", "surrogateescape") for value in values], pa.large_binary()
        )


class Records:
    """Line and fields of each record behind the header, to be iterated over once.

    Records that are not CSV, or do not have the fields of the header, are rejected.
    """

    def __init__(self, source: Source, options: ReadOptions, layout: CsvLayout) -> None:
        self._source = source
        self._options = options
        self._layout = layout
        self._record: list[str] = []
        self._first = 0

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        rows = self._layout.reader(self._lines())
        while True:
            self._record = []
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as e:
                if not self._source.damage:
                    self._reject_record(why_not_csv(e))
                continue
            if not row:
                continue
            if len(row) != len(self._layout.names):
                self._reject_width(row)
            elif self._is_ambiguous(row):
                self._source.reject(self._first, AMBIGUOUS, self._start())
            else:
                yield self._first, self._layout.without_nulls(row)

    def _lines(self) -> Iterator[str]:
        """Yield the lines behind the header, without comments, and keep those of the record."""
        comment = (self._layout.comment or "").encode()
        for numbers, part in lines_of(self._source, self._options):
            for number, line in zip(numbers.tolist(), part):
                if number <= self._layout.lines:
                    continue
                if not self._record:
                    if comment and line.startswith(comment):
                        continue
                    self._first = number
                text = line.decode("utf-8", "surrogateescape") + "\n"
                self._record.append(text)
                yield unescape_letters(text, self._layout) if self._layout.escape else text

    def _start(self) -> bytes:
        """Return the beginning of the record, to be shown."""
        return self._record[0].encode("utf-8", "surrogateescape") if self._record else b""

    def _with_escapes(self) -> list[str] | None:
        """Return the fields with backslashes as escapes, None where they are no record."""
        if self._layout.escape or not any(BACKSLASH in line for line in self._record):
            return None
        rows = parse_lines(self._record, replace(self._layout, escape=BACKSLASH))
        fits = len(rows) == 1 and rows[0] is not None and len(rows[0]) == len(self._layout.names)
        return rows[0] if fits else None

    def _is_ambiguous(self, row: list[str]) -> bool:
        """Tell whether a backslash may hide where a field ends."""
        if self._options.escapechar is not None:
            return False
        hidden = (BACKSLASH + self._layout.quote, BACKSLASH + self._layout.delimiter)
        if not any(mark in line for line in self._record for mark in hidden):
            return False
        fields = self._with_escapes()
        return fields is not None and fields != row and len(fields) == len(row)

    def _reject_record(self, reason: str) -> None:
        """Reject the record at hand, with advice where escapes would make it one."""
        if self._with_escapes() is not None:
            reason = (
                f"a quote that is not closed or is followed by text; --escapechar '{BACKSLASH}' "
                f"takes quotes after a backslash as text"
            )
        self._source.reject(self._first, reason, self._start())

    def _has_quote_after_space(self) -> bool:
        """Tell whether a field begins with a space and a quote, which is then text."""
        begin = self._layout.delimiter + " "
        return bool(self._layout.quote) and any(
            begin + self._layout.quote in line for line in self._record
        )

    def _reject_width(self, row: list[str]) -> None:
        """Reject a record with another number of fields than the header, or note a comment."""
        if self._layout.commented and self._record[0].startswith("#"):
            self._source.note(COMMENTS)
            return
        reason = f"{counted(len(row), 'field')} where the header has {len(self._layout.names)}"
        if self._with_escapes() is not None:
            reason += f"; --escapechar '{BACKSLASH}' where a backslash hides a delimiter"
        elif self._record[0].startswith("#") and self._options.comment is None:
            reason += "; --comment '#' where such lines are comments"
        elif self._has_quote_after_space():
            reason += "; a quote after a space does not begin a quoted field; remove the space"
        self._source.reject(self._first, reason, self._start())


READER = Csv()
