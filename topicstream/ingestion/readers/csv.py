"""CSV and TSV, parsed by Python's ``csv``.

Quoted fields may hold line breaks. The first line names the columns; without a header they are
called by their numbers, from 1.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.base.text import counted
from topicstream.ingestion.open.source import Source, plain_suffix
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.documents import (
    TEXT,
    as_documents,
    lines_of,
    most_records,
    select_fields,
    western,
    why_not_utf8,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import BadFile

LOOKED_AT = 50
"""Records that are looked at where the user does not say whether there is a header."""
_VALUE = re.compile(r"[-+]?\d|[\w.+-]+@[\w-]+\.|https?://")
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
MOST_HEADER = 16 << 10
NO_QUOTE = "\x1f"
"""Stands for no quote character: text does not hold it."""
csv.field_size_limit(64 << 20)  # of the process; the default is 128 kB, less than a long document


@dataclass(frozen=True)
class CsvLayout:
    """Layout of a file of CSV.

    Attributes
    ----------
    names
        Of the columns.
    delimiter, quote
        One character each.
    blanks
        Whether blanks follow the delimiter, perhaps before a quote.
    text
        Columns that hold text.
    lines
        How many precede the first record.
    """

    names: tuple[str, ...]
    delimiter: str
    blanks: bool
    quote: str
    text: tuple[str, ...]
    lines: int


class Csv(Reader):
    name = "csv"
    about = "CSV or TSV, with a header line or without"
    suffixes = (".csv", ".tsv", ".tab")

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        layout = layout_of(source, options)
        options = options.spelled_as(layout.names)
        if list(layout.text) != options.text_fields:
            options = replace(options, text_field=layout.text[0])
        try:
            fields = select_fields(layout.names, options, source, ":1")
        except InputError as e:
            hint = options.header is None and "no column 'text'" in str(e)
            raise InputError(
                f"{e}; --no-header where the first line is a document" if hint else str(e)
            ) from None
        slots = [layout.names.index(name) for name in fields]
        numbers: list[int] = []
        rows: list[list[str]] = []
        size = 0
        for number, row in records(source, options, layout):
            if len(row) != len(layout.names):
                start = layout.delimiter.join(row).encode("utf-8", "surrogateescape")
                source.reject(
                    number,
                    f"{counted(len(row), 'field')} where the header has {len(layout.names)}",
                    start,
                )
                continue
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
    columns = {name: _array([row[i] for row in rows]) for i, name in enumerate(names)}
    return as_documents(source, options, columns, np.array(numbers, np.int64))


def _array(values: list[str]) -> pa.Array:
    try:
        return pa.array(values, TEXT)
    except UnicodeEncodeError:  # bytes that are not UTF-8
        return pa.array(
            [value.encode("utf-8", "surrogateescape") for value in values], pa.large_binary()
        )


def records(
    source: Source, options: ReadOptions, layout: CsvLayout
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and fields of each record behind the header.

    Those that are not CSV are rejected.
    """
    line = 0
    text = b""

    def lines() -> Iterator[str]:
        nonlocal line, text
        for numbers, part in lines_of(source, options):
            for line, text in zip(numbers.tolist(), part):  # noqa: B007
                yield text.decode("utf-8", "surrogateescape") + "\n"

    rows = csv.reader(
        lines(),
        delimiter=layout.delimiter,
        skipinitialspace=layout.blanks,
        quotechar=layout.quote,
        strict=True,
    )
    while True:
        first = line + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as e:
            if not source.damage:
                source.reject(
                    first,
                    f"a quote that is not closed or has text behind it ({e}); --quotechar '' "
                    f"takes quotes as text",
                    text,
                )
            continue
        if row and line > layout.lines:
            yield first, row


