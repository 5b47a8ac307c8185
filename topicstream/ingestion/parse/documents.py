"""Lines of a source, and the record batches that readers make of them.

Lines come in pieces of a bounded number of bytes. A batch is an Arrow record batch, a row a
document. Its first columns are ``id``, ``source`` and what the document holds: ``text``; or
``words`` (positions in the source's vocabulary, ascending) and ``counts``; or ``vector``. All
further columns are metadata by their names in the store. ``as_documents`` makes a batch from
columns as the input has them, and leaves out the rows that cannot be used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.base.errors import InputError
from topicstream.corpus.documents import remove_empty
from topicstream.ingestion.open.source import Input, Source
from topicstream.ingestion.options import ReadOptions
from topicstream.ingestion.parse.columns import LISTS, as_list, as_lists

RECORD_BYTES = 32
"""Least bytes that a record counts for: even a short one needs an id, a source and offsets."""


LONG_BYTES = 9
"""Bytes that a byte of a long record takes until it is counted."""


def most_records(options: ReadOptions) -> int:
    """Return how many records a piece may have."""
    return max(1, options.piece_bytes // RECORD_BYTES)


def line_blocks(
    source: Source, options: ReadOptions, first: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Cut a source into blocks of whole lines, of about ``piece_bytes``.

    Of a line longer than ``record_bytes`` only the beginning is there. Behind the damage of an
    archive the last line is left out.

    Yields
    ------
    tuple
        Number of the first line, and the lines, each with a line feed.
    """
    open_line = b""
    while True:
        source.line = first
        # a long line is read in steps of its own length
        data = source.read(max(options.piece_bytes, len(open_line)))
        block = open_line + data if open_line else data
        end = block.rfind(b"\n") + 1
        open_line = block[end:]
        block = block[:end]
        if not data and open_line and not source.damage:
            block += open_line + b"\n"
        if options.room is not None and len(open_line) > 2 * options.piece_bytes:
            options.room.check(LONG_BYTES * len(open_line), f"a record of {source.name}")
        if len(open_line) > options.record_bytes:
            block += open_line + b"\n"
            open_line = _skip_line(source, options)
        if block:
            yield first, block
            first += block.count(b"\n")
        if not data:
            return


def lines_of(
    source: Source, options: ReadOptions, first: int = 1
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """Yield the lines of a source in pieces of about ``piece_bytes``.

    Lines longer than ``record_bytes`` are rejected. Behind the damage of an archive the last line
    is left out.

    Parameters
    ----------
    source
        Source, read from where it stands.
    options
        Sizes of pieces and records, and the room for them.
    first
        Number of the first line that will be read.

    Yields
    ------
    tuple
        Numbers int64[n] and the lines, without their line break and carriage return.
    """
    for number, block in line_blocks(source, options, first):
        yield from lines_of_block(source, options, number, block)


def lines_of_block(
    source: Source, options: ReadOptions, first: int, block: bytes
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """Yield the lines of a block of ``line_blocks`` as ``lines_of`` does."""
    lines = block.split(b"\n")
    lines.pop()
    yield from _reject_long_lines(source, options, lines, first)


def _skip_line(source: Source, options: ReadOptions) -> bytes:
    """Skip the rest of a line that is too long to be held, and return the bytes after it."""
    while (data := source.read(options.piece_bytes)) and b"\n" not in data:
        pass
    return data.partition(b"\n")[2]


def _reject_long_lines(
    source: Source, options: ReadOptions, lines: list[bytes], first: int
) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """Reject lines longer than ``record_bytes``, and yield the others by their numbers."""
    numbers = np.arange(first, first + len(lines), dtype=np.int64)
    if max(map(len, lines), default=0) > options.record_bytes:
        for number, line in zip(numbers.tolist(), lines):
            if len(line) > options.record_bytes:
                limit = f"a record of more than {options.record_bytes >> 20} MiB"
                source.reject(number, f"{limit}; raise --max-document", line)
        short = [i for i, line in enumerate(lines) if len(line) <= options.record_bytes]
        numbers = numbers[short]
        lines = [lines[i] for i in short]
    step = most_records(options)
    for start in range(0, len(lines), step):
        part = lines[start : start + step]
        yield numbers[start : start + step], [line.removesuffix(b"\r") for line in part]


TEXT = pa.large_string()
LIST = pa.list_(pa.large_string())
_STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_null)
NOTE = "not UTF-8, read as windows-1252 (--encoding says otherwise)"
NO_ID = "documents with a blank id, named by file and line"
MANY_COLUMNS = 99
"""Columns beyond which a table probably has words or genes as columns, not fields."""
MOST_HIGH = 0.25
"""Share of the bytes that are no ASCII: in Western text under a tenth; in Cyrillic, Greek or
Chinese bytes the most.
"""
_HIGH = re.compile(rb"[\x80-\xff]")
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d\0]")


