"""CSV and TSV; quoted fields may hold line breaks.  The first line names the columns; without a header they are called by
their numbers, from 1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from topicstream.errors import InputError, UsageError
from topicstream.ingestion.opening.source import Source, plain_suffix
from topicstream.ingestion.opening.western import western, western_records
from topicstream.ingestion.parsing import csv_scan
from topicstream.ingestion.parsing.columns import LISTS, as_lists
from topicstream.ingestion.parsing.cut import as_array, count_lines, cut, not_utf8, positions, strings
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import BadFile, Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import Provenance, TextRun

LOOKED_AT = 50
"""Records that are looked at where nobody said whether there is a header."""
_VALUE = re.compile(r"[-+]?\d|[\w.+-]+@[\w-]+\.|https?://")
DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Header:
    """Column names, the delimiter's byte, and the columns with the text."""

    names: tuple[str, ...]
    delimiter: int
    text: tuple[str, ...] = ()


class Csv:
    name = "csv"
    kind = "text"
    about = "CSV or TSV, with a header line or without"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        head = source.head()
        delimiter = _delimiter(source, options, head)
        end = _first_record(head, delimiter)
        if not head.strip():
            raise BadFile(source.name, 1, "is empty; a CSV file begins with the names of its columns")
        if end == 0:
            raise BadFile(source.name, 1, f"the header does not end within {len(head)} bytes; is it CSV?")
        header, named = _layout(source, options, head, end, delimiter)
        if named:
            source.read(end)
        else:
            end = 0
        wanted_fields(source.name, header, options)

        def place(data: bytearray, final: bool) -> int:
            return len(data) if final else int(csv_scan.last_break(as_array(data), delimiter))

        return cut(source, options, place, about=header, line=1 + head.count(b"\n", 0, end), one_line=False)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        header: Header = piece.about
        wanted = wanted_fields(piece.name, header, options)
        slots = np.full(len(header.names), -1, np.int64)
        for slot, name in enumerate(wanted):
            slots[header.names.index(name)] = slot
        data = as_array(piece.data)
        most = count_lines(piece.data) + 1
        spans = np.zeros((most, len(wanted), 2), np.int64)
        doubled = np.zeros((most, len(wanted)), np.bool_)
        rows = np.zeros((most, 4), np.int64)
        n = csv_scan.scan(data, header.delimiter, slots, spans, doubled, rows)
        bad = _wrong_rows(rows[:n], len(header.names))

        def take(names: list[str], which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            fields = np.array([wanted.index(name) for name in names], np.int64)
            return tuple(csv_scan.take(data, which, fields, spans, doubled, 10))

        good = np.array([r for r in range(n) if r not in bad], np.int64) if bad else np.arange(n, dtype=np.int64)
        broken: set[int] = set()
        for name in wanted:
            for at, why in not_utf8(*take([name], good)).items():
                bad[int(good[at])] = why
                broken.add(int(good[at]))
        if broken:
            places = [(int(rows[r, 0]), int(rows[r, 1])) for r in sorted(broken)]
            if (mended := western_records(piece, places, options, rejects)) is not None:
                run, more = self.parse(mended, options)
                more.notes.update(rejects.notes)
                return run, more
        for r in sorted(bad):
            start, end, line, _ = rows[r].tolist()
            rejects.add(piece.name, piece.line + line, bad[r], piece.data[start : min(end, start + 200)])
        good = np.array([r for r in range(n) if r not in bad], np.int64) if bad else good
        text = take(list(header.text), good)
        numbers = rows[good, 2] + piece.line
        id_name = options.id_column(header.names)
        ids = strings(*take([id_name], good)) if id_name else positions(piece.key, numbers)
        meta = {}
        for col, name in options.meta.items():
            values = strings(*take([name], good))
            if col in LISTS:
                values = as_lists(values, None, options.list_separator)
            meta[col] = values
        return TextRun(Provenance(ids, positions(piece.key, numbers), meta), *text), rejects


def _wrong_rows(rows: np.ndarray, width: int) -> dict[int, str]:
    bad = {}
    for r in np.flatnonzero(rows[:, 3] != width).tolist():
        fields = int(rows[r, 3])
        misplaced = "a quote that is not closed or has text behind it"
        bad[r] = misplaced if fields < 0 else f"{fields} fields where the header has {width}"
    return bad


def _delimiter(source: Source, options: ReadOptions, head: bytes) -> int:
    chosen = options.delimiter
    if chosen is not None:
        chosen = DELIMITERS.get(chosen, chosen)
        if len(chosen.encode()) != 1 or chosen in '"\n\r':
            raise UsageError(f"--delimiter {chosen!r}: one ASCII character is needed, or tab")
        return ord(chosen)
    if plain_suffix(source.name) in (".tsv", ".tab"):
        return ord("\t")
    first = head[_blank(head) :].split(b"\n", 1)[0]
    counts = {d: first.count(d.encode()) for d in ",\t;|"}
    return ord(max(counts, key=lambda d: counts[d]))


def _blank(head: bytes) -> int:
    """The length of the lines before the header that hold nothing but blanks."""
    at = 0
    while (end := head.find(b"\n", at) + 1) > 0 and not head[at:end].strip():
        at = end
    return at


def _first_record(head: bytes, delimiter: int) -> int:
    """The length of the header record; the whole where the file ends without a line break."""
    at = 0
    while (at := head.find(b"\n", at) + 1) > 0:
        if csv_scan.last_break(as_array(head[:at]), delimiter) == at and head[:at].strip():
            return at
    return len(head) if len(head) < 16 << 10 else 0


def _layout(source: Source, options: ReadOptions, head: bytes, end: int, delimiter: int) -> tuple[Header, bool]:
    """The columns, and whether the first record (it ends at ``end``) names them."""
    first, text = _fields(source, head[:end], delimiter, options), tuple(options.text_fields)
    named, rows = options.header, list[list[str]]()
    if named is False or (named is None and not set(_wanted(options)) <= set(first)):
        rows = _rows(head, delimiter, len(first))
    if named is None:
        named = not rows or not _is_data(first, rows[1:], options)
    if named:
        return Header(first, delimiter, text), True
    if text == ("text",):  # nobody said which: the longest
        sizes = [sum(len(row[c]) for row in rows) for c in range(len(first))]
        text = (str(1 + sizes.index(max(sizes))),)
        source.notes[f"CSV files without a header, column {text[0]} taken for the text (--text-field, --header)"] += 1
    return Header(tuple(str(c + 1) for c in range(len(first))), delimiter, text), False


def _wanted(options: ReadOptions) -> list[str]:
    return [
        *options.text_fields,
        *options.meta.values(),
        *([options.id_field] if options.id_field and options.id_wanted else []),
    ]


def _is_data(first: tuple[str, ...], others: list[list[str]], options: ReadOptions) -> bool:
    """Whether the first record looks like a document's and not like names: it lacks a name that is wanted, and wanted are
    numbers, or nobody said what the text is called and values stand in it."""
    missing = set(_wanted(options)) - set(first)
    unsaid = {"text"} if options.text_fields == ["text"] else set()
    if numbers := missing - unsaid:
        return all(w.isdecimal() and 1 <= int(w) <= len(first) for w in numbers)
    return any(
        len(name) > 60 or len(name.split()) > 6 or _VALUE.match(name) or (name and any(r[c] == name for r in others))
        for c, name in enumerate(first)
    )


def _rows(head: bytes, delimiter: int, width: int) -> list[list[str]]:
    """The first whole records of that many fields."""
    data = as_array(head[: int(csv_scan.last_break(as_array(head), delimiter)) or len(head)])
    spans = np.zeros((LOOKED_AT, width, 2), np.int64)
    doubled, rows = np.zeros((LOOKED_AT, width), np.bool_), np.zeros((LOOKED_AT, 4), np.int64)
    n = csv_scan.scan(data, delimiter, np.arange(width, dtype=np.int64), spans, doubled, rows)
    good = np.flatnonzero(rows[:n, 3] == width)
    columns = []
    for c in range(width):
        text, ends = csv_scan.take(data, good, np.array([c], np.int64), spans, doubled, 10)
        columns.append([text[a:b].tobytes().decode("utf-8", "replace").strip() for a, b in pairwise(ends.tolist())])
    return [list(row) for row in zip(*columns)]


def _fields(source: Source, record: bytes, delimiter: int, options: ReadOptions) -> tuple[str, ...]:
    record = record[_blank(record) :]
    if options.encoding is None and not _is_utf8(record):
        record = western(record) or record
    data = as_array(record)
    most = len(data) + 1
    slots = np.arange(most, dtype=np.int64)
    spans = np.zeros((1, most, 2), np.int64)
    doubled = np.zeros((1, most), np.bool_)
    rows = np.zeros((1, 4), np.int64)
    csv_scan.scan(data, delimiter, slots, spans, doubled, rows)
    n = int(rows[0, 3])
    if n < 0:
        raise BadFile(source.name, 1, "a quote in the header that is not closed or has text behind it")
    names = []
    for f in range(n):
        text, _ = csv_scan.take(data, np.zeros(1, np.int64), np.array([f], np.int64), spans, doubled, 10)
        try:
            names.append(text.tobytes().decode().strip())
        except UnicodeDecodeError:
            raise BadFile(source.name, 1, "the header is not valid UTF-8; give --encoding") from None
    return tuple(names)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def wanted_fields(name: str, header: Header, options: ReadOptions) -> list[str]:
    """The columns to read; InputError at one that is missing or there twice."""
    wanted = [*header.text, *options.meta.values()]
    if (id_name := options.id_column(header.names)) is not None:
        wanted.append(id_name)
    wanted = list(dict.fromkeys(wanted))
    for field in wanted:
        if field not in header.names:
            option = "--text-field" if field in header.text else "--id-field and --meta"
            if options.header is None and field == "text":
                option += "; --no-header where the first line is a document"
            raise InputError(f"{name}:1: no column '{field}'; choose one of {', '.join(header.names)[:300]} ({option})")
        if header.names.count(field) > 1:
            raise InputError(f"{name}:1: several columns are called '{field}'; rename them")
    return wanted


READER = Csv()
