"""Topics of documents to a file (.parquet, .jsonl, .csv) or a stream, block by block; a file appears when it is complete."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from topicstream.arrow import pc
from topicstream.errors import InputError
from topicstream.files import owned
from topicstream.files.outputs import PARQUET_MARK, OutputFile, check_output, marked_parquet
from topicstream.inference.documents import FLAGS
from topicstream.inference.keep import Lists

About = tuple[np.ndarray, np.ndarray, np.ndarray]
More = Mapping[str, Any]
Columns = Mapping[str, Any]
"""Metadata beside the answers: name -> Arrow array; name -> its Arrow type."""
VALUES_OF_GROUP = 1 << 20
ROWS_OF_GROUP = 1 << 16
CSV_HEAD = ("id", "topic", "share")
_FACTS = ("tokens", "oov_rate", "flag")
_FLAGS = pa.array([None, *FLAGS[1:]], pa.string())


class AnswerFormat(Protocol):
    """``encode`` runs in any thread, ``write`` takes what it gave, in order; ``more``: metadata, a column a name."""

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> Any: ...
    def write(self, encoded: Any) -> None: ...
    def close(self) -> None: ...


def fact_columns(about: About | None) -> dict[str, pa.Array]:
    """tokens, oov_rate and flag (null: none) of documents, as Arrow columns; none without ``about``."""
    if about is None:
        return {}
    tokens, rates, flags = about
    return dict(zip(_FACTS, (pa.array(tokens), pa.array(rates), _FLAGS.take(pa.array(flags))), strict=True))


class JsonAnswers:
    """A line a document: {"id": ..., "topics": [...], "shares": [...], ...}.  Shares read back as the same float32."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        self._file = file

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> bytes:
        beside = {**fact_columns(about), **(more or {})}
        rows = zip(*(column.to_pylist() for column in (ids, *beside.values())), strict=True)
        offsets, topics, shares = lists.offsets.tolist(), lists.topics, lists.shares
        lines = []
        for first, last, (name, *values) in zip(offsets, offsets[1:], rows, strict=False):
            line = {"id": name, "topics": topics[first:last], "shares": shares[first:last]}
            line.update(zip(beside, values, strict=True))
            lines.append(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
        return b"".join(lines)

    def write(self, encoded: bytes) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.flush()


class CsvAnswers:
    """A line a document and topic, under a head line; a document without any topic has one line with both empty."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        self._file = file
        head = io.StringIO()
        facts = _FACTS if about else ()
        csv.writer(head, lineterminator="\n").writerow([*CSV_HEAD, *facts, *(k for k in columns or {} if k != "id")])
        file.write(head.getvalue().encode())

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> Any:
        lengths = np.diff(lists.offsets)
        document = pa.array(np.repeat(np.arange(len(lengths)), np.maximum(lengths, 1)))
        none = np.repeat(lengths == 0, np.maximum(lengths, 1))
        topics, shares = np.zeros(len(none), np.int32), np.zeros(len(none), np.float32)
        topics[~none], shares[~none] = lists.topics, lists.shares
        beside = {**fact_columns(about), **(more or {})}
        columns = [ids.take(document), pa.array(topics, mask=none), pa.array(shares, mask=none)]
        columns += [_as_cells(column).take(document) for column in beside.values()]
        table = pa.table(columns, [*CSV_HEAD, *beside])
        quoted = any(_needs_quotes(c) for c in (ids, *beside.values()))
        sink = pa.BufferOutputStream()
        options = pacsv.WriteOptions(include_header=False, quoting_style="needed" if quoted else "none")
        pacsv.write_csv(table, sink, options)
        return sink.getvalue()

    def write(self, encoded: Any) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.flush()


def _as_cells(column: pa.Array) -> pa.Array:
    """A column as CSV holds it: the entries of a list parted by semicolons."""
    return pc.binary_join(column, pa.scalar(";", column.type.value_type)) if pa.types.is_list(column.type) else column


def _needs_quotes(column: pa.Array) -> bool:
    """Whether a text of the column would be read as something else without quotes."""
    texts = _as_cells(column)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return False
    return bool(pc.any(pc.match_substring_regex(texts, '^$|[",\r\n]')).as_py())


class AnswerTable:
    """Answers in memory, as Arrow: id large_string (int64 where ``columns`` says so), topics list<int32>, shares list<float>; with ``about`` tokens, oov_rate
    double, flag string; then the columns."""

    def __init__(self, about: bool = True, columns: Columns | None = None) -> None:
        lists = [("topics", pa.list_(pa.int32())), ("shares", pa.list_(pa.float32()))]
        facts = [("tokens", pa.float64()), ("oov_rate", pa.float64()), ("flag", pa.string())] if about else []
        more = dict(columns or {})
        self.schema = pa.schema([("id", more.pop("id", pa.large_string())), *lists, *facts, *more.items()])
        self._held: list[pa.Table] = []

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> pa.Table:
        offsets = pa.array(lists.offsets.astype(np.int32))
        columns = [pa.ListArray.from_arrays(offsets, pa.array(v)) for v in (lists.topics, lists.shares)]
        columns += fact_columns(about).values()
        columns += [column.cast(self.schema.field(name).type) for name, column in (more or {}).items()]
        return pa.table([ids.cast(self.schema.field("id").type), *columns], schema=self.schema)

    def write(self, encoded: pa.Table) -> None:
        self._held.append(encoded)

    def close(self) -> None:
        """Nothing to close."""

    def table(self) -> pa.Table:
        """All that was written."""
        return pa.concat_tables(self._held) if self._held else self.schema.empty_table()


class ParquetAnswers(AnswerTable):
    """The columns of ``AnswerTable``, in row groups of about a million values."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        super().__init__(about, columns)
        self._rows = self._values = 0
        self._writer = pq.ParquetWriter(
            file,
            self.schema.with_metadata(PARQUET_MARK),
            compression="lz4",
            use_dictionary=["topics.list.element", "flag"],
            write_statistics=False,
        )

    def write(self, encoded: pa.Table) -> None:
        self._held.append(encoded)
        self._rows += len(encoded)
        self._values += encoded.nbytes // 8
        if self._rows >= ROWS_OF_GROUP or self._values >= VALUES_OF_GROUP:
            self._group()

    def _group(self) -> None:
        if self._held:
            self._writer.write_table(self.table())
        self._held, self._rows, self._values = [], 0, 0

    def close(self) -> None:
        self._group()
        self._writer.close()


FORMATS: dict[str, Any] = {".parquet": ParquetAnswers, ".jsonl": JsonAnswers, ".csv": CsvAnswers}


def _reads_as_ours(path: Path, f: BinaryIO) -> bool:
    """Whether a file holds topics of documents as we write them: by its mark, or its first line where nothing else can say it."""
    if path.suffix == ".parquet":
        return marked_parquet(f)
    if owned.keeps_notes(path):
        return False
    line = f.readline(1 << 26)
    if path.suffix == ".csv":
        return line.startswith(",".join(CSV_HEAD).encode())
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and list(first)[:3] == ["id", "topics", "shares"]  # metadata may follow


def _named(path: Path, option: str) -> Any:
    """The format that the name tells."""
    if path.suffix not in FORMATS:
        raise InputError(f"{option} {path}: the name must end in {', '.join(FORMATS)}")
    return FORMATS[path.suffix]


def check_answers(path: str | Path, option: str, inputs: Iterable[Any], *, force: bool) -> None:
    """``check_output`` for topics of documents, and of the name."""
    _named(Path(path), option)
    check_output(Path(path), option, inputs, force=force, reads=partial(_reads_as_ours, Path(path)))


class AnswersFile:
    """Topics of documents to a file that a user named (``outputs.OutputFile``), in the format that its name tells."""

    def __init__(
        self,
        path: str | Path,
        *,
        about: bool,
        option: str,
        force: bool = False,
        inputs: Iterable[Any] = (),
        columns: Columns | None = None,
    ) -> None:
        place = Path(path)
        make = _named(place, option)
        self._out = OutputFile(place, option, force=force, inputs=inputs, reads=partial(_reads_as_ours, place))
        self.format: AnswerFormat = make(self._out.file, about, columns)

    def __enter__(self) -> AnswersFile:
        return self

    def commit(self) -> None:
        """Finish the file and put it in its place."""
        self.format.close()
        self._out.commit()

    def __exit__(self, *exc: object) -> None:
        if not self._out.file.closed:
            with suppress(Exception):  # a Parquet writer must not outlive its file; what failed is being told
                self.format.close()
        self._out.__exit__(*exc)
