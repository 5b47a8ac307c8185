"""Output of the topics of documents to a file (.parquet, .jsonl, .csv) or a stream.

Blocks are written one by one, and a file appears when it is complete. Answers are record batches of
one schema: id, topics list<int32>, shares list<float>, the facts (tokens, oov_rate, flag) where
they are known, then metadata.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from topicstream.base.errors import UsageError
from topicstream.base.files.outputs import check_output, written
from topicstream.inference.documents import FLAGS, Documents
from topicstream.numeric.kernels.arrays import Floats, Ints, Longs
from topicstream.numeric.kernels.jit import kernel


@dataclass(frozen=True)
class Lists:
    """Topics of documents as lists.

    Attributes
    ----------
    offsets
        int64[D + 1], where the list of each document begins.
    topics, shares
        int32[n] and float32[n], the topics of all lists and their shares.
    """

    offsets: np.ndarray
    topics: np.ndarray
    shares: np.ndarray


@kernel
def _keep(
    shares: Floats, top: int, least: float, offsets: Longs, topics: Ints, values: Floats
) -> int:
    """Select the ``top`` largest of each row that are >= least, largest first.

    Of equal ones the lower topic comes first.
    """
    n = 0
    for d in range(shares.shape[0]):
        begin = n
        for k in range(shares.shape[1]):
            v = shares[d, k]
            if v < least:
                continue
            if n - begin == top:
                if v <= values[n - 1]:
                    continue
                n -= 1
            at = n
            while at > begin and values[at - 1] < v:
                values[at] = values[at - 1]
                topics[at] = topics[at - 1]
                at -= 1
            values[at] = v
            topics[at] = k
            n += 1
        offsets[d + 1] = n
    return n


def select_topics(
    shares: np.ndarray, top: int | None = None, min_prob: float | None = None
) -> Lists:
    """Turn the shares of documents, float32[D, K], into lists of topics.

    Parameters
    ----------
    top
        Most topics of a document.
    min_prob
        Least share of a topic.

    Returns
    -------
    Lists
        Every topic by number where neither is given, else the largest first.
    """
    docs, topics = shares.shape
    if top is None and min_prob is None:
        numbers = np.tile(np.arange(topics, dtype=np.int32), docs)
        return Lists(np.arange(docs + 1, dtype=np.int64) * topics, numbers, shares.ravel())
    most = topics if top is None else min(top, topics)
    offsets = np.zeros(docs + 1, np.int64)
    numbers = np.empty(docs * most, np.int32)
    values = np.empty(docs * most, np.float32)
    least = np.float32(0.0 if min_prob is None else min_prob)
    n = _keep(np.ascontiguousarray(shares), most, least, offsets, numbers, values)
    return Lists(offsets, numbers[:n], values[:n])


VALUES_OF_GROUP = 1 << 20
ROWS_OF_GROUP = 1 << 16
"""Values and rows from which on a group of a Parquet file is written."""
CSV_NAMES = {"topics": "topic", "shares": "share"}
_FACTS = {"tokens": pa.float64(), "oov_rate": pa.float64(), "flag": pa.string()}
_FLAGS = pa.array([None, *FLAGS[1:]], pa.string())


def answer_schema(
    columns: Mapping[str, pa.DataType] | None = None, *, facts: bool, integer_ids: bool = False
) -> pa.Schema:
    """Build the schema of answers.

    Parameters
    ----------
    columns
        Types of columns of metadata by name.
    facts
        Whether tokens, oov_rate and flag are known.
    integer_ids
        Whether the ids are whole numbers.
    """
    fields = [
        ("id", pa.int64() if integer_ids else pa.large_string()),
        ("topics", pa.list_(pa.int32())),
        ("shares", pa.list_(pa.float32())),
    ]
    if facts:
        fields += _FACTS.items()
    fields += (columns or {}).items()
    return pa.schema(fields)


def document_facts(docs: Documents) -> list[pa.Array]:
    """Return tokens, oov_rate and flag (null: none) of documents."""
    rates = docs.unknown / np.maximum(docs.tokens, 1e-300)
    return [pa.array(docs.tokens), pa.array(rates), _FLAGS.take(pa.array(docs.flags))]


def answer_batch(
    schema: pa.Schema, ids: pa.Array, lists: Lists, beside: Iterable[pa.Array] = ()
) -> pa.RecordBatch:
    """Build one record batch of answers.

    The ids keep their type, whatever the schema says. ``beside`` holds the columns of the schema
    after ``shares``, in their order.
    """
    offsets = pa.array(lists.offsets.astype(np.int32))
    topics = pa.ListArray.from_arrays(offsets, pa.array(lists.topics))
    shares = pa.ListArray.from_arrays(offsets, pa.array(lists.shares))
    arrays = [ids]
    for array, field in zip([topics, shares, *beside], list(schema)[1:], strict=True):
        arrays.append(array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.set(0, pa.field("id", ids.type)))


class AnswerFormat(Protocol):
    """A format of answers."""

    def encode(self, answers: pa.RecordBatch) -> Any:
        """Turn a batch into what ``write`` takes. Any thread may call it."""

    def write(self, encoded: Any) -> None:
        """Append a batch. Batches come in order."""

    def close(self) -> None:
        """Write what is left."""


class _Stream:
    """Bytes written one after the other."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self.file = file

    def write(self, encoded: Any) -> None:
        """Append the bytes of a batch."""
        self.file.write(encoded)

    def close(self) -> None:
        """Pass what is buffered to the system, leaving the file open."""
        self.file.flush()


