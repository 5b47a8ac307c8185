"""JSON lines: one object a line.

The fields wanted are found and unescaped by the kernels of ``json_scan``; a line that they do not understand goes
through Python's own parser, which rewrites it in a plain form or says what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from topicstream.arrow import pc
from topicstream.ingestion.opening.source import Source
from topicstream.ingestion.parsing import json_scan as js
from topicstream.ingestion.parsing.columns import LISTS, WrongField, as_id, as_list, as_scalar, as_text
from topicstream.ingestion.parsing.cut import as_array, cut, last_line_break, lines_of, not_utf8, positions, strings
from topicstream.ingestion.parsing.reader import Piece
from topicstream.ingestion.parsing.rejects import Rejects
from topicstream.ingestion.read_options import ReadOptions
from topicstream.tokens.documents import Provenance, TextRun


@dataclass
class Scanned:
    """The lines of a piece and where their wanted fields stand (shapes as in ``json_scan``)."""

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    names: list[str]
    spans: np.ndarray
    kinds: np.ndarray
    status: np.ndarray

    @staticmethod
    def of(piece: Piece, names: list[str]) -> Scanned:
        data = as_array(piece.data)
        starts, ends = lines_of(data)
        encoded = [name.encode() for name in names]
        offsets = np.cumsum([0, *map(len, encoded)])
        spans = np.zeros((len(starts), len(names), 2), np.int64)
        kinds = np.zeros((len(starts), len(names)), np.int8)
        status = np.zeros(len(starts), np.int8)
        js.scan(data, starts, ends, as_array(b"".join(encoded)), offsets, spans, kinds, status)
        return Scanned(data, starts, ends, names, spans, kinds, status)

    def take(self, rows: np.ndarray, names: list[str], joint: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The fields of rows as strings, uint8[B] and int64[D+1]."""
        fields = np.array([self.names.index(name) for name in names], np.int64)
        found: tuple[np.ndarray, np.ndarray] = js.take(self.data, rows, fields, self.spans, self.kinds, joint)
        return found

    def kind(self, name: str) -> np.ndarray:
        """int8[L], the kinds of one field."""
        return self.kinds[:, self.names.index(name)]


class JsonLines:
    name = "jsonl"
    kind = "text"
    about = "JSON lines, one object a line"

    def split(self, source: Source, options: ReadOptions) -> Iterator[Piece]:
        return cut(source, options, last_line_break)

    def parse(self, piece: Piece, options: ReadOptions) -> tuple[TextRun, Rejects]:
        rejects = Rejects()
        id_name = options.id_field or "id"
        names = list(dict.fromkeys([*options.text_fields, id_name, *options.meta.values()]))
        seen = Scanned.of(piece, names)
        odd = np.flatnonzero(self._odd(seen, options))
        rows = np.flatnonzero(seen.status == js.READ)
        text = seen.take(rows, options.text_fields) if not len(odd) else None
        if text is not None and (bad := not_utf8(*text)):
            odd, text = rows[sorted(bad)], None
        if text is None:
            piece = rewritten(piece, seen, odd, options, rejects)
            seen = Scanned.of(piece, names)
            rows = np.flatnonzero(seen.status == js.READ)
            text = seen.take(rows, options.text_fields)
            if bad := not_utf8(*text):
                piece = rewritten(piece, seen, rows[sorted(bad)], options, rejects)
                seen = Scanned.of(piece, names)
                rows = np.flatnonzero(seen.status == js.READ)
                text = seen.take(rows, options.text_fields)
        try:
            about = self._about(piece, seen, rows, id_name, options)
        except ValueError:  # not UTF-8, a number of 5000 digits in a list: rare enough to look at every line
            piece = rewritten(piece, seen, rows, options, rejects)
            seen = Scanned.of(piece, names)
            rows = np.flatnonzero(seen.status == js.READ)
            text = seen.take(rows, options.text_fields)
            about = self._about(piece, seen, rows, id_name, options)
        return TextRun(about, *text), rejects

    @staticmethod
    def _odd(seen: Scanned, options: ReadOptions) -> np.ndarray:
        """bool[L]: lines for Python to look at: not understood, or a field missing or of the wrong type."""
        odd = seen.status == js.ODD
        for name in options.text_fields:
            odd |= (seen.status == js.READ) & ~np.isin(seen.kind(name), (js.PLAIN, js.ESCAPED, js.NULL))
        id_kinds = [js.PLAIN, js.ESCAPED, js.WHOLE] + ([] if options.id_wanted else [js.ABSENT])
        odd |= (seen.status == js.READ) & ~np.isin(seen.kind(options.id_field or "id"), id_kinds)
        for col, name in options.meta.items():
            wrong = (js.OBJECT, js.BOOLEAN, js.NESTED) if col in LISTS else (js.OBJECT, js.ARRAY, js.NESTED)
            odd |= (seen.status == js.READ) & np.isin(seen.kind(name), wrong)
        return np.asarray(odd)

    @staticmethod
    def _about(piece: Piece, seen: Scanned, rows: np.ndarray, id_name: str, options: ReadOptions) -> Provenance:
        numbers = rows.astype(np.int64) + piece.line
        ids = checked(seen.take(rows, [id_name]))
        absent = seen.kind(id_name)[rows] == js.ABSENT
        if absent.any():
            ids = pc.if_else(pa.array(absent), positions(piece.key, numbers), ids)
        meta = {}
        for col, name in options.meta.items():
            kinds = seen.kind(name)[rows]
            if col in LISTS:
                meta[col] = list_column(seen, rows, name, options.list_separator)
            else:
                values = checked(seen.take(rows, [name]))
                none = pa.array((kinds == js.ABSENT) | (kinds == js.NULL))
                meta[col] = pc.if_else(none, pa.scalar(None, pa.large_string()), values)
        whole = bool(len(rows)) and bool((seen.kind(id_name)[rows] == js.WHOLE).all())
        return Provenance(ids=ids, source=positions(piece.key, numbers), meta=meta, whole=whole)