def layout_of(source: Source, options: ReadOptions) -> CsvLayout:
    """Make out what the head of a file and the options say."""
    head = source.head()
    if not head.strip():
        raise BadFile(source.name, 1, "is empty; a CSV file begins with the names of its columns")
    if options.encoding is None and why_not_utf8(head.rpartition(b"\n")[0]):
        head = western(head) or head
    lines = head.decode("utf-8", "surrogateescape").split("\n")
    blank = next(i for i, line in enumerate(lines) if line.strip())
    if (
        re.fullmatch(r"(?i)\ufeff?sep=.\r?", lines[blank]) and len(lines) > blank + 1
    ):  # what tells Excel the delimiter
        blank += 1
    quote = '"' if options.quotechar is None else options.quotechar or NO_QUOTE
    guessed = (
        "\t"
        if plain_suffix(source.name) in (".tsv", ".tab")
        else max(",\t;|", key=lines[blank].count)
    )
    chosen = guessed if options.delimiter is None else options.delimiter
    delimiter = _one_character(DELIMITERS.get(chosen, chosen), "--delimiter", ", or tab")
    quote = _one_character(quote, "--quotechar")
    blanks = f"{delimiter} " in lines[blank]
    below = (line + "\n" for line in lines[blank:])
    rows = csv.reader(
        below, delimiter=delimiter, skipinitialspace=blanks, quotechar=quote, strict=True
    )
    try:
        first = tuple(name.strip() for name in next(rows))
        "".join(first).encode()
    except csv.Error as e:
        raise BadFile(
            source.name,
            1,
            f"the header is not CSV: a quote that is not closed or has text behind it ({e})",
        ) from None
    except UnicodeEncodeError:
        raise BadFile(source.name, 1, "the header is not valid UTF-8; give --encoding") from None
    if sum(map(len, first)) > MOST_HEADER:
        raise BadFile(
            source.name, 1, f"the header does not end within {MOST_HEADER} bytes; is it CSV?"
        )
    end = blank + rows.line_num
    options = options.spelled_as(first)
    text = tuple(options.text_fields)
    named = options.header
    if named is None and set(_named_fields(options)) <= set(first):
        named = True
    examples = [] if named else _examples(rows, len(first))
    if named or (named is None and not _is_data(first, examples, options)):
        return CsvLayout(first, delimiter, blanks, quote, text, end)
    if text == ("text",):  # the user did not say which: the longest
        sizes = [sum(len(row[c]) for row in [first, *examples]) for c in range(len(first))]
        text = (str(1 + sizes.index(max(sizes))),)
        source.note(
            f"CSV files without a header, column {text[0]} taken for the text (--text-field, "
            f"--header)"
        )
    return CsvLayout(
        tuple(str(c + 1) for c in range(len(first))), delimiter, blanks, quote, text, 0
    )


def _examples(rows: Iterable[list[str]], width: int) -> list[list[str]]:
    """Return some whole records, stripped."""
    examples: list[list[str]] = []
    try:
        for row in islice(rows, LOOKED_AT):
            examples.append([value.strip() for value in row])
    except csv.Error:  # the head ends within a record
        pass
    return [row for row in examples if len(row) == width]


def _one_character(chosen: str, option: str, other: str = "") -> str:
    if len(chosen.encode()) != 1 or chosen in "\n\r" or (option == "--delimiter" and chosen == '"'):
        raise UsageError(f"{option} {chosen!r}: one ASCII character is needed{other}")
    return chosen


def _named_fields(options: ReadOptions) -> list[str]:
    id_field = [options.id_field] if options.id_field and options.id_wanted else []
    return [*options.text_fields, *options.meta_wanted, *id_field]


def _is_data(first: tuple[str, ...], others: list[list[str]], options: ReadOptions) -> bool:
    """Tell whether the first record looks like a document's and not like names.

    It lacks a field that the options name, and such fields are numbers; or the user did not name
    the text, and values stand in the record.
    """
    missing = set(_named_fields(options)) - set(first)
    unsaid = {"text"} if options.text_fields == ["text"] else set()
    if numbers := missing - unsaid:
        return all(w.isdecimal() and 1 <= int(w) <= len(first) for w in numbers)
    return any(
        len(name) > 60
        or len(name.split()) > 6
        or _VALUE.match(name)
        or (name and any(r[c] == name for r in others))
        for c, name in enumerate(first)
    )


READER = Csv()
