"""Topics of documents to a file (.parquet, .jsonl, .csv) or a stream, block by block; a file appears when it is complete."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from topicstream.errors import InputError, json_line
from topicstream.files import owned
from topicstream.files.outputs import PARQUET_MARK, OutputFile, check_output, marked_parquet
from topicstream.inference.documents import FLAGS
from topicstream.inference.keep import Lists
from topicstream.inference.text import csv_head, csv_lines, json_lines

About = tuple[np.ndarray, np.ndarray, np.ndarray]
More = Mapping[str, Any]
Columns = Mapping[str, Any]
"""Metadata beside the answers: name -> Arrow array; name -> its Arrow type."""
VALUES_OF_GROUP = 1 << 20
ROWS_OF_GROUP = 1 << 16


_QUOTED_ID = re.compile(rb'^(\{"id": )"(-?\d+)"', re.MULTILINE)


class AnswerFormat(Protocol):
    """``encode`` runs in any thread, ``write`` takes what it gave, in order; ``more``: metadata, a column a name."""

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> Any: ...
    def write(self, encoded: Any) -> None: ...
    def close(self) -> None: ...


class JsonAnswers:
    """A line a document: {"id": ..., "topics": [...], "shares": [...], ...}."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        self._file = file

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> memoryview | bytes:
        whole = not str(ids.type).endswith("string")
        lines: memoryview | bytes = json_lines(ids.cast("large_string"), lists, about)
        if whole:
            lines = _QUOTED_ID.sub(rb"\1\2", bytes(lines))
        if not more:
            return lines
        added = (json_line(dict(zip(more, row, strict=True)))[1:].encode() for row in _rows(more))
        return b"".join(b"%b, %b\n" % (line[:-1], m) for line, m in zip(bytes(lines).split(b"\n"), added, strict=False))

    def write(self, encoded: memoryview | bytes) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        self._file.flush()


class CsvAnswers(JsonAnswers):
    """A line a document and topic, under a head line."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        super().__init__(file, about)
        head = csv_head(about)
        if columns := {k: v for k, v in (columns or {}).items() if k != "id"}:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(columns)
            head = head[:-1] + b"," + text.getvalue().encode()
        file.write(head)

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> memoryview | bytes:
        if not more:
            return csv_lines(ids.cast("large_string"), lists, about)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for d, (name, row) in enumerate(zip(ids.to_pylist(), _rows(more), strict=True)):
            facts = [f"{about[0][d]:.9g}", f"{about[1][d]:.9g}", FLAGS[about[2][d]]] if about is not None else []
            facts += [";".join(map(str, v)) if isinstance(v, list) else v for v in row]
            first, last = lists.offsets[d], lists.offsets[d + 1]
            for k, share in zip(lists.topics[first:last], lists.shares[first:last], strict=True):
                writer.writerow([name, int(k), f"{share:.9g}", *facts])
            if first == last:
                writer.writerow([name, "", "", *facts])
        return text.getvalue().encode()


def _rows(more: More) -> Any:
    return zip(*(column.to_pylist() for column in more.values()), strict=True)


class AnswerTable:
    """Answers in memory, as Arrow: id large_string (int64 where ``columns`` says so), topics list<int32>, shares list<float>; with ``about`` tokens, oov_rate
    double, flag string; then the columns."""

    def __init__(self, about: bool = True, columns: Columns | None = None) -> None:
        import pyarrow as pa

        self._pa = pa
        lists = [("topics", pa.list_(pa.int32())), ("shares", pa.list_(pa.float32()))]
        facts = [("tokens", pa.float64()), ("oov_rate", pa.float64()), ("flag", pa.string())] if about else []
        more = dict(columns or {})
        self.schema = pa.schema([("id", more.pop("id", pa.large_string())), *lists, *facts, *more.items()])
        self._flags = pa.array([None, *FLAGS[1:]], pa.string())
        self._held: list[Any] = []

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> Any:
        pa = self._pa
        offsets = pa.array(lists.offsets.astype(np.int32))
        columns = [pa.ListArray.from_arrays(offsets, pa.array(v)) for v in (lists.topics, lists.shares)]
        if about is not None:
            tokens, rates, flags = about
            columns += [pa.array(tokens), pa.array(rates), self._flags.take(pa.array(flags))]
        for name, column in (more or {}).items():
            columns.append(column.cast(self.schema.field(name).type))
        return pa.table([ids.cast(self.schema.field("id").type), *columns], schema=self.schema)

    def write(self, encoded: Any) -> None:
        self._held.append(encoded)

    def close(self) -> None:
        """Nothing to close."""

    def table(self) -> Any:
        """All that was written, ``pyarrow.Table``."""
        return self._pa.concat_tables(self._held) if self._held else self.schema.empty_table()


class ParquetAnswers(AnswerTable):
    """The columns of ``Table``, in row groups of about a million values."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        import pyarrow.parquet as pq

        super().__init__(about, columns)
        self._rows = self._values = 0
        self._writer = pq.ParquetWriter(
            file,
            self.schema.with_metadata(PARQUET_MARK),
            compression="lz4",
            use_dictionary=["topics.list.element", "flag"],
            write_statistics=False,
        )

    def write(self, encoded: Any) -> None:
        self._held.append(encoded)
        self._rows += len(encoded)
        self._values += encoded.nbytes // 8
        if self._rows >= ROWS_OF_GROUP or self._values >= VALUES_OF_GROUP:
            self._group()

    def _group(self) -> None:
        if self._held:
            self._writer.write_table(self._pa.concat_tables(self._held))
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
        return line.startswith(csv_head(False)[:-1])
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