class JsonAnswers(_Stream):
    """A line a document: {"id": ..., "topics": [...], "shares": [...], ...}.

    Shares read back as the same float32.
    """

    def encode(self, answers: pa.RecordBatch) -> bytes:
        ids, topics, shares, *beside = answers.columns
        names = answers.schema.names[3:]
        offsets = topics.offsets.to_numpy().tolist()
        rows = zip(*(column.to_pylist() for column in (ids, *beside)), strict=True)
        topics = topics.values.to_numpy()
        shares = shares.values.to_numpy()
        lines = []
        for first, last, (name, *values) in zip(offsets, offsets[1:], rows, strict=False):
            line = {"id": name, "topics": topics[first:last], "shares": shares[first:last]}
            line.update(zip(names, values, strict=True))
            lines.append(
                orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
            )
        return b"".join(lines)


class CsvAnswers(_Stream):
    """A line a document and topic, under a head line.

    A document without any topic has one line with both empty.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(file, schema)
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(
            [CSV_NAMES.get(name, name) for name in schema.names]
        )
        file.write(head.getvalue().encode())

    def encode(self, answers: pa.RecordBatch) -> Any:
        ids, topics, shares, *beside = answers.columns
        lengths = np.diff(topics.offsets.to_numpy())
        lines = np.maximum(lengths, 1)
        document = pa.array(np.repeat(np.arange(len(lengths)), lines))
        # the value of the flat lists that stands on each line; null where the document has none
        places = np.cumsum(np.repeat(lengths > 0, lines)) - 1
        value = pa.array(places, mask=np.repeat(lengths == 0, lines))
        texts = [_as_cells(column) for column in (ids, *beside)]
        columns = [column.take(document) for column in texts]
        columns[1:1] = [topics.values.take(value), shares.values.take(value)]
        return _csv_lines(pa.table(columns, names=answers.schema.names), texts)


def _csv_lines(table: pa.Table, texts: Iterable[pa.Array]) -> Any:
    """Format a table as CSV without a head line.

    ``texts`` are its columns that may need quotes.
    """
    sink = pa.BufferOutputStream()
    style = "needed" if any(map(_needs_quotes, texts)) else "none"
    pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=False, quoting_style=style))
    return sink.getvalue()


def _as_cells(column: pa.Array) -> pa.Array:
    """Convert a column to CSV cells, with the entries of a list joined by semicolons."""
    if not pa.types.is_list(column.type):
        return column
    return pc.binary_join(column, pa.scalar(";", column.type.value_type))


def _needs_quotes(texts: pa.Array) -> bool:
    """Return True if a text would be read as something else without quotes."""
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, '^$|[",\r\n]')).as_py())


class AnswerTable:
    """Answers in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batches: list[pa.RecordBatch] = []

    def encode(self, answers: pa.RecordBatch) -> pa.RecordBatch:
        """Give the ids of a batch the type of the table."""
        ids = answers.column("id").cast(self.schema.field("id").type)
        return pa.RecordBatch.from_arrays([ids, *answers.columns[1:]], schema=self.schema)

    def write(self, encoded: pa.RecordBatch) -> None:
        """Append a batch."""
        self.batches.append(encoded)

    def close(self) -> None:
        """Close nothing: a table has no file."""

    def table(self) -> pa.Table:
        """Return all that was written."""
        return pa.Table.from_batches(self.batches, self.schema)


class ParquetAnswers(AnswerTable):
    """A Parquet file, in row groups of about a million values."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression="lz4",
            use_dictionary=["topics.list.element", "flag"],
            write_statistics=False,
        )

    def write(self, encoded: pa.RecordBatch) -> None:
        super().write(encoded)
        rows = sum(len(batch) for batch in self.batches)
        values = sum(batch.nbytes // 8 for batch in self.batches)
        if rows >= ROWS_OF_GROUP or values >= VALUES_OF_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        """Write the batches so far as a row group."""
        if self.batches:
            self._writer.write_table(self.table())
        self.batches = []

    def close(self) -> None:
        self._write_group()
        self._writer.close()


class WideCsv(CsvAnswers):
    """A line a document, a column for each topic."""

    def encode(self, answers: pa.RecordBatch) -> Any:
        columns = [_as_cells(column) for column in answers.columns]
        return _csv_lines(pa.table(columns, names=answers.schema.names), columns)


FORMATS: dict[str, Any] = {".parquet": ParquetAnswers, ".jsonl": JsonAnswers, ".csv": CsvAnswers}
WIDE: dict[str, Any] = {".parquet": ParquetAnswers, ".csv": WideCsv}
"""Formats that can have a column for each topic."""


def find_format(path: Path, option: str) -> Any:
    """Return the format of a file name.

    Raises
    ------
    UsageError
        No format has this suffix.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"{option} {path}: the name must end in {', '.join(FORMATS)}")
    return FORMATS[path.suffix]


def check_answers(path: str | Path, option: str, inputs: Iterable[object], *, force: bool) -> None:
    """Check the path for topics of documents, and its suffix, by ``check_output``."""
    find_format(Path(path), option)
    check_output(Path(path), option, inputs, force=force)


@contextmanager
def open_answers(
    path: Path,
    schema: pa.Schema,
    *,
    option: str,
    force: bool = False,
    inputs: Iterable[object] = (),
    wide: bool = False,
) -> Iterator[AnswerFormat]:
    """Open a format for a file that a user named (see ``outputs.written``).

    The suffix decides the format.

    Parameters
    ----------
    option, force, inputs
        As of ``outputs.written``.
    wide
        Whether the schema has a column for each topic.
    """
    make = WIDE[path.suffix] if wide else find_format(path, option)
    with written(path, force=force, option=option, inputs=inputs) as file:
        answers: AnswerFormat = make(file, schema)
        try:
            yield answers
        except BaseException:
            # a Parquet writer must not outlive its file; the first error is the one to report
            with suppress(Exception):
                answers.close()
            raise
        answers.close()
