"""JSON lines: one object a line.

A line is checked by msgspec, which leaves the text where it stands; a kernel resolves its escapes,
so that no string of Python is made of it. Any other line is parsed by orjson. What both refuse and
Python's own parser takes (NaN, Infinity, lone surrogates) is read by that, which also says what is
wrong with the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unicodedata import normalize

import msgspec
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
    clean_strings,
)
from topicstream.ingestion.parse.documents import (
    LIST,
    NO_ID,
    TEXT,
    batch_of,
    line_blocks,
    lines_of_block,
    most_records,
    positions,
    why_not_utf8,
)
from topicstream.ingestion.parse.reader import Reader
from topicstream.ingestion.parse.rejects import MOST_NAMES
from topicstream.ingestion.tokens.characters import encode
from topicstream.ingestion.tokens.vocabulary import word_array
from topicstream.ingestion.tokens.wordtable import load8, store8
from topicstream.numeric.kernels.arrays import Bytes, Int, Longs
from topicstream.numeric.kernels.jit import kernel

_OBJECT = re.compile(rb'\s*\{\s*("|\}|$)')


class JsonLines(Reader):
    """Reader of JSON lines, a document an object."""

    name = "jsonl"
    about = "JSON lines, one object a line"
    suffixes = (".jsonl", ".ndjson")

    def resembles(self, head: bytes) -> bool:
        return bool(_OBJECT.match(head))

    def batches(self, source: Source, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        for first, block in line_blocks(source, options):
            texts = TextsInPlace(block, options)
            if texts.usable:
                yield _placed_batch(source, options, first, block, texts)
                continue
            for numbers, lines in lines_of_block(source, options, first, block):
                objects = Objects(source, options)
                for number, line in zip(numbers.tolist(), lines):
                    _add_line(objects, number, line)
                yield objects.batch()


def _placed_batch(
    source: Source, options: ReadOptions, first: int, block: bytes, texts: TextsInPlace
) -> pa.RecordBatch:
    """Make a batch of a block whose texts are read where they stand."""
    objects = Objects(source, options)
    for number, (start, stop) in enumerate(texts.lines, first):
        record = texts.record_at(start, stop)
        if record is None:
            _add_line(objects, number, block[start:stop].removesuffix(b"\r"))
            continue
        try:
            objects.add(number, record)
        except WrongField as e:
            source.reject(number, str(e), block[start:stop].removesuffix(b"\r"))
    return objects.batch(texts)


def _add_line(objects: Objects, number: int, line: bytes) -> None:
    """Add the record of a line, or reject it."""
    if line and not line.isspace():
        try:
            objects.add(number, record_of(line))
        except WrongField as e:
            objects.source.reject(number, str(e), line)


class PlacedText(NamedTuple):
    """Start and stop of a text in its block, without its quotes."""

    start: int
    stop: int


class TextsInPlace:
    """The texts of the JSON lines of a block, read where they stand.

    Parameters
    ----------
    block
        Lines, each with a line feed.

    Attributes
    ----------
    usable
        Whether the block is UTF-8 in lines that are not too long, and one field is the text.
    lines
        Where each line starts and stops.
    """

    def __init__(self, block: bytes, options: ReadOptions) -> None:
        self._block = block
        self._bytes = np.frombuffer(block, np.uint8)
        self._address = self._bytes.__array_interface__["data"][0]
        self._text = options.text_fields[0] if options.text_fields else ""
        # a record without the id field of earlier inputs may have an "id"
        self._fields = {options.id_field or "id", "id", *options.meta.values()}
        self._fields |= {name.partition(".")[0] for name in self._fields}
        self._starts: list[int] = []
        self._stops: list[int] = []
        ends = np.flatnonzero(self._bytes == ord("\n"))
        sizes = np.diff(ends, prepend=-1)
        self.usable = (
            len(options.text_fields) == 1
            and "." not in self._text
            and self._text not in self._fields
            and all(map(str.isascii, (self._text, *self._fields)))  # others have two spellings
            and len(ends) <= most_records(options)
            and int(sizes.max()) <= options.record_bytes
            and _is_utf8(block)
        )
        self.lines = zip((ends - sizes + 1).tolist(), ends.tolist())

    def record_at(self, start: int, stop: int) -> dict[str, object] | None:
        """Return the fields of a line, its text a ``PlacedText``.

        None: not an object with a text.
        """
        try:
            record = _FIELDS.decode(memoryview(self._block)[start:stop])
            raw = memoryview(record[self._text])
            if raw[0] != ord('"'):
                return None
            fields: dict[str, object] = dict.fromkeys(record)
            for name in self._fields & record.keys():
                fields[name] = orjson.loads(memoryview(record[name]))
        except (msgspec.MsgspecError, RecursionError, KeyError, orjson.JSONDecodeError):
            return None
        place = np.frombuffer(raw, np.uint8).__array_interface__["data"][0] - self._address
        fields[self._text] = PlacedText(place + 1, place + len(raw) - 1)
        return fields

    def array(self, texts: Sequence[str | PlacedText]) -> pa.Array:
        """All texts of the block, of those in place with their escapes resolved."""
        spans = [text if isinstance(text, PlacedText) else (0, 0) for text in texts]
        places = np.array(spans, np.int64).reshape(-1, 2)
        offsets = np.zeros(len(texts) + 1, np.int64)
        out = np.empty(int((places[:, 1] - places[:, 0]).sum()) + _SPARE, np.uint8)
        _resolve_escapes(self._bytes, places, out, offsets)
        array = word_array(out[: offsets[-1]], offsets)
        others = [isinstance(text, str) for text in texts]
        if any(others):
            strings = clean_strings([text for text in texts if isinstance(text, str)], TEXT)
            array = pc.replace_with_mask(array, pa.array(others), strings)
        return array


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SPARE = 8
_EIGHT_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)


def _is_utf8(block: bytes) -> bool:
    ends = pa.py_buffer(np.array([0, len(block)], np.int64))
    whole = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(block)])
    try:
        whole.validate(full=True)
        return True
    except pa.ArrowInvalid:
        return False


@kernel
def _resolve_escapes(text: Bytes, places: Longs, out: Bytes, offsets: Longs) -> None:
    """Copy JSON strings that were checked, their escapes resolved.

    places: int64[D, 2], where each starts and stops; out: bytes of all of them and eight more;
    offsets: int64[D + 1], where each starts in ``out``.
    """
    at = np.int64(0)
    for d in range(len(places)):
        i = places[d, 0]
        stop = places[d, 1]
        while i < stop:
            # eight bytes at a time, as long as none is a backslash
            while i + 8 <= stop:
                eight = load8(text, i)
                other = eight ^ _EIGHT_BACKSLASHES
                if (other - _ONES) & ~other & _HIGHS != 0:
                    break
                store8(out, at, eight)
                i += 8
                at += 8
            # then byte by byte to the next backslash
            while i < stop and text[i] != 92:
                out[at] = text[i]
                i += 1
                at += 1
            if i < stop:
                i, at = _resolve_escape(text, i, out, at)
        offsets[d + 1] = at


@kernel
def _resolve_escape(text: Bytes, i: int, out: Bytes, at: int) -> tuple[Int, Int]:
    """Write the character of the escape at ``i``.

    Returns where to go on reading and writing.
    """
    kind = text[i + 1]
    if kind == ord("u"):
        c = _hex4(text, i + 2)
        i += 6
        if 0xD800 <= c < 0xDC00:  # its other half follows, as msgspec has checked
            c = 0x10000 + ((c - 0xD800) << 10) + (_hex4(text, i + 2) - 0xDC00)
            i += 6
        return i, encode(out, at, c)
    if kind == ord("n"):
        out[at] = 10
    elif kind == ord("t"):
        out[at] = 9
    elif kind == ord("r"):
        out[at] = 13
    elif kind == ord("b"):
        out[at] = 8
    elif kind == ord("f"):
        out[at] = 12
    else:  # a quote, a slash, a backslash
        out[at] = kind
    return i + 2, at + 1


@kernel
def _hex4(text: Bytes, i: int) -> Int:
    """Return the number of four hexadecimal digits."""
    value = np.int64(0)
    for k in range(4):
        digit = np.int64(text[i + k])
        value = 16 * value + (digit - 48 if digit < 58 else (digit | 32) - 87)
    return value


def record_of(line: bytes) -> dict[str, object]:
    """Parse the object of one line.

    Raises WrongField with the reason.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        reason = why_not_utf8(line)
        if reason is not None:
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
    """Return what stands at a path such as ``meta.author.name``.

    Through a list it is what stands there in each item.

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
    """Objects with named fields, of JSON or dicts, collected for one batch of documents.

    Parameters
    ----------
    source
        Input of the objects.
    options
        Names of the fields of text, id and metadata.
    mark
        ":" where numbers are lines, "#" where they are records.
    """

    def __init__(self, source: Input, options: ReadOptions, mark: str = ":") -> None:
        self.source = source
        self.options = options
        self.mark = mark
        self.numbers: list[int] = []
        self.rows: list[tuple[str | PlacedText, str | int | None, list[Any]]] = []
        self.size = 0
        self.fields: set[str] = set()
        self.text_fields = options.text_fields
        self.fields_read = {*self.text_fields, *options.meta.values(), options.id_field or "id"}
        self.paths = {name for name in self.fields_read if "." in name}
        self.spellings = {
            name: {normalize(form, name) for form in ("NFC", "NFD")} - {name}
            for name in self.fields_read
            if not name.isascii()
        }

    def add(self, number: int, record: Mapping[str, object]) -> None:
        """Take the fields that the options name from a record at line ``number``.

        Raises
        ------
        WrongField
            If a field is missing or of a type that cannot be used.
        """
        options = self.options
        if len(self.fields) <= MOST_NAMES + len(self.fields_read):
            self.fields.update(record)
        for path in self.paths - record.keys():
            value = field_at(record, path)
            if value is not None:
                record = {**record, path: value}
        for name in self.spellings.keys() - record.keys():
            record = self._with_spelling(record, name)
        for name in self.text_fields:
            if name not in record:
                raise WrongField(
                    f"no field '{name}'; choose one of {', '.join(sorted(record))[:200]} "
                    f"(--text-field)"
                )
        placed = record[self.text_fields[0]] if len(self.text_fields) == 1 else None
        if isinstance(placed, PlacedText):
            text: str | PlacedText = placed
            size = placed.stop - placed.start
        else:
            text = "\n".join([as_text(record[name], name) for name in self.text_fields])
            size = len(text)
        own_id = None
        id_name = options.id_column(record)
        if id_name is not None:
            if id_name not in record:
                raise WrongField(f"no field '{id_name}' (--id-field)")
            own_id = as_id(record[id_name], id_name)
            self.source.note(NO_ID, own_id is None)
            self.fields_read.add(id_name)
        meta = [
            as_list(record.get(name), name, options.list_separator)
            if column in LISTS
            else as_scalar(record.get(name), name)
            for column, name in options.meta.items()
        ]
        self.rows.append((text, own_id, meta))
        self.numbers.append(number)
        self.size += size + 64

    def _with_spelling(self, record: Mapping[str, object], name: str) -> Mapping[str, object]:
        """Give a record a field by the name that is asked for, if its own is composed otherwise."""
        for spelling in self.spellings[name]:
            if spelling in record:
                return {**record, name: record[spelling]}
            value = field_at(record, spelling)
            if value is not None:
                return {**record, name: value}
        return record

    def batch(self, in_place: TextsInPlace | None = None) -> pa.RecordBatch:
        """Make a batch of the documents.

        ``in_place`` has the texts that were read where they stand.
        """
        options = self.options
        names_read = self.fields_read.union(*self.spellings.values())
        outer_names = {path.partition(".")[0] for path in names_read if "." in path}
        self.source.leave_out(self.fields - names_read - outer_names)
        source = positions(self.source.key, np.array(self.numbers, np.int64), self.mark)
        ids = [own_id for _, own_id, _ in self.rows]
        if ids and all(isinstance(own_id, int) and own_id in _INT64 for own_id in ids):
            id_column = pa.array(ids, pa.int64())
        else:
            texts_of_ids = [None if own_id is None else str(own_id) for own_id in ids]
            id_column = pc.coalesce(pa.array(texts_of_ids, TEXT), source)
        meta = {}
        for i, column in enumerate(options.meta):
            values = [row[i] for _, _, row in self.rows]
            if any(values) or column not in options.recalled_columns:
                meta[column] = pa.array(values, LIST if column in LISTS else TEXT)
        texts = [text for text, _, _ in self.rows]
        array = clean_strings(texts, TEXT) if in_place is None else in_place.array(texts)
        return batch_of(id_column, source, {"text": array}, meta)
