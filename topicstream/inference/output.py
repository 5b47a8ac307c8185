"""Topics of documents to a file (.parquet, .jsonl, .csv) or a stream, block by block; a file appears when it is complete."""

from __future__ import annotations

import csv
import fcntl
import glob
import io
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from topicstream.errors import InputError, NotOurs, TopicsError, UsageError, json_line
from topicstream.files import owned
from topicstream.files.durable import sync_file, sync_folder
from topicstream.files.ownership import kind_of, temporary, told
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


class Format(Protocol):
    """``encode`` runs in any thread, ``write`` takes what it gave, in order; ``more``: metadata, a column a name."""

    def encode(self, ids: Any, lists: Lists, about: About | None, more: More | None = None) -> Any: ...
    def write(self, encoded: Any) -> None: ...
    def close(self) -> None: ...


class JsonLines:
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


class Csv(JsonLines):
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


class Table:
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


class Parquet(Table):
    """The columns of ``Table``, in row groups of about a million values."""

    def __init__(self, file: BinaryIO, about: bool, columns: Columns | None = None) -> None:
        import pyarrow.parquet as pq

        super().__init__(about, columns)
        self._rows = self._values = 0
        self._writer = pq.ParquetWriter(
            file,
            self.schema,
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


FORMATS: dict[str, Any] = {".parquet": Parquet, ".jsonl": JsonLines, ".csv": Csv}


def reads_as_ours(path: Path) -> bool:
    """Whether a file is empty, was published by us (``owned.noted``), or holds a report or topics of documents as we write
    them: by its schema, or its first line."""
    if owned.noted(path):
        return True
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "rb") as f:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return False
        if about.st_size == 0:
            return True
        if path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                names = pq.ParquetFile(f).schema_arrow.names
            except (pa.ArrowException, ValueError, OSError):
                return False
            return names[:3] == ["id", "topics", "shares"]
        if path.suffix.lower() in (".html", ".htm"):
            return b'<meta name="generator" content="topicstream">' in f.read(1 << 12)
        line = f.readline(1 << 26)
        if path.suffix == ".csv":
            return line.startswith(csv_head(False)[:-1])
        try:
            first = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and list(first)[:3] == ["id", "topics", "shares"]  # metadata may follow


def check_output(path: Path, option: str, inputs: Iterable[Any], *, force: bool) -> None:
    """Before any work: a file that is there is ours and may be replaced (``force``), and ``path`` is no input, nor lies in
    one, nor in a folder of ours."""
    real = Path(os.path.realpath(path))
    for given in inputs:
        source = Path(os.path.realpath(given))
        if real == source or (path.exists() and source.exists() and os.path.samefile(path, source)):
            raise UsageError(f"{option} {path}: is the input itself; name another file")
        if source.is_dir() and source in real.parents:
            raise UsageError(f"{option} {path}: lies in the input {given}; name a file outside of it")
    for folder in list(real.parents)[:6]:
        if (kind := kind_of(folder)) not in (None, "retrain"):
            raise UsageError(f"{option} {path}: lies in {folder}, {told(str(kind))}; name a file outside of it")
    if os.path.lexists(path):
        if not force:
            raise TopicsError(f"{path}: exists; --force replaces it")
        if not reads_as_ours(path):
            what = "does not hold topics of documents" if path.suffix in FORMATS else "was not written by this program"
            raise NotOurs(f"{path}: {what}; move it away, or name another file")


@contextmanager
def written(path: Path, *, force: bool, option: str = "--out", inputs: Iterable[Any] = ()) -> Iterator[BinaryIO]:
    """A file that a user named, which appears when it is complete; see ``check_output`` for what is refused."""
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: no such folder {path.parent}")
    check_output(path, option, inputs, force=force)
    _sweep(path)
    beside = temporary(path)
    try:
        with owned.create(beside) as f:
            fcntl.flock(f, fcntl.LOCK_EX)  # says that this one is being written
            yield f
        sync_file(beside)
        owned.publish(beside, path, force=force, ours=reads_as_ours(path))
    finally:
        owned.discard(beside)
    sync_folder(path.parent)


def _sweep(path: Path) -> None:
    """Remove what killed runs left of writing this very file: they held a lock on it while they lived."""
    for stray in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not re.fullmatch(r"[0-9a-f]{16}", stray.name[len(path.name) + 2 : -4]):
            continue
        with suppress(OSError):
            fd = os.open(stray, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                owned.remove_left(stray, os.fstat(fd))
            finally:
                os.close(fd)


class OutputFile:
    """A file written beside and renamed when ``commit`` is called; left alone when it is not (use as a context).

    force: a file of ours that is there may be replaced (another's never);  inputs: what is read, which it must not be.
    """

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
        self.path = Path(path)
        if self.path.suffix not in FORMATS:
            raise InputError(f"{option} {path}: the name must end in {', '.join(FORMATS)}")
        if not self.path.parent.is_dir():
            raise InputError(f"{option} {path}: no such folder {self.path.parent}")
        self._force = force
        check_output(self.path, option, inputs, force=force)
        _sweep(self.path)
        self._beside = temporary(self.path)
        self._file = owned.create(self._beside)
        fcntl.flock(self._file, fcntl.LOCK_EX)  # says that this one is being written
        self._done = False
        self.format: Format = FORMATS[self.path.suffix](self._file, about, columns)

    def __enter__(self) -> OutputFile:
        return self

    def commit(self) -> None:
        """Finish the file and put it in its place."""
        self.format.close()
        self._file.close()
        sync_file(self._beside)
        owned.publish(self._beside, self.path, force=self._force, ours=reads_as_ours(self.path))
        sync_folder(self.path.parent)
        self._done = True

    def __exit__(self, *exc: object) -> None:
        if not self._done:
            with suppress(Exception):  # a Parquet writer must not outlive its file; what failed is being told
                self.format.close()
            self._file.close()
            owned.discard(self._beside)
