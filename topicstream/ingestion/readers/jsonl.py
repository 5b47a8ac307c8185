"""JSON lines: one object a line, parsed by orjson.

What orjson refuses and Python's own parser takes (NaN, Infinity, lone surrogates) is read by that,
which also says what is wrong with the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from unicodedata import normalize

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.ingestion.open.source import Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import (
    LISTS,
    WrongField,
    as_id,
    as_list,
    as_scalar,
    as_text,
)
from topicstream.ingestion.parse.documents import (
    LIST,
    NO_ID,
    TEXT,
    batch_of,
    lines_of,
    positions,
    why_not_utf8,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import MOST_NAMES

_OBJECT = re.compile(rb'\s*\{\s*("|\}|$)')


class JsonLines(Reader):
    name = "jsonl"
    about = "JSON lines, one object a line"
    suffixes = (".jsonl", ".ndjson")

    def resembles(self, head: bytes) -> bool:
        return bool(_OBJECT.match(head))

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        for numbers, lines in lines_of(source, options):
            objects = Objects(source, options)
            for number, line in zip(numbers.tolist(), lines):
                if not line or line.isspace():
                    continue
                try:
                    objects.add(number, record_of(line))
                except WrongField as e:
                    source.reject(number, str(e), line)
            yield objects.batch()


def record_of(line: bytes) -> dict[str, object]:
    """The object of one line.  Raises WrongField with the reason."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        if (reason := why_not_utf8(line)) is not None:
            raise WrongField(reason) from None
        try:
            value = json.loads(line)
        except RecursionError:
            raise WrongField("JSON nested too deeply") from None
        except ValueError as e:
            raise WrongField(f"not JSON ({e})") from None
    if not isinstance(value, dict):
        raise WrongField("not a JSON object; a line must be one {…}")
    return value


READER = JsonLines()


def field_at(value: object, path: str) -> object:
    """What stands at a path such as ``meta.author.name``; through a list, what stands there in each
    item.

    >>> field_at({"meta": {"authors": [{"name": "Ada"}, {"name": "Bo"}]}}, "meta.authors.name")
    ['Ada', 'Bo']
    """
    for name in path.split("."):
        if isinstance(value, list):
            value = [item[name] for item in value if isinstance(item, dict) and name in item]
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


_INT64 = range(-(1 << 63), 1 << 63)


class Objects:
    """Objects with named fields, of JSON or dicts, collected for one batch of documents."""

    def __init__(self, source: Input, options: ReadOptions, mark: str = ":") -> None:
        self.source = source
        self.options = options
        self.mark = mark
        self.numbers: list[int] = []
        self.rows: list[tuple[str, str | int | None, list[list[str] | str | None]]] = []
        self.size = 0
        self.fields: set[str] = set()
        self.asked = {*options.text_fields, *options.meta.values(), options.id_field or "id"}
        self.paths = {name for name in self.asked if "." in name}
        self.spellings = {
            name: {normalize(form, name) for form in ("NFC", "NFD")} - {name}
            for name in self.asked
            if not name.isascii()
        }

    def add(self, number: int, record: Mapping[str, object]) -> None:
        """Take the fields that the options name from a record at line ``number``.

        Raises WrongField with the reason.
        """
        options = self.options
        if len(self.fields) <= MOST_NAMES + len(self.asked):
            self.fields.update(record)
        for path in self.paths - record.keys():
            if (value := field_at(record, path)) is not None:
                record = {**record, path: value}
        for name in self.spellings.keys() - record.keys():
            record = self._with_spelling(record, name)
        for name in options.text_fields:
            if name not in record:
                raise WrongField(
                    f"no field '{name}'; choose one of {', '.join(sorted(record))[:200]} "
                    f"(--text-field)"
                )
        text = "\n".join([as_text(record[name], name) for name in options.text_fields])
        own_id = None
        if (id_name := options.id_column(record)) is not None:
            if id_name not in record:
                raise WrongField(f"no field '{id_name}' (--id-field)")
            own_id = as_id(record[id_name], id_name)
            self.source.note(NO_ID, own_id is None)
            self.asked.add(id_name)
        meta = [
            as_list(record.get(name), name, options.list_separator)
            if column in LISTS
            else as_scalar(record.get(name), name)
            for column, name in options.meta.items()
        ]
        self.rows.append((text, own_id, meta))
        self.numbers.append(number)
        self.size += len(text) + 64

    def _with_spelling(self, record: Mapping[str, object], name: str) -> Mapping[str, object]:
        """Give a record a field by the name that is asked for, if its own is composed otherwise."""
        for other in self.spellings[name]:
            if other in record:
                return {**record, name: record[other]}
            if (value := field_at(record, other)) is not None:
                return {**record, name: value}
        return record

    def batch(self) -> pa.RecordBatch:
        """The documents."""
        options = self.options
        asked = self.asked.union(*self.spellings.values())
        self.source.leave_out(
            self.fields - asked - {path.partition(".")[0] for path in asked if "." in path}
        )
        source = positions(self.source.key, np.array(self.numbers, np.int64), self.mark)
        ids = [own_id for _, own_id, _ in self.rows]
        if ids and all(isinstance(own_id, int) and own_id in _INT64 for own_id in ids):
            named = pa.array(ids, pa.int64())
        else:
            named = pc.coalesce(
                pa.array([None if own_id is None else str(own_id) for own_id in ids], TEXT), source
            )
        meta = {}
        for i, column in enumerate(options.meta):
            values = [row[i] for _, _, row in self.rows]
            if any(values) or column not in options.recalled_columns:
                meta[column] = pa.array(values, LIST if column in LISTS else TEXT)
        return batch_of(
            named, source, {"text": pa.array([text for text, _, _ in self.rows], TEXT)}, meta
        )
