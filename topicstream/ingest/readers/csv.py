"""CSV and TSV with a header line; quoted fields may hold line breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topicstream.errors import InputError
from topicstream.ingest import csv_scan
from topicstream.ingest.columns import LISTS, as_list, column
from topicstream.ingest.cut import as_array, count_lines, cut, not_utf8, positions, strings
from topicstream.ingest.reader import Piece, ReadOptions
from topicstream.ingest.rejects import BadFile, Rejects
from topicstream.ingest.source import Source, plain_suffix
from topicstream.tokens.documents import Provenance, TextRun

DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Header:
    """Column names and the delimiter's byte."""

    names: tuple[str, ...]
    delimiter: int


class Csv:
    name = "csv"
    kind = "text"
    about = "CSV or TSV with a header line"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        head = source.head()
        delimiter = _delimiter(source, options, head)
        end = _first_record(head, delimiter)
        if not head.strip():
            raise BadFile(source.name, 1, "is empty; a CSV file begins with the names of its columns")
        if end == 0:
            raise BadFile(source.name, 1, f"the header does not end within {len(head)} bytes; is it CSV?")
        header = Header(_fields(source, head[:end], delimiter), delimiter)
        wanted_fields(source.name, header, options)
        source.read(end)

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
            return csv_scan.take(data, which, fields, spans, doubled, 10)

        good = np.array([r for r in range(n) if r not in bad], np.int64) if bad else np.arange(n, dtype=np.int64)
        for name in wanted:
            for at, why in not_utf8(*take([name], good)).items():
                bad[int(good[at])] = why
        for r in sorted(bad):
            start, end, line, _ = rows[r].tolist()
            rejects.add(piece.name, piece.line + line, bad[r], piece.data[start : min(end, start + 200)])
        good = np.array([r for r in range(n) if r not in bad], np.int64) if bad else good
        text = take(options.text_fields, good)
        numbers = rows[good, 2] + piece.line
        id_name = options.id_field or ("id" if "id" in header.names else None)
        ids = strings(*take([id_name], good)) if id_name else positions(piece.key, numbers)
        meta = {}
        for col, name in options.meta.items():
            values = strings(*take([name], good))
            if col in LISTS:
                values = column(col, [as_list(v, name, options.list_separator) for v in values.to_pylist()])
            meta[col] = values
        return TextRun(Provenance(ids, positions(piece.name, numbers), meta), *text), rejects


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
            raise InputError(f"--delimiter {chosen!r}: one ASCII character is needed, or tab")
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


def _fields(source: Source, record: bytes, delimiter: int) -> tuple[str, ...]:
    data = as_array(record[_blank(record) :])
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


def wanted_fields(name: str, header: Header, options: ReadOptions) -> list[str]:
    """The columns to read; InputError at one that is missing or there twice."""
    wanted = [*options.text_fields, *options.meta.values()]
    if options.id_field or "id" in header.names:
        wanted.append(options.id_field or "id")
    wanted = list(dict.fromkeys(wanted))
    for field in wanted:
        if field not in header.names:
            option = "--text-field" if field in options.text_fields else "--id-field and --meta"
            raise InputError(f"{name}:1: no column '{field}'; choose one of {', '.join(header.names)[:300]} ({option})")
        if header.names.count(field) > 1:
            raise InputError(f"{name}:1: several columns are called '{field}'; rename them")
    return wanted


READER = Csv()