def checked(text: tuple[np.ndarray, np.ndarray]) -> pa.LargeStringArray:
    """A string column; UnicodeError when it is not UTF-8."""
    if not_utf8(*text):
        raise UnicodeError
    return strings(*text)


def list_column(seen: Scanned, rows: np.ndarray, name: str, separator: str) -> pa.Array:
    """A column of lists of strings: read by Arrow where all values are arrays of strings, else one by one; ValueError."""
    field = seen.names.index(name)
    kinds = seen.kinds[rows, field]
    raw = []
    for (begin, end), kind in zip(seen.spans[rows, field].tolist(), kinds.tolist()):
        value = seen.data[begin:end].tobytes() if kind not in (js.ABSENT, js.NULL) else b"null"
        raw.append(b'"%s"' % value if kind in (js.PLAIN, js.ESCAPED) else value)
    if len(raw) and np.isin(kinds, (js.ABSENT, js.NULL, js.ARRAY)).all():
        lines = b"".join(b'{"v":%s}\n' % value for value in raw)
        wanted = pa.list_(pa.large_string())
        read = pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
        parse = pa.json.ParseOptions(explicit_schema=pa.schema([("v", wanted)]))
        try:
            found = pa.json.read_json(pa.BufferReader(lines), read, parse)["v"].combine_chunks()
            found = pc.fill_null(found, pa.scalar([], wanted)) if found.null_count else found
            found.validate(full=True)
            if not found.flatten().null_count and not pc.any(pc.equal(found.flatten(), "")).as_py():
                return found
        except pa.ArrowInvalid:
            pass
    lists = [as_list(json.loads(value), name, separator) for value in raw]
    return pa.array(lists, pa.list_(pa.large_string()))


def rewritten(piece: Piece, seen: Scanned, odd: np.ndarray, options: ReadOptions, rejects: Rejects) -> Piece:
    """The piece with its odd lines in a plain form, or empty where they are bad (and reported)."""
    parts, at = [], 0
    for i in odd.tolist():
        line = piece.data[seen.starts[i] : seen.ends[i]]
        try:
            plain = plain_line(line, options)
        except WrongField as e:
            rejects.add(piece.name, piece.line + i, str(e), line)
            plain = b""
        parts += [piece.data[at : seen.starts[i]], plain]
        at = seen.ends[i]
    return replace(piece, data=b"".join([*parts, piece.data[at:]]))


def plain_line(line: bytes, options: ReadOptions) -> bytes:
    """One line's wanted fields as JSON that ``json_scan`` understands.  Raises WrongField with the reason."""
    record = record_of(line)
    found: dict[str, Any] = {}
    for name in options.text_fields:
        if name not in record:
            raise WrongField(f"no field '{name}'; choose one of {', '.join(sorted(record))[:200]} (--text-field)")
        found[name] = as_text(record[name], name)
    id_name = options.id_field or "id"
    if options.id_wanted or id_name in record:
        if id_name not in record:
            raise WrongField(f"no field '{id_name}' (--id-field)")
        found[id_name] = as_id(record[id_name], id_name)
    for col, name in options.meta.items():
        value = record.get(name)
        plain = as_list(value, name, options.list_separator) if col in LISTS else as_scalar(value, name)
        found.setdefault(name, plain)
    return json.dumps(found, ensure_ascii=False).encode()


def record_of(line: bytes) -> dict[str, Any]:
    """The object of one line.  Raises WrongField with the reason."""
    try:
        value = json.loads(line.decode())
    except RecursionError:
        raise WrongField("JSON nested too deeply") from None
    except UnicodeDecodeError as e:
        raise WrongField(
            f"not valid UTF-8 (byte 0x{e.object[e.start]:02x}); give --encoding, latin-1 perhaps"
        ) from None
    except ValueError as e:
        raise WrongField(f"not JSON ({e})") from None
    if not isinstance(value, dict):
        raise WrongField("not a JSON object; a line must be one {…}")
    return value


READER = JsonLines()