# -- making batches
# --------------------------------------------------------------------------------------------------
def batch_of(
    ids: Any, sources: Any, content: Mapping[str, pa.Array], meta: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """Make a batch of documents.

    Parameters
    ----------
    ids, sources
        Strings (or, ids, whole numbers), one a document.
    content
        ``text``: strings, null in a row that withdraws the document of its id; or ``words``: lists
        of int32 and ``counts``: lists of int64 or float32; or ``vector``: lists of float32 of one
        size.
    meta
        Metadata columns by name: strings, or lists of strings (``LISTS``).
    """
    columns = [ids if isinstance(ids, pa.Array) else pa.array(ids, TEXT)]
    columns += [
        sources if isinstance(sources, pa.Array) else pa.array(sources, TEXT),
        *content.values(),
        *meta.values(),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["id", "source", *content, *meta])


def empty_batch(kind: str) -> pa.RecordBatch:
    """Make a batch of no documents, of text or of counts."""
    if kind == "text":
        return batch_of([], [], {"text": pa.array([], TEXT)}, {})
    content = {
        "words": pa.array([], pa.large_list(pa.int32())),
        "counts": pa.array([], pa.large_list(pa.int64())),
    }
    return batch_of([], [], content, {})


def positions(key: str, numbers: np.ndarray, mark: str = ":") -> pa.Array:
    """Make ``key:number`` of each number, large_string[D]."""
    text = pc.cast(pa.array(numbers), TEXT)
    return pc.binary_join_element_wise(pa.scalar(key, TEXT), text, pa.scalar(mark, TEXT))


def ids_or_places(source: Input, ids: pa.Array, places: pa.Array) -> pa.Array:
    """Return ids, whole numbers or strings.

    Documents whose id is null or blank are called by their places: none is a duplicate.
    """
    if pa.types.is_integer(ids.type) and not ids.null_count:
        return ids
    texts = pc.fill_null(pc.cast(ids, TEXT), "")
    blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
    source.note(NO_ID, pc.sum(blank).as_py() or 0)
    return pc.if_else(blank, places, texts)


def as_documents(
    source: Input,
    options: ReadOptions,
    columns: Mapping[str, pa.Array],
    numbers: np.ndarray,
    *,
    mark: str = ":",
) -> pa.RecordBatch:
    """Make documents of text from rows of a table: the fields that the options name, checked.

    Parameters
    ----------
    source
        Input of the rows, which takes the bad ones as rejects.
    options
        Names of the columns of text, id and metadata.
    columns
        Columns by their names in the input: strings, or bytes that should be UTF-8; ids may be
        whole numbers, and metadata are cast.
    numbers
        Line or record of each row, int64[R].
    mark
        ":" where the numbers are lines, "#" where they are records.

    Raises
    ------
    InputError
        If a column holds something else, or at the first bad row of an input read strictly.
    """
    options = options.fit(columns)
    id_name = options.id_column(columns)
    texts = list(options.text_fields)
    cast = dict(columns)
    for name, array in columns.items():
        option = "--meta"
        if name in texts:
            option = "--text-field"
        elif name == id_name:
            option = "--id-field"
        integer_id = name == id_name and pa.types.is_integer(array.type)
        must_be_strings = option != "--meta" and not integer_id
        if must_be_strings or _is_one_of(array.type, _BINARY):
            cast[name] = as_strings(array, source.name, name, option)
    cast, numbers = _valid(source, options, cast, numbers, mark)
    places = positions(source.key, numbers, mark)
    ids = places if id_name is None else ids_or_places(source, cast[id_name], places)
    if len(texts) > 1:
        fields = [pc.fill_null(cast[name], "") for name in texts]
        joined_text = pc.binary_join_element_wise(*fields, pa.scalar("\n", TEXT))
    elif texts:
        joined_text = pc.fill_null(cast[texts[0]], "")
    else:
        joined_text = pa.repeat("", len(numbers)).cast(TEXT)
    meta = {
        column: as_metadata(
            cast[name], column, f"{source.name}: column '{name}'", options.list_separator
        )
        for column, name in options.meta.items()
    }
    return batch_of(ids, places, {"text": joined_text}, meta)


def _valid(
    source: Input,
    options: ReadOptions,
    columns: dict[str, pa.Array],
    numbers: np.ndarray,
    mark: str,
) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return the columns as UTF-8, and reject rows that are not, or are too long."""
    bad: dict[int, str] = {}
    for name in options.text_fields:
        sizes = pc.fill_null(pc.binary_length(columns[name]), 0)
        too_long = pc.greater(sizes, options.record_bytes).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(too_long).tolist():
            bad[row] = (
                f"a record of more than {options.record_bytes >> 20} MiB; raise --max-document"
            )
    strings = [name for name, values in columns.items() if pa.types.is_large_string(values.type)]
    broken = sorted(set().union(*(not_utf8(columns[name]) for name in strings)))
    for row in broken:
        fields = [raw_value(columns[name], row) for name in strings]
        values = [value for value in fields if value is not None]
        if options.encoding is None and western(b"\n".join(values)) is not None:
            source.note(f"documents {NOTE}")
        else:
            bad.setdefault(row, next(filter(None, map(why_not_utf8, values))))
    for row in sorted(bad):
        start = (raw_value(columns[strings[0]], row) if strings else None) or b""
        if mark == ":":
            source.reject(int(numbers[row]), bad[row], start)
        else:
            source.reject(0, bad[row], start, file=f"{source.name}#{numbers[row]}")
    if bad:
        valid = np.setdiff1d(np.arange(len(numbers)), list(bad))
        columns = {name: values.take(pa.array(valid)) for name, values in columns.items()}
        numbers = numbers[valid]
    if broken:
        for name in strings:
            rows = (raw_value(columns[name], row) for row in range(len(numbers)))
            columns[name] = pa.array([_decode(value) for value in rows], TEXT)
    return columns, numbers


def raw_value(strings: pa.Array, row: int) -> bytes | None:
    """Return the bytes of a value of a column of strings, UTF-8 or not."""
    value = strings[row].as_buffer()
    return None if value is None else value.to_pybytes()


def _decode(value: bytes | None) -> str | None:
    """Decode bytes that are UTF-8, or else windows-1252."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value.decode("cp1252", "replace")  # type: ignore[union-attr]


def why_not_utf8(value: bytes) -> str | None:
    """Explain why bytes are not UTF-8, None of those that are."""
    try:
        value.decode()
        return None
    except UnicodeDecodeError as e:
        text = value.decode(errors="replace")
        foreign = sum(not letter.isascii() for letter in text)
        damaged = foreign > 2 * text.count("\ufffd")  # of another encoding hardly any letter fits
        advice = (
            ", though most of it is: mend the file"
            if damaged
            else "; give --encoding, such as cp1252, cp1251, cp932 or gb18030"
        )
        return f"not valid UTF-8 (byte 0x{value[e.start]:02x}){advice}"


def not_utf8(strings: pa.Array) -> list[int]:
    """Find the rows of a column of strings that are not valid UTF-8.

    Arrow checks the whole column first, which is quick.
    """
    try:
        strings.validate(full=True)
        return []
    except pa.ArrowInvalid:
        values = (raw_value(strings, row) for row in range(len(strings)))
        return [
            row for row, value in enumerate(values) if value is not None and why_not_utf8(value)
        ]


def as_strings(array: pa.Array, source: str, name: str, option: str) -> pa.Array:
    """Cast a column to large_string, lists of strings as lines.

    The strings are not yet checked to be UTF-8.

    Raises
    ------
    InputError
        If the column holds neither strings nor bytes nor, for a text, lists of strings.
    """
    array = decoded(array)
    if (
        pa.types.is_list(array.type)
        and option == "--text-field"
        and _is_one_of(array.type.value_type, _STRINGS)
    ):
        array = _join_lines(array)
    kind = array.type
    if _is_one_of(kind, _STRINGS):
        return array.cast(TEXT)
    if _is_one_of(kind, _BINARY):
        array = array.cast(pa.large_binary())
        return pa.LargeStringArray.from_buffers(
            len(array), *array.buffers()[1:], array.buffers()[0], -1, array.offset
        )
    raise InputError(f"{source}: column '{name}' holds {kind}; choose another {option}")


def _join_lines(array: pa.Array) -> pa.Array:
    """Join the strings of each list as lines, without nulls and empty ones."""
    texts: list[str | None] = []
    for lines in array.to_pylist():
        texts.append(None if lines is None else "\n".join(filter(None, lines)))
    return pa.array(texts, TEXT)


def decoded(array: pa.Array) -> pa.Array:
    """Return a column in one piece, a dictionary's values in place of their codes."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # categories of polars, which Arrow cannot take from
        values = values.cast(TEXT)
    return values.take(array.indices)


def _is_one_of(kind: pa.DataType, kinds: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    """Tell whether any of some predicates holds for a type."""
    return any(is_kind(kind) for is_kind in kinds)


def as_metadata(array: pa.Array, column: str, where: str, separator: str) -> pa.Array:
    """Cast a column of the input to metadata: strings, or lists of strings.

    Raises
    ------
    InputError
        With ``where`` in front, if the column cannot be cast.
    """
    array = decoded(array)
    try:
        if isinstance(array.type, pa.BaseExtensionType):  # a period of pandas would be its number
            raise ValueError
        if pa.types.is_floating(array.type):  # a number that is none is a missing value
            array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
        if column not in LISTS:
            array = array.cast(TEXT)
        elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            array = as_lists(array.cast(TEXT), separator)
        elif array.type == LIST or array.type == pa.list_(pa.string()):
            array = remove_empty(array.cast(LIST))
        else:
            array = pa.array(
                [as_list(value, column, separator) for value in array.to_pylist()], LIST
            )
        array.validate(full=True)
        return array
    except (pa.ArrowException, ValueError):
        raise InputError(
            f"{where} ({array.type}) cannot be read as {column}; make it a string"
        ) from None


# -- reading batches
# --------------------------------------------------------------------------------------------------
class DocumentCells(NamedTuple):
    """Counts of documents over the words of their source.

    Attributes
    ----------
    indptr
        First cell of each document, and the end, int64[D+1].
    words
        Words, ascending and unique within a document, int32[c]. Dense rows have all words.
    counts
        Numbers above 0, int64[c] or float32[c]. Dense rows have any numbers.
    """

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray


def content_kind(batch: pa.RecordBatch) -> str:
    """Return what documents of a batch hold: ``text``, ``words`` (with counts) or ``vector``."""
    return str(batch.schema.names[2])


def document_cells(batch: pa.RecordBatch) -> DocumentCells:
    """Return the cells of documents of counts or of dense rows."""
    if content_kind(batch) == "vector":
        width = batch.column(2).type.list_size
        words = np.tile(np.arange(width, dtype=np.int32), len(batch))
        return DocumentCells(
            np.arange(len(batch) + 1, dtype=np.int64) * width,
            words,
            batch.column(2).flatten().to_numpy(),
        )
    words, counts = (column.flatten().to_numpy() for column in batch.columns[2:4])
    ends = np.cumsum(batch.column(2).value_lengths().to_numpy(), dtype=np.int64)
    return DocumentCells(np.concatenate((np.zeros(1, np.int64), ends)), words, counts)


def metadata_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of metadata by name."""
    first = 4 if content_kind(batch) == "words" else 3
    return dict(zip(batch.schema.names[first:], batch.columns[first:]))


def select_fields(
    names: Sequence[str], options: ReadOptions, source: Input, line: str = ""
) -> list[str]:
    """Select the columns of an input that are read, and note the rest.

    Raises
    ------
    InputError
        For a column that is missing or there twice.
    """
    options = options.fit(names)
    fields = [*options.text_fields, *options.meta.values()]
    id_name = options.id_column(names)
    if id_name is not None:
        fields.append(id_name)
    fields = list(dict.fromkeys(fields))
    for name in fields:
        if name not in names:
            option = "--text-field" if name in options.text_fields else "--id-field and --meta"
            if len(names) > MANY_COLUMNS:
                option += "; a table of counts is read as .npz, .mtx or .h5ad"
            raise InputError(
                f"{source.name}{line}: no column '{name}'; choose one of "
                f"{', '.join(names)[:300]} ({option})"
            )
        if list(names).count(name) > 1:
            raise InputError(
                f"{source.name}{line}: several columns are called '{name}'; rename them"
            )
    source.leave_out(set(names) - set(fields))
    return fields


def western(data: bytes) -> bytes | None:
    """Recode bytes that look like windows-1252 to UTF-8, None for any others.

    Old Western text and Excel's CSV have this encoding. None is returned for bytes that look like
    another encoding, like damaged UTF-8 (more valid characters in it than broken ones), or like no
    text. Where the user names no encoding this is decided record by record, so that UTF-8 records
    stay as they are.
    """
    high = len(_HIGH.findall(data))
    if not high or high > MOST_HIGH * len(data) or _UNDEFINED.search(data):
        return None
    decoded = data.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= c <= "\udcff" for c in decoded)
    valid = sum(c > "\x7f" for c in decoded) - broken
    return None if valid >= broken else data.decode("cp1252").encode()
